// The grab screen: the envelope, the outcome of opening it, and the list of winners.

import { Problem, Unreachable } from '../client/hongbao.js';
import { api, clock, figure, me, money, moment, number, onRetry, setCurrency, symbol } from './context.js';
import { byId, h, mayMove, say, sleep } from './dom.js';
import { avatar, envelope, goldDust } from './envelope.js';
import { t } from './i18n.js';
import { poll } from './poll.js';
import { problemNotice } from './problems.js';

/** @typedef {import('../client/hongbao.js').Packet} Packet */
/** @typedef {import('../client/hongbao.js').PacketClaim} PacketClaim */
/** @typedef {import('../client/hongbao.js').GrabResult} GrabResult */
/** @typedef {'grabbed' | 'sold_out' | 'expired'} Outcome */

/** An opening animation shorter than this looks like a flicker. */
const OPENING_LEAST_MS = 700;
/** A grab that takes longer shows that the network is slow. */
const SLOW_MS = 2_500;
const PAGE = 100;

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
export async function grabScreen(root, signal, packetId = '') {
  await new Grab(root, signal, packetId).load();
}

class Grab {
  /** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
  constructor(root, signal, packetId) {
    this.root = root;
    this.signal = signal;
    this.packetId = packetId;
  }

  async load() {
    try {
      const packet = await api.packet(this.packetId, { signal: this.signal });
      if (this.signal.aborted) return;
      setCurrency(packet.currency);
      document.title = t('grab.title', { sender: packet.sender_id });
      const outcome = this.#outcome(packet);
      if (outcome) this.#result(packet, outcome);
      else this.#envelope(packet);
    } catch (error) {
      this.#failed(error, () => void this.load());
    }
  }

  /**
   * Returns the outcome of the packet for this user; null while the user can grab it.
   * @param {Packet} packet
   * @returns {Outcome | null}
   */
  #outcome(packet) {
    if (packet.mine || this.#remembered()) return 'grabbed';
    if (packet.status === 'open' || packet.status === 'scheduled') return null;
    return packet.status === 'sold_out' || packet.claimed_count === packet.count ? 'sold_out' : 'expired';
  }

