// Measures the distribution of the page's split and draws it beside the published one:
//   node fairness.mjs [packets]     writes docs/images/fairness-*.svg and prints their figures, of docs/FAIRNESS.md
//
// The seeds count up from one fixed seed, so that every run gives the same result.

import { writeFile } from 'node:fs/promises';

import { split } from '../../web/assets/split.js';

const PACKETS = Number(process.argv[2] ?? 100_000);
const [TOTAL, COUNT, CAP] = [10_000, 10, 20_000];
const MEAN = TOTAL / COUNT;

/** @param {number} number */
function seedOf(number) {
  const seed = new TextEncoder().encode('....measured for docs/FAIRNESS.md'.slice(0, 32));
  new DataView(seed.buffer).setUint32(0, number, true);
  return seed;
}

// The published split: continuous double mean, in the order of the draw. Its distribution over the places is drawn here too, in
// floating point, from another source of randomness.
let state = 0x2545f491;
function uniform() {
  // xorshift32, which is independent of the stream that is measured.
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) / 2 ** 32;
}

function doubleMean() {
  const amounts = [];
  let rest = TOTAL;
  for (let left = COUNT; left > 1; left -= 1) {
    const amount = uniform() * ((2 * rest) / left);
    amounts.push(amount);
    rest -= amount;
  }
  amounts.push(rest);
  return amounts;
}

/** Returns the published variance at each place of the draw, in squares of the mean. */
function publishedVariances() {
  const variances = [];
  let product = 4 / 3;
  for (let place = 1; place < COUNT; place += 1) {
    variances.push(product - 1);
    product *= 1 + 1 / (3 * (COUNT - place) ** 2);
  }
  return [...variances, /** @type {number} */ (variances.at(-1))];
}

const BIN = 100;
const BINS = 40;
const measured = Array.from({ length: BINS }, () => 0);
const published = Array.from({ length: BINS }, () => 0);
const sums = Array.from({ length: COUNT }, () => 0);
const squares = Array.from({ length: COUNT }, () => 0);
const best = Array.from({ length: COUNT }, () => 0);

/** @param {number[]} counts @param {number} at @param {number} by */
const add = (counts, at, by) => {
  counts[at] = (counts[at] ?? 0) + by;
};

for (let packet = 0; packet < PACKETS; packet += 1) {
  const terms = { version: 1, split: /** @type {const} */ ('random'), total: BigInt(TOTAL), count: COUNT, cap: BigInt(CAP), seed: seedOf(packet) };
  const amounts = split(terms).map(Number);
  const most = Math.max(...amounts);
  const isTie = amounts.filter((amount) => amount === most).length > 1;
  amounts.forEach((amount, place) => {
    add(measured, Math.min(BINS - 1, Math.floor((amount - 1) / BIN)), 1);
    add(sums, place, amount);
    add(squares, place, (amount - MEAN) ** 2);
    if (amount === most && !isTie) add(best, place, 1);
  });
  for (const amount of doubleMean()) add(published, Math.min(BINS - 1, Math.floor(amount / BIN)), 1);
}

const drawn = PACKETS * COUNT;
const variance = publishedVariances().reduce((a, b) => a + b, 0) / COUNT;
const percent = (/** @type {number} */ part) => `${((part * 100) / drawn).toFixed(2)} %`;
const clear = best.reduce((a, b) => a + b, 0);

console.log(`${PACKETS} packets of ${TOTAL} in ${COUNT} slips\n`);
console.log('| place in the queue | mean | variance, in squares of the mean | had the best luck |');
console.log('|---|---|---|---|');
sums.forEach((sum, place) => {
  const own = /** @type {number} */ (squares[place]) / PACKETS / MEAN ** 2;
  console.log(`| ${place + 1} | ${(sum / PACKETS).toFixed(1)} | ${own.toFixed(3)} | ${((/** @type {number} */ (best[place]) * 100) / clear).toFixed(2)} % |`);
});
console.log(`| published | ${MEAN.toFixed(1)} | ${variance.toFixed(3)} | ${(100 / COUNT).toFixed(2)} % |\n`);
console.log('| amount | measured | published |');
console.log('|---|---|---|');
for (let bin = 0; bin < BINS; bin += 5) {
  const of = (/** @type {number[]} */ counts) => percent(counts.slice(bin, bin + 5).reduce((a, b) => a + b, 0));
  console.log(`| ${bin * BIN + 1} ${bin + 5 < BINS ? `to ${(bin + 5) * BIN}` : 'and more'} | ${of(measured)} | ${of(published)} |`);
}

/** @param {string} title @param {string[]} names @param {number[]} bars @param {number[]} line */
function chart(title, names, bars, line) {
  const [width, height, left, foot, head] = [720, 300, 56, 34, 30];
  const most = Math.max(...bars, ...line) * 1.08;
  const step = (width - left) / bars.length;
  const y = (/** @type {number} */ value) => head + (height - head) * (1 - value / most);
  const every = Math.ceil(bars.length / 10);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height + foot}" font-family="system-ui, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fffdfa"/>
<text x="${left}" y="18" fill="#2b1a17" font-size="14">${title}</text>
<rect x="${width - 220}" y="8" width="12" height="12" fill="#c5283d"/><text x="${width - 202}" y="18" fill="#70574f">measured</text>
<line x1="${width - 120}" x2="${width - 104}" y1="14" y2="14" stroke="#8a5a0b" stroke-width="2"/><text x="${width - 98}" y="18" fill="#70574f">published</text>
${bars.map((value, i) => `<rect x="${(left + i * step + 1).toFixed(1)}" y="${y(value).toFixed(1)}" width="${(step - 2).toFixed(1)}" height="${(height - y(value)).toFixed(1)}" fill="#c5283d"/>`).join('\n')}
<polyline fill="none" stroke="#8a5a0b" stroke-width="2" points="${line.map((value, i) => `${(left + (i + 0.5) * step).toFixed(1)},${y(value).toFixed(1)}`).join(' ')}"/>
<line x1="${left}" x2="${width}" y1="${height}" y2="${height}" stroke="#bda59a"/>
${[0.25, 0.5, 0.75, 1].map((part) => `<text x="${left - 8}" y="${(y((most / 1.08) * part) + 4).toFixed(1)}" text-anchor="end" fill="#70574f">${((most / 1.08) * part * 100).toFixed(1)} %</text>`).join('\n')}
${names.map((name, i) => (i % every === 0 ? `<text x="${(left + (i + 0.5) * step).toFixed(1)}" y="${height + 18}" text-anchor="middle" fill="#70574f">${name}</text>` : '')).filter(Boolean).join('\n')}
</svg>
`;
}

const images = new URL('../../docs/images/', import.meta.url);
const share = (/** @type {number[]} */ counts, /** @type {number} */ all) => counts.map((count) => count / all);
const edges = measured.map((_, i) => String(i * BIN));
await writeFile(new URL('fairness-amounts.svg', images), chart('Amounts of slips, 100.00 in 10', edges, share(measured, drawn), share(published, drawn)));
const places = best.map((_, i) => String(i + 1));
await writeFile(new URL('fairness-places.svg', images), chart('Best luck by place in the queue', places, share(best, clear), places.map(() => 1 / COUNT)));
