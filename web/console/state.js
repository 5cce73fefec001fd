// The state of the deployment: what is paused, what waits, what is wrong.

import { money, span } from '../assets/context.js';
import { h } from '../assets/dom.js';
import { config, read, tool } from './calls.js';
import { openDeed } from './deed.js';
import { button, facts, fillIn, list, named, packetLink, part, partOnDemand, principal, signedAt, t, table, tag, userLink, when, written } from './parts.js';
import { PACKET_COLUMNS, packetCells } from './user.js';
import { withdrawalCells } from './withdrawals.js';

/** @typedef {import('./calls.js').Row} Row */

/** From when on the deployment's alarms `OutboxAge` and `RefundsLate` cry: the latter counts from the grace after an expiry on. */
const LATE = { hold_s: 120, due_s: 900 };

/** Calls: 6 at once, and 3 of the tool; an audit and the queue of webhooks when somebody asks. @param {HTMLElement} root @param {AbortSignal} signal */
export function stateView(root, signal) {
  root.append(
    h('h1', null, t('nav.state')),
    h('div', { class: 'columns' },
      h('div', null,
        part('state.sending', signal, () => sending(signal)),
        part('state.oldest', signal, () => list(signal, '/operator/withdrawals', { state: 'pending', limit: 1 }, 'withdrawals', ['at', 'amount', 'withdrawal', 'state'], (row) => withdrawalCells(row, true), 'withdrawals.none')),
        part('state.open', signal, () => list(signal, '/operator/packets', { status: 'open', limit: 10 }, 'packets', PACKET_COLUMNS, packetCells)),
        config.tool && part('state.backlog', signal, () => backlog(signal)),
        config.tool && partOnDemand('state.audit', 'state.audit.run', signal, () => audit(signal), 'state.audit.hint'),
      ),
      h('div', null,
        part('state.webhooks', signal, () => webhooks(signal)),
        part('state.suspended', signal, () => users('suspended', signal)),
        part('state.limited', signal, () => users('limited', signal)),
        config.tool && part('state.parked', signal, () => parked(signal)),
      ),
    ),
  );
}

/** @param {AbortSignal} signal */
async function sending(signal) {
  const [{ paused, reason, decided_at, by }, history] = await Promise.all([read('/operator/sending', signal), config.tool ? tool(['sending', '--json'], { signal }).catch(() => null) : null]);
  const rows = Array.isArray(history?.output) ? /** @type {Row[]} */ (history.output) : [];
  return [
    h('p', { class: paused ? 'alarm' : 'fine' }, h('strong', null, t(paused ? 'sending.paused' : 'sending.on')), ' ', written(reason)),
    decided_at && h('p', { class: 'hint' }, when(decided_at), ' · ', principal(by)),
    h('div', { class: 'row deeds' }, paused ? button('deed.resume', () => openDeed('resume', {}, { paused: false }), '') : button('deed.pause', () => openDeed('pause', {}, { paused: true }))),
    rows.length > 1 && h('details', { class: 'more' }, h('summary', null, t('sending.history')), table(['at', 'deed', 'reason'], rows.map((row) => [signedAt(row['at'], row['by']), named('deed', row['paused'] ? 'pause' : 'resume'), written(row['reason'])])).element),
  ];
}

/** @param {AbortSignal} signal */
async function webhooks(signal) {
  const receiver = await read('/operator/webhooks', signal);
  const isDisabled = receiver['status'] === 'disabled';
  const queue = h('div');
  const ask = async () => {
    const { output } = await tool(['webhooks', '--json'], { signal });
    return typeof output === 'string' ? h('p', { class: 'trouble' }, output) : h('pre', { class: 'output', tabindex: '0' }, JSON.stringify(output, null, 2));
  };
  return [
    h('p', { class: receiver['status'] === 'well' ? 'fine' : 'alarm' }, h('strong', null, named('webhooks', receiver['status'])), ' ', when(receiver['since'])),
    facts(['webhooks.answer', receiver['last_answer'] && h('bdi', null, receiver['last_answer'])], ['at', when(receiver['last_answer_at'])], ['webhooks.off', when(receiver['put_off_until'])], ['webhooks.oldest', when(receiver['oldest_waiting_at'])]),
    h('div', { class: 'row deeds' },
      isDisabled ? button('deed.enable-webhooks', () => openDeed('enable-webhooks', {}, { enabled: true }), '') : button('deed.disable-webhooks', () => openDeed('disable-webhooks', {}, { enabled: false })),
      config.tool && button('webhooks.queue', () => void fillIn(queue, signal, ask)), config.tool && button('deed.redeliver', () => openDeed('redeliver', {}))),
    queue,
  ];
}

