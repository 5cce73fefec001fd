// Runs the examples, with every answer of the engine lost once.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { apiOf, assertSoon as until, program, startStack } from '../web/harness.mjs';
import { freePort, losingAnswers, newApp, python, repository, run, start, statusOf } from './app.mjs';
import { signed } from './provider.mjs';
import { GROUP, Telegram } from './telegram.mjs';

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
  const said = await python(['examples/shop.py'], { HONGBAO_URL: `${lossy.url}/` });
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

const TELEGRAM_TOKEN = '1:a';
const ANN = 1;
/** The reference of a packet that Ann's command sends. @param {number} command */
const referenceOf = (command) => {
  const signature = createHmac('sha256', TELEGRAM_TOKEN).update(`${GROUP}.${command}.tg:${ANN}`).digest('hex').slice(0, 24);
  return `tg:${GROUP}.${command}.${signature}`;
};

const KEYS = { AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE', AWS_SECRET_ACCESS_KEY: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY', AWS_SESSION_TOKEN: 'token/of+a=session' };
/** @typedef {{method: string, url: string, headers: import('node:http').IncomingHttpHeaders, body: string}} Arrived */

/** Returns the signature of what arrived, by the JavaScript library of AWS. @param {Arrived} arrived @returns {Promise<string>} */
async function bySmithy({ method, url, headers, body }) {
  const packages = repository('tests/clients/tools/node_modules');
  const [{ SignatureV4 }, { Sha256 }] = await Promise.all([import(`${packages}/@smithy/signature-v4/dist-cjs/index.js`), import(`${packages}/@aws-crypto/sha256-js/build/main/index.js`)]);
  const credentials = { accessKeyId: KEYS.AWS_ACCESS_KEY_ID, secretAccessKey: KEYS.AWS_SECRET_ACCESS_KEY };
  const signer = new SignatureV4({ service: 'execute-api', region: 'ap-east-1', credentials, sha256: Sha256, applyChecksum: false });
  const { pathname: path, searchParams, hostname } = new URL(url);
  const at = /** @type {string} */ (headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5');
  const signed = await signer.sign({ method, protocol: 'http:', hostname, path, query: Object.fromEntries(searchParams), headers: signedOf(headers), body }, { signingDate: new Date(at) });
  return signed.headers.authorization.split('Signature=')[1];
}

/** The headers that a signature covers. @param {import('node:http').IncomingHttpHeaders} headers */
const signedOf = (headers) => Object.fromEntries((/SignedHeaders=([^,]+)/.exec(headers.authorization ?? '')?.[1] ?? '').split(';').map((name) => [name, headers[name]]));

/** Returns the signatures of what arrived, by the Python library of AWS. @param {Arrived[]} arrived @returns {Promise<string[]>} */
async function byBotocore(arrived) {
  const code = `
import json, sys
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session
for each in json.loads(sys.argv[1]):
    request = AWSRequest(each["method"], each["url"], each["signed"], each["body"])
    request.context["timestamp"] = each["signed"]["x-amz-date"]
    auth = SigV4Auth(Session().get_credentials(), "execute-api", "ap-east-1")
    print(auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request))`;
  return (await python(['-c', code, JSON.stringify(arrived.map((each) => ({ ...each, signed: signedOf(each.headers) })))], KEYS)).trim().split('\n');
}

test('the recipes in TypeScript and in Python sign as both libraries of AWS do', async () => {
  /** @type {Arrived[]} */
  const arrived = [];
  const onward = new URL(stack.url);
  const proxy = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = '', headers } = request;
    const body = Buffer.concat(chunks).toString();
    arrived.push({ method, url: `http://${headers.host}${request.url}`, headers, body });
    const answer = await fetch(`${onward.origin}${request.url}`, { method, headers: { 'content-type': 'application/json' }, ...(body && { body }) });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (proxy.address());
  const env = { ...KEYS, AWS_REGION: 'ap-east-1', HONGBAO_URL: `http://127.0.0.1:${port}` };
  try {
    await copyFile(repository('examples/signing.ts'), join(app.folder, 'signing.ts'));
    for (const scope of ['@smithy', '@aws-crypto', '@aws-sdk']) await symlink(repository(`tests/clients/tools/node_modules/${scope}`), join(app.folder, 'node_modules', scope));
    await writeFile(
      join(app.folder, 'operator.ts'),
      `import { Hongbao } from 'hongbao-client';
      import { signingFetch } from './signing.js';
      const operator = new Hongbao({ baseUrl: process.env['HONGBAO_URL'] ?? '', fetch: signingFetch('ap-east-1') });
      await operator.deposit('tg:7&+', 'typescript', 500);
      const { movements } = await operator.movements('tg:7&+', { from: '2026-01-01T00:00:00+08:00', kind: 'deposit' });
      console.log(movements.length);`,
    );
    const types = ['--types', 'node', '--typeRoots', repository('tests/clients/tools/node_modules/@types')];
    const options = ['--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', ...types];
    await run(repository('tests/clients/tools/node_modules/.bin/tsc'), [...options, 'operator.ts'], app.folder);
    assert.equal((await run('node', ['operator.js'], app.folder, env)).trim(), '1');
    const code = `
import urllib.request, shop, signing
from hongbao_client import Client
from hongbao_client.models import MovementRequest
operator = Client(base_url=shop.URL, httpx_args=shop.HOOKS | {"auth": signing.signed})
shop.ask(shop.deposit, "tg:7&+", "python", client=operator, body=MovementRequest(amount=500))
url = shop.URL + "/wallets/tg%3A7%26%2B/movements?from=2026-01-01T00%3A00%3A00%2B08%3A00&kind=deposit"
print(urllib.request.urlopen(urllib.request.Request(url, headers=signing.headers("GET", url))).status)`;
    assert.equal((await python(['-c', code], env)).trim(), '200');
  } finally {
    proxy.closeAllConnections();
    await new Promise((resolve) => proxy.close(resolve));
  }
  assert.equal(arrived.length, 4);
  const given = arrived.map(({ headers }) => headers.authorization?.split('Signature=')[1]);
  assert.deepEqual(await Promise.all(arrived.map(bySmithy)), given);
  assert.deepEqual(await byBotocore(arrived), given);
  for (const { headers } of arrived) assert.deepEqual([headers['x-amz-security-token'], 'x-amz-security-token' in signedOf(headers)], [KEYS.AWS_SESSION_TOKEN, true]);
});

