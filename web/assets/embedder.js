// Asks the app that shows the page in a frame, or that opened its window, for a token or a ticket.

import { tab } from './browser.js';
import { IS_TICKET, TICKET, TOKEN, refused, subjectOf } from './session.js';

/**
 * Asks the embedding app for a token and waits for the message `{type: 'hongbao-token', token}` from a configured origin.
 * @param {import('./session.js').Auth} auth
 * @param {AbortSignal} signal
 * @returns {Promise<string | null>} null if nobody can answer, or if the signal came first
 */
export function tokenFromEmbedder(auth, signal) {
  const take = (/** @type {any} */ { type, token }) => {
    if (type !== 'hongbao-token' || typeof token !== 'string' || refused.has(token) || subjectOf(token) === null) return null;
    tab.set(TOKEN, token);
    return token;
  };
  return fromEmbedder(auth, { type: 'hongbao-token-wanted' }, take, signal);
}

/**
 * Asks the embedding app for another ticket and waits for the message `{type: 'hongbao-ticket', packet_id, ticket}` from a configured origin.
 * @param {import('./session.js').Auth} auth
 * @param {string} packet_id
 * @returns {Promise<string | null>} null if nobody can answer
 */
export function ticketFromEmbedder(auth, packet_id) {
  const sent = tab.get(TICKET + packet_id);
  const take = (/** @type {any} */ { type, packet_id: of, ticket }) => {
    if (type !== 'hongbao-ticket' || of !== packet_id || ticket === sent || typeof ticket !== 'string' || !IS_TICKET.test(ticket)) return null;
    tab.set(TICKET + packet_id, ticket);
    return ticket;
  };
  return fromEmbedder(auth, { type: 'hongbao-ticket-wanted', packet_id }, take);
}

/**
 * Asks the embedding app, and waits for a message from a configured origin that the page can take.
 * @param {import('./session.js').Auth} auth
 * @param {object} wanted what it is asked for
 * @param {(data: object) => string | null} take
 * @param {AbortSignal} [signal]
 * @returns {Promise<string | null>} null if nobody can answer, or if the signal came first
 */
function fromEmbedder(auth, wanted, take, signal) {
  const origins = auth.origins ?? [];
  const embedders = [parent, opener].filter((embedder) => embedder && embedder !== window && origins.length > 0);
  if (embedders.length === 0) return Promise.resolve(null);
  return new Promise((resolve) => {
    const stop = new AbortController();
    const end = (/** @type {string | null} */ given) => {
      stop.abort();
      resolve(given);
    };
    signal?.addEventListener('abort', () => end(null), { signal: stop.signal });
    const listen = (/** @type {MessageEvent} */ event) => {
      const trusted = origins.includes(event.origin) && (event.source === parent || event.source === opener);
      const given = trusted ? take(event.data ?? {}) : null;
      if (given !== null) end(given);
    };
    addEventListener('message', listen, { signal: stop.signal });
    for (const embedder of embedders) {
      // Sent only to the configured origins: another site that frames the page does not receive it.
      for (const origin of origins) embedder.postMessage(wanted, origin);
    }
  });
}
