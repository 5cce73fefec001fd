// All screens for everybody: languages, small phones, keyboards, screen readers; and the screens of the histories, the proof and the rush.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

import { alter, api, apiOf, assertAccessible, assertFits, assertSoon, browse, essential, fund, goTo, grab, openAs, packet, person, press, program, reload, rich, settled, someone, stack, startBrowser, startStack, textOf, watchShift } from './harness.mjs';

browse('the language follows the browser; a switch of it survives a reload', async () => {
  for (const [locale, title, lang] of /** @type {const} */ ([['zh-CN', '发红包', 'zh-CN'], ['zh-TW', '發紅包', 'zh-TW'], ['zh-HK', '發紅包', 'zh-TW'], ['en-GB', 'Send a red packet', 'en'], ['fr-FR', 'Send a red packet', 'en']])) {
    const page = await openAs(stack.url, 'form', { locale });
    assert.equal(await textOf(page, 'h1'), title);
    assert.equal(await page.getAttribute('html', 'lang'), lang);
    assert.equal(await page.isVisible('#note'), false, 'the browser keeps all, so the page says nothing of it');
    await page.selectOption('#language', lang === 'en' ? 'zh-TW' : 'en');
    await page.waitForFunction((old) => document.querySelector('h1')?.textContent !== old, title);
    // The choice keeps the focus.
    await page.waitForFunction(() => document.activeElement?.id === 'language');
    const other = await textOf(page, 'h1');
    await reload(page, 'form');
    assert.equal(await textOf(page, 'h1'), other);
  }
});

