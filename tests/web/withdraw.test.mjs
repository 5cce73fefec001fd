// Money out of the wallet: a user asks for it once, and sees how it ended.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';

import { alter, api as usual, apiOf, assertAccessible, assertFits, assertSoon, browse, essential, goTo, hide, openAs, packet, person, press, reload, rich, someone, stack, startStack, textOf, traffic } from './harness.mjs';

/** A stack where users may ask. @type {Awaited<ReturnType<typeof startStack>>} */
let asking;
/** @type {ReturnType<typeof apiOf>} */
let api;
before(async () => {
  asking = await startStack({}, ['--user-withdrawals']);
  api = apiOf(asking.url);
});
after(() => asking?.stop());

/** A new user with money. @param {number} amount */
async function owner(amount) {
  const name = someone('own');
  await api(name, 'PUT', `/wallets/${name}/deposits/first`, { amount });
  return name;
}

/** @param {string} user */
const withdrawals = async (user) => (await api(user, 'GET', '/me/movements?kind=withdrawal')).movements;
/** @param {string} user */
const money = async (user) => {
  const { balance, pending } = await api(user, 'GET', '/me/wallet');
  return [balance, pending];
};

/** Opens the statement of a user. @param {import('./harness.mjs').Person} of */
async function statement(of) {
  const page = await openAs(`${asking.url}/#/mine/statement`, '#withdraw', { locale: 'en-US', ...of });
  return page;
}

/** @param {import('./harness.mjs').Page} page @param {string} amount */
async function ask(page, amount) {
  await page.fill('#withdraw', amount);
  await page.click('.withdraw [type=submit]');
}

/** What the rows of the statement say. @param {import('./harness.mjs').Page} page */
const rows = (page) =>
  page.locator('.history .movement').evaluateAll((all) => all.map((row) => ['.name', '.got', '.tag', '.note'].map((part) => row.querySelector(part)?.textContent ?? '').join(' ').trim()));

essential('a user asks for money, and sees it pending, paid out in part or given back', async () => {
  const alice = await owner(1_000);
  const page = await statement({ name: alice });
  assert.equal(await page.isVisible('.purse .pending'), false, 'nothing is pending');
  assert.equal(await page.isDisabled('.withdraw [type=submit]'), true);
  await page.fill('#withdraw', '３');
  assert.equal(await textOf(page, '#withdraw-hint'), '¥3.00 · 3 yuan');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.history .tag.pending');
  assert.deepEqual(await rows(page), ['Withdrawal -¥3.00 Pending', 'Money in +¥10.00']);
  assert.deepEqual([await textOf(page, '.purse .sum'), await textOf(page, '.purse .pending')], ['¥7.00', '¥3.00 pending']);
  assert.match(await textOf(page, '.withdraw .state'), /You asked for ¥3\.00/);
  assert.deepEqual([await page.inputValue('#withdraw'), await textOf(page, '#withdraw-hint')], ['', '¥0.01 to ¥7.00']);
  await page.fill('#withdraw', '2');
  await page.dblclick('.withdraw [type=submit]');
  await assertSoon(async () => (await textOf(page, '.purse .pending')) === '¥5.00 pending');
  assert.deepEqual(await money(alice), [500, 500]);
  const [second, first] = await withdrawals(alice);
  await api(alice, 'PUT', `/wallets/${alice}/withdrawals/own`, { amount: 100, note: 'to your bank' });
  await api(alice, 'POST', `/wallets/${alice}/withdrawals/${first.id}/post`, { amount: 180 });
  await api(alice, 'POST', `/wallets/${alice}/withdrawals/${second.id}/void`);
  await reload(page, '.end:not(:empty)');
  assert.deepEqual(await rows(page), [
    'Back from a withdrawal +¥2.00',
    'Back from a withdrawal +¥1.20',
    'Withdrawal -¥1.00 Paid out to your bank',
    'Withdrawal -¥2.00 Came back',
    'Withdrawal -¥3.00 Paid out',
    'Money in +¥10.00',
  ]);
  assert.equal(await textOf(page, '.month .hint'), 'in ¥10.00, out ¥2.80', 'what came back is no income');
  assert.equal(await page.isVisible('.purse .pending'), false);
  assert.equal(await textOf(page, '.purse .sum'), '¥7.20');
});

