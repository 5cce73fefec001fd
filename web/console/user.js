// One user: what they have, what moved and why, what the operator decided about them.

import { money } from '../assets/context.js';
import { h } from '../assets/dom.js';
import { asked, config, path, read, tool } from './calls.js';
import { openDeed } from './deed.js';
import { deedsOf } from './deeds.js';
import { boundsOf, button, daysAgo, facts, fillIn, heading, list, named, packetLink, part, principal, signed, sum, t, table, tag, to, userLink, when, written } from './parts.js';
import { withdrawalCells } from './withdrawals.js';

/** @typedef {import('./calls.js').Row} Row */

/** The log is read for so many days, and so many refusals are shown. */
const REFUSED_DAYS = 3;
const REFUSED_MAX = 20;
const STATUSES = ['scheduled', 'open', 'sold_out', 'expired', 'closed', 'settled'];

/** Calls: 8 at once, each of at most 20 rows, and 1 of the tool; 1 for each more page. @param {HTMLElement} root @param {AbortSignal} signal @param {string[]} parts */
export function userView(root, signal, [id = '']) {
  const about = { user_id: id };
  const query = { limit: 20 };
  // The greetings of packets that they sent are not in their movements.
  const sent = read(asked(path`/users/${id}/packets`, query), signal);
  sent.catch(() => {});
  root.append(
    heading('user', id),
    h('div', { class: 'columns' },
      h('div', null, wallet(about, signal), movements(id, sent, signal), packets(id, sent, signal), part('user.won', signal, () => won(id, signal))),
      h('div', null,
        part('user.withdrawals', signal, () => withdrawals(id, signal)),
        part('user.deeds', signal, () => deedsOf(signal, id)),
        part('user.keys', signal, () => keys(id, signal)),
        config.tool && part('user.refused', signal, () => refused(['--user', id, '--from', daysAgo(REFUSED_DAYS)], signal)),
      ),
    ),
  );
}

/** @param {{user_id: string}} about @param {AbortSignal} signal */
function wallet(about, signal) {
  return part('user.wallet', signal, async () => {
    const id = about.user_id;
    const [{ balance, pending, suspension }, limits] = await Promise.all([read(path`/wallets/${id}`, signal), read(path`/operator/users/${id}/limits`, signal).catch(() => null)]);
    const max = (/** @type {number | null} */ amount) => (amount ? money(amount) : t('limits.everybody'));
    const state = suspension
      ? h('div', { class: 'alarm', role: 'note' }, h('strong', null, t(suspension.grabs ? 'user.suspended.grabs' : 'user.suspended')), written(suspension.reason), h('p', { class: 'hint' }, when(suspension.suspended_at), ' · ', principal(suspension.by)))
      : h('p', { class: 'fine' }, t('user.active'));
    return [
      h('p', { class: 'sum' }, money(balance)),
      pending > 0 && h('p', { class: 'hint' }, t('mine.pending', { amount: money(pending) })),
      state,
      limits && facts(['field.daily_sent_max', max(limits['daily_sent_max'])], ['field.deposit_max', max(limits['deposit_max'])], ['limits.set', limits['set_at'] && [when(limits['set_at']), ' · ', principal(limits['by'])]]),
      h('div', { class: 'row deeds' },
        suspension ? button('deed.lift', () => openDeed('lift', about), '') : button('deed.suspend', () => openDeed('suspend', about)),
        button('deed.limit', () => openDeed('limit', about, {}, limits ?? {})), button('deed.deposit', () => openDeed('deposit', about)), button('deed.withdraw', () => openDeed('withdraw', about)),
      ),
    ];
  });
}

/** @param {string} id @param {Promise<Row>} sent @param {AbortSignal} signal */
function movements(id, sent, signal) {
  const day = h('input', { type: 'date', class: 'choice', 'aria-label': t('user.day') });
  const load = async () => {
    const packets = new Map((await sent.catch(() => ({ packets: [] })))['packets'].map((/** @type {Row} */ packet) => [packet['packet_id'], packet]));
    const query = { limit: 20, ...(day.value && boundsOf(day.value)) };
    return list(signal, path`/wallets/${id}/movements`, query, 'movements', ['at', 'amount', 'what', 'side'], (row) => {
      const packet = packets.get(row['packet_id']);
      const greeting = row['greeting'] ?? packet?.['greeting'];
      const what = h('div', { class: 'about' },
        row['packet_id'] ? h('a', { href: to('packet', row['packet_id'], id) }, named('kind', row['kind'])) : h('span', null, named('kind', row['kind'])),
        row['status'] && tag(row['status'], 'withdrawal'), written(greeting), written(row['note']), written(row['void_reason']), !row['packet_id'] && h('code', null, row['id']));
      const others = row['sender_id'] ? userLink(row['sender_id']) : packet ? t('mine.claimed', { claimed: packet['claimed_count'], total: packet['count'] }) : principal(row['by']);
      return [when(row['at']), signed(row['amount']), what, others];
    });
  };
  return filtered('user.movements', signal, load, day);
}

