// Runs the example of docs/INTEGRATE.md as it is printed there.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { apiOf, startStack } from './stack.mjs';

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack;
/** @type {string} */
let folder;
let runs = 0;

before(async () => {
  stack = await startStack();
  process.env['HONGBAO_URL'] = stack.url;
  folder = await mkdtemp(join(tmpdir(), 'hongbao-shop-'));
});
after(async () => {
  await stack?.stop();
  await rm(folder, { recursive: true });
});

/** Loads the example with other users, so that each run has its own wallets. @returns {Promise<any>} */
async function shop() {
  runs += 1;
  const document = await readFile(new URL('../../docs/INTEGRATE.md', import.meta.url), 'utf8');
  const source = /```js\n([\s\S]*?)```/.exec(document)?.[1] ?? '';
  const client = new URL('../../clients/js/hongbao.js', import.meta.url).href;
  const file = join(folder, `shop-${runs}.mjs`);
  await writeFile(file, source.replace("'hongbao-client'", JSON.stringify(client)).replaceAll("'shop-", `'shop${runs}-`));
  return import(pathToFileURL(file).href);
}

/** @param {any} shop */
async function adds(shop) {
  const { balances, transfers } = shop;
  const inShop = [...balances.values()].reduce((a, b) => a + b, 0);
  assert.equal(inShop, 20_000, 'the shop has the money that it began with');
  const states = [...transfers.values()].map(({ kind, state }) => `${kind} ${state}`);
  assert.deepEqual(states, ['in done', 'out done', 'out done', 'out done', 'out refused']);
  const api = apiOf(stack.url);
  for (const user of balances.keys()) {
    assert.equal((await api(user, 'GET', '/me/wallet')).balance, 0, `the engine holds no money of ${user}`);
    const { movements } = await api(user, 'GET', `/wallets/${user}/movements?limit=100`);
    assert.equal(movements.reduce((/** @type {number} */ sum, /** @type {{amount: number}} */ { amount }) => sum + amount, 0), 0);
  }
}

test('the shop’s accounts balance after an evening', async () => {
  const example = await shop();
  await example.evening();
  await adds(example);
});

test('the accounts balance if the answer to every request is lost once', async () => {
  const real = globalThis.fetch;
  const lost = new Set();
  globalThis.fetch = async (url, init) => {
    const answer = await real(url, init);
    const request = `${init?.method} ${url} ${JSON.stringify([...new Headers(init?.headers)])} ${init?.body}`;
    if (lost.has(request)) return answer;
    lost.add(request);
    throw new TypeError('the answer is lost');
  };
  const example = await shop();
  try {
    await example.evening();
  } finally {
    globalThis.fetch = real;
  }
  await adds(example);
  assert.ok(lost.size >= 9, `${lost.size} requests`);
});

test('if the process dies between a transfer’s steps, its worker completes the transfer once', async () => {
  const example = await shop();
  const user = [...example.balances.keys()][0];
  const id = example.beginDeposit(user, 500);
  // The process dies after the deposit, before it marks the transfer as done.
  await apiOf(stack.url)(user, 'PUT', `/wallets/${user}/deposits/${id}`, { amount: 500 });
  assert.equal(await example.carryOut(id), 'done');
  assert.equal(await example.carryOut(id), 'done');
  assert.equal((await apiOf(stack.url)(user, 'GET', '/me/wallet')).balance, 500);
  assert.equal(example.balances.get(user), 19_500);
});

test('the accounts balance if the shop pays by events that each come twice', async () => {
  const example = await shop();
  const api = apiOf(stack.url);
  const [sender, winner] = [`${[...example.balances.keys()][0]}`, `winner-${crypto.randomUUID()}`];
  assert.equal(await example.carryOut(example.beginDeposit(sender, 900)), 'done');
  const { packet_id } = await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 900, count: 3, expires_in_s: 4 });
  const { slip, amount } = await api(winner, 'POST', `/packets/${packet_id}/grab`);
  const claimed = { 'detail-type': 'SlipClaimed', detail: { packet_id, sender_id: sender, user_id: winner, slip, amount } };
  await Promise.all([example.onEvent(claimed), example.onEvent(claimed)]);
  await until(async () => {
    await api(sender, 'POST', '/_local/settle');
    return (await api(sender, 'GET', `/packets/${packet_id}`)).status === 'settled';
  });
  const refunded = { 'detail-type': 'PacketRefunded', detail: { packet_id, sender_id: sender, refunded_amount: 600 } };
  for (const event of [refunded, claimed, refunded]) await example.onEvent(event);
  assert.deepEqual([example.balances.get(winner), example.balances.get(sender)], [300, 19_700]);
  for (const user of [winner, sender]) assert.equal((await api(user, 'GET', '/me/wallet')).balance, 0);
});

/** @param {() => Promise<boolean>} holds */
async function until(holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
