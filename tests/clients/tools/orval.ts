import { deposit, getPacket, grabPacket, listMovements, listPacketClaims, sendPacket } from './generated/client';
import * as zod from './generated/zod';
import { run } from './walk';

const as = (user: string) => ({ headers: { 'X-User-Id': user } });

function got<A extends { status: number; data: unknown }, S extends A['status']>(answer: A, ...expected: S[]): Extract<A, { status: S }>['data'] {
  if (!expected.some((status) => status === answer.status)) throw new Error(JSON.stringify(answer));
  return answer.data;
}

function send(user: string, key: string, total: number, count: number) {
  const body = zod.sendPacketBody.parse({ split: 'equal', total_amount: total, count });
  return sendPacket(body, { headers: { 'Idempotency-Key': key, 'X-User-Id': user } });
}

void run({
  deposit: async (user, id, amount) => got(await deposit(user, id, { amount }), 200, 201).balance,
  send: async (...packet) => got(await send(...packet), 200, 201).packet_id,
  async grab(user, packet) {
    const result = got(await grabPacket(packet, {}, as(user)), 200);
    zod.grabPacketResponse.parse(result);
    return result.outcome === 'grabbed' ? result.amount : result.outcome;
  },
  async packet(user, packet) {
    const { status, mine, best } = zod.getPacketResponse.parse(got(await getPacket(packet, as(user)), 200));
    return { status, mine: mine?.amount, best: best?.amount };
  },
  async claims(user, packet, cursor) {
    const page = got(await listPacketClaims(packet, { limit: 2, ...(cursor && { cursor }) }, as(user)), 200);
    return { users: page.claims.map((claim) => claim.user_id), next: page.next_cursor };
  },
  async movements(user) {
    const { movements } = zod.listMovementsResponse.parse(got(await listMovements(user), 200));
    return { kinds: movements.map((one) => one.kind).sort(), sum: movements.reduce((sum, one) => sum + one.amount, 0) };
  },
  refusal: async (user) => got(await send(user, 'walk-2', 500, 1), 402).code,
});
