// The tools that read openapi.yaml: linters, a mock, and generators. Each generated client is type-checked strictly, and makes the calls
// of the walk-through on a running stack.

import assert from 'node:assert/strict';
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { before, test } from 'node:test';

import { startStack } from '../web/harness.mjs';
import { freePort, python, repository, run, start } from './app.mjs';

const DOCUMENT = repository('openapi.yaml');
const TOOLS = repository('tests/clients/tools');
const MADE = repository('target/clients');

before(async () => {
  await rm(MADE, { recursive: true, force: true });
  await mkdir(MADE, { recursive: true });
  await symlink(`${TOOLS}/node_modules`, `${MADE}/node_modules`);
});

/** @param {string} name @param {string[]} args @param {Record<string, string>} [env] */
const tool = (name, args, env) => run(`${TOOLS}/node_modules/.bin/${name}`, args, MADE, env);
/** The flags that INTEGRATE names for a tool. @param {string} name @param {string} [first] */
async function flags(name, first = '-') {
  const page = await readFile(repository('docs/INTEGRATE.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `([^`]+)` \| [^|]+ \| `([^|]+)` \|/gm)];
  const [, , given] = rows.find(([, tool, text = '']) => tool === name && text.startsWith(first)) ?? assert.fail(`${name} ${first}`);
  return (given ?? '').split(' ');
}
/** @param {string} generator @param {string} output @param {string[]} [more] */
const openapiGenerator = async (generator, output, more = []) =>
  run(repository('.tools/clients/bin/openapi-generator-cli'), ['generate', '-i', DOCUMENT, '-o', output, ...(await flags('openapi-generator-cli', `-g ${generator}`)), ...more], MADE);

/** Every rule that a linter recommends holds; there is no exception. */
test('Redocly and Spectral find nothing', async () => {
  const said = await tool('redocly', ['lint', DOCUMENT, '--extends=recommended', '--format=json'], { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' });
  assert.deepEqual(JSON.parse(said).problems, []);
  await writeFile(`${MADE}/spectral.yaml`, 'extends: [[spectral:oas, recommended]]\n');
  const found = await tool('spectral', ['lint', DOCUMENT, '--ruleset', `${MADE}/spectral.yaml`, '--format=json', '--quiet']);
  assert.deepEqual(JSON.parse(found), []);
});

test('Prism serves the examples', async () => {
  const port = await freePort();
  const prism = await start(`${TOOLS}/node_modules/.bin/prism`, ['mock', '--port', `${port}`, DOCUMENT], { cwd: MADE }, /(listening) on/);
  try {
    const ask = async (/** @type {string} */ method, /** @type {string} */ path, /** @type {unknown} */ body, /** @type {Record<string, string>} */ more = {}) => {
      const headers = { authorization: 'Bearer token', 'content-type': 'application/json', 'idempotency-key': 'k', ...more };
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
      const { status, outcome, code, packets } = await answer.json();
      return [answer.status, code ?? outcome ?? packets?.length ?? status];
    };
    const packet = '/packets/38FS4S83HF3Y07WMYNH727QYT0';
    const send = { split: 'random', total_amount: 100, count: 3 };
    assert.deepEqual(await ask('POST', '/packets', send, { prefer: 'code=201' }), [201, 'open']);
    assert.deepEqual(await ask('POST', `${packet}/grab`, {}), [200, 'grabbed']);
    assert.deepEqual(await ask('POST', `${packet}/grab`, {}, { prefer: 'example=sold_out' }), [200, 'sold_out']);
    assert.deepEqual(await ask('POST', `${packet}/grab`, { passphrase: 1 }), [400, 'invalid-request']);
    assert.deepEqual(await ask('GET', '/me/packets?limit=1', undefined), [200, 2]);
    assert.deepEqual(await ask('GET', '/me/packets?limit=0', undefined), [400, 'invalid-request']);
    // Prism prefers 422 to 400 where both are documented, and 200 to 201.
    assert.deepEqual(await ask('POST', '/packets', { ...send, split: 'half' }), [422, 'idempotency-key-reused']);
  } finally {
    await prism.stop();
  }
});

/** How each generator makes a client in a folder, for the stack at `url`. @type {Record<string, (folder: string, url: string) => Promise<unknown>>} */
const TYPESCRIPT = {
  'openapi-fetch': (folder) => tool('openapi-typescript', [DOCUMENT, '-o', `${folder}/generated.d.ts`]),
  'hey-api': async (folder) => tool('openapi-ts', ['-i', DOCUMENT, '-o', `${folder}/generated`, ...(await flags('@hey-api/openapi-ts'))]),
  orval: async (folder, baseUrl) => {
    const of = (/** @type {object} */ output) => ({ input: DOCUMENT, output });
    const client = of({ target: `${folder}/generated/client.ts`, client: 'fetch', baseUrl });
    const config = { client, zod: of({ target: `${folder}/generated/zod.ts`, client: 'zod' }) };
    await writeFile(`${folder}/orval.config.cjs`, `module.exports = ${JSON.stringify(config)};`);
    await tool('orval', ['--config', `${folder}/orval.config.cjs`]);
  },
  'openapi-generator': (folder) => openapiGenerator('typescript-fetch', `${folder}/generated`),
};
const STRICT = '--strict --skipLibCheck false --target es2022 --module commonjs --moduleResolution node10 --esModuleInterop --lib es2023,dom,dom.iterable,dom.asynciterable --types node';

for (const [name, generate] of Object.entries(TYPESCRIPT)) {
  test(`${name}: the walk-through in TypeScript`, async () => {
    const [stack, folder] = [await startStack(), `${MADE}/${name}`];
    try {
      await mkdir(folder);
      await generate(folder, stack.url);
      for (const [from, to] of [['walk.ts', 'walk.ts'], [`${name}.ts`, 'main.ts']]) await cp(`${TOOLS}/${from}`, `${folder}/${to}`);
      await tool('tsc', [...STRICT.split(' '), '--outDir', `${folder}/out`, `${folder}/main.ts`]);
      assert.match(await run('node', [`${folder}/out/main.js`, stack.url], MADE), /the walk-through works/);
    } finally {
      await stack.stop();
    }
  });
}

/** The same for Python; `make test-clients` makes the client of openapi-python-client before. @type {Record<string, (folder: string) => Promise<unknown>>} */
const PYTHON = {
  openapi_python_client: (folder) => symlink(repository('target/python/hongbao-client/hongbao_client'), `${folder}/hongbao_client`),
  openapi_generator: (folder) => openapiGenerator('python', folder),
  models: async (folder) => {
    const model = ['--output-model-type', 'pydantic_v2.BaseModel', '--target-python-version', '3.11', '--formatters', 'builtin', ...(await flags('datamodel-code-generator'))];
    return python(['-m', 'datamodel_code_generator', '--input', DOCUMENT, '--input-file-type', 'openapi', '--output', `${folder}/generated.py`, ...model]);
  },
};

for (const [name, generate] of Object.entries(PYTHON)) {
  test(`${name}: the walk-through in Python`, async () => {
    const [stack, folder, program] = [await startStack(), `${MADE}/${name}`, `${TOOLS}/${name}.py`];
    try {
      await mkdir(folder);
      await generate(folder);
      await python(['-m', 'mypy', '--strict', '--follow-imports', 'silent', '--cache-dir', `${folder}/cache`, program], { MYPYPATH: folder });
      assert.match(await python([program, stack.url], { PYTHONPATH: folder }), /the walk-through works/);
    } finally {
      await stack.stop();
    }
  });
}

/** Generators that know no `const`, such as that for Go, tell the variants of a `oneOf` apart by `pattern`. */
test('each constant is a pattern too', async () => {
  const lines = (await readFile(DOCUMENT, 'utf8')).split('\n');
  const constants = lines.flatMap((line, place) => {
    const [, indent, value] = /^( {10,})const: (\w+)$/.exec(line) ?? [];
    return value ? [[value, lines[place + 1] === `${indent}pattern: '^${value}$'`]] : [];
  });
  assert.ok(constants.length >= 28, `${constants.length}`);
  assert.deepEqual(constants.filter(([, hasPattern]) => !hasPattern), []);
});

test('openapi-generator: the walk-through in Go', async () => {
  const [stack, folder] = [await startStack(), `${MADE}/go`];
  try {
    await mkdir(folder);
    const more = ['--package-name', 'client', '--additional-properties', 'withGoMod=false', '--global-property', 'models,apis,supportingFiles,modelDocs=false,apiDocs=false,modelTests=false,apiTests=false'];
    await openapiGenerator('go', `${folder}/client`, more);
    await cp(`${TOOLS}/walk.go`, `${folder}/walk.go`);
    await writeFile(`${folder}/go.mod`, 'module walk\n\ngo 1.23\n');
    await run(repository('.tools/clients/bin/go'), ['build', '-o', 'walk', '.'], folder, { GOTOOLCHAIN: 'local', GOFLAGS: '-mod=mod' });
    assert.match(await run(`${folder}/walk`, [stack.url], folder), /the walk-through works/);
  } finally {
    await stack.stop();
  }
});
