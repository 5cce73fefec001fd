// The closed envelope: it counts down, asks for the passphrase, and opens.

import { Problem } from '../../client/hongbao.js';
import { countDown, serverNow } from '../browser.js';
import { figure, me, minute, money, once, symbol } from '../context.js';
import { glyph, glyphs, h, mayMove, say, sleep } from '../dom.js';
import { coinFace, envelope, greetingLine } from '../envelope.js';
import { t } from '../i18n.js';
import { isolated } from '../people.js';
import { NoAnswer } from '../problems.js';
import { turnOf } from '../session.js';
import { SLOW_MS, mayPass, persist } from './persist.js';

/** @typedef {import('./screen.js').Live} Live */
/** @typedef {import('./screen.js').Packet} Packet */
/** @typedef {import('./screen.js').GrabResult} GrabResult */

/** From the answer until the slip has risen. The result follows. */
const REVEAL_MS = 640;
const LOSS_REVEAL_MS = 420;
/** The first screen comes first. */
const PREPARE_AFTER_MS = 1_500;
/** The last seconds before the start are counted on the coin. */
const ON_COIN_S = 10;

/** @typedef {{opened: (result: GrabResult) => Promise<void>, failed: (error: unknown, again: () => void) => void}} Events */

export class ClosedEnvelope {
  #live;
  #signal;
  #events;
  /** @type {string | undefined} */
  #passphrase;
  #blockedUntil = 0;
  isBusy = false;