browse('each screen has its own title, every control can be hit with a finger, and a tap leaves no square', async () => {
  const { id, sender } = await packet({ count: 2, passphrase: 'sesame' });
  const over = await packet({ count: 1 });
  await grab(over.sender, over.id);
  const page = await person({ name: sender, locale: 'en-US' });
  const titles = new Set();
  for (const [path, selector] of /** @type {const} */ ([['/', '#total'], [`/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], [`/p/${over.id}`, '.result'], ['/mine', '.purse'], ['/verify', '#packet'], ['/rush', '#users']])) {
    await goTo(page, `${stack.url}/#${path}`, selector);
    await page.waitForTimeout(400);
    titles.add(await page.title());
    const small = await page.evaluate(() =>
      [...document.querySelectorAll('a, button, select, summary, input:not([type=radio])')]
        .filter((control) => control.checkVisibility() && !control.closest('.skip') && control.getBoundingClientRect().width > 0)
        .filter((control) => control.getBoundingClientRect().height < 43.5)
        .map((control) => `${control.outerHTML.slice(0, 80)}: ${Math.round(control.getBoundingClientRect().height)}`),
    );
    assert.deepEqual(small, [], path);
  }
  assert.equal(titles.size, 7, `${[...titles]}`);
  await goTo(page, `${stack.url}/p/${id}`, '#open');
  assert.equal(await page.evaluate(() => /** @type {any} */ (getComputedStyle(/** @type {Element} */ (document.querySelector('#open')))).webkitTapHighlightColor), 'rgba(0, 0, 0, 0)');
});

browse('on a small phone nothing is covered, cut or broken, on any screen and in any language', async () => {
  const sender = await rich('sender', 100_000_000);
  const send = async (/** @type {object} */ terms) => {
    const sent = await api(sender, 'POST', '/packets', { split: 'random', total_amount: 88_888, count: 10, ...terms });
    assert.ok(sent.packet_id, JSON.stringify(sent));
    return /** @type {string} */ (sent.packet_id);
  };
  const over = await send({ greeting: '恭'.repeat(64), cover: 'spring' });
  for (const name of [`${'x'.repeat(120)}${someone()}`.slice(0, 128), sender, ...Array.from({ length: 8 }, () => someone())]) await grab(name, over);
  const open = await send({ greeting: 'Best wishes to all of you, and thank you for everything this year' .slice(0, 64), total_amount: 1_888_888, count: 1_000 });
  const word = await send({ passphrase: 'sesame', cover: 'birthday' });
  const early = await send({ starts_at: new Date(Date.now() + 3 * 86_400_000).toISOString() });
  const watched = await send({ recipients: ['somebody'] });
  const late = await send({ expires_in_s: 1, split: 'equal', total_amount: 3_000_000, count: 150 });
  await settled(sender, late);
  for (const locale of ['zh-CN', 'zh-TW', 'en-US']) {
    const page = await person({ name: sender, locale, width: 320, height: 568, still: true, allow: /status of (403|404)|ERR_FAILED/ });
    /** @type {string[]} */
    const faults = [];
    const check = async (/** @type {string} */ screen, /** @type {string[]} */ ...atOnce) => {
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(350);
      await assertFits(page, `${screen} in ${locale}`, atOnce).catch((error) => faults.push(`${screen} in ${locale}: ${error.actual?.join() ?? error}`));
    };
    const visit = async (/** @type {string} */ path, /** @type {string} */ selector, /** @type {string[]} */ ...atOnce) => {
      // Another page in between: a change of only the fragment would leave the old screen for a moment.
      await page.goto(`${stack.url}/config.json`);
      await goTo(page, stack.url + path, selector);
      await check(path, ...atOnce);
    };
    await visit('/', '#total', '.amount', '.sticky .button');
    await page.click('summary');
    await page.fill('#total', '88888.88');
    await page.fill('#count', '1000');
    await page.fill('#greeting', '祝'.repeat(60));
    await check('a filled form', '.amount', '.sticky .button');
    await page.check('input[value=equal]');
    await page.fill('#total', '200');
    await page.fill('#count', '100000');
    await check('more than the balance');
    await page.fill('#total', '1,234');
    await page.fill('#count', 'x');
    await page.fill('#greeting', '祝'.repeat(70));
    await check('a form with faults');
    await visit('/', '#total');
    await page.route('**/packets', (route) => route.abort());
    await page.fill('#count', '10');
    await page.fill('#greeting', '');
    await page.fill('#total', '8.88');
    await page.click('.sticky .button');
    await page.waitForSelector('.state .bad', { timeout: 60_000 });
    await check('a send without an answer', '.state .bad', '.state .button', '.state .link');
    await page.click('.state .link');
    await page.unroute('**/packets');
    await visit(`/#/sent/${open}`, '.qr');
    await visit(`/p/${open}`, '#open', '#open', '.ends', '.below > .button');
    await visit(`/p/${early}`, '#open', '#open', '.starts');
    await visit(`/p/${watched}`, '.envelope-status');
    await visit(`/p/${word}`, '#open', '#open', '#word', '#status');
    await page.fill('#word', 'no');
    await press(page, '.asks .button', '#word[aria-invalid=true]');
    await check('a wrong passphrase', '#word', '#status');
    await visit(`/p/${over}`, '.claim', '.won', '.verify');
    await visit(`/p/${late}`, '.result', '.lost h1', '.lost .button:not([hidden])');
    await visit(`/#/verify/${over}`, '.proof');
    await visit('/#/mine', '.history li');
    await visit('/#/mine/sent', '.history li');
    await visit('/#/mine/statement', '.history li');
    await visit('/p/01JZZZZZZZZZZZZZZZZZZZZZZZ', '.notice', '.notice h1', '.notice .button');
    await visit('/#/nowhere', '.notice', '.notice .button');
    await visit('/#/rush', '#users');
    await page.fill('#total', '1,234');
    await page.click('.race .button');
    await check('a rush with faults');
    await page.fill('#total', '8888.88');
    await page.fill('#users', '200');
    await page.selectOption('#over', '0');
    await page.click('.race .button');
    await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await check('a rush');
    assert.deepEqual(faults, []);
  }
});

browse('no cover and no blessing hides where nothing can be dragged', async () => {
  for (const locale of ['en-US', 'zh-CN', 'zh-TW']) {
    for (const width of [800, 1280]) {
      const page = await openAs(stack.url, '.swatch', { locale, width, height: 800 });
      for (const cover of ['birthday', 'plain']) {
        await page.check(`.covers input[value=${cover}]`);
        const hidden = await page.evaluate(() => [...document.querySelectorAll('.covers, .chips')].filter((row) => row.scrollWidth > row.clientWidth).map((row) => row.className));
        assert.deepEqual(hidden, [], `${cover} in ${locale} at ${width}`);
      }
      await page.context().close();
    }
  }
});

browse('text of twice the size is not cut, on a phone and a computer', async () => {
  // As a user sets it in their browser.
  const using = await startBrowser({}, ['--blink-settings=defaultFontSize=32']);
  try {
    const { id, sender } = await packet({ count: 3, passphrase: 'sesame' });
    const over = await packet({ count: 2 });
    await grab(over.sender, over.id);
    await grab(someone(), over.id);
    /** @type {string[]} */
    const faults = [];
    for (const [locale, width, height] of /** @type {const} */ ([['en-US', 1280, 800], ['en-US', 390, 844], ['zh-CN', 390, 844]])) {
      const page = await person({ name: sender, locale, width, height, still: true, using, allow: /status of 404/ });
      for (const [path, selector] of /** @type {const} */ ([['/#/', '#total'], [`/#/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], [`/p/${over.id}`, '.result'], ['/#/mine', '.purse'], ['/#/mine/sent', '.history li'], ['/#/mine/statement', '.history li'], [`/#/verify/${over.id}`, '.proof'], ['/#/rush', '#users'], ['/#/nowhere', '.notice']])) {
        await page.goto(`${stack.url}/config.json`);
        await goTo(page, stack.url + path, selector);
        await page.waitForTimeout(350);
        assert.equal(await page.evaluate(() => getComputedStyle(document.body).fontSize), '32px');
        if (path === '/#/') await page.fill('#total', '88.88');
        await assertFits(page, path).catch((error) => faults.push(`${path} in ${locale} at ${width}: ${error.actual?.join('; ') ?? error}`));
      }
      await page.context().close();
    }
    assert.deepEqual(faults, []);
  } finally {
    await using.close();
  }
});

browse('a keyboard is enough for every step', async () => {
  const alice = await rich('alice', 100_000);
  const page = await openAs(stack.url, '#total', { name: alice, locale: 'en-US', width: 1100, height: 800 });
  const focused = () => page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent?.trim());
  const tabTo = async (/** @type {string} */ wanted) => {
    for (let i = 0; i < 40; i += 1) {
      await page.keyboard.press('Tab');
      if ((await focused()) === wanted) return;
    }
    throw new Error(`Tab never reaches ${wanted}`);
  };
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'skip', 'the first stop of Tab');
  await tabTo('total');
  await page.keyboard.type('12.34');
  await tabTo('count');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('1');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.qr path');
  assert.equal(await focused(), 'Ready to share', 'the new title has the focus');
  await tabTo('Open the packet');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#open');
  await tabTo('open');
  await page.keyboard.press('Space');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'You got ¥12.34');
  await tabTo('Verify fairness');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.proof[data-fair=true]');
});

browse('nothing moves for users who prefer reduced motion', async () => {
  const { link } = await packet();
  for (const still of [true, false]) {
    const page = await person({ name: someone(), still });
    await page.route('**/grab', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 600));
      await route.continue();
    });
    await page.goto(link);
    await press(page, '#open', '.envelope.opening');
    await page.waitForTimeout(200);
    const moving = await page.evaluate(() => document.getAnimations().filter((animation) => animation.playState === 'running').length);
    assert.equal(moving > 0, !still);
    await page.waitForSelector('.result[data-outcome=grabbed]');
  }
});

