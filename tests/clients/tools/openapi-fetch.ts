import createClient from 'openapi-fetch';
import type { paths } from './generated';
import { run } from './walk';

const client = createClient<paths>({ baseUrl: process.argv[2] });
const as = (user: string) => ({ headers: { 'X-User-Id': user } });

function got<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

async function send(user: string, key: string, total: number, count: number) {
  const params = { header: { 'Idempotency-Key': key } };
  return client.POST('/packets', { ...as(user), params, body: { split: 'equal', total_amount: total, count } });
}

void run({
  async deposit(user_id, deposit_id, amount) {
    return got(await client.PUT('/wallets/{user_id}/deposits/{deposit_id}', { params: { path: { user_id, deposit_id } }, body: { amount } })).balance;
  },
  send: async (...packet) => got(await send(...packet)).packet_id,
  async grab(user, packet_id) {
    const result = got(await client.POST('/packets/{packet_id}/grab', { ...as(user), params: { path: { packet_id } } }));
    return result.outcome === 'grabbed' ? result.amount : result.outcome;
  },
  async packet(user, packet_id) {
    const { status, mine, best } = got(await client.GET('/packets/{packet_id}', { ...as(user), params: { path: { packet_id } } }));
    return { status, mine: mine?.amount, best: best?.amount };
  },
  async claims(user, packet_id, cursor) {
    const query = { limit: 2, ...(cursor && { cursor }) };
    const page = got(await client.GET('/packets/{packet_id}/claims', { ...as(user), params: { path: { packet_id }, query } }));
    return { users: page.claims.map((claim) => claim.user_id), next: page.next_cursor };
  },
  async movements(user_id) {
    const { movements } = got(await client.GET('/wallets/{user_id}/movements', { params: { path: { user_id } } }));
    return { kinds: movements.map((one) => one.kind).sort(), sum: movements.reduce((sum, one) => sum + one.amount, 0) };
  },
  async refusal(user) {
    const { error } = await send(user, 'walk-2', 500, 1);
    return error && 'code' in error ? error.code : 'none';
  },
});
