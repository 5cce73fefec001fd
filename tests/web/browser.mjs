// Users with browsers, against a local stack that starts before the first browser test of a file.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';

import { apiOf, startBrowser, startStack } from './stack.mjs';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('./stack.mjs').Person} Person */

/** @type {Awaited<ReturnType<typeof startStack>>} */
export let stack;
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {ReturnType<typeof apiOf>} */
export let api;
/** The browser contexts that the current test opened, and the faults seen in each. @type {{context: import('playwright-core').BrowserContext, faults: string[]}[]} */
let opened = [];

/** @type {Promise<void> | undefined} */
let started;
async function start() {
  [stack, browser] = await Promise.all([startStack(), startBrowser()]);
  api = apiOf(stack.url);
}
after(async () => {
  await browser?.close();
  await stack?.stop();
});

// CUT=1 selects tests here. With --test-name-pattern, Node would skip the hook above whenever it skips a file's first test.
const chosen = process.env['CUT'] ? /^(send, share|a double click|a passphrase|the browser proves|a rush|axe)/ : /^/;

/**
 * A test that fails if a page reports anything: an error in the console, an exception, or a violation of the policy.
 * @param {string} name
 * @param {() => Promise<void>} run
 */
export function browse(name, run) {
  if (!chosen.test(name)) return;
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

/** Whether an element lies wholly in the window. @param {Page} page @param {string} selector */
export const isInView = (page, selector) =>
  page.evaluate((wanted) => {
    const { left, top, right, bottom } = /** @type {Element} */ (document.querySelector(wanted)).getBoundingClientRect();
    return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
  }, selector);

/** @param {Page} page */
export const yuan = async (page) => Math.round(Number((await page.getAttribute('.won', 'aria-label'))?.replace(/[^\d.]/g, '')) * 100);

/** @param {() => Promise<boolean>} holds */
export async function assertSoon(holds) {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'the condition did not come true in time');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