essential('axe finds no serious fault on any screen, in light and dark, in any language', async () => {
  const { id, sender } = await packet({ count: 3, passphrase: 'sesame' });
  await grab(someone(), id, { passphrase: 'sesame' });
  const over = await packet({ count: 2 });
  await grab(over.sender, over.id);
  await grab(someone(), over.id);
  for (const [locale, dark] of /** @type {const} */ ([['en-US', false], ['zh-CN', true], ['zh-TW', false], ['zh-TW', true]])) {
    const page = await person({ name: sender, locale, dark, still: true, allow: /status of (403|404)/ });
    const check = (/** @type {string} */ screen) => assertAccessible(page, `${screen} in ${locale}`);
    const visit = async (/** @type {string} */ path, /** @type {string} */ selector) => {
      await goTo(page, `${stack.url}/#${path}`, selector);
      await check(path);
    };
    await visit('/', '#total');
    await page.click('summary');
    await page.fill('#total', '99999');
    await check('a form with faults');
    await visit(`/sent/${id}`, '.qr');
    await visit(`/p/${id}`, '#open');
    await page.click('#open');
    await check('asked for the passphrase');
    await visit(`/p/${over.id}`, '.result');
    await visit('/p/01JZZZZZZZZZZZZZZZZZZZZZZZ', '.notice');
    await visit('/mine/sent', '.history li');
    await visit('/mine/statement', '.history li');
    await visit('/mine', '.nothing');
    await visit(`/verify/${over.id}`, '.proof');
    await visit('/rush', '#users');
    await page.fill('#users', '50');
    await page.fill('#slips', '5');
    await page.click('button[type=submit]');
    await page.waitForSelector('.sum[data-balanced=true]', { timeout: 300_000 });
    await check('a rush');
  }
});

