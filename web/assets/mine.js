// The screen "Mine": the balance, the packets that the user sent, the slips that the user received, and every movement by month. It is
// followed while it is shown.

import { newKey } from '../client/hongbao.js';
import { api, config, me, moment, money, month, setCurrency } from './context.js';
import { h, say } from './dom.js';
import { avatar, meetSoon, person } from './people.js';
import { t } from './i18n.js';
import { poll } from './packet/persist.js';
import { NotLoaded, explain } from './problems.js';

const PAGE = 20;
const TOP_UP = 100_000;
/** Nobody sees news later than about this. */
const PAUSE_MOST_MS = 15_000;

/** @typedef {import('../client/hongbao.js').Packet} Sent */
/** @typedef {import('../client/hongbao.js').UserClaims['claims'][number]} Received */

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} tab */
export async function mineScreen(root, signal, tab = 'received') {
  const [wallet, parts] = await Promise.all([api.wallet({ signal }), config.withdrawals && loadWithdrawing(), meetSoon([me()], signal)]);
  if (signal.aborted) return;
  setCurrency(wallet.currency);
  const balance = h('p', { class: 'sum' });
  const pending = h('p', { class: 'hint pending' });
  /** @type {{balance: number, pending: number}} */
  let shown = wallet;
  const show = (/** @type {typeof shown} */ now) => {
    shown = now;
    balance.textContent = money(now.balance);
    pending.textContent = now.pending > 0 ? t('mine.pending', { amount: money(now.pending) }) : '';
    withdrawing?.setBalance(now.balance);
  };
  const list = new List(tab, signal);
  // The money has moved.
  const onWallet = (/** @type {typeof shown} */ now) => {
    show(now);
    list.refresh().catch((error) => signal.aborted || say(explain(error).title));
  };
  const withdrawing = parts ? new parts.WithdrawForm(wallet.balance, onWallet, signal) : null;
  show(wallet);
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
  await list.more();
  const ask = async () => {
    const before = shown;
    const now = await api.wallet({ signal });
    const isNew = now.balance !== before.balance || now.pending !== before.pending;
    // That others open a packet changes nothing in its sender's wallet.
    const isListNew = (isNew || tab === 'sent') && (await list.refresh());
    // What the user did meanwhile is newer.
    if (!isNew || shown !== before || signal.aborted) return isListNew ? 'changed' : 'same';
    show(now);
    say([`${t('mine.balance')} ${money(now.balance)}`, pending.textContent].filter(Boolean).join(' · '));
    return 'changed';
  };
  void poll(ask, () => PAUSE_MOST_MS, signal);
}

/** Loads the form where users can ask for withdrawals. */
function loadWithdrawing() {
  return import('./withdraw.js').catch((error) => {
    throw new NotLoaded(String(error));
  });
}

/** @typedef {import('../client/hongbao.js').Movements['movements'][number]} Movement */
/** @typedef {{key: string, row: HTMLElement, movement?: Movement}} Entry */

/** The rows of a tab, the newest first. They are read page by page, and what is shown stays when the first page is read again. */
class List {
  #tab;
  #signal;
  /** @type {Entry[]} */
  #entries = [];
  /** Null once everything is read. @type {string | null | undefined} */
  #cursor;
  /** The rows that are shown, by their keys. @type {Map<string, HTMLElement>} */
  #shown = new Map();
  /** One reading at a time: each adds to what the one before has found. @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** The greetings of the user's own packets, which movements don't have. @type {Map<string | null, string>} */
  #greetings = new Map();
  /** Null once all are read. @type {string | null | undefined} */
  #greetingsCursor;
  #totals = h('p', { class: 'progress' });
  #rows = h('ol', { class: 'history' });
  #more = h('button', { class: 'button plain', hidden: true }, t('more'));
  #end = h('p', { class: 'hint end' });
  #nothing;

