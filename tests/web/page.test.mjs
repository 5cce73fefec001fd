// The page in a real browser, against a local stack that is started for it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';

import { apiOf, pictures, program, startBrowser, startStack } from './stack.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('./stack.mjs').Person} Person */

/** @type {Awaited<ReturnType<typeof startStack>>} */
let stack;
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {ReturnType<typeof apiOf>} */
let api;
/** What a test opened, and what went wrong in it. @type {{context: import('playwright-core').BrowserContext, faults: string[]}[]} */
let opened = [];

before(async () => {
  [stack, browser] = await Promise.all([startStack(), startBrowser()]);
  api = apiOf(stack.url);
});
after(async () => {
  await browser?.close();
  await stack?.stop();
});

/**
 * A test whose pages may report nothing: no error in the console, no exception, no violation of the policy.
 * @param {string} name
 * @param {() => Promise<void>} run
 */
function browse(name, run) {
  test(name, { timeout: 120_000 }, async () => {
    opened = [];
    try {
      await run();
      assert.deepEqual(opened.flatMap(({ faults }) => faults), [], 'what the console says');
    } finally {
      await Promise.all(opened.map(({ context }) => context.close()));
    }
  });
}

/** Somebody with a browser. @param {Person} [person] */
async function person({ name = 'alice', locale = 'zh-CN', width = 390, height = 844, scale = 1, dark = false, still = false, allow } = {}) {
  const context = await browser.newContext({
    locale,
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: still ? 'reduce' : 'no-preference',
  });
  /** @type {string[]} */
  const faults = [];
  opened.push({ context, faults });
  await context.addInitScript((user) => {
    if (!sessionStorage.getItem('hongbao.user')) sessionStorage.setItem('hongbao.user', user);
    addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  }, name);
  const page = await context.newPage();
  const add = (/** @type {string} */ fault) => {
    if (!allow?.test(fault)) faults.push(fault);
  };
  page.on('console', (message) => message.type() === 'error' && add(`${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => add(`${error.name}: ${error.message}`));
  page.setDefaultTimeout(20_000);
  return page;
}

let users = 0;
/** A user whom nobody has seen before. @param {string} [name] */
const someone = (name = 'user') => `${name}-${(users += 1)}`;

/** @param {string} user @param {number} amount */
const fund = (user, amount) => api(user, 'PUT', `/wallets/${user}/deposits/d${(users += 1)}`, { amount });

/** A packet of somebody new. @param {object} [terms] */
async function packet(terms = {}) {
  const sender = someone('sender');
  await fund(sender, 100_000);
  const sent = await api(sender, 'POST', '/packets', { split: 'random', total_amount: 8_888, count: 3, ...terms });
  assert.ok(sent.packet_id, JSON.stringify(sent));
  return { sender, id: /** @type {string} */ (sent.packet_id), link: `${stack.url}/#/p/${sent.packet_id}` };
}

/** @param {string} user @param {string} id @param {object} [body] */
const grab = (user, id, body = {}) => api(user, 'POST', `/packets/${id}/grab`, body);

/** @param {Page} page @param {string} selector */
const textOf = async (page, selector) => ((await page.textContent(selector)) ?? '').trim();

/** @param {Page} page */
const yuan = async (page) => Math.round(Number((await textOf(page, '.won .sum')).replace(/[^\d.]/g, '')) * 100);

browse('send, share, grab as a second user, sold out as a third, and a reload says the same', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '88.88');
  await page.fill('#count', '2');
  await page.fill('#greeting', '恭喜 <b>发财</b>');
  assert.match(await textOf(page, '.preview .greeting'), /恭喜 <b>发财<\/b>/);
  assert.match(await textOf(page, '.balance'), /1,000\.00.*911\.12/);
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const link = await page.inputValue('#link');
  assert.match(link, /#\/p\/[0-9A-Z]{26}$/);
  const id = link.slice(-26);

  const bob = await person({ name: someone('bob') });
  await bob.goto(link);
  await bob.click('#open');
  await bob.waitForSelector('.result[data-outcome=grabbed]');
  const amount = await yuan(bob);
  assert.ok(amount >= 1 && amount < 8_888);
  assert.equal(await bob.locator('.claim').count(), 1);
  assert.equal(await bob.locator('.claim.best').count(), 0, 'nobody is the best before the end');

  const carol = someone('carol');
  const other = (await grab(carol, id)).amount;
  assert.equal(amount + other, 8_888);
  // The list fills by itself, and at the end the best is crowned.
  await bob.waitForSelector('.claim.best');
  assert.equal(await bob.locator('.claim').count(), 2);
  const best = await textOf(bob, '.claim.best .got');
  assert.equal(Math.round(Number(best.replace(/[^\d.]/g, '')) * 100), Math.max(amount, other));

  const dave = await person({ name: someone('dave') });
  await dave.goto(link);
  await dave.waitForSelector('.result[data-outcome=sold_out]');
  assert.match(await textOf(dave, 'h1'), /派完了/);

  await bob.reload();
  await bob.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(await yuan(bob), amount);
  // Also where this tab remembers nothing.
  await bob.evaluate(() => Object.keys(sessionStorage).filter((key) => key.startsWith('hongbao.grabbed')).forEach((key) => sessionStorage.removeItem(key)));
  await bob.reload();
  await bob.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(await yuan(bob), amount);
});

browse('who waits for news hears that there is none, and no more', async () => {
  const { id, link } = await packet();
  await grab(someone(), id);
  const page = await person({ name: someone() });
  /** @type {number[]} */
  const statuses = [];
  /** @type {Map<string, string>} */
  const urls = new Map();
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  network.on('Network.requestWillBeSent', ({ requestId, request }) => urls.set(requestId, request.url));
  // What came over the wire: the page itself is shown the whole answer again.
  network.on('Network.responseReceivedExtraInfo', ({ requestId, statusCode }) => {
    if (urls.get(requestId)?.endsWith(`/packets/${id}`)) statuses.push(statusCode);
  });
  await page.goto(link);
  await page.waitForSelector('.claim');
  await assertSoon(async () => statuses.includes(304));
  assert.equal(statuses[0], 200);
  await grab(someone(), id);
  await page.waitForFunction(() => document.querySelectorAll('.claim').length === 2);
});

browse('who taps when the last slip has just gone hears so', async () => {
  const { id, link } = await packet({ count: 1 });
  const page = await person({ name: someone() });
  await page.goto(link);
  await page.waitForSelector('#open');
  await grab(someone(), id);
  await page.click('#open');
  await page.waitForSelector('.result[data-outcome=sold_out]');
});

browse('a double click sends once, and so does a reload before the answer', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
  const page = await person({ name: alice, allow: /net::ERR_(FAILED|ABORTED)/ });
  /** @type {string[]} */
  const keys = [];
  let isHeld = true;
  await page.route('**/packets', async (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    const answer = await route.fetch();
    // The service has done it; its answer is lost with the page.
    if (isHeld) return;
    await route.fulfill({ response: answer });
  });
  await page.goto(stack.url);
  await page.fill('#total', '10');
  await page.dblclick('button[type=submit]');
  await page.locator('#greeting').press('Enter');
  await assertSoon(async () => (await api(alice, 'GET', '/me/packets')).packets.length === 1);
  isHeld = false;
  await page.reload();
  await page.waitForSelector('.qr path');
  assert.equal(new Set(keys).size, 1, `${keys}`);
  assert.ok(keys.length >= 2);
  assert.deepEqual((await api(alice, 'GET', '/me/packets')).totals, { count: 1, amount: 1_000 });
  // What is sent is not sent again by going back or starting anew.
  await page.goto(stack.url);
  await page.waitForSelector('#total');
  await page.waitForTimeout(300);
  assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 1);
});

