// A client of the hongbao API, for browsers and Node. README.md says what it repeats, and what a later service may answer.

/** @typedef {import('./api.d.ts').components['schemas']} Schemas */
/** @typedef {typeof PROBLEM_CODES[number]} ProblemCode */
/** @typedef {Schemas['SendRequest']} SendRequest */
/** @typedef {Schemas['Packet']} Packet */
/** @typedef {Schemas['PacketClaims']} PacketClaims */
/** @typedef {Schemas['PacketClaim']} PacketClaim */
/** @typedef {Schemas['GrabResult']} GrabResult The outcomes so far; any other one is "no slip". */
/** @typedef {Schemas['Wallet']} Wallet */
/** @typedef {Schemas['Withdrawal']} Withdrawal */
/** @typedef {Schemas['SuspendedUser']} SuspendedUser */
/** @typedef {Schemas['UserLimits']} UserLimits */
/** @typedef {Schemas['SentPackets']} SentPackets */
/** @typedef {Schemas['FoundPackets']} FoundPackets */
/** @typedef {Schemas['Share']} Share */
/** @typedef {Schemas['UserClaims']} UserClaims */
/** @typedef {Schemas['WalletMovements']} Movements */
/** @typedef {{limit?: number | undefined, cursor?: string | null | undefined}} Page */
/** @typedef {Page & {order?: 'slip' | 'newest' | undefined, after?: string | null | undefined}} ClaimsPage */
/** @typedef {{from?: string | undefined, to?: string | undefined, kind?: 'claim' | 'deposit' | 'refund' | 'return' | 'sent' | 'withdrawal' | undefined}} Filters */
/** @typedef {Page & Filters} MovementsPage */
/** @typedef {{reference?: string | undefined, limitKey?: string | undefined}} Selected By their reference, the key of their limit, or both. */
/** @typedef {{signal?: AbortSignal | undefined}} Call */
/** @typedef {Call & {ticket?: string | undefined}} Ticketed The app's word that the user may grab, for a packet with `eligibility: ticket`. */
/** @typedef {Headers | Record<string, string>} HeadersOfCaller */

/**
 * @typedef {object} Options
 * @property {string} [baseUrl] The API's URL, which may have a path. Default: the page's own origin.
 * @property {() => HeadersOfCaller | Promise<HeadersOfCaller>} [headers] The headers that identify the caller. Called for each try: a token may have been renewed.
 * @property {typeof globalThis.fetch} [fetch] Replaces `globalThis.fetch`, for example to sign requests.
 * @property {number} [triesMax] The most tries of one request, the first included. Default: 4.
 * @property {number} [timeoutMs] The longest duration of one try. Default: 15,000.
 * @property {number} [waitMaxMs] The longest wait between two tries. If Retry-After asks for more, the client throws. Default: 8,000.
 * @property {(wait: {tries: number, waitMs: number}) => void} [onRetry] Called before each wait.
 */

/** Every code that a problem can have. */
export const PROBLEM_CODES = /** @type {const} */ ([
  'invalid-request',
  'unauthenticated',
  'insufficient-balance',
  'not-a-recipient',
  'wrong-passphrase',
  'ticket-required',
  'ticket-invalid',
  'ticket-expired',
  'forbidden',
  'user-id-unsupported',
  'account-suspended',
  'daily-limit-exceeded',
  'packet-not-found',
  'withdrawal-not-found',
  'route-not-found',
  'method-not-allowed',
  'payload-too-large',
  'withdrawal-posted',
  'withdrawal-voided',
  'too-many-pending',
  'idempotency-key-reused',
  'too-many-requests',
  'sending-paused',
  'unavailable',
  'internal',
]);
Object.freeze(PROBLEM_CODES);

/**
 * The code of an answer that has none. API Gateway answers some requests by itself, with only a message.
 * @type {Readonly<Record<number, ProblemCode>>}
 */
const CODE_OF_STATUS = Object.freeze({
  400: 'invalid-request',
  401: 'unauthenticated',
  402: 'insufficient-balance',
  403: 'forbidden',
  404: 'route-not-found',
  405: 'method-not-allowed',
  413: 'payload-too-large',
  422: 'idempotency-key-reused',
  429: 'too-many-requests',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
});

