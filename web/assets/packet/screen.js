// The screen of a packet: the envelope while the user can open it, the result after that.

import { setServerTime, tab } from '../browser.js';
import { api, me, once, setCurrency, takeExpected } from '../context.js';
import { h, mayMove } from '../dom.js';
import { loadCover } from '../envelope.js';
import { t } from '../i18n.js';
import { isolated, meetSoon } from '../people.js';
import { NotLoaded, problemNotice } from '../problems.js';
import { otherTicket } from '../session.js';
import { ClosedEnvelope } from './envelope.js';
import { persist, poll } from './persist.js';

/** @typedef {import('../../client/hongbao.js').Packet} Packet */
/** @typedef {import('../../client/hongbao.js').GrabResult} GrabResult */
/** @typedef {Extract<GrabResult, {outcome: 'grabbed'}>} Grabbed */
/** @typedef {'grabbed' | 'sold_out' | 'limit_reached' | 'expired' | 'closed' | 'none'} Outcome */

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
export async function packetScreen(root, signal, packetId = '') {
  await new PacketScreen(root, signal, packetId).load();
}

class PacketScreen {
  /** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
  constructor(root, signal, packetId) {
    this.root = root;
    this.signal = signal;
    this.packetId = packetId;
    /** @type {ClosedEnvelope | null} */
    this.envelope = null;
  }

  async load() {
    try {
      const ask = () => takeExpected(this.packetId) ?? once.packet(this.packetId, { signal: this.signal });
      const packet = await persist(ask, 'loading', (...says) => this.#tell(says), this.signal);
      await Promise.all([loadCover(packet.cover), meetSoon([packet.sender_id], this.signal)]);
      if (this.signal.aborted) return;
      setCurrency(packet.currency);
      document.title = t('grab.title', { sender: isolated(packet.sender_id) });
      const live = new Live(packet, this.signal);
      const outcome = this.#outcome(packet);
      if (outcome) await this.#result(live, outcome);
      else this.#closed(live);
      live.follow();
    } catch (error) {
      this.#failed(error, () => void this.load());
    }
  }

  /**
   * Returns the outcome of the packet for this user; null while the user can open it.
   * @param {Packet} packet
   * @returns {Outcome | null}
   */
  #outcome(packet) {
    if (packet.mine || this.#remembered()) return 'grabbed';
    if (packet.status === 'open' || packet.status === 'scheduled') return null;
    if (packet.status === 'sold_out' || packet.claimed_count === packet.count) return 'sold_out';
    return packet.closed_at ? 'closed' : 'expired';
  }

  get #memory() {
    return `hongbao.grabbed.${me()}.${this.packetId}`;
  }

  /**
   * Returns the winning answer that this tab remembers. A reload has to show it even if reads do not show the claim yet.
   * @returns {Grabbed | null}
   */
  #remembered() {
    return JSON.parse(tab.get(this.#memory) ?? 'null');
  }

  /** Says why the packet is not there yet, below the envelope of the static page if that is shown. @param {(Node | string)[]} says */
  #tell(says) {
    const boot = this.root.querySelector('.boot');
    if (!boot) return this.root.replaceChildren(h('p', { class: 'waiting', role: 'status' }, ...says));
    const line = boot.querySelector('.envelope-status') ?? h('p', { class: 'envelope-status', role: 'status' });
    if (!line.parentElement) boot.append(h('div', { class: 'below' }, line));
    line.replaceChildren(...says);
  }

  /** @param {unknown} error @param {() => void} retry */
  #failed(error, retry) {
    if (this.signal.aborted) return;
    const notice = problemNotice(error, retry, this.signal);
    this.root.replaceChildren(notice);
    notice.querySelector('h1')?.focus();
    // The embedding app may have to ask the user something first.
    void otherTicket(this.packetId).then((isThere) => isThere && !this.signal.aborted && notice.isConnected && retry());
  }

  /** Shows the envelope, which turns into the result by itself when it can no longer be opened. @param {Live} live */
  #closed(live) {
    const room = new ClosedEnvelope(live, this.signal, {
      opened: (result) => this.#opened(live, result),
      failed: (error, again) =>
        this.#failed(error, () => {
          this.root.replaceChildren(room.node);
          again();
        }),
    });
    this.envelope = room;
    // The coin of the static page: it could be pressed before any module was there.
    const early = /** @type {HTMLInputElement | null} */ (document.getElementById('early'));
    const hadFocus = early !== null && early === document.activeElement;
    this.root.replaceChildren(room.node);
    if (hadFocus) room.button.focus();
    if (early?.checked) room.press();
    live.onChange((packet) => {
      const outcome = this.#outcome(packet);
      if (this.envelope !== room || room.isBusy) return;
      if (outcome === 'grabbed' || (outcome && this.root.contains(room.node))) void this.#result(live, outcome, true);
    });
  }

  /** @param {Live} live @param {GrabResult} result */
  async #opened(live, result) {
    if (result.outcome === 'grabbed') tab.set(this.#memory, JSON.stringify(result));
    const known = ['grabbed', 'sold_out', 'limit_reached', 'expired', 'closed'];
    await this.#result(live, known.includes(result.outcome) ? /** @type {Outcome} */ (result.outcome) : 'none', true);
    // The result needs no newer packet, so a failure here is ignored.
    live.refresh().catch(() => {});
  }

  /** @param {Live} live @param {Outcome} outcome @param {boolean} isNew */
  async #result(live, outcome, isNew = false) {
    const { ResultRoom } = await import('./result.js').catch((error) => {
      throw new NotLoaded(String(error));
    });
    if (this.signal.aborted) return;
    live.isCalm = true;
    const slip = this.root.querySelector('.envelope.opened .slip');
    const room = new ResultRoom(live, outcome, live.packet.mine ?? this.#remembered(), this.signal, isNew);
    const show = () => {
      this.envelope = null;
      this.root.replaceChildren(room.node);
      if (isNew) room.greet();
    };
    if (isNew && slip && mayMove()) await become(slip, () => room.ticket, show);
    else show();
  }
}

