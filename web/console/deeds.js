// The deeds of the operator: who, when, why, and what before and after.

import { money } from '../assets/context.js';
import { h } from '../assets/dom.js';
import { list, named, packetLink, part, referenceLink, signedAt, t, userLink, written } from './parts.js';

/** @typedef {import('./calls.js').Row} Row */

/** Calls: 1, and 1 for each more page. @param {HTMLElement} root @param {AbortSignal} signal */
export function deedsView(root, signal) {
  root.append(h('h1', null, t('nav.deeds')), part('deeds.all', signal, () => deedsOf(signal)));
}

/** @param {AbortSignal} signal @param {string} [userId] only those about this user */
export function deedsOf(signal, userId) {
  return list(signal, '/operator/deeds', { user_id: userId, limit: userId ? 10 : 50 }, 'deeds', ['at', 'deed', 'reason'], (deed) => cellsOf(deed, userId), 'deeds.none');
}

/** @param {Row} deed @param {string} [known] the user whom all of these are about */
function cellsOf({ at, deed, user_id, packet_id, reference, id, reason, before, after, by }, known) {
  const about = [packet_id ? packetLink(packet_id) : reference && referenceLink(reference, user_id), user_id && user_id !== known && userLink(user_id), id && h('code', null, id)];
  return [signedAt(at, by), h('div', { class: 'about' }, h('strong', null, named('deed', deed)), ...about.filter(Boolean), change(deed, before, after, reason)), written(reason)];
}

/** One line about a deed. @param {Row} deed */
export const deedLine = (deed) => h('div', { class: 'line' }, ...cellsOf(deed));

/** What a value of a deed's `before` or `after` looks like. @param {string} name @param {unknown} value */
function shown(name, value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'boolean') return t(value ? 'yes' : 'no');
  return typeof value === 'number' && /amount|max|balance|pending/.test(name) ? money(value) : String(value);
}

/** Decisions. Other deeds don't show what they changed. */
const DECISIONS = ['suspend', 'lift', 'limit', 'pause', 'resume'];

/** @param {string} deed @param {Row | null} before @param {Row | null} after @param {string | null} reason which is shown beside */
function change(deed, before, after, reason) {
  if (DECISIONS.includes(deed) && JSON.stringify(before) === JSON.stringify(after)) return h('span', { class: 'hint' }, t('deeds.same'));
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const rows = names.filter((name) => shown(name, before?.[name]) !== shown(name, after?.[name]) && !(name === 'reason' && after?.[name] === reason));
  return rows.length > 0 && h('ul', { class: 'change' }, ...rows.map((name) => h('li', null, `${named('field', name)}: `, ...(before ? [h('bdi', null, shown(name, before[name])), ' → '] : []), h('bdi', null, shown(name, after?.[name])))));
}