browse('the limits are said before they are hit', async () => {
  const alice = someone('alice');
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#count', '10');
  assert.match(await textOf(page, '#total-hint'), /From ¥0\.10 to ¥2,000\.00: at most ¥200\.00/);
  for (const [total, count, hint, says] of /** @type {const} */ ([
    ['0.09', '10', '#total-hint', /At least ¥0\.10/],
    ['2000.01', '10', '#total-hint', /At most ¥2,000\.00/],
    ['1.005', '10', '#total-hint', /An amount, such as/],
    ['-5', '10', '#total-hint', /An amount, such as/],
    ['5', '10', '#total-hint', /¥5\.00 more than your balance/],
    ['5', '0', '#count-hint', /from 1 to 100,000/],
    ['5', '100001', '#count-hint', /from 1 to 100,000/],
  ])) {
    await page.fill('#total', total);
    await page.fill('#count', count);
    assert.match(await textOf(page, hint), says);
    assert.equal(await page.isDisabled('button[type=submit]'), true, total);
    assert.equal(await page.getAttribute(hint.replace('-hint', ''), 'aria-invalid'), 'true');
  }
  await page.click('summary');
  await page.fill('#recipients', 'bob, c/d');
  assert.match(await textOf(page, '#recipients-hint'), /Not a user name: c\/d/);
  await page.fill('#recipients', '');
  await page.fill('#total', '5');
  await page.fill('#count', '10');
  await page.click('.balance button');
  await page.waitForSelector('button[type=submit]:enabled');
  assert.match(await textOf(page, 'button[type=submit]'), /Put in ¥5\.00/);
});