  /** @param {string} tab @param {AbortSignal} signal */
  constructor(tab, signal) {
    this.#tab = tab;
    this.#signal = signal;
    this.#nothing = nothing(tab);
    this.element = h('div', { class: 'card' }, this.#totals, this.#rows, this.#more, this.#end);
    // The rows stay if that fails, and the button too, so that the user can try again.
    const more = () => void this.more().catch((error) => signal.aborted || say(explain(error).title));
    // The next page loads when the button scrolls into view. Users of a keyboard or a screen reader press the button.
    const observer = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && !this.#more.hidden && more(), { rootMargin: '200px' });
    observer.observe(this.#more);
    signal.addEventListener('abort', () => observer.disconnect());
    this.#more.addEventListener('click', more);
  }

  /** Reads the next page. */
  async more() {
    if (this.#more.disabled) return;
    this.#more.disabled = true;
    const read = async () => {
      if (this.#cursor === null) return;
      const { entries, next } = await this.#read(this.#cursor ?? null);
      this.#cursor = next;
      this.#entries.push(...entries);
      this.#draw();
    };
    await this.#inTurn(read).finally(() => {
      this.#more.disabled = false;
    });
  }

  /** Reads the first page again. Returns whether there was news. */
  refresh() {
    return this.#inTurn(async () => {
      const { entries, next } = await this.#read(null);
      const known = this.#entries.findIndex(({ key }) => key === entries.at(-1)?.key);
      // If a whole page is new, there may be more behind it that is new.
      if (known < 0) [this.#entries, this.#cursor] = [entries, next];
      else this.#entries.splice(0, known + 1, ...entries);
      return this.#draw();
    });
  }

  /** @template T @param {() => Promise<T>} read @returns {Promise<T>} */
  #inTurn(read) {
    const turn = this.#last.then(read);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** @param {string | null} cursor @returns {Promise<{entries: Entry[], next: string | null}>} */
  async #read(cursor) {
    const options = { limit: PAGE, cursor, signal: this.#signal };
    if (this.#tab === 'statement') {
      const { movements, next_cursor: next } = await api.myMovements(options);
      await Promise.all([this.#readGreetings(movements, cursor === null), this.#meet(movements)]);
      const row = (/** @type {Movement} */ movement) => movementRow(movement, this.#greetings.get(movement.packet_id));
      return { entries: movements.map((movement) => ({ key: `${movement.kind} ${movement.id}`, row: row(movement), movement })), next };
    }
    if (this.#tab === 'sent') {
      const { packets, totals, next_cursor: next } = await api.myPackets(options);
      this.#showTotals(totals);
      return { entries: packets.map((packet) => ({ key: packet.packet_id, row: sentRow(packet) })), next };
    }
    const { claims, totals, next_cursor: next } = await api.myClaims(options);
    await this.#meet(claims);
    this.#showTotals(totals);
    return { entries: claims.map((claim) => ({ key: claim.packet_id, row: receivedRow(claim) })), next };
  }

  /** Asks for the names of the senders, so that the rows need not change. @param {(Movement | Received)[]} rows */
  #meet(rows) {
    return meetSoon(rows.flatMap((row) => ('sender_id' in row ? row.sender_id : [])), this.#signal);
  }

  /**
   * Reads a page of the user's packets, if a movement is of one that is not known. There are no more packets than movements, so the
   * pages keep up.
   * @param {Movement[]} movements
   * @param {boolean} isFirst whether these are the newest
   */
  async #readGreetings(movements, isFirst) {
    const areKnown = movements.every(({ kind, packet_id }) => (kind !== 'sent' && kind !== 'refund') || this.#greetings.has(packet_id));
    const cursor = isFirst ? undefined : this.#greetingsCursor;
    if (areKnown || cursor === null) return;
    // Without greetings the statement is still whole.
    const page = await api.myPackets({ limit: PAGE, cursor: cursor ?? null, signal: this.#signal }).catch(() => null);
    if (!page) return;
    for (const { packet_id, greeting } of page.packets) this.#greetings.set(packet_id, greeting);
    if (cursor !== undefined || this.#greetingsCursor === undefined) this.#greetingsCursor = page.next_cursor;
  }

  /** @param {{count: number, amount: number}} totals */
  #showTotals({ count, amount }) {
    this.#totals.textContent = t('mine.totals', { count, amount: money(amount) });
  }

  /** Shows the entries. Rows that are shown already stay in their place, with the focus. Returns whether anything changed. */
  #draw() {
    /** @type {Map<string, HTMLElement>} */
    const rows = new Map();
    let isNew = false;
    for (const { key, row } of this.#tab === 'statement' ? this.#byMonth() : this.#entries) {
      const old = this.#shown.get(key);
      rows.set(key, old ?? row);
      if (!old || old.isEqualNode(row)) continue;
      const inner = (/** @type {HTMLElement} */ of) => of.querySelector('a') ?? of;
      inner(old).replaceChildren(...inner(row).childNodes);
      isNew = true;
    }
    for (const [key, row] of this.#shown) if (!rows.has(key)) row.remove();
    [...rows.values()].forEach((row, i) => {
      const other = this.#rows.children[i];
      if (other === row) return;
      this.#rows.insertBefore(row, other ?? null);
      isNew = true;
    });
    this.#shown = rows;
    const isAll = this.#cursor === null;
    this.#more.hidden = isAll;
    this.#end.textContent = isAll && rows.size > 0 ? t('mine.end') : '';
    if (isAll && rows.size === 0) this.#rows.replaceWith(this.#nothing);
    else this.#nothing.replaceWith(this.#rows);
    return isNew;
  }

  /** Returns the entries with a row before each month, which has its sums once the month is complete. */
  #byMonth() {
    /** @type {Entry[]} */
    const all = [];
    // What came back is no income: it was never spent. More may have come back than was spent in the month.
    let [name, came, went, sums] = ['', 0, 0, h('span')];
    const showSums = () => {
      const back = Math.max(0, -went);
      sums.textContent = t(back > 0 ? 'mine.month.back' : 'mine.month', { in: money(came), out: money(Math.max(0, went)), back: money(back) });
    };
    for (const entry of this.#entries) {
      const { at, amount, kind } = /** @type {Movement} */ (entry.movement);
      if (month(at) !== name) {
        showSums();
        [name, came, went, sums] = [month(at), 0, 0, h('span', { class: 'hint' })];
        all.push({ key: name, row: h('li', { class: 'month' }, h('h2', null, name), sums) });
      }
      if (amount > 0 && kind !== 'refund' && kind !== 'return') came += amount;
      else went -= amount;
      all.push(entry);
    }
    if (this.#cursor === null) showSums();
    return all;
  }
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

/** @param {Movement} movement @param {string} [greeting] that of the user's own packet */
function movementRow(movement, greeting) {
  const { kind, amount, at } = movement;
  const packetId = 'packet_id' in movement ? movement.packet_id : null;
  const known = KINDS.find((name) => name === kind);
  const end = 'status' in movement ? ENDS.find((name) => name === movement.status) : null;
  const said = 'greeting' in movement ? movement.greeting : greeting;
  const parts = [
    h('span', { class: 'name' }, 'sender_id' in movement ? person(movement.sender_id, 'movement.claim') : known ? t(`movement.${known}`) : kind, ...(said ? [' · ', h('bdi', null, said)] : [])),
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
