// The rounds of a reference with their sums, the file for finance, and the end of all of them.

import { minute, money, number } from '../assets/context.js';
import { h, sleep } from '../assets/dom.js';
import { asked, path, read, readFile } from './calls.js';
import { openDeed } from './deed.js';
import { button, facts, fillIn, heading, packetLink, sum, t, table, tag, to, trouble, userLink } from './parts.js';

/** @typedef {import('./calls.js').Row} Row */

/** How often the sums are read again while a round is open. */
const AGAIN_MS = 5_000;

/** Calls: 2; while a round is open, 1 each 5 seconds. @param {HTMLElement} root @param {AbortSignal} signal @param {string[]} parts */
export function eveningView(root, signal, [reference = '', chosen = '']) {
  const body = h('div', { class: 'body' });
  root.append(heading('reference', reference), body);
  return fillIn(body, signal, () => evening(reference, chosen, signal));
}

/** @param {string} reference @param {string} chosen @param {AbortSignal} signal */
async function evening(reference, chosen, signal) {
  // Several senders may have the same reference; those of the newest packets are offered.
  const { packets } = await read(asked('/operator/packets', { reference, limit: 100 }), signal);
  const senders = [...new Set(packets.map((/** @type {Row} */ packet) => packet['sender_id']))];
  const sender = chosen || senders[0];
  if (!sender) return h('section', { class: 'card panel' }, h('p', { class: 'hint' }, t('evening.none')));
  const others = senders.filter((id) => id !== sender).map((id) => h('a', { href: to('evening', reference, id) }, h('bdi', null, id)));
  const totals = h('section', { class: 'card panel sums' });
  const rounds = h('section', { class: 'card panel' });
  const failed = h('div');
  /** @type {() => Promise<void>} */
  const again = async () => {
    const all = await read(asked(path`/operator/references/${reference}`, { sender_id: sender }), signal);
    totals.replaceChildren(
      h('p', { class: 'sum' }, money(all['total_amount'])),
      facts(['evening.won', t('evening.won.by', { amount: money(all['won_amount']), slips: all['won_count'], count: all['users'] })], ['evening.open', money(all['undecided_amount'])], ['evening.back', money(all['refunded_amount'])]),
    );
    rounds.replaceChildren(h('header', null, h('h2', null, t('evening.rounds', { count: all['packets'].length }))), roundsOf(all['packets']));
    if (all['packets'].some((/** @type {Row} */ { status }) => status !== 'settled')) later();
  };
  // Nobody reads a hidden page. A read that fails is tried again.
  const later = () => void sleep(AGAIN_MS, signal).then(() => signal.aborted || (document.hidden ? later() : again().catch(() => signal.aborted || later())));
  await again();
  return [
    h('p', { class: 'row lead' }, t('sender'), ' ', userLink(sender), others.length > 0 && h('span', null, t('evening.others'), ' ', ...others.flatMap((link) => [link, ' ']))),
    totals,
    h('div', { class: 'row deeds' }, button('evening.file', () => void save(reference, sender, failed)), button('deed.close-reference', () => openDeed('close-reference', { reference, sender_id: sender }))),
    failed,
    rounds,
  ];
}

/** @param {Row[]} packets */
function roundsOf(packets) {
  return table(['starts', 'packet', 'amount', 'evening.won', 'state'], packets.map((packet) => [
    h('time', { datetime: packet['starts_at'] ?? packet['created_at'] }, minute(packet['starts_at'] ?? packet['created_at'])),
    h('div', { class: 'about' }, packetLink(packet['packet_id']), packet['metadata'] && h('bdi', { class: 'hint' }, Object.entries(packet['metadata']).map(([name, value]) => `${name}: ${value}`).join(', '))),
    sum(packet['total_amount']),
    h('div', { class: 'about' }, sum(packet['won_amount']), h('span', { class: 'hint' }, `${number(packet['won_count'])}/${number(packet['count'])}`)),
    tag(packet['status']),
  ])).element;
}

/** @param {string} reference @param {string} sender @param {HTMLElement} failed */
async function save(reference, sender, failed) {
  failed.replaceChildren();
  try {
    const { name, blob } = await readFile(asked('/operator/claims', { sender_id: sender, reference }), 'text/csv');
    const link = h('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    failed.replaceChildren(trouble(error));
  }
}