  get #memory() {
    return `hongbao.grabbed.${me()}.${this.packetId}`;
  }

  /**
   * Returns the winning answer that this tab remembers. A reload has to show it even if reads do not show the claim yet.
   * @returns {Extract<GrabResult, {outcome: 'grabbed'}> | null}
   */
  #remembered() {
    return JSON.parse(sessionStorage.getItem(this.#memory) ?? 'null');
  }

  /** @param {unknown} error @param {() => void} retry */
  #failed(error, retry) {
    if (this.signal.aborted) return;
    const notice = problemNotice(error, retry, this.signal);
    this.root.replaceChildren(notice);
    notice.querySelector('h1')?.focus();
  }

  /** @param {Packet} packet */
  #envelope(packet) {
    const sender = packet.sender_id;
    const button = h('button', { class: 'coin', id: 'open', 'aria-label': t('grab.openLabel', { sender }) }, h('span', { 'aria-hidden': 'true' }, t('grab.open')));
    const status = h('p', { class: 'envelope-status', role: 'status' });
    const asks = h('form', { class: 'asks', hidden: true });
    const left = h('p', { class: 'ends' });
    const foot = h('div', null, asks, status, left);
    const drawn = envelope({
      sender,
      from: t('grab.from', { sender }),
      greeting: packet.greeting || t('send.greeting.default'),
      seal: button,
      foot,
    });
    const isMine = sender === me();
    const view = h('section', { class: 'grab' }, h('h1', { class: 'unseen', tabindex: '-1' }, t('grab.title', { sender })), drawn);
    if (isMine) view.append(h('a', { class: 'button plain', href: `#/sent/${packet.packet_id}` }, t('grab.share')));
    this.root.replaceChildren(view);
    countDown(left, packet.expires_at, this.signal);
    if (isMine || packet.claimed_count > 0) this.#list(view, packet);
    /** @type {string | undefined} */
    let passphrase;
    const open = () => void this.#open(packet, { drawn, button, status, asks }, passphrase);
    button.addEventListener('click', open);
    asks.addEventListener('submit', (event) => {
      event.preventDefault();
      const word = asks.querySelector('input')?.value ?? '';
      if (!word) return;
      passphrase = word;
      open();
    });
  }

  /**
   * @param {Packet} packet
   * @param {{drawn: HTMLElement, button: HTMLButtonElement, status: HTMLElement, asks: HTMLFormElement}} parts
   * @param {string | undefined} passphrase
   */
  async #open(packet, { drawn, button, status, asks }, passphrase) {
    if (button.disabled) return;
    button.disabled = true;
    drawn.classList.add('opening');
    status.textContent = t('grab.opening');
    const showSlow = () => {
      status.textContent = t('grab.slow');
      drawn.classList.add('slow');
    };
    const slow = setTimeout(showSlow, SLOW_MS);
    onRetry.add(showSlow);
    const begun = performance.now();
    try {
      const call = { signal: this.signal, ...(passphrase !== undefined && { passphrase }) };
      const result = await api.grab(this.packetId, call);
      if (mayMove()) await sleep(OPENING_LEAST_MS - (performance.now() - begun), this.signal);
      if (this.signal.aborted) return;
      if (result.outcome === 'not_started') {
        drawn.classList.remove('opening', 'slow');
        button.disabled = false;
        status.textContent = t('grab.notStarted', { time: moment(result.starts_at) });
        return;
      }
      if (result.outcome === 'grabbed') sessionStorage.setItem(this.#memory, JSON.stringify(result));
      drawn.classList.add('opened');
      if (mayMove() && result.outcome === 'grabbed') await sleep(450, this.signal);
      if (this.signal.aborted) return;
      // The result needs no newer packet, so a failure here is ignored.
      const fresh = await api.packet(this.packetId, { signal: this.signal }).catch(() => packet);
      if (!this.signal.aborted) this.#result(fresh, result.outcome, true);
    } catch (error) {
      drawn.classList.remove('opening', 'slow');
      button.disabled = false;
      status.textContent = '';
      if (this.signal.aborted) return;
      if (error instanceof Problem && (error.code === 'wrong-passphrase' || (error.code === 'too-many-requests' && !asks.hidden))) {
        this.#askPassphrase(asks, status, button, error, passphrase);
      } else if (error instanceof Unreachable && navigator.onLine) {
        this.#unknown(packet);
      } else this.#failed(error, () => this.#envelope(packet));
    } finally {
      clearTimeout(slow);
      onRetry.delete(showSlow);
    }
  }

  /** Shows that no answer came, so that the user may or may not have a slip. @param {Packet} packet */
  #unknown(packet) {
    const notice = h(
      'section',
      { class: 'notice', 'data-kind': 'no-answer' },
      h('div', { class: 'emblem', 'aria-hidden': 'true' }),
      h('h1', { tabindex: '-1' }, t('grab.noAnswer')),
      h('p', null, t('grab.noAnswer.text')),
      h(
        'button',
        {
          class: 'button',
          onClick: () => {
            this.#envelope(packet);
            byId('open').click();
          },
        },
        t('retry'),
      ),
    );
    this.root.replaceChildren(notice);
    notice.querySelector('h1')?.focus();
  }

  /**
   * @param {HTMLFormElement} asks
   * @param {HTMLElement} status
   * @param {HTMLButtonElement} button
   * @param {Problem} error
   * @param {string | undefined} tried
   */
  #askPassphrase(asks, status, button, error, tried) {
    const isFirst = asks.hidden;
    if (isFirst) {
      asks.hidden = false;
      asks.replaceChildren(
        h('label', { for: 'word' }, t('grab.passphrase')),
        h('input', { id: 'word', autocomplete: 'off', autocapitalize: 'off', 'aria-describedby': 'word-status', 'aria-invalid': 'false' }),
        h('button', { class: 'button gold', type: 'submit' }, t('grab.open')),
      );
      status.id = 'word-status';
      button.hidden = true;
    }
    const word = asks.querySelector('input');
    word?.setAttribute('aria-invalid', String(tried !== undefined));
    word?.focus();
    word?.select();
    if (error.code === 'wrong-passphrase') {
      status.textContent = t(tried === undefined ? 'grab.passphrase.ask' : 'grab.passphrase.wrong');
    } else {
      const seconds = Math.ceil(error.retryAfterS ?? 60);
      status.textContent = t('grab.passphrase.wait', { seconds });
    }
  }

  /** @param {Packet} packet @param {Outcome} outcome @param {boolean} isNew */
  #result(packet, outcome, isNew = false) {
    const got = packet.mine ?? this.#remembered();
    const shown = outcome === 'grabbed' && got ? got.amount : null;
    const heading =
      shown === null
        ? h('h1', { tabindex: '-1' }, t(outcome === 'sold_out' ? 'grab.soldOut' : 'grab.expired'))
        : h(
            'h1',
            { class: 'won', tabindex: '-1', 'aria-label': `${t('grab.got')} ${money(shown)}` },
            h('small', { 'aria-hidden': 'true' }, t('grab.got')),
            h('span', { class: 'sum', 'aria-hidden': 'true' }, h('span', { class: 'symbol' }, symbol()), figure(shown)),
          );
    const text = shown === null ? t(outcome === 'sold_out' ? 'grab.soldOut.text' : 'grab.expired.text') : t('grab.saved');
    const view = h(
      'section',
      { class: 'result', 'data-outcome': outcome },
      h(
        'div',
        { class: 'arc' },
        h('p', { class: 'from' }, avatar(packet.sender_id), h('span', null, t('grab.from', { sender: packet.sender_id }))),
        h('p', { class: 'greeting' }, packet.greeting || t('send.greeting.default')),
      ),
      heading,
      h('p', { class: 'luck crown', hidden: true }, t('grab.best')),
      h('p', { class: 'after' }, shown === null ? text : h('a', { href: '#/mine' }, text)),
    );
    if (isNew && mayMove()) {
      view.classList.add('arriving');
      if (shown !== null) heading.append(goldDust());
    }
    this.root.replaceChildren(view);
    if (isNew) {
      heading.focus({ preventScroll: true });
      scrollTo(0, 0);
      say(shown === null ? (heading.textContent ?? '') : `${t('grab.got')} ${money(shown)}`);
    }
    this.#list(view, packet);
  }

  /** Shows the list of winners, and polls it while it can change. @param {HTMLElement} view @param {Packet} packet */
  #list(view, packet) {
    const progress = h('p', { class: 'progress' });
    const bar = h('progress', { max: packet.count, 'aria-hidden': 'true' });
    const luck = view.querySelector('.luck');
    const rows = h('ol', { class: 'claims' });
    const more = h('button', { class: 'button plain', hidden: true }, t('more'));
    const foot = h('div', { class: 'foot' });
    view.append(h('section', { class: 'card who' }, h('h2', null, t('grab.who')), progress, bar, rows, more, foot));
    /** @type {Map<number, PacketClaim>} */
    const claims = new Map();
    let pages = 1;
    /** @type {Packet} */
    let current = packet;

    const draw = () => {
      const values = { claimed: number(current.claimed_count), count: number(current.count), amount: money(current.claimed_amount), total: money(current.total_amount) };
      progress.textContent = t('grab.progress', values);
      bar.value = current.claimed_count;
      luck?.toggleAttribute('hidden', current.best?.user_id !== me());
      // A list of one page shows the newest claim first. A longer list stays in the order of the slips, in which its pages come.
      const sorted = [...claims.values()];
      if (current.count <= PAGE) sorted.sort((a, b) => b.grabbed_at.localeCompare(a.grabbed_at) || b.slip - a.slip);
      const known = new Map([...rows.children].map((row) => [/** @type {HTMLElement} */ (row).dataset['slip'], row]));
      rows.replaceChildren(
        ...sorted.map((claim) => {
          const row = known.get(String(claim.slip));
          return row && row.classList.contains('best') === claim.best ? row : claimRow(claim);
        }),
      );
      if (claims.size === 0) rows.append(h('li', { class: 'none' }, t('grab.nobody')));
      foot.replaceChildren(
        current.refunded_amount > 0 ? h('p', { class: 'hint' }, t('grab.refunded', { amount: money(current.refunded_amount) })) : '',
        current.seed
          ? h('a', { class: 'verify', href: `#/verify/${current.packet_id}` }, t('grab.verify'))
          : h('p', { class: 'hint' }, t('grab.verify.later')),
      );
    };
    const fetchClaims = async () => {
      /** @type {string | null} */
      let cursor = null;
      for (let page = 0; page < pages; page += 1) {
        /** @type {import('../client/hongbao.js').PacketClaims} */
        const answer = await api.claims(this.packetId, { limit: PAGE, cursor, signal: this.signal });
        for (const claim of answer.claims) claims.set(claim.slip, claim);
        cursor = answer.next_cursor;
        if (cursor === null) break;
      }
      more.hidden = cursor === null;
    };
    const isOver = () => current.seed !== null && (current.status === 'settled' || current.claimed_count === current.count);
    more.addEventListener('click', async () => {
      if (more.disabled) return;
      more.disabled = true;
      pages += 1;
      // After a failure the button stays, so that the user can try again.
      await fetchClaims().then(draw, () => {
        pages -= 1;
      });
      more.disabled = false;
    });
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && !more.hidden && more.click());
    observer.observe(more);
    this.signal.addEventListener('abort', () => observer.disconnect());

    draw();
    void fetchClaims().then(draw, () => {});
    if (isOver()) return;
    void poll(async () => {
      if (!view.isConnected) return 'done';
      const next = await api.packet(this.packetId, { signal: this.signal });
      const isSame = next.claimed_count === current.claimed_count && next.status === current.status && next.seed === current.seed;
      current = next;
      if (isSame) return isOver() ? 'done' : 'same';
      await fetchClaims();
      draw();
      return isOver() ? 'done' : 'changed';
    }, this.signal);
  }
}

/** @param {PacketClaim} claim */
function claimRow(claim) {
  const isMe = claim.user_id === me();
  return h(
    'li',
    { class: `claim${claim.best ? ' best' : ''}${isMe ? ' me' : ''}`, 'data-slip': claim.slip },
    avatar(claim.user_id),
    h('span', { class: 'name' }, claim.user_id, isMe && h('em', null, ` (${t('grab.you')})`)),
    h('time', { datetime: claim.grabbed_at }, clock(claim.grabbed_at)),
    h('span', { class: 'got' }, money(claim.amount)),
    claim.best && h('span', { class: 'crown' }, t('grab.best')),
  );
}

/** @param {HTMLElement} line @param {string} expiresAt @param {AbortSignal} signal */
function countDown(line, expiresAt, signal) {
  const end = Date.parse(expiresAt);
  const tick = () => {
    const seconds = Math.max(0, Math.round((end - Date.now()) / 1000));
    const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
    const time = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
    line.textContent = t('grab.ends', { time });
  };
  tick();
  const timer = setInterval(tick, 1000);
  signal.addEventListener('abort', () => clearInterval(timer));
}