/** The service refused the request; `code` is the reason. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {ProblemCode} code
   * @param {{detail?: string, errors?: Schemas['FieldError'][], requestId?: string, retryAfterS?: number | null, resetsAt?: string | null, limit?: Schemas['Limit'] | null}} more
   */
  constructor(status, code, { detail = '', errors = [], requestId = '', retryAfterS = null, resetsAt = null, limit = null } = {}) {
    super(detail || code);
    this.name = 'Problem';
    this.status = status;
    this.code = code;
    this.errors = errors;
    this.requestId = requestId;
    this.retryAfterS = retryAfterS;
    /** With `daily-limit-exceeded`: when the next day begins, and the user may send again. */
    this.resetsAt = resetsAt;
    /** The rule that refused the request, with its number. */
    this.limit = limit;
  }
}

/** No answer came. The service may have carried out the request; the same request again returns its outcome. */
export class Unreachable extends Error {
  /** @param {unknown} cause */
  constructor(cause) {
    super('no answer came', { cause });
    this.name = 'Unreachable';
  }
}

/** The ids of the requests of which these are the answers. @type {WeakMap<object, string>} */
const requestIds = new WeakMap();

/**
 * Returns the id of the request that this is the answer to: the operator's logs have it. Empty if the answer has none.
 * @param {object} answer what a method of `Hongbao` returned
 */
export function requestIdOf(answer) {
  return requestIds.get(answer) ?? '';
}

/** Returns a new key for one send. Keep the key and the body until the send is answered. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A client of one API, for one caller. */
export class Hongbao {
  #baseUrl;
  #headers;
  #fetch;
  #triesMax;
  #timeoutMs;
  #waitMaxMs;
  #onRetry;
  #options;
  /** @type {string | null} The user for whom the operator asks. */
  #userId = null;

  /** @param {Options} [options] */
  constructor(options = {}) {
    this.#options = options;
    this.#baseUrl = (options.baseUrl ?? '').replace(/\/+$/, '');
    this.#headers = options.headers ?? (() => ({}));
    this.#fetch = options.fetch ?? globalThis.fetch;
    this.#triesMax = options.triesMax ?? 4;
    this.#timeoutMs = options.timeoutMs ?? 15_000;
    this.#waitMaxMs = options.waitMaxMs ?? 8_000;
    this.#onRetry = options.onRetry ?? (() => {});
  }

  /**
   * For the operator: returns a client with the same options for which `userId` is the caller. It sends, grabs and views for that
   * user, who needs no token: the answers are the user's own, and so are the keys of sends.
   * @param {string} userId
   * @returns {Hongbao}
   */
  forUser(userId) {
    const client = new Hongbao(this.#options);
    client.#userId = userId;
    return client;
  }

  /**
   * The beginning of the paths of the user's own packets, or of their histories.
   * @param {'' | '/me'} own the beginning for the caller themselves
   */
  #of(own) {
    return this.#userId === null ? own : path`/users/${this.#userId}`;
  }

  /**
   * Sends a packet. The same key and body again return the first answer and move no money. A key is 1 to 255 visible ASCII characters,
   * as `newKey` makes it or as your system has it.
   * @param {SendRequest} body
   * @param {Call & {key: string}} call
   * @returns {Promise<{packet: Packet, replayed: boolean}>}
   */
  async send(body, { key, signal }) {
    const response = await this.#request('POST', `${this.#of('')}/packets`, { body, signal, headers: { 'Idempotency-Key': key } });
    const packet = await read(response);
    return from(response, { packet, replayed: response.headers.get('Idempotent-Replayed') === 'true' });
  }

  /**
   * Grabs a slip. Losing is an outcome, not an error.
   * @param {string} packetId
   * @param {Ticketed & {passphrase?: string | undefined}} [call]
   * @returns {Promise<GrabResult>}
   */
  grab(packetId, { passphrase, ticket, signal } = {}) {
    const body = passphrase === undefined ? {} : { passphrase };
    return this.#json('POST', this.#of('') + path`/packets/${packetId}/grab`, { body, signal, ticket });
  }

