// Checks deliveries of webhooks, after the Standard Webhooks specification. It runs unchanged in browsers and in Node.
//
// Events grow: a later service may deliver events with more fields, and types of events that this client does not know. Answer
// an unknown type with 2xx and ignore it.

/** @typedef {import('./api.d.ts').components['schemas']} Schemas */
/** @typedef {Schemas['PacketSent']} PacketSent */
/** @typedef {Schemas['SlipClaimed']} SlipClaimed */
/** @typedef {Schemas['PacketSoldOut']} PacketSoldOut */
/** @typedef {Schemas['PacketClosed']} PacketClosed */
/** @typedef {Schemas['PacketSettled']} PacketSettled */
/** @typedef {Schemas['PacketRefunded']} PacketRefunded */

/** @typedef {Schemas['WebhookEvent'] & {id: string}} WebhookEvent The types so far; ignore any other one. `id` is the same each time the event is delivered. */
/** @typedef {Headers | Readonly<Record<string, string | readonly string[] | undefined>>} HeadersOfRequest Those of `fetch`, or those of Node's `IncomingMessage`. */

/** The longest time between a delivery's timestamp and now, in seconds. A recorded delivery cannot be repeated later. */
const TOLERANCE_S = 300;
const PREFIX = 'whsec_';
/** The fewest bytes of a secret, by the specification, and the base64 of so many. */
const SECRET_BYTES_MIN = 24;
const SECRET_CHARACTERS_MIN = 32;

/** A request that is not a delivery of this service, or that is too old. Answer it with 401. */
export class WebhookError extends Error {
  /**
   * @param {'header' | 'timestamp' | 'signature' | 'body'} reason what is wrong with the request
   * @param {string} message
   */
  constructor(reason, message) {
    super(message);
    this.name = 'WebhookError';
    this.reason = reason;
  }
}

/**
 * Returns the event of a delivery, or throws `WebhookError` if the service did not send the request in the last five minutes. It throws
 * `TypeError` if the secret can't be used, which is a mistake in the receiver's configuration.
 * @param {string} secret the secret of the webhook: `whsec_` and base64 in either alphabet, with padding or without; it may have line breaks
 * @param {HeadersOfRequest} headers the headers of the request
 * @param {string | Uint8Array} body the body exactly as it came: not parsed and serialised again
 * @param {{now?: number}} [options] `now`: the time in milliseconds, for tests
 * @returns {Promise<WebhookEvent>}
 */
export async function verify(secret, headers, body, { now = Date.now() } = {}) {
  const key = await keyOf(secret);
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => header(headers, name));
  if (!id || !timestamp || !signatures) throw new WebhookError('header', 'a header of the webhook is missing');
  const age = now / 1000 - (/^\d{1,15}$/.test(timestamp) ? Number(timestamp) : NaN);
  if (!(Math.abs(age) <= TOLERANCE_S)) throw new WebhookError('timestamp', 'the timestamp is more than five minutes from now');
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  if (!(await isSigned(key, signatures, signed))) throw new WebhookError('signature', 'no signature fits the secret');
  return event(id, bytes);
}

/** @param {string} secret */
async function keyOf(secret) {
  const [first = '', ...lines] = secret.split(/[\r\n]+/).filter(Boolean);
  const isAmbiguous = lines.some((line) => line.length >= SECRET_CHARACTERS_MIN);
  if (isAmbiguous) throw new TypeError('the secret has a line that may be a secret of its own');
  const encoded = [first.startsWith(PREFIX) ? first.slice(PREFIX.length) : first, ...lines].join('');
  if (/[+/]/.test(encoded) && /[-_]/.test(encoded)) throw new TypeError('the secret mixes the two alphabets of base64');
  const bytes = exactly(encoded.replaceAll('-', '+').replaceAll('_', '/'));
  if (!bytes) throw new TypeError('the secret is not whsec_ and base64');
  if (bytes.length < SECRET_BYTES_MIN) throw new TypeError('the secret is shorter than 24 bytes');
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
}

/**
 * @param {HeadersOfRequest} headers
 * @param {string} name in lower case
 */
function header(headers, name) {
  if (typeof headers.get === 'function') return /** @type {Headers} */ (headers).get(name);
  const value = Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1];
  return typeof value === 'string' ? value : value?.join(' ');
}

/**
 * Whether one of the signatures fits: there are several while a secret is replaced. WebCrypto compares in constant time.
 * @param {CryptoKey} key
 * @param {string} signatures
 * @param {Uint8Array<ArrayBuffer>} signed
 */
async function isSigned(key, signatures, signed) {
  for (const text of signatures.split(' ')) {
    const signature = text.startsWith('v1,') ? decoded(text.slice(3)) : null;
    if (signature && (await crypto.subtle.verify('HMAC', key, signature, signed))) return true;
  }
  return false;
}

/**
 * @param {string} id
 * @param {Uint8Array} bytes
 * @returns {WebhookEvent}
 */
function event(id, bytes) {
  let body;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new WebhookError('body', 'the body is not JSON');
  }
  const { type, timestamp, data } = body ?? {};
  const isEvent = typeof type === 'string' && typeof timestamp === 'string' && typeof data === 'object' && data !== null;
  if (!isEvent) throw new WebhookError('body', 'the body is not an event');
  return { id, type: /** @type {any} */ (type), timestamp, data };
}

/**
 * Decodes base64 with its padding or without, and nothing that is only like it: `atob` skips spaces and drops bits.
 * @param {string} base64
 */
function exactly(base64) {
  const bytes = decoded(base64);
  const again = bytes && btoa(String.fromCharCode(...bytes));
  return again === base64 || again?.replace(/=+$/, '') === base64 ? bytes : null;
}

/**
 * @param {string} base64
 * @returns {Uint8Array<ArrayBuffer> | null}
 */
function decoded(base64) {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/**
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
