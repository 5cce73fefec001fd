// The JavaScript client against a fake service: when it retries, when it gives up, and how it reads each answer.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Hongbao, PROBLEM_CODES, Problem, Unreachable, newKey, requestIdOf } from '../../clients/js/hongbao.js';

/** @typedef {{url: string, method: string, key: string | null, body: string | null, user: string | null}} Seen */

const PACKET = { packet_id: '38FS4S83HF3Y07WMYNH727QYT0', status: 'open' };

/** @param {number} status @param {unknown} body @param {Record<string, string>} [headers] */
const answer = (status, body, headers = {}) => () => new Response(JSON.stringify(body), { status, headers });
/** @param {string} code @param {number} status @param {Record<string, string>} [headers] */
const refusal = (code, status, headers) => answer(status, { code, title: code, status, detail: `about ${code}` }, headers);
const cut = () => {
  throw new TypeError('fetch failed');
};

/**
 * Returns a client whose fake service gives these answers, one after another.
 * @param {(() => Response)[]} answers
 * @param {import('../../clients/js/hongbao.js').Options} [options]
 */
function serving(answers, options = {}) {
  /** @type {Seen[]} */
  const seen = [];
  /** @type {number[]} */
  const waits = [];
  const client = new Hongbao({
    baseUrl: 'http://hongbao.test/',
    headers: () => ({ 'X-User-Id': `alice-${seen.length}` }),
    onRetry: ({ waitMs }) => waits.push(waitMs),
    fetch: async (url, init = {}) => {
      const headers = new Headers(init.headers);
      seen.push({ url: String(url), method: init.method ?? '', key: headers.get('Idempotency-Key'), body: /** @type {string | null} */ (init.body ?? null), user: headers.get('X-User-Id') });
      return (answers.shift() ?? cut)();
    },
    ...options,
  });
  return { client, seen, waits };
}

const terms = /** @type {const} */ ({ split: 'random', total_amount: 100, count: 2 });

test('10. the base URL may have a path, with a slash at its end or without', async () => {
  for (const [baseUrl, url] of /** @type {const} */ ([
    ['http://hongbao.test', 'http://hongbao.test/me/wallet'],
    ['http://hongbao.test/hongbao', 'http://hongbao.test/hongbao/me/wallet'],
    ['http://hongbao.test/api/hongbao/', 'http://hongbao.test/api/hongbao/me/wallet'],
    ['http://hongbao.test/hongbao//', 'http://hongbao.test/hongbao/me/wallet'],
    ['/hongbao', '/hongbao/me/wallet'],
    ['', '/me/wallet'],
  ])) {
    const { client, seen } = serving([answer(200, { balance: 5 })], { baseUrl });
    await client.wallet();
    assert.equal(seen[0]?.url, url);
  }
});

test('a send without an answer is retried with the same key and body', async () => {
  const { client, seen } = serving([cut, refusal('unavailable', 503), answer(200, PACKET, { 'Idempotent-Replayed': 'true' })]);
  const sent = await client.send(terms, { key: 'k-1' });
  assert.deepEqual(sent, { packet: PACKET, replayed: true });
  assert.deepEqual(seen.map(({ method, key, body }) => [method, key, body]), Array(3).fill(['POST', 'k-1', JSON.stringify(terms)]));
  assert.deepEqual(seen.map(({ url }) => url), Array(3).fill('http://hongbao.test/packets'));
  assert.deepEqual(seen.map(({ user }) => user), ['alice-0', 'alice-1', 'alice-2'], 'each try calls headers(): a token may have been renewed');
});

test('it waits as long as Retry-After asks, and throws if that is too long', async () => {
  const { client, waits } = serving([refusal('too-many-requests', 429, { 'Retry-After': '1' }), answer(200, { balance: 5 })]);
  const begun = performance.now();
  await client.wallet();
  assert.ok(performance.now() - begun >= 999 && /** @type {number} */ (waits[0]) >= 1000, String(waits));

  const { client: other, seen } = serving([refusal('too-many-requests', 429, { 'Retry-After': '60' })]);
  await assert.rejects(other.grab('p'), { code: 'too-many-requests', status: 429, retryAfterS: 60 });
  assert.equal(seen.length, 1);
});