browse('“Mine” shows how a withdrawal ends without a reload, says so, and keeps what is shown and focused', async () => {
  const ends = ['处理中', '已打款'];
  const alice = await owner(1_000);
  const { packet_id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 100, count: 1 });
  for (let i = 0; i < 22; i += 1) await api(alice, 'PUT', `/wallets/${alice}/deposits/${i}`, { amount: 5 });
  await api(alice, 'POST', '/me/withdrawals', { id: 'w', amount: 300 });
  const page = await statement({ name: alice, locale: 'zh-CN' });
  await page.waitForSelector('.history li');
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await page.waitForSelector('.end:not(:empty)');
  const link = `.history a[href="#/p/${packet_id}"]`;
  await page.focus(link);
  assert.equal(await textOf(page, '.history .tag'), ends[0]);
  const place = await page.evaluate(() => scrollY);
  const received = await page.context().newPage();
  await goTo(received, `${asking.url}/#/mine`, '.purse .pending:not(:empty)');
  await api(alice, 'POST', `/wallets/${alice}/withdrawals/w/post`, { amount: 260 });
  await assertSoon(async () => (await textOf(page, '.history .tag')) === ends[1]);
  assert.equal(await page.locator('.history li:not(.month)').count(), 26, 'one more: what came back');
  assert.deepEqual(await page.evaluate((of) => [document.activeElement?.matches(of), document.querySelectorAll('.history .month').length], link), [true, 1]);
  assert.ok(Math.abs((await page.evaluate(() => scrollY)) - place) < 120, 'the rows stay where they are');
  for (const open of [page, received]) {
    await assertSoon(async () => /^余额 .7\.50$/.test(await textOf(open, '#live')));
    assert.deepEqual([await textOf(open, '.purse .pending'), /7\.50/.test(await textOf(open, '.purse .sum'))], ['', true]);
  }
  await page.context().close();
});

browse('“Mine” shows how many have opened a packet, asks less and less often, and not at all while it is hidden', async () => {
  const { id, sender } = await packet({ count: 3 });
  const page = await person({ name: sender, locale: 'en-US' });
  const { seen, areAnswered, pass } = traffic(page, (url) => /\/me\/(wallet|packets|claims|movements)/.test(url));
  await page.clock.install();
  await goTo(page, `${stack.url}/#/mine/sent`, '.history li');
  const first = seen.asked;
  // In two minutes the pauses grow from 1 s to 15 s; each time it asks for the wallet and the list.
  await pass(120);
  const calls = seen.asked - first;
  assert.ok(calls >= 16 && calls <= 40, `${calls} in two minutes`);
  await usual(someone(), 'POST', `/packets/${id}/grab`, {});
  await pass(20);
  assert.match(await textOf(page, '.history .hint'), /1 of 3/);
  await hide(page, true);
  await page.clock.runFor(60_000);
  const unseen = seen.asked;
  await page.clock.runFor(60_000);
  assert.equal(seen.asked, unseen, 'the page is hidden');
  await hide(page, false);
  await assertSoon(async () => seen.asked > unseen);
  // Elsewhere on the page nobody asks.
  await press(page, '.tabs a[href="#/"]', '#total');
  await areAnswered();
  const left = seen.asked;
  await page.clock.runFor(60_000);
  assert.equal(seen.asked, left);
});

browse('the form says where the money goes, when and at what fee: what the app says, or who knows', async () => {
  const alice = await owner(1_000);
  const terms = { 'zh-CN': '1 个工作日内到账你的银行卡，免手续费。', en: 'To your bank within one working day. No fee.' };
  for (const [locale, own, unknown] of /** @type {const} */ ([
    ['zh-CN', terms['zh-CN'], /提现到哪里、多久到账、是否收费，请咨询客服/],
    // Of the languages that there are, English is read by most.
    ['zh-TW', terms.en, /提領到哪裡、多久入帳、是否收費，請洽客服/],
    ['en-US', terms.en, /The operator can tell you where the money goes, how long it takes, and what it costs/],
  ])) {
    for (const [withdrawal_terms, says] of /** @type {const} */ ([[undefined, unknown], [terms, own], ['即时到账 PayPal', '即时到账 PayPal']])) {
      const page = await person({ name: alice, locale, width: 320, height: 568 });
      await alter(page, '**/config.json', () => ({ withdrawal_terms }));
      await goTo(page, `${asking.url}/#/mine`, '#withdraw');
      if (typeof says === 'string') assert.equal(await textOf(page, '.withdraw .terms'), says);
      else assert.match(await textOf(page, '.withdraw .terms'), says);
      await assertFits(page, `the terms in ${locale}`);
      await page.context().close();
    }
  }
});