  /** @param {Live} live @param {AbortSignal} signal @param {Events} events */
  constructor(live, signal, events) {
    this.#live = live;
    this.#signal = signal;
    this.#events = events;
    const { packet } = live;
    const sender = packet.sender_id;
    const isMine = sender === me();
    const canOpen = !(isMine && packet.recipients && !packet.recipients.includes(me()));
    this.button = h('button', { class: 'coin', id: 'open', 'aria-label': t('grab.openLabel', { sender: isolated(sender) }) }, coinFace());
    this.word = h('input', { id: 'word', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', placeholder: t('grab.passphrase'), 'aria-label': t('grab.passphrase'), 'aria-describedby': 'status', 'aria-invalid': 'false' });
    this.submit = h('button', { class: 'button gold', type: 'submit' }, t('grab.open'));
    this.asks = h('form', { class: 'asks', hidden: !packet.has_passphrase || !canOpen }, this.word, this.submit);
    this.status = h('p', { class: 'envelope-status', id: 'status', role: 'status' });
    this.time = h('p', { class: 'ends' });
    this.clock = h('p', { class: 'starts', role: 'timer', hidden: true });
    this.sum = h('p', { class: 'sum', 'aria-hidden': 'true' });
    this.drawn = envelope({
      cover: packet.cover,
      sender,
      greeting: greetingLine(packet.greeting || t('send.greeting.default')),
      seal: this.button,
      slip: this.sum,
    });
    const below = h('div', { class: 'below' }, this.asks, this.clock, this.status, this.time);
    this.node = h('section', { class: 'grab' }, h('h1', { class: 'unseen', tabindex: '-1' }, t('grab.title', { sender: isolated(sender) })), this.drawn, below);
    if (isMine) below.append(h('a', { class: 'button plain', href: `#/sent/${packet.packet_id}` }, t('grab.share')));
    this.button.addEventListener('click', () => this.press());
    this.asks.addEventListener('submit', (event) => {
      event.preventDefault();
      this.press();
    });
    if (!canOpen) {
      this.button.hidden = true;
      this.status.textContent = t('grab.watch');
    } else if (hasReached(packet.limit)) {
      this.button.hidden = this.asks.hidden = true;
      this.status.replaceChildren(h('strong', null, t('grab.limit')), ' ', reached(packet.limit));
    } else if (packet.has_passphrase) this.status.textContent = t('grab.passphrase.ask');
    live.onChange(() => this.#update());
    this.#update();
    const startMs = packet.status === 'scheduled' ? Date.parse(packet.starts_at ?? '') || 0 : 0;
    const turnMs = packet.eligibility === 'ticket' ? turnOf(packet.packet_id) : 0;
    const go = () => {
      if (!this.button.hidden && !this.#live.packet.has_passphrase) this.status.textContent = t('grab.now');
      if (!this.button.hidden) say(t('grab.now'));
      if (startMs > 0) this.#lasts();
    };
    if (startMs > 0 || turnMs > serverNow()) this.#await(Math.max(startMs, turnMs), turnMs > startMs, go);
    if (startMs === 0) this.#lasts();
    if (isMine || packet.claimed_count > 0) void this.#list();
    // The result's module is needed once the envelope is open.
    void sleep(PREPARE_AFTER_MS, signal).then(prepare);
  }

  async #list() {
    const { ClaimsList } = await import('./result.js');
    if (!this.#signal.aborted) this.node.append(new ClaimsList(this.#live, this.#signal).node);
  }

  #update() {
    const { packet } = this.#live;
    const left = packet.count - packet.claimed_count;
    this.drawn.dataset['left'] = String(left);
    this.#showTime();
  }

  /** @type {string} */
  #ends = '';

  #showTime() {
    const { packet } = this.#live;
    const left = packet.claimed_count > 0 ? t('grab.left', { count: packet.count - packet.claimed_count }) : '';
    const mine = hasReached(packet.limit) ? '' : leftToWin(packet.limit);
    this.time.textContent = [mine, left, this.#ends].filter(Boolean).join(' · ');
  }

  /** Counts down to the end. */
  #lasts() {
    countDown(
      Date.parse(this.#live.packet.expires_at),
      (leftMs) => {
        this.#ends = t('grab.ends', { time: duration(leftMs) });
        this.#showTime();
        if (leftMs === 0) void this.#ended();
      },
      this.#signal,
    );
  }

  /** Asks until the packet is shown as expired, a moment after the time. */
  async #ended() {
    while (!this.#signal.aborted && this.node.isConnected && !this.isBusy && this.#live.packet.status === 'open') {
      await this.#live.refresh().catch(() => {});
      await sleep(500, this.#signal);
    }
  }

  /**
   * Counts down to the start; from that very second on the coin can be pressed.
   * @param {number} startMs
   * @param {boolean} isTurn whether it is the user's turn that comes then
   * @param {() => void} go
   */
  #await(startMs, isTurn, go) {
    this.#lock(true);
    this.drawn.classList.add('early');
    this.clock.hidden = false;
    countDown(
      startMs,
      (leftMs) => {
        const seconds = Math.ceil(leftMs / 1000);
        const [label, at] = isTurn ? /** @type {const} */ (['grab.turn', 'grab.turnAt']) : /** @type {const} */ (['grab.starts', 'grab.startsAt']);
        this.clock.replaceChildren(h('small', null, t(label)), h('span', null, duration(leftMs)), h('small', null, t(at, { time: minute(startMs) })));
        if (seconds > 0 && seconds <= ON_COIN_S) this.button.firstElementChild?.replaceChildren(...glyphs(String(seconds)));
        if (leftMs > 0) return;
        this.button.firstElementChild?.replaceChildren(glyph('開'));
        this.#lock(false);
        this.drawn.classList.remove('early');
        this.clock.hidden = true;
        go();
      },
      this.#signal,
    );
  }

  /** The passphrase can be typed all the same. @param {boolean} isLocked */
  #lock(isLocked) {
    this.button.disabled = this.submit.disabled = isLocked;
  }

  /** Opens; without the passphrase that it needs, it asks for that. */
  press() {
    if (this.isBusy || this.button.disabled || this.button.hidden) return;
    const word = this.word.value;
    if (!this.asks.hidden && !word.trim()) {
      this.#nudge(t('grab.passphrase.ask'));
      return;
    }
    if (serverNow() < this.#blockedUntil) return;
    this.#passphrase = this.asks.hidden ? undefined : word;
    void this.open();
  }

  /** @param {string} says */
  #nudge(says) {
    this.status.textContent = says;
    this.drawn.classList.remove('no');
    // Read in between, so that the animation starts again.
    void this.drawn.offsetWidth;
    this.drawn.classList.add('no');
    this.word.focus();
    this.word.select();
  }

  async open() {
    if (this.isBusy) return;
    this.isBusy = true;
    this.button.disabled = true;
    this.drawn.classList.remove('no');
    this.drawn.classList.add('opening');
    this.status.textContent = t('grab.opening');
    prepare();
    try {
      const result = await this.#ask();
      if (!result || this.#signal.aborted) return;
      await this.#reveal(result);
      if (!this.#signal.aborted) await this.#events.opened(result);
    } catch (error) {
      this.#close();
      if (!this.#signal.aborted) this.#failed(error);
    } finally {
      this.isBusy = false;
    }
  }

  /** Tries to get a slip, as long as the packet is open. @returns {Promise<GrabResult>} */
  #grab() {
    const ask = async () => {
      const { packet_id, mine } = this.#live.packet;
      // An earlier try got one, and its answer was lost.
      if (mine) return /** @type {const} */ ({ outcome: 'grabbed', packet_id, replayed: true, ...mine });
      return once.grab(packet_id, { signal: this.#signal, passphrase: this.#passphrase });
    };
    const tell = (/** @type {(Node | string)[]} */ ...says) => {
      this.status.replaceChildren(...says);
      this.drawn.classList.add('slow');
    };
    const isOpen = () => /^(open|scheduled)$/.test(this.#live.packet.status) || this.#live.packet.mine;
    return persist(ask, 'grab.trying', tell, this.#signal, (error) => !isOpen() || this.#isBlocked(error));
  }

  /** Whether there were too many wrong passphrases. @param {unknown} error @returns {error is Problem} */
  #isBlocked(error) {
    return error instanceof Problem && error.code === 'too-many-requests' && !this.asks.hidden;
  }

  /** Asks for a slip; again at the start if it was too early. Null if that is still away. @returns {Promise<GrabResult | null>} */
  async #ask() {
    for (let tries = 1; ; tries += 1) {
      const result = await this.#grab();
      if (result.outcome !== 'not_started' || this.#signal.aborted) return result;
      // The user pressed in the right second: the first time, the wait is only as long as the start is away.
      const startMs = Math.max(0, Date.parse(result.starts_at) - serverNow()) + 60 + Math.random() * 140;
      const waitMs = tries === 1 ? Math.min(startMs, result.retry_after_ms) : result.retry_after_ms;
      if (waitMs > SLOW_MS) {
        this.#close();
        this.#await(serverNow() + waitMs, this.#live.packet.status === 'open', () => this.node.isConnected && this.open());
        return null;
      }
      await sleep(waitMs, this.#signal);
    }
  }

  #close() {
    this.drawn.classList.remove('opening', 'slow', 'opened', 'empty');
    this.button.disabled = false;
    this.status.textContent = '';
  }

  /** Opens the flap. The slip rises with its amount on it. Any press skips the rest. @param {GrabResult} result */
  async #reveal(result) {
    const amount = result.outcome === 'grabbed' ? result.amount : null;
    if (amount !== null) {
      const shown = figure(amount);
      this.sum.replaceChildren(h('span', { class: 'symbol' }, ...glyphs(symbol())), ...(mayMove() ? reel(shown) : glyphs(shown)));
      this.sum.dataset['amount'] = money(amount);
    }
    this.drawn.classList.add('opened');
    this.drawn.classList.toggle('empty', amount === null);
    if (!mayMove()) return;
    await Promise.race([sleep(amount === null ? LOSS_REVEAL_MS : REVEAL_MS, this.#signal), pressed(this.#signal)]);
  }

  /** @param {unknown} error */
  #failed(error) {
    if (error instanceof Problem && error.code === 'wrong-passphrase') {
      this.asks.hidden = false;
      const isWrong = this.#passphrase !== undefined;
      this.word.setAttribute('aria-invalid', String(isWrong));
      this.#nudge(t(isWrong ? 'grab.passphrase.wrong' : 'grab.passphrase.ask'));
    } else if (this.#isBlocked(error)) {
      this.#block(error.retryAfterS ?? 60);
    } else if (error instanceof Problem && /^(not-a|ticket-)/.test(error.code) && this.#live.packet.sender_id === me()) {
      this.button.hidden = this.asks.hidden = true;
      this.status.textContent = t(error.code === 'not-a-recipient' ? 'grab.watch' : 'grab.watch.ticket');
    } else if (mayPass(error) && navigator.onLine) {
      this.#events.failed(new NoAnswer(), () => void this.open());
    } else this.#events.failed(error, () => void this.open());
  }

  /** Lets the user wait after too many wrong passphrases, and tells how long. @param {number} seconds */
  #block(seconds) {
    this.#blockedUntil = serverNow() + seconds * 1000;
    this.#lock(true);
    this.word.setAttribute('aria-invalid', 'true');
    countDown(
      this.#blockedUntil,
      (leftMs) => {
        this.status.textContent = leftMs > 0 ? t('grab.passphrase.wait', { count: Math.ceil(leftMs / 1000) }) : t('grab.passphrase.ask');
        if (leftMs === 0) this.#lock(false);
      },
      this.#signal,
    );
  }
}

/** Loads the module that shows the result. A failure shows when it is needed. */
function prepare() {
  import('./result.js').catch(() => {});
}

/** Whether the user can win nothing more. @param {Packet['limit']} limit */
export function hasReached(limit) {
  return limit?.wins_left === 0 || limit?.amount_left === 0;
}

/** Says how much the limit allows each person. @param {Packet['limit']} limit */
export function reached(limit) {
  const { wins, amount, wins_left } = limit ?? {};
  if (wins && wins_left === 0) return t('grab.limit.text', { count: wins });
  return amount ? t('grab.limit.amount', { amount: money(amount) }) : '';
}

/** Says what the user may still win; nothing if there is no limit. @param {Packet['limit']} limit */
export function leftToWin(limit) {
  const { wins_left: count, amount_left } = limit ?? {};
  const amount = amount_left && money(amount_left);
  if (count) return amount ? t('grab.bothLeft', { count, amount }) : t('grab.winsLeft', { count });
  return amount ? t('grab.amountLeft', { amount }) : '';
}

/** Waits for the next press of a key or a pointer. @param {AbortSignal} signal @returns {Promise<void>} */
function pressed(signal) {
  return new Promise((resolve) => {
    for (const kind of ['pointerdown', 'keydown']) addEventListener(kind, () => resolve(), { once: true, signal });
  });
}

/** Returns a duration as hours, minutes and seconds, after the days. @param {number} ms */
export function duration(ms) {
  const seconds = Math.ceil(ms / 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const days = Math.floor(seconds / 86_400);
  const time = `${two(Math.floor(seconds / 3600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days > 0 ? t('grab.days', { count: days, time }) : time;
}

/**
 * Returns the glyphs of a text whose digits roll into place once the element's `rolling` class is set.
 * @param {string} text
 */
function reel(text) {
  return [...text].map((letter) => {
    if (!/\d/.test(letter)) return glyph(letter);
    const at = Number(letter);
    // A strip from a digit five places away to the one that is shown.
    const strip = Array.from({ length: 6 }, (_, i) => glyph(String((at + 5 + i) % 10)));
    return h('span', { class: 'reel' }, h('span', { class: 'strip' }, ...strip));
  });
}
