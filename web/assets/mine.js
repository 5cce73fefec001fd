// The screen "Mine": the balance, the packets that the user sent, the slips that the user received, and every movement by month.

import { newKey } from '../client/hongbao.js';
import { api, config, me, moment, money, month, setCurrency } from './context.js';
import { h, say } from './dom.js';
import { avatar, meetSoon, person } from './people.js';
import { t } from './i18n.js';
import { NotLoaded, explain } from './problems.js';

const PAGE = 20;
const TOP_UP = 100_000;

/** @typedef {import('../client/hongbao.js').Packet} Sent */
/** @typedef {import('../client/hongbao.js').UserClaims['claims'][number]} Received */

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} tab */
export async function mineScreen(root, signal, tab = 'received') {
  const [wallet, parts] = await Promise.all([api.wallet({ signal }), config.withdrawals && loadWithdrawing(), meetSoon([me()], signal)]);
  if (signal.aborted) return;
  setCurrency(wallet.currency);
  const balance = h('p', { class: 'sum' });
  const pending = h('p', { class: 'hint pending' });
  const showWallet = (/** @type {{balance: number, pending: number}} */ now) => {
    balance.textContent = money(now.balance);
    pending.textContent = now.pending > 0 ? t('mine.pending', { amount: money(now.pending) }) : '';
    withdrawing?.setBalance(now.balance);
  };
  // The money has moved.
  const onWallet = (/** @type {{balance: number, pending: number}} */ now) => {
    showWallet(now);
    if (tab === 'statement') void relist();
  };
  const withdrawing = parts ? new parts.WithdrawForm(wallet.balance, onWallet, signal) : null;
  showWallet(wallet);
  const topUp = h('button', { class: 'button plain', title: t('topup.hint') }, t('topup', { amount: money(TOP_UP) }));
  topUp.addEventListener('click', async () => {
    try {
      onWallet(await api.deposit(me(), newKey(), TOP_UP, { signal }));
      say(t('topup.done', { amount: money(TOP_UP) }));
    } catch (error) {
      if (!signal.aborted) say(explain(error).title);
    }
  });
  const link = (/** @type {'sent' | 'received' | 'statement'} */ name) =>
    h('a', { href: `#/mine/${name}`, 'aria-current': tab === name ? 'true' : null }, t(`mine.${name}`));
  let list = listOf(tab, signal);
  let turn = 0;
  // The old list stays until the new one is there.
  const relist = async () => {
    const [fresh, own] = [listOf(tab, signal), (turn += 1)];
    try {
      await fresh.load();
      if (own !== turn) return;
      list.element.replaceWith(fresh.element);
      list = fresh;
    } catch (error) {
      if (!signal.aborted) say(explain(error).title);
    }
  };
  root.append(
    h(
      'section',
      { class: 'mine' },
      h('h1', { class: 'unseen' }, t('mine.title')),
      h('div', { class: 'purse' }, h('p', null, avatar(me()), person(me())), h('p', { class: 'hint' }, t('mine.balance')), balance, pending, config.local ? topUp : config.top_up && h('a', { class: 'button plain', href: config.top_up, target: '_top' }, t('topup.app'))),
      withdrawing?.element,
      h('nav', { class: 'segments', 'aria-label': t('mine.title') }, link('received'), link('sent'), link('statement')),
      list.element,
    ),
  );
  await list.load();
}

/** Loads the form where users can ask for withdrawals. */
function loadWithdrawing() {
  return import('./withdraw.js').catch((error) => {
    throw new NotLoaded(String(error));
  });
}

