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
export type Schemas = import("./api.d.ts").components["schemas"];
export type PacketSent = Schemas["PacketSent"];
export type SlipClaimed = Schemas["SlipClaimed"];
export type PacketSoldOut = Schemas["PacketSoldOut"];
export type PacketClosed = Schemas["PacketClosed"];
export type PacketSettled = Schemas["PacketSettled"];
export type PacketRefunded = Schemas["PacketRefunded"];
/**
 * The types so far; ignore any other one. `id` is the same each time the event is delivered.
 */
export type WebhookEvent = Schemas["WebhookEvent"] & {
    id: string;
};
/**
 * Those of `fetch`, or those of Node's `IncomingMessage`.
 */
export type HeadersOfRequest = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
