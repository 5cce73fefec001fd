// The check of webhooks in JavaScript, on the cases that the Rust client passes too.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { WebhookError, verify } from '../../clients/js/webhooks.js';

/** @typedef {{name: string, secret: string, headers: Record<string, string>, body: string, now: number, outcome: string}} Case */
/** @type {Case[]} */
const cases = JSON.parse(await readFile(new URL('webhooks.json', import.meta.url), 'utf8'));

/** @param {Case} one */
async function outcome({ secret, headers, body, now }) {
  try {
    return (await verify(secret, headers, body, { now: now * 1_000 })).type;
  } catch (error) {
    if (error instanceof WebhookError) return error.reason;
    assert.ok(error instanceof TypeError, String(error));
    return 'secret';
  }
}

test('each case has its outcome', async () => {
  assert.ok(cases.length > 25);
  for (const one of cases) assert.equal(await outcome(one), one.outcome, one.name);
});

test('the headers may be those of fetch or of Node, and the body bytes', async () => {
  const { secret, headers, body, now } = /** @type {Case} */ (cases.find(({ name }) => name === 'an event'));
  const bytes = new TextEncoder().encode(body);
  const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
  const expected = { id: headers['webhook-id'], ...JSON.parse(body) };
  for (const given of [headers, new Headers(headers), upper, { ...headers, 'set-cookie': ['a', 'b'], host: undefined }]) {
    assert.deepEqual(await verify(secret, given, bytes, { now: now * 1_000 }), expected);
  }
  assert.deepEqual(await verify(secret, headers, Buffer.from(body), { now: now * 1_000 }), expected);
  await assert.rejects(verify(secret, headers, body), { reason: 'timestamp' }, 'without `now` it reads the clock');
});

test('15. a secret is read however base64 is spelt, or refused with the reason and not shown', async () => {
  /** @type {{name: string, secret: string, base64?: string, refused?: string}[]} */
  const secrets = JSON.parse(await readFile(new URL('secrets.json', import.meta.url), 'utf8'));
  assert.ok(secrets.length > 25);
  const now = 1_614_265_330;
  const body = '{"type":"PacketThawed","timestamp":"2021-02-25T15:02:10.000Z","data":{}}';
  for (const { name, secret, base64, refused } of secrets) {
    const key = Buffer.from(base64 ?? 'x', 'base64');
    const signature = createHmac('sha256', key).update(`evt_1.${now}.${body}`).digest('base64');
    const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(now), 'webhook-signature': `v1,${signature}` };
    const verified = verify(secret, headers, body, { now: now * 1_000 });
    if (!refused) assert.equal((await verified).id, 'evt_1', name);
    else {
      await assert.rejects(verified, (error) => {
        assert.ok(error instanceof TypeError, name);
        if (secret.length > 12) assert.ok(!error.message.includes(secret.slice(6, 12)), name);
        return true;
      });
    }
  }
});