browse('a passphrase is asked for, and a wrong one is told', async () => {
  const { link, id } = await packet({ passphrase: '芝麻开门' });
  const user = someone();
  const page = await person({ name: user, allow: /status of 403 .*\/grab$/ });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('#word');
  assert.match(await textOf(page, '.envelope-status'), /需要口令/);
  await page.fill('#word', '开门');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.envelope-status')?.textContent?.includes('不对'));
  await page.fill('#word', '芝麻开门');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal((await grab(user, id)).amount, await yuan(page));
});

browse('too many wrong passphrases: it says how long to wait', async () => {
  const { link } = await packet({ passphrase: 'sesame' });
  const page = await person({ name: someone(), locale: 'en-US', allow: /status of (403|429) .*\/grab$/ });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('#word');
  for (let i = 0; i < 12; i += 1) {
    await page.fill('#word', `wrong ${i}`);
    const [answer] = await Promise.all([page.waitForResponse('**/grab'), page.keyboard.press('Enter')]);
    await page.waitForSelector('.envelope:not(.opening)');
    if (answer.status() === 429) break;
  }
  assert.match(await textOf(page, '.envelope-status'), /Again in \d+ s/);
});

browse('a packet for others, and one that is not there', async () => {
  const { link } = await packet({ recipients: ['friend'] });
  const page = await person({ name: someone(), allow: /status of (403|404)/ });
  await page.goto(link);
  await page.waitForSelector('.notice[data-kind=not-for-you]');
  await page.goto(`${stack.url}/#/p/01JZZZZZZZZZZZZZZZZZZZZZZZ`);
  await page.waitForSelector('.notice[data-kind=not-found]');
  await page.goto(`${stack.url}/#/nowhere`);
  await page.waitForSelector('.notice a[href="#/"]');
});