essential('a lost answer is asked for again with the same id, also after a reload', async () => {
  const alice = await owner(1_000);
  const page = await statement({ name: alice, allow: /net::ERR_(FAILED|ABORTED)/ });
  /** @type {string[]} */
  const bodies = [];
  let isLost = true;
  await page.route('**/me/withdrawals', async (route) => {
    bodies.push(route.request().postData() ?? '');
    const response = await route.fetch();
    // The service has carried it out.
    if (isLost) await route.abort();
    else await route.fulfill({ response });
  });
  await ask(page, '3');
  await page.waitForSelector('.withdraw .state .bad');
  assert.match(await textOf(page, '.withdraw .state'), /may have been asked for/);
  assert.equal(await page.isDisabled('#withdraw'), true, 'another amount would be another withdrawal');
  // Another screen, and back.
  await press(page, '.tabs a[href="#/"]', '#total');
  await press(page, '.tabs a[href="#/mine"]', '.withdraw .state .bad');
  await reload(page, '.withdraw .state .bad');
  const before = bodies.length;
  isLost = false;
  await press(page, '.withdraw .state .button', '.withdraw .state a[href="#/mine/statement"]');
  assert.equal(bodies.length, before + 1);
  assert.deepEqual([...new Set(bodies)].map((body) => JSON.parse(body).amount), [300], 'each is the same request');
  assert.deepEqual([await textOf(page, '.purse .sum'), await textOf(page, '.purse .pending')], ['¥7.00', '¥3.00 pending']);
  assert.deepEqual([await money(alice), (await withdrawals(alice)).length], [[700, 300], 1]);
  // What is answered is not asked for again, and the next one is another.
  await reload(page, '.withdraw [type=submit]');
  await page.waitForTimeout(300);
  assert.equal(bodies.length, before + 1);
  await ask(page, '3');
  await page.waitForSelector('.withdraw .state a');
  assert.equal((await withdrawals(alice)).length, 2);
});

browse('a user who goes back to the form is told where to look, and so is one whose browser keeps nothing', async () => {
  const alice = await owner(1_000);
  const page = await statement({ name: alice, allow: /net::ERR_FAILED/ });
  await page.route('**/me/withdrawals', (route) => route.abort());
  await ask(page, '3');
  await page.click('.withdraw .state .link');
  assert.equal(await page.isDisabled('#withdraw'), false);
  await reload(page, '#withdraw');
  assert.equal(await page.inputValue('#withdraw'), '', 'it is forgotten');
  await api('alice', 'PUT', '/wallets/alice/deposits/first', { amount: 1_000 });
  const other = await statement({ storage: 'full', allow: /net::ERR_FAILED/ });
  await other.route('**/me/withdrawals', (route) => route.abort());
  await ask(other, '3');
  await other.waitForSelector('.withdraw .state .bad');
  assert.match(await textOf(other, '.withdraw .state'), /look in the statement before you ask again/);
});

browse('the form says what it does not take', async () => {
  const alice = await owner(1_000);
  const page = await statement({ name: alice });
  for (const [typed, says] of /** @type {const} */ ([
    ['0', /^The least you can withdraw is ¥0\.01$/],
    ['10.01', /^¥0\.01 more than your balance$/],
    ['1,234', /could be 1234, or 1 point 234/],
    ['-5', /no amount that we can read/],
  ])) {
    await page.fill('#withdraw', typed);
    assert.match(await textOf(page, '#withdraw-hint'), says);
    assert.equal(await page.getAttribute('#withdraw', 'aria-invalid'), 'true', typed);
    assert.equal(await page.isDisabled('.withdraw [type=submit]'), true, typed);
    await page.press('#withdraw', 'Enter');
  }
  assert.deepEqual(await withdrawals(alice), []);
});

browse('each refusal has its words, and is not asked for again', async () => {
  const alice = await owner(10_000);
  const page = await statement({ name: alice, allow: /status of (402|403|409|422|503)/ });
  const refused = async (/** @type {RegExp} */ says) => {
    await assertSoon(async () => says.test(await textOf(page, '.withdraw .state .bad')));
    assert.equal(await page.evaluate((name) => sessionStorage.getItem(`hongbao.withdrawing.${name}`), alice), null);
    assert.equal(await page.isDisabled('#withdraw'), false);
  };
  // Spent elsewhere meanwhile: the balance is read again, and the statement too.
  await page.fill('#withdraw', '60');
  await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 5_000, count: 1, greeting: 'a' });
  await page.click('.withdraw [type=submit]');
  await refused(/no longer covers it/);
  await assertSoon(async () => (await textOf(page, '.purse .sum')) === '¥50.00');
  assert.equal(await textOf(page, '#withdraw-hint'), '¥10.00 more than your balance');
  await page.waitForSelector('.history a[href^="#/p/"]');

  for (const id of ['a', 'b', 'c']) await api(alice, 'POST', '/me/withdrawals', { id, amount: 100 });
  await ask(page, '1');
  await refused(/already have 3 pending withdrawals/);
  await assertSoon(async () => (await textOf(page, '.purse .pending')) === '¥3.00 pending');

  await page.evaluate((name) => sessionStorage.setItem(`hongbao.withdrawing.${name}`, '{"id":"a","amount":101}'), alice);
  await reload(page, '.withdraw .state');
  await refused(/with another amount/);

  // What the service says of itself is no refusal: it stays, and is asked for again.
  await page.route('**/me/withdrawals', (route) => route.fulfill({ status: 503, json: { code: 'unavailable' } }));
  await api(alice, 'POST', `/wallets/${alice}/withdrawals/a/void`);
  await ask(page, '1');
  await page.waitForSelector('.withdraw .state .button');
  assert.match(await textOf(page, '.withdraw .state .bad'), /No answer yet/);
  await page.unroute('**/me/withdrawals');
  await api(alice, 'PUT', `/operator/users/${alice}/suspension`, { reason: 'reported' });
  await page.click('.withdraw .state .button');
  await refused(/is suspended/);

  await page.route('**/me/withdrawals', (route) => route.fulfill({ status: 403, json: { code: 'forbidden' } }));
  await ask(page, '1');
  await assertSoon(async () => (await page.locator('#withdraw').count()) === 0);
  assert.equal(await textOf(page, '.withdraw'), 'You can’t ask for withdrawals here.');
  assert.deepEqual((await withdrawals(alice)).map((/** @type {any} */ { id }) => id), ['c', 'b', 'a']);
});

