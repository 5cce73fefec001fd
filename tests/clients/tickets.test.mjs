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
  for (const bad of [{ ...key, kid: undefined }, { ...key, kty: 'RSA' }, { ...key, k: undefined }, { kty: 'OKP', crv: 'Ed25519', kid: 'a', x: 'AA' }]) {
    await assert.rejects(signTicket(bad, ticket), TypeError);
  }
  const scopes = [{ packet: undefined }, { reference: 'nye' }, { packet: undefined, reference: 'nye' }, { packet: undefined, sender: 'alice' }];
  for (const change of [...scopes, { expiresInS: 86_401 }, { expiresInS: 0 }, { expiresInS: Number.NaN }]) {
    await assert.rejects(signTicket(key, { ...ticket, ...change }), TypeError);
  }
});
