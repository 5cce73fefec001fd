// The JavaScript client signs tickets as the vectors have them.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';

import { signTicket } from '../../clients/js/tickets.js';

const { signed } = JSON.parse(await readFile(new URL('../tickets.json', import.meta.url), 'utf8'));

for (const { name, key, ticket, now, token } of signed) {
  test(`a ticket is signed as in the vectors: ${name}`, async () => {
    assert.equal(await signTicket(key, ticket, { now: now * 1_000 + 999 }), token);
  });
}

test('a key or a ticket that can not be used is refused', async () => {
  const [{ key, ticket }] = signed;
  const short = Buffer.alloc(31, 1).toString('base64url');
  for (const bad of [{ ...key, kid: undefined }, { ...key, kty: 'RSA' }, { ...key, k: undefined }, { ...key, k: short }, { kty: 'OKP', crv: 'Ed25519', kid: 'a', x: 'AA' }]) {
    await assert.rejects(signTicket(bad, ticket), TypeError);
  }
  const scopes = [{ packet: undefined }, { reference: 'nye' }, { packet: undefined, reference: 'nye' }, { packet: undefined, sender: 'alice' }];
  for (const change of [...scopes, { expiresInS: 86_401 }, { expiresInS: 0 }, { expiresInS: Number.NaN }, { expiresInS: 0.9 }, { expiresInS: '60' }]) {
    await assert.rejects(signTicket(key, { ...ticket, ...change }), TypeError);
  }
});

test('a ticket that the engine would refuse is not signed', async () => {
  const [{ key, ticket }] = signed;
  const [now, ofSeveral] = [1_800_000_000_000, { user: 'bob', sender: 'alice', reference: 'nye' }];
  const users = [undefined, null, '', 7].map((user) => ({ ...ticket, user }));
  const scopes = [null, '', 7, ['a']].flatMap((bad) => [{ ...ticket, packet: bad }, { ...ofSeveral, sender: bad }, { ...ofSeveral, reference: bad }]);
  const turns = [Number.NaN, Number.POSITIVE_INFINITY, '1800000000', null, -1, 1_800_003_600, 1_800_090_000].map((notBefore) => ({ ...ticket, notBefore }));
  for (const bad of [...users, ...scopes, ...turns]) {
    await assert.rejects(signTicket(key, /** @type {any} */ (bad), { now }), TypeError, JSON.stringify(bad));
  }
});

test('the times of a ticket are whole seconds', async () => {
  const [{ key, ticket }] = signed;
  const token = await signTicket(key, { ...ticket, expiresInS: 60.7, notBefore: 1_800_000_030.9 }, { now: 1_800_000_000_999 });
  const { iat, exp, nbf } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  assert.deepEqual([iat, exp, nbf], [1_800_000_000, 1_800_000_060, 1_800_000_030]);
});
