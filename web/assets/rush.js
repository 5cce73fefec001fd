// Rush, on the local stack only: one packet, many users at once, drawn while it happens.

import { config, figure, minorUnits, money, number, setCurrency } from './context.js';
import { h, s, say } from './dom.js';
import { t } from './i18n.js';

/**
 * @typedef {object} Tick
 * @property {number} elapsed_ms
 * @property {number} answered
 * @property {number} grabbed
 * @property {number} lost
 * @property {number} failed
 * @property {number} slot_ms
 * @property {number[]} per_slot Grabs answered in each slot of time so far.
 * @property {{p50_us: number, p90_us: number, p99_us: number, max_us: number, buckets: {up_to_us: number, count: number}[]}} latency
 */
/**
 * @typedef {object} End
 * @property {string} packet_id
 * @property {string} currency
 * @property {number[]} amounts
 * @property {{deposited: number, in_wallets: number, wallets: number, unclaimed: number, balanced: boolean}} books
 */

/** @param {HTMLElement} root @param {AbortSignal} signal */
export function rushScreen(root, signal) {
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {string} */ value) => {
    const control = h('input', { id, value, inputmode: 'decimal', autocomplete: 'off' });
    return { control, node: h('div', { class: 'field' }, h('label', { for: id }, label), control) };
  };
  const users = field('users', t('rush.users'), '1000');
  const slips = field('slips', t('rush.slips'), '100');
  const total = field('total', t('rush.total'), '888.00');
  const start = h('button', { class: 'button', type: 'submit' }, t('rush.start'));
  const form = h('form', { class: 'card form race' }, users.node, slips.node, total.node, start);
  const bad = h('p', { class: 'bad', role: 'alert' });
  const board = h('div', { class: 'board' });
  root.append(h('section', { class: 'rush' }, h('h1', null, t('rush.title')), h('p', { class: 'lead' }, t('rush.lead')), form, bad, board));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const request = { users: Number(users.control.value), count: Number(slips.control.value), total_amount: minorUnits(total.control.value) ?? 0 };
    const { users: u, count: c, total_amount: a } = request;
    const fits = Number.isInteger(u) && Number.isInteger(c) && u >= 1 && u <= 5000 && c >= 1 && c <= 1000 && a >= c && a <= c * config.limits.slip_amount_max;
    bad.textContent = fits ? '' : t('rush.bad');
    if (!fits || start.disabled) return;
    start.disabled = true;
    start.textContent = t('rush.running');
    race(board, request, signal)
      .catch(() => {
        if (!signal.aborted) bad.textContent = t('rush.broken');
      })
      .finally(() => {
        start.disabled = false;
        start.textContent = t('rush.start');
      });
  });
}

/** @param {HTMLElement} board @param {object} request @param {AbortSignal} signal */
async function race(board, request, signal) {
  const response = await fetch('_local/rush', { method: 'POST', body: JSON.stringify(request), signal });
  if (!response.ok || !response.body) throw new Error(String(response.status));
  const view = new Board(board);
  let rest = '';
  let ended = false;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter(Boolean)) {
      const event = JSON.parse(line);
      if (event.type === 'tick') view.tick(event);
      if (event.type === 'end') {
        view.end(event);
        ended = true;
      }
    }
  }
  if (!ended) throw new Error('the stream broke off');
}

class Board {
  /** @param {HTMLElement} board */
  constructor(board) {
    this.speed = h('strong', null, '0');
    this.tallies = h('p', { class: 'tallies' });
    this.percentiles = h('p', { class: 'tallies' });
    this.throughput = h('div', { class: 'chart' });
    this.latency = h('div', { class: 'chart' });
    this.amounts = h('div', { class: 'chart' });
    this.books = h('div', { class: 'books' });
    const panel = (/** @type {string} */ title, /** @type {Node[]} */ ...nodes) => h('section', { class: 'card' }, h('h2', null, title), ...nodes);
    board.replaceChildren(
      h('section', { class: 'card total' }, h('h2', null, t('rush.sum')), this.books),
      panel(t('rush.throughput'), h('p', { class: 'speed' }, this.speed, ` ${t('rush.perSecond')}`), this.throughput, this.tallies),
      panel(t('rush.latency'), this.latency, this.percentiles),
      panel(t('rush.amounts'), this.amounts),
    );
    this.books.append(h('p', { class: 'sum' }, '…'));
  }

