// What the tests share: the local stack, which starts before the first browser test of a file, and users with browsers.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';

import { startBrowser, startStack } from './stack.mjs';

export * from './stack.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {{name?: string, locale?: string, width?: number, height?: number, scale?: number, dark?: boolean, still?: boolean, allow?: RegExp, storage?: 'null' | 'throws' | 'full' | 'silent', aheadMs?: number, using?: import('playwright-core').Browser}} Person */

/** Returns a function that calls the API as a user. @param {string} url */
export function apiOf(url) {
  return async (/** @type {string} */ user, /** @type {string} */ method, /** @type {string} */ path, /** @type {unknown} */ body = undefined) => {
    const headers = { 'X-User-Id': user, 'Idempotency-Key': crypto.randomUUID() };
    const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    return response.status === 204 ? {} : response.json();
  };
}

/** Returns the folder for pictures: docs/images only if SCREENSHOTS is set. */
export async function pictures() {
  const folder = new URL(process.env['SCREENSHOTS'] ? '../../docs/images/' : '../../target/web/', import.meta.url).pathname;
  await mkdir(folder, { recursive: true });
  return folder;
}

/** @typedef {Awaited<ReturnType<typeof startStack>>} Stack */
/** @type {Stack} */
export let stack;
/** @type {() => Promise<Stack>} */
let newStack = startStack;
/** Runs the tests of a file on another stack. @param {typeof newStack} start */
export const runOn = (start) => {
  newStack = start;
};
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {ReturnType<typeof apiOf>} */
export let api;
/** The browser contexts that the current test opened, and the faults seen in each. @type {{context: import('playwright-core').BrowserContext, faults: string[]}[]} */
let opened = [];

/** @type {Promise<void> | undefined} */
let started;
async function start() {
  [stack, browser] = await Promise.all([newStack(), startBrowser()]);
  api = apiOf(stack.url);
}
after(async () => {
  await browser?.close();
  await stack?.stop();
});

/**
 * A test that fails if a page reports anything: an error in the console, an exception, or a violation of the policy.
 * @param {string} name
 * @param {() => Promise<void>} run
 */
export function essential(name, run) {
  test(name, { timeout: 600_000 }, async () => {
    await (started ??= start());
    opened = [];
    try {
      await run();
      assert.deepEqual(opened.flatMap(({ faults }) => faults), [], 'faults in the console');
    } finally {
      await Promise.all(opened.map(({ context }) => context.close()));
    }
  });
}

/** The same, but not with CUT=1. @type {typeof essential} */
export const browse = process.env['CUT'] ? () => {} : essential;

/**
 * Opens a page for a user. `storage` breaks the browser's storages. `aheadMs` is how far its clock is ahead; `window.aheadMs` sets it again.
 * @param {Person} [person]
 */
