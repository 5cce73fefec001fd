// Tests of an app against the sandbox.
//
// npm install --save-dev vitest "$(npm pack --silent ./clients/js)"
// HONGBAO_PROGRAM=target/local/hongbao npx vitest run

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

import { Hongbao, type SendRequest } from 'hongbao-client';
import { verify } from 'hongbao-client/webhooks';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const DAY = 86_400;

/** The app: it pays coins to winners and to senders of what came back. Yours would stand here. */
const app = { coins: {} as Record<string, number>, events: new Set<string>(), refusals: 0 };
const receiver = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const event = await verify(SECRET, request.headers, Buffer.concat(chunks).toString());
  const pay = (user: string, amount: number) => (app.coins[user] = (app.coins[user] ?? 0) + amount);
  if (app.refusals-- > 0) return response.writeHead(500).end();
  if (!app.events.has(event.id)) {
    app.events.add(event.id);
    if (event.type === 'SlipClaimed') pay(event.data.user_id, event.data.amount);
    if (event.type === 'PacketRefunded') pay(event.data.sender_id, event.data.refunded_amount);
  }
  return response.writeHead(204).end();
});

async function startSandbox(...flags: string[]) {
  const program = process.env['HONGBAO_PROGRAM'] ?? 'target/local/hongbao';
  const child = spawn(program, ['sandbox', '--exit-with-parent', '--seed', '42', '--port', '0', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  let url = '';
  for await (const line of createInterface({ input: child.stdout })) {
    url = /ready at (\S+)/.exec(line)?.[1] ?? '';
    if (url) break;
  }
  const own = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${url}/_local/${path}`, { method, ...(body && { body: JSON.stringify(body) }) });
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as { now: string };
  };
  return {
    operator: new Hongbao({ baseUrl: url }),
    as: (user: string) => new Hongbao({ baseUrl: url, headers: () => ({ 'X-User-Id': user }) }),
    now: async () => Date.parse((await own('GET', 'clock')).now),
    /** Moves the clock. It returns once all that became due is settled and delivered. */
    advance: (seconds: number) => own('POST', 'clock', { advance_s: seconds }),
    reset: () => own('POST', 'reset'),
    /** From now on these faults happen, and no others. */
    fail: (...faults: { faults: string; route?: string; user_id?: string; times?: number }[]) => own('PUT', 'faults', faults),
    stop: async () => {
      child.kill();
      await once(child, 'exit');
    },
  };
}

let sandbox: Awaited<ReturnType<typeof startSandbox>>;
beforeAll(async () => {
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const webhooks = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/webhooks`;
  sandbox = await startSandbox('--webhook-url', webhooks, '--webhook-secret', SECRET);
});
afterAll(async () => {
  await sandbox.stop();
  receiver.close();
});
beforeEach(async () => {
  await sandbox.reset();
  Object.assign(app, { coins: {}, events: new Set(), refusals: 0 });
});

async function send(terms: Partial<SendRequest> = {}, { operator, as } = sandbox) {
  await operator.deposit('alice', 'deposit-1', 1_000);
  const { packet } = await as('alice').send({ split: 'equal', total_amount: 900, count: 3, ...terms }, { key: 'packet-1' });
  return packet.packet_id;
}

test('a packet that starts tomorrow', async () => {
  const packet = await send({ starts_at: new Date((await sandbox.now()) + DAY * 1_000).toISOString() });
  expect((await sandbox.as('bob').grab(packet)).outcome).toBe('not_started');
  await sandbox.advance(DAY);
  expect((await sandbox.as('bob').grab(packet)).outcome).toBe('grabbed');
});

test('a packet that expires', async () => {
  const packet = await send({ expires_in_s: DAY });
  await sandbox.advance(DAY);
  expect((await sandbox.as('bob').grab(packet)).outcome).toBe('expired');
});

test('a refund', async () => {
  const packet = await send({ expires_in_s: DAY });
  await sandbox.as('bob').grab(packet);
  await sandbox.advance(DAY);
  expect((await sandbox.as('alice').packet(packet)).refunded_amount).toBe(600);
  expect(app.coins).toEqual({ bob: 300, alice: 600 });
});

test('a webhook that is refused twice', async () => {
  app.refusals = 2;
  const packet = await send({ expires_in_s: DAY });
  await sandbox.as('bob').grab(packet);
  await sandbox.advance(0);
  expect(app.coins).toEqual({});
  for (const _ of [1, 2, 3]) await sandbox.advance(3_600);
  expect(app.coins, 'it came again, and counts once').toEqual({ bob: 300 });
});

test('one lost answer', async () => {
  const packet = await send();
  await sandbox.fail({ faults: 'lose-answers=1', user_id: 'bob', times: 1 });
  // The client repeats the grab, and gets the answer of the first one.
  expect(await sandbox.as('bob').grab(packet)).toMatchObject({ outcome: 'grabbed', replayed: true });
});

test('many lost answers', async () => {
  const faulty = await startSandbox('--faults', 'lose-answers=0.3,503=0.2');
  try {
    // The client repeats what got no answer.
    const packet = await send({}, faulty);
    for (const user of ['bob', 'carol', 'dave', 'erin']) await faulty.as(user).grab(packet);
    const balances = ['alice', 'bob', 'carol', 'dave', 'erin'].map(async (user) => (await faulty.as(user).wallet()).balance);
    expect(await Promise.all(balances), 'whatever was repeated counts once').toEqual([100, 300, 300, 300, 0]);
  } finally {
    await faulty.stop();
  }
}, 30_000);
