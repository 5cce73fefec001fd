// One packet: its terms, who has what, what was done when and by whom, and whether all of it is right.

import { money, number, setCurrency } from '../assets/context.js';
import { h } from '../assets/dom.js';
import { check } from '../assets/verify.js';
import { asked, config, path, read, tool } from './calls.js';
import { openDeed } from './deed.js';
import { button, facts, fillIn, heading, isUserId, list, named, part, partOnDemand, principal, referenceLink, sum, t, table, tag, to, trouble, userLink, when, written } from './parts.js';
import { refused } from './user.js';

/** @typedef {import('./calls.js').Row} Row */

/** The most slips that differ which are shown; the command names all. */
const DIFFERENT_MAX = 100;

/**
 * Calls: 2, and 1 with 1 of the tool for a user; 1 for each more page of 50 slips. The proof reads all slips, 100 a call, when somebody asks.
 * @param {HTMLElement} root @param {AbortSignal} signal @param {string[]} parts
 */
export async function packetView(root, signal, [id = '', userId = '']) {
  root.append(heading('packet', id));
  const reading = read(path`/operator/packets/${id}`, signal);
  const top = h('section', { class: 'card panel terms' });
  root.append(
    h('div', { class: 'columns' },
      h('div', null, top, whoPart(id, userId, signal), slips(id, signal)),
      h('div', null, part('packet.times', signal, async () => timeline(await reading)),
        partOnDemand('packet.proof', 'verify.run', signal, async () => proof(id, signal), 'packet.proof.hint'),
        config.tool && partOnDemand('packet.stores', 'packet.compare', signal, () => stores(id, signal), 'packet.stores.hint')),
    ),
  );
  await fillIn(top, signal, async () => {
    const packet = await reading;
    setCurrency(packet['currency']);
    return terms(packet);
  });
}

/** @param {Row} packet */
function terms(packet) {
  const { packet_id, sender_id, status, closing, limit, metadata, recipients } = packet;
  const isOver = ['closed', 'settled', 'expired'].includes(status);
  const left = packet['total_amount'] - packet['claimed_amount'] - packet['refunded_amount'];
  return [
    h('header', null, h('p', { class: 'greeting', dir: 'auto' }, packet['greeting'] || t('send.greeting.default')), tag(status)),
    h('p', { class: 'sum' }, money(packet['total_amount'])),
    h('progress', { max: packet['count'], value: packet['claimed_count'], 'aria-label': t('mine.claimed', { claimed: packet['claimed_count'], total: packet['count'] }) }),
    h('p', { class: 'hint' }, t('packet.money', { claimed: packet['claimed_count'], total: packet['count'], kept: money(packet['claimed_amount']), left: money(left), back: money(packet['refunded_amount']) })),
    closing && h('div', { class: 'alarm', role: 'note' }, h('strong', null, t('packet.closed')), written(closing.reason), h('p', { class: 'hint' }, when(closing.at), ' · ', principal(closing.by))),
    facts(
      ['sender', userLink(sender_id)],
      ['send.split', named('split', packet['split'])],
      ['verify.cap', money(packet['slip_cap'])],
      ['reference', packet['reference'] && referenceLink(packet['reference'], sender_id)],
      ['limit', limit && `${limit.key}: ${[limit.wins && t('limit.times', { count: limit.wins }), limit.amount && money(limit.amount)].filter(Boolean).join(', ')}`],
      ['packet.guard', [packet['has_passphrase'] && t('send.passphrase'), packet['eligibility'] && named('eligibility', packet['eligibility'])].filter(Boolean).join(', ')],
      ['send.recipients', recipients && h('details', null, h('summary', null, number(recipients.length)), ...recipients.flatMap((/** @type {string} */ id) => [userLink(id), ' ']))],
      ['metadata', metadata && h('ul', null, ...Object.entries(metadata).map(([name, value]) => h('li', { dir: 'auto' }, h('bdi', null, name), ': ', h('bdi', null, String(value)))))],
      ['cover', packet['cover']],
    ),
    h('div', { class: 'row deeds' }, !isOver && button('deed.close', () => openDeed('close', { packet_id })), config.tool && button('deed.rebuild', () => openDeed('rebuild', { packet_id }))),
  ];
}

/** @param {Row} packet */
function timeline(packet) {
  const now = packet['now'] ?? new Date().toISOString();
  const { closing } = packet;
  const times = /** @type {[import('./parts.js').Key, string | null, (import('../assets/dom.js').Child)?][]} */ ([
    ['time.sent', packet['created_at'], userLink(packet['sender_id'])],
    ['time.starts', packet['starts_at']],
    ['time.closed', packet['closed_at'], closing && written(closing.reason)],
    ['time.expires', packet['expires_at']],
    ['time.settled', packet['settled_at'], packet['refunded_amount'] > 0 && t('mine.refunded', { amount: money(packet['refunded_amount']) })],
  ]);
  const known = times.filter(([, at]) => at).sort(([, one], [, other]) => (String(one) < String(other) ? -1 : 1));
  return h('ol', { class: 'times' }, ...known.map(([name, at, more]) => h('li', { class: String(at) > now ? 'ahead' : null }, h('strong', null, t(name)), when(at), more)));
}

