import { deposit, getPacket, grabPacket, listMovements, listPacketClaims, sendPacket } from './generated';
import { client } from './generated/client.gen';
import { zGrabResult, zPacket } from './generated/zod.gen';
import { run } from './walk';

client.setConfig({ baseUrl: process.argv[2] ?? '' });
const as = (user: string) => ({ headers: { 'X-User-Id': user } });
const sure = { throwOnError: true } as const;

function send(user: string, key: string, total: number, count: number) {
  return { body: { split: 'equal' as const, total_amount: total, count }, headers: { 'Idempotency-Key': key, 'X-User-Id': user } };
}

void run({
  async deposit(user_id, deposit_id, amount) {
    return (await deposit({ ...sure, path: { user_id, deposit_id }, body: { amount } })).data.balance;
  },
  send: async (...packet) => zPacket.parse((await sendPacket({ ...sure, ...send(...packet) })).data).packet_id,
  async grab(user, packet_id) {
    const { data } = await grabPacket({ ...sure, ...as(user), path: { packet_id } });
    zGrabResult.parse(data);
    return data.outcome === 'grabbed' ? data.amount : data.outcome;
  },
  async packet(user, packet_id) {
    const { status, mine, best } = (await getPacket({ ...sure, ...as(user), path: { packet_id } })).data;
    return { status, mine: mine?.amount, best: best?.amount };
  },
  async claims(user, packet_id, cursor) {
    const { data } = await listPacketClaims({ ...sure, ...as(user), path: { packet_id }, query: { limit: 2, ...(cursor && { cursor }) } });
    return { users: data.claims.map((claim) => claim.user_id), next: data.next_cursor };
  },
  async movements(user_id) {
    const { movements } = (await listMovements({ ...sure, path: { user_id } })).data;
    return { kinds: movements.map((one) => one.kind).sort(), sum: movements.reduce((sum, one) => sum + one.amount, 0) };
  },
  async refusal(user) {
    const { error } = await sendPacket(send(user, 'walk-2', 500, 1));
    return error && 'code' in error ? error.code : 'none';
  },
});
