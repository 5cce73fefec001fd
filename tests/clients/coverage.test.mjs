// The JavaScript client offers each operation of openapi.yaml. A new operation needs a method, and a row here.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { Hongbao, Problem, requestIdOf } from '../../clients/js/hongbao.js';

/** @type {Record<string, (client: Hongbao) => Promise<unknown>>} */
const CALLS = {
  sendPacket: (client) => client.send({ split: 'equal', total_amount: 1, count: 1 }, { key: 'k' }),
  getPacket: (client) => client.packet('p'),
  grabPacket: (client) => client.grab('p'),
  listPacketClaims: (client) => client.claims('p'),
  getMyWallet: (client) => client.wallet(),
  listMyPackets: (client) => client.myPackets(),
  listMyClaims: (client) => client.myClaims(),
  listMyMovements: (client) => client.myMovements(),
  getWallet: (client) => client.walletOf('u'),
  deposit: (client) => client.deposit('u', 'd', 1),
  withdraw: (client) => client.withdraw('u', 'w', 1),
  getWithdrawal: (client) => client.withdrawal('u', 'w'),
  postWithdrawal: (client) => client.postWithdrawal('u', 'w', { amount: 1 }),
  voidWithdrawal: (client) => client.voidWithdrawal('u', 'w'),
  listWithdrawals: (client) => client.pendingWithdrawals(),
  listDeeds: (client) => client.deeds({ user_id: 'u' }),
  listUsers: (client) => client.decidedUsers(),
  listWins: (client) => client.wins('u'),
  findMovements: (client) => client.movementsWithId('w'),
  askWithdrawal: (client) => client.askWithdrawal({ id: 'w', amount: 1 }),
  listMovements: (client) => client.movements('u'),
  listPacketsOfUser: (client) => client.forUser('u').myPackets(),
  sendPacketForUser: (client) => client.forUser('u').send({ split: 'equal', total_amount: 1, count: 1 }, { key: 'k' }),
  getPacketForUser: (client) => client.forUser('u').packet('p'),
  grabPacketForUser: (client) => client.forUser('u').grab('p'),
  listPacketClaimsForUser: (client) => client.forUser('u').claims('p'),
  listClaimsOfUser: (client) => client.forUser('u').myClaims(),
  findPackets: (client) => client.findPackets('r'),
  getAnyPacket: (client) => client.anyPacket('p'),
  listAnyPacketClaims: (client) => client.anyClaims('p'),
  getShare: (client) => client.share('p', 'u'),
  closePacket: (client) => client.closePacket('p', 'r'),
  reportClaims: (client) => client.reportClaims('u', { reference: 'r' }),
  getReference: (client) => client.reference('u', 'r'),
  closeReference: (client) => client.closeReference('u', 'r', 'x'),
  suspendUser: (client) => client.suspendUser('u', 'r'),
  getSending: (client) => client.sending(),
  decideSending: (client) => client.decideSending({ paused: true, reason: 'r' }),
  getWebhooks: (client) => client.webhooks(),
  enableWebhooks: (client) => client.enableWebhooks(true),
  getUserLimits: (client) => client.limitsOf('u'),
  setUserLimits: (client) => client.setLimits('u', { deposit_max: 1 }),
  liftSuspension: (client) => client.liftSuspension('u'),
};

/** The operations of the document: `METHOD /path`, each path's parameters without their names. */
async function operations() {
  const [document] = (await readFile(new URL('../../openapi.yaml', import.meta.url), 'utf8')).split('\nwebhooks:');
  /** @type {Map<string, string>} */
  const found = new Map();
  let [path, method] = ['', ''];
  for (const line of (document ?? '').split('\n')) {
    path = /^ {2}(\/\S*):$/.exec(line)?.[1] ?? path;
    method = /^ {4}(get|put|post|delete|patch):$/.exec(line)?.[1] ?? method;
    const id = /^ {6}operationId: (\w+)$/.exec(line)?.[1];
    if (id) found.set(id, `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, '*')}`);
  }
  return found;
}

test('each operation has a method that sends its request', async () => {
  const documented = await operations();
  assert.ok(documented.size >= 23, `only ${documented.size} operations`);
  assert.deepEqual(Object.keys(CALLS).sort(), [...documented.keys()].sort(), 'CALLS has each operation of openapi.yaml');
  for (const [id, call] of Object.entries(CALLS)) {
    /** @type {string[]} */
    const sent = [];
    const fetch = async (/** @type {any} */ url, /** @type {any} */ { method } = {}) => {
      const path = new URL(url).pathname.split('/').map((part) => (part.length === 1 ? '*' : part)).join('/');
      sent.push(`${method} ${path}`);
      return new Response('{}');
    };
    await call(new Hongbao({ baseUrl: 'http://hongbao.test', fetch }));
    assert.deepEqual(sent, [documented.get(id)], id);
  }
});

