// Asking again and again, more and more rarely while nothing happens, and not at all while nobody looks.

import { sleep } from './dom.js';

const FIRST_MS = 1_000;
const MOST_MS = 15_000;
const GROWTH = 1.6;

/**
 * @param {() => Promise<'changed' | 'same' | 'done'>} ask
 * @param {AbortSignal} signal
 */
export async function poll(ask, signal) {
  let waitMs = FIRST_MS;
  while (!signal.aborted) {
    // With jitter: pages opened together should not ask together.
    await sleep(waitMs * (0.75 + Math.random() / 2), signal);
    await seen(signal);
    if (signal.aborted) return;
    try {
      const news = await ask();
      if (news === 'done') return;
      waitMs = news === 'changed' ? FIRST_MS : Math.min(MOST_MS, waitMs * GROWTH);
    } catch {
      // What was shown stays; the next answer may be better.
      waitMs = Math.min(MOST_MS, waitMs * GROWTH * GROWTH);
    }
  }
}

/** Waits until the page is looked at. @param {AbortSignal} signal @returns {Promise<void>} */
function seen(signal) {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
  });
}
