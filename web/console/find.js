// The search box looks for everything that a text may be. It says where it looked and what it found; a single hit opens.

import { currency, minorDigits, money, moment } from '../assets/context.js';
import { h, say } from '../assets/dom.js';
import { readAmount } from '../assets/input.js';
import { asked, config, path, read, tool } from './calls.js';
import { IS_KEY, IS_PACKET, IS_REFERENCE, boundsOf, isUserId, named, t, to, trouble } from './parts.js';

/** @typedef {import('./calls.js').Row} Row */
/** @typedef {{href: string | null, text: string}} Hit A line of the log may lead nowhere. */
/** @typedef {{what: string, look: (signal: AbortSignal) => Promise<Hit[]>}} Look */

/** Movements of one user on a day that are compared with an amount: so many pages of 100. */
const PAGES_MAX = 5;

/** Calls: none. @param {HTMLElement} root */
export function home(root) {
  const examples = /** @type {const} */ (['user', 'packet', 'reference', 'movement', 'request', 'amount']);
  root.append(
    h('h1', null, t('find.title')),
    h('p', { class: 'lead' }, t('find.lead')),
    h('dl', { class: 'facts card' }, ...examples.flatMap((name) => [h('dt', null, t(`find.${name}`)), h('dd', null, h('code', null, t(`find.${name}.example`)))])),
    h('p', { class: 'hint keys' }, t('find.keys')),
  );
}

/**
 * Calls: a user 3, a packet 1, a reference 1, a movement 1, the log 1 through the tool, all at once; an amount 1 to 5.
 * @param {HTMLElement} root @param {AbortSignal} signal @param {string[]} parts
 */
export async function findView(root, signal, [text = '']) {
  const looks = looksFor(text.trim());
  const rows = h('ol', { class: 'looks card' });
  root.append(h('h1', null, t('find.for', { text })), rows);
  if (looks.length === 0) rows.append(h('li', null, t('find.unknown')));
  const found = await Promise.all(
    looks.map(async ({ what, look }) => {
      const result = h('span', { class: 'hint' }, t('find.looking'));
      rows.append(h('li', null, h('span', { class: 'what' }, named('find.in', what)), result));
      try {
        const hits = await look(signal);
        result.replaceWith(hits.length === 0 ? h('span', { class: 'hint' }, t('find.nothing')) : h('ul', null, ...hits.map(({ href, text: shown }) => h('li', null, href ? h('a', { href }, h('bdi', null, shown)) : h('bdi', null, shown)))));
        return hits;
      } catch (error) {
        if (!signal.aborted) result.replaceWith(trouble(error));
        return null;
      }
    }),
  );
  if (signal.aborted) return;
  const hits = found.flatMap((some) => some ?? []);
  say(t('find.count', { count: hits.length }));
  // What could not be looked for may be what is meant; only a log is often not there. A line of the log is itself the answer.
  const isSure = looks.every(({ what }, i) => (what === 'request' ? !found[i]?.length : found[i] !== null));
  // The search itself leaves no place in the history, or the way back would lead forward again.
  if (hits.length === 1 && hits[0]?.href && isSure) location.replace(hits[0].href);
}