export const PACKET_COLUMNS = /** @type {import('./parts.js').Key[]} */ (['at', 'amount', 'packet', 'state']);
/** @param {Row} packet */
export const packetCells = (packet) => [
  when(packet['created_at']),
  sum(packet['total_amount']),
  h('div', { class: 'about' }, packetLink(packet['packet_id'], packet['greeting'] || packet['packet_id']), packet['reference'] && h('a', { href: to('evening', packet['reference'], packet['sender_id']), class: 'hint' }, packet['reference'])),
  h('div', { class: 'about' }, tag(packet['status']), h('span', { class: 'hint' }, t('mine.claimed', { claimed: packet['claimed_count'], total: packet['count'] }))),
];

/** @param {string} id @param {Promise<Row>} sent @param {AbortSignal} signal */
function packets(id, sent, signal) {
  const day = h('input', { type: 'date', class: 'choice', 'aria-label': t('user.day') });
  const status = h('select', { class: 'choice', 'aria-label': t('state') }, h('option', { value: '' }, t('any')), ...STATUSES.map((name) => h('option', { value: name }, named('status', name))));
  const load = () => {
    const filter = { ...(day.value && boundsOf(day.value)), status: status.value };
    return day.value || status.value ? list(signal, '/operator/packets', { sender_id: id, ...filter, limit: 20 }, 'packets', PACKET_COLUMNS, packetCells) : list(signal, path`/users/${id}/packets`, { limit: 20 }, 'packets', PACKET_COLUMNS, packetCells, 'none', sent);
  };
  return filtered('user.sent', signal, load, day, status);
}

/** A part that is read again for each choice. @param {import('./parts.js').Key} title @param {AbortSignal} signal @param {() => Promise<import('../assets/dom.js').Child>} load @param {...HTMLElement} choices */
function filtered(title, signal, load, ...choices) {
  const shown = part(title, signal, load, h('div', { class: 'row' }, ...choices));
  shown.addEventListener('change', () => void fillIn(/** @type {HTMLElement} */ (shown.querySelector('.body')), signal, load));
  return shown;
}

/** @param {string} id @param {AbortSignal} signal */
function won(id, signal) {
  return list(signal, path`/users/${id}/claims`, { limit: 20 }, 'claims', ['at', 'amount', 'packet', 'sender'], (row) => [
    when(row['grabbed_at']), sum(row['amount']), h('a', { href: to('packet', row['packet_id'], id) }, h('bdi', null, row['greeting'] || row['packet_id'])), userLink(row['sender_id']),
  ]);
}

/** @param {string} id @param {AbortSignal} signal */
function keys(id, signal) {
  return list(signal, path`/operator/users/${id}/wins`, { limit: 20 }, 'wins', ['limit.key', 'sender', 'limit.wins', 'amount'], (row) => [h('code', null, row['limit_key']), userLink(row['sender_id']), String(row['wins']), sum(row['amount'])], 'user.keys.none');
}

/** @param {string} id @param {AbortSignal} signal */
function withdrawals(id, signal) {
  return list(signal, '/operator/withdrawals', { user_id: id, limit: 10 }, 'withdrawals', ['at', 'amount', 'withdrawal', 'state'], (row) => withdrawalCells(row, false));
}

/** What the log has of requests that were refused or came to nothing, the newest first. @param {string[]} which @param {AbortSignal} signal */
export async function refused(which, signal) {
  if (!config.log) return h('p', { class: 'hint' }, t('refused.nolog'));
  const { output } = await tool(['story', '--refused', ...which, '--json'], { signal });
  if (!Array.isArray(output)) throw new Error(String(output));
  const rows = /** @type {Row[]} */ (output);
  if (rows.length === 0) return h('p', { class: 'hint' }, t('refused.none'));
  const shown = rows.reverse().slice(0, REFUSED_MAX).map(({ at, what, why, packet_id, id }) => [
    h('div', { class: 'about' }, when(at), h('code', { class: 'by' }, id)), h('div', { class: 'about' }, h('strong', null, what.replace('answered: ', '')), packet_id && packetLink(packet_id)), why?.startsWith('by ') ? principal(why.slice(3)) : why,
  ]);
  return table(['at', 'what', 'why'], shown).element;
}
