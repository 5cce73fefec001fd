// Signs tickets: your app's word on who may grab a packet with `eligibility: ticket`. For your server only: the holder of the key
// decides who wins. It runs unchanged in Node and in workers.

/**
 * @typedef {object} Ticket
 * @property {string} user Who may grab: the `sub` of their token.
 * @property {string} [packet] The packet's id. Without it a ticket needs the other two.
 * @property {string} [sender] The sender of all packets with a reference.
 * @property {string} [reference] That reference.
 * @property {number} [expiresInS] For how many seconds it is valid from now on, 86,400 at most. Default: 3,600.
 * @property {number} [notBefore] When the user's turn comes, in seconds since 1970, before the ticket expires. Default: at once.
 */

/** A JWK with a `kid`: `oct` of at least 32 bytes for HS256, or a private `OKP` key of Ed25519 for EdDSA. @typedef {{kty?: string | undefined, kid?: string | undefined, k?: string | undefined, crv?: string | undefined, x?: string | undefined, d?: string | undefined}} Key */

const EXPIRES_IN_S = 3_600;
const EXPIRES_IN_S_MAX = 86_400;

/**
 * Returns a ticket, the value of the header `Grab-Ticket`. Throws `TypeError` if the key or the ticket can't be used.
 * @param {Key} key
 * @param {Ticket} ticket
 * @param {{now?: number}} [options] `now`: the time in milliseconds, for tests
 * @returns {Promise<string>}
 */
export async function signTicket(key, { user, packet, sender, reference, expiresInS = EXPIRES_IN_S, notBefore }, { now = Date.now() } = {}) {
  const isOfOne = packet !== undefined && sender === undefined && reference === undefined;
  const isOfSeveral = packet === undefined && sender !== undefined && reference !== undefined;
  if (!isOfOne && !isOfSeveral) throw new TypeError('a ticket has either a packet, or a sender and a reference');
  const texts = isOfOne ? [user, packet] : [user, sender, reference];
  if (!texts.every((text) => typeof text === 'string' && text !== '')) throw new TypeError('the user, and what a ticket is for, are texts');
  if (!Number.isFinite(expiresInS) || expiresInS < 1 || expiresInS > EXPIRES_IN_S_MAX) throw new TypeError('a ticket is valid for a second to a day');
  const iat = Math.floor(now / 1_000);
  const exp = iat + Math.floor(expiresInS);
  const isTurn = notBefore === undefined || (Number.isFinite(notBefore) && notBefore >= 0 && Math.floor(notBefore) < exp);
  if (!isTurn) throw new TypeError('notBefore is a time in seconds, before the ticket expires');
  const claims = { aud: 'hongbao:grab', sub: user, pkt: packet, ref: reference, snd: sender, iat, exp, nbf: notBefore && Math.floor(notBefore) };
  const { alg, algorithm } = algorithmOf(key);
  const { kty, k, crv, x, d } = key;
  const signer = await crypto.subtle.importKey('jwk', /** @type {JsonWebKey} */ (kty === 'oct' ? { kty, k } : { kty, crv, x, d }), algorithm, false, ['sign']);
  const signed = `${encoded({ alg, kid: key.kid })}.${encoded(claims)}`;
  const signature = await crypto.subtle.sign(algorithm.name, signer, new TextEncoder().encode(signed));
  return `${signed}.${base64url(new Uint8Array(signature))}`;
}

/** @param {Key} key */
function algorithmOf({ kid, kty, k, crv, d }) {
  // The engine takes no fewer than 32 bytes: 43 characters of base64url.
  if (kid && kty === 'oct' && /^[\w-]{43,}$/.test(k ?? '')) return { alg: 'HS256', algorithm: { name: 'HMAC', hash: 'SHA-256' } };
  if (kid && kty === 'OKP' && crv === 'Ed25519' && d) return { alg: 'EdDSA', algorithm: { name: 'Ed25519' } };
  throw new TypeError('the key must be a JWK with a kid: oct with at least 32 bytes, or a private Ed25519');
}

/** @param {unknown} value */
function encoded(value) {
  return base64url(new TextEncoder().encode(JSON.stringify(value)));
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