browse('a packet expires, and what is left comes back', async () => {
  const alice = someone('alice');
  await fund(alice, 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#total', '30');
  await page.fill('#count', '3');
  await page.click('.segments label:last-child');
  await page.click('summary');
  await page.selectOption('#expiry', '10');
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const id = (await page.inputValue('#link')).slice(-26);
  assert.equal((await grab(someone(), id)).amount, 1_000);
  const late = await person({ name: someone('late'), locale: 'en-US' });
  await late.goto(`${stack.url}/#/p/${id}`);
  await late.waitForSelector('#open');
  const { expires_at } = await api(alice, 'GET', `/packets/${id}`);
  await page.waitForTimeout(Math.max(0, Date.parse(expires_at) - Date.now()) + 200);
  // It was open when the page was loaded; now the tap comes too late.
  await late.click('#open');
  await late.waitForSelector('.result[data-outcome=expired]');
  assert.match(await textOf(late, 'h1'), /Too late/);
  await assertSoon(async () => {
    await api(alice, 'POST', '/_local/settle');
    return (await api(alice, 'GET', `/packets/${id}`)).status === 'settled';
  });
  await late.reload();
  await late.waitForSelector('.result[data-outcome=expired]');
  assert.match(await textOf(late, '.who .foot'), /20\.00 went back/);
  await page.goto(`${stack.url}/#/mine/sent`);
  await page.waitForSelector('.history .back');
  assert.match(await textOf(page, '.history .back'), /¥20\.00 came back/);
  assert.match(await textOf(page, '.purse .sum'), /90\.00/);
  assert.match(await textOf(page, '.history .tag'), /Over/);
});

browse('slow: it says so, and the answer counts once', async () => {
  const { link, id } = await packet();
  const user = someone();
  const page = await person({ name: user, locale: 'en-US' });
  let isSlow = true;
  await page.route('**/grab', async (route) => {
    if (isSlow) await new Promise((resolve) => setTimeout(resolve, 3_500));
    isSlow = false;
    await route.continue();
  });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('.envelope.slow');
  assert.match(await textOf(page, '.envelope-status'), /network is slow/);
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal((await api(user, 'GET', `/packets/${id}`)).claimed_count, 1);
});

browse('no answer: it says what is not known, and trying again gives the slip that was won', async () => {
  const { link, id } = await packet();
  const user = someone();
  const page = await person({ name: user, locale: 'en-US', allow: /net::ERR_FAILED/ });
  let isBroken = true;
  await page.route('**/grab', async (route) => {
    if (!isBroken) return route.continue();
    // The grab is done, its answer lost.
    await route.fetch();
    await route.abort();
  });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('.notice[data-kind=no-answer]', { timeout: 30_000 });
  isBroken = false;
  await page.click('.notice button');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  const seen = await api(user, 'GET', `/packets/${id}`);
  assert.deepEqual([seen.claimed_count, seen.mine.amount], [1, await yuan(page)]);
});

browse('a service that is busy is asked again, and what it says is heard', async () => {
  const { link } = await packet();
  const page = await person({ name: someone(), allow: /status of 503/ });
  let left = 2;
  await page.route('**/grab', (route) => {
    left -= 1;
    if (left < 0) return route.continue();
    return route.fulfill({ status: 503, headers: { 'Retry-After': '1' }, contentType: 'application/problem+json', body: JSON.stringify({ code: 'unavailable' }) });
  });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('.envelope.slow');
  await page.waitForSelector('.result[data-outcome=grabbed]');
});

browse('offline: it says so, and goes on by itself', async () => {
  const { link } = await packet();
  const page = await person({ name: someone(), allow: /ERR_INTERNET_DISCONNECTED/ });
  await page.goto(link);
  await page.waitForSelector('#open');
  await page.context().setOffline(true);
  await page.click('#open');
  await page.waitForSelector('.notice[data-kind=offline]', { timeout: 30_000 });
  await page.context().setOffline(false);
  await page.click('#open');
  await page.waitForSelector('.result[data-outcome=grabbed]');
});

browse('the language is the browser’s, and can be switched and kept', async () => {
  for (const [locale, title, lang] of /** @type {const} */ ([['zh-TW', '发红包', 'zh-CN'], ['en-GB', 'Send a red packet', 'en'], ['fr-FR', 'Send a red packet', 'en']])) {
    const page = await person({ locale });
    await page.goto(stack.url);
    await page.waitForSelector('form');
    assert.equal(await textOf(page, 'h1'), title);
    assert.equal(await page.getAttribute('html', 'lang'), lang);
    await page.click('.tools button');
    await page.waitForFunction((old) => document.querySelector('h1')?.textContent !== old, title);
    const other = await textOf(page, 'h1');
    await page.reload();
    await page.waitForSelector('form');
    assert.equal(await textOf(page, 'h1'), other);
  }
  // Both say everything, with the same gaps to fill.
  const source = await readFile(new URL('../../web/assets/i18n.js', import.meta.url), 'utf8');
  const part = (/** @type {RegExp} */ from) => new Map([...(source.split(from)[1] ?? '').split('\n};')[0]?.matchAll(/^ {2}'([\w.-]+)': ["'](.*)["'],$/gm) ?? []].map((match) => [match[1], [...(match[2] ?? '').matchAll(/\{\w+\}/g)].map(String).sort().join()]));
  const [en, zh] = [part(/const en = \{/), part(/const zh = \{/)];
  assert.ok(en.size > 100);
  assert.deepEqual([...zh.keys()].sort(), [...en.keys()].sort());
  const gaps = [...en].filter(([key, holes]) => holes && zh.get(key) === '').map(([key]) => key);
  assert.deepEqual(gaps, []);
});

browse('nothing is wider than a small phone, in either language', async () => {
  const { link, id, sender } = await packet({ greeting: '恭'.repeat(64), count: 2 });
  await grab(`${'x'.repeat(120)}${someone()}`.slice(0, 128), id);
  await grab(someone(), id);
  for (const locale of ['zh-CN', 'en-US']) {
    const page = await person({ name: sender, locale, width: 360, height: 640 });
    for (const path of ['/', '/mine/sent', '/mine', `/p/${id}`, `/sent/${id}`, `/verify/${id}`, '/rush']) {
      await page.goto(`${stack.url}/#${path}`);
      await page.waitForSelector('main h1');
      await page.waitForTimeout(350);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `${path} in ${locale} is ${wide} wide`);
    }
  }
  assert.ok(link);
});

browse('all of it by keyboard', async () => {
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
    throw new Error(`Tab never comes to ${wanted}`);
  };
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'skip', 'the first stop');
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
  await tabTo('Verify the split');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.proof[data-fair=true]');
});

browse('who wants no motion sees none', async () => {
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

browse('histories go on as one scrolls, with totals over all', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
  for (let i = 0; i < 45; i += 1) {
    const { packet_id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 100, count: 1, greeting: `no ${i}` });
    await grab(alice, packet_id);
  }
  const page = await person({ name: alice, locale: 'en-US' });
  for (const tab of ['sent', 'received']) {
    await page.goto(`${stack.url}/#/mine/${tab}`);
    // Another fragment alone would leave the other list there for a moment.
    await page.reload();
    await page.waitForSelector('.history li');
    await assertSoon(async () => /45 packets, ¥45\.00/.test(await textOf(page, '.mine .progress')));
    const names = async () => page.locator('.history .name').allTextContents();
    while ((await names()).length < 45) {
      const before = (await names()).length;
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
      await assertSoon(async () => (await names()).length > before);
    }
    assert.deepEqual(await names(), Array.from({ length: 45 }, (_, i) => `no ${44 - i}`));
    assert.match(await textOf(page, '.end'), /That is all/);
  }
});

browse('a long list of claims goes on as one scrolls', async () => {
  const { link, id } = await packet({ count: 130 });
  for (let i = 0; i < 120; i += 1) await grab(`many-${i}`, id);
  const page = await person({ name: someone() });
  await page.goto(link);
  await page.waitForSelector('.claim');
  while ((await page.locator('.claim').count()) < 120) {
    const before = await page.locator('.claim').count();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await assertSoon(async () => (await page.locator('.claim').count()) > before);
  }
});

browse('the browser proves a split, and sees when what was paid is not what was fixed', async () => {
  const { link, id, sender } = await packet({ count: 4 });
  const page = await person({ name: sender, locale: 'en-US' });
  await page.goto(`${stack.url}/#/verify/${id}`);
  await page.waitForSelector('.verdict .bad');
  assert.match(await textOf(page, '.verdict'), /not revealed yet/);
  for (let i = 0; i < 4; i += 1) await grab(`proof-${i}`, id);
  await page.goto(`${stack.url}/#/verify`);
  await page.fill('#packet', link);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.proof[data-fair=true]');
  assert.equal(await page.locator('.proof tbody tr').count(), 4);
  await page.click('summary');
  await page.fill('#cap', '19999');
  await page.click('button[type=submit]');
  await page.waitForSelector('.proof[data-fair=false]');
  await page.fill('#cap', '20000');
  // A fen from one to another: the sum stays.
  await page.route('**/claims*', async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    body.claims[0].amount += 1;
    body.claims[1].amount -= 1;
    await route.fulfill({ response, json: body });
  });
  await page.click('button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('.proof tr.not').length === 2);

  // The same by the operator's program, offline.
  const shown = await api(sender, 'GET', `/packets/${id}`);
  const { claims } = await api(sender, 'GET', `/packets/${id}/claims`);
  const verify = (/** @type {unknown} */ given) => spawnSync(program('hongbao-admin'), ['verify', '-'], { input: JSON.stringify(given), env: {} });
  assert.equal(verify({ ...shown, claims }).status, 0);
  const [first, ...rest] = claims;
  assert.equal(verify({ ...shown, claims: [{ ...first, amount: first.amount + 1 }, ...rest] }).status, 1);
  assert.equal(verify({ ...shown, claims, seed: null }).status, 2);
});

browse('a rush adds up', async () => {
  const page = await person({ locale: 'en-US', width: 1100, height: 900 });
  await page.goto(`${stack.url}/#/rush`);
  await page.fill('#users', '300');
  await page.fill('#slips', '40');
  await page.click('button[type=submit]');
  await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
  assert.match(await textOf(page, '.sum'), /¥888\.00.*=.*¥888\.00.*in 41 wallets.*\+.*¥0\.00/);
  const tallies = (await textOf(page, '.tallies')).replace(/,/g, '');
  assert.match(tallies, /answered 300got a slip 40came too late 260failed 0/);
  assert.equal(await page.locator('.chart svg').count(), 3);
  await page.fill('#users', '0');
  await page.click('button[type=submit]');
  assert.match(await textOf(page, '[role=alert]'), /Users 1 to 5000/);
});

browse('a token is taken from the fragment, and nobody else’s message is believed', async () => {
  const page = await person({ locale: 'en-US' });
  const config = { auth: { kind: 'token', origins: ['https://app.test'] }, api: '', limits: { slip_amount_max: 20_000, count_max: 100_000 } };
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  /** @type {string[]} */
  const given = [];
  await page.route('**/me/*', (route) => {
    given.push(route.request().headers()['authorization'] ?? '');
    return route.fulfill({ json: mineOf('zoe') });
  });
  const token = tokenOf({ sub: 'zoe', exp: Math.floor(Date.now() / 1000) + 3600 });
  await page.goto(stack.url);
  await page.waitForSelector('.notice');
  await page.evaluate((stolen) => postMessage({ type: 'hongbao-token', token: stolen }), token);
  await page.waitForTimeout(200);
  assert.deepEqual(given, []);
  await page.goto(`${stack.url}/#token=${token}&to=/mine`);
  await page.waitForSelector('.purse');
  assert.deepEqual([...new Set(given)], [`Bearer ${token}`]);
  assert.ok(!page.url().includes('token'), page.url());
  assert.match(await textOf(page, '.bar .user'), /zoe/);
  assert.equal(await page.locator('a[href="#/rush"]').count(), 0, 'only on the local stack');
});

browse('a token handed over by the embedding app is taken', async () => {
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(app));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  // Another port is another origin.
  const origin = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  const page = await person({ locale: 'en-US' });
  const token = tokenOf({ sub: 'yan', exp: Math.floor(Date.now() / 1000) + 3600 });
  const config = { auth: { kind: 'token', origins: [origin] }, api: '' };
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  await page.route('**/me/*', (route) => route.fulfill({ json: mineOf('yan') }));
  // A deployment names its embedders in the policy; the local stack has none.
  await page.route(`${stack.url}/`, async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("frame-ancestors 'none'", `frame-ancestors ${origin}`) };
    await route.fulfill({ response, headers });
  });
  const app = `<!doctype html><iframe src="${stack.url}/#/mine"></iframe><script>
    addEventListener('message', (event) => {
      if (event.origin === '${stack.url}' && event.data.type === 'hongbao-token-wanted') event.source.postMessage({ type: 'hongbao-token', token: '${token}' }, event.origin);
    });</script>`;
  await page.goto(`${origin}/`);
  await page.frameLocator('iframe').locator('.purse').waitFor();
  server.close();
});

browse('Cognito’s code flow with PKCE', async () => {
  const page = await person({ locale: 'en-US' });
  const domain = 'https://auth.test';
  const config = { auth: { kind: 'cognito', domain, client_id: 'client-1' }, api: '' };
  const token = tokenOf({ sub: 'xia', exp: Math.floor(Date.now() / 1000) + 3600 });
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  await page.route('**/me/*', (route) => {
    assert.equal(route.request().headers()['authorization'], `Bearer ${token}`);
    return route.fulfill({ json: mineOf('xia') });
  });
  // A deployment lets the page reach its user pool.
  await page.route(new RegExp(`^${stack.url}/(\\?.*)?$`), async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("connect-src 'self'", `connect-src 'self' ${domain}`) };
    await route.fulfill({ response, headers });
  });
  let challenge = '';
  await page.route(`${domain}/oauth2/authorize*`, (route) => {
    const asked = new URL(route.request().url()).searchParams;
    challenge = asked.get('code_challenge') ?? '';
    assert.deepEqual([asked.get('response_type'), asked.get('client_id'), asked.get('code_challenge_method')], ['code', 'client-1', 'S256']);
    const back = `${asked.get('redirect_uri')}?code=c-1&state=${asked.get('state')}`;
    return route.fulfill({ contentType: 'text/html', body: `<script>location.replace(${JSON.stringify(back)})</script>` });
  });
  await page.route(`${domain}/oauth2/token`, async (route) => {
    const form = new URLSearchParams(route.request().postData() ?? '');
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(form.get('code_verifier') ?? ''));
    assert.equal(Buffer.from(digest).toString('base64url'), challenge);
    assert.deepEqual([form.get('grant_type'), form.get('code')], ['authorization_code', 'c-1']);
    return route.fulfill({ json: { id_token: token, refresh_token: 'r-1' }, headers: { 'Access-Control-Allow-Origin': '*' } });
  });
  await page.goto(`${stack.url}/#/mine`);
  await page.click('.notice button');
  await page.waitForSelector('.purse');
  assert.ok(page.url().endsWith('/#/mine'), page.url());
  // A code that was not asked for here is not used.
  const other = await page.context().newPage();
  await other.route('**/config.json', (route) => route.fulfill({ json: config }));
  await other.goto(`${stack.url}/?code=stolen&state=guessed#/mine`);
  await other.waitForSelector('.notice button');
  assert.ok(!other.url().includes('stolen'));
});

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

