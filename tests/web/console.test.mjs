// The support page: the sixteen questions of a support desk, each in 30 seconds and 5 clicks; deeds that count once; hostile texts; readers.

import assert from 'node:assert/strict';

import { api, assertAccessible, assertFits, assertSoon, browse, essential, fund, grab, openAs, packet, rich, settled, someone, stack, textOf } from './harness.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {Awaited<ReturnType<typeof desk>>} Desk */

const CLICKS_MAX = 5;
const SECONDS_MAX = 30;
const today = () => {
  const now = new Date();
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
};
const yuan = (/** @type {number} */ minor) => `¥${(minor / 100).toFixed(2)}`;
const address = (/** @type {string} */ hash) => `${stack.url}/console/${hash}`;

/** Opens the page as one of the staff, and counts what they do. @param {import('./harness.mjs').Person} [who] @param {string} [hash] */
async function desk(who = {}, hash = '') {
  const page = await openAs(address(hash), 'main h1', { locale: 'en-US', width: 1280, height: 900, ...who });
  let clicks = 0;
  const begun = Date.now();
  const sees = async (/** @type {string} */ selector, /** @type {string | RegExp} */ text = '') => {
    await page.locator(selector).filter({ hasText: text }).first().waitFor();
  };
  return {
    page,
    sees,
    click: async (/** @type {string} */ selector, /** @type {string} */ text = '') => {
      clicks += 1;
      await page.locator(selector).filter({ hasText: text }).first().click();
    },
    /** Enter counts as a click. @param {string} text */
    find: async (text) => {
      clicks += 1;
      await page.fill('#q', text);
      await page.press('#q', 'Enter');
    },
    /** Fills in the reason, and confirms the sentence. @param {string} reason @param {string | RegExp} sentence */
    confirm: async (reason, sentence) => {
      clicks += 2;
      await page.fill('#deed-reason', reason);
      await page.press('#deed-reason', 'Enter');
      await sees('dialog .says', sentence);
      await page.click('dialog .go');
      await sees('dialog .done');
    },
    done: (/** @type {string} */ question) => {
      const seconds = (Date.now() - begun) / 1_000;
      console.log(`${question}: ${clicks} clicks, ${seconds.toFixed(1)} s`);
      assert.ok(clicks <= CLICKS_MAX && seconds <= SECONDS_MAX, `${question}: ${clicks} clicks, ${seconds} s`);
    },
  };
}

/** @param {string} question @param {(seat: Desk) => Promise<void>} answer */
const question = (question, answer) =>
  essential(question, async () => {
    const seat = await desk();
    await answer(seat);
    seat.done(question);
  });

/** @param {string} user @param {string} reason */
const suspend = (user, reason, grabs = true) => api('operator', 'PUT', `/operator/users/${user}/suspension`, { reason, grabs });
const pending = async (/** @type {string} */ user, amount = 500) => {
  const id = someone('payout');
  await api('operator', 'PUT', `/wallets/${user}/withdrawals/${id}`, { amount, pending: true, note: 'to their bank' });
  return id;
};

question('1. who is this user, what do they have, are they suspended?', async ({ find, sees }) => {
  const user = await rich('member', 1_234);
  await suspend(user, 'reported by their bank');
  await find(user);
  await sees('h1', user);
  await sees('.user-wallet .sum', '¥12.34');
  await sees('.user-wallet .alarm', 'reported by their bank');
  await sees('.user-deeds td', 'Suspend');
});

question('2. what moved, with the greeting and the other side?', async ({ find, sees }) => {
  const { id, sender } = await packet({ count: 1, total_amount: 888, greeting: 'Happy new year' });
  const user = await rich('member', 500);
  await grab(user, id);
  await find(user);
  await sees('.user-movements tr:has-text("Won")', 'Happy new year');
  await sees('.user-movements tr:has-text("Won") a', sender);
  await sees('.user-movements tr:has-text("Deposit")', '+¥5.00');
});

question('3. what did they send, and what did they win?', async ({ find, sees }) => {
  const { id, sender } = await packet({ greeting: 'from me' });
  const other = await packet({ count: 1, total_amount: 888, greeting: 'for them' });
  await grab(sender, other.id);
  await find(sender);
  await sees(`.user-sent a[href$="${id}"]`, 'from me');
  await sees(`.user-won a[href*="${other.id}"]`, 'for them');
});

question('4. find a packet by its sender, day and amount; by its state', async ({ find, sees, page, click }) => {
  const sender = await rich('sender', 100_000);
  const send = async (/** @type {object} */ terms) => (await api(sender, 'POST', '/packets', { split: 'random', count: 3, ...terms })).packet_id;
  const [one, other] = [await send({ total_amount: 8_811 }), await send({ total_amount: 8_822, starts_at: new Date(Date.now() + 86_400_000).toISOString() })];
  await find(`${sender} 88.11 ${today()}`);
  await sees('h1', one);
  await click('.terms .facts a', sender);
  await page.selectOption('.user-sent select', 'scheduled');
  await sees(`.user-sent a[href$="${other}"]`);
  await page.waitForFunction((id) => !document.querySelector(`.user-sent a[href$="${id}"]`), one);
});

