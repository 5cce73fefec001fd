// The walk-through's calls, which each generated client makes in its own way.

export interface Walk {
  /** Puts money into a wallet, and returns the balance. */
  deposit(user: string, id: string, amount: number): Promise<number>;
  /** Sends a packet of equal slips, and returns its id. */
  send(user: string, key: string, total: number, count: number): Promise<string>;
  /** Grabs, and returns the amount that a winner got, or else the outcome. */
  grab(user: string, packet: string): Promise<number | string>;
  /** The packet's status, and what the user has of it. */
  packet(user: string, packet: string): Promise<{ status: string; mine: number | undefined; best: number | undefined }>;
  /** The users of a page of the packet's claims, and where the next page begins. */
  claims(user: string, packet: string, cursor?: string): Promise<{ users: string[]; next: string | null }>;
  /** The kinds of a user's movements, and their sum. */
  movements(user: string): Promise<{ kinds: string[]; sum: number }>;
  /** The code of the problem that a packet gets which the wallet can't pay. */
  refusal(user: string): Promise<string>;
}

function same(found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
}

export async function run(walk: Walk): Promise<void> {
  same(await walk.deposit('alice', 'walk-1', 1000), 1000);
  const packet = await walk.send('alice', 'walk-1', 600, 3);
  same(await walk.send('alice', 'walk-1', 600, 3), packet);
  for (const user of ['bob', 'carol', 'dave', 'bob']) same(await walk.grab(user, packet), 200);
  same(await walk.grab('eve', packet), 'sold_out');
  same(await walk.packet('bob', packet), { status: 'sold_out', mine: 200, best: 200 });
  same(await walk.packet('eve', packet), { status: 'sold_out', best: 200 });
  const first = await walk.claims('alice', packet);
  const rest = await walk.claims('alice', packet, first.next ?? undefined);
  same([first.users, rest.users, rest.next], [['bob', 'carol'], ['dave'], null]);
  same(await walk.movements('alice'), { kinds: ['deposit', 'sent'], sum: 400 });
  same(await walk.refusal('alice'), 'insufficient-balance');
  console.log('the walk-through works');
}