  /**
   * Returns a packet.
   * @param {string} packetId
   * @param {Ticketed} [call]
   * @returns {Promise<Packet>}
   */
  packet(packetId, call = {}) {
    return this.#json('GET', this.#of('') + path`/packets/${packetId}`, call);
  }

  /**
   * Returns one page of a packet's claims, in the order of the slips or the newest first. With `after`, the `newest_cursor` of an earlier
   * page, only what is newer: it may repeat claims, so merge them by slip.
   * @param {string} packetId
   * @param {ClaimsPage & Ticketed} [page]
   * @returns {Promise<PacketClaims>}
   */
  claims(packetId, page = {}) {
    return this.#json('GET', this.#of('') + path`/packets/${packetId}/claims` + query(page), page);
  }

  /**
   * Yields all of a packet's claims.
   * @param {string} packetId
   * @param {Ticketed} [call]
   */
  allClaims(packetId, call) {
    return every((page) => this.claims(packetId, { ...call, ...page }), (page) => page.claims);
  }

  /**
   * Returns the caller's wallet.
   * @param {Call} [call]
   * @returns {Promise<Wallet>}
   */
  wallet(call = {}) {
    return this.#userId === null ? this.#json('GET', '/me/wallet', call) : this.walletOf(this.#userId, call);
  }

  /**
   * Returns one page of the packets that the caller sent.
   * @param {Page & Call} [page]
   * @returns {Promise<SentPackets>}
   */
  myPackets(page = {}) {
    return this.#json('GET', `${this.#of('/me')}/packets${query(page)}`, page);
  }

  /**
   * Yields all packets that the caller sent, the newest first.
   * @param {Call} [call]
   */
  allMyPackets(call) {
    return every((page) => this.myPackets({ ...call, ...page }), (page) => page.packets);
  }

  /**
   * Returns one page of the caller's claims.
   * @param {Page & Call} [page]
   * @returns {Promise<UserClaims>}
   */
  myClaims(page = {}) {
    return this.#json('GET', `${this.#of('/me')}/claims${query(page)}`, page);
  }

  /**
   * Yields all of the caller's claims, those of the newest packet first.
   * @param {Call} [call]
   */
  allMyClaims(call) {
    return every((page) => this.myClaims({ ...call, ...page }), (page) => page.claims);
  }

  /**
   * For the operator: pays money into a wallet. The same id and amount again move no money.
   * @param {string} userId
   * @param {string} depositId
   * @param {number} amount in minor units
   * @param {Call} [call]
   * @returns {Promise<Wallet>}
   */
  deposit(userId, depositId, amount, { signal } = {}) {
    return this.#json('PUT', path`/wallets/${userId}/deposits/${depositId}`, { body: { amount }, signal });
  }

  /**
   * For the operator: takes money out of a wallet, or with `pending` reserves it. The same again moves no money.
   * @param {string} userId
   * @param {string} withdrawalId
   * @param {number} amount in minor units
   * @param {Call & {pending?: boolean, note?: string}} [call] what the user sees is `note`
   * @returns {Promise<Withdrawal>}
   */
  withdraw(userId, withdrawalId, amount, { signal, ...more } = {}) {
    return this.#json('PUT', path`/wallets/${userId}/withdrawals/${withdrawalId}`, { body: { amount, ...more }, signal });
  }

  /**
   * For the operator: returns a withdrawal.
   * @param {string} userId
   * @param {string} withdrawalId
   * @param {Call} [call]
   * @returns {Promise<Withdrawal>}
   */
  withdrawal(userId, withdrawalId, call = {}) {
    return this.#json('GET', path`/wallets/${userId}/withdrawals/${withdrawalId}`, call);
  }

  /**
   * For the operator: ends a pending withdrawal that was paid out, once. What `amount` leaves goes back.
   * @param {string} userId
   * @param {string} withdrawalId
   * @param {Call & {amount?: number}} [call]
   * @returns {Promise<Withdrawal>}
   */
  postWithdrawal(userId, withdrawalId, { signal, ...body } = {}) {
    return this.#json('POST', path`/wallets/${userId}/withdrawals/${withdrawalId}/post`, { body, signal });
  }