test('Retry-After can be a date', async () => {
  const at = new Date(Date.now() + 90_000).toUTCString();
  const { client } = serving([refusal('unavailable', 503, { 'Retry-After': at })]);
  await assert.rejects(client.wallet(), (error) => error instanceof Problem && Number(error.retryAfterS) > 80 && Number(error.retryAfterS) <= 90);
});

test('a date in Retry-After is compared with the answer’s own date, not with this machine’s clock', async () => {
  for (const hours of [-5, 0, 5]) {
    const now = Date.now() + hours * 3_600_000;
    const { client } = serving([refusal('unavailable', 503, { Date: new Date(now).toUTCString(), 'Retry-After': new Date(now + 90_000).toUTCString() })]);
    await assert.rejects(client.wallet(), { code: 'unavailable', retryAfterS: 90 });
  }
});

test('final refusals are not retried', async () => {
  for (const code of PROBLEM_CODES.filter((code) => code !== 'unavailable' && code !== 'too-many-requests')) {
    const { client, seen } = serving([refusal(code, 400)]);
    await assert.rejects(client.grab('p'), (error) => error instanceof Problem && error.code === code && error.message === `about ${code}`);
    assert.equal(seen.length, 1, code);
  }
});

test('after the last try without an answer it throws Unreachable', async () => {
  const { client, seen } = serving([], { triesMax: 3 });
  await assert.rejects(client.grab('p'), (error) => error instanceof Unreachable && error.cause instanceof TypeError);
  assert.equal(seen.length, 3);
});

test('a timeout counts as no answer', async () => {
  const client = new Hongbao({
    triesMax: 1,
    timeoutMs: 30,
    fetch: (_, init) => new Promise((_resolve, reject) => init?.signal?.addEventListener('abort', () => reject(new Error('aborted')))),
  });
  await assert.rejects(client.wallet(), Unreachable);
});

test('an aborted call throws AbortError and sends nothing more', async () => {
  const { client, seen } = serving([refusal('unavailable', 503, { 'Retry-After': '5' })]);
  const stop = new AbortController();
  const waiting = client.wallet({ signal: stop.signal });
  setTimeout(() => stop.abort(), 20);
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.equal(seen.length, 1);
});

test('API Gateway’s own answers get a code too', async () => {
  for (const [status, code] of /** @type {const} */ ([[401, 'unauthenticated'], [403, 'forbidden'], [404, 'route-not-found'], [413, 'payload-too-large'], [429, 'too-many-requests'], [500, 'internal'], [504, 'unavailable'], [418, 'internal']])) {
    const { client } = serving([answer(status, { message: 'from the gateway' })], { triesMax: 1 });
    await assert.rejects(client.wallet(), (error) => error instanceof Problem && error.code === code && error.message === 'from the gateway');
  }
  const { client } = serving([() => new Response('<html>', { status: 502 })], { triesMax: 1 });
  await assert.rejects(client.wallet(), { code: 'unavailable' });
});

test('the codes are those of the contract', async () => {
  const contract = await readFile(new URL('../../openapi.yaml', import.meta.url), 'utf8');
  const list = /ProblemCode:[\s\S]*?enum:\n((?:\s+- [a-z-]+\n)+)/.exec(contract)?.[1] ?? '';
  assert.deepEqual([...list.matchAll(/- ([a-z-]+)/g)].map((match) => match[1]), [...PROBLEM_CODES]);
});

