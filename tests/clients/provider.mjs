// A small payment provider that confirms later: it accepts a transfer under the caller's own number, pays it or not after a while, and
// sends notices. What happens to a number depends on the seed and the number only, not on the order of requests.

import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

/** @typedef {{status: string, paid: number, afterMs: number, waits?: boolean, says?: object, code?: number}} Fate the last status, the fen that it pays, and when. If it `waits`, the payee may confirm it before. `says` replaces fields of its answers, `code` their status */
// No answer, and it accepts: before (lost), never (unheard), later (late). An answer that never ends (held), an error, or an old status (stale).
/** @typedef {'lost' | 'unheard' | 'held' | 'late' | 500 | 429 | 404 | 'stale'} Fault */
/** @typedef {{number: string, amount: number, attach: string, fate: Fate, isFinal: boolean}} Transfer */

const FAULTS = /** @type {Fault[]} */ (['lost', 'unheard', 'held', 'late', 500, 429, 404, 'stale']);

/** Returns a number from 0 to 1 that depends on the arguments only. @param {unknown[]} of */
export const chance = (...of) => createHash('sha256').update(of.join('/')).digest().readUInt32BE() / 2 ** 32;

export class Provider {
  /** The fen that it really paid, by number. @type {Map<string, number>} */
  paid = new Map();
  /** @type {Map<string, Transfer>} */
  transfers = new Map();
  /** How often each number was asked about. @type {Map<string, number>} */
  asked = new Map();
  /** What a test decides, by number. @type {Map<string, Fate>} */
  fates = new Map();
  /** How often each fault, and each last status, came. @type {Map<Fault | string, number>} */
  seen = new Map();
  #options;
  /** @type {Set<NodeJS.Timeout>} */
  #timers = new Set();
  #server = createServer(async (request, response) => {
    const number = /^\/transfers\/([0-9a-zA-Z]{1,32})$/.exec(request.url ?? '')?.[1];
    const known = this.transfers.get(number ?? '');
    if (request.method === 'GET') return response.writeHead(known ? 200 : 404).end(JSON.stringify(known ? this.#shown(known) : { code: 'no-such-number' }));
    const { amount, attach } = await read(request);
    if (request.method !== 'PUT' || !number || !(amount > 0) || !attach) return response.writeHead(400).end('{}');
    const turn = (this.asked.get(number) ?? 0) + 1;
    this.asked.set(number, turn);
    const fault = this.#faultOf(number, turn);
    if (fault) count(this.seen, fault);
    if (typeof fault === 'number') return response.writeHead(fault).end('{"status":"failed"}');
    if (fault === 'unheard') return request.socket.destroy();
    if (fault === 'late') this.#later(300, () => this.#accept(number, amount, attach));
    const transfer = fault === 'late' ? undefined : this.#accept(number, amount, attach);
    if (!transfer || fault === 'lost') return request.socket.destroy();
    if (fault === 'held') return undefined;
    if (transfer.amount !== amount) return response.writeHead(422).end('{"code":"number-reused"}');
    const { fate } = transfer;
    return response.writeHead(fate.code ?? 200).end(JSON.stringify({ ...this.#shown(transfer, fault === 'stale'), ...fate.says }));
  });

  /**
   * @param {unknown} seed
   * @param {{faults?: number, waitMs?: number, notices?: string, key?: string}} [options] the share of faults, how long it waits at most,
   *   where notices go, and the key that signs them
   */
  constructor(seed, { faults = 0, waitMs = 0, notices = '', key = '' } = {}) {
    this.#options = { seed, faults, waitMs, notices, key };
  }

  async start() {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    return `http://127.0.0.1:${port}`;
  }

  async stop() {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Its payee confirms a transfer. It is paid, if it still waits. @param {string} package_info */
  confirm(package_info) {
    const transfer = [...this.transfers.values()].find(({ number }) => packageOf(number) === package_info);
    if (!transfer || transfer.isFinal) return;
    Object.assign(transfer.fate, { status: 'paid', paid: transfer.amount });
    this.#decide(transfer);
  }

  /** @param {string} number @param {number} turn @returns {Fault | undefined} */
  #faultOf(number, turn) {
    const { seed, faults } = this.#options;
    if (chance(seed, number, turn, 'fault') >= faults) return undefined;
    return FAULTS[Math.floor(chance(seed, number, turn, 'which') * FAULTS.length)];
  }

  /** @param {string} number @param {number} amount @returns {Fate} */
  #fateOf(number, amount) {
    const { seed, waitMs } = this.#options;
    const [which, wait] = [chance(seed, number, 'fate'), chance(seed, number, 'wait')];
    // A third decides at once, a few take long. Half of the others wait for the payee.
    const afterMs = wait < 1 / 3 ? 0 : wait * waitMs * (wait > 0.97 ? 3 : 1);
    const waits = wait > 2 / 3;
    const part = Math.max(1, Math.floor(amount * chance(seed, number, 'part')));
    if (which < 0.12 && part < amount) return { status: 'partial', paid: part, afterMs, waits };
    if (which > 0.76) return { status: waits ? 'closed' : (['failed', 'cancelled', 'rejected'][Math.floor((which - 0.76) / 0.08)] ?? 'rejected'), paid: 0, afterMs, waits };
    return { status: 'paid', paid: amount, afterMs, waits };
  }

  /** @param {string} number @param {number} amount @param {string} attach */
  #accept(number, amount, attach) {
    const known = this.transfers.get(number);
    if (known) return known;
    const fate = this.fates.get(number) ?? this.#fateOf(number, amount);
    const transfer = { number, amount, attach, fate, isFinal: false };
    this.transfers.set(number, transfer);
    if (fate.afterMs > 0) this.#later(fate.afterMs, () => this.#decide(transfer));
    else this.#decide(transfer);
    return transfer;
  }

  /** The one place where it pays. @param {Transfer} transfer */
  #decide(transfer) {
    if (transfer.isFinal) return;
    const { number, fate } = transfer;
    transfer.isFinal = true;
    count(this.seen, fate.status);
    if (fate.paid > 0) this.paid.set(number, (this.paid.get(number) ?? 0) + fate.paid);
    const { seed, faults, notices, key } = this.#options;
    if (!notices) return;
    const [old, last] = [this.#shown(transfer, true), this.#shown(transfer)];
    const isFaulty = chance(seed, number, 'notice') < faults;
    const series = isFaulty ? [[], [last, last], [last, old]][Math.floor(chance(seed, number, 'series') * 3)] ?? [] : [old, last];
    series.forEach((notice, place) => this.#later(place * 30, () => send(notices, notice, key)));
  }

  /** What it says of a transfer. @param {Transfer} transfer @param {boolean} [isOld] as it was before the decision */
  #shown({ number, amount, attach, fate, isFinal }, isOld = false) {
    if (isFinal && !isOld) return { number, amount, attach, status: fate.status, paid_amount: fate.paid };
    const open = fate.waits ? { status: 'waiting', package_info: packageOf(number) } : { status: 'processing' };
    return { number, amount, attach, ...open, paid_amount: 0 };
  }

  /** @param {number} ms @param {() => void} action */
  #later(ms, action) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, ms);
    this.#timers.add(timer);
  }
}

/** What a payee opens to confirm a transfer. @param {string} number */
const packageOf = (number) => `package of ${number}`;

/** Returns what a request says, or {} if the caller was killed while it sent. @param {import('node:http').IncomingMessage} request @returns {Promise<any>} */
async function read(request) {
  const chunks = [];
  try {
    for await (const chunk of request) chunks.push(chunk);
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    return {};
  }
}

/** @param {Map<Fault | string, number>} seen @param {Fault | string} what */
const count = (seen, what) => seen.set(what, (seen.get(what) ?? 0) + 1);
/**
 * Signs what is sent, after the Standard Webhooks specification.
 * @param {string} body @param {string} key @param {number} [at] in milliseconds
 */
export function signed(body, key, at = Date.now()) {
  const [id, timestamp] = [crypto.randomUUID(), String(Math.floor(at / 1_000))];
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { method: 'POST', headers: { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }, body };
}

/** @param {string} url @param {object} notice @param {string} key */
const send = (url, notice, key) => fetch(url, signed(JSON.stringify(notice), key)).then((answer) => answer.arrayBuffer(), () => undefined);
