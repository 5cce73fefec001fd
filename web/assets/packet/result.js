// The result of opening: the slip with its amount, or the empty envelope; the others' luck below.

import { countDown } from '../browser.js';
import { api, clock, figure, me, money, shareLink, span, symbol } from '../context.js';
import { glyphs, h, mayMove, outline, say, vary } from '../dom.js';
import { artOf, coverOf, dress, greetingLine } from '../envelope.js';
import { t } from '../i18n.js';
import { avatar, person } from '../people.js';
import { shareTicket } from '../session.js';
import { duration, hasReached, leftToWin, reached } from './envelope.js';

/** @typedef {import('./screen.js').Live} Live */
/** @typedef {import('./screen.js').Outcome} Outcome */

/** What a user reads who got nothing, by outcome. @type {Record<Exclude<Outcome, 'grabbed'>, [import('../i18n.js').Key, import('../i18n.js').Key | null]>} */
const LOST = {
  sold_out: ['grab.soldOut', 'grab.soldOut.text'],
  limit_reached: ['grab.limit', null],
  expired: ['grab.expired', 'grab.expired.text'],
  closed: ['grab.closed', 'grab.closed.text'],
  none: ['grab.noSlip', null],
};

export class ResultRoom {
  #live;
  #signal;
  #got;
  #heading;
  /** @type {Outcome} */
  #outcome;

