// The provable split of docs/FAIRNESS.md: a second implementation, which shares no code with the engine's.

/** @typedef {'random' | 'equal'} Split */
/** @typedef {{version: number, split: Split, total: bigint, count: number, cap: bigint, seed: Uint8Array}} Terms */

/** The versions of the algorithm that this file knows. */
export const VERSIONS = Object.freeze([1]);

const WORD_BITS = 64n;
const WORDS = 1n << WORD_BITS;
const BLOCK_BYTES = 64;
const WORD_BYTES = 8;

/** The terms contradict each other, or their version is unknown. */
export class SplitError extends Error {
  /** @param {'version' | 'seed' | 'too-little' | 'too-much'} reason */
  constructor(reason) {
    super(reason);
    this.name = 'SplitError';
    this.reason = reason;
  }
}

/** @param {number} value @param {number} bits */
const rotate = (value, bits) => (value << bits) | (value >>> (32 - bits));

/** @param {Uint32Array} x @param {number} a @param {number} b @param {number} c @param {number} d */
function quarterRound(x, a, b, c, d) {
  // Each index is within the 16 words.
  const at = (/** @type {number} */ i) => /** @type {number} */ (x[i]);
  x[a] = at(a) + at(b);
  x[d] = rotate(at(d) ^ at(a), 16);
  x[c] = at(c) + at(d);
  x[b] = rotate(at(b) ^ at(c), 12);
  x[a] = at(a) + at(b);
  x[d] = rotate(at(d) ^ at(a), 8);
  x[c] = at(c) + at(d);
  x[b] = rotate(at(b) ^ at(c), 7);
}

/**
 * Returns a block of the ChaCha20 keystream (RFC 8439, section 2.3).
 * @param {Uint8Array} key 32 bytes
 * @param {number} counter
 * @param {Uint8Array} nonce 12 bytes
 */
export function chacha20Block(key, counter, nonce) {
  const state = new Uint32Array(16);
  state.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
  const words = (/** @type {Uint8Array} */ bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i < 8; i += 1) state[4 + i] = words(key).getUint32(4 * i, true);
  state[12] = counter;
  for (let i = 0; i < 3; i += 1) state[13 + i] = words(nonce).getUint32(4 * i, true);
  const x = state.slice();
  for (let round = 0; round < 10; round += 1) {
    quarterRound(x, 0, 4, 8, 12);
    quarterRound(x, 1, 5, 9, 13);
    quarterRound(x, 2, 6, 10, 14);
    quarterRound(x, 3, 7, 11, 15);
    quarterRound(x, 0, 5, 10, 15);
    quarterRound(x, 1, 6, 11, 12);
    quarterRound(x, 2, 7, 8, 13);
    quarterRound(x, 3, 4, 9, 14);
  }
  const block = new DataView(new ArrayBuffer(BLOCK_BYTES));
  for (let i = 0; i < 16; i += 1) block.setUint32(4 * i, /** @type {number} */ (x[i]) + /** @type {number} */ (state[i]), true);
  return block;
}

/**
 * Returns `below(bound)`, which draws a number from 0 to bound - 1 from the seed's keystream, by rejection sampling.
 * @param {Uint8Array} seed
 */
function drawer(seed) {
  const nonce = new Uint8Array(12);
  let counter = 0;
  let block = chacha20Block(seed, counter, nonce);
  let used = 0;
  const word = () => {
    if (used === BLOCK_BYTES) {
      counter += 1;
      block = chacha20Block(seed, counter, nonce);
      used = 0;
    }
    const value = block.getBigUint64(used, true);
    used += WORD_BYTES;
    return value;
  };
  return (/** @type {bigint} */ bound) => {
    const end = WORDS - (WORDS % bound);
    for (;;) {
      const value = word();
      if (value < end) return value % bound;
    }
  };
}

/**
 * Returns the amounts of all slips, in the order of the slips.
 * @param {Terms} terms
 * @returns {bigint[]}
 */
export function split({ version, split: kind, total, count, cap, seed }) {
  if (!VERSIONS.includes(version)) throw new SplitError('version');
  if (seed.length !== 32) throw new SplitError('seed');
  const slips = BigInt(count);
  if (slips < 1n || total < slips) throw new SplitError('too-little');
  if (total > slips * cap) throw new SplitError('too-much');
  const below = drawer(seed);
  const amounts = kind === 'equal' ? equal(total, slips) : random(total, slips, cap, below);
  for (let i = amounts.length - 1; i > 0; i -= 1) {
    const j = Number(below(BigInt(i) + 1n));
    [amounts[i], amounts[j]] = [/** @type {bigint} */ (amounts[j]), /** @type {bigint} */ (amounts[i])];
  }
  return amounts;
}

