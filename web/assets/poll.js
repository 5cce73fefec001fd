// Polls with pauses that grow while nothing changes, and not at all while the page is hidden.

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
    // With jitter: pages that were opened together should not ask together.
    await sleep(waitMs * (0.75 + Math.random() / 2), signal);
    await visible(signal);
    if (signal.aborted) return;
    try {
      const news = await ask();
      if (news === 'done') return;
      waitMs = news === 'changed' ? FIRST_MS : Math.min(MOST_MS, waitMs * GROWTH);
    } catch {
      // The page keeps what it shows; the next answer may succeed.
      waitMs = Math.min(MOST_MS, waitMs * GROWTH * GROWTH);
    }
  }
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
