// What all screens share.

import { Hongbao } from '../client/hongbao.js';
import { serverNow, timed } from './browser.js';
import { language } from './i18n.js';

export { number } from './i18n.js';

/** @typedef {import('./session.js').Session} Session */
/**
 * @typedef {object} Config
 * @property {import('./session.js').Auth} auth
 * @property {string} api
 * @property {{slip_amount_max: number, count_max: number, withdrawal_min?: number}} limits
 * @property {boolean} local Whether this is the local stack, where every caller is the operator.
 * @property {'fragment' | 'path'} links `path` if the server answers /p/<id> with the page, so that links look like packets.
 * @property {string} [profiles] The module of the embedding app that knows users' names and pictures.
 * @property {string[]} [covers] The covers to choose from.
 * @property {string} [top_up] The page of the embedding app where users put money in.
 * @property {boolean} [withdrawals] Whether users can ask for withdrawals.
 * @property {string | Record<string, string>} [withdrawal_terms] Where their money goes, when, and at what fee: one text, or one by language.
 */

/** @type {Config} */
export let config = {
  auth: { kind: 'token' },
  api: '',
  limits: { slip_amount_max: 20_000, count_max: 100_000 },
  local: false,
  links: 'fragment',
};

/** @type {Session | null} */
export let session = null;

/** @type {Hongbao} */
export let api = new Hongbao();

/** A client that asks once: `persist` asks again. @type {Hongbao} */
export let once = api;

/** Returns the address of the page's folder, also where the page is shown as /p/<id>. */
export function home() {
  return new URL(/\/p\/[0-9A-Za-z]+$/.test(location.pathname) ? '..' : '.', location.href).href;
}

export async function loadConfig() {
  const response = timed(await fetch(`${home()}config.json`));
  if (!response.ok) throw new Error(`config.json: ${response.status}`);
  config = { ...config, ...(await response.json()) };
}

/** @param {Session} opened */
export function useSession(opened) {
  session = opened;
  /** @type {typeof globalThis.fetch} */
  const fetch = async (input, init) => timed(await opened.fetch(input, init));
  api = new Hongbao({ baseUrl: config.api, fetch });
  once = new Hongbao({ baseUrl: config.api, fetch, triesMax: 1 });
}

/** Ends the session, so that the user can sign in again. The service no longer accepts them. */
export function endSession() {
  session?.end();
  session = null;
  dispatchEvent(new Event('hongbao-signin'));
}

/** Packets that were asked for while the modules of their screen were on their way. @type {Map<string, Promise<import('../client/hongbao.js').Packet>>} */
const expected = new Map();

/** @param {string} packetId */
export function expectPacket(packetId) {
  const packet = once.packet(packetId);
  // A failure shows when the packet is taken.
  packet.catch(() => {});
  expected.set(packetId, packet);
}

/** Returns a packet that was asked for, once. @param {string} packetId */
export function takeExpected(packetId) {
  const packet = expected.get(packetId);
  expected.delete(packetId);
  return packet;
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
function decimal(minor) {
  const digits = minorDigits();
  const text = String(Math.abs(minor)).padStart(digits + 1, '0');
  const cut = text.length - digits;
  return (minor < 0 ? '-' : '') + text.slice(0, cut) + (digits ? `.${text.slice(cut)}` : '');
}

/** @param {string | number} at @param {Intl.DateTimeFormatOptions} parts */
function time(at, parts) {
  return new Intl.DateTimeFormat(language(), { hourCycle: 'h23', ...parts }).format(new Date(at));
}

const DAY = /** @type {const} */ ({ year: 'numeric', month: 'short', day: 'numeric' });
const MINUTE = /** @type {const} */ ({ hour: '2-digit', minute: '2-digit' });
const SECOND = /** @type {const} */ ({ ...MINUTE, second: '2-digit' });

/** @param {string} at */
export function moment(at) {
  return time(at, { ...DAY, ...SECOND });
}

/** Returns a time without its seconds. @param {string | number} at @param {Intl.DateTimeFormatOptions} [more] */
export function minute(at, more) {
  return time(at, { ...DAY, ...MINUTE, ...more });
}

/** Returns the time of day, with the date unless that is today. @param {string} at */
export function clock(at) {
  return new Date(at).toDateString() === new Date(serverNow()).toDateString() ? time(at, SECOND) : moment(at);
}

/** @param {string} at */
export function month(at) {
  return time(at, { year: 'numeric', month: 'long' });
}

/** Returns a duration in one unit, such as "18 sec". @param {number} ms */
export function span(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  const [value, unit] = seconds < 120 ? [seconds, 'second'] : seconds < 7_200 ? [Math.round(seconds / 60), 'minute'] : seconds < 172_800 ? [Math.round(seconds / 3_600), 'hour'] : [Math.round(seconds / 86_400), 'day'];
  return new Intl.NumberFormat(language(), { style: 'unit', unit, unitDisplay: 'short' }).format(value);
}

/** @param {string} packetId */
export function shareLink(packetId) {
  return `${home()}${config.links === 'path' ? '' : '#/'}p/${packetId}`;
}
