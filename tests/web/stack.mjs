// The local stack and a browser, for the tests.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';

import { chromium } from 'playwright-core';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('playwright-core').BrowserContext} Context */
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
