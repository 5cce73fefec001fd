// --- Storage. It may be null, throw when it is touched, or refuse to write. Then the page keeps in memory what it was given.

const PROBE = 'hongbao.probe';

class Store {
  #name;
  /** What the storage did not keep, and null for what it did not remove. @type {Map<string, string | null>} */
  #memory = new Map();

  /** @param {'localStorage' | 'sessionStorage'} name */
  constructor(name) {
    this.#name = name;
    /** Whether a reload finds what is kept here. */
    this.lasts = this.set(PROBE, 'x');
    this.remove(PROBE);
  }

  /** Null or a getter that throws, in some browsers: every use is in a `try`. @returns {Storage} */
  get #storage() {
    return globalThis[this.#name];
  }

  /** @param {string} key @returns {string | null} */
  get(key) {
    if (this.#memory.has(key)) return this.#memory.get(key) ?? null;
    try {
      return this.#storage.getItem(key);
    } catch {
      return null;
    }
  }

  /** @param {string} key @param {string} value @returns {boolean} whether a reload finds it */
  set(key, value) {
    try {
      this.#storage.setItem(key, value);
      if (this.#storage.getItem(key) === value) {
        this.#memory.delete(key);
        return true;
      }
    } catch {
      // Kept in memory below.
    }
    // Otherwise an older value would be there after a reload.
    this.remove(key);
    this.#memory.set(key, value);
    return false;
  }

  /** @param {string} key */
  remove(key) {
    this.#memory.set(key, null);
    try {
      this.#storage.removeItem(key);
      this.#memory.delete(key);
    } catch {
      // Removed from what the page reads.
    }
  }
}

/** For the tab's life: no other tab and no later visitor can read it. */
export const tab = new Store('sessionStorage');
/** For all tabs, and for the next visit. */
export const device = new Store('localStorage');

// --- The server's time. This machine's clock may be wrong, so the page counts on from the server's answers with a clock that nobody sets.

/** The server's time when the page's monotonic clock began, in milliseconds: the most of what the answers said, since each is a little old. */
let beganMs = -Infinity;

/** @param {number} nowMs the server's time, in milliseconds; NaN if the answer has none */
export function setServerTime(nowMs) {
  if (!Number.isNaN(nowMs)) beganMs = Math.max(beganMs, nowMs - performance.now());
}

/** Takes the time from an answer, and returns the answer. @param {Response} answer */
export function timed(answer) {
  setServerTime(Date.parse(answer.headers.get('Date') ?? ''));
  return answer;
}

/** The server's time, in milliseconds; this machine's until there was an answer. */
export function serverNow() {
  return (beganMs === -Infinity ? performance.timeOrigin : beganMs) + performance.now();
}

/**
 * Calls `tick` with the time left until a moment of the server's clock, at each full second of it, and with 0 at that moment.
 * @param {number} end
 * @param {(leftMs: number) => void} tick
 * @param {AbortSignal} signal
 */
export function countDown(end, tick, signal) {
  const next = () => {
    if (signal.aborted) return;
    const left = end - serverNow();
    tick(Math.max(0, left));
    if (left <= 0) return;
    const timer = setTimeout(next, left % 1_000 || 1_000);
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  };
  next();
}
