// Asks until there is an answer, and says meanwhile what is known. Asks again later for what is new.

import { Problem, Unreachable } from '../../client/hongbao.js';
import { h } from '../dom.js';
import { t } from '../i18n.js';

/** @typedef {import('../i18n.js').Key} Key */

/** A try that takes longer shows that there is no answer yet. */
export const SLOW_MS = 2_500;
/** The first pause before another question, how much longer each next one is, and the longest before another try. */
const PAUSE_FIRST_MS = 1_000;
const PAUSE_GROWTH = 1.6;
const PAUSE_MOST_MS = 15_000;

/** Whether the same request may be answered later. Nothing is known of this one. @param {unknown} error @returns {error is Problem | Unreachable} */
export function mayPass(error) {
  return error instanceof Unreachable || (error instanceof Problem && (error.code === 'unavailable' || error.code === 'too-many-requests'));
}

/**
 * Asks until there is an answer, later each time, and at once when the browser is back online.
 * @template T
 * @param {() => Promise<T>} ask one try
 * @param {Key} doing what the user reads that the page does meanwhile
 * @param {(...says: (Node | string)[]) => void} tell shows what is known
 * @param {AbortSignal} signal
 * @param {(error: unknown) => boolean} [isVain] whether another try makes no sense
 * @returns {Promise<T>}
 */
export async function persist(ask, doing, tell, signal, isVain = () => false) {
  /** @type {Key | ''} */
  let told = '';
  const say = (/** @type {Key} */ known) => {
    if (known !== told && !signal.aborted) tell(h('strong', null, t(known)), ' ', t(known === 'grab.offline' ? 'grab.offline.text' : doing));
    told = known;
  };
  for (let pauseMs = PAUSE_FIRST_MS; ; pauseMs = Math.min(PAUSE_MOST_MS, pauseMs * PAUSE_GROWTH)) {
    const slow = setTimeout(say, SLOW_MS, 'grab.slow');
    try {
      return await ask().finally(() => clearTimeout(slow));
    } catch (error) {
      if (!mayPass(error) || isVain(error)) throw error;
      say(!navigator.onLine ? 'grab.offline' : error instanceof Problem ? 'grab.unavailable' : 'grab.noAnswer');
      const leastMs = error instanceof Problem ? (error.retryAfterS ?? 0) * 1_000 : 0;
      // With jitter: pages that were refused together should not come back together.
      await pause(leastMs + pauseMs * (0.5 + Math.random()), signal);
    }
  }
}

/** Waits, but no longer than until the browser is back online. @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener('online', end);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener('online', end);
    signal.addEventListener('abort', end);
  });
}

/**
 * Polls with pauses that grow while nothing changes, and not at all while the page is hidden.
 * @param {() => Promise<'changed' | 'same' | 'done'>} ask
 * @param {() => number} mostMs the longest pause
 * @param {AbortSignal} signal
 */
export async function poll(ask, mostMs, signal) {
  let waitMs = PAUSE_FIRST_MS;
  while (!signal.aborted) {
    // With jitter: pages that were opened together should not ask together.
    await pause(waitMs * (0.75 + Math.random() / 2), signal);
    await visible(signal);
    if (signal.aborted) return;
    try {
      const news = await ask();
      if (news === 'done') return;
      waitMs = news === 'changed' ? PAUSE_FIRST_MS : Math.min(mostMs(), waitMs * PAUSE_GROWTH);
    } catch {
      // The page keeps what it shows; the next answer may succeed.
      waitMs = Math.min(mostMs(), waitMs * PAUSE_GROWTH * PAUSE_GROWTH);
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