browse('histories load more rows when scrolled, with totals over all rows', async () => {
  const alice = await rich('alice', 100_000);
  for (let i = 0; i < 45; i += 1) {
    const { packet_id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 100, count: 1, greeting: `no ${i}` });
    await grab(alice, packet_id);
  }
  const page = await person({ name: alice, locale: 'en-US' });
  for (const tab of ['sent', 'received']) {
    await page.goto(`${stack.url}/#/mine/${tab}`);
    // With a change of only the fragment, the old list would stay for a moment.
    await reload(page, '.history li');
    await assertSoon(async () => /45 packets, ¥45\.00/.test(await textOf(page, '.mine .progress')));
    const names = async () => page.locator('.history .name').allTextContents();
    while ((await names()).length < 45) {
      const before = (await names()).length;
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
      await assertSoon(async () => (await names()).length > before);
    }
    assert.deepEqual(await names(), Array.from({ length: 45 }, (_, i) => `no ${44 - i}`));
    assert.match(await textOf(page, '.end'), /That’s all/);
  }
});

browse('the statement lists every movement by month, refunds too, and its sums are those of the month', async () => {
  const alice = await rich('alice', 1_000);
  const { packet_id: id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 3, expires_in_s: 1 });
  await grab(alice, id);
  await settled(alice, id);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(`${stack.url}/#/mine/received`);
  await page.click('.segments a[href="#/mine/statement"]');
  // Only the statement has rows that lead nowhere: the deposit.
  await page.waitForSelector('.history .movement');
  assert.deepEqual(await page.locator('.history .name').allTextContents(), ['Came back unopened', `Packet from ${alice}`, 'Packet sent', 'Money in']);
  assert.deepEqual(await page.locator('.history .got').allTextContents(), ['+¥2.00', '+¥1.00', '-¥3.00', '+¥10.00']);
  assert.match(await textOf(page, '.month h2'), /20\d\d/);
  // She opened 1.00 herself, and 2.00 came back: that is no income.
  assert.equal(await textOf(page, '.month .hint'), 'in ¥11.00, out ¥1.00');
});