/** Starts a server that answers so, one after the other, and then always with the last. @param {[number, string][]} answers */
async function answering(answers) {
  const server = createServer((_, response) => {
    const [status, body] = (answers.length > 1 ? answers.shift() : answers[0]) ?? [500, ''];
    response.writeHead(status).end(body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}`, stop: () => new Promise((resolve) => server.close(resolve)) };
}

test('to the shop, an outcome of a later version means no slip, and a load balancer’s 503 means nothing', async () => {
  const html = '<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>';
  const code = `
import shop
shop.time.sleep = lambda _: None
try:
    print(shop.grab("shop-fay", "38FS4S83HF3Y07WMYNH727QYT0"))
except TimeoutError as error:
    print(error)`;
  for (const [answers, said] of /** @type {[[number, string][], RegExp][]} */ ([
    [[[503, html], [200, '{"outcome":"frozen","packet_id":"38FS4S83HF3Y07WMYNH727QYT0"}']], /^None$/],
    [[[503, html]], /the outcome is unknown/],
  ])) {
    const { url, stop } = await answering(answers);
    try {
      assert.match((await python(['-c', code], { HONGBAO_URL: url })).trim(), said);
    } finally {
      await stop();
    }
  }
});

/** Starts a stack and a group, and returns how to start the bot between them. */
async function group() {
  const port = await freePort();
  const [own, telegram] = [await startStack({}, ['--webhook-url', `http://127.0.0.1:${port}/`, '--webhook-secret', SECRET], ['sandbox']), new Telegram()];
  const [engine, TELEGRAM_API] = [await losingAnswers(own.url), await telegram.start()];
  const env = { HONGBAO_URL: `${engine.url}/`, TELEGRAM_API: `${TELEGRAM_API}/`, TELEGRAM_TOKEN, WEBHOOK_SECRET: SECRET, PORT: String(port), PYTHONDONTWRITEBYTECODE: '1' };
  const bot = () => start(repository('.tools/clients/bin/python'), ['examples/telegram_bot.py', '--topup'], { cwd: repository('.'), env }, /takes webhooks at (\S+)/);
  const operator = (/** @type {string} */ path, method = 'GET', /** @type {unknown} */ body = undefined) => apiOf(own.url)('operator', method, path, body);
  const balance = async (/** @type {number} */ user) => (await operator(`/wallets/tg:${user}`)).balance;
  /** The packets of a command of Ann's. @param {number} command */
  const packets = async (command) => (await operator(`/operator/packets?reference=${referenceOf(command)}`)).packets;
  /** Presses, and returns what the user reads. @param {number} user @param {import('./telegram.mjs').Message} message @param {string} [data] */
  const press = async (user, message, data) => {
    const id = telegram.press(user, message, data);
    await until(async () => telegram.answers.has(id));
    return telegram.answers.get(id) ?? '';
  };
  /** Waits for a message of the bot. @param {(message: import('./telegram.mjs').Message) => boolean} fits */
  const seen = async (fits) => {
    await until(async () => telegram.messages.some(fits));
    return telegram.messages.find(fits) ?? assert.fail();
  };
  const advance = (/** @type {number} */ advance_s) => operator('/_local/clock', 'POST', { advance_s });
  const stop = async () => {
    await Promise.all([telegram.stop(), engine.stop()]);
    await own.stop();
  };
  return { telegram, engine, bot, operator, balance, packets, press, seen, advance, stop };
}

const yuan = (/** @type {number} */ fen) => `${(fen / 100).toFixed(2)} 元`;

test('the bot sends a packet once though its command comes twice, and each member of the group wins once', async () => {
  const { telegram, engine, bot, operator, balance, packets, press, seen, stop } = await group();
  const { stop: end } = await bot();
  try {
    telegram.say(ANN, '/topup 200.5', 2);
    await seen(({ text }) => text === '余额 200.50 元');
    for (const wrong of ['/hongbao', '/hongbao 10.005 5', '/hongbao 1e3 5', '/hongbao 10 0', '/hongbao 10 101', '/hongbao@other_bot 10 5']) telegram.say(ANN, wrong);
    telegram.say(ANN, '/hongbao 500 5');
    await seen(({ text }) => text === '余额不足，还差 299.50 元');
    telegram.say(ANN, '/hongbao 0.04 5');
    await seen(({ text }) => text === '发不了：每个至少 0.01 元');
    telegram.say(ANN, '/hongbao 9999999 5');
    await seen(({ text }) => text === '发不了：金额太大');
    const command = telegram.say(ANN, '/hongbao@packet_bot 88.08 10 马年\u202e大吉', 2);
    const message = await seen(({ buttons }) => buttons.length > 0);
    assert.equal(message.text, `🧧 User-1 的红包：马年大吉\n共 88.08 元，10 个，剩 10 个`);

    const winners = [ANN, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    for (const user of winners) telegram.join(user);
    telegram.join(ANN, { status: 'creator' });
    telegram.join(2, { status: 'administrator' });
    telegram.join(3, { status: 'restricted', is_member: true });
    telegram.join(21, { status: 'left' });
    telegram.join(22, { status: 'kicked' });
    telegram.join(23, { status: 'restricted', is_member: false });
    for (const stranger of [21, 22, 23]) assert.equal(await press(stranger, message), '只有群成员才能抢');
    assert.equal(await press(24, message), '无法确认你是群成员');
    assert.equal(await press(2, message, '0'.repeat(26)), '红包已结束', 'the id of another packet');
    // The apps of these users have not seen the edits yet.
    const old = { ...message };
    for (const user of [2, 3]) {
      await press(user, old);
      await until(async () => message.text.includes(`User-${user} `));
    }
    telegram.faults.set('editMessageText', [{ retry_after: 4 }]);
    const texts = await Promise.all(winners.map((user) => press(user, old)));
    const again = await Promise.all(winners.map((user) => press(user, old)));
    telegram.join(11);
    assert.equal(await press(11, old), '来晚了，红包已抢完');

    const [packet, ...others] = await packets(command);
    assert.equal(others.length, 0);
    const { claims } = await operator(`/operator/packets/${packet.packet_id}/claims?limit=100`);
    assert.deepEqual(claims.map((/** @type {any} */ { user_id }) => user_id).sort(), winners.map((user) => `tg:${user}`).sort());
    for (const { user_id, amount, best } of claims) {
      const place = winners.indexOf(Number(user_id.slice(3)));
      assert.match(texts[place] ?? '', new RegExp(`抢到 ${yuan(amount)}$`));
      assert.equal(again[place], `你已经抢到 ${yuan(amount)}`);
      await until(async () => message.text.split('\n').includes(`User-${user_id.slice(3)} ${yuan(amount)}${best ? ' 👑 手气最佳' : ''}`));
    }
    assert.deepEqual([message.text.split('\n').length, message.text.includes('剩 0 个'), message.buttons], [12, true, []]);
    const edits = telegram.calls.filter(({ method }) => method === 'editMessageText');
    assert.ok(edits.length < winners.length, `${edits.length} edits`);
    const gaps = edits.slice(1).map(({ at }, index) => at - (edits[index]?.at ?? 0));
    assert.ok(gaps.every((gap) => gap > 2_000), `${gaps}`);
    const refused = edits.findIndex(({ status }) => status === 429);
    assert.ok((edits[refused + 1]?.at ?? 0) - (edits[refused]?.at ?? 0) >= 4_000, 'it waits as long as Telegram says');
    assert.equal(await balance(ANN), 20_050 - 8_808 + claims.find((/** @type {any} */ { user_id }) => user_id === 'tg:1').amount);
    assert.deepEqual([telegram.messages.filter(({ text }) => text.startsWith('🧧')).length, telegram.messages.filter(({ text }) => text.startsWith('在群里')).length], [1, 5]);
    assert.ok(engine.lost.size >= winners.length, `${engine.lost.size} requests`);
  } finally {
    await end();
    await stop();
  }
});

test('a bot that is killed between a send and its message posts the message, and neither loses nor doubles money', async () => {
  const { telegram, bot, balance, packets, press, seen, advance, stop } = await group();
  let { stop: end } = await bot();
  try {
    for (const user of [ANN, 2, 3]) telegram.join(user);
    telegram.say(ANN, '/topup 50');
    await seen(({ text }) => text === '余额 50.00 元');
    telegram.faults.set('sendMessage', ['held', 'held', 'held']);
    const command = telegram.say(ANN, '/hongbao 20 3');
    // The update is confirmed, so it will not come again: PacketSent must do it.
    await until(async () => telegram.isIdle() && (await packets(command)).length === 1 && telegram.faults.get('sendMessage')?.length !== 3);
    await end('SIGKILL');
    telegram.faults.clear();
    ({ stop: end } = await bot());
    const message = await seen(({ buttons }) => buttons.length > 0);
    assert.match(await press(2, message), /抢到/);
    await until(async () => message.text.includes('User-2 '));

    // After this start the bot has forgotten the message and the names: a press names them again.
    await end('SIGKILL');
    ({ stop: end } = await bot());
    assert.match(await press(3, message), /抢到/);
    await until(async () => message.text.includes('User-2 ') && message.text.includes('User-3 '));
    assert.match(message.text, /^🧧 User-1 /);
    await advance(86_400 + 120);
    await until(async () => /\n未领取的 .* 元 已退回 User-1$/.test(message.text) && message.buttons.length === 0);
    assert.equal((await packets(command)).length, 1);
    assert.equal(telegram.messages.filter(({ text }) => text.startsWith('🧧')).length, 1);
    assert.equal((await balance(ANN)) + (await balance(2)) + (await balance(3)), 5_000);

    // Nobody has pressed since a start: a new message shows the end.
    const later = telegram.say(ANN, '/hongbao 5 2 再来');
    await seen(({ text }) => text.includes('再来'));
    await end('SIGKILL');
    telegram.move();
    ({ stop: end } = await bot());
    await advance(86_400 + 120);
    await seen(({ text, buttons }) => text.includes('未领取的 5.00 元') && buttons.length === 0);
    assert.equal((await packets(later)).length, 1);
    assert.equal((await balance(ANN)) + (await balance(2)) + (await balance(3)), 5_000);
  } finally {
    await end();
    await stop();
  }
});

test('the bot says to try again while the engine gives no answer, says at once that sending is paused, and takes only genuine events', async () => {
  const { telegram, engine, bot, operator, packets, press, seen, stop } = await group();
  const { said: url, stop: end } = await bot();
  try {
    for (const user of [ANN, 2, 3, 4]) telegram.join(user);
    telegram.say(ANN, '/topup 10');
    await seen(({ text }) => text === '余额 10.00 元');
    await operator(`/operator/users/tg:${ANN}/limits`, 'PUT', { daily_sent_max: 500, deposit_max: 2_000 });
    telegram.say(ANN, '/hongbao 10 2');
    await seen(({ text }) => text === '每天最多发 5.00 元，未扣款');
    telegram.say(ANN, '/topup 20.01');
    await seen(({ text }) => text === '金额太大');
    await operator(`/operator/users/tg:${ANN}/limits`, 'PUT', { daily_sent_max: null, deposit_max: null });
    await operator('/operator/sending', 'PUT', { paused: true, reason: 'a test' });
    const before = engine.state.asked;
    const paused = telegram.say(ANN, '/hongbao 10 2');
    await seen(({ text }) => text === '暂停发红包，未扣款');
    assert.equal(engine.state.asked - before, 2, 'the answer that was lost, and this one');
    await operator('/operator/sending', 'PUT', { paused: false });
    assert.deepEqual(await packets(paused), []);
    telegram.faults.set('sendMessage', ['lost']);
    const command = telegram.say(ANN, '/hongbao 10 2');
    const message = await seen(({ buttons }) => buttons.length > 0);
    engine.state.isDown = true;
    assert.match(await press(2, message), /请稍后再按一次/);
    engine.state.isDown = false;
    assert.match(await press(2, message), /抢到/);
    const [{ packet_id }] = await packets(command);
    assert.equal((await operator(`/operator/packets/${packet_id}/claims`)).claims.length, 1);
    await operator('/operator/users/tg:3/suspension', 'PUT', { reason: 'a test', grabs: true });
    assert.equal(await press(3, message), '你的账号已停用');
    const old = { ...message };
    await operator(`/operator/packets/${packet_id}/close`, 'POST', { reason: 'a test' });
    assert.equal(await press(4, old), '红包已关闭');
    await until(async () => message.buttons.length === 0);

    /** Delivers an event. @param {string} type @param {{key?: string, at?: number}} [forged] */
    const deliver = async (type, { key = KEY, at = Date.now() } = {}) => {
      const event = { type, timestamp: new Date(at).toISOString(), data: { packet_id, sender_id: `tg:${ANN}`, reference: referenceOf(command) } };
      return (await fetch(url, signed(JSON.stringify(event), key, at))).status;
    };
    assert.equal(await deliver('SlipClaimed'), 204);
    assert.equal(await deliver('SlipClaimed', { key: 'another key' }), 401);
    assert.equal(await deliver('SlipClaimed', { at: Date.now() - 400_000 }), 401);
    assert.equal(await deliver('PacketThawed'), 204, 'an event of a later version');
    for (const length of ['-1', '65537', '1e3']) assert.equal(await statusOf(url, [`Content-Length: ${length}`]), 413, length);
  } finally {
    await end();
    await stop();
  }
});

test('the bot shows no name of an anonymous administrator, and only packets that it sent', async () => {
  const { telegram, bot, operator, packets, press, seen, stop } = await group();
  let { said: url, stop: end } = await bot();
  try {
    telegram.join(ANN);
    telegram.join(2, { status: 'administrator', is_anonymous: true });
    telegram.say(ANN, '/topup 10');
    await seen(({ text }) => text === '余额 10.00 元');
    const command = telegram.say(ANN, '/hongbao 10 3');
    const message = await seen(({ buttons }) => buttons.length > 0);
    assert.match(await press(2, message), /抢到/);
    await until(async () => message.text.includes('\n匿名管理员 '));
    await end('SIGKILL');
    ({ said: url, stop: end } = await bot());
    assert.match(await press(ANN, message), /抢到/);
    await until(async () => message.text.includes('\nUser-1 ') && message.text.includes('\n匿名管理员 '));
    assert.ok(telegram.messages.every(({ text }) => !text.includes('User-2')));

    const { sender_id, reference } = (await packets(command))[0];
    assert.equal(reference, referenceOf(command));
    await operator('/wallets/alice/deposits/d', 'PUT', { amount: 1_000 });
    for (const [name, forged] of [[`tg:${GROUP}.${command}`, sender_id], [reference, 'alice'], [reference.replace(`${command}.`, `${command + 1}.`), sender_id]]) {
      const { packet_id } = await operator('/users/alice/packets', 'POST', { split: 'equal', total_amount: 100, count: 1, greeting: '外来', reference: name });
      const event = { type: 'PacketSent', timestamp: new Date().toISOString(), data: { packet_id, sender_id: forged, reference: name } };
      assert.equal((await fetch(url, signed(JSON.stringify(event), KEY))).status, 204, name);
    }
    assert.ok(telegram.messages.every(({ text }) => !text.includes('外来')), 'another sender’s packet');
  } finally {
    await end();
    await stop();
  }
});

test('the tests of an app pass in a sandbox, in Python and in TypeScript', async () => {
  const env = { HONGBAO_PROGRAM: program('hongbao') };
  assert.match(await python(['-m', 'pytest', '-q', '-p', 'no:cacheprovider', 'examples/test_app.py'], env), /^6 passed/m);
  await copyFile(repository('examples/app.test.ts'), join(app.folder, 'app.test.ts'));
  await symlink(repository('tests/clients/tools/node_modules/vitest'), join(app.folder, 'node_modules/vitest'));
  const tool = (/** @type {string} */ name) => repository(`tests/clients/tools/node_modules/.bin/${name}`);
  const types = ['--types', 'node', '--typeRoots', repository('tests/clients/tools/node_modules/@types')];
  await run(tool('tsc'), ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', ...types, 'app.test.ts'], app.folder);
  assert.match(await run(tool('vitest'), ['run', '--reporter=tap-flat'], app.folder, { ...env, CI: '1' }), /^1\.\.6$/m);
});
