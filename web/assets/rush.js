// The rush screen, on the local stack only: many users grab one packet at once, and the screen draws it live.

import { api, config, currency, minorDigits, money, number, setCurrency } from './context.js';
import { h, s, say } from './dom.js';
import { t } from './i18n.js';
import { readAmount, readCount, writeAmount } from './input.js';
import { misread } from './problems.js';

/**
 * @typedef {object} Tick
 * @property {number} elapsed_ms
 * @property {number} answered
 * @property {number} grabbed
 * @property {number} lost
 * @property {number} failed
 * @property {number} slot_ms
 * @property {number[]} per_slot Grabs answered so far, in each slot of `slot_ms`.
 * @property {{p50_us: number, p90_us: number, p99_us: number, max_us: number, buckets: {up_to_us: number, count: number}[]}} latency
 * @property {number[]} amounts The winners' amounts so far.
 */
/**
 * @typedef {object} End
 * @property {string} packet_id
 * @property {string} currency
 * @property {{deposited: number, in_wallets: number, wallets: number, unclaimed: number, balanced: boolean}} books
 */

/** The times within which the users arrive. */
const OVER_MS = [0, 4_000, 10_000];
/** Long enough to watch the slips go. */
const OVER_DEFAULT_MS = 4_000;
/** More slips are not drawn one by one. */
const DRAWN_MOST = 200;

/** The total that the form begins with, in hundredths of the currency's main unit. */
const TOTAL = 88_800;

/** @param {HTMLElement} root @param {AbortSignal} signal */
export async function rushScreen(root, signal) {
  // The wallet names the currency, which decides how the total is read.
  setCurrency((await api.wallet({ signal })).currency);
  if (signal.aborted) return;
  const digits = minorDigits();
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {string} */ value) => {
    const control = h('input', { id, value, inputmode: 'decimal', autocomplete: 'off' });
    return { control, node: h('div', { class: 'field' }, h('label', { for: id }, label), control) };
  };
  const users = field('users', t('rush.users'), '1000');
  const slips = field('slips', t('rush.slips'), '100');
  const total = field('total', t('rush.total'), writeAmount(Math.round((TOTAL * 10 ** digits) / 100), digits));
  const over = h('select', { id: 'over' }, ...OVER_MS.map((ms) => h('option', { value: ms, selected: ms === OVER_DEFAULT_MS }, t(/** @type {import('./i18n.js').Key} */ (`rush.over.${ms}`)))));
  const start = h('button', { class: 'button', type: 'submit' }, t('rush.start'));
  const form = h('form', { class: 'card form race' }, users.node, slips.node, total.node, h('div', { class: 'field' }, h('label', { for: 'over' }, t('rush.over')), over), start);
  const bad = h('p', { class: 'bad', role: 'alert' });
  const board = h('div', { class: 'board' });
  root.append(h('section', { class: 'rush' }, h('h1', null, t('rush.title')), h('p', { class: 'lead' }, t('rush.lead')), form, bad, board));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const reading = readAmount(total.control.value, digits, currency);
    const amount = 'minor' in reading ? reading.minor : 0;
    const request = { users: readCount(users.control.value) ?? 0, count: readCount(slips.control.value) ?? 0, total_amount: amount, over_ms: Number(over.value) };
    const { users: u, count: c } = request;
    const fits = u >= 1 && u <= 5000 && c >= 1 && c <= 1000 && amount >= c && amount <= c * config.limits.slip_amount_max;
    bad.textContent = fits ? '' : 'wrong' in reading ? misread(reading, writeAmount(10 ** digits, digits)) : t('rush.bad');
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