  /**
   * For the operator: ends a pending withdrawal that was not paid out, once. The user sees the reason.
   * @param {string} userId
   * @param {string} withdrawalId
   * @param {Call & {reason?: string}} [call]
   * @returns {Promise<Withdrawal>}
   */
  voidWithdrawal(userId, withdrawalId, { signal, ...body } = {}) {
    return this.#json('POST', path`/wallets/${userId}/withdrawals/${withdrawalId}/void`, { body, signal });
  }

  /**
   * For the operator: returns one page of the pending withdrawals, the oldest first.
   * @param {Page & {before?: string | undefined} & Call} [page]
   * @returns {Promise<Schemas['Withdrawals']>}
   */
  pendingWithdrawals(page = {}) {
    return this.#json('GET', `/operator/withdrawals${query(page)}`, page);
  }

  /**
   * For the operator: returns one page of what operators did, the newest first: all, or what they did to a user.
   * @param {Page & {user_id?: string | undefined} & Call} [page]
   * @returns {Promise<Schemas['Deeds']>}
   */
  deeds(page = {}) {
    return this.#json('GET', `/operator/deeds${query(page)}`, page);
  }

  /**
   * For the operator: returns one page of the users who are suspended or have limits of their own.
   * @param {Page & {state?: 'suspended' | 'limited' | undefined} & Call} [page]
   * @returns {Promise<Schemas['DecidedUsers']>}
   */
  decidedUsers(page = {}) {
    return this.#json('GET', `/operator/users${query(page)}`, page);
  }

  /**
   * For the operator: returns one page of what a user has won towards each limit.
   * @param {string} userId
   * @param {Page & Call} [page]
   * @returns {Promise<Schemas['Wins']>}
   */
  wins(userId, page = {}) {
    return this.#json('GET', path`/operator/users/${userId}/wins` + query(page), page);
  }

  /**
   * For the operator: returns whose deposits and withdrawals have this id.
   * @param {string} id
   * @param {Page & Call} [page]
   * @returns {Promise<Schemas['FoundMovements']>}
   */
  movementsWithId(id, page = {}) {
    return this.#json('GET', `/operator/movements${query({ ...page, id })}`, page);
  }

  /**
   * Asks for money out of the caller's wallet. The same id again is the same withdrawal.
   * @param {Schemas['OwnWithdrawalRequest']} body
   * @param {Call} [call]
   * @returns {Promise<Withdrawal>}
   */
  askWithdrawal(body, { signal } = {}) {
    return this.#json('POST', '/me/withdrawals', { body, signal });
  }

  /**
   * For the operator: returns any user's wallet.
   * @param {string} userId
   * @param {Call} [call]
   * @returns {Promise<Wallet>}
   */
  walletOf(userId, call = {}) {
    return this.#json('GET', path`/wallets/${userId}`, call);
  }

  /**
   * Returns one page of the movements of the caller's wallet, the newest first.
   * @param {MovementsPage & Call} [page]
   * @returns {Promise<Movements>}
   */
  myMovements(page = {}) {
    return this.#userId === null ? this.#json('GET', `/me/movements${query(page)}`, page) : this.movements(this.#userId, page);
  }

  /**
   * Yields all movements of the caller's wallet that these filters let pass, the newest first.
   * @param {Filters & Call} [filters]
   */
  allMyMovements(filters) {
    return every((page) => this.myMovements({ ...filters, ...page }), (page) => page.movements);
  }

  /**
   * For the operator: returns one page of a wallet's movements, the newest first.
   * @param {string} userId
   * @param {MovementsPage & Call} [page]
   * @returns {Promise<Movements>}
   */
  movements(userId, page = {}) {
    return this.#json('GET', path`/wallets/${userId}/movements` + query(page), page);
  }

  /**
   * For the operator: yields all movements of a wallet that these filters let pass, the newest first.
   * @param {string} userId
   * @param {Filters & Call} [filters]
   */
  allMovements(userId, filters) {
    return every((page) => this.movements(userId, { ...filters, ...page }), (page) => page.movements);
  }

  /**
   * For the operator: returns any packet.
   * @param {string} packetId
   * @param {Call} [call]
   * @returns {Promise<Packet>}
   */
  anyPacket(packetId, call = {}) {
    return this.#json('GET', path`/operator/packets/${packetId}`, call);
  }

