// The support page on `hongbao dev`: the questions of a support desk; deeds that count once; hostile texts; what it asks and how it looks.

import assert from 'node:assert/strict';

import { answers, desk as deskAt, pending, suspend } from './console.mjs';
import { api, assertAccessible, assertFits, assertSoon, browse, essential, fund, grab, packet, rich, someone, stack } from './harness.mjs';

const address = (/** @type {string} */ hash) => `${stack.url}/console/${hash}`;
const desk = (/** @type {import('./harness.mjs').Person} */ who = {}, hash = '') => deskAt(address(hash), who);

answers(() => address(''));

essential('a deed counts once: a double click, a lost answer, another form', async () => {
  const user = await rich('member', 100);
  const { page, click, sees } = await desk({ allow: /ERR_FAILED/ }, `#/user/${user}`);
  /** @type {string[]} */
  const keys = [];
  let lost = 2;
  await page.route(/\/deposits\//, async (route) => {
    keys.push(`${route.request().url()} ${route.request().headers()['idempotency-key']}`);
    const response = await route.fetch();
    lost -= 1;
    // The service has done it, but the page does not learn of it.
    return lost >= 0 ? route.abort() : route.fulfill({ response });
  });
  await click('.user-wallet button', 'Deposit');
  await page.fill('#deed-amount', '8.88');
  await page.fill('#deed-reason', 'a gift of the house');
  await page.press('#deed-reason', 'Enter');
  await sees('dialog .says', `¥8.88 go into the wallet of ${user}: ¥1.00 become ¥9.88.`);
  await page.dblclick('dialog .go');
  await sees('dialog .done');
  assert.equal(keys.length, 3, 'each try, and none for the second click');
  assert.equal(new Set(keys).size, 1, 'with one id and one key');
  await click('dialog button', 'Close');
  await sees('.user-wallet .sum', '¥9.88');
  const { deeds } = await api('operator', 'GET', `/operator/deeds?user_id=${user}`);
  assert.equal(deeds.filter((/** @type {any} */ { reason }) => reason === 'a gift of the house').length, 1);
  // No answer at all: the page says so, and only the very same can be sent again.
  lost = Infinity;
  await click('.user-wallet button', 'Deposit');
  await page.fill('#deed-amount', '1');
  await page.fill('#deed-reason', 'again');
  await page.press('#deed-reason', 'Enter');
  await click('dialog .go');
  await sees('dialog .trouble', 'No answer came');
  assert.equal(await page.locator('dialog button', { hasText: 'Back' }).count(), 0);
  lost = 0;
  await click('dialog .go', 'Try again');
  await sees('dialog .done');
  await click('dialog button', 'Close');
  await sees('.user-wallet .sum', '¥10.88');
  assert.equal(new Set(keys).size, 2, 'the other form has another id and another key');
});

essential('while a call is under way no button of the form can be pressed', async () => {
  const { id } = await packet();
  const { page, click, sees } = await desk({}, `#/packet/${id}`);
  let release = () => {};
  const held = new Promise((resolve) => (release = () => resolve(null)));
  await page.route(/\/close$/, async (route) => {
    await held;
    await route.continue();
  });
  await click('.terms .deeds button', 'Close');
  await page.fill('#deed-reason', 'slowly');
  await page.press('#deed-reason', 'Enter');
  await click('dialog .go');
  await sees('dialog .go', 'Under way');
  assert.equal(await page.locator('dialog button:enabled').count(), 0);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('dialog').count(), 1, 'nor can the form be left');
  release();
  await sees('dialog .done');
});

essential('a form refuses what the schema refuses, and says how', async () => {
  const user = await rich('member', 100);
  const { page, click, sees } = await desk({}, `#/user/${user}`);
  await click('.user-wallet button', 'Deposit');
  await page.press('#deed-amount', 'Enter');
  await sees('#deed-amount-wrong', 'Fill this in');
  await page.fill('#deed-amount', '1,234');
  await page.press('#deed-amount', 'Enter');
  await sees('#deed-amount-wrong', '1,234');
  await page.fill('#deed-amount', '99999999999');
  await page.press('#deed-amount', 'Enter');
  await sees('#deed-amount-wrong', 'From ¥0.01');
  await page.fill('#deed-amount', '5');
  await page.press('#deed-amount', 'Enter');
  await sees('#deed-reason-wrong', 'Fill this in');
  assert.equal((await api('operator', 'GET', `/wallets/${user}`)).balance, 100);
  await page.evaluate(() => (location.hash = '#/state'));
  await sees('.state-sending');
  assert.equal(await page.locator('dialog').count(), 0, 'another view closes the form');
});

essential('hostile ids, greetings, notes, reasons and data do nothing', async () => {
  const hostile = '<img src=x onerror=alert(1)>';
  const user = `${someone()}<b>"'&javascript:alert(1)`;
  await api(user, 'PUT', `/wallets/${encodeURIComponent(user)}/deposits/${someone('d')}`, { amount: 10_000 });
  const { packet_id: id } = await api(user, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, greeting: hostile, metadata: { [hostile]: '</script><script>alert(1)</script>' }, recipients: [user, 'bob'] });
  await grab(user, id);
  await api(user, 'PUT', `/wallets/${encodeURIComponent(user)}/withdrawals/${someone('w')}`, { amount: 100, pending: true, note: hostile });
  await api(user, 'PUT', `/operator/users/${encodeURIComponent(user)}/suspension`, { reason: hostile });
  const { page, find, sees } = await desk();
  page.on('dialog', () => assert.fail('a script ran'));
  for (const [text, seen] of /** @type {const} */ ([[user, '.user-wallet .alarm'], [id, '.terms .greeting'], [hostile, 'h1']])) {
    await find(text);
    await sees(seen, hostile);
    await page.waitForFunction(() => !document.querySelector('.loading'));
    assert.equal(await page.locator('main :is(img, script, iframe, b)').count(), 0, text);
  }
  for (const hash of ['#/user/..%2Fx', '#/user/%E0%A4%A', '#/packet/../../wallets/bob', '#/evening/..', `#/packet/${id}/a%2Fb`]) {
    const asked = page.waitForRequest(/\/(operator|wallets|users)\//, { timeout: 300 }).then((request) => request.url(), () => null);
    await page.goto(address(hash));
    await sees('h1', /page|Page/);
    assert.equal(await asked, null, hash);
  }
});