/** @param {HTMLElement} board @param {{users: number, count: number}} request @param {AbortSignal} signal */
async function race(board, request, signal) {
  const response = await fetch('_local/rush', { method: 'POST', body: JSON.stringify(request), signal });
  if (!response.ok || !response.body) throw new Error(String(response.status));
  const view = new Board(board, request.users, request.count);
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
  /** @param {HTMLElement} board @param {number} users @param {number} count */
  constructor(board, users, count) {
    this.count = count;
    this.slips = h('div', { class: 'slips', 'aria-hidden': 'true' }, ...Array.from({ length: count <= DRAWN_MOST ? count : 0 }, () => h('i')));
    this.done = h('progress', { max: users, value: 0, 'aria-hidden': 'true' });
    this.throughput = new Panel('rush.throughput');
    this.latency = new Panel('rush.latency');
    this.amounts = new Panel('rush.amounts');
    this.books = h('div', { class: 'books' }, h('p', { class: 'sum' }, t('rush.slipsLeft', { count })));
    board.replaceChildren(
      h('section', { class: 'card total' }, h('h2', null, t('rush.sum')), this.books, this.slips, this.done),
      this.throughput.node,
      this.latency.node,
      this.amounts.node,
    );
  }

  /** @param {Tick} tick */
  tick({ elapsed_ms, answered, grabbed, lost, failed, slot_ms, per_slot, latency, amounts }) {
    this.done.value = answered;
    this.books.firstElementChild?.replaceChildren(t('rush.slipsLeft', { count: Math.max(0, this.count - grabbed) }));
    [...this.slips.children].slice(0, grabbed).forEach((slip) => slip.classList.add('taken'));
    const rate = number(Math.round((answered * 1000) / Math.max(1, elapsed_ms)));
    this.throughput.show(
      [rate, t('rush.perSecond')],
      bars(rates(per_slot, slot_ms), t('rush.throughput.label'), (perSecond) => number(Math.round(perSecond))),
      [[t('rush.answered'), answered], [t('rush.got'), grabbed], [t('rush.lost'), lost], [t('rush.failed'), failed]].map(([name, count]) => `${name} ${number(Number(count))}`),
    );
    this.throughput.node.classList.toggle('failed', failed > 0);
    const { p50_us, p90_us, p99_us, max_us, buckets } = latency;
    // From the first bucket that is not empty.
    const lived = buckets.slice(buckets.findIndex(({ count }) => count > 0));
    this.latency.show(
      [time(p50_us), t('rush.median')],
      bars(lived.map(({ up_to_us, count }) => [time(up_to_us), count]), t('rush.latency.label', { p50: time(p50_us), p99: time(p99_us) }), number),
      Object.entries({ p90: p90_us, p99: p99_us, max: max_us }).map(([name, us]) => `${name} ${time(us)}`),
    );
    if (amounts.length === 0) return;
    const sum = amounts.reduce((a, b) => a + b, 0);
    this.amounts.show(
      [money(Math.round(sum / amounts.length)), t('rush.mean')],
      histogram(amounts),
      [t('rush.least', { amount: money(Math.min(...amounts)) }), t('rush.best', { amount: money(Math.max(...amounts)) })],
    );
  }

  /** @param {End} end */
  end({ packet_id, currency, books }) {
    setCurrency(currency);
    this.done.hidden = true;
    const { deposited, in_wallets, wallets, unclaimed, balanced } = books;
    const verdict = t(balanced ? 'rush.balanced' : 'rush.unbalanced');
    const part = (/** @type {string} */ sign, /** @type {number} */ amount, /** @type {string} */ label) =>
      h('span', { class: 'part' }, sign && h('span', { class: 'sign' }, `${sign} `), h('strong', null, money(amount)), h('small', null, label));
    this.books.replaceChildren(
      h(
        'p',
        { class: 'sum', 'data-balanced': String(balanced) },
        part('', deposited, t('rush.sum.in')),
        part(balanced ? '=' : '≠', in_wallets, t('rush.sum.wallets', { count: wallets })),
        part('+', unclaimed, t('rush.sum.left')),
      ),
      h('p', { class: balanced ? 'fine' : 'bad' }, verdict),
      h('a', { class: 'open', href: `#/p/${packet_id}` }, t('sent.open')),
    );
    say(verdict);
  }
}

/** The main figure, a chart below it, and smaller figures below the chart. */
class Panel {
  /** @param {import('./i18n.js').Key} title */
  constructor(title) {
    this.figure = h('p', { class: 'speed' }, h('strong', null, '–'));
    this.chart = h('div', { class: 'chart' });
    this.notes = h('p', { class: 'tallies' });
    this.node = h('section', { class: 'card' }, h('h2', null, t(title)), this.figure, this.chart, this.notes);
  }

  /** @param {[string, string]} figure @param {Node} chart @param {string[]} notes */
  show([value, unit], chart, notes) {
    this.figure.replaceChildren(h('strong', null, value), ` ${unit}`);
    this.chart.replaceChildren(chart);
    this.notes.replaceChildren(...notes.map((note) => h('span', null, note)));
  }
}

/** Formats a duration in ms or s. @param {number} us */
function time(us) {
  const ms = us / 1_000;
  if (ms >= 1_000) return `${number(Math.round(ms / 10) / 100)} s`;
  return `${number(ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms))} ms`;
}

/**
 * Returns the answers per second over time, in at most 50 bars: more could not be distinguished.
 * @param {number[]} counts
 * @param {number} slotMs
 * @returns {[string, number][]}
 */
function rates(counts, slotMs) {
  const width = Math.ceil(counts.length / 50) || 1;
  return Array.from({ length: Math.ceil(counts.length / width) }, (_, i) => {
    const sum = counts.slice(i * width, (i + 1) * width).reduce((a, b) => a + b, 0);
    return [time(i * width * slotMs * 1_000), (sum * 1000) / (width * slotMs)];
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
  return bars(counts.map((count, i) => [money((i + 1) * width), count]), t('rush.amounts.label'), number);
}

/**
 * Draws bars, with the value of the tallest one and with names under the first, the middle and the last.
 * @param {[string, number][]} values
 * @param {string} label
 * @param {(value: number) => string} scale
 */
function bars(values, label, scale) {
  const [width, height, head, foot] = [320, 150, 18, 20];
  const most = Math.max(1, ...values.map(([, count]) => count));
  const step = width / Math.max(1, values.length);
  const last = values.length - 1;
  const named = new Set(values.length > 3 ? [0, Math.floor(values.length / 2), last] : values.keys());
  return s(
    'svg',
    { viewBox: `0 0 ${width} ${height + foot}`, role: 'img', 'aria-label': label },
    s('line', { class: 'top', x1: 0, x2: width, y1: head, y2: head }),
    s('text', { x: 0, y: head - 5 }, scale(most)),
    ...values.map(([, count], i) => {
      // Even the smallest count stays visible.
      const tall = count > 0 ? Math.max(1.5, (count / most) * (height - head)) : 0;
      return s('rect', { x: i * step + 0.5, y: height - tall, width: Math.max(1, Math.min(step - 1, 28)), height: tall, rx: Math.min(2, step / 4) });
    }),
    s('line', { x1: 0, x2: width, y1: height, y2: height }),
    ...values.flatMap(([name], i) => {
      if (!named.has(i)) return [];
      const anchor = i === 0 ? 'start' : i === last ? 'end' : 'middle';
      const x = i === 0 ? 0 : i === last ? width : (i + 0.5) * step;
      return [s('text', { x, y: height + 15, 'text-anchor': anchor }, name)];
    }),
  );
}
