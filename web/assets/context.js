// State and functions that all screens share: the configuration, the session, the client, and the format of money and times.

import { Hongbao } from '../client/hongbao.js';
import { language } from './i18n.js';

/** @typedef {import('./session.js').Session} Session */
/**
 * @typedef {object} Config
 * @property {import('./session.js').Auth} auth
 * @property {string} api
 * @property {{slip_amount_max: number, count_max: number}} limits
 * @property {boolean} local Whether this is the local stack, where every caller is the operator.
 */

/** @type {Config} */
export let config = {
  auth: { kind: 'token' },
  api: '',
  limits: { slip_amount_max: 20_000, count_max: 100_000 },
  local: false,
};

/** @type {Session | null} */
export let session = null;

/** @type {Hongbao} */
export let api = new Hongbao();

/** Functions to call before the client waits for another try. @type {Set<() => void>} */
export const onRetry = new Set();

export async function loadConfig() {
  const response = await fetch('config.json');
  if (!response.ok) throw new Error(`config.json: ${response.status}`);
  config = { ...config, ...(await response.json()) };
}

/** @param {Session} opened */
export function useSession(opened) {
  session = opened;
  api = new Hongbao({
    baseUrl: config.api,
    headers: () => opened.headers(),
    onRetry: () => {
      for (const listener of onRetry) listener();
    },
  });
}

export function me() {
  return session?.userId ?? '';
}

/** The deployment's currency; a default until an answer has named it. */
export let currency = 'CNY';

/** @param {string} named */
export function setCurrency(named) {
  currency = named;
}

function formatter() {
  return new Intl.NumberFormat(language(), { style: 'currency', currency, currencyDisplay: 'narrowSymbol' });
}

/** Returns the number of decimal places of the currency: 2 for CNY, 0 for JPY. */
export function minorDigits() {
  return formatter().resolvedOptions().maximumFractionDigits ?? 2;
}

/** @param {number} minor */
export function money(minor) {
  // The decimal string is formatted exactly; a float would not be.
  return formatter().format(/** @type {any} */ (decimal(minor)));
}

/** Formats an amount without the currency's symbol. @param {number} minor */
export function figure(minor) {
  const digits = minorDigits();
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(language(), options).format(/** @type {any} */ (decimal(minor)));
}

/** Returns the currency's symbol. */
export function symbol() {
  return formatter().formatToParts(0).find((part) => part.type === 'currency')?.value ?? currency;
}

/** @param {number} minor */
export function decimal(minor) {
  const digits = minorDigits();
  const text = String(Math.abs(minor)).padStart(digits + 1, '0');
  const cut = text.length - digits;
  return (minor < 0 ? '-' : '') + text.slice(0, cut) + (digits ? `.${text.slice(cut)}` : '');
}

/**
 * Parses an amount that a user typed, to minor units; null if it is not an amount.
 * @param {string} text
 */
export function minorUnits(text) {
  const digits = minorDigits();
  const match = /^(\d{1,12})(?:[.．](\d*))?$/.exec(text.trim().replace(/[,，\s]/g, ''));
  if (!match || (match[2] ?? '').length > digits) return null;
  return Number(match[1] + (match[2] ?? '').padEnd(digits, '0'));
}

/** @param {number} value */
export function number(value) {
  return new Intl.NumberFormat(language()).format(value);
}

/** @param {string} at */
export function moment(at) {
  const day = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  return new Intl.DateTimeFormat(language(), /** @type {Intl.DateTimeFormatOptions} */ (day)).format(new Date(at));
}

/** @param {string} at */
export function clock(at) {
  const time = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  return new Intl.DateTimeFormat(language(), /** @type {Intl.DateTimeFormatOptions} */ (time)).format(new Date(at));
}

/** @param {string} packetId */
export function shareLink(packetId) {
  return `${location.origin}${location.pathname}#/p/${packetId}`;
}