test('parameters and bodies arrive as they are given, and ids are escaped', async () => {
  /** @type {Record<string, (client: Hongbao) => Promise<unknown>>} */
  const calls = {
    'GET /packets/P/claims?limit=5&cursor=c': (client) => client.claims('P', { limit: 5, cursor: 'c' }),
    'GET /packets/P/claims?order=newest&after=a': (client) => client.claims('P', { order: 'newest', after: 'a' }),
    'GET /me/packets': (client) => client.myPackets({ cursor: null }),
    'PUT /wallets/a%7Cb/deposits/d {"amount":5}': (client) => client.deposit('a|b', 'd', 5),
    'GET /me/movements?from=2026-11-20T00%3A00%3A00%2B08%3A00&kind=refund': (client) => client.myMovements({ from: '2026-11-20T00:00:00+08:00', kind: 'refund' }),
    'POST /packets/P/grab {"passphrase":"芝麻"}': (client) => client.grab('P', { passphrase: '芝麻' }),
    'POST /packets/P/grab {}': (client) => client.grab('P'),
    'POST /users/a%7Cb/packets {"split":"equal","total_amount":1,"count":1}': (client) => client.forUser('a|b').send({ split: 'equal', total_amount: 1, count: 1 }, { key: 'k' }),
    'GET /wallets/a%7Cb/movements?limit=2': (client) => client.forUser('a|b').myMovements({ limit: 2 }),
    'GET /operator/deeds?user_id=a%7Cb&limit=1': (client) => client.deeds({ user_id: 'a|b', limit: 1 }),
    'GET /operator/users?state=suspended': (client) => client.decidedUsers({ state: 'suspended' }),
    'GET /operator/movements?id=w&cursor=c': (client) => client.movementsWithId('w', { cursor: 'c' }),
    'GET /operator/packets?reference=order%3A17&limit=1&cursor=c': (client) => client.findPackets('order:17', { limit: 1, cursor: 'c' }),
  };
  for (const [request, call] of Object.entries(calls)) {
    /** @type {string[]} */
    const sent = [];
    const fetch = async (/** @type {any} */ url, /** @type {any} */ { method, body } = {}) => {
      sent.push([method, String(url).slice('http://hongbao.test'.length), ...(body ? [body] : [])].join(' '));
      return new Response('{}');
    };
    await call(new Hongbao({ baseUrl: 'http://hongbao.test', fetch }));
    assert.deepEqual(sent, [request]);
  }
});

test('an answer without a body is read', async () => {
  const fetch = async () => new Response(null, { status: 204 });
  assert.equal(await new Hongbao({ baseUrl: 'http://hongbao.test', fetch }).liftSuspension('u'), undefined);
});

test('a daily limit says when the user may send again', async () => {
  const body = { code: 'daily-limit-exceeded', detail: 'd', resets_at: '2026-11-21T00:00:00.000Z', limit: { rule: 'amount-a-day', value: 500 } };
  const fetch = async () => new Response(JSON.stringify(body), { status: 403 });
  const client = new Hongbao({ baseUrl: 'http://hongbao.test', fetch });
  await assert.rejects(client.send({ split: 'equal', total_amount: 1, count: 1 }, { key: 'k' }), (error) => {
    assert.ok(error instanceof Problem);
    assert.deepEqual([error.code, error.resetsAt, error.limit], ['daily-limit-exceeded', body.resets_at, body.limit]);
    return true;
  });
});

test('the sheet of claims has its name and every byte of its text', async () => {
  const sheet = '\ufeffpacket_id,round\r\nsum,\r\n';
  /** @type {any[]} */
  const asked = [];
  const fetch = async (/** @type {any} */ url, /** @type {any} */ { headers } = {}) => {
    asked.push([url, headers.get('Accept')]);
    return new Response(sheet, { headers: { 'Content-Disposition': 'attachment; filename="claims-nye-provisional.csv"', 'X-Request-Id': 'x' } });
  };
  const client = new Hongbao({ baseUrl: 'http://hongbao.test', fetch });
  const found = await client.claimsSheet('a+b', { reference: 'nye', limitKey: 'k:1' });
  assert.deepEqual(found, { name: 'claims-nye-provisional.csv', text: sheet });
  assert.equal(requestIdOf(found), 'x');
  assert.deepEqual(asked, [['http://hongbao.test/operator/claims?sender_id=a%2Bb&reference=nye&limit_key=k%3A1', 'text/csv']]);
});
