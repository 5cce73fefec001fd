// Polls with pauses that grow while nothing changes, and not at all while the page is hidden.

import { sleep } from './dom.js';

const FIRST_MS = 1_000;
const GROWTH = 1.6;

/**
 * @param {() => Promise<'changed' | 'same' | 'done'>} ask
 * @param {() => number} mostMs the longest pause
 * @param {AbortSignal} signal
 */
export async function poll(ask, mostMs, signal) {
  let waitMs = FIRST_MS;
  while (!signal.aborted) {
    // With jitter: pages that were opened together should not ask together.
    await Promise.race([sleep(waitMs * (0.75 + Math.random() / 2), signal), online(signal)]);
    await visible(signal);
    if (signal.aborted) return;
    try {
      const news = await ask();
      if (news === 'done') return;
      waitMs = news === 'changed' ? FIRST_MS : Math.min(mostMs(), waitMs * GROWTH);
    } catch {
      // The page keeps what it shows; the next answer may succeed.
      waitMs = Math.min(mostMs(), waitMs * GROWTH * GROWTH);
    }
  }
}

/** Waits until the browser is back online. @param {AbortSignal} signal @returns {Promise<void>} */
function online(signal) {
  return new Promise((resolve) => {
    addEventListener('online', () => resolve(), { once: true, signal });
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Waits until the page is visible. @param {AbortSignal} signal @returns {Promise<void>} */
function visible(signal) {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', check);
      resolve();
    };
    document.addEventListener('visibilitychange', check);
    signal.addEventListener('abort', check);
  });
}
