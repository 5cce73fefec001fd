// The rush screen, on the local stack only: many users grab one packet at once, and the screen draws it live.

import { api, config, currency, minorDigits, money, number, setCurrency } from './context.js';
import { h, s, say, sleep } from './dom.js';
import { t } from './i18n.js';
import { readAmount, readCount, writeAmount } from './input.js';
import { misread } from './problems.js';

/**
 * @typedef {object} Score The rush so far.
 * @property {number[]} tookMs How long each answer took.
 * @property {number[]} perSlot Grabs answered, in each slot of `SLOT_MS`.
 * @property {number[]} amounts The winners' amounts.
 * @property {number} lost
 * @property {number} failed
 */

/** The times within which the users arrive. */
const OVER_MS = [0, 4_000, 10_000];
/** Long enough to watch the slips go. */
const OVER_DEFAULT_MS = 4_000;
/** More slips are not drawn one by one. */
const DRAWN_MOST = 200;

/** A browser opens so many connections to a host, and more requests only wait in it. */
const LANES = 6;
/** How often the screen is drawn. */
const TICK_MS = 100;
/** Grabs that are answered within this time of each other are counted together. */
const SLOT_MS = 20;
/** Bars of the latencies for each doubling, so that they are as fine at a millisecond as at a second. */
const BARS_PER_DOUBLING = 4;

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

/**
 * Sends a packet as a new user, and grabs it as many others. So the deposit must equal the sum of their wallets and what is left.
 * @param {HTMLElement} board
 * @param {{users: number, count: number, total_amount: number, over_ms: number}} request
 * @param {AbortSignal} signal
 */
async function race(board, { users, count, total_amount, over_ms }, signal) {
  const sender = `rush-${Date.now().toString(36)}`;
  await api.deposit(sender, sender, total_amount, { signal });
  const { packet: { packet_id } } = await api.forUser(sender).send({ split: 'random', total_amount, count, greeting: '恭喜发财' }, { key: sender, signal });
  const view = new Board(board, users, count);
  /** @type {Score} */
  const score = { tookMs: [], perSlot: [], amounts: [], lost: 0, failed: 0 };
  const begun = performance.now();
  const draw = () => view.tick(score, performance.now() - begun);
  const drawing = setInterval(draw, TICK_MS);
  const tap = async (/** @type {number} */ user) => {
    // Most come early, as in a chat.
    await sleep(begun + over_ms * (user / users) ** 2 - performance.now(), signal);
    const asked = performance.now();
    const answer = await api.forUser(`${sender}-${user}`).grab(packet_id, { signal }).catch(() => null);
    signal.throwIfAborted();
    const answered = performance.now();
    score.tookMs.push(answered - asked);
    const slot = Math.floor((answered - begun) / SLOT_MS);
    score.perSlot[slot] = (score.perSlot[slot] ?? 0) + 1;
    if (!answer) score.failed += 1;
    else if (answer.outcome === 'grabbed') score.amounts.push(answer.amount);
    else score.lost += 1;
  };
  try {
    await each([...Array(users).keys()], tap);
  } finally {
    clearInterval(drawing);
  }
  draw();
  // If winners are answered before the ledger has their claims, the money arrives with settle.
  await fetch('_local/settle', { method: 'POST', signal });
  const packet = await api.anyPacket(packet_id, { signal });
  // From the ledger, not from the answers: a user without an answer may have won too.
  const names = [sender];
  for await (const { user_id } of api.forUser(sender).allClaims(packet_id, { signal })) names.push(user_id);
  let inWallets = 0;
  await each(names, async (name) => {
    const { balance } = await api.walletOf(name, { signal });
    inWallets += balance;
  });
  view.end(packet, inWallets, names.length);
}

/**
 * Does some work for each of the values, for a few at once.
 * @template V
 * @param {V[]} values
 * @param {(value: V) => Promise<void>} work
 */
