// Runs the examples, with every answer of the engine lost once.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { copyFile, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { apiOf, program, startStack } from '../web/harness.mjs';
import { freePort, losingAnswers, newApp, python, repository, run, start } from './app.mjs';

const KEY = 'a secret of 24 bytes or more';
const SECRET = `whsec_${Buffer.from(KEY).toString('base64')}`;
/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack;
/** @type {Awaited<ReturnType<typeof losingAnswers>>} */
let lossy;
/** @type {Awaited<ReturnType<typeof newApp>>} */
let app;
/** @type {ReturnType<typeof apiOf>} */
let api;
before(async () => {
  [stack, app] = await Promise.all([startStack(), newApp()]);
  lossy = await losingAnswers(stack.url);
  api = apiOf(stack.url);
});
after(async () => {
  await lossy?.stop();
  await stack?.stop();
  if (app) await rm(app.folder, { recursive: true });
});

test('INTEGRATE names the tools that are tested, with their versions', async () => {
  const page = await readFile(repository('docs/INTEGRATE.md'), 'utf8');
  const python = await readFile(repository('tests/clients/tools/requirements.txt'), 'utf8');
  const { devDependencies } = JSON.parse(await readFile(repository('tests/clients/tools/package.json'), 'utf8'));
  /** @type {Record<string, string>} */
  const versions = { ...devDependencies, ...Object.fromEntries(python.trim().split('\n').map((line) => line.split('=='))) };
  const rows = page.split('\n## Tools that read openapi.yaml\n')[1]?.split('\n## ')[0]?.matchAll(/^\| (`[^|]+) \| ([0-9][^|]+) \|/gm) ?? [];
  const named = [...rows].flatMap(([, names = '', tried = '']) => names.split(', ').map((name, place) => ({ name: name.replaceAll('`', ''), tried: tried.split(', ')[place] })));
  assert.ok(named.length >= 10, `${named.length}`);
  for (const { name, tried } of named) assert.equal(tried, versions[name], name);
  assert.ok(page.includes(`pip install openapi-python-client==${versions['openapi-python-client']}\n`));
});

/** @param {string[]} users @param {ReturnType<typeof apiOf>} [of] */
async function holdsNothing(users, of = api) {
  for (const user of users) {
    assert.equal((await of(user, 'GET', '/me/wallet')).balance, 0, `the engine holds no money of ${user}`);
    const { movements } = await of(user, 'GET', `/wallets/${user}/movements?limit=100`);
    assert.equal(movements.reduce((/** @type {number} */ sum, /** @type {{amount: number}} */ { amount }) => sum + amount, 0), 0);
  }
}

test('the shop’s accounts balance after an evening', async () => {
  const said = await python(['examples/shop.py'], { HONGBAO_URL: lossy.url });
  // It prints its balances and its transfers.
  const [, balances = '', transfers] = /^\{(.*)\} \[(.*)\]$/.exec(said.trim()) ?? [];
  const each = balances.split(', ').map((pair) => pair.split(': '));
  assert.equal(each.reduce((sum, [, balance]) => sum + Number(balance), 0), 20_000, said);
  assert.equal(transfers, "'in done', 'out done', 'out done', 'out done', 'out refused'");
  await holdsNothing(each.map(([user = '']) => user.replaceAll("'", '')));
  assert.ok(lossy.lost.size >= 9, `${lossy.lost.size} requests`);
});

test('if the shop dies between a transfer’s steps, its worker completes the transfer once', async () => {
  const code = `
import shop
from hongbao_client.models import MovementRequest
shop.balances["shop-eve"] = 700
key = shop.begin_deposit("shop-eve", 500)
# It dies after the deposit, before it marks the transfer as done.
shop.ask(shop.deposit, "shop-eve", key, client=shop.operator, body=MovementRequest(amount=500))
shop.carry_out(key)
shop.carry_out(key)
print(shop.balances["shop-eve"], shop.transfers[key]["state"])`;
  assert.equal((await python(['-c', code], { HONGBAO_URL: lossy.url })).trim(), '200 done');
  assert.equal((await api('shop-eve', 'GET', '/me/wallet')).balance, 500);
});

/** Starts the chat. @param {string} [engine] @param {number} [port] */
async function chat(engine = lossy.url, port = 0) {
  await copyFile(repository('examples/chat.mjs'), join(app.folder, 'chat.mjs'));
  const env = { HONGBAO_URL: engine, HONGBAO_WEBHOOK_SECRET: SECRET, PORT: String(port) };
  const { said: url, stop } = await start('node', ['chat.mjs'], { cwd: app.folder, env }, /listens at (\S+)/);
  const say = async (/** @type {string} */ user, /** @type {string} */ text, /** @type {string} */ id = crypto.randomUUID()) => {
    const answer = await fetch(`${url}/messages`, { method: 'POST', body: JSON.stringify({ id, user, text }) });
    assert.equal(answer.status, 200);
    return answer.text();
  };
  /** Delivers an event as the engine does. @param {string} type @param {object} data @param {{key?: string, at?: number}} [forged] */
  const deliver = async (type, data, { key = KEY, at = Date.now() } = {}) => {
    const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data });
    const [id, timestamp] = [crypto.randomUUID(), String(Math.floor(at / 1_000))];
    const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
    const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
    return (await fetch(`${url}/webhooks`, { method: 'POST', headers, body })).status;
  };
  return { say, deliver, stop };
}