  /**
   * For the operator: returns one page of any packet's claims, as `claims` does.
   * @param {string} packetId
   * @param {ClaimsPage & Call} [page]
   * @returns {Promise<PacketClaims>}
   */
  anyClaims(packetId, page = {}) {
    return this.#json('GET', path`/operator/packets/${packetId}/claims` + query(page), page);
  }

  /**
   * For the operator: returns what a user has of a packet: a claim, a held slip, or nothing.
   * @param {string} packetId
   * @param {string} userId
   * @param {Call} [call]
   * @returns {Promise<Share>}
   */
  share(packetId, userId, call = {}) {
    return this.#json('GET', path`/operator/packets/${packetId}/users/${userId}`, call);
  }

  /**
   * For the operator: returns one page of the packets that were sent with this reference.
   * @param {string} reference
   * @param {Page & Call} [page]
   * @returns {Promise<FoundPackets>}
   */
  findPackets(reference, page = {}) {
    return this.#json('GET', `/operator/packets${query({ ...page, reference })}`, page);
  }

  /**
   * For the operator: yields all packets that were sent with this reference, the newest first.
   * @param {string} reference
   * @param {Call} [call]
   */
  findAllPackets(reference, call) {
    return every((page) => this.findPackets(reference, { ...call, ...page }), (page) => page.packets);
  }

  /**
   * For the operator: ends a packet before its expiry. From the answer on nobody gets a slip. The rest goes back to the sender. A packet
   * that is closed again keeps its first reason.
   * @param {string} packetId
   * @param {string} reason 1 to 200 characters
   * @param {Call} [call]
   * @returns {Promise<Packet>}
   */
  closePacket(packetId, reason, { signal } = {}) {
    return this.#json('POST', path`/operator/packets/${packetId}/close`, { body: { reason }, signal });
  }

  /**
   * For the operator: returns one page of all claims of a sender's packets that belong together, the oldest packet first.
   * @param {string} senderId
   * @param {Selected & Page & Call} page
   * @returns {Promise<Schemas['ReportedClaims']>}
   */
  reportClaims(senderId, page) {
    return this.#json('GET', claimsOf(senderId, page), page);
  }

  /**
   * For the operator: yields all claims of a sender's packets that belong together, the oldest packet first.
   * @param {string} senderId
   * @param {Selected & Call} packets
   */
  allReportedClaims(senderId, packets) {
    return every((page) => this.reportClaims(senderId, { ...packets, ...page }), (page) => page.claims);
  }

  /**
   * For the operator: returns the same as a CSV file of at most 3 MB, some 20,000 claims. `text` begins with a byte order mark, as spreadsheets need it.
   * @param {string} senderId
   * @param {Selected & Call} packets
   * @returns {Promise<{name: string, text: string}>}
   */
  async claimsSheet(senderId, { signal, ...packets }) {
    const response = await this.#request('GET', claimsOf(senderId, packets), { signal, headers: { Accept: 'text/csv' } });
    const name = /filename="(.+)"/.exec(response.headers.get('Content-Disposition') ?? '')?.[1] ?? 'claims.csv';
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(await response.arrayBuffer());
    return from(response, { name, text });
  }

  /**
   * For the operator: returns what became of the money of all packets of a sender with a reference.
   * @param {string} senderId
   * @param {string} reference
   * @param {Call} [call]
   * @returns {Promise<Schemas['ReferenceTotals']>}
   */
  reference(senderId, reference, call = {}) {
    return this.#json('GET', path`/operator/references/${reference}?sender_id=${senderId}`, call);
  }

  /**
   * For the operator: closes all packets of a sender with a reference that are open or scheduled. After an error, the same again closes the
   * rest.
   * @param {string} senderId
   * @param {string} reference
   * @param {string} reason 1 to 200 characters
   * @param {Call} [call]
   * @returns {Promise<Schemas['ReferenceTotals']>}
   */
  closeReference(senderId, reference, reason, { signal } = {}) {
    return this.#json('POST', path`/operator/references/${reference}/close?sender_id=${senderId}`, { body: { reason }, signal });
  }

  /**
   * For the operator: returns whether packets can be sent.
   * @param {Call} [call]
   * @returns {Promise<Schemas['Sending']>}
   */
  sending(call = {}) {
    return this.#json('GET', '/operator/sending', call);
  }

