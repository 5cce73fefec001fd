// The packed JavaScript client, installed into an empty project: in Node, in a browser, and for TypeScript.

import assert from 'node:assert/strict';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { startBrowser, startStack } from '../web/harness.mjs';
import { newApp, repository, run } from './app.mjs';

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack;
/** @type {Awaited<ReturnType<typeof newApp>>} */
let app;
before(async () => {
  [stack, app] = await Promise.all([startStack(), newApp()]);
});
after(async () => {
  await stack?.stop();
  if (app) await rm(app.folder, { recursive: true });
});

/** @param {string} path */
const text = (path) => readFile(repository(path), 'utf8');

test('the package has its files, the licence and the version of the API', async () => {
  const manifest = JSON.parse(await text('clients/js/package.json'));
  const names = app.packed.files.map((/** @type {{path: string}} */ { path }) => path).sort();
  assert.deepEqual(names, ['LICENSE', 'README.md', 'package.json', ...manifest.files].sort());
  for (const target of Object.values(manifest.exports).flatMap(Object.values)) assert.ok(names.includes(target.slice(2)), target);
  for (const client of ['js', 'rust']) assert.equal(await text(`clients/${client}/LICENSE`), await text('LICENSE'), client);
  const versions = [/^ {2}version: (\S+)$/m.exec(await text('openapi.yaml')), /^version = "(\S+)"$/m.exec(await text('Cargo.toml'))];
  assert.deepEqual(versions.map((found) => found?.[1]), [manifest.version, manifest.version]);
  assert.ok(!manifest.private && !manifest.dependencies && !manifest.scripts);
});

// What both run. `baseUrl` is empty on a page of the same origin.
const USE = `
import { Hongbao, Problem, newKey, requestIdOf } from 'hongbao-client';
import { verify } from 'hongbao-client/webhooks';

export async function use(baseUrl, one) {
  const operator = new Hongbao({ baseUrl });
  const [sender, winner] = [newKey(), newKey()];
  await operator.deposit(sender, newKey(), 500);
  const { packet } = await operator.forUser(sender).send({ split: 'equal', total_amount: 500, count: 1 }, { key: newKey() });
  const won = await operator.forUser(winner).grab(packet.packet_id);
  const { outcome, amount } = won;
  const loser = await operator.forUser(newKey()).grab(packet.packet_id);
  const refused = await operator.anyPacket('none').catch((error) => error instanceof Problem && error.code);
  const event = await verify(one.secret, one.headers, one.body, { now: one.now * 1000 });
  return [outcome, amount, requestIdOf(won) !== '', loser.outcome, refused, event.type];
}
`;
const EXPECTED = ['grabbed', 500, true, 'sold_out', 'packet-not-found', 'SlipClaimed'];

async function delivery() {
  const cases = JSON.parse(await text('tests/clients/webhooks.json'));
  return cases.find((/** @type {{name: string}} */ { name }) => name === 'an event');
}

test('it works in Node', async () => {
  await writeFile(join(app.folder, 'use.mjs'), USE);
  const code = 'import("./use.mjs").then(({ use }) => use(process.argv[1], JSON.parse(process.argv[2]))).then((said) => console.log(JSON.stringify(said)))';
  const said = await run('node', ['-e', code, stack.url, JSON.stringify(await delivery())], app.folder);
  assert.deepEqual(JSON.parse(said), EXPECTED);
});

test('it works in a browser, from the files of the package', async () => {
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    /** @type {string[]} */
    const faults = [];
    page.on('pageerror', (error) => faults.push(error.message));
    const imports = { 'hongbao-client': '/app/hongbao.js', 'hongbao-client/webhooks': '/app/webhooks.js' };
    const html = `<!doctype html><script type="importmap">${JSON.stringify({ imports })}</script>
      <script type="module">${USE.replace('export async function use', 'window.use = async function')}</script>`;
    await page.route('**/app/**', async (route) => {
      const name = new URL(route.request().url()).pathname.slice('/app/'.length);
      if (name === '') await route.fulfill({ contentType: 'text/html', body: html });
      else await route.fulfill({ path: join(app.folder, 'node_modules/hongbao-client', name) });
    });
    await page.goto(`${stack.url}/app/`);
    const said = await page.evaluate((one) => /** @type {any} */ (window).use('', one), await delivery());
    assert.deepEqual([said, faults], [EXPECTED, []]);
  } finally {
    await browser.close();
  }
});

test('a strict program in TypeScript compiles with its types', async () => {
  const program = `
    import { Hongbao, newKey, type GrabResult, type Packet } from 'hongbao-client';
    import { verify, type WebhookEvent } from 'hongbao-client/webhooks';
    export async function use(hongbao: Hongbao): Promise<number> {
      const { packet }: { packet: Packet } = await hongbao.send({ split: 'random', total_amount: 10, count: 2 }, { key: newKey() });
      const result: GrabResult = await hongbao.grab(packet.packet_id);
      return result.outcome === 'grabbed' ? result.amount : 0;
    }
    export async function paid(headers: Headers, body: string): Promise<number> {
      const event: WebhookEvent = await verify('whsec_', headers, body);
      // @ts-expect-error: only some events have an amount.
      event.data.amount.toFixed();
      return event.type === 'SlipClaimed' ? event.data.amount : 0;
    }`;
  await writeFile(join(app.folder, 'use.ts'), program);
  const compiles = async (/** @type {string[]} */ ...types) => {
    const strict = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false', '--target', 'es2022'];
    for (const way of [['commonjs', 'node10'], ['node16', 'node16'], ['nodenext', 'nodenext'], ['esnext', 'bundler']]) {
      const [module = '', resolution = ''] = way;
      await run(repository('tests/web/node_modules/.bin/tsc'), [...strict, ...types, '--module', module, '--moduleResolution', resolution, 'use.ts'], app.folder);
    }
  };
  await compiles('--lib', 'es2022,dom');
  // Node's own types, without those of a browser.
  for (const name of ['@types/node', 'undici-types']) {
    await cp(repository(`tests/clients/tools/node_modules/${name}`), join(app.folder, 'node_modules', name), { recursive: true });
  }
  await compiles('--lib', 'es2022', '--types', 'node');
});