/** @param {'suspended' | 'limited'} state @param {AbortSignal} signal */
function users(state, signal) {
  return list(signal, '/operator/users', { state, limit: 10 }, 'users', ['user', state === 'suspended' ? 'reason' : 'limits', 'at'], ({ user_id, suspension, limits }) => {
    const max = [limits?.daily_sent_max && t('limits.day', { amount: money(limits.daily_sent_max) }), limits?.deposit_max && t('limits.deposit', { amount: money(limits.deposit_max) })].filter(Boolean).join(' · ');
    return state === 'suspended'
      ? [userLink(user_id), written(suspension?.reason), signedAt(suspension?.suspended_at, suspension?.by)]
      : [userLink(user_id), max, signedAt(limits?.set_at, limits?.by)];
  });
}

/** @param {AbortSignal} signal */
async function parked(signal) {
  const { output } = await tool(['parked', '--json'], { signal });
  if (!Array.isArray(output)) throw new Error(String(output));
  if (output.length === 0) return h('p', { class: 'fine' }, t('parked.none'));
  return table(['at', 'packet', 'user', 'why'], /** @type {Row[]} */ (output).map(({ packet_id, slip, user_id, held_since, reason }) => [
    when(held_since),
    h('div', { class: 'about' }, packetLink(packet_id), h('span', { class: 'hint' }, t('parked.slip', { slip: slip + 1 }))),
    userLink(user_id),
    h('div', { class: 'about' }, reason, button('deed.replay', () => openDeed('replay', { packet_id, slip }))),
  ])).element;
}

/** What waits for settle, and whether it is late, as the alarms say. @param {AbortSignal} signal */
async function backlog(signal) {
  const { output } = await tool(['backlog', '--json'], { signal });
  if (typeof output !== 'object') throw new Error(String(output));
  const { holds, oldest_hold_s, due, oldest_due_s } = output;
  const isLate = oldest_hold_s > LATE.hold_s || oldest_due_s > LATE.due_s;
  const since = (/** @type {number} */ count, /** @type {number | null} */ seconds) => [String(count), seconds !== null && h('span', { class: 'hint' }, ' · ', t('age.is', { time: span(seconds * 1_000) }))];
  return [
    h('p', { class: isLate ? 'alarm' : 'fine' }, h('strong', null, t(isLate ? 'backlog.late' : 'backlog.none'))),
    facts(['backlog.holds', since(holds, oldest_hold_s)], ['backlog.due', since(due, oldest_due_s)]),
  ];
}

/** @param {AbortSignal} signal */
async function audit(signal) {
  const { output } = await tool(['audit', '--since', '24h', '--json'], { signal });
  if (typeof output !== 'object') throw new Error(String(output));
  const wrong = [...output.imbalances, ...output.unjudged];
  return [
    h('p', { class: wrong.length > 0 ? 'bad' : 'fine' }, h('strong', null, t(wrong.length > 0 ? 'audit.wrong' : 'audit.right', { count: wrong.length }))),
    facts(['audit.packets', String(output.packets)], ['audit.deposited', money(output.deposited)], ['audit.withdrawn', money(output.withdrawn)], ['audit.wallets', money(output.in_wallets)], ['audit.pending', money(output.in_pending)], ['audit.slips', money(output.in_slips)]),
    wrong.length > 0 && h('pre', { class: 'output', tabindex: '0' }, JSON.stringify(wrong, null, 2)),
  ];
}