  /**
   * For the operator: pauses sending, or lets it go on.
   * @param {Schemas['SendingRequest']} body
   * @param {Call} [call]
   * @returns {Promise<Schemas['Sending']>}
   */
  decideSending(body, { signal } = {}) {
    return this.#json('PUT', '/operator/sending', { body, signal });
  }

  /**
   * For the operator: returns how the receiver of webhooks is.
   * @param {Call} [call]
   * @returns {Promise<Schemas['WebhookReceiver']>}
   */
  webhooks(call = {}) {
    return this.#json('GET', '/operator/webhooks', call);
  }

  /**
   * For the operator: lets the receiver of webhooks be called again, or not at all.
   * @param {boolean} enabled
   * @param {Call} [call]
   * @returns {Promise<Schemas['WebhookReceiver']>}
   */
  enableWebhooks(enabled, { signal } = {}) {
    return this.#json('PUT', '/operator/webhooks', { body: { enabled }, signal });
  }

  /**
   * For the operator: returns the limits of a user. One that is null is the deployment's.
   * @param {string} userId
   * @param {Call} [call]
   * @returns {Promise<UserLimits>}
   */
  limitsOf(userId, call = {}) {
    return this.#json('GET', path`/operator/users/${userId}/limits`, call);
  }

  /**
   * For the operator: sets both limits of a user. One that is null or left out is the deployment's.
   * @param {string} userId
   * @param {Schemas['UserLimitsRequest']} limits
   * @param {Call} [call]
   * @returns {Promise<UserLimits>}
   */
  setLimits(userId, limits, { signal } = {}) {
    return this.#json('PUT', path`/operator/users/${userId}/limits`, { body: limits, signal });
  }

  /**
   * For the operator: suspends a user, who can then neither send nor withdraw (`account-suspended`), nor grab if `grabs` is true.
   * @param {string} userId
   * @param {string} reason 1 to 200 characters
   * @param {Call & { grabs?: boolean }} [call]
   * @returns {Promise<SuspendedUser>}
   */
  suspendUser(userId, reason, { grabs = false, signal } = {}) {
    const body = { reason, grabs };
    return this.#json('PUT', path`/operator/users/${userId}/suspension`, { body, signal });
  }

