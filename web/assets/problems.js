// Shows failures, and says why an amount is refused.

import { Problem, Unreachable } from '../client/hongbao.js';
import { endSession, minorDigits, minute, money } from './context.js';
import { h } from './dom.js';
import { t } from './i18n.js';

/** @typedef {import('./i18n.js').Key} Key */

/** No answer came to a grab, so the user may or may not have a slip. */
export class NoAnswer extends Error {}

/** A part of the page could not be loaded. */
export class NotLoaded extends Error {}

/**
 * @param {unknown} error
 * @returns {{kind: string, title: string, text: string, canRetry: boolean}}
 */
export function explain(error) {
  const said = (/** @type {string} */ kind, /** @type {Key} */ title, /** @type {Key} */ text, canRetry = false, values = {}) => ({
    kind,
    title: t(title),
    text: t(text, values),
    canRetry,
  });
  if (error instanceof Unreachable || error instanceof NotLoaded) {
    return navigator.onLine
      ? said('no-answer', 'grab.noAnswer', 'grab.unavailable.text', true)
      : said('offline', 'grab.offline', 'grab.offline.text', true);
  }
  if (error instanceof Problem) {
    switch (error.code) {
      case 'packet-not-found':
      case 'route-not-found':
        return said('not-found', 'grab.notFound', 'grab.notFound.text');
      case 'ticket-expired':
        return said('expired', 'grab.ticket', 'grab.ticket.text');
      case 'ticket-required':
      case 'ticket-invalid':
        return said('not-for-you', 'grab.ticketed', 'grab.ticket.text');
      case 'not-a-recipient':
        return said('not-for-you', 'grab.notForYou', 'grab.notForYou.text');
      case 'user-id-unsupported':
        // A new token would have the same user id, so there is nothing to retry.
        return said('unsupported', 'signin.unsupported', 'signin.unsupported.text');
      case 'account-suspended':
        return said('suspended', 'send.suspended', 'send.suspended.text');
      case 'daily-limit-exceeded':
        return said('limit', 'send.limit', error.resetsAt ? 'send.limit.text' : 'send.limit.later', false, { time: error.resetsAt ? minute(error.resetsAt) : '' });
      case 'sending-paused':
        return said('unavailable', 'send.paused', 'grab.unavailable.text', true);
      case 'unavailable':
      case 'too-many-requests':
        return said('unavailable', 'grab.unavailable', 'grab.unavailable.text', true);
      case 'unauthenticated':
        return said('signin', 'signin.title', 'signin.again', true);
      default:
        return said('broken', 'grab.broken', 'grab.broken.text', true, { id: error.requestId || error.code });
    }
  }
  if (error instanceof NoAnswer) return said('no-answer', 'grab.noAnswer', 'grab.noAnswer.text', true);
  return said('broken', 'grab.broken', 'grab.broken.text', true, { id: error instanceof Error ? error.name : '–' });
}

/**
 * Builds the screen of a failure. If the browser was offline, it retries once by itself.
 * @param {unknown} error
 * @param {() => void} retry
 * @param {AbortSignal} [signal]
 */
export function problemNotice(error, retry, signal) {
  const { kind, title, text, canRetry } = explain(error);
  let isDone = false;
  const again = () => {
    if (isDone) return;
    isDone = true;
    if (kind === 'signin') endSession();
    else retry();
  };
  if (kind === 'offline') addEventListener('online', again, { once: true, ...(signal && { signal }) });
  return h(
    'section',
    { class: 'notice', 'data-kind': kind },
    h('div', { class: 'emblem', 'aria-hidden': 'true' }),
    h('h1', { tabindex: '-1' }, title),
    h('p', null, text),
    canRetry
      ? h('button', { class: 'button', onClick: again }, t(kind === 'signin' ? 'signin.title' : 'retry'))
      : h('a', { class: 'button plain', href: '#/' }, t('notFound.home')),
  );
}

/** The most characters of what a user wrote that a message repeats. */
const WRITTEN_SHOWN = 24;

/**
 * Says how an amount was read that is refused.
 * @param {Exclude<import('./input.js').Reading, {minor: number}>} reading
 * @param {string} example an amount as users type it
 */
export function misread(reading, example) {
  const written = reading.written.length > WRITTEN_SHOWN ? `${reading.written.slice(0, WRITTEN_SHOWN)}…` : reading.written;
  if (reading.wrong === 'none') return t('amount.none', { written, example });
  const { before, after } = reading;
  if (reading.wrong === 'fine') return t('amount.fine', { written, before, after, least: money(1), example });
  // With three decimals, a zero in front shows that they are decimals.
  const digits = minorDigits();
  const part = digits < after.length ? `${before}.${after.slice(0, digits)}` : `0${before}.${after}`;
  return t('amount.both', { written, whole: before + after, before, after, part });
}