browse('the statement names senders and greetings, and asks once for what it does not know', async () => {
  const received = '红包-来自阿宝 · 恭喜发财';
  const sent = '发出红包 · 新年快乐';
  const alice = await rich('alice', 10_000);
  await fund('bob', 10_000);
  for (let i = 0; i < 25; i += 1) {
    const { packet_id } = await api('bob', 'POST', '/packets', { split: 'equal', total_amount: 100, count: 1, greeting: '恭喜发财' });
    await grab(alice, packet_id);
  }
  const { packet_id: id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 3, greeting: '新年快乐', expires_in_s: 1 });
  await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 3 });
  await settled(alice, id);
  const page = await person({ name: alice, width: 320, height: 568 });
  const shiftOf = await watchShift(page);
  /** @type {string[]} */
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await goTo(page, `${stack.url}/#/mine/statement`, '.history li');
  const names = page.locator('.history .name');
  const blank = sent.split(' · ')[0];
  assert.deepEqual((await names.allTextContents()).slice(0, 4), ['红包退回 · 新年快乐', blank, sent, received]);
  const shift = await shiftOf();
  assert.ok(shift <= 0.02, `${shift}`);
  while ((await names.count()) < 29) {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForTimeout(100);
  }
  const count = (/** @type {string} */ path) => asked.filter((other) => other.startsWith(path)).length;
  assert.deepEqual([count('/me/movements'), count('/me/packets'), count('/packets')], [2, 1, 0]);
  await assertFits(page, `the statement`);
  await press(page, '.segments a[href="#/mine/received"]', '.segments a[href="#/mine/received"][aria-current]');
  assert.match(await textOf(page, '.history li .hint'), /^(阿宝的红包|阿寶的紅包|From Bob)$/);
  await page.context().close();
});

