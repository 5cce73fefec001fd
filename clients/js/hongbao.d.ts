/** A key for one send. Keep it with the body until the send is answered. */
export function newKey(): string;
/** @typedef {import('./api.d.ts').components['schemas']} Schemas */
/** @typedef {Schemas['ProblemCode']} ProblemCode */
/** @typedef {Schemas['SendRequest']} SendRequest */
/** @typedef {Schemas['SentPacket']} SentPacket */
/** @typedef {Schemas['Packet']} Packet */
/** @typedef {Schemas['PacketClaims']} PacketClaims */
/** @typedef {Schemas['PacketClaim']} PacketClaim */
/** @typedef {Schemas['GrabResult']} GrabResult */
/** @typedef {Schemas['Wallet']} Wallet */
/** @typedef {Schemas['MyPackets']} MyPackets */
/** @typedef {Schemas['MyClaims']} MyClaims */
/** @typedef {Schemas['Movements']} Movements */
/** @typedef {{limit?: number | undefined, cursor?: string | null | undefined}} Page */
/** @typedef {{signal?: AbortSignal | undefined}} Call */
/**
 * @typedef {object} Options
 * @property {string} [baseUrl] Where the API is; without it the page's own origin.
 * @property {() => HeadersInit | Promise<HeadersInit>} [headers] What says who asks: asked anew for each try.
 * @property {typeof globalThis.fetch} [fetch] Another fetch: one that signs, or a test's.
 * @property {number} [triesMax] How often a request is sent at most.
 * @property {number} [timeoutMs] How long one try may take.
 * @property {number} [waitMaxMs] The longest wait between tries; a longer Retry-After is left to the caller.
 * @property {(wait: {tries: number, waitMs: number}) => void} [onRetry] Told before each wait.
 */
/**
 * Every code that a problem can have.
 * @type {readonly ProblemCode[]}
 */
