// Accessibility: both languages, small screens, keyboards, screen readers, light and dark, with and without animations.

import assert from 'node:assert/strict';

import { assertAccessible, browse, fund, grab, packet, person, someone, stack, textOf } from './browser.mjs';

browse('the language follows the browser; a switch of it survives a reload', async () => {
  for (const [locale, title, lang] of /** @type {const} */ ([['zh-CN', '发红包', 'zh-CN'], ['zh-TW', '發紅包', 'zh-TW'], ['zh-HK', '發紅包', 'zh-TW'], ['en-GB', 'Send a red packet', 'en'], ['fr-FR', 'Send a red packet', 'en']])) {
    const page = await person({ locale });
    await page.goto(stack.url);
    await page.waitForSelector('form');
    assert.equal(await textOf(page, 'h1'), title);
    assert.equal(await page.getAttribute('html', 'lang'), lang);
    await page.selectOption('#language', lang === 'en' ? 'zh-TW' : 'en');
    await page.waitForFunction((old) => document.querySelector('h1')?.textContent !== old, title);
    // The choice keeps the focus.
    await page.waitForFunction(() => document.activeElement?.id === 'language');
    const other = await textOf(page, 'h1');
    await page.reload();
    await page.waitForSelector('form');
    assert.equal(await textOf(page, 'h1'), other);
  }
});

browse('each screen has its own title', async () => {
  const { id, sender } = await packet();
  const page = await person({ name: sender, locale: 'en-US' });
  const titles = new Set();
  for (const [path, selector] of /** @type {const} */ ([['/', '#total'], [`/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], ['/mine', '.purse'], ['/verify', '#packet'], ['/rush', '#users']])) {
    await page.goto(`${stack.url}/#${path}`);
    await page.waitForSelector(selector);
    titles.add(await page.title());
  }
  assert.equal(titles.size, 6, `${[...titles]}`);
});

browse('no screen is wider than a small phone, in any language', async () => {
  const { link, id, sender } = await packet({ greeting: '恭'.repeat(64), count: 2 });
  await grab(`${'x'.repeat(120)}${someone()}`.slice(0, 128), id);
  await grab(someone(), id);
  for (const locale of ['zh-CN', 'zh-TW', 'en-US']) {
    const page = await person({ name: sender, locale, width: 320, height: 568 });
    for (const path of ['/', '/mine/sent', '/mine', '/mine/statement', `/p/${id}`, `/sent/${id}`, `/verify/${id}`, '/rush']) {
      await page.goto(`${stack.url}/#${path}`);
      await page.waitForSelector('main h1');
      await page.waitForTimeout(350);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 320, `${path} in ${locale} is ${wide} wide`);
    }
  }
  assert.ok(link);
});

browse('a keyboard is enough for every step', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
  const page = await person({ name: alice, locale: 'en-US', width: 1100, height: 800 });
  await page.goto(stack.url);
  await page.waitForSelector('#total');
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
  await tabTo('Fair');
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
    await page.click('#open');
    await page.waitForSelector('.envelope.opening');
    await page.waitForTimeout(200);
    const moving = await page.evaluate(() => document.getAnimations().filter((animation) => animation.playState === 'running').length);
    assert.equal(moving > 0, !still);
    await page.waitForSelector('.result[data-outcome=grabbed]');
  }
});

browse('axe finds no serious fault on any screen, in light and dark, in any language', async () => {
  const { id, sender } = await packet({ count: 3, passphrase: 'sesame' });
  await grab(someone(), id, { passphrase: 'sesame' });
  const over = await packet({ count: 2 });
  await grab(over.sender, over.id);
  await grab(someone(), over.id);
  for (const [locale, dark] of /** @type {const} */ ([['en-US', false], ['zh-CN', true], ['zh-TW', false], ['zh-TW', true]])) {
    const page = await person({ name: sender, locale, dark, still: true, allow: /status of (403|404)/ });
    const check = (/** @type {string} */ screen) => assertAccessible(page, `${screen} in ${locale}`);
    const visit = async (/** @type {string} */ path, /** @type {string} */ selector) => {
      await page.goto(`${stack.url}/#${path}`);
      await page.waitForSelector(selector);
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