  /**
   * For the operator: lifts a user's suspension, if there is one.
   * @param {string} userId
   * @param {Call} [call]
   * @returns {Promise<void>}
   */
  async liftSuspension(userId, { signal } = {}) {
    await this.#request('DELETE', path`/operator/users/${userId}/suspension`, { signal });
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal | undefined, ticket?: string | undefined}} request
   * @returns {Promise<any>}
   */
  async #json(method, path, request) {
    return read(await this.#request(method, path, request));
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal | undefined, ticket?: string | undefined}} request
   * @returns {Promise<Response>} an answer with a status of success
   */
  async #request(method, path, { body, headers = {}, signal, ticket }) {
    if (ticket !== undefined) headers = { ...headers, 'Grab-Ticket': ticket };
    // Serialized once, so that each try sends the same bytes.
    const text = body === undefined ? undefined : JSON.stringify(body);
    for (let tries = 1; ; tries += 1) {
      signal?.throwIfAborted();
      const error = await this.#try(method, path, text, headers, signal);
      if (error instanceof Response) return error;
      const waitMs = waitBefore(error, tries);
      if (waitMs === null || tries >= this.#triesMax || waitMs > this.#waitMaxMs) throw error;
      this.#onRetry({ tries, waitMs });
      await pause(waitMs, signal);
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {string | undefined} text
   * @param {Record<string, string>} headers
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<Response | Problem | Unreachable>}
   */
  async #try(method, path, text, headers, signal) {
    const all = new Headers(await this.#headers());
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    if (text !== undefined) all.set('Content-Type', 'application/json');
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), this.#timeoutMs);
    const stop = () => limit.abort();
    signal?.addEventListener('abort', stop);
    try {
      const request = { method, headers: all, body: text ?? null, signal: limit.signal };
      // Not called as a method: the browser's fetch throws if `this` is another object.
      const fetch = this.#fetch;
      const response = await fetch(this.#baseUrl + path, request);
      // The body is read within the timeout too: an answer that breaks off counts as no answer.
      const bytes = await response.arrayBuffer();
      const { status, statusText } = response;
      const whole = new Response(bytes.byteLength > 0 ? bytes : null, { status, statusText, headers: response.headers });
      return whole.ok ? whole : await problem(whole);
    } catch (cause) {
      signal?.throwIfAborted();
      return new Unreachable(cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }
}

/**
 * Notes of which request this is the answer.
 * @template {object} Answer
 * @param {Response} response @param {Answer} answer
 */
function from(response, answer) {
  requestIds.set(answer, response.headers.get('X-Request-Id') ?? '');
  return answer;
}

/** @param {Response} response @returns {Promise<any>} */
async function read(response) {
  return from(response, await response.json());
}

/**
 * Yields the rows of all pages. Reads one page at a time.
 * @template {{next_cursor: string | null}} List
 * @template Row
 * @param {(page: Page) => Promise<List>} ask
 * @param {(list: List) => Row[]} rows
 * @returns {AsyncGenerator<Row, void, void>}
 */
async function* every(ask, rows) {
  /** @type {string | null} */
  let cursor = null;
  do {
    const list = /** @type {List} */ (await ask({ limit: 100, cursor }));
    yield* rows(list);
    cursor = list.next_cursor;
  } while (cursor !== null);
}

/** A path whose values are encoded. @param {TemplateStringsArray} texts @param {...string} values */
function path(texts, ...values) {
  return String.raw({ raw: texts }, ...values.map(encodeURIComponent));
}

/** @param {string} sender_id @param {Selected & Page} packets */
function claimsOf(sender_id, { limitKey, ...page }) {
  return `/operator/claims${query({ ...page, sender_id, limit_key: limitKey })}`;
}

/** @param {ClaimsPage & MovementsPage & {reference?: string | undefined, before?: string | undefined, sender_id?: string, limit_key?: string | undefined, user_id?: string | undefined, state?: string | undefined, id?: string}} page */
function query(page) {
  const parameters = new URLSearchParams();
  for (const name of /** @type {const} */ (['id', 'user_id', 'state', 'sender_id', 'reference', 'limit_key', 'before', 'order', 'after', 'from', 'to', 'kind', 'limit', 'cursor'])) {
    const value = page[name] ?? '';
    if (value !== '') parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/**
 * @param {Response} response
 * @returns {Promise<Problem>}
 */
async function problem(response) {
  /** @type {any} */
  const body = await response.json().catch(() => null);
  const known = PROBLEM_CODES.includes(body?.code);
  const code = known ? body.code : (CODE_OF_STATUS[response.status] ?? 'internal');
  return new Problem(response.status, code, {
    detail: body?.detail ?? body?.message ?? '',
    errors: body?.errors ?? [],
    // API Gateway's own answers have it under another name.
    requestId: body?.request_id ?? response.headers.get('apigw-requestid') ?? '',
    retryAfterS: retryAfter(response.headers),
    resetsAt: body?.resets_at ?? null,
    limit: body?.limit ?? null,
  });
}

/**
 * Parses Retry-After, which holds seconds or a date. The answer's own date is the time to compare with: this machine's clock may be wrong.
 * @param {Headers} headers
 * @returns {number | null} seconds
 */
function retryAfter(headers) {
  const text = headers.get('Retry-After');
  if (text === null) return null;
  const nowMs = Date.parse(headers.get('Date') ?? '') || Date.now();
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - nowMs) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/**
 * Returns the wait before the next try in milliseconds; null if another try would not help.
 * @param {Problem | Unreachable} error
 * @param {number} tries
 */
function waitBefore(error, tries) {
  const later = error instanceof Unreachable || error.code === 'unavailable' || error.code === 'too-many-requests';
  if (!later) return null;
  // Full jitter on top of Retry-After: clients that were rejected together should not return together.
  const jitter = Math.random() * Math.min(4_000, 250 * 2 ** (tries - 1));
  return (error instanceof Problem ? (error.retryAfterS ?? 0) * 1000 : 0) + jitter;
}

/**
 * @param {number} ms
 * @param {AbortSignal | undefined} signal
 */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