test('answers of a later version are passed on, and an unknown code counts like its status', async () => {
  const later = { outcome: 'resting', packet_id: 'P', until: 'x' };
  const { client } = serving([answer(200, later), refusal('later', 403), refusal('later', 503), answer(200, PACKET)]);
  assert.deepEqual(await client.grab('P'), later);
  await assert.rejects(client.grab('P'), { code: 'forbidden', message: 'about later' });
  assert.deepEqual(await client.packet('P'), PACKET, 'a 503 is repeated, whatever its code');
});

test('each list is read page by page, and each row is yielded once', async () => {
  /** @type {Record<string, [string, (client: Hongbao) => AsyncIterable<unknown>]>} */
  const lists = {
    '/packets/P/claims?limit=100': ['claims', (client) => client.allClaims('P')],
    '/me/packets?limit=100': ['packets', (client) => client.allMyPackets()],
    '/me/claims?limit=100': ['claims', (client) => client.allMyClaims()],
    '/me/movements?kind=refund&limit=100': ['movements', (client) => client.allMyMovements({ kind: 'refund' })],
    '/wallets/a/movements?from=2026-11-20T00%3A00%3A00Z&limit=100': ['movements', (client) => client.allMovements('a', { from: '2026-11-20T00:00:00Z' })],
    '/operator/packets?reference=r&limit=100': ['packets', (client) => client.findAllPackets('r')],
    '/operator/claims?sender_id=u&limit_key=k&limit=100': ['claims', (client) => client.allReportedClaims('u', { limitKey: 'k' })],
    '/users/a%7Cb/packets/P/claims?limit=100': ['claims', (client) => client.forUser('a|b').allClaims('P')],
  };
  for (const [path, [name, all]] of Object.entries(lists)) {
    const page = (/** @type {number[]} */ rows, /** @type {string | null} */ next) => answer(200, { [name]: rows, next_cursor: next });
    const { client, seen } = serving([page([0, 1], 'x'), page([2], 'y'), page([], null)]);
    const rows = [];
    for await (const row of all(client)) rows.push(row);
    const asked = seen.map(({ url }) => `${new URL(url).pathname}${new URL(url).search}`);
    assert.deepEqual([rows, asked], [[0, 1, 2], [path, `${path}&cursor=x`, `${path}&cursor=y`]]);
  }
});

test('each answer has the id of its request', async () => {
  const named = (/** @type {number} */ status, /** @type {unknown} */ body, /** @type {Record<string, string>} */ headers) => answer(status, body, headers);
  const { client } = serving([named(200, PACKET, { 'X-Request-Id': 'r-1' }), named(201, PACKET, { 'X-Request-Id': 'r-2' }), named(403, { message: 'Forbidden' }, { 'apigw-requestid': 'r-3' }), named(200, PACKET, {})]);
  assert.equal(requestIdOf(await client.packet('P')), 'r-1');
  const sent = await client.send({ split: 'equal', total_amount: 1, count: 1 }, { key: 'k' });
  assert.deepEqual([requestIdOf(sent), requestIdOf(sent.packet)], ['r-2', 'r-2']);
  await assert.rejects(client.packet('P'), { requestId: 'r-3' });
  assert.equal(requestIdOf(await client.packet('P')), '');
});

test('keys follow the contract, and no two are equal', () => {
  const keys = new Set(Array.from({ length: 1000 }, newKey));
  assert.equal(keys.size, 1000);
  for (const key of keys) assert.match(key, /^[A-Za-z0-9_-]{1,64}$/);
});

test('the tracked types are those that openapi.yaml and the client give', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hongbao-types-'));
  try {
    execFileSync('npm', ['run', '--silent', 'types'], { cwd: new URL('.', import.meta.url), env: { ...process.env, OUT: folder }, stdio: ['ignore', 'ignore', 'inherit'] });
    for (const name of ['api.d.ts', 'hongbao.d.ts', 'webhooks.d.ts']) {
      const tracked = await readFile(new URL(`../../clients/js/${name}`, import.meta.url), 'utf8');
      assert.ok((await readFile(join(folder, name), 'utf8')) === tracked, `${name}: run make generate ONLY=client`);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});