async function each(values, work) {
  const left = values.values();
  await Promise.all(Array.from({ length: LANES }, async () => {
    for (const value of left) await work(value);
  }));
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

  /** @param {Score} score @param {number} elapsedMs */
  tick({ tookMs, perSlot, amounts, lost, failed }, elapsedMs) {
    const [answered, grabbed] = [tookMs.length, amounts.length];
    this.done.value = answered;
    this.books.firstElementChild?.replaceChildren(t('rush.slipsLeft', { count: Math.max(0, this.count - grabbed) }));
    [...this.slips.children].slice(0, grabbed).forEach((slip) => slip.classList.add('taken'));
    const rate = number(Math.round((answered * 1000) / Math.max(1, elapsedMs)));
    this.throughput.show(
      [rate, t('rush.perSecond')],
      bars(rates(perSlot), t('rush.throughput.label'), (perSecond) => number(Math.round(perSecond))),
      [[t('rush.answered'), answered], [t('rush.got'), grabbed], [t('rush.lost'), lost], [t('rush.failed'), failed]].map(([name, count]) => `${name} ${number(Number(count))}`),
    );
    this.throughput.node.classList.toggle('failed', failed > 0);
    const sorted = [...tookMs].sort((a, b) => a - b);
    const percentile = (/** @type {number} */ share) => time(sorted[Math.ceil((answered * share) / 100) - 1] ?? 0);
    this.latency.show(
      [percentile(50), t('rush.median')],
      bars(doublings(sorted), t('rush.latency.label', { p50: percentile(50), p99: percentile(99) }), number),
      [`p90 ${percentile(90)}`, `p99 ${percentile(99)}`, `max ${percentile(100)}`],
    );
    if (grabbed === 0) return;
    const sum = amounts.reduce((a, b) => a + b, 0);
    this.amounts.show(
      [money(Math.round(sum / grabbed)), t('rush.mean')],
      histogram(amounts),
      [t('rush.least', { amount: money(Math.min(...amounts)) }), t('rush.best', { amount: money(Math.max(...amounts)) })],
    );
  }

  /** @param {import('../client/hongbao.js').Packet} packet @param {number} inWallets @param {number} wallets */
  end({ packet_id, total_amount, claimed_amount, refunded_amount }, inWallets, wallets) {
    this.done.hidden = true;
    const unclaimed = total_amount - claimed_amount - refunded_amount;
    const balanced = total_amount === inWallets + unclaimed;
    const verdict = t(balanced ? 'rush.balanced' : 'rush.unbalanced');
    const part = (/** @type {string} */ sign, /** @type {number} */ amount, /** @type {string} */ label) =>
      h('span', { class: 'part' }, sign && h('span', { class: 'sign' }, `${sign} `), h('strong', null, money(amount)), h('small', null, label));
    this.books.replaceChildren(
      h(
        'p',
        { class: 'sum', 'data-balanced': String(balanced) },
        part('', total_amount, t('rush.sum.in')),
        part(balanced ? '=' : '≠', inWallets, t('rush.sum.wallets', { count: wallets })),
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

/** Formats a duration in ms or s. @param {number} ms */
function time(ms) {
  if (ms >= 1_000) return `${number(Math.round(ms / 10) / 100)} s`;
  return `${number(ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms))} ms`;
}

/**
 * Returns the answers per second over time, in at most 50 bars: more could not be distinguished.
 * @param {number[]} perSlot
 * @returns {[string, number][]}
 */
function rates(perSlot) {
  const width = Math.ceil(perSlot.length / 50) || 1;
  return Array.from({ length: Math.ceil(perSlot.length / width) }, (_, i) => {
    const sum = perSlot.slice(i * width, (i + 1) * width).reduce((a, b) => a + b, 0);
    return [time(i * width * SLOT_MS), (sum * 1000) / (width * SLOT_MS)];
  });
}

/**
 * Returns how many answers took how long, in steps that grow with the time.
 * @param {number[]} sortedMs
 * @returns {[string, number][]}
 */
function doublings(sortedMs) {
  const steps = sortedMs.map((ms) => Math.ceil(Math.log2(ms) * BARS_PER_DOUBLING));
  const [least = 0, most = 0] = [steps[0], steps.at(-1)];
  return Array.from({ length: most - least + 1 }, (_, i) => [time(2 ** ((least + i) / BARS_PER_DOUBLING)), steps.filter((step) => step === least + i).length]);
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