  /** @param {Tick} tick */
  tick({ elapsed_ms, answered, grabbed, lost, failed, slot_ms, per_slot, latency }) {
    this.speed.textContent = number(Math.round((answered * 1000) / Math.max(1, elapsed_ms)));
    const counts = /** @type {const} */ ([['rush.answered', answered], ['rush.got', grabbed], ['rush.lost', lost], ['rush.failed', failed]]);
    this.tallies.replaceChildren(...counts.map(([key, count]) => h('span', { class: key === 'rush.failed' && count > 0 ? 'bad' : null }, `${t(key)} ${number(count)}`)));
    const ms = (/** @type {number} */ us) => number(Math.round(us / 100) / 10);
    const named = /** @type {const} */ ([['p50', latency.p50_us], ['p90', latency.p90_us], ['p99', latency.p99_us], ['max', latency.max_us]]);
    this.percentiles.replaceChildren(...named.map(([name, us]) => h('span', null, t('rush.percentile', { name, ms: ms(us) }))));
    const values = { p50: ms(latency.p50_us), p99: ms(latency.p99_us) };
    // From the first latency that there was.
    const lived = latency.buckets.slice(latency.buckets.findIndex(({ count }) => count > 0));
    this.throughput.replaceChildren(bars(slots(per_slot, slot_ms), t('rush.throughput.label')));
    this.latency.replaceChildren(bars(lived.map(({ up_to_us, count }) => [`≤ ${ms(up_to_us)} ms`, count]), t('rush.latency.label', values)));
  }

  /** @param {End} end */
  end({ packet_id, currency, amounts, books }) {
    setCurrency(currency);
    this.amounts.replaceChildren(histogram(amounts));
    const { deposited, in_wallets, wallets, unclaimed, balanced } = books;
    const verdict = t(balanced ? 'rush.balanced' : 'rush.unbalanced');
    const part = (/** @type {string} */ amount, /** @type {string} */ label) => h('span', { class: 'part' }, h('strong', null, amount), h('small', null, label));
    this.books.replaceChildren(
      h(
        'p',
        { class: 'sum', 'data-balanced': String(balanced) },
        part(money(deposited), t('rush.sum.in')),
        h('span', { class: 'equals' }, balanced ? '=' : '≠'),
        part(money(in_wallets), t('rush.sum.wallets', { count: number(wallets) })),
        h('span', { class: 'equals' }, '+'),
        part(money(unclaimed), t('rush.sum.left')),
      ),
      h('p', { class: balanced ? 'fine' : 'bad' }, verdict),
      h('a', { class: 'verify', href: `#/p/${packet_id}` }, t('sent.open')),
    );
    say(verdict);
  }
}

/**
 * What was answered when, in at most so many bars as can be told apart.
 * @param {number[]} counts
 * @param {number} slotMs
 * @returns {[string, number][]}
 */
function slots(counts, slotMs) {
  const width = Math.ceil(counts.length / 50) || 1;
  return Array.from({ length: Math.ceil(counts.length / width) }, (_, i) => {
    const sum = counts.slice(i * width, (i + 1) * width).reduce((a, b) => a + b, 0);
    return [`${number((i * width * slotMs) / 1000)} s`, sum];
  });
}

/** @param {number[]} amounts */
function histogram(amounts) {
  const most = Math.max(1, ...amounts);
  const bins = Math.min(24, most);
  const width = Math.max(1, Math.ceil(most / bins));
  const counts = Array.from({ length: Math.ceil(most / width) }, () => 0);
  for (const amount of amounts) {
    const bin = Math.floor((amount - 1) / width);
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return bars(counts.map((count, i) => [figure((i + 1) * width), count]), t('rush.amounts.label'));
}

/** @param {[string, number][]} values @param {string} label */
function bars(values, label) {
  const [width, height, foot] = [320, 120, 20];
  const most = Math.max(1, ...values.map(([, count]) => count));
  const step = width / Math.max(1, values.length);
  const ticks = new Set(values.length > 2 ? [0, Math.floor(values.length / 2), values.length - 1] : values.keys());
  return s(
    'svg',
    { viewBox: `0 0 ${width} ${height + foot}`, role: 'img', 'aria-label': label },
    ...values.map(([, count], i) => {
      const tall = (count / most) * (height - 4);
      return s('rect', { x: i * step + 1, y: height - tall, width: Math.max(1, step - 2), height: tall, rx: 1.5 });
    }),
    s('line', { x1: 0, x2: width, y1: height, y2: height }),
    ...values.flatMap(([name], i) => {
      if (!ticks.has(i)) return [];
      const anchor = i === 0 ? 'start' : i === values.length - 1 ? 'end' : 'middle';
      const x = i === 0 ? 0 : i === values.length - 1 ? width : (i + 0.5) * step;
      return [s('text', { x, y: height + 14, 'text-anchor': anchor }, name)];
    }),
  );
}