/** @param {bigint} total @param {bigint} slips */
function equal(total, slips) {
  const extra = total % slips;
  return Array.from({ length: Number(slips) }, (_, i) => total / slips + (BigInt(i) < extra ? 1n : 0n));
}

/** @param {bigint} total @param {bigint} slips @param {bigint} cap @param {(bound: bigint) => bigint} below */
function random(total, slips, cap, below) {
  const share = (/** @type {bigint} */ surplus, /** @type {bigint} */ left) => {
    const up = below(left) < (2n * surplus) % left ? 1n : 0n;
    return below((2n * surplus) / left + up + 1n);
  };
  const room = cap - 1n;
  const amounts = [];
  let surplus = total - slips;
  for (let left = slips; left > 1n; left -= 1n) {
    const high = 2n * surplus > left * room;
    const x = high ? room - share(left * room - surplus, left) : share(surplus, left);
    amounts.push(1n + x);
    surplus -= x;
  }
  amounts.push(1n + surplus);
  return amounts;
}

/**
 * Returns the commitment to these terms, in lower-case hex.
 * @param {Terms} terms
 */
export async function commitment({ version, split: kind, total, count, cap, seed }) {
  const name = new TextEncoder().encode(kind);
  const bytes = new Uint8Array(1 + 32 + 24 + name.length);
  const view = new DataView(bytes.buffer);
  bytes[0] = version;
  bytes.set(seed, 1);
  view.setBigUint64(33, total, true);
  view.setBigUint64(41, BigInt(count), true);
  view.setBigUint64(49, cap, true);
  bytes.set(name, 57);
  return toHex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
}

/** @param {Uint8Array} bytes */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {string} text 64 hex digits @returns {Uint8Array} */
export function seedFromHex(text) {
  if (!/^[0-9a-f]{64}$/i.test(text)) throw new SplitError('seed');
  return Uint8Array.from({ length: 32 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

/**
 * @typedef {object} Verdict
 * @property {boolean} committed Whether the seed and the terms give the packet's commitment.
 * @property {string} commitment The commitment that they give.
 * @property {{slip: number, amount: number, paid: number | null, user: string | null, ok: boolean}[]} slips
 * @property {boolean} complete Whether claims and refunds account for every slip.
 * @property {boolean} sums Whether claims and unclaimed slips sum to the total, and the refunds do not contradict the unclaimed slips.
 * @property {boolean} fair Whether all of the above hold and every claim has its slip's amount.
 */

/**
 * Checks a packet and its claims against its seed.
 * @param {Terms} terms
 * @param {string} committed
 * @param {{user_id: string, slip: number, amount: number}[]} claims
 * @param {{claimed_count: number, claimed_amount: number, refunded_amount: number, status: string}} books
 * @returns {Promise<Verdict>}
 */
export async function verify(terms, committed, claims, books) {
  const amounts = split(terms);
  const ours = await commitment(terms);
  const bySlip = new Map(claims.map((claim) => [claim.slip, claim]));
  const slips = amounts.map((big, slip) => {
    const claim = bySlip.get(slip);
    const amount = Number(big);
    return { slip, amount, paid: claim?.amount ?? null, user: claim?.user_id ?? null, ok: !claim || claim.amount === amount };
  });
  const sum = (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0);
  const paid = sum(claims.map((claim) => claim.amount));
  const unclaimed = sum(slips.filter((slip) => slip.user === null).map((slip) => slip.amount));
  const complete =
    bySlip.size === claims.length &&
    claims.every((claim) => claim.slip < amounts.length) &&
    claims.length === books.claimed_count;
  const refunded = books.status === 'settled' ? books.refunded_amount === unclaimed : books.refunded_amount <= unclaimed;
  const sums = paid === books.claimed_amount && refunded && paid + unclaimed === Number(terms.total);
  const isCommitted = ours === committed.toLowerCase();
  const fair = isCommitted && complete && sums && slips.every((slip) => slip.ok);
  return { committed: isCommitted, commitment: ours, slips, complete, sums, fair };
}
