// The page's split, compared with the published vectors and with the engine's split of many random packets.

import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

import { SplitError, chacha20Block, commitment, seedFromHex, split, toHex, verify } from '../../web/assets/split.js';

/** @typedef {{version: number, split: 'random' | 'equal', total: string, count: number, cap: string, seed: string, commitment: string, amounts: string[]}} Vector */

/** @param {Vector} vector */
function terms({ version, split: kind, total, count, cap, seed }) {
  return { version, split: kind, total: BigInt(total), count, cap: BigInt(cap), seed: seedFromHex(seed) };
}

/** @param {DataView} block */
const hexOf = (block) => toHex(new Uint8Array(block.buffer));

test('the keystream follows RFC 8439', () => {
  // Section 2.3.2.
  const key = Uint8Array.from({ length: 32 }, (_, i) => i);
  const nonce = Uint8Array.from([0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0]);
  assert.equal(
    hexOf(chacha20Block(key, 1, nonce)),
    '10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e',
  );
  // Appendix A.1, test vectors 1 and 2.
  const zero = new Uint8Array(32);
  assert.equal(
    hexOf(chacha20Block(zero, 0, new Uint8Array(12))),
    '76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586',
  );
  assert.equal(
    hexOf(chacha20Block(zero, 1, new Uint8Array(12))),
    '9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f',
  );
});

test('the vectors of docs/FAIRNESS.md hold', async () => {
  const document = await readFile(new URL('../../docs/FAIRNESS.md', import.meta.url), 'utf8');
  const block = /```jsonl\n([\s\S]*?)```/.exec(document)?.[1] ?? '';
  const vectors = block.trim().split('\n').map((line) => /** @type {Vector} */ (JSON.parse(line)));
  assert.equal(vectors.length, 10);
  for (const vector of vectors) {
    assert.deepEqual(split(terms(vector)).map(String), vector.amounts);
    assert.equal(await commitment(terms(vector)), vector.commitment);
  }
});

const from = process.env['SPLIT_VECTORS'];

test('the engine and the page agree on every random packet', { skip: from ? false : 'SPLIT_VECTORS names no file' }, async () => {
  let [packets, slips, long, redrawn] = [0, 0, 0, 0];
  for await (const line of createInterface({ input: createReadStream(/** @type {string} */ (from)) })) {
    /** @type {Vector} */
    const vector = JSON.parse(line);
    assert.deepEqual(split(terms(vector)).map(String), vector.amounts, line.slice(0, 300));
    assert.equal(await commitment(terms(vector)), vector.commitment);
    packets += 1;
    slips += vector.count;
    long += Number(vector.count > 64);
    redrawn += Number(BigInt(vector.total) > 1n << 60n);
  }
  console.log(`${packets} packets, ${slips} slips, ${long} of more than 64 slips, ${redrawn} of more than 2^60`);
  assert.ok(packets >= 10_000 && long > 0 && redrawn > 0, 'there are enough packets of each kind');
});

test('a commitment binds every term', async () => {
  const terms = { version: 1, split: /** @type {const} */ ('random'), total: 100n, count: 10, cap: 20n, seed: new Uint8Array(32) };
  const others = [{}, { version: 2 }, { split: /** @type {const} */ ('equal') }, { total: 101n }, { count: 11 }, { cap: 21n }, { seed: new Uint8Array(32).fill(255) }];
  const commitments = await Promise.all(others.map((other) => commitment({ ...terms, ...other })));
  assert.equal(new Set(commitments).size, others.length);
});

test('terms that can not be split are refused', () => {
  const seed = new Uint8Array(32);
  const good = { version: 1, split: /** @type {const} */ ('random'), total: 10n, count: 2, cap: 5n, seed };
  assert.equal(split(good).length, 2);
  for (const [change, reason] of /** @type {const} */ ([
    [{ total: 1n }, 'too-little'],
    [{ count: 0 }, 'too-little'],
    [{ total: 11n }, 'too-much'],
    [{ version: 2 }, 'version'],
    [{ seed: new Uint8Array(31) }, 'seed'],
  ])) {
    assert.throws(() => split({ ...good, ...change }), (error) => error instanceof SplitError && error.reason === reason);
  }
  assert.throws(() => seedFromHex('00'), SplitError);
});

test('every difference between the committed split and the claims is noticed', async () => {
  const terms = { version: 1, split: /** @type {const} */ ('random'), total: 10_000n, count: 10, cap: 20_000n, seed: Uint8Array.from({ length: 32 }, (_, i) => i) };
  const fixed = await commitment(terms);
  const claims = split(terms).slice(0, 9).map((amount, slip) => ({ user_id: `u${slip}`, slip, amount: Number(amount) }));
  const books = { claimed_count: 9, claimed_amount: 8_791, refunded_amount: 1_209, status: 'settled' };
  assert.equal((await verify(terms, fixed, claims, books)).fair, true);
  const paid = (/** @type {number} */ slip, /** @type {object} */ change) => claims.map((claim) => (claim.slip === slip ? { ...claim, ...change } : claim));
  for (const [name, verdict] of Object.entries({
    commitment: verify(terms, '0'.repeat(64), claims, books),
    seed: verify({ ...terms, seed: new Uint8Array(32) }, fixed, claims, books),
    cap: verify({ ...terms, cap: 20_001n }, fixed, claims, books),
    amount: verify(terms, fixed, paid(3, { amount: 301 }), { ...books, claimed_amount: 8_792 }),
    swapped: verify(terms, fixed, paid(3, { amount: 448 }).map((claim) => (claim.slip === 4 ? { ...claim, amount: 300 } : claim)), books),
    slip: verify(terms, fixed, paid(3, { slip: 10 }), books),
    missing: verify(terms, fixed, claims.slice(1), books),
    twice: verify(terms, fixed, [...claims, ...claims.slice(0, 1)], { ...books, claimed_count: 10 }),
    refund: verify(terms, fixed, claims, { ...books, refunded_amount: 1_208 }),
    // Cases that only one check notices: a claim withheld before the end, and listed claims without an amount.
    kept: verify(terms, fixed, claims.slice(1), { ...books, claimed_amount: 8_751, status: 'expired' }),
    emptyTwice: verify(terms, fixed, [{ user_id: 'x', slip: 0, amount: 0 }, ...claims], { ...books, claimed_count: 10 }),
    emptyBeyond: verify(terms, fixed, [...claims, { user_id: 'x', slip: 10, amount: 0 }], { ...books, claimed_count: 10 }),
    sum: verify(terms, fixed, claims, { ...books, claimed_amount: 8_790 }),
  })) {
    assert.equal((await verdict).fair, false, name);
  }
});