/** Returns the list of a tab, whose first page has to be loaded. @param {string} tab @param {AbortSignal} signal */
function listOf(tab, signal) {
  const totals = h('p', { class: 'progress' });
  const rows = h('ol', { class: 'history' });
  const more = h('button', { class: 'button plain', hidden: true }, t('more'));
  const end = h('p', { class: 'hint end' });
  /** @type {string | null} */
  let cursor = null;
  let isLoading = false;
  const load = async () => {
    if (isLoading) return;
    isLoading = true;
    more.disabled = true;
    try {
      cursor = await (tab === 'sent' ? sentPage(cursor) : tab === 'statement' ? statementPage(cursor) : receivedPage(cursor));
    } finally {
      isLoading = false;
      more.disabled = false;
    }
    more.hidden = cursor === null;
    if (cursor !== null) return;
    showMonth();
    if (rows.childElementCount > 0) end.textContent = t('mine.end');
    else rows.replaceWith(nothing(tab));
  };
  const showTotals = (/** @type {{count: number, amount: number}} */ { count, amount }) => {
    totals.textContent = t('mine.totals', { count, amount: money(amount) });
  };
  const sentPage = async (/** @type {string | null} */ from) => {
    const page = await api.myPackets({ limit: PAGE, cursor: from, signal });
    showTotals(page.totals);
    rows.append(...page.packets.map(sentRow));
    return page.next_cursor;
  };
  const receivedPage = async (/** @type {string | null} */ from) => {
    const page = await api.myClaims({ limit: PAGE, cursor: from, signal });
    showTotals(page.totals);
    rows.append(...page.claims.map(receivedRow));
    return page.next_cursor;
  };
  /** The month that is being listed, with its sums so far. What came back is no income: it was never spent. */
  const shown = { name: '', in: 0, out: 0, sums: h('span', { class: 'hint' }) };
  // Once the month is complete. More may have come back than was spent in it.
  const showMonth = () => {
    if (!shown.name) return;
    const [spent, back] = [Math.max(0, shown.out), Math.max(0, -shown.out)];
    shown.sums.textContent = t(back > 0 ? 'mine.month.back' : 'mine.month', { in: money(shown.in), out: money(spent), back: money(back) });
  };
  const statementPage = async (/** @type {string | null} */ from) => {
    const page = await api.myMovements({ limit: PAGE, cursor: from, signal });
    for (const movement of page.movements) {
      const name = month(movement.at);
      if (name !== shown.name) {
        showMonth();
        Object.assign(shown, { name, in: 0, out: 0, sums: h('span', { class: 'hint' }) });
        rows.append(h('li', { class: 'month' }, h('h2', null, name), shown.sums));
      }
      if (movement.amount > 0 && movement.kind !== 'refund' && movement.kind !== 'return') shown.in += movement.amount;
      else shown.out -= movement.amount;
      rows.append(movementRow(movement));
    }
    return page.next_cursor;
  };
  // The next page loads when the button scrolls into view. Users of a keyboard or a screen reader press the button.
  const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && !more.hidden && void loadMore(), { rootMargin: '200px' });
  observer.observe(more);
  signal.addEventListener('abort', () => observer.disconnect());
  const loadMore = () =>
    load().catch((error) => {
      // The rows stay, and the button too, so that the user can try again.
      if (!signal.aborted) say(explain(error).title);
    });
  more.addEventListener('click', () => void loadMore());
  return { element: h('div', { class: 'card' }, totals, rows, more, end), load };
}

/** @param {string} tab */
function nothing(tab) {
  return h(
    'div',
    { class: 'nothing' },
    h('div', { class: 'emblem', 'aria-hidden': 'true' }),
    h('p', null, t(tab === 'sent' ? 'mine.sent.none' : tab === 'statement' ? 'mine.statement.none' : 'mine.received.none')),
    h('a', { class: 'button', href: '#/' }, t('notFound.home')),
  );
}

/** The states that this page has words for. */
const STATUSES = /** @type {const} */ (['scheduled', 'open', 'sold_out', 'expired', 'closed', 'settled']);

/** @param {Sent} packet */
function sentRow(packet) {
  const { packet_id, greeting, total_amount, count, claimed_count, refunded_amount, created_at } = packet;
  const status = STATUSES.find((known) => known === packet.status);
  return h(
    'li',
    null,
    h(
      'a',
      { href: `#/p/${packet_id}` },
      h('span', { class: 'name', dir: 'auto' }, greeting || t('send.greeting.default')),
      h('span', { class: 'got' }, money(-total_amount)),
      h('time', { datetime: created_at }, moment(created_at)),
      status && h('span', { class: `tag ${status}` }, t(`status.${status}`)),
      h('span', { class: 'hint' }, t('mine.claimed', { claimed: claimed_count, total: count })),
      refunded_amount > 0 && h('span', { class: 'back' }, t('mine.refunded', { amount: money(refunded_amount) })),
    ),
  );
}

/** The kinds of movement that this page has words for. */
const KINDS = /** @type {const} */ (['deposit', 'withdrawal', 'return', 'sent', 'claim', 'refund']);
/** How far a withdrawal is. */
const ENDS = /** @type {const} */ (['pending', 'posted', 'voided']);

/** @param {import('../client/hongbao.js').Movements['movements'][number]} movement */
function movementRow(movement) {
  const { kind, amount, at } = movement;
  const packetId = 'packet_id' in movement ? movement.packet_id : null;
  const known = KINDS.find((name) => name === kind);
  const end = 'status' in movement ? ENDS.find((name) => name === movement.status) : null;
  const parts = [
    h('span', { class: 'name' }, known ? t(`movement.${known}`) : kind),
    h('span', { class: `got${amount > 0 ? ' plus' : ''}` }, (amount > 0 ? '+' : '') + money(amount)),
    h('time', { datetime: at }, moment(at)),
    end && h('span', { class: `tag ${end}` }, t(`withdrawal.${end}`)),
    'note' in movement && movement.note && h('span', { class: 'hint note', dir: 'auto' }, movement.note),
    'void_reason' in movement && movement.void_reason && h('span', { class: 'hint note', dir: 'auto' }, movement.void_reason),
  ];
  return h('li', null, packetId ? h('a', { href: `#/p/${packetId}` }, ...parts) : h('div', { class: 'movement' }, ...parts));
}

/** @param {Received} claim */
function receivedRow({ packet_id, sender_id, greeting, amount, grabbed_at }) {
  return h(
    'li',
    null,
    h(
      'a',
      { href: `#/p/${packet_id}` },
      h('span', { class: 'name', dir: 'auto' }, greeting || t('send.greeting.default')),
      h('span', { class: 'got plus' }, `+${money(amount)}`),
      h('time', { datetime: grabbed_at }, moment(grabbed_at)),
      h('span', { class: 'hint' }, person(sender_id, 'grab.from')),
    ),
  );
}
