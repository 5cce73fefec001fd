/**
 * Returns the event of a delivery, or throws `WebhookError` if the service did not send the request in the last five minutes. It throws
 * `TypeError` if the secret can't be used, which is a mistake in the receiver's configuration.
 * @param {string} secret the secret of the webhook: `whsec_` and base64 in either alphabet, with padding or without; it may have line breaks
 * @param {HeadersOfRequest} headers the headers of the request
 * @param {string | Uint8Array} body the body exactly as it came: not parsed and serialised again
 * @param {{now?: number}} [options] `now`: the time in milliseconds, for tests
 * @returns {Promise<WebhookEvent>}
 */
export function verify(secret: string, headers: HeadersOfRequest, body: string | Uint8Array, { now }?: {
    now?: number;
}): Promise<WebhookEvent>;
/** A request that is not a delivery of this service, or that is too old. Answer it with 401. */
export class WebhookError extends Error {
    /**
     * @param {'header' | 'timestamp' | 'signature' | 'body'} reason what is wrong with the request
     * @param {string} message
     */
    constructor(reason: "header" | "timestamp" | "signature" | "body", message: string);
    reason: "body" | "header" | "timestamp" | "signature";
}
/**
 * `reference` only if the packet has one.
 */
export type OfPacket = {
    packet_id: string;
    sender_id: string;
    reference?: string;
};
export type PacketSent = OfPacket & {
    split: string;
    total_amount: number;
    count: number;
    currency: string;
    greeting: string;
    created_at: string;
    starts_at?: string;
    expires_at: string;
};
export type SlipClaimed = OfPacket & {
    user_id: string;
    slip: number;
    amount: number;
    currency: string;
    grabbed_at: string;
};
export type PacketClosed = OfPacket & {
    reason: string;
    closed_at: string;
};
export type PacketSettled = OfPacket & {
    refunded_count: number;
    refunded_amount: number;
    claimed_count: number;
    claimed_amount: number;
    total_amount: number;
    currency: string;
    settled_at?: string;
};
/**
 * What every delivery has. `id` is the same each time the event is delivered; `timestamp` is when the event happened.
 */
export type Delivered<Type extends string, Data> = {
    id: string;
    type: Type;
    timestamp: string;
    data: Data;
};
/**
 * The types so far; ignore any other one.
 */
export type WebhookEvent = Delivered<"PacketSent", PacketSent> | Delivered<"SlipClaimed", SlipClaimed> | Delivered<"PacketClosed", PacketClosed> | Delivered<"PacketSettled" | "PacketRefunded", PacketSettled>;
/**
 * Those of `fetch`, or those of Node's `IncomingMessage`.
 */
export type HeadersOfRequest = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