  /** @param {Live} live @param {Outcome} outcome @param {{amount: number} | null} got @param {AbortSignal} signal @param {boolean} isNew */
  constructor(live, outcome, got, signal, isNew) {
    this.#live = live;
    this.#signal = signal;
    this.#outcome = outcome;
    const { packet } = live;
    const isMine = packet.sender_id === me();
    const won = outcome === 'grabbed' && got ? got.amount : null;
    this.#got = won;
    const look = coverOf(packet.cover);
    this.luck = h('p', { class: 'luck', hidden: true }, crown(), t('grab.best'));
    this.seal = h('p', { class: 'trust' });
    this.#heading = won === null ? this.#lost(outcome === 'grabbed' ? 'none' : outcome) : wonHeading(won);
    const from = h('p', { class: 'from' }, avatar(packet.sender_id), person(packet.sender_id, 'grab.from'));
    const list = new ClaimsList(live, signal);
    this.next = h('p', { class: 'next', hidden: true });
    this.left = h('p');
    this.gone = h('p', { class: 'gone' });
    this.after = h('div', { class: 'after' });
    this.others = h('button', { class: 'button gold', onClick: () => list.node.scrollIntoView({ behavior: mayMove() ? 'smooth' : 'auto' }) }, t('grab.others'));
    this.ticket =
      won === null
        ? h(
            'div',
            { class: 'lost' },
            from,
            this.#heading,
            this.gone,
            this.after,
            this.next,
            h('p', { class: 'row' }, this.#wasTooMuch() && h('button', { class: 'button gold', onClick: () => location.reload() }, t('retry')), this.others, h('a', { class: 'button outlined', href: '#/' }, t(isMine ? 'sent.another' : 'grab.sendOne'))),
          )
        : h(
            'div',
            { class: 'ticket' },
            from,
            greetingLine(packet.greeting || t('send.greeting.default')),
            this.#heading,
            won === 1 && packet.total_amount > packet.count && h('p', { class: 'joke' }, t('grab.least')),
            this.luck,
            h('p', { class: 'after' }, h('a', { href: '#/mine' }, t('grab.saved'))),
            this.left,
            isMine && /^(open|scheduled)$/.test(packet.status) && h('p', { class: 'after' }, h('a', { href: `#/sent/${packet.packet_id}` }, t('grab.share'))),
            this.next,
          );
    const hero = dress(h('div', { class: 'torn' }, this.ticket, h('div', { class: 'strip-of-cover' }, h('div', { class: 'pocket', 'aria-hidden': 'true' }, artOf(look)), this.seal)), look);
    this.node = h('section', { class: `result${isNew ? ' arriving' : ''}`, 'data-outcome': outcome }, hero, list.node);
    if (isNew && won !== null && mayMove()) this.#heading.append(goldDust(shareOfLargest(won, packet)));
    list.onNewest = ({ grabbed_at }) => {
      const { claimed_count, count, starts_at, created_at } = live.packet;
      if (won !== null || claimed_count < count) return;
      const took = Date.parse(grabbed_at) - Date.parse(starts_at ?? created_at);
      this.gone.textContent = t('grab.goneIn', { count, time: span(took) });
    };
    live.onChange(() => this.#update());
    this.#update();
  }

  /** The round that is counted down to, with its start. @type {string} */
  #round = '';

  /** Shows the next round, and counts down to its start. */
  #showNext() {
    const { next } = this.#live.packet;
    const round = next ? `${next.packet_id} ${next.starts_at}` : '';
    if (round === this.#round) return;
    this.#round = round;
    this.next.hidden = !next;
    if (!next) return;
    shareTicket(this.#live.packet.packet_id, next.packet_id);
    const link = h('a', { href: shareLink(next.packet_id) });
    this.next.replaceChildren(link);
    const show = (/** @type {number} */ leftMs) => {
      if (this.#round !== round) return;
      const wasAhead = link.textContent !== '';
      link.textContent = leftMs > 0 ? t('grab.next.in', { time: duration(leftMs) }) : t('grab.next');
      if (leftMs > 0) return;
      link.className = 'button gold';
      if (wasAhead) say(link.textContent);
    };
    countDown(Date.parse(next.starts_at), show, this.#signal);
  }

  #update() {
    const { packet } = this.#live;
    this.#showNext();
    // Before the win is in the packet, so is what was left before it.
    this.left.textContent = !packet.mine ? '' : hasReached(packet.limit) ? t('grab.limit') : leftToWin(packet.limit);
    this.left.hidden = !this.left.textContent;
    this.luck.hidden = luckiest(packet)?.user_id !== me();
    this.others.hidden = packet.claimed_count === 0;
    this.after.replaceChildren(...this.#story().map((text) => h('p', null, text)));
    this.luck.closest('.ticket')?.classList.toggle('best', !this.luck.hidden);
    const mark = [h('span', { class: 'mark' }, t('grab.fair.check')), tick()];
    this.seal.replaceChildren(
      packet.seed
        ? h('a', { class: 'verify fair-seal', href: `#/verify/${packet.packet_id}`, 'aria-label': t('grab.verify'), title: t('grab.verify') }, ...mark)
        : h('span', { class: 'fair-seal later', title: t('grab.verify.later') }, h('span', { class: 'mark' }, t('grab.fair'))),
    );
  }

  /** Whether the slip was more than the user can still win: another one may be less. */
  #wasTooMuch() {
    const { limit, split, count, claimed_count } = this.#live.packet;
    return this.#outcome === 'limit_reached' && split === 'random' && count - claimed_count > 1 && !!limit?.amount_left && !hasReached(limit);
  }

  /** @param {Exclude<Outcome, 'grabbed'>} outcome */
  #lost(outcome) {
    if (this.#wasTooMuch()) return h('h1', { tabindex: '-1' }, t('grab.limit.slip'));
    const isOwn = this.#live.packet.sender_id === me() && (outcome === 'expired' || outcome === 'sold_out');
    return h('h1', { tabindex: '-1' }, t(isOwn ? `status.${outcome}` : LOST[outcome][0]));
  }

  /** What the user reads below the heading. */
  #story() {
    if (this.#outcome === 'grabbed') return [];
    const { sender_id, status, claimed_count: claimed, count: total, claimed_amount, total_amount, refunded_amount } = this.#live.packet;
    const [isOver, left] = [status === 'settled', total_amount - claimed_amount];
    if (this.#outcome === 'limit_reached') return [this.#wasTooMuch() ? leftToWin(this.#live.packet.limit) : reached(this.#live.packet.limit)];
    if (sender_id === me() && this.#outcome !== 'none') {
      const taken = claimed > 0 ? t('grab.own.taken', { claimed, total, amount: money(claimed_amount) }) : t('grab.nobody.over');
      const rest = isOver ? t('grab.own.back', { amount: money(refunded_amount) }) : t('grab.own.left', { amount: money(left) });
      return left > 0 ? [taken, rest] : [taken];
    }
    const text = (isOver && left > 0) || this.#live.packet.next ? null : LOST[this.#outcome][1];
    return text ? [t(text)] : [];
  }

  /** Moves focus and view to the result, and tells it to screen readers. */
  greet() {
    this.#heading.focus({ preventScroll: true });
    scrollTo(0, 0);
    say(this.#got === null ? (this.#heading.textContent ?? '') : `${t('grab.got')} ${money(this.#got)}`);
  }
}

/** Returns the luckiest claim. Without luck, or against nobody, it is none. @param {import('./screen.js').Packet} packet */
function luckiest({ split, count, total_amount, claimed_count, best }) {
  return split === 'random' && total_amount > count && claimed_count > 1 ? best : null;
}

/** @param {number} amount */
function wonHeading(amount) {
  return h(
    'h1',
    { class: 'won', tabindex: '-1', 'aria-label': `${t('grab.got')} ${money(amount)}` },
    h('small', { 'aria-hidden': 'true' }, t('grab.got')),
    h('span', { class: 'sum', 'aria-hidden': 'true' }, h('span', { class: 'symbol' }, ...glyphs(symbol())), ...glyphs(figure(amount))),
  );
}

/**
 * Returns the luck of an amount, from 0 to 1: its share of the largest claim. As long as slips are left, nobody knows that one; twice
 * the mean stands in for it, since nearly all are below.
 * @param {number} amount
 * @param {import('./screen.js').Packet} packet
 */
function shareOfLargest(amount, packet) {
  const largest = packet.best?.amount ?? (2 * packet.total_amount) / packet.count;
  return Math.min(1, amount / largest);
}

// --- Who got what, newest first. Pages are read when they come into view, and only rows near the view are in the document.

/** @typedef {import('./screen.js').Packet} Packet */
/** @typedef {import('../../client/hongbao.js').PacketClaim} PacketClaim */
/** @typedef {{user_id: string, amount: number, grabbed_at?: string}} Shown */

const PAGE = 100;
/** If more is new, the list starts over. */
const NEWER_PAGES_MOST = 2;
/** The height of a row, as in style.css. */
const ROW_REM = 4;
/** Rows this far outside the view are kept ready. */
const MARGIN = 640;
/** In a longer list, the user's own row and the best one stay on top. */
const PIN_FROM = 8;

export class ClaimsList {
  #live;
  #signal;
  /** In the order in which they are shown. @type {PacketClaim[]} */
  #claims = [];
  /** @type {Set<number>} */
  #slips = new Set();
  /** The rows in the document, by slip. @type {Map<number, HTMLElement>} */
  #rows = new Map();
  /** Where older claims go on: a cursor; null at the end; undefined before the first page. @type {string | null | undefined} */
  #older;
  /** What newer claims come after. @type {string | null} */
  #newest = null;
  /** The number of claims when they were read last. */
  #seen = 0;
  #isReading = false;
  #isDrawing = false;
  /** Called with the newest claim. @type {(claim: PacketClaim) => void} */
  onNewest = () => {};
  /** Called with the largest amount so far, of those that were read. @type {(amount: number) => void} */
  onLargest = () => {};

  /** @param {Live} live @param {AbortSignal} signal */
  constructor(live, signal) {
    this.#live = live;
    this.#signal = signal;
    this.progress = h('p', { class: 'progress' });
    this.bar = h('progress', { max: live.packet.count, 'aria-hidden': 'true' });
    this.pins = h('ol', { class: 'pins', hidden: true });
    this.rows = h('ol', { class: 'claims' });
    this.none = h('p', { class: 'none' });
    this.absent = h('p', { class: 'hint absent', hidden: true });
    this.more = h('button', { class: 'button plain', hidden: true }, t('more'));
    this.foot = h('div', { class: 'foot' });
    this.node = h('section', { class: 'card who', id: 'who' }, h('h2', null, t('grab.who')), this.progress, this.bar, this.pins, this.rows, this.none, this.more, this.absent, this.foot);
    this.more.addEventListener('click', () => void this.#readOlder());
    const draw = () => this.#drawSoon();
    addEventListener('scroll', draw, { passive: true, signal });
    addEventListener('resize', draw, { passive: true, signal });
    const near = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && !this.more.hidden && void this.#readOlder(), { rootMargin: `${MARGIN}px` });
    near.observe(this.more);
    signal.addEventListener('abort', () => near.disconnect());
    live.onChange(() => this.#changed());
    this.#head();
    void this.#readOlder();
  }

  /** Shows what the packet itself tells. */
  #head() {
    const { packet } = this.#live;
    const { claimed_count, count, claimed_amount, total_amount, refunded_amount, status } = packet;
    this.progress.textContent = t('grab.progress', { claimed: claimed_count, total: count, amount: money(claimed_amount), sum: money(total_amount) });
    this.bar.value = claimed_count;
    this.none.textContent = t(status === 'open' || status === 'scheduled' ? 'grab.nobody' : 'grab.nobody.over');
    this.none.hidden = claimed_count > 0 || this.#claims.length > 0;
    this.foot.replaceChildren(refunded_amount > 0 ? h('p', { class: 'hint' }, t(packet.sender_id === me() ? 'mine.refunded' : 'grab.refunded', { amount: money(refunded_amount) })) : '');
    this.#showAbsent();
    const { mine } = packet;
    const best = luckiest(packet);
    /** @type {Shown[]} */
    const pinned = [];
    if (mine) pinned.push({ ...mine, user_id: me() });
    if (best && best.user_id !== me()) pinned.push(best);
    this.pins.hidden = claimed_count < PIN_FROM || pinned.length === 0;
    if (this.pins.hidden) return;
    const key = pinned.map(({ user_id }) => user_id).join(' ') + best?.user_id;
    if (this.pins.dataset['key'] === key) return;
    this.pins.dataset['key'] = key;
    this.pins.replaceChildren(...pinned.map((claim) => claimRow(claim, claim.user_id === best?.user_id, 'pin')));
  }

  /** Tells the sender which recipients have not opened it, once all claims are read. */
  #showAbsent() {
    const { recipients, claimed_count, status } = this.#live.packet;
    if (!recipients || (claimed_count > 0 && (this.#older !== null || this.#claims.length < claimed_count))) return;
    const opened = new Set(this.#claims.map(({ user_id }) => user_id));
    const absent = recipients.filter((id) => !opened.has(id));
    const label = t(status === 'open' || status === 'scheduled' ? 'grab.absent' : 'grab.absent.over');
    this.absent.hidden = absent.length === 0;
    this.absent.replaceChildren(`${label} `, ...absent.flatMap((id, i) => [i > 0 ? ' · ' : '', person(id)]));
  }

  #changed() {
    this.#head();
    const best = luckiest(this.#live.packet);
    for (const claim of this.#claims) {
      const row = this.#rows.get(claim.slip);
      if (!row || claim.best === (claim.user_id === best?.user_id)) continue;
      claim.best = claim.user_id === best?.user_id;
      row.replaceWith(this.#row(claim));
    }
    if (this.#live.packet.claimed_count > this.#seen) void this.#readNewer();
  }

  /** Reads the first page, or the next one. @returns {Promise<void>} */
  async #readOlder() {
    if (this.#isReading || this.#older === null) return;
    this.#isReading = true;
    this.more.disabled = true;
    let isRead = false;
    try {
      const seen = this.#live.packet.claimed_count;
      const page = await api.claims(this.#live.packet.packet_id, { limit: PAGE, cursor: this.#older ?? null, order: 'newest', signal: this.#signal });
      if (this.#older === undefined) {
        this.#seen = Math.max(seen, page.claims.length);
        this.#newest = page.newest_cursor ?? null;
      }
      this.#take(page);
      this.#added();
      isRead = true;
    } catch {
      // The button stays, so that the user can try again.
    } finally {
      this.#isReading = false;
      this.more.disabled = false;
      this.more.hidden = this.#older === null || this.#claims.length === 0;
    }
    // There are at most 500, and the sender wants to know who is missing.
    if (this.#live.packet.recipients && isRead && this.#older) return this.#readOlder();
    if (this.#live.packet.claimed_count > this.#seen) void this.#readNewer();
  }

  /** Reads what is newer than the newest claim that was read. */
  async #readNewer() {
    if (this.#isReading || this.#older === undefined) return;
    this.#isReading = true;
    const { packet_id, claimed_count } = this.#live.packet;
    try {
      let at = 0;
      /** @type {string | null} */
      let cursor = null;
      let pages = 0;
      const after = this.#newest;
      do {
        /** @type {import('../../client/hongbao.js').PacketClaims} */
        const page = await api.claims(packet_id, { limit: PAGE, order: 'newest', after, cursor, signal: this.#signal });
        if (cursor === null) this.#newest = page.newest_cursor ?? null;
        cursor = page.next_cursor;
        for (const claim of page.claims) if (this.#add(claim, at)) at += 1;
        pages += 1;
      } while (cursor !== null && after && pages < NEWER_PAGES_MOST);
      this.#seen = claimed_count;
      // So many are new that the rest is read as it comes into view, or some came in another order than their times.
      if (cursor !== null || (this.#older === null && this.#claims.length < claimed_count)) await this.#startOver();
      this.#added();
    } catch {
      // The next change asks again.
    } finally {
      this.#isReading = false;
      this.more.hidden = this.#older === null || this.#claims.length === 0;
    }
    if (this.#live.packet.claimed_count > this.#seen && this.#seen === claimed_count) void this.#readNewer();
  }

  async #startOver() {
    const page = await api.claims(this.#live.packet.packet_id, { limit: PAGE, order: 'newest', signal: this.#signal });
    this.#claims = [];
    this.#slips.clear();
    this.#take(page);
  }

  /** Appends a page. @param {import('../../client/hongbao.js').PacketClaims} page */
  #take(page) {
    this.#older = page.next_cursor;
    for (const claim of page.claims) this.#add(claim, this.#claims.length);
  }

  /** @param {PacketClaim} claim @param {number} at @returns {boolean} whether the claim is new */
  #add(claim, at) {
    if (this.#slips.has(claim.slip)) return false;
    this.#slips.add(claim.slip);
    claim.best = claim.user_id === luckiest(this.#live.packet)?.user_id;
    this.#claims.splice(at, 0, claim);
    return true;
  }

  #added() {
    const newest = this.#claims[0];
    if (newest) this.onNewest(newest);
    this.onLargest(this.#claims.reduce((most, { amount }) => Math.max(most, amount), 0));
    this.#head();
    this.#draw();
  }

  #drawSoon() {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    requestAnimationFrame(() => {
      this.#isDrawing = false;
      if (!this.#signal.aborted) this.#draw();
    });
  }

  /** Puts the rows near the view into the document, and takes the others out. Rows that stay are not touched. */
  #draw() {
    const all = this.#claims.length;
    const row = ROW_REM * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    const { top } = this.rows.getBoundingClientRect();
    const from = Math.min(all, Math.max(0, Math.floor((-top - MARGIN) / row)));
    const to = Math.min(all, Math.max(from, Math.ceil((innerHeight - top + MARGIN) / row)));
    vary(this.rows, { '--above': `${from * row}px`, '--below': `${(all - to) * row}px` });
    const near = this.#claims.slice(from, to);
    const slips = new Set(near.map(({ slip }) => slip));
    for (const [slip, row] of this.#rows) {
      if (slips.has(slip)) continue;
      row.remove();
      this.#rows.delete(slip);
    }
    let next = this.rows.firstElementChild;
    near.forEach((claim, i) => {
      const shown = this.#rows.get(claim.slip) ?? this.#row(claim);
      if (shown === next) next = next.nextElementSibling;
      else this.rows.insertBefore(shown, next);
      shown.setAttribute('aria-posinset', String(from + i + 1));
      shown.setAttribute('aria-setsize', String(this.#live.packet.claimed_count));
    });
  }

  /** @param {PacketClaim} claim */
  #row(claim) {
    const row = claimRow(claim, claim.best, 'claim');
    row.dataset['slip'] = String(claim.slip);
    this.#rows.set(claim.slip, row);
    return row;
  }
}

/** @param {Shown} claim @param {boolean} isBest @param {'claim' | 'pin'} kind */
function claimRow({ user_id, amount, grabbed_at }, isBest, kind) {
  const isMe = user_id === me();
  return h(
    'li',
    { class: `${kind}${isBest ? ' best' : ''}${isMe ? ' me' : ''}` },
    avatar(user_id),
    h('span', { class: 'name' }, person(user_id), isMe && h('em', null, ` (${t('grab.you')})`)),
    grabbed_at ? h('time', { datetime: grabbed_at }, clock(grabbed_at)) : h('span', { class: 'time' }),
    h('span', { class: 'got' }, money(amount)),
    isBest && h('span', { class: 'crown' }, crown(), t('grab.best')),
  );
}

/** Returns a tick. */
function tick() {
  return outline(200, 'M30 110 85 160 175 50', 'tick');
}

/** Returns the crown of the luckiest. */
function crown() {
  return outline(240, 'M20 60 70 110 120 30 170 110 220 60 200 170H40Z', 'crown-mark');
}

const GRAINS_MOST = 36;

/**
 * Returns grains of gold that fly apart once, from the place where they are inserted.
 * @param {number} share from 0 to 1: more luck, more gold
 */
function goldDust(share) {
  const count = Math.round(6 + share * (GRAINS_MOST - 6));
  const grains = Array.from({ length: count }, (_, i) => {
    const [angle, far] = [(i / count) * 2 * Math.PI, (4 + Math.random() * 4) * (0.7 + share * 0.6)];
    return vary(h('i'), { '--x': `${Math.cos(angle) * far * 1.4}rem`, '--y': `${Math.sin(angle) * far}rem`, '--late': `${Math.random() * 0.12}s` });
  });
  return h('span', { class: 'dust', 'aria-hidden': 'true' }, ...grains);
}