/** @param {string} id @param {AbortSignal} signal */
function slips(id, signal) {
  return part('packet.slips', signal, () =>
    list(signal, path`/operator/packets/${id}/claims`, { limit: 50, order: 'newest' }, 'claims', ['slip', 'amount', 'user', 'at'], (row) => [
      number(row['slip'] + 1), h('span', null, sum(row['amount']), row['best'] && h('span', { class: 'tag best' }, t('best'))), h('a', { href: to('packet', id, row['user_id']), class: 'id' }, h('bdi', null, row['user_id'])), when(row['grabbed_at']),
    ]),
  );
}

/** "What did this user do here?" @param {string} id @param {string} userId @param {AbortSignal} signal */
function whoPart(id, userId, signal) {
  const input = h('input', { id: 'who', value: userId, placeholder: t('user'), 'aria-label': t('user'), autocomplete: 'off', spellcheck: 'false', maxlength: 128, required: true });
  const body = h('div', { class: 'body' });
  const form = h('form', { class: 'row ask' }, input, h('button', { class: 'button plain', type: 'submit' }, t('packet.who.ask')));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    if (!isUserId(wanted)) return body.replaceChildren(trouble(new Error(t('notFound.user'))));
    history.replaceState(null, '', to('packet', id, wanted));
    void fillIn(body, signal, () => share(id, wanted, signal));
  });
  if (userId) void fillIn(body, signal, () => share(id, userId, signal));
  return h('section', { class: 'card panel packet-who' }, h('header', null, h('h2', null, t('packet.who'))), form, body);
}

/** @param {string} id @param {string} userId @param {AbortSignal} signal */
async function share(id, userId, signal) {
  const [found, log] = await Promise.all([
    read(path`/operator/packets/${id}/users/${userId}`, signal),
    config.tool ? refused(['--user', userId, '--packet', id], signal).catch((error) => trouble(error)) : null,
  ]);
  const values = { user: userId, slip: (found['slip'] ?? 0) + 1, amount: found['amount'] ? money(found['amount']) : '', status: named('status', found['packet_status']) };
  const why = found['state'] === 'none' ? [found['packet_status'] !== 'open' && t('share.none.status', values), ...found['obstacles'].map((/** @type {string} */ name) => named('obstacle', name))].filter(Boolean) : [];
  return [
    h('p', { class: 'verdict', 'data-state': found['state'] }, h('strong', null, t(/** @type {import('./parts.js').Key} */ (`share.${found['state']}`), values) || found['state'])),
    found['at'] && h('p', { class: 'hint' }, when(found['at']), found['by'] && ' · ', principal(found['by'])),
    why.length > 0 && h('ul', { class: 'why' }, ...why.map((text) => h('li', null, text))),
    found['state'] === 'none' && why.length === 0 && h('p', null, t('share.none.free')),
    log && h('div', null, h('h3', null, t('share.log')), log),
    h('p', null, userLink(userId)),
  ];
}

/** @param {string} id @param {AbortSignal} signal */
async function proof(id, signal) {
  const result = h('div', { class: 'verdict' });
  const source = {
    packet: () => /** @type {Promise<any>} */ (read(path`/operator/packets/${id}`, signal)),
    async *allClaims() {
      for (let cursor = ''; ; ) {
        const page = await read(asked(path`/operator/packets/${id}/claims`, { limit: 100, cursor }), signal);
        yield* page['claims'];
        if (!page['next_cursor']) return;
        cursor = page['next_cursor'];
      }
    },
  };
  await check(result, signal, id, source);
  return result;
}

/** @param {string} id @param {AbortSignal} signal */
async function stores(id, signal) {
  const { output } = await tool(['packet', id, '--json'], { signal });
  if (typeof output !== 'object') throw new Error(String(output));
  const different = /** @type {Row[]} */ (output.slips).filter(({ difference }) => difference);
  const { differences, imbalances } = output;
  return [
    h('p', { class: differences + imbalances.length > 0 ? 'bad' : 'fine' }, differences + imbalances.length > 0 ? t('packet.differ', { count: differences }) : t('packet.same')),
    ...imbalances.map((/** @type {unknown} */ one) => h('p', { class: 'bad' }, typeof one === 'string' ? one : JSON.stringify(one))),
    different.length > 0 && table(['slip', 'ledger', 'hot', 'what'], different.slice(0, DIFFERENT_MAX).map((row) => [String(row['slip'] + 1), row['ledger'], row['redis'], row['difference']])).element,
  ];
}