/** @param {string} text @returns {Look[]} */
function looksFor(text) {
  const day = /(?<!\S)\d{4}-\d\d-\d\d(?!\S)/.exec(text)?.[0];
  if (day) return amountLooks(text.replace(day, ' ').trim().split(/\s+/), day);
  const packetId = /([0-7][0-9A-HJKMNP-TV-Z]{25})(?:[/?#]|$)/i.exec(text)?.[1]?.toUpperCase();
  /** @type {Look[]} */
  const looks = [];
  if (packetId && IS_PACKET.test(packetId)) looks.push({ what: 'packet', look: (signal) => packet(packetId, signal) });
  if (packetId && text.includes('/')) return looks;
  if (isUserId(text)) looks.push({ what: 'user', look: (signal) => user(text, signal) });
  if (IS_REFERENCE.test(text)) looks.push({ what: 'reference', look: (signal) => reference(text, signal) });
  if (IS_KEY.test(text)) looks.push({ what: 'movement', look: (signal) => movement(text, signal) });
  if (config.log && /^[\w=-]{8,64}$/.test(text) && !packetId) looks.push({ what: 'request', look: (signal) => request(text, signal) });
  return looks;
}

/** @param {string} id @param {AbortSignal} signal */
async function packet(id, signal) {
  const found = await orNull(read(path`/operator/packets/${id}`, signal));
  return found ? [{ href: to('packet', id), text: `${id} · ${found['greeting'] || money(found['total_amount'])}` }] : [];
}

/** A wallet answers for every name, so a user is somebody of whom there is a trace. @param {string} id @param {AbortSignal} signal */
async function user(id, signal) {
  const [wallet, { movements }, { deeds }] = await Promise.all([
    read(path`/wallets/${id}`, signal),
    read(path`/wallets/${id}/movements` + '?limit=1', signal),
    read(asked('/operator/deeds', { user_id: id, limit: 1 }), signal).catch(() => ({ deeds: [] })),
  ]);
  const isKnown = movements.length > 0 || deeds.length > 0 || wallet['suspension'];
  return isKnown ? [{ href: to('user', id), text: `${id} · ${money(wallet['balance'])}` }] : [];
}

/** @param {string} id @param {AbortSignal} signal */
async function reference(id, signal) {
  const { packets } = await read(asked('/operator/packets', { reference: id, limit: 1 }), signal);
  return packets.length > 0 ? [{ href: to('evening', id), text: `${id} · ${packets[0].sender_id}` }] : [];
}

/** @param {string} id @param {AbortSignal} signal */
async function movement(id, signal) {
  const { movements } = await read(asked('/operator/movements', { id }), signal);
  return movements.map((/** @type {Row} */ row) => ({ href: to('user', row['user_id']), text: `${named('find', row['kind'])} · ${row['user_id']}` }));
}

/** @param {string} id @param {AbortSignal} signal */
async function request(id, signal) {
  const { output } = await tool(['story', '--request', id, '--json'], { signal });
  if (!Array.isArray(output)) throw new Error(String(output));
  const rows = /** @type {Row[]} */ (output);
  return rows.map(({ what, why, at, packet_id }) => ({ href: packet_id ? to('packet', packet_id) : null, text: [moment(at), what, why].filter(Boolean).join(' · ') }));
}

/** @param {string[]} words @param {string} day @returns {Look[]} */
function amountLooks(words, day) {
  const amounts = words.map((word) => readAmount(word, minorDigits(), currency));
  const at = amounts.findLastIndex((reading) => 'minor' in reading);
  const reading = amounts[at];
  const [name, ...more] = words.filter((_, i) => i !== at);
  if (!reading || !('minor' in reading) || more.length > 0 || Number.isNaN(Date.parse(day))) return [];
  const bounds = boundsOf(day);
  if (name) return isUserId(name) ? [{ what: 'amount', look: (signal) => moved(name, reading.minor, bounds, signal) }] : [];
  const isThen = (/** @type {string} */ time) => time >= bounds.from && time < bounds.to;
  return [
    {
      what: 'pending',
      look: async (signal) => {
        const { withdrawals } = await read(asked('/operator/withdrawals', { before: bounds.to, limit: 100 }), signal);
        const hits = withdrawals.filter((/** @type {Row} */ row) => row['amount'] === reading.minor && isThen(row['at']));
        return hits.map((/** @type {Row} */ row) => ({ href: to('user', row['user_id']), text: `${row['withdrawal_id']} · ${row['user_id']}` }));
      },
    },
    {
      what: 'open',
      look: async (signal) => {
        const { packets } = await read(asked('/operator/packets', { status: 'open', limit: 100 }), signal);
        const hits = packets.filter((/** @type {Row} */ row) => row['total_amount'] === reading.minor && isThen(row['created_at']));
        return hits.map((/** @type {Row} */ row) => ({ href: to('packet', row['packet_id']), text: `${row['packet_id']} · ${row['sender_id']}` }));
      },
    },
  ];
}

/** @param {string} name @param {number} minor @param {{from: string, to: string}} bounds @param {AbortSignal} signal */
async function moved(name, minor, bounds, signal) {
  /** @type {Hit[]} */
  const hits = [];
  let cursor = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    /** @type {Row} */
    const answer = await read(asked(path`/wallets/${name}/movements`, { ...bounds, limit: 100, cursor }), signal);
    for (const row of answer['movements']) {
      if (Math.abs(row.amount) !== minor) continue;
      hits.push({ href: row.packet_id ? to('packet', row.packet_id, name) : to('user', name), text: `${moment(row.at)} · ${named('kind', row.kind)} · ${money(row.amount)}${row.greeting ? ` · ${row.greeting}` : ''}` });
    }
    cursor = answer['next_cursor'];
    if (!cursor) break;
  }
  return hits;
}

/** @template T @param {Promise<T>} asking @returns {Promise<T | null>} null if there is none */
const orNull = (asking) =>
  asking.catch((error) => {
    if (error.status === 404) return null;
    throw error;
  });
