// Withdrawals, the oldest first: who waits for their money, and its end.

import { money, span } from '../assets/context.js';
import { serverNow } from '../assets/browser.js';
import { h } from '../assets/dom.js';
import { asked } from './calls.js';
import { openDeed } from './deed.js';
import { button, isUserId, list, named, part, principal, t, tag, userLink, when, written } from './parts.js';

/** @typedef {import('./calls.js').Row} Row */

const STATES = ['pending', 'posted', 'voided'];
/** Ages to choose from, in hours. */
const AGES = ['1', '24', '72'];

/** Calls: 1, and 1 for each more page. @param {HTMLElement} root @param {AbortSignal} signal @param {string[]} _ @param {URLSearchParams} query */
export function withdrawalsView(root, signal, _, query) {
  const state = STATES.find((known) => known === query.get('state')) ?? 'pending';
  const age = AGES.find((known) => known === query.get('age')) ?? '';
  const user = isUserId(query.get('user') ?? '') ? (query.get('user') ?? '') : '';
  const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {string} */ chosen) =>
    h('label', { class: 'field' }, h('span', { class: 'hint' }, label), h('select', { name, class: 'choice' }, ...options.map(([value, text]) => h('option', { value, selected: value === chosen }, text))));
  const form = h('form', { class: 'card row filters' },
    select('state', t('state'), STATES.map((name) => [name, named('withdrawal', name)]), state),
    select('age', t('age'), [['', t('age.any')], ...AGES.map((hours) => /** @type {[string, string]} */ ([hours, t('age.over', { time: span(Number(hours) * 3_600_000) })]))], age),
    h('label', { class: 'field' }, h('span', { class: 'hint' }, t('user')), h('input', { name: 'user', value: user, class: 'choice', autocomplete: 'off', spellcheck: 'false', maxlength: 128 })),
    h('button', { class: 'button plain', type: 'submit' }, t('show')),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = new FormData(form);
    location.hash = asked('/withdrawals', { state: String(values.get('state')), age: String(values.get('age')), user: String(values.get('user')).trim() });
  });
  form.addEventListener('change', (event) => event.target instanceof HTMLSelectElement && form.requestSubmit());
  const before = age ? new Date(serverNow() - Number(age) * 3_600_000).toISOString() : '';
  root.append(
    h('h1', null, t('nav.withdrawals')),
    form,
    state !== 'pending' && !user
      ? h('section', { class: 'card panel' }, h('p', { class: 'hint' }, t('withdrawals.user')))
      : part('withdrawals.list', signal, () => list(signal, '/operator/withdrawals', { state, user_id: user, before, limit: 50 }, 'withdrawals', ['at', 'amount', 'withdrawal', 'state'], (row) => withdrawalCells(row, true), 'withdrawals.none')),
  );
}

/** @param {Row} row @param {boolean} isOfAll whether the list has other users' too */
export function withdrawalCells(row, isOfAll) {
  const { user_id, withdrawal_id, amount, status, at } = row;
  const about = { user_id, withdrawal_id };
  const isPending = status === 'pending';
  return [
    h('div', { class: 'about' }, when(at), isPending && h('span', { class: 'hint' }, t('age.is', { time: span(serverNow() - Date.parse(at)) }))),
    h('div', { class: 'about' }, h('strong', null, money(amount)), status === 'posted' && row['posted_amount'] !== amount && h('span', { class: 'hint' }, t('withdrawals.posted', { amount: money(row['posted_amount']) }))),
    h('div', { class: 'about' }, isOfAll && userLink(user_id), h('code', null, withdrawal_id), written(row['note']), written(row['void_reason'])),
    isPending
      ? h('div', { class: 'row deeds' }, button('deed.post', () => openDeed('post', about, {}, { amount })), button('deed.void', () => openDeed('void', about)))
      : h('div', { class: 'about' }, tag(status, 'withdrawal'), when(row['ended_at']), principal(row['ended_by'])),
  ];
}
