// Red packets in a chat whose users have no tokens. They write "/send 8800 5", or "/send 8800 5 60s" for a minute, and
// "/grab <packet>". Coins are the chat's money.
import { createServer } from 'node:http';

import { Hongbao, Problem } from 'hongbao-client';
import { WebhookError, verify } from 'hongbao-client/webhooks';

const { HONGBAO_URL = 'http://127.0.0.1:3000', HONGBAO_WEBHOOK_SECRET: SECRET, PORT = '8080' } = process.env;
// On AWS: a fetch that signs with Signature Version 4, such as aws4fetch's.
const operator = new Hongbao({ baseUrl: HONGBAO_URL, fetch: globalThis.fetch });
const isRefusal = (error) => error instanceof Problem && [400, 402, 403].includes(error.status);

// Your tables.
const coins = new Map([['ann', 20000]]);
const transfers = new Map();

// Transaction: the coins leave and the transfer is written, or neither happens. The same id is the same transfer.
function begin(id, kind, user, amount) {
  if (transfers.has(id)) return true;
  const own = coins.get(user) ?? 0;
  if (kind === 'in' && own < amount) return false;
  if (kind === 'in') coins.set(user, own - amount);
  transfers.set(id, { kind, user, amount, state: 'pending' });
  return true;
}

// Transaction: the state and the coins change together, once.
function finish(transfer, state) {
  if (transfer.state !== 'pending') return;
  const getsCoins = transfer.kind === 'in' ? state === 'refused' : state === 'done';
  if (getsCoins) coins.set(transfer.user, (coins.get(transfer.user) ?? 0) + transfer.amount);
  transfer.state = state;
}

async function carryOut(id) {
  const transfer = transfers.get(id);
  const { kind, user, amount, state } = transfer;
  if (state !== 'pending') return state;
  try {
    await (kind === 'in' ? operator.deposit(user, id, amount) : operator.withdraw(user, id, amount));
    finish(transfer, 'done');
  } catch (error) {
    // A deposit that is refused is final. After any other error the outcome is unknown, so the transfer stays pending.
    if (kind === 'in' && isRefusal(error)) finish(transfer, 'refused');
  }
  return transfer.state;
}
// A worker: it repeats what a crash or a lost answer has left pending.
setInterval(() => [...transfers.keys()].forEach(carryOut), 60_000).unref();

// The message's id names the deposit and the send: if the chat delivers the message again, it counts once.
async function send({ id, user }, total, count, seconds) {
  if (transfers.has(`back-${id}`)) return 'refused';
  if (!begin(`in-${id}`, 'in', user, total)) return 'not enough coins';
  if ((await carryOut(`in-${id}`)) !== 'done') return 'not now';
  try {
    const body = { split: 'random', total_amount: total, count, expires_in_s: seconds, reference: `chat:${id}` };
    const { packet } = await operator.forUser(user).send(body, { key: id });
    return `${user} sends a packet: /grab ${packet.packet_id}`;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    begin(`back-${id}`, 'out', user, total);
    await carryOut(`back-${id}`);
    return `refused: ${error.errors.map(({ reason }) => reason).join('; ') || error.message}`;
  }
}

// It pays nothing: the coins come with SlipClaimed.
async function grab({ user }, packetId) {
  const result = await operator.forUser(user).grab(packetId);
  if (result.outcome === 'grabbed') return `${user} gets ${result.amount}`;
  if (result.outcome === 'not_started') return `wait until ${result.starts_at}`;
  return 'too late'; // Sold out, expired, or an outcome of a later version: no slip.
}

// Who gets coins for an event. The id is made from the event, which may come twice: it is paid once.
const PAYMENTS = {
  SlipClaimed: ({ packet_id, slip, user_id, amount }) => [`claim-${packet_id}-${slip}`, 'out', user_id, amount],
  PacketRefunded: ({ packet_id, sender_id, refunded_amount }) => [`refund-${packet_id}`, 'out', sender_id, refunded_amount],
};

async function onEvent({ type, data }) {
  const payment = PAYMENTS[type]?.(data);
  if (!payment) return true;
  begin(...payment);
  return (await carryOut(payment[0])) === 'done';
}

async function answer(path, headers, body) {
  // After a 503 the engine delivers the event again.
  if (path === '/webhooks') return (await onEvent(await verify(SECRET, headers, body))) ? [204] : [503];
  const message = JSON.parse(body.toString());
  const [, total, count, seconds = 86400] = /^\/send (\d+) (\d+)(?: (\d+)s)?$/.exec(message.text) ?? [];
  if (total) return [200, await send(message, Number(total), Number(count), Number(seconds))];
  const [, packetId] = /^\/grab (\w+)$/.exec(message.text) ?? [];
  if (packetId) return [200, await grab(message, packetId)];
  return [200, `${message.user} has ${coins.get(message.user) ?? 0} coins`];
}

const server = createServer(async (request, response) => {
  const chunks = [];
  try {
    for await (const chunk of request) chunks.push(chunk);
    const [status, text] = await answer(request.url, request.headers, Buffer.concat(chunks));
    response.writeHead(status).end(text);
  } catch (error) {
    const isFinal = error instanceof Problem && error.status < 429;
    response.writeHead(error instanceof WebhookError ? 401 : isFinal ? 200 : 503).end(error.message);
  }
});
server.listen(Number(PORT), '127.0.0.1', () => console.log(`the chat listens at http://127.0.0.1:${server.address().port}`));
