// The result of opening: the slip with its amount, or the empty envelope; the others' luck below.

import { figure, me, money, span, symbol } from '../context.js';
import { artOf, coverOf, dress } from '../covers.js';
import { h, mayMove, say } from '../dom.js';
import { crown, goldDust, greetingLine, tick } from '../envelope.js';
import { glyphs } from '../glyphs.js';
import { t } from '../i18n.js';
import { avatar, person } from '../people.js';
import { ClaimsList } from './list.js';

/** @typedef {import('./live.js').Live} Live */
/** @typedef {import('./screen.js').Outcome} Outcome */

/** What a user reads who got nothing, by outcome. @type {Record<Exclude<Outcome, 'grabbed'>, [import('../i18n.js').Key, import('../i18n.js').Key | null]>} */
const LOST = {
  sold_out: ['grab.soldOut', 'grab.soldOut.text'],
  expired: ['grab.expired', 'grab.expired.text'],
  closed: ['grab.closed', 'grab.closed.text'],
  none: ['grab.noSlip', null],
};

export class ResultRoom {
  #live;
  #got;
  #heading;

  /** @param {Live} live @param {Outcome} outcome @param {{amount: number} | null} got @param {AbortSignal} signal @param {boolean} isNew */
  constructor(live, outcome, got, signal, isNew) {
    this.#live = live;
    const { packet } = live;
    const won = outcome === 'grabbed' && got ? got.amount : null;
    this.#got = won;
    const look = coverOf(packet.cover);
    this.luck = h('p', { class: 'luck', hidden: true }, crown(), t('grab.best'));
    this.seal = h('p', { class: 'trust' });
    this.#heading = won === null ? this.#lost(outcome === 'grabbed' ? 'none' : outcome) : wonHeading(won);
    const from = h('p', { class: 'from' }, avatar(packet.sender_id), person(packet.sender_id, 'grab.from'));
    const list = new ClaimsList(live, signal);
    this.gone = h('p', { class: 'gone' });
    const text = outcome === 'grabbed' ? null : LOST[outcome][1];
    this.ticket =
      won === null
        ? h(
            'div',
            { class: 'lost' },
            from,
            this.#heading,
            this.gone,
            text && h('p', { class: 'after' }, t(text)),
            h('p', { class: 'row' }, h('button', { class: 'button gold', onClick: () => list.node.scrollIntoView({ behavior: mayMove() ? 'smooth' : 'auto' }) }, t('grab.others')), h('a', { class: 'button outlined', href: '#/' }, t('grab.sendOne'))),
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

  #update() {
    const { packet } = this.#live;
    this.luck.hidden = packet.best?.user_id !== me();
    this.luck.closest('.ticket')?.classList.toggle('best', !this.luck.hidden);
    const mark = [h('span', { class: 'mark' }, t('grab.fair')), tick()];
    this.seal.replaceChildren(
      packet.seed
        ? h('a', { class: 'verify fair-seal', href: `#/verify/${packet.packet_id}`, 'aria-label': t('grab.verify'), title: t('grab.verify') }, ...mark)
        : h('span', { class: 'fair-seal later', title: t('grab.verify.later') }, h('span', { class: 'mark' }, t('grab.fair'))),
    );
  }

  /** @param {Exclude<Outcome, 'grabbed'>} outcome */
  #lost(outcome) {
    return h('h1', { tabindex: '-1' }, t(LOST[outcome][0]));
  }

  /** Moves focus and view to the result, and tells it to screen readers. */
  greet() {
    this.#heading.focus({ preventScroll: true });
    scrollTo(0, 0);
    say(this.#got === null ? (this.#heading.textContent ?? '') : `${t('grab.got')} ${money(this.#got)}`);
  }
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
 * @param {import('./live.js').Packet} packet
 */
function shareOfLargest(amount, packet) {
  const largest = packet.best?.amount ?? (2 * packet.total_amount) / packet.count;
  return Math.min(1, amount / largest);
}