question('5. the story of a packet: terms, slips, why it was closed, and when all of it happened', async ({ find, sees }) => {
  const { id, sender, link } = await packet({ greeting: 'to all', metadata: { channel: 'app' } });
  const winner = someone();
  await grab(winner, id);
  await api('operator', 'POST', `/operator/packets/${id}/close`, { reason: 'sent by mistake' });
  await settled(sender, id);
  await find(link);
  await sees('.terms .greeting', 'to all');
  await sees('.terms .facts', 'channel: app');
  await sees('.terms .alarm', 'sent by mistake');
  await sees('.packet-slips td', winner);
  for (const step of ['Sent', 'Closed', 'Settled']) await sees('.times li', step);
});

question('6. "I grabbed and got nothing"', async ({ find, sees, click, page }) => {
  const { id } = await packet({ count: 1, total_amount: 888 });
  const loser = someone();
  await grab(someone(), id);
  await grab(loser, id);
  await find(id);
  await page.fill('#who', loser);
  await click('.ask button');
  await sees('.packet-who .verdict', `${loser} has nothing`);
  await sees('.packet-who .why', 'All gone');
  await sees('.packet-who td', 'grabPacket, sold_out');
});

question('7. the number on the error page', async ({ find, sees, click }) => {
  const { id } = await packet({ count: 1, total_amount: 888 });
  await grab(someone(), id);
  const response = await fetch(`${stack.url}/packets/${id}/grab`, { method: 'POST', headers: { 'X-User-Id': someone() } });
  await find(response.headers.get('X-Request-Id') ?? '');
  await sees('.looks', 'grabPacket, sold_out');
  await click('.looks a', 'sold_out');
  await sees('h1', id);
});

question('8. why can they win no more?', async ({ find, sees, click, page }) => {
  const sender = await rich('sender', 10_000);
  const send = async () => (await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, limit: { key: 'evening', wins: 1 } })).packet_id;
  const [first, second] = [await send(), await send()];
  const user = await rich('guest', 1);
  await grab(user, first);
  await grab(user, second);
  await find(user);
  await sees('.user-keys tr:has-text("evening")', '¥5.00');
  await find(second);
  await page.fill('#who', user);
  await click('.ask button');
  await sees('.packet-who .why', 'won all that the limit allows');
});

question('9. close this packet', async ({ find, sees, click, confirm }) => {
  const { id, sender } = await packet({ split: 'equal', total_amount: 1_000, count: 4 });
  await grab(someone(), id);
  await find(id);
  await click('.terms .deeds button', 'Close');
  await confirm('asked by the sender', `¥7.50 go back to ${sender}; 1 person keeps ¥2.50.`);
  await sees('dialog .line', 'asked by the sender');
  await click('dialog button', 'Close');
  await sees('.terms .alarm', 'asked by the sender');
});

question('9b. close all of an evening', async ({ find, sees, click, confirm }) => {
  const reference = someone('evening');
  const sender = await rich('sender', 10_000);
  for (const _ of [1, 2]) await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, reference });
  await find(reference);
  await click('.deeds button', 'Close all');
  await confirm('the party is over', `2 packets end. ¥20.00 go back to ${sender}`);
  await click('dialog button', 'Close');
  await sees('tbody tr:nth-child(2)', 'Closed');
});

