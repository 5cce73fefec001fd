// Uses the client's types as an application in TypeScript does. It is compiled, not run.

import { Hongbao, PROBLEM_CODES, Problem, Unreachable, newKey } from '../../clients/js/hongbao.js';
import type { GrabResult, Packet, ProblemCode, SendRequest } from '../../clients/js/hongbao.js';

const client = new Hongbao({ baseUrl: 'http://127.0.0.1:3000', headers: () => ({ Authorization: 'Bearer …' }) });
const body: SendRequest = { split: 'random', total_amount: 10_000, count: 10 };
// @ts-expect-error: there is no such split.
const wrong: SendRequest = { split: 'fair', total_amount: 10_000, count: 10 };

export async function use(): Promise<string> {
  const { packet, replayed } = await client.send(body, { key: newKey() });
  // @ts-expect-error: without a key, a retried send could move money twice.
  void client.send(wrong, {});
  const result: GrabResult = await client.grab(packet.packet_id, { passphrase: '…' });
  switch (result.outcome) {
    case 'grabbed':
      return `${result.amount} ${result.replayed || replayed}`;
    case 'sold_out':
    case 'expired':
    case 'closed':
    case 'limit_reached':
      // @ts-expect-error: a loser has no amount.
      return String(result.amount);
    case 'not_started':
      return `again in ${result.retry_after_ms} ms`;
    default:
      // An outcome of a later version.
      return 'no slip';
  }
}

/** The operator of an app without user tokens. */
export async function actForUsers(operator: Hongbao): Promise<string | null> {
  const bob = operator.forUser('bob');
  const { packet } = await bob.send({ ...body, cover: 'spring', reference: 'order-17', metadata: { channel: 'app' } }, { key: newKey() });
  // @ts-expect-error: metadata has only texts.
  void bob.send({ ...body, metadata: { channel: 7 } }, { key: newKey() });
  await bob.grab(packet.packet_id);
  const found = await operator.findPackets('order-17', { limit: 1 });
  const any = await operator.anyPacket(packet.packet_id);
  // @ts-expect-error: the reference is shown to some viewers only, and may be null.
  void any.reference.length;
  return found.packets[0]?.cover ?? any.now ?? null;
}

/** An evening of several packets, of which a user wins at most two. */
export async function evening(operator: Hongbao): Promise<number> {
  const { packet } = await operator.forUser('alice').send({ ...body, reference: 'nye', limit: { key: 'nye', wins: 2 } }, { key: newKey() });
  // @ts-expect-error: a limit has a key.
  void operator.forUser('alice').send({ ...body, limit: { wins: 2 } }, { key: newKey() });
  // @ts-expect-error: a packet may have no limit.
  void packet.limit.wins_left;
  for await (const claim of operator.allReportedClaims('alice', { limitKey: 'nye' })) console.log(claim.metadata?.['round'], claim.amount);
  const { packets, undecided_amount } = await operator.closeReference('alice', 'nye', 'the evening is over');
  const { claims } = await operator.reportClaims('alice', { reference: 'nye', limit: 1 });
  const { name, text } = await operator.claimsSheet('alice', { reference: 'nye' });
  return packets.length + undecided_amount + claims.length + name.length + text.length + (await operator.reference('alice', 'nye')).users;
}

// @ts-expect-error: the codes are a closed list, and this is none.
export const code: ProblemCode = 'bots-not-allowed';

export function read(error: unknown, packet: Packet): number {
  if (error instanceof Problem) return PROBLEM_CODES.indexOf(error.code);
  if (error instanceof Unreachable) return -1;
  // @ts-expect-error: the seed is null while the packet is open.
  return packet.seed.length;
}
