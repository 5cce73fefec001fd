/**
 * Returns a ticket, the value of the header `Grab-Ticket`. Throws `TypeError` if the key or the ticket can't be used.
 * @param {Key} key
 * @param {Ticket} ticket
 * @param {{now?: number}} [options] `now`: the time in milliseconds, for tests
 * @returns {Promise<string>}
 */
export function signTicket(key: Key, { user, packet, sender, reference, expiresInS, notBefore }: Ticket, { now }?: {
    now?: number;
}): Promise<string>;
export type Ticket = {
    /**
     * Who may grab: the `sub` of their token.
     */
    user: string;
    /**
     * The packet's id. Without it a ticket needs the other two.
     */
    packet?: string;
    /**
     * The sender of all packets with a reference.
     */
    sender?: string;
    /**
     * That reference.
     */
    reference?: string;
    /**
     * For how many seconds it is valid from now on, 86,400 at most. Default: 3,600.
     */
    expiresInS?: number;
    /**
     * When the user's turn comes, in seconds since 1970, before the ticket expires. Default: at once.
     */
    notBefore?: number;
};
/**
 * A JWK with a `kid`: `oct` of at least 32 bytes for HS256, or a private `OKP` key of Ed25519 for EdDSA.
 */
export type Key = {
    kty?: string | undefined;
    kid?: string | undefined;
    k?: string | undefined;
    crv?: string | undefined;
    x?: string | undefined;
    d?: string | undefined;
};