/**
 * Replaces what is shown so that one element seems to become another one.
 * @param {Element} old
 * @param {() => Element | null} next
 * @param {() => void} show
 */
async function become(old, next, show) {
  if ('startViewTransition' in document) {
    const transition = document.startViewTransition(show);
    // A transition that is skipped rejects these; what matters is that the change was made.
    transition.ready.catch(() => {});
    transition.finished.catch(() => {});
    await transition.updateCallbackDone;
    return;
  }
  const from = old.getBoundingClientRect();
  show();
  const element = next();
  const to = element?.getBoundingClientRect();
  if (!element || !to?.width) return;
  const start = `translate(${from.left - to.left}px, ${from.top - to.top}px) scale(${from.width / to.width}, ${from.height / to.height})`;
  element.animate([{ transform: start, transformOrigin: '0 0' }, { transform: 'none', transformOrigin: '0 0' }], { duration: 260, easing: 'cubic-bezier(.2, .8, .2, 1)' });
}

// --- News of the packet

/** Nobody sees an envelope longer than about this that can no longer be opened. */
const PAUSE_MOST_MS = 4_000;
/** Of a packet that the user has opened, news are less urgent. */
const CALM_PAUSE_MOST_MS = 15_000;
/** Of one that is over, only the next round can be news. */
const NEXT_PAUSE_MOST_MS = 60_000;

export class Live {
  /** @type {Set<(packet: Packet) => void>} */
  #listeners = new Set();
  #asked = 0;
  #answered = 0;

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

  /** Whether nothing about the packet can change any more. Another round may follow it. */
  get isOver() {
    const { seed, status, claimed_count, count } = this.packet;
    return seed !== null && (status === 'settled' || claimed_count === count);
  }

  /** Asks for news now. */
  async refresh() {
    this.#asked += 1;
    const question = this.#asked;
    const packet = await api.packet(this.packet.packet_id, { signal: this.signal });
    // The answer to an earlier question may come later, and is older.
    if (question < this.#answered) return false;
    this.#answered = question;
    setServerTime(Date.parse(packet.now ?? ''));
    const old = this.packet;
    this.packet = packet;
    const isSame = packet.claimed_count === old.claimed_count && packet.status === old.status && packet.seed === old.seed && packet.closed_at === old.closed_at && !packet.mine === !old.mine && JSON.stringify([packet.next, packet.limit]) === JSON.stringify([old.next, old.limit]);
    if (!isSame && !this.signal.aborted) for (const listener of this.#listeners) listener(packet);
    return !isSame;
  }

  /** Asks for news until there can be none. */
  follow() {
    const isDone = () => this.isOver && !this.packet.next;
    if (isDone()) return;
    const ask = async () => {
      const isNew = await this.refresh();
      return isDone() ? 'done' : isNew ? 'changed' : 'same';
    };
    void poll(ask, () => (this.isOver ? NEXT_PAUSE_MOST_MS : this.isCalm ? CALM_PAUSE_MOST_MS : PAUSE_MOST_MS), this.signal);
  }
}
