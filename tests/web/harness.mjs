// What the tests share: the local stack, which starts before the first browser test of a file, and users with browsers.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';

import { chromium } from 'playwright-core';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {{name?: string, locale?: string, width?: number, height?: number, scale?: number, dark?: boolean, still?: boolean, allow?: RegExp, storage?: 'null' | 'throws' | 'full' | 'silent', aheadMs?: number, using?: import('playwright-core').Browser}} Person */

const target = process.env['CARGO_TARGET_DIR'] ?? new URL('../../target', import.meta.url).pathname;
const profile = process.env['HONGBAO_PROFILE'] ?? 'debug';

/** Returns the path of a program of the workspace, which must be built already. @param {string} name */
export function program(name) {
  return `${target}/${profile}/${name}`;
}

/**
 * Starts a new local stack that keeps no data.
 * @param {Record<string, string>} [settings] added to its environment
 * @param {string[]} [args] more arguments
 */
export async function startStack(settings = {}, args = []) {
  const env = { ...process.env, ...settings };
  const child = spawn(program('local'), ['--port', '0', '--ephemeral', '--settle-every', '0s', ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  // The stack ends too if the tests are interrupted.
  process.on('exit', () => child.kill());
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.once(signal, () => process.exit(1));
  const lines = createInterface({ input: child.stdout });
  const timer = setTimeout(() => child.kill(), 60_000);
  for await (const line of lines) {
    const url = /hongbao is ready at (\S+)/.exec(line)?.[1];
    if (!url) continue;
    clearTimeout(timer);
    const stop = async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    };
    return { url, stop };
  }
  throw new Error('the local stack did not start');
}

/** @param {Record<string, string>} [settings] added to its environment */
export function startBrowser(settings = {}) {
  const places = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/chromium-browser', '/Applications/Chromium.app/Contents/MacOS/Chromium'];
  const executablePath = places.find((place) => place && existsSync(place));
  if (!executablePath) throw new Error('Chromium is missing: scripts/install-tools.sh web, or set CHROMIUM');
  const quiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  // Chromium’s sandbox does not work for root.
  if (process.getuid?.() === 0) quiet.push('--no-sandbox');
  return chromium.launch({ executablePath, args: quiet, env: { .../** @type {Record<string, string>} */ (process.env), ...settings } });
}

/** Returns a function that calls the API as a user. @param {string} url */
export function apiOf(url) {
  return async (/** @type {string} */ user, /** @type {string} */ method, /** @type {string} */ path, /** @type {unknown} */ body = undefined) => {
    const headers = { 'X-User-Id': user, 'Idempotency-Key': crypto.randomUUID() };
    const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    return response.json();
  };
}

/** Returns the folder for pictures: docs/images only if SCREENSHOTS is set. */
export async function pictures() {
  const folder = new URL(process.env['SCREENSHOTS'] ? '../../docs/images/' : '../../target/web/', import.meta.url).pathname;
  await mkdir(folder, { recursive: true });
  return folder;
}

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
