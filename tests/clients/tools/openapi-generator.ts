import { Configuration, PacketsApi, ResponseError, WalletsApi } from './generated';
import { run } from './walk';

const basePath = process.argv[2] ?? '';
const wallets = new WalletsApi(new Configuration({ basePath }));
const as = (user: string) => new PacketsApi(new Configuration({ basePath, headers: { 'X-User-Id': user } }));

async function send(user: string, idempotencyKey: string, totalAmount: number, count: number): Promise<string> {
  return (await as(user).sendPacket({ idempotencyKey, sendRequest: { split: 'equal', totalAmount, count } })).packetId;
}

void run({
  deposit: async (userId, depositId, amount) => (await wallets.deposit({ userId, depositId, movementRequest: { amount } })).balance,
  send,
  async grab(user, packetId) {
    const result = await as(user).grabPacket({ packetId });
    return result.outcome === 'grabbed' ? result.amount : result.outcome;
  },
  async packet(user, packetId) {
    const { status, mine, best } = await as(user).getPacket({ packetId });
    return { status, mine: mine?.amount, best: best?.amount };
  },
  async claims(user, packetId, cursor) {
    const page = await as(user).listPacketClaims({ packetId, limit: 2, ...(cursor && { cursor }) });
    return { users: page.claims.map((claim) => claim.userId), next: page.nextCursor };
  },
  async movements(userId) {
    const { movements } = await wallets.listMovements({ userId });
    return { kinds: movements.map((one) => one.kind).sort(), sum: movements.reduce((sum, one) => sum + one.amount, 0) };
  },
  async refusal(user) {
    try {
      return await send(user, 'walk-2', 500, 1);
    } catch (error) {
      if (!(error instanceof ResponseError)) throw error;
      return (await error.response.json()).code;
    }
  },
});