browse('axe finds no serious fault on any screen, in light and dark', async () => {
  const { id, sender } = await packet({ count: 3, passphrase: 'sesame' });
  await grab(someone(), id, { passphrase: 'sesame' });
  const over = await packet({ count: 2 });
  await grab(over.sender, over.id);
  await grab(someone(), over.id);
  for (const dark of [false, true]) {
    const page = await person({ name: sender, locale: dark ? 'zh-CN' : 'en-US', dark, still: true, allow: /status of (403|404)/ });
    const check = async (/** @type {string} */ screen) => {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => /** @type {any} */ (window).axe.run());
      const serious = violations.filter((/** @type {any} */ { impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map((/** @type {any} */ { id: rule, nodes }) => `${rule}: ${nodes.map((/** @type {any} */ node) => node.html).join(' | ')}`), [], screen);
    };
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
    await page.waitForSelector('#word');
    await check('asked for the passphrase');
    await visit(`/p/${over.id}`, '.result');
    await visit('/p/01JZZZZZZZZZZZZZZZZZZZZZZZ', '.notice');
    await visit('/mine/sent', '.history li');
    await visit('/mine', '.end');
    await visit(`/verify/${over.id}`, '.proof');
    await visit('/rush', '#users');
    await page.fill('#users', '50');
    await page.fill('#slips', '5');
    await page.click('button[type=submit]');
    await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await check('a rush');
  }
});

browse('budgets: the first paint within a second, less than 100 KB for all screens together', async () => {
  const { id, sender } = await packet({ count: 1 });
  const page = await person({ name: sender });
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.goto(stack.url);
  await page.waitForSelector('#total');
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  const first = bytes;
  for (const [path, selector] of /** @type {const} */ ([[`/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], ['/mine', '.end'], ['/rush', '#users']])) {
    await page.goto(`${stack.url}/#${path}`);
    await page.waitForSelector(selector);
  }
  await page.goto(`${stack.url}/#/p/${id}`);
  await page.click('#open');
  await page.click('a.verify');
  await page.waitForSelector('.proof[data-fair=true]');
  console.log(`first paint ${Math.round(paint)} ms; ${first} bytes for the first screen, ${bytes} for all`);
  assert.ok(paint < 1_000, `${paint} ms`);
  assert.ok(first > 5_000 && bytes < 100_000, `${bytes} bytes`);
});

browse('pictures of the main screens', async () => {
  const folder = await pictures();
  const alice = 'alice';
  await fund(alice, 100_000);
  for (const [locale, suffix, greeting] of /** @type {const} */ ([['zh-CN', 'zh', '新年快乐，万事如意'], ['en-US', 'en', 'Happy New Year']])) {
    const page = await person({ name: alice, locale, scale: 2, dark: false });
    const shoot = (/** @type {string} */ name) => page.screenshot({ path: `${folder}${name}-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await page.goto(stack.url);
    await page.fill('#total', '88.88');
    await page.fill('#count', '5');
    await page.fill('#greeting', greeting);
    await page.locator('h1').click();
    await shoot('send');
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    const id = (await page.inputValue('#link')).slice(-26);
    const bob = await person({ name: 'bob', locale, scale: 2 });
    await bob.goto(`${stack.url}/#/p/${id}`);
    await bob.waitForSelector('#open');
    await bob.waitForTimeout(600);
    await bob.screenshot({ path: `${folder}grab-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await bob.click('#open');
    await bob.waitForSelector('.result');
    for (const name of ['carol', 'dave', 'erin', 'frank']) await grab(name, id);
    await bob.waitForSelector('.claim.best');
    await bob.waitForTimeout(800);
    await bob.screenshot({ path: `${folder}result-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await bob.click('a.verify');
    await bob.waitForSelector('.proof');
    await bob.locator('.proof').scrollIntoViewIfNeeded();
    await bob.screenshot({ path: `${folder}verify-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    const rush = await person({ name: alice, locale, width: 1100, height: 860, scale: 1.25, dark: true });
    await rush.goto(`${stack.url}/#/rush`);
    await rush.click('button[type=submit]');
    await rush.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await rush.screenshot({ path: `${folder}rush-${suffix}.jpg`, type: 'jpeg', quality: 82 });
  }
});

/** What a service that knows this user would say of them, on every path of theirs. @param {string} user */
const mineOf = (user) => ({ user_id: user, balance: 5, currency: 'CNY', claims: [], packets: [], next_cursor: null, totals: { count: 0, amount: 0 } });

/** A token as far as the page reads one. @param {object} claims */
function tokenOf(claims) {
  const part = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.x`;
}

/** @param {() => Promise<boolean>} holds */
async function assertSoon(holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'it did not come to hold');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