export async function person({ name = 'alice', locale = 'zh-CN', width = 390, height = 844, scale = 1, dark = false, still = false, allow, storage, aheadMs = 0, using = browser } = {}) {
  const context = await using.newContext({
    locale,
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: still ? 'reduce' : 'no-preference',
  });
  /** @type {string[]} */
  const faults = [];
  opened.push({ context, faults });
  await context.addInitScript(
    ({ user, broken, ahead }) => {
      addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
      const real = Date;
      const here = /** @type {any} */ (window);
      here.aheadMs = ahead;
      const now = () => real.now() + here.aheadMs;
      globalThis.Date = /** @type {any} */ (class extends real {
        /** @param {any[]} given */
        constructor(...given) {
          super(.../** @type {[]} */ (given.length > 0 ? given : [now()]));
        }
        static now() {
          return now();
        }
      });
      const begin = performance.timeOrigin + ahead;
      Object.defineProperty(performance, 'timeOrigin', { value: begin });
      const refuse = () => {
        throw new DOMException('refused', 'SecurityError');
      };
      const get = broken === 'null' ? () => null : refuse;
      if (broken === 'null' || broken === 'throws') for (const area of ['localStorage', 'sessionStorage']) Object.defineProperty(window, area, { get });
      else if (broken) Storage.prototype.setItem = broken === 'full' ? refuse : () => {};
      else if (!sessionStorage.getItem('hongbao.user')) sessionStorage.setItem('hongbao.user', user);
    },
    { user: name, broken: storage, ahead: aheadMs },
  );
  const page = await context.newPage();
  const add = (/** @type {string} */ fault) => {
    if (!allow?.test(fault)) faults.push(fault);
  };
  page.on('console', (message) => message.type() === 'error' && add(`${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => add(`${error.name}: ${error.message}`));
  page.setDefaultTimeout(20_000);
  return page;
}

/** Returns a token that the page can read. Its signature is not valid. @param {object} claims */
export function tokenOf(claims) {
  const part = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.x`;
}

/**
 * Opens a path of the page as it is deployed: the app has signed the user in with a token. The local stack verifies none, so that each
 * request names its user too.
 * @param {Page} page
 * @param {string} user
 * @param {string} path
 * @param {object} [config] more of config.json
 */
export async function openDeployed(page, user, path, config = {}) {
  await page.route('**/config.json', async (route) => {
    const response = await route.fetch();
    const { profiles: _, ...own } = await response.json();
    return route.fulfill({ response, json: { ...own, auth: { kind: 'token', origins: [] }, local: false, ...config } });
  });
  const isCall = (/** @type {URL} */ { pathname }) => /^\/(me|packets)(\/|$)/.test(pathname);
  await page.route(isCall, (route) => route.continue({ headers: { ...route.request().headers(), 'x-user-id': user } }));
  await page.goto(`${stack.url}/#token=${tokenOf({ sub: user })}&to=${path}`);
}

/** Measures how far the page's content jumps, from the next document on; the function that it returns tells. @param {Page} page */
export async function watchShift(page) {
  await page.addInitScript(() => {
    const seen = /** @type {any} */ (window);
    seen.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of /** @type {any[]} */ (list.getEntries())) if (!entry.hadRecentInput) seen.shift += entry.value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
  return () => page.evaluate(() => /** @type {number} */ (/** @type {any} */ (window).shift));
}

let users = 0;
/** Returns the name of a new user. @param {string} [name] */
export const someone = (name = 'user') => `${name}-${(users += 1)}`;

/** @param {string} user @param {number} amount */
export const fund = (user, amount) => api(user, 'PUT', `/wallets/${user}/deposits/d${(users += 1)}`, { amount });

/** Sends a packet from a new user. @param {object} [terms] */
export async function packet(terms = {}) {
  const sender = someone('sender');
  await fund(sender, 100_000);
  const sent = await api(sender, 'POST', '/packets', { split: 'random', total_amount: 8_888, count: 3, ...terms });
  assert.ok(sent.packet_id, JSON.stringify(sent));
  return { sender, id: /** @type {string} */ (sent.packet_id), link: `${stack.url}/p/${sent.packet_id}` };
}

/** A new user with money. @param {string} name @param {number} amount */
export async function rich(name, amount) {
  const user = someone(name);
  await fund(user, amount);
  return user;
}

/** Waits until packets are settled. @param {string} user @param {string[]} ids */
export const settled = (user, ...ids) =>
  assertSoon(async () => {
    await api(user, 'POST', '/_local/settle');
    return (await Promise.all(ids.map((id) => api(user, 'GET', `/packets/${id}`)))).every(({ status }) => status === 'settled');
  });

/** Opens an address for a user, and waits for what it shows. @param {string} url @param {string} shown @param {Person} [who] */
export async function openAs(url, shown, who) {
  const page = await person(who);
  await goTo(page, url, shown);
  return page;
}

/** @param {Page} page @param {string} url @param {string} shown */
export async function goTo(page, url, shown) {
  await page.goto(url);
  await page.waitForSelector(shown);
}

/** @param {Page} page @param {string} shown */
export async function reload(page, shown) {
  await page.reload();
  await page.waitForSelector(shown);
}

/** Clicks on something, and waits for what it shows. @param {Page} page @param {string} control @param {string} shown */
export async function press(page, control, shown) {
  await page.click(control);
  await page.waitForSelector(shown);
}

/** @typedef {string | RegExp | ((url: URL) => boolean)} Urls */

/** Changes the service's answers. @param {Page} page @param {Urls} urls @param {(body: any) => object} fieldsOf what they have instead */
export const alter = (page, urls, fieldsOf) =>
  page.route(urls, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    await route.fulfill({ response, json: { ...body, ...fieldsOf(body) } });
  });

/** Holds requests back until the function that it returns is called. @param {Page} page @param {Urls} urls */
export async function hold(page, urls) {
  /** @type {() => void} */
  let release = () => {};
  const held = new Promise((resolve) => {
    release = () => resolve(null);
  });
  await page.route(urls, async (route) => {
    await held;
    await route.continue();
  });
  return release;
}

/** Counts requests; the function that it returns tells. @param {Page} page @param {string} end of their address @param {'request' | 'requestfinished'} [event] */
export function counted(page, end, event = 'request') {
  let count = 0;
  page.on(/** @type {'request'} */ (event), (request) => {
    if (request.url().endsWith(end)) count += 1;
  });
  return () => count;
}

/** Counts the requests that fit, as they begin and as they end; `pass` lets time go by on the page. @param {Page} page @param {(url: string) => boolean} fits */
export function traffic(page, fits) {
  const seen = { asked: 0, answered: 0 };
  page.on('request', (request) => {
    if (fits(request.url())) seen.asked += 1;
  });
  const onEnd = (/** @type {import('playwright-core').Request} */ request) => {
    if (fits(request.url())) seen.answered += 1;
  };
  page.on('requestfinished', onEnd);
  page.on('requestfailed', onEnd);
  const areAnswered = () => assertSoon(async () => seen.answered === seen.asked);
  const pass = async (/** @type {number} */ seconds) => {
    for (let second = 0; second < seconds; second += 1) {
      await page.clock.runFor(1_000);
      await areAnswered();
    }
  };
  return { seen, areAnswered, pass };
}

/** Hides the page, or shows it. @param {Page} page @param {boolean} isHidden */
export const hide = (page, isHidden) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);

/** @param {string} user @param {string} id @param {object} [body] */
export const grab = (user, id, body = {}) => api(user, 'POST', `/packets/${id}/grab`, body);

/** @param {Page} page @param {string} selector */
export const textOf = async (page, selector) => ((await page.textContent(selector)) ?? '').trim();

const axe = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails if axe finds a serious fault on what the page shows. @param {Page} page @param {string} screen */
export async function assertAccessible(page, screen) {
  await page.evaluate(await axe);
  const { violations } = await page.evaluate(() => /** @type {any} */ (window).axe.run());
  const serious = violations.filter((/** @type {any} */ { impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map((/** @type {any} */ { id: rule, nodes }) => `${rule}: ${nodes.map((/** @type {any} */ node) => node.html).join(' | ')}`), [], screen);
}

/**
 * Fails if anything on the page does not fit the window. No text is clipped, covered or outside, and no number breaks over a line.
 * Nothing covers a control or a picture. What can be scrolled into view fits too, unless it is `atOnce`.
 * @param {Page} page
 * @param {string} screen
 * @param {string[]} [atOnce] selectors of what the user has to see without scrolling
 */
export async function assertFits(page, screen, atOnce = []) {
  const faults = await page.evaluate((selectors) => {
    /** @type {Set<string>} */
    const found = new Set();
    // The front of an envelope that lies on its face is still there, behind.
    const hidden = '.unseen, .skip, .turned .front';
    const nameOf = (/** @type {Element} */ element) => `${element.localName}${element.id && `#${element.id}`}.${element.getAttribute('class') ?? ''}`;
    // A radio button without a look lies over its label, and takes the presses.
    const isSeen = (/** @type {Element} */ element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const isOpen = (/** @type {Element} */ element, /** @type {number} */ x, /** @type {number} */ y) => {
      const top = document.elementsFromPoint(x, y).find(isSeen);
      return top !== undefined && (element.contains(top) || top.contains(element));
    };
    const check = (/** @type {Element} */ element, /** @type {DOMRect} */ { left, right, top, bottom, width, height }, /** @type {string} */ what, share = 0.42) => {
      if (left < -0.5 || right > innerWidth + 0.5) found.add(`${what} is outside the window`);
      const [x, y, dx, dy] = [(left + right) / 2, (top + bottom) / 2, width / 2 - Math.max(2, width * 0.08), height * share];
      for (const [px, py] of /** @type {const} */ ([[x, y], [x - dx, y], [x + dx, y], [x, y - dy], [x, y + dy]])) {
        if (!isOpen(element, px, py)) found.add(`${what} is covered by ${document.elementsFromPoint(px, py).filter(isSeen).slice(0, 1).map(nameOf)}`);
      }
    };
    for (const selector of selectors) {
      const element = document.querySelector(selector);
      if (!element) found.add(`${selector} is missing`);
      else check(element, element.getBoundingClientRect(), `at once: ${selector}`);
    }
    if (document.documentElement.scrollWidth > innerWidth) found.add(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const element of document.querySelectorAll('a, button, input, select, textarea, summary, .coin, .glyph, .qr, .avatar')) {
      if (!isSeen(element) || element.closest(hidden)) continue;
      element.scrollIntoView({ block: element.closest('.scroll') ? 'center' : 'start', inline: 'center', behavior: 'instant' });
      const box = element.getBoundingClientRect();
      if (element.getClientRects().length === 1) check(element, box, nameOf(element));
      const card = element.closest('.chips') ? null : element.closest('.card');
      if (card && box.right > card.getBoundingClientRect().right - 8) found.add(`${nameOf(element)} is outside its card`);
      if (!(element instanceof HTMLSelectElement)) continue;
      const width = element.offsetWidth;
      element.style.cssText = 'position: absolute; width: auto; max-width: none; field-sizing: content';
      if (element.offsetWidth > width + 1) found.add(`${nameOf(element)} cuts its choice`);
      element.style.cssText = '';
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = /** @type {Text} */ (texts.currentNode);
      const element = /** @type {Element} */ (text.parentElement);
      if (!text.data.trim() || !isSeen(element) || element.closest(`${hidden}, option, textarea, noscript`)) continue;
      element.scrollIntoView({ block: element.closest('.scroll') ? 'center' : 'start', inline: 'center', behavior: 'instant' });
      const range = document.createRange();
      range.selectNodeContents(text);
      const what = `${nameOf(element)} “${text.data.slice(0, 40)}”`;
      for (const rect of range.getClientRects()) {
        let isCut = false;
        for (let around = /** @type {Element | null} */ (element); around && !isCut; around = around.parentElement) {
          const { overflowX, textOverflow } = getComputedStyle(around);
          const [box, clips] = [around.getBoundingClientRect(), overflowX !== 'visible' || around.matches('.button, .chip, .tag')];
          isCut = clips && (rect.left < box.left - 1 || rect.right > box.right + 1 || rect.top < box.top - 4 || rect.bottom > box.bottom + 4);
          // A name of 128 letters ends in an ellipsis, and rows of choices and tables scroll.
          if (isCut && textOverflow !== 'ellipsis' && !/auto|scroll/.test(overflowX)) found.add(`${what} is cut by ${nameOf(around)}`);
        }
        // A font is higher than its letters, so lines of text may overlap.
        if (!isCut) check(element, rect, what, 0.3);
      }
      // The number of a user or a key may break: they have no meaning as numbers.
      if (element.closest('[data-user], .hex, .id, code')) continue;
      for (const { index, 0: digits } of text.data.matchAll(/[-+¥]*\d[\d.,:]*/g)) {
        range.setStart(text, index);
        range.setEnd(text, index + digits.length);
        if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.add(`${what} breaks ${digits}`);
      }
    }
    scrollTo(0, 0);
    return [...found];
  }, atOnce);
  assert.deepEqual(faults, [], screen);
}

/** Whether an element lies wholly in the window. @param {Page} page @param {string} selector */
export const isInView = (page, selector) =>
  page.evaluate((wanted) => {
    const { left, top, right, bottom } = /** @type {Element} */ (document.querySelector(wanted)).getBoundingClientRect();
    return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  }, selector);

/** @param {Page} page */
export const yuan = async (page) => Math.round(Number((await page.getAttribute('.won', 'aria-label'))?.replace(/[^\d.]/g, '')) * 100);

/** @param {() => Promise<boolean>} holds @param {number} [withinMs] */
export async function assertSoon(holds, withinMs = 20_000) {
  const end = Date.now() + withinMs;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