export const PROBLEM_CODES: readonly ProblemCode[];
/** The service refused, and `code` says why. */
export class Problem extends Error {
    /**
     * @param {number} status
     * @param {ProblemCode} code
     * @param {{detail?: string, errors?: Schemas['FieldError'][], requestId?: string, retryAfterS?: number | null}} more
     */
    constructor(status: number, code: ProblemCode, { detail, errors, requestId, retryAfterS }?: {
        detail?: string;
        errors?: Schemas["FieldError"][];
        requestId?: string;
        retryAfterS?: number | null;
    });
    status: number;
    code: "invalid-request" | "unauthenticated" | "insufficient-balance" | "not-a-recipient" | "wrong-passphrase" | "forbidden" | "packet-not-found" | "route-not-found" | "method-not-allowed" | "payload-too-large" | "idempotency-key-reused" | "too-many-requests" | "unavailable" | "internal";
    errors: {
        field: string;
        reason: string;
    }[];
    requestId: string;
    retryAfterS: number | null;
}
/** No answer came, so nothing is known: the request may have been done. The same request again tells. */
export class Unreachable extends Error {
    /** @param {unknown} cause */
    constructor(cause: unknown);
}
/** The client. */
export class Hongbao {
    /** @param {Options} [options] */
    constructor(options?: Options);
    /**
     * Sends a packet. The same key and body again give the first answer again, and move no money.
     * @param {SendRequest} body
     * @param {Call & {key: string}} call
     * @returns {Promise<{packet: SentPacket, replayed: boolean}>}
     */
    send(body: SendRequest, { key, signal }: Call & {
        key: string;
    }): Promise<{
        packet: SentPacket;
        replayed: boolean;
    }>;
    /**
     * Grabs a slip. Losing is an outcome, not an error.
     * @param {string} packetId
     * @param {Call & {passphrase?: string}} [call]
     * @returns {Promise<GrabResult>}
     */
    grab(packetId: string, { passphrase, signal }?: Call & {
        passphrase?: string;
    }): Promise<GrabResult>;
    /**
     * @param {string} packetId
     * @param {Call} [call]
     * @returns {Promise<Packet>}
     */
    packet(packetId: string, { signal }?: Call): Promise<Packet>;
    /**
     * A page of a packet's claims, in the order of the slips.
     * @param {string} packetId
     * @param {Page & Call} [page]
     * @returns {Promise<PacketClaims>}
     */
    claims(packetId: string, page?: Page & Call): Promise<PacketClaims>;
    /**
     * All of a packet's claims, page by page.
     * @param {string} packetId
     * @param {Call} [call]
     * @returns {AsyncGenerator<PacketClaim, void, void>}
     */
    allClaims(packetId: string, { signal }?: Call): AsyncGenerator<PacketClaim, void, void>;
    /**
     * The caller's wallet.
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    wallet({ signal }?: Call): Promise<Wallet>;
    /**
     * A page of what the caller sent.
     * @param {Page & Call} [page]
     * @returns {Promise<MyPackets>}
     */
    myPackets(page?: Page & Call): Promise<MyPackets>;
    /**
     * A page of what the caller grabbed.
     * @param {Page & Call} [page]
     * @returns {Promise<MyClaims>}
     */
    myClaims(page?: Page & Call): Promise<MyClaims>;
    /**
     * The operator's: money comes in. The same id and amount again move nothing.
     * @param {string} userId
     * @param {string} depositId
     * @param {number} amount in minor units
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    deposit(userId: string, depositId: string, amount: number, { signal }?: Call): Promise<Wallet>;
    /**
     * The operator's: money goes out. The same id and amount again move nothing.
     * @param {string} userId
     * @param {string} withdrawalId
     * @param {number} amount in minor units
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    withdraw(userId: string, withdrawalId: string, amount: number, { signal }?: Call): Promise<Wallet>;
    /**
     * The operator's: anybody's wallet.
     * @param {string} userId
     * @param {Call} [call]
     * @returns {Promise<Wallet>}
     */
    walletOf(userId: string, { signal }?: Call): Promise<Wallet>;
    /**
     * The operator's: a page of what moved a wallet.
     * @param {string} userId
     * @param {Page & Call} [page]
     * @returns {Promise<Movements>}
     */
    movements(userId: string, page?: Page & Call): Promise<Movements>;
    #private;
}
export type Schemas = import("./api.d.ts").components["schemas"];
export type ProblemCode = Schemas["ProblemCode"];
export type SendRequest = Schemas["SendRequest"];
export type SentPacket = Schemas["SentPacket"];
export type Packet = Schemas["Packet"];
export type PacketClaims = Schemas["PacketClaims"];
export type PacketClaim = Schemas["PacketClaim"];
export type GrabResult = Schemas["GrabResult"];
export type Wallet = Schemas["Wallet"];
export type MyPackets = Schemas["MyPackets"];
export type MyClaims = Schemas["MyClaims"];
export type Movements = Schemas["Movements"];
export type Page = {
    limit?: number | undefined;
    cursor?: string | null | undefined;
};
export type Call = {
    signal?: AbortSignal | undefined;
};
export type Options = {
    /**
     * Where the API is; without it the page's own origin.
     */
    baseUrl?: string;
    /**
     * What says who asks: asked anew for each try.
     */
    headers?: () => HeadersInit | Promise<HeadersInit>;
    /**
     * Another fetch: one that signs, or a test's.
     */
    fetch?: typeof globalThis.fetch;
    /**
     * How often a request is sent at most.
     */
    triesMax?: number;
    /**
     * How long one try may take.
     */
    timeoutMs?: number;
    /**
     * The longest wait between tries; a longer Retry-After is left to the caller.
     */
    waitMaxMs?: number;
    /**
     * Told before each wait.
     */
    onRetry?: (wait: {
        tries: number;
        waitMs: number;
    }) => void;
};
