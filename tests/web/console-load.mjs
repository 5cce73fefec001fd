// Measures how long each view of the support page takes beside a large ledger: make bench ONLY=console

import { startBrowser, startStack } from './stack.mjs';

const USERS = Number(process.env['USERS'] ?? 100_000);
const PACKETS = Number(process.env['PACKETS'] ?? 20_000);
const SLIPS = 100_000;
const WON = USERS / 5;
/** Users who are suspended, and others with a pending withdrawal. */
const TROUBLED = 300;
const ROUNDS = 200;
const CLIENTS = 32;
const TRIES = 7;

/** Calls `job` with 0 to `count - 1`, many at once. @param {number} count @param {(index: number) => Promise<unknown>} job */
async function each(count, job) {
  let next = 0;
  await Promise.all(Array.from({ length: CLIENTS }, async () => { while (next < count) await job(next++); }));
}

const stack = await startStack();

/** @param {string} user @param {string} method @param {string} path @param {object} [body] @param {string} [key] */
async function call(user, method, path, body, key) {
  const response = await fetch(stack.url + path, { method, headers: { 'X-User-Id': user, ...(key && { 'Idempotency-Key': key }) }, ...(body && { body: JSON.stringify(body) }) });
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
  return response.json();
}

/** @returns {Promise<string>} the large packet */
async function fill() {
  await call('x', 'PUT', '/wallets/shop/deposits/d', { amount: 100 * SLIPS + 10 * PACKETS });
  const { packet_id: large } = await call('shop', 'POST', '/packets', { split: 'random', total_amount: 100 * SLIPS, count: SLIPS, expires_in_s: 86_400 }, 'large');
  await each(PACKETS, (i) => call('shop', 'POST', '/packets', { split: 'equal', total_amount: 10, count: 10, expires_in_s: 86_400, ...(i < ROUNDS && { reference: 'evening' }) }, `k${i}`));
  await each(USERS, (i) => call('x', 'PUT', `/wallets/u${i}/deposits/d`, { amount: 100 }));
  await each(WON, (i) => call(`u${i}`, 'POST', `/packets/${large}/grab`));
  await each(TROUBLED, (i) => call('x', 'PUT', `/operator/users/u${i}/suspension`, { reason: 'a test' }));
  await each(TROUBLED, (i) => call('x', 'PUT', `/wallets/u${TROUBLED + i}/withdrawals/w`, { amount: 10, pending: true }));
  return large;
}

const large = await fill();
console.log(`${USERS} users, ${PACKETS} packets of one sender, and one of ${SLIPS} slips, ${WON} of them won`);
console.log('milliseconds until all of a view is shown: median and worst of', TRIES, '· its calls');
const browser = await startBrowser();
const page = await browser.newPage({ locale: 'en-US' });
await page.goto(`${stack.url}/console/`);
await page.locator('main h1').waitFor();
/** Each with what it must show. @type {[string, string, string][]} */
const views = [
  ['find a user', 'find/u7', '.user-wallet .sum'], ['a user', 'user/u7', '.user-wallet .sum'], ['the sender of all packets', 'user/shop', '.user-sent tr'],
  ['the large packet', `packet/${large}`, 'main tr'], ['a user in it', `packet/${large}/u7`, '.verdict'], ['an evening of 200 rounds', 'evening/evening/shop', 'main tr'],
  ['withdrawals', 'withdrawals', 'main tr'], ['state', 'state', '.state-suspended tr'], ['deeds', 'deeds', 'main tr'],
];
for (const [name, hash, selector] of views) {
  /** @type {number[]} */
  const times = [];
  let calls = 0;
  page.on('request', () => (calls += 1));
  for (let i = 0; i < TRIES; i += 1) {
    await page.evaluate(() => { location.hash = '#/'; });
    await page.locator('.keys').waitFor();
    calls = 0;
    times.push(await page.evaluate(async ({ to, needed }) => {
      const begun = performance.now();
      location.hash = to;
      const isShown = () => {
        if (document.querySelector('.trouble')) throw new Error(`${to}: ${document.querySelector('.trouble')?.textContent}`);
        return document.querySelector(needed) !== null && document.querySelector('.loading') === null;
      };
      do await new Promise(requestAnimationFrame); while (!isShown());
      return performance.now() - begun;
    }, { to: `#/${hash}`, needed: selector }));
  }
  page.removeAllListeners('request');
  times.sort((a, b) => a - b);
  const shown = (/** @type {number | undefined} */ ms) => String(Math.round(ms ?? 0)).padStart(5);
  console.log(shown(times[TRIES >> 1]), shown(times.at(-1)), String(calls).padStart(4), ` ${name}`);
}
await browser.close();
await stack.stop();