question('10. suspend', async ({ find, sees, click, confirm }) => {
  const user = await rich('member', 100);
  await find(user);
  await click('.user-wallet button', 'Suspend');
  await confirm('stolen phone', `${user} can neither send nor withdraw from now on. ¥1.00 stay`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .alarm', 'stolen phone');
});

question('10c. lift', async ({ find, sees, click, confirm }) => {
  const user = await rich('member', 100);
  await suspend(user, 'stolen phone');
  await find(user);
  await click('.user-wallet button', 'Lift');
  await confirm('their phone is back', `${user} can send and withdraw again.`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .fine', 'Not suspended');
  await sees('.user-deeds tr', 'stolen phone');
});

question('10b. limits of their own', async ({ find, sees, click, confirm, page }) => {
  const user = await rich('company', 100);
  await find(user);
  await click('.user-wallet button', 'Set limits');
  await page.fill('#deed-daily_sent_max', '50,000.00');
  await confirm('a company', `${user} may send this much a day: ¥50,000.00.`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .facts', '¥50,000.00');
});

question('11. the oldest pending withdrawal, and its end', async ({ find, sees, click, confirm, page }) => {
  const user = await rich('member', 1_000);
  const id = await pending(user);
  await find(id);
  await click(`.user-withdrawals tr:has-text("${id}") button`, 'Void');
  await confirm('no such account', `¥5.00 go back to the wallet of ${user}`);
  await click('dialog button', 'Close');
  await sees(`.user-withdrawals tr:has-text("${id}")`, 'no such account');
  assert.match(await textOf(page, '.user-wallet .sum'), /¥10\.00/);
});

question('12. is sending paused, since when, by whom?', async ({ sees, click, confirm }) => {
  await click('nav a', 'State');
  await click('.state-sending button', 'Pause');
  await confirm('bought accounts', 'nobody can send');
  await click('dialog button', 'Close');
  await sees('.state-sending .alarm', 'bought accounts');
  await sees('.state-sending time');
  await api('operator', 'PUT', '/operator/sending', { paused: false });
});

question('13. the money of a campaign, and the file for finance', async ({ find, sees, click, page }) => {
  const reference = someone('campaign');
  const sender = await rich('sender', 10_000);
  const { packet_id: id } = await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, reference });
  await grab(someone(), id);
  await find(reference);
  await sees('.sums .facts', '¥5.00 in 1 slips by 1 people');
  const file = page.waitForEvent('download');
  await click('.deeds button', 'File');
  assert.match((await file).suggestedFilename(), /\.csv$/);
  const winner = someone();
  await grab(winner, id);
  await sees('.sums .facts', '¥10.00 in 2 slips by 2 people');
});

question('14. is all money right, does a hold wait?', async ({ sees, click }) => {
  await click('nav a', 'State');
  await sees('.state-parked', 'No hold is parked');
  await click('.state-audit button', 'Audit');
  await sees('.state-audit', 'All money is accounted for.');
});

question('15. are webhooks late?', async ({ sees, click, confirm }) => {
  await click('nav a', 'State');
  await sees('.state-webhooks', 'Events are delivered');
  await click('.state-webhooks button', 'Disable');
  await confirm('their server moves', 'No event is delivered');
  await click('dialog button', 'Close');
  await sees('.state-webhooks', 'disabled');
  await api('operator', 'PUT', '/operator/webhooks', { enabled: true });
});

question('16. who did what?', async ({ sees, click, page }) => {
  const user = someone();
  await suspend(user, 'tried 500 passwords');
  await click('nav a', 'Deeds');
  await sees('.deeds-all tr', 'tried 500 passwords');
  await click('.deeds-all a', user);
  await sees('.user-deeds tr', 'tried 500 passwords');
  assert.notEqual(await textOf(page, '.user-deeds .by'), '');
});

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

browse('a reader can do nothing: each deed is not allowed, by the name of its right', async () => {
  const user = await rich('member', 1_000);
  await pending(user);
  const { id } = await packet({ reference: someone('evening') });
  const { reference } = await api('operator', 'GET', `/operator/packets/${id}`);
  const { page, click, sees } = await desk({ allow: /status of 403/ });
  const refusal = { type: 'urn:hongbao:problem:forbidden', title: 'Forbidden', status: 403, code: 'forbidden', detail: 'No.', request_id: 'req-1' };
  await page.route(/\/(operator|wallets|tool)(\/|$)/, (route) => {
    const isDeed = route.request().method() !== 'GET' && !/"(story|parked|sending|audit|packet)"/.test(route.request().postData() ?? '');
    return isDeed ? route.fulfill({ status: 403, json: refusal }) : route.continue();
  });
  for (const [hash, name, right] of /** @type {const} */ ([
    [`#/user/${user}`, 'Suspend', 'money'], [`#/user/${user}`, 'Set limits', 'money'], [`#/user/${user}`, 'Deposit', 'money'], [`#/user/${user}`, 'Withdraw', 'money'], [`#/user/${user}`, 'Post', 'payout'], [`#/user/${user}`, 'Void', 'payout'],
    [`#/packet/${id}`, 'Close', 'money'], [`#/packet/${id}`, 'Rebuild', 'repair'], [`#/evening/${reference}`, 'Close all', 'money'], ['#/state', 'Pause', 'money'], ['#/state', 'Disable', 'webhooks'],
  ])) {
    await page.goto(address(hash));
    await click('.deeds button', name);
    for (const field of await page.locator('dialog input:not([type=checkbox])').all()) await field.fill((await field.getAttribute('inputmode')) ? '1' : 'because');
    await page.press('#deed-reason', 'Enter');
    await click('dialog .go');
    await sees('dialog .trouble', `needs the right “${right}”`);
    await sees('dialog .trouble', 'req-1');
    await page.keyboard.press('Escape');
  }
  assert.equal((await api('operator', 'GET', `/wallets/${user}`)).balance, 500);
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
  for (const [hash, calls, commands] of /** @type {const} */ ([[`#/user/${sender}`, 8, 1], [`#/packet/${id}`, 2, 0], [`#/packet/${id}/bob`, 3, 1], ['#/withdrawals', 1, 0], [`#/evening/${reference}`, 2, 0], ['#/state', 6, 2], ['#/deeds', 1, 0], ['#/find/nobody-at-all', 5, 1]])) {
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
