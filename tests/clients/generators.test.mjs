// The tools that read openapi.yaml: linters, a mock, and generators. Each generated client is type-checked strictly, and makes the calls
// of the walk-through on a running stack.

import assert from 'node:assert/strict';
import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
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
/** @param {string} generator @param {string} output */
const openapiGenerator = (generator, output) => run(repository('.tools/clients/bin/openapi-generator-cli'), ['generate', '-i', DOCUMENT, '-g', generator, '-o', output], MADE);

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
  'hey-api': async (folder) => {
    const config = { input: DOCUMENT, output: `${folder}/generated`, plugins: ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/client-fetch', 'zod'] };
    await writeFile(`${folder}/config.mjs`, `export default ${JSON.stringify(config)};`);
    await tool('openapi-ts', ['-f', `${folder}/config.mjs`]);
  },
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
  models: (folder) => {
    const model = ['--output-model-type', 'pydantic_v2.BaseModel', '--target-python-version', '3.11', '--use-annotated', '--formatters', 'builtin'];
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
