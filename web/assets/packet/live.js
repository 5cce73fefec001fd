// Follows one packet: asks for news of it.

import { setServerTime } from '../browser.js';
import { api } from '../context.js';
import { sleep } from '../dom.js';

/** @typedef {import('../../client/hongbao.js').Packet} Packet */

/** Nobody sees an envelope longer than about this that can no longer be opened. */
const PAUSE_MOST_MS = 4_000;
/** Of a packet that the user has opened, news are less urgent. */
const CALM_PAUSE_MOST_MS = 15_000;

/** The first pause between two questions, and how much longer each next one is. */
const PAUSE_FIRST_MS = 1_000;
const PAUSE_GROWTH = 1.6;

export class Live {
  /** @type {Set<(packet: Packet) => void>} */
  #listeners = new Set();

  /** @param {Packet} packet @param {AbortSignal} signal */
  constructor(packet, signal) {
    setServerTime(Date.parse(packet.now ?? ''));
    this.packet = packet;
    this.signal = signal;
    this.isCalm = false;
  }

  /** @param {(packet: Packet) => void} listener */
  onChange(listener) {
    this.#listeners.add(listener);
  }

  /** Whether nothing about the packet can change any more. */
  get isOver() {
    const { seed, status, claimed_count, count } = this.packet;
    return seed !== null && (status === 'settled' || claimed_count === count);
  }

  /** Asks for news now. */
  async refresh() {
    const packet = await api.packet(this.packet.packet_id, { signal: this.signal });
    setServerTime(Date.parse(packet.now ?? ''));
    const old = this.packet;
    this.packet = packet;
    const isSame = packet.claimed_count === old.claimed_count && packet.status === old.status && packet.seed === old.seed && packet.closed_at === old.closed_at && !packet.mine === !old.mine;
    if (!isSame && !this.signal.aborted) for (const listener of this.#listeners) listener(packet);
    return !isSame;
  }

  /** Asks for news until there can be none. */
  follow() {
    if (this.isOver) return;
    const ask = async () => {
      const isNew = await this.refresh();
      return this.isOver ? 'done' : isNew ? 'changed' : 'same';
    };
    void poll(ask, () => (this.isCalm ? CALM_PAUSE_MOST_MS : PAUSE_MOST_MS), this.signal);
  }
}

/**
 * Polls with pauses that grow while nothing changes, and not at all while the page is hidden.
 * @param {() => Promise<'changed' | 'same' | 'done'>} ask
 * @param {() => number} mostMs the longest pause
 * @param {AbortSignal} signal
 */
async function poll(ask, mostMs, signal) {
  let waitMs = PAUSE_FIRST_MS;
  while (!signal.aborted) {
    // With jitter: pages that were opened together should not ask together.
    await Promise.race([sleep(waitMs * (0.75 + Math.random() / 2), signal), online(signal)]);
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
