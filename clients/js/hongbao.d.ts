/**
 * Returns the id of the request that this is the answer to: the operator's logs have it. Empty if the answer has none.
 * @param {object} answer what a method of `Hongbao` returned
 */
export function requestIdOf(answer: object): string;
/** Returns a new key for one send. Keep the key and the body until the send is answered. */
export function newKey(): string;
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
export const PROBLEM_CODES: readonly ["invalid-request", "unauthenticated", "insufficient-balance", "not-a-recipient", "wrong-passphrase", "ticket-required", "ticket-invalid", "ticket-expired", "forbidden", "user-id-unsupported", "account-suspended", "daily-limit-exceeded", "packet-not-found", "withdrawal-not-found", "route-not-found", "method-not-allowed", "payload-too-large", "withdrawal-posted", "withdrawal-voided", "too-many-pending", "idempotency-key-reused", "too-many-requests", "sending-paused", "unavailable", "internal"];
/** The service refused the request; `code` is the reason. */
export class Problem extends Error {
    /**
     * @param {number} status
     * @param {ProblemCode} code
     * @param {{detail?: string, errors?: Schemas['FieldError'][], requestId?: string, retryAfterS?: number | null, resetsAt?: string | null, limit?: Schemas['Limit'] | null}} more
     */
    constructor(status: number, code: ProblemCode, { detail, errors, requestId, retryAfterS, resetsAt, limit }?: {
        detail?: string;
        errors?: Schemas["FieldError"][];
        requestId?: string;
        retryAfterS?: number | null;
        resetsAt?: string | null;
        limit?: Schemas["Limit"] | null;
    });
    status: number;
    code: "invalid-request" | "unauthenticated" | "insufficient-balance" | "not-a-recipient" | "wrong-passphrase" | "ticket-required" | "ticket-invalid" | "ticket-expired" | "forbidden" | "user-id-unsupported" | "account-suspended" | "daily-limit-exceeded" | "packet-not-found" | "withdrawal-not-found" | "route-not-found" | "method-not-allowed" | "payload-too-large" | "withdrawal-posted" | "withdrawal-voided" | "too-many-pending" | "idempotency-key-reused" | "too-many-requests" | "sending-paused" | "unavailable" | "internal";
    errors: {
        field: string;
        reason: string;
    }[];
    requestId: string;
    retryAfterS: number | null;
    /** With `daily-limit-exceeded`: when the next day begins, and the user may send again. */
    resetsAt: string | null;
    /** The rule that refused the request, with its number. */
    limit: {
        rule: "amount-a-day" | "grabs-a-minute" | "pending-withdrawals" | "requests-a-second" | "wrong-passphrases-a-minute";
        value: number;
    } | null;
}
/** No answer came. The service may have carried out the request; the same request again returns its outcome. */
export class Unreachable extends Error {
    /** @param {unknown} cause */
    constructor(cause: unknown);
}
/** A client of one API, for one caller. */
export class Hongbao {
    /** @param {Options} [options] */
    constructor(options?: Options);
    /**
     * For the operator: returns a client with the same options for which `userId` is the caller. It sends, grabs and views for that
     * user, who needs no token: the answers are the user's own, and so are the keys of sends.
     * @param {string} userId
     * @returns {Hongbao}
     */
    forUser(userId: string): Hongbao;
    /**
     * Sends a packet. The same key and body again return the first answer and move no money. A key is 1 to 255 visible ASCII characters,
     * as `newKey` makes it or as your system has it.
     * @param {SendRequest} body
     * @param {Call & {key: string}} call
     * @returns {Promise<{packet: Packet, replayed: boolean}>}
     */
    send(body: SendRequest, { key, signal }: Call & {
        key: string;
    }): Promise<{
        packet: Packet;
        replayed: boolean;
    }>;
    /**
     * Grabs a slip. Losing is an outcome, not an error.
     * @param {string} packetId
     * @param {Ticketed & {passphrase?: string | undefined}} [call]
     * @returns {Promise<GrabResult>}
     */
    grab(packetId: string, { passphrase, ticket, signal }?: Ticketed & {
        passphrase?: string | undefined;
    }): Promise<GrabResult>;
    /**
     * Returns a packet.
     * @param {string} packetId
     * @param {Ticketed} [call]
     * @returns {Promise<Packet>}
     */
    packet(packetId: string, call?: Ticketed): Promise<Packet>;
    /**
     * Returns one page of a packet's claims, in the order of the slips or the newest first. With `after`, the `newest_cursor` of an earlier
     * page, only what is newer: it may repeat claims, so merge them by slip.
     * @param {string} packetId
     * @param {ClaimsPage & Ticketed} [page]
     * @returns {Promise<PacketClaims>}
     */
    claims(packetId: string, page?: ClaimsPage & Ticketed): Promise<PacketClaims>;
    /**
     * Yields all of a packet's claims.
     * @param {string} packetId
     * @param {Ticketed} [call]
     */
    allClaims(packetId: string, call?: Ticketed): AsyncGenerator<{
        user_id: import("./api.d.ts").components["schemas"]["UserId"];
        slip: import("./api.d.ts").components["schemas"]["SlipIndex"];
        amount: import("./api.d.ts").components["schemas"]["SlipAmount"];
        currency: import("./api.d.ts").components["schemas"]["Currency"];
        grabbed_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        best: boolean;
    }, void, void>;
    /**
     * Returns the caller's wallet.
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    wallet(call?: Call): Promise<Wallet>;
    /**
     * Returns one page of the packets that the caller sent.
     * @param {Page & Call} [page]
     * @returns {Promise<SentPackets>}
     */
    myPackets(page?: Page & Call): Promise<SentPackets>;
    /**
     * Yields all packets that the caller sent, the newest first.
     * @param {Call} [call]
     */
    allMyPackets(call?: Call): AsyncGenerator<{
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        sender_id: import("./api.d.ts").components["schemas"]["UserId"];
        split: import("./api.d.ts").components["schemas"]["ShownSplit"];
        currency: import("./api.d.ts").components["schemas"]["Currency"];
        total_amount: import("./api.d.ts").components["schemas"]["TotalAmount"];
        count: import("./api.d.ts").components["schemas"]["SlipCount"];
        greeting: import("./api.d.ts").components["schemas"]["Greeting"];
        cover: import("./api.d.ts").components["schemas"]["Cover"] | null;
        created_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        starts_at: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        expires_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        closed_at: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        status: import("./api.d.ts").components["schemas"]["Status"];
        commitment: import("./api.d.ts").components["schemas"]["Digest"];
        split_version: number;
        slip_cap: import("./api.d.ts").components["schemas"]["SlipAmount"];
        has_passphrase: boolean;
        eligibility: import("./api.d.ts").components["schemas"]["Eligibility"] | null;
        limit: import("./api.d.ts").components["schemas"]["WinLimit"] | null;
        claimed_count: import("./api.d.ts").components["schemas"]["PartialCount"];
        claimed_amount: import("./api.d.ts").components["schemas"]["PartialAmount"];
        refunded_amount: import("./api.d.ts").components["schemas"]["PartialAmount"];
        mine: import("./api.d.ts").components["schemas"]["ClaimOfPacket"] | null;
        next: import("./api.d.ts").components["schemas"]["NextRound"] | null;
        best: import("./api.d.ts").components["schemas"]["BestClaim"] | null;
        seed: import("./api.d.ts").components["schemas"]["Digest"] | null;
        reference?: import("./api.d.ts").components["schemas"]["Reference"] | null;
        recipients?: import("./api.d.ts").components["schemas"]["UserId"][] | null;
        metadata?: import("./api.d.ts").components["schemas"]["Metadata"] | null;
        closing?: import("./api.d.ts").components["schemas"]["Closing"] | null;
        settled_at?: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        now?: import("./api.d.ts").components["schemas"]["Timestamp"];
    }, void, void>;
    /**
     * Returns one page of the caller's claims.
     * @param {Page & Call} [page]
     * @returns {Promise<UserClaims>}
     */
    myClaims(page?: Page & Call): Promise<UserClaims>;
    /**
     * Yields all of the caller's claims, those of the newest packet first.
     * @param {Call} [call]
     */
    allMyClaims(call?: Call): AsyncGenerator<{
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        sender_id: import("./api.d.ts").components["schemas"]["UserId"];
        slip: import("./api.d.ts").components["schemas"]["SlipIndex"];
        amount: import("./api.d.ts").components["schemas"]["SlipAmount"];
        currency: import("./api.d.ts").components["schemas"]["Currency"];
        grabbed_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        greeting: import("./api.d.ts").components["schemas"]["Greeting"];
    }, void, void>;
    /**
     * For the operator: pays money into a wallet. The same id and amount again move no money.
     * @param {string} userId
     * @param {string} depositId
     * @param {number} amount in minor units
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    deposit(userId: string, depositId: string, amount: number, { signal }?: Call): Promise<Wallet>;
    /**
     * For the operator: takes money out of a wallet, or with `pending` reserves it. The same again moves no money.
     * @param {string} userId
     * @param {string} withdrawalId
     * @param {number} amount in minor units
     * @param {Call & {pending?: boolean, note?: string}} [call] what the user sees is `note`
     * @returns {Promise<Withdrawal>}
     */
    withdraw(userId: string, withdrawalId: string, amount: number, { signal, ...more }?: Call & {
        pending?: boolean;
        note?: string;
    }): Promise<Withdrawal>;
    /**
     * For the operator: returns a withdrawal.
     * @param {string} userId
     * @param {string} withdrawalId
     * @param {Call} [call]
     * @returns {Promise<Withdrawal>}
     */
    withdrawal(userId: string, withdrawalId: string, call?: Call): Promise<Withdrawal>;
    /**
     * For the operator: ends a pending withdrawal that was paid out, once. What `amount` leaves goes back.
     * @param {string} userId
     * @param {string} withdrawalId
     * @param {Call & {amount?: number}} [call]
     * @returns {Promise<Withdrawal>}
     */
    postWithdrawal(userId: string, withdrawalId: string, { signal, ...body }?: Call & {
        amount?: number;
    }): Promise<Withdrawal>;
    /**
     * For the operator: ends a pending withdrawal that was not paid out, once. The user sees the reason.
     * @param {string} userId
     * @param {string} withdrawalId
     * @param {Call & {reason?: string}} [call]
     * @returns {Promise<Withdrawal>}
     */
    voidWithdrawal(userId: string, withdrawalId: string, { signal, ...body }?: Call & {
        reason?: string;
    }): Promise<Withdrawal>;
    /**
     * For the operator: returns one page of the pending withdrawals, the oldest first.
     * @param {Page & {before?: string | undefined} & Call} [page]
     * @returns {Promise<Schemas['Withdrawals']>}
     */
    pendingWithdrawals(page?: Page & {
        before?: string | undefined;
    } & Call): Promise<Schemas["Withdrawals"]>;
    /**
     * For the operator: returns one page of what operators did, the newest first: all, or what they did to a user.
     * @param {Page & {user_id?: string | undefined} & Call} [page]
     * @returns {Promise<Schemas['Deeds']>}
     */
    deeds(page?: Page & {
        user_id?: string | undefined;
    } & Call): Promise<Schemas["Deeds"]>;
    /**
     * For the operator: returns one page of the users who are suspended or have limits of their own.
     * @param {Page & {state?: 'suspended' | 'limited' | undefined} & Call} [page]
     * @returns {Promise<Schemas['DecidedUsers']>}
     */
    decidedUsers(page?: Page & {
        state?: "suspended" | "limited" | undefined;
    } & Call): Promise<Schemas["DecidedUsers"]>;
    /**
     * For the operator: returns one page of what a user has won towards each limit.
     * @param {string} userId
     * @param {Page & Call} [page]
     * @returns {Promise<Schemas['Wins']>}
     */
    wins(userId: string, page?: Page & Call): Promise<Schemas["Wins"]>;
    /**
     * For the operator: returns whose deposits and withdrawals have this id.
     * @param {string} id
     * @param {Page & Call} [page]
     * @returns {Promise<Schemas['FoundMovements']>}
     */
    movementsWithId(id: string, page?: Page & Call): Promise<Schemas["FoundMovements"]>;
    /**
     * Asks for money out of the caller's wallet. The same id again is the same withdrawal.
     * @param {Schemas['OwnWithdrawalRequest']} body
     * @param {Call} [call]
     * @returns {Promise<Withdrawal>}
     */
    askWithdrawal(body: Schemas["OwnWithdrawalRequest"], { signal }?: Call): Promise<Withdrawal>;
    /**
     * For the operator: returns any user's wallet.
     * @param {string} userId
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    walletOf(userId: string, call?: Call): Promise<Wallet>;
    /**
     * Returns one page of the movements of the caller's wallet, the newest first.
     * @param {MovementsPage & Call} [page]
     * @returns {Promise<Movements>}
     */
    myMovements(page?: MovementsPage & Call): Promise<Movements>;
    /**
     * Yields all movements of the caller's wallet that these filters let pass, the newest first.
     * @param {Filters & Call} [filters]
     */
    allMyMovements(filters?: Filters & Call): AsyncGenerator<{
        kind: "claim";
        id: import("./api.d.ts").components["schemas"]["PacketId"];
        amount: import("./api.d.ts").components["schemas"]["SlipAmount"];
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        sender_id: import("./api.d.ts").components["schemas"]["UserId"];
        greeting: import("./api.d.ts").components["schemas"]["Greeting"];
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "deposit";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "refund";
        id: string;
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
    } | {
        kind: "return";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: import("./api.d.ts").components["schemas"]["MovedAmount"];
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "sent";
        id: import("./api.d.ts").components["schemas"]["PacketId"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
    } | {
        kind: "withdrawal";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        status: import("./api.d.ts").components["schemas"]["WithdrawalStatus"];
        note: import("./api.d.ts").components["schemas"]["Note"];
        void_reason: import("./api.d.ts").components["schemas"]["VoidReason"];
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    }, void, void>;
    /**
     * For the operator: returns one page of a wallet's movements, the newest first.
     * @param {string} userId
     * @param {MovementsPage & Call} [page]
     * @returns {Promise<Movements>}
     */
    movements(userId: string, page?: MovementsPage & Call): Promise<Movements>;
    /**
     * For the operator: yields all movements of a wallet that these filters let pass, the newest first.
     * @param {string} userId
     * @param {Filters & Call} [filters]
     */
    allMovements(userId: string, filters?: Filters & Call): AsyncGenerator<{
        kind: "claim";
        id: import("./api.d.ts").components["schemas"]["PacketId"];
        amount: import("./api.d.ts").components["schemas"]["SlipAmount"];
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        sender_id: import("./api.d.ts").components["schemas"]["UserId"];
        greeting: import("./api.d.ts").components["schemas"]["Greeting"];
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "deposit";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "refund";
        id: string;
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
    } | {
        kind: "return";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: import("./api.d.ts").components["schemas"]["MovedAmount"];
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    } | {
        kind: "sent";
        id: import("./api.d.ts").components["schemas"]["PacketId"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
    } | {
        kind: "withdrawal";
        id: import("./api.d.ts").components["schemas"]["RequestKey"];
        amount: number;
        at: import("./api.d.ts").components["schemas"]["Timestamp"];
        packet_id: string | null;
        status: import("./api.d.ts").components["schemas"]["WithdrawalStatus"];
        note: import("./api.d.ts").components["schemas"]["Note"];
        void_reason: import("./api.d.ts").components["schemas"]["VoidReason"];
        by?: import("./api.d.ts").components["schemas"]["Signer"];
    }, void, void>;
    /**
     * For the operator: returns any packet.
     * @param {string} packetId
     * @param {Call} [call]
     * @returns {Promise<Packet>}
     */
    anyPacket(packetId: string, call?: Call): Promise<Packet>;
    /**
     * For the operator: returns one page of any packet's claims, as `claims` does.
     * @param {string} packetId
     * @param {ClaimsPage & Call} [page]
     * @returns {Promise<PacketClaims>}
     */
    anyClaims(packetId: string, page?: ClaimsPage & Call): Promise<PacketClaims>;
    /**
     * For the operator: returns what a user has of a packet: a claim, a held slip, or nothing.
     * @param {string} packetId
     * @param {string} userId
     * @param {Call} [call]
     * @returns {Promise<Share>}
     */
    share(packetId: string, userId: string, call?: Call): Promise<Share>;
    /**
     * For the operator: returns one page of the packets that were sent with this reference.
     * @param {string} reference
     * @param {Page & Call} [page]
     * @returns {Promise<FoundPackets>}
     */
    findPackets(reference: string, page?: Page & Call): Promise<FoundPackets>;
    /**
     * For the operator: yields all packets that were sent with this reference, the newest first.
     * @param {string} reference
     * @param {Call} [call]
     */
    findAllPackets(reference: string, call?: Call): AsyncGenerator<{
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        sender_id: import("./api.d.ts").components["schemas"]["UserId"];
        split: import("./api.d.ts").components["schemas"]["ShownSplit"];
        currency: import("./api.d.ts").components["schemas"]["Currency"];
        total_amount: import("./api.d.ts").components["schemas"]["TotalAmount"];
        count: import("./api.d.ts").components["schemas"]["SlipCount"];
        greeting: import("./api.d.ts").components["schemas"]["Greeting"];
        cover: import("./api.d.ts").components["schemas"]["Cover"] | null;
        created_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        starts_at: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        expires_at: import("./api.d.ts").components["schemas"]["Timestamp"];
        closed_at: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        status: import("./api.d.ts").components["schemas"]["Status"];
        commitment: import("./api.d.ts").components["schemas"]["Digest"];
        split_version: number;
        slip_cap: import("./api.d.ts").components["schemas"]["SlipAmount"];
        has_passphrase: boolean;
        eligibility: import("./api.d.ts").components["schemas"]["Eligibility"] | null;
        limit: import("./api.d.ts").components["schemas"]["WinLimit"] | null;
        claimed_count: import("./api.d.ts").components["schemas"]["PartialCount"];
        claimed_amount: import("./api.d.ts").components["schemas"]["PartialAmount"];
        refunded_amount: import("./api.d.ts").components["schemas"]["PartialAmount"];
        mine: import("./api.d.ts").components["schemas"]["ClaimOfPacket"] | null;
        next: import("./api.d.ts").components["schemas"]["NextRound"] | null;
        best: import("./api.d.ts").components["schemas"]["BestClaim"] | null;
        seed: import("./api.d.ts").components["schemas"]["Digest"] | null;
        reference?: import("./api.d.ts").components["schemas"]["Reference"] | null;
        recipients?: import("./api.d.ts").components["schemas"]["UserId"][] | null;
        metadata?: import("./api.d.ts").components["schemas"]["Metadata"] | null;
        closing?: import("./api.d.ts").components["schemas"]["Closing"] | null;
        settled_at?: import("./api.d.ts").components["schemas"]["Timestamp"] | null;
        now?: import("./api.d.ts").components["schemas"]["Timestamp"];
    }, void, void>;
    /**
     * For the operator: ends a packet before its expiry. From the answer on nobody gets a slip. The rest goes back to the sender. A packet
     * that is closed again keeps its first reason.
     * @param {string} packetId
     * @param {string} reason 1 to 200 characters
     * @param {Call} [call]
     * @returns {Promise<Packet>}
     */
    closePacket(packetId: string, reason: string, { signal }?: Call): Promise<Packet>;
    /**
     * For the operator: returns one page of all claims of a sender's packets that belong together, the oldest packet first.
     * @param {string} senderId
     * @param {Selected & Page & Call} page
     * @returns {Promise<Schemas['ReportedClaims']>}
     */
    reportClaims(senderId: string, page: Selected & Page & Call): Promise<Schemas["ReportedClaims"]>;
    /**
     * For the operator: yields all claims of a sender's packets that belong together, the oldest packet first.
     * @param {string} senderId
     * @param {Selected & Call} packets
     */
    allReportedClaims(senderId: string, packets: Selected & Call): AsyncGenerator<{
        packet_id: import("./api.d.ts").components["schemas"]["PacketId"];
        metadata: import("./api.d.ts").components["schemas"]["Metadata"] | null;
        user_id: import("./api.d.ts").components["schemas"]["UserId"];
        slip: import("./api.d.ts").components["schemas"]["SlipIndex"];
        amount: import("./api.d.ts").components["schemas"]["SlipAmount"];
        currency: import("./api.d.ts").components["schemas"]["Currency"];
        grabbed_at: import("./api.d.ts").components["schemas"]["Timestamp"];
    }, void, void>;
    /**
     * For the operator: returns the same as a CSV file of at most 3 MB, some 20,000 claims. `text` begins with a byte order mark, as spreadsheets need it.
     * @param {string} senderId
     * @param {Selected & Call} packets
     * @returns {Promise<{name: string, text: string}>}
     */
    claimsSheet(senderId: string, { signal, ...packets }: Selected & Call): Promise<{
        name: string;
        text: string;
    }>;
    /**
     * For the operator: returns what became of the money of all packets of a sender with a reference.
     * @param {string} senderId
     * @param {string} reference
     * @param {Call} [call]
     * @returns {Promise<Schemas['ReferenceTotals']>}
     */
    reference(senderId: string, reference: string, call?: Call): Promise<Schemas["ReferenceTotals"]>;
    /**
     * For the operator: closes all packets of a sender with a reference that are open or scheduled. After an error, the same again closes the
     * rest.
     * @param {string} senderId
     * @param {string} reference
     * @param {string} reason 1 to 200 characters
     * @param {Call} [call]
     * @returns {Promise<Schemas['ReferenceTotals']>}
     */
    closeReference(senderId: string, reference: string, reason: string, { signal }?: Call): Promise<Schemas["ReferenceTotals"]>;
    /**
     * For the operator: returns whether packets can be sent.
     * @param {Call} [call]
     * @returns {Promise<Schemas['Sending']>}
     */
    sending(call?: Call): Promise<Schemas["Sending"]>;
    /**
     * For the operator: pauses sending, or lets it go on.
     * @param {Schemas['SendingRequest']} body
     * @param {Call} [call]
     * @returns {Promise<Schemas['Sending']>}
     */
    decideSending(body: Schemas["SendingRequest"], { signal }?: Call): Promise<Schemas["Sending"]>;
    /**
     * For the operator: returns how the receiver of webhooks is.
     * @param {Call} [call]
     * @returns {Promise<Schemas['WebhookReceiver']>}
     */
    webhooks(call?: Call): Promise<Schemas["WebhookReceiver"]>;
    /**
     * For the operator: lets the receiver of webhooks be called again, or not at all.
     * @param {boolean} enabled
     * @param {Call} [call]
     * @returns {Promise<Schemas['WebhookReceiver']>}
     */
    enableWebhooks(enabled: boolean, { signal }?: Call): Promise<Schemas["WebhookReceiver"]>;
    /**
     * For the operator: returns the limits of a user. One that is null is the deployment's.
     * @param {string} userId
     * @param {Call} [call]
     * @returns {Promise<UserLimits>}
     */
    limitsOf(userId: string, call?: Call): Promise<UserLimits>;
    /**
     * For the operator: sets both limits of a user. One that is null or left out is the deployment's.
     * @param {string} userId
     * @param {Schemas['UserLimitsRequest']} limits
     * @param {Call} [call]
     * @returns {Promise<UserLimits>}
     */
    setLimits(userId: string, limits: Schemas["UserLimitsRequest"], { signal }?: Call): Promise<UserLimits>;
    /**
     * For the operator: suspends a user, who can then neither send nor withdraw (`account-suspended`), nor grab if `grabs` is true.
     * @param {string} userId
     * @param {string} reason 1 to 200 characters
     * @param {Call & { grabs?: boolean }} [call]
     * @returns {Promise<SuspendedUser>}
     */
    suspendUser(userId: string, reason: string, { grabs, signal }?: Call & {
        grabs?: boolean;
    }): Promise<SuspendedUser>;
    /**
     * For the operator: lifts a user's suspension, if there is one.
     * @param {string} userId
     * @param {Call} [call]
     * @returns {Promise<void>}
     */
    liftSuspension(userId: string, { signal }?: Call): Promise<void>;
    #private;
}
export type Schemas = import("./api.d.ts").components["schemas"];
export type ProblemCode = (typeof PROBLEM_CODES)[number];
export type SendRequest = Schemas["SendRequest"];
export type Packet = Schemas["Packet"];
export type PacketClaims = Schemas["PacketClaims"];
export type PacketClaim = Schemas["PacketClaim"];
/**
 * The outcomes so far; any other one is "no slip".
 */
export type GrabResult = Schemas["GrabResult"];
export type Wallet = Schemas["Wallet"];
export type Withdrawal = Schemas["Withdrawal"];
export type SuspendedUser = Schemas["SuspendedUser"];
export type UserLimits = Schemas["UserLimits"];
export type SentPackets = Schemas["SentPackets"];
export type FoundPackets = Schemas["FoundPackets"];
export type Share = Schemas["Share"];
export type UserClaims = Schemas["UserClaims"];
export type Movements = Schemas["WalletMovements"];
export type Page = {
    limit?: number | undefined;
    cursor?: string | null | undefined;
};
export type ClaimsPage = Page & {
    order?: "slip" | "newest" | undefined;
    after?: string | null | undefined;
};
export type Filters = {
    from?: string | undefined;
    to?: string | undefined;
    kind?: "claim" | "deposit" | "refund" | "return" | "sent" | "withdrawal" | undefined;
};
export type MovementsPage = Page & Filters;
/**
 * By their reference, the key of their limit, or both.
 */
export type Selected = {
    reference?: string | undefined;
    limitKey?: string | undefined;
};
export type Call = {
    signal?: AbortSignal | undefined;
};
/**
 * The app's word that the user may grab, for a packet with `eligibility: ticket`.
 */
export type Ticketed = Call & {
    ticket?: string | undefined;
};
export type HeadersOfCaller = Headers | Record<string, string>;
export type Options = {
    /**
     * The API's URL, which may have a path. Default: the page's own origin.
     */
    baseUrl?: string;
    /**
     * The headers that identify the caller. Called for each try: a token may have been renewed.
     */
    headers?: () => HeadersOfCaller | Promise<HeadersOfCaller>;
    /**
     * Replaces `globalThis.fetch`, for example to sign requests.
     */
    fetch?: typeof globalThis.fetch;
    /**
     * The most tries of one request, the first included. Default: 4.
     */
    triesMax?: number;
    /**
     * The longest duration of one try. Default: 15,000.
     */
    timeoutMs?: number;
    /**
     * The longest wait between two tries. If Retry-After asks for more, the client throws. Default: 8,000.
     */
    waitMaxMs?: number;
    /**
     * Called before each wait.
     */
    onRetry?: (wait: {
        tries: number;
        waitMs: number;
    }) => void;
};