browse('the form names the least amount, and takes no less', async () => {
  const bounded = await startStack({ WITHDRAWAL_MIN: '10' }, ['--user-withdrawals']);
  try {
    const [name, ofBounded] = [someone('owner'), apiOf(bounded.url)];
    await ofBounded(name, 'PUT', `/wallets/${name}/deposits/d`, { amount: 19 });
    const says = '单笔至少提现 ¥0.10';
    const page = await openAs(`${bounded.url}/#/mine/statement`, '#withdraw', { name });
    assert.match(await textOf(page, '#withdraw-hint'), /^¥0\.10 .+ ¥0\.19$/);
    await page.fill('#withdraw', '0.09');
    assert.deepEqual([await textOf(page, '#withdraw-hint'), await page.isDisabled('.withdraw [type=submit]')], [says, true]);
    await ask(page, '0.1');
    await page.waitForSelector('.withdraw .state a, .history .tag.pending');
    await assertSoon(async () => (await textOf(page, '#withdraw-hint')) === says);
  } finally {
    await bounded.stop();
  }
});

browse('where users may not ask there is no form, but what is pending shows', async () => {
  const alice = await rich('alice', 1_000);
  await usual(alice, 'PUT', `/wallets/${alice}/withdrawals/w`, { amount: 400, pending: true, note: 'closing the account' });
  const page = await openAs(`${stack.url}/#/mine/statement`, '.history .movement', { name: alice, locale: 'en-US' });
  assert.equal(await page.locator('.withdraw').count(), 0);
  assert.equal(await textOf(page, '.purse .pending'), '¥4.00 pending');
  assert.deepEqual(await rows(page), ['Withdrawal -¥4.00 Pending closing the account', 'Money in +¥10.00']);
});

browse('the form and the rows fit and are accessible in every language', async () => {
  const alice = await owner(100_000_000);
  const note = `${'to your bank '.repeat(8)}${'x'.repeat(60)}`;
  await api(alice, 'PUT', `/wallets/${alice}/withdrawals/w1`, { amount: 8_888_888, pending: true, note });
  await api(alice, 'POST', `/wallets/${alice}/withdrawals/w1/post`, { amount: 8_000_000 });
  await api(alice, 'PUT', `/wallets/${alice}/withdrawals/w2`, { amount: 8_888_888, pending: true });
  for (const [locale, dark] of /** @type {const} */ ([['zh-CN', false], ['zh-TW', true], ['en-US', false]])) {
    const page = await statement({ name: alice, locale, dark, width: 320, height: 568, still: true, allow: /ERR_FAILED/ });
    await page.waitForSelector('.history .tag');
    const check = async (/** @type {string} */ what) => {
      await page.waitForTimeout(200);
      await assertFits(page, `${what} in ${locale}`);
      await assertAccessible(page, `${what} in ${locale}`);
    };
    await page.fill('#withdraw', '88888.88');
    await check('an amount');
    await page.fill('#withdraw', '1,234');
    await check('a fault');
    await page.route('**/me/withdrawals', (route) => route.abort());
    await ask(page, '8.88');
    await page.waitForSelector('.withdraw .state .bad');
    await check('no answer');
    await page.unroute('**/me/withdrawals');
    await press(page, '.withdraw .state .button', '.withdraw .state:not(:has(.bad)) p');
    await check('asked');
  }
});
