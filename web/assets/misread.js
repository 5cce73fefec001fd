// Says how an amount was read that is refused.

import { minorDigits, money } from './context.js';
import { t } from './i18n.js';

/** The most characters of what a user wrote that a message repeats. */
const WRITTEN_SHOWN = 24;

/**
 * @param {Exclude<import('./amounts.js').Reading, {minor: number}>} reading
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