essential('the keyboard alone is enough', async () => {
  const user = await rich('member', 100);
  const { page, sees } = await desk();
  const press = (/** @type {string[]} */ ...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  await page.focus('h1');
  await press('/');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'q');
  await page.keyboard.type(user);
  await press('Enter');
  await sees('.user-wallet button', 'Suspend');
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement?.textContent === 'Suspend')); i += 1) await press('Tab');
  assert.notEqual(await page.evaluate(() => getComputedStyle(/** @type {Element} */ (document.activeElement)).outlineStyle), 'none', 'the focus shows');
  await press('Enter');
  await sees('dialog input');
  await page.keyboard.type('by keyboard');
  await press('Enter');
  await sees('dialog .says');
  await press('Enter');
  await sees('dialog .done');
  await press('Enter');
  await sees('.user-wallet .alarm', 'by keyboard');
});

browse('each view reads a bounded number of times, as its comment says', async () => {
  const { id, sender } = await packet({ reference: someone('evening') });
  const { reference } = await api('operator', 'GET', `/operator/packets/${id}`);
  const { page } = await desk({ allow: /favicon/ });
  for (const [hash, calls, commands] of /** @type {const} */ ([[`#/user/${sender}`, 8, 1], [`#/packet/${id}`, 2, 0], [`#/packet/${id}/bob`, 3, 1], ['#/withdrawals', 1, 0], [`#/evening/${reference}`, 2, 0], ['#/state', 6, 3], ['#/deeds', 1, 0], ['#/find/nobody-at-all', 5, 1]])) {
    await page.goto(`${stack.url}/config.json`);
    const seen = { calls: 0, commands: 0 };
    const count = (/** @type {import('playwright-core').Request} */ request) => {
      const path = new URL(request.url()).pathname;
      if (path.endsWith('/console/tool')) seen.commands += 1;
      else if (/^\/(operator|wallets|users)\//.test(path)) seen.calls += 1;
    };
    page.on('request', count);
    await page.goto(address(hash));
    await page.waitForSelector('main h1');
    await page.waitForFunction(() => !document.querySelector('.loading'));
    page.off('request', count);
    assert.ok(seen.calls <= calls && seen.commands <= commands, `${hash}: ${seen.calls} calls, ${seen.commands} commands`);
  }
});

browse('every view fits 390 to 1,440 pixels in each language, light and dark', async () => {
  const user = `${'x'.repeat(110)}${someone()}`;
  await fund(user, 100_000);
  const sent = await api(user, 'POST', '/packets', { split: 'random', total_amount: 88_888, count: 3, greeting: '恭'.repeat(64), reference: someone('evening'), metadata: { channel: 'y'.repeat(200) }, limit: { key: 'k'.repeat(64), wins: 1 } });
  await grab(user, sent.packet_id);
  await pending(user);
  await suspend(user, 'w'.repeat(200), false);
  /** @type {string[]} */
  const faults = [];
  for (const [locale, width, dark] of /** @type {const} */ ([['zh-CN', 390, false], ['en-US', 390, true], ['zh-TW', 768, false], ['en-US', 1440, false]])) {
    const { page } = await desk({ locale, width, height: 844, dark, still: true, allow: /favicon/ });
    for (const hash of ['', `#/user/${user}`, `#/packet/${sent.packet_id}/${user}`, '#/withdrawals', `#/evening/${sent.reference}`, '#/state', '#/deeds', `#/find/${user}x`]) {
      await page.goto(`${stack.url}/config.json`);
      await page.goto(address(hash));
      await page.waitForSelector('main h1');
      await page.waitForFunction(() => !document.querySelector('.loading'));
      const screen = `${hash.slice(0, 12)} at ${width} in ${locale}`;
      for (const check of [assertFits, assertAccessible]) await check(page, screen).catch((error) => faults.push(`${screen}: ${error.actual?.join('\n  ') ?? error}`));
    }
  }
  assert.deepEqual(faults, []);
});

essential('the token of the page’s own server leaves the address at once; without a tool, all that the API knows is there', async () => {
  const { id } = await packet();
  const { page, sees, find } = await desk({ allow: /favicon/ });
  await page.route('**/console/config.json', (route) => route.fulfill({ json: { api: '/console/api', tool: false, signs: 'key', who: 'support' } }));
  /** @type {(string | undefined)[]} */
  const tokens = [];
  await page.route('**/console/api/**', (route) => {
    tokens.push(route.request().headers()['console-token']);
    return route.continue({ url: route.request().url().replace('/console/api', '') });
  });
  page.on('request', (request) => assert.ok(!request.url().endsWith('/tool'), 'no command is asked for'));
  await page.goto(`${stack.url}/config.json`);
  await page.goto(address('#token=abc-123'));
  await sees('h1', 'What is it about?');
  assert.ok(!page.url().includes('abc-123'));
  await find(id);
  await sees('h1', id);
  await page.waitForFunction(() => !document.querySelector('.loading'));
  assert.deepEqual(new Set(tokens), new Set(['abc-123']));
  assert.equal(await page.locator('.packet-stores').count(), 0);
  await page.reload();
  await sees('h1', id);
});