test('the chat pays each slip and each refund once, if messages and events come twice', async () => {
  const { say, deliver, stop } = await chat();
  try {
    const sent = await Promise.all([say('ann', '/send 8800 3 4s', 'm-1'), say('ann', '/send 8800 3 4s', 'm-1')]);
    const packet = /grab (\w{26})$/.exec(sent[0])?.[1] ?? assert.fail(sent[0]);
    assert.equal(sent[1], sent[0], 'a repeated message is the same send');
    for (const user of ['ben', 'cho', 'ben']) assert.match(await say(user, `/grab ${packet}`), new RegExp(`^${user} gets \\d+$`));
    const { claims } = await api('ann', 'GET', `/packets/${packet}/claims`);
    for (const claim of claims) {
      const data = { packet_id: packet, sender_id: 'ann', later: true, ...claim };
      assert.deepEqual(await Promise.all([deliver('SlipClaimed', data), deliver('SlipClaimed', data)]), [204, 204]);
      assert.equal(await say(claim.user_id, '/coins'), `${claim.user_id} has ${claim.amount} coins`);
      assert.equal(await deliver('SlipClaimed', { ...data, slip: 2 }, { key: 'another key' }), 401);
      assert.equal(await deliver('SlipClaimed', { ...data, slip: 2 }, { at: Date.now() - 400_000 }), 401);
    }
    await settled(packet);
    assert.equal(await say('dan', `/grab ${packet}`), 'too late');
    const { refunded_amount } = await api('ann', 'GET', `/packets/${packet}`);
    const refund = { packet_id: packet, sender_id: 'ann', refunded_amount };
    for (const _ of [1, 2]) assert.equal(await deliver('PacketRefunded', refund), 204);
    assert.equal(await deliver('PacketThawed', {}), 204, 'an event of a later version');
    assert.equal(await say('ann', '/coins'), `ann has ${20_000 - 8_800 + refunded_amount} coins`);
    await holdsNothing(['ann', 'ben', 'cho']);
    assert.ok(lossy.lost.size >= 8, `${lossy.lost.size} requests`);
  } finally {
    await stop();
  }
});

test('the chat returns the coins of a packet that the engine refuses', async () => {
  const { say, stop } = await chat();
  try {
    // More than 200 yuan a slip.
    for (const _ of [1, 2]) assert.match(await say('ann', '/send 20000 0', 'm-2'), /^refused/);
    assert.equal(await say('ann', '/coins'), 'ann has 20000 coins');
    assert.equal(await say('ann', '/send 20001 2'), 'not enough coins');
    assert.match(await say('ben', `/grab ${'0'.repeat(26)}`), /packet/);
    await holdsNothing(['ann']);
  } finally {
    await stop();
  }
});

const delivers = (await run(program('local'), ['--help'], repository('.'))).includes('--webhook-url');
test('the chat pays what the stack itself delivers', { skip: !delivers && 'this stack delivers no webhooks' }, async () => {
  const port = await freePort();
  const own = await startStack({}, ['--webhook-url', `http://127.0.0.1:${port}/webhooks`, '--webhook-secret', SECRET]);
  const { say, stop } = await chat(own.url, port);
  try {
    const packet = (await say('ann', '/send 8800 3 4s')).slice(-26);
    const wins = await Promise.all(['ben', 'cho'].map(async (user) => [user, Number((await say(user, `/grab ${packet}`)).split(' ').pop())]));
    for (const [user, amount] of wins) await until(async () => (await say(`${user}`, '/coins')) === `${user} has ${amount} coins`);
    await settled(packet, apiOf(own.url));
    const paid = wins.reduce((sum, [, amount]) => sum + Number(amount), 0);
    await until(async () => (await say('ann', '/coins')) === `ann has ${20_000 - paid} coins`);
    await holdsNothing(['ann', 'ben', 'cho'], apiOf(own.url));
  } finally {
    await stop();
    await own.stop();
  }
});

test('the tests of an app pass in a sandbox, in Python and in TypeScript', async () => {
  const env = { HONGBAO_PROGRAM: program('local') };
  assert.match(await python(['-m', 'pytest', '-q', '-p', 'no:cacheprovider', 'examples/test_app.py'], env), /^5 passed/m);
  await copyFile(repository('examples/app.test.ts'), join(app.folder, 'app.test.ts'));
  await symlink(repository('tests/clients/tools/node_modules/vitest'), join(app.folder, 'node_modules/vitest'));
  const tool = (/** @type {string} */ name) => repository(`tests/clients/tools/node_modules/.bin/${name}`);
  const types = ['--types', 'node', '--typeRoots', repository('tests/clients/tools/node_modules/@types')];
  await run(tool('tsc'), ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', ...types, 'app.test.ts'], app.folder);
  assert.match(await run(tool('vitest'), ['run', '--reporter=tap-flat'], app.folder, { ...env, CI: '1' }), /^1\.\.5$/m);
});

/** @param {string} packet @param {ReturnType<typeof apiOf>} [of] */
async function settled(packet, of = api) {
  await until(async () => {
    await of('ann', 'POST', '/_local/settle');
    return (await of('ann', 'GET', `/packets/${packet}`)).status === 'settled';
  });
}

/** @param {() => Promise<boolean>} holds */
async function until(holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