essential('the browser proves a split, and notices payments or terms that differ from it', async () => {
  const { link, id, sender } = await packet({ count: 4 });
  const page = await openAs(`${stack.url}/#/verify/${id}`, '.verdict .bad', { name: sender, locale: 'en-US' });
  assert.match(await textOf(page, '.verdict'), /isn’t out yet/);
  for (let i = 0; i < 4; i += 1) await grab(`proof-${i}`, id);
  await page.goto(`${stack.url}/#/verify`);
  await page.fill('#packet', link);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.proof[data-fair=true]');
  assert.equal(await page.locator('.proof tbody tr').count(), 4);
  assert.match(await textOf(page, '.inputs'), /could hold¥200\.00.*method1/);
  // Terms that differ from those of the commitment.
  for (const [name, value, says] of /** @type {const} */ ([['slip_cap', 19_999, '.proof[data-fair=false]'], ['split_version', 2, '.verdict .bad']])) {
    await alter(page, `**/packets/${id}`, () => ({ [name]: value }));
    await press(page, 'button[type=submit]', says);
    // A screen reader says that a check fails.
    if (name === 'slip_cap') assert.ok((await page.locator('.checks li').filter({ has: page.getByRole('img', { name: 'fails', exact: true }) }).count()) > 0);
    await page.unroute(`**/packets/${id}`);
  }
  // One fen moves from one claim to another: the sum stays the same.
  await alter(page, '**/claims*', ({ claims: [one, two, ...rest] }) => ({ claims: [{ ...one, amount: one.amount + 1 }, { ...two, amount: two.amount - 1 }, ...rest] }));
  await page.click('button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('.proof tr.not').length === 2);

  // The same with `hongbao-admin`, offline.
  const shown = await api(sender, 'GET', `/packets/${id}`);
  const { claims } = await api(sender, 'GET', `/packets/${id}/claims`);
  assert.equal(verifyOffline({ ...shown, claims }), 0);
  const [first, ...rest] = claims;
  assert.equal(verifyOffline({ ...shown, claims: [{ ...first, amount: first.amount + 1 }, ...rest] }), 1);
  assert.equal(verifyOffline({ ...shown, claims, slip_cap: 19_999 }), 1);
  assert.equal(verifyOffline({ ...shown, claims, seed: null }), 2);
});

browse('a packet is verified with the cap that it was sent under, not with the deployment’s present one', async () => {
  const small = await startStack({ MAX_SLIP_AMOUNT: '500' });
  try {
    const ask = apiOf(small.url);
    await ask('ann', 'PUT', '/wallets/ann/deposits/d', { amount: 1_900 });
    const { packet_id: id } = await ask('ann', 'POST', '/packets', { split: 'random', total_amount: 1_900, count: 4 });
    for (let i = 0; i < 4; i += 1) await ask(`u${i}`, 'POST', `/packets/${id}/grab`, {});
    const page = await person({ name: 'ann', locale: 'en-US' });
    // As if the operator had raised the cap since.
    await alter(page, '**/config.json', () => ({ limits: { slip_amount_max: 20_000, count_max: 100_000 } }));
    await goTo(page, `${small.url}/#/verify/${id}`, '.proof[data-fair=true]');
    assert.match(await textOf(page, '.inputs'), /could hold¥5\.00/);
    const [shown, { claims }] = [await ask('ann', 'GET', `/packets/${id}`), await ask('ann', 'GET', `/packets/${id}/claims`)];
    assert.equal(shown.slip_cap, 500);
    assert.equal(verifyOffline({ ...shown, claims }), 0);
  } finally {
    await small.stop();
  }
});

/** Returns the exit status of `hongbao-admin verify`. @param {unknown} packet */
const verifyOffline = (packet) => spawnSync(program('hongbao-admin'), ['verify', '-'], { input: JSON.stringify(packet), env: {} }).status;

essential('a rush balances, and the screen shows it', async () => {
  const page = await person({ locale: 'en-US', width: 1100, height: 900 });
  await page.goto(`${stack.url}/#/rush`);
  await page.fill('#users', '300');
  await page.fill('#slips', '40');
  await page.click('button[type=submit]');
  await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
  assert.match(await textOf(page, '.sum'), /¥888\.00.*=.*¥888\.00.*in 41 wallets.*\+.*¥0\.00/);
  const tallies = (await textOf(page, '.tallies')).replace(/,/g, '');
  assert.match(tallies, /answered 300got one 40came too late 260failed 0/);
  assert.equal(await page.locator('.chart svg').count(), 3);
  await page.fill('#users', '0');
  await page.click('button[type=submit]');
  assert.match(await textOf(page, '[role=alert]'), /1 to 5,000 people/);
});

browse('the page sends, shares and grabs below a base path', async () => {
  const below = await startStack({}, ['--base-path', '/hongbao']);
  try {
    assert.match(below.url, /\/hongbao$/);
    const [alice, bob] = [someone('alice'), someone('bob')];
    const call = apiOf(below.url);
    await call(alice, 'PUT', `/wallets/${alice}/deposits/d`, { amount: 1_000 });
    const page = await person({ name: alice });
    /** @type {string[]} */
    const outside = [];
    page.on('request', (request) => void (request.url().startsWith(`${below.url}/`) || outside.push(request.url())));
    await page.goto(`${below.url}/`);
    await page.fill('#total', '8');
    await press(page, 'button[type=submit]', '.qr path');
    const [sent] = (await call(alice, 'GET', '/me/packets')).packets;
    const link = `${below.url}/p/${sent.packet_id}`;
    assert.ok((await page.content()).includes(link), 'the link that is shared');
    await goTo(page, `${below.url}/#/mine/sent`, '.history li');
    await page.goto(`${below.url}/#/rush`);
    await page.fill('#users', '20');
    await page.click('button[type=submit]');
    await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    const other = await person({ name: bob });
    other.on('request', (request) => void (request.url().startsWith(`${below.url}/`) || outside.push(request.url())));
    await other.goto(link);
    await press(other, '#open', '.result[data-outcome=grabbed]');
    assert.deepEqual(outside, []);
  } finally {
    await below.stop();
  }
});
