// Starts programs of the workspace and a browser.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { chromium } from 'playwright-core';

/** The key that signs tickets for the stacks. */
export const ticketKey = JSON.parse(readFileSync(new URL('../tickets.json', import.meta.url), 'utf8')).signed[0].key;

const target = process.env['CARGO_TARGET_DIR'] ?? new URL('../../target', import.meta.url).pathname;
const profile = process.env['HONGBAO_PROFILE'] ?? 'debug';

/** Returns the path of a program of the workspace, which must be built already. @param {string} name */
export function program(name) {
  return `${target}/${profile}/${name}`;
}

/**
 * Starts a program of the workspace, and waits until it serves. `said` is what it printed before.
 * @param {string} name
 * @param {string[]} [args]
 * @param {Record<string, string>} [settings] added to its environment
 */
export async function startProgram(name, args = [], settings = {}) {
  const child = spawn(program(name), args, { env: { ...process.env, ...settings }, stdio: ['ignore', 'pipe', 'inherit'] });
  // The program ends too if the tests are interrupted.
  process.on('exit', () => child.kill());
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.once(signal, () => process.exit(1));
  const lines = createInterface({ input: child.stdout });
  const timer = setTimeout(() => child.kill(), 60_000);
  /** @type {string[]} */
  const said = [];
  for await (const line of lines) {
    const url = /hongbao is ready at (\S+)/.exec(line)?.[1];
    if (!url) {
      said.push(line);
      continue;
    }
    clearTimeout(timer);
    const stop = async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    };
    return { url, said, stop };
  }
  throw new Error(`${name} did not start`);
}

/**
 * Starts a new local stack that keeps no data.
 * @param {Record<string, string>} [settings] added to its environment
 * @param {string[]} [args] more arguments
 * @param {string[]} [command] another subcommand
 */
export const startStack = (settings = {}, args = [], command = ['dev', '--ephemeral']) =>
  startProgram('hongbao', [...command, '--port', '0', '--settle-every', '0s', ...args], { TICKET_KEYS: JSON.stringify({ keys: [ticketKey] }), ...settings });

/**
 * @param {Record<string, string>} [settings] added to its environment
 * @param {string[]} [args] more arguments
 */
export function startBrowser(settings = {}, args = []) {
  const places = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/chromium-browser', '/Applications/Chromium.app/Contents/MacOS/Chromium'];
  const executablePath = places.find((place) => place && existsSync(place));
  if (!executablePath) throw new Error('Chromium is missing: scripts/install-tools.sh web, or set CHROMIUM');
  const quiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  // Chromium’s sandbox does not work for root.
  if (process.getuid?.() === 0) quiet.push('--no-sandbox');
  return chromium.launch({ executablePath, args: [...quiet, ...args], env: { .../** @type {Record<string, string>} */ (process.env), ...settings } });
}
