// The session of the signed-in user. A token stays in the tab's storage. The machine's clock may be wrong, so the page believes only a 401.

/**
 * @typedef {object} Auth
 * @property {'local' | 'token' | 'cognito'} kind
 * @property {string[]} [users] local: the names to choose from
 * @property {string[]} [origins] the origins that may pass a token or a ticket by postMessage
 * @property {string} [domain] cognito: such as https://example.auth.ap-east-1.amazoncognito.com
 * @property {string} [client_id] cognito
 * @property {string} [scope] cognito
 */
/**
 * @typedef {object} Session
 * @property {string} userId
 * @property {typeof globalThis.fetch} fetch Sends a request as the user.
 * @property {() => void} end Forgets what the service no longer accepts.
 */

import { device, tab } from './browser.js';
import { home } from './context.js';
import { sleep } from './dom.js';

export const TOKEN = 'hongbao.token';
export const REFRESH = 'hongbao.refresh';
const USER = 'hongbao.user';
/** Before a packet's id. */
export const TICKET = 'hongbao.ticket.';
export const IS_TICKET = /^[\w-]+(\.[\w-]+){2}$/;
/** The embedding app has this long to answer while a request waits for another token or ticket. */
const EMBEDDER_WITHIN_MS = 4_000;
/** Tokens that the service refused. The page does not take them again. @type {Set<string>} */
export const refused = new Set();
/** What the embedding app was asked for, by packet, until the service accepts a ticket. @type {Map<string, Promise<string | null>>} */
const asked = new Map();

/** Another user whose token a link has brought. The session stays that of the user before until they decide. @type {{userId: string, token: string} | null} */
export let offered = null;
/** Whether Cognito sent the user back to a page that no longer knows that it asked. */
export let isFlowLost = false;

/** Returns the names that the local stack offers. @param {Auth} auth */
export function localUsers(auth) {
  return auth.users ?? ['alice', 'bob', 'carol', 'dave'];
}

/** Chooses a name, on the local stack. @param {string} userId */
export function chooseLocalUser(userId) {
  // Each tab may have another user. A new tab starts with the last choice.
  tab.set(USER, userId);
  device.set(USER, userId);
}

/** Whether the API accepts this user id. @param {string} userId */
export function isUserId(userId) {
  return /^[\x21-\x7e]{1,128}$/.test(userId) && !/[/?#%]/.test(userId) && !/^\.\.?$/.test(userId);
}

/**
 * Opens the session; null if the user has to sign in first.
 * @param {Auth} auth
 * @returns {Promise<Session | null>}
 */
export async function openSession(auth) {
  takeFragment(auth.kind === 'token');
  asked.clear();
  if (auth.kind === 'local') return localSession(auth);
  if (auth.kind === 'cognito' && location.search) isFlowLost = await (await cognito()).finishCodeFlow(auth);
  const token = tab.get(TOKEN) ?? (auth.kind === 'cognito' && tab.get(REFRESH) ? await (await cognito()).refresh(auth) : null);
  return token && subjectOf(token) !== null ? tokenSession(auth, token) : null;
}

/** @param {Auth} auth @returns {Session} */
function localSession(auth) {
  const userId = tab.get(USER) ?? device.get(USER) ?? localUsers(auth)[0] ?? 'alice';
  tab.set(USER, userId);
  return { userId, fetch: (input, init) => fetchWith(auth, 'X-User-Id', userId, input, init), end: () => {} };
}

/** @param {Auth} auth @param {string} name @param {string} value @param {RequestInfo | URL} input @param {RequestInit} [init] */
async function fetchWith(auth, name, value, input, init = {}) {
  const packetId = /\/packets\/(\w+)/.exec(String(input))?.[1] ?? '';
  const ticket = () => tab.get(TICKET + packetId);
  const send = () => {
    const headers = new Headers(init.headers);
    headers.set(name, value);
    const kept = ticket();
    if (kept) headers.set('Grab-Ticket', kept);
    return fetch(input, { ...init, headers });
  };
  const sent = ticket();
  const answer = await send();
  if (answer.ok) asked.delete(packetId);
  if (answer.status !== 403 || !packetId) return answer;
  const { code } = await answer.clone().json().catch(() => ({}));
  if (!/^ticket-/.test(code)) return answer;
  const coming = asked.get(packetId) ?? embedder().then(({ ticketFromEmbedder }) => ticketFromEmbedder(auth, packetId)).catch(() => null);
  asked.set(packetId, coming);
  await Promise.race([coming, sleep(EMBEDDER_WITHIN_MS)]);
  return ticket() === sent ? answer : send();
}

/** @param {Auth} auth @param {string} first @returns {Session} */
function tokenSession(auth, first) {
  // Only for display: the service verifies the token itself.
  const userId = subjectOf(first) ?? '';
  let token = first;
  // Not again before the service has accepted a token: where it accepts none, each request would ask.
  let mayAsk = true;
  /** @type {Promise<void> | undefined} */
  let asking;
  const renew = async () => {
    mayAsk = false;
    try {
      const other = await (auth.kind === 'cognito' ? cognito().then(({ refresh }) => refresh(auth)) : embedder().then(({ tokenFromEmbedder }) => tokenFromEmbedder(auth, AbortSignal.timeout(EMBEDDER_WITHIN_MS))));
      // Another user's token must not repeat this user's request.
      if (other !== null && subjectOf(other) === userId) token = other;
    } catch (error) {
      mayAsk = true;
      throw error;
    } finally {
      asking = undefined;
    }
  };
  /** @type {(input: RequestInfo | URL, init?: RequestInit) => Promise<Response>} */
  const send = async (input, init) => {
    const answer = await fetchWith(auth, 'Authorization', `Bearer ${token}`, input, init);
    if (answer.ok) mayAsk = true;
    return answer;
  };
  return {
    userId,
    fetch: async (input, init) => {
      const sent = token;
      const answer = await send(input, init);
      if (answer.status !== 401) return answer;
      refused.add(sent);
      // Requests that are refused at the same time wait for the same token.
      if (token === sent && mayAsk) asking ??= renew();
      await asking;
      return token === sent ? answer : send(input, init);
    },
    end: () => {
      tab.remove(TOKEN);
      tab.remove(REFRESH);
    },
  };
}

/** Returns what a token or a ticket says; null if the page can't read it. @param {string | null} text @returns {{sub?: unknown, nbf?: unknown} | null} */
function claimsOf(text) {
  try {
    const part = (text?.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/');
    const bytes = Uint8Array.from(atob(part), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** Returns the user that a token names; null if it is none that the page can read. @param {string} token @returns {string | null} */
export function subjectOf(token) {
  const claims = claimsOf(token);
  return claims && String(claims.sub ?? '');
}

/** Returns when the user's turn comes, as their ticket for this packet says, in milliseconds. @param {string} packetId */
export function turnOf(packetId) {
  return (Number(claimsOf(tab.get(TICKET + packetId))?.nbf) || 0) * 1_000;
}

/** Returns the fragment that shows the packet of a link /p/<id>. */
export function packetFragment() {
  const path = /\/p\/[^/]+$/.exec(location.pathname)?.[0];
  return path ? `#${path}` : '';
}

// --- A token or a ticket from the embedding app

/** Few need them. */
export const embedder = () => import('./embedder.js');
export const cognito = () => import('./cognito.js');

/** Takes a packet's ticket from the address, and the token. @param {boolean} takesToken */
function takeFragment(takesToken) {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = takesToken && given.get('token');
  const ticket = given.get('ticket');
  if (!token && !ticket) return;
  const to = given.get('to') ?? (packetFragment().slice(1) || '/');
  if (token) takeToken(token);
  const packet = to.split('/')[2];
  if (packet && ticket && IS_TICKET.test(ticket)) tab.set(TICKET + packet, ticket);
  // Removed from the address at once: otherwise they would stay in the history and in links that users copy.
  history.replaceState(null, '', `${home()}#${to}`);
}

/** Takes a token from a link, which may be a stranger's. @param {string} token */
function takeToken(token) {
  const [mine, userId] = [subjectOf(tab.get(TOKEN) ?? ''), subjectOf(token)];
  offered = mine === null || mine === userId || userId === null ? null : { userId, token };
  if (!offered && (mine === null || userId !== null)) tab.set(TOKEN, token);
}

/** The user decides whose session the page has from now on. @param {boolean} isTaken */
export function decide(isTaken) {
  if (isTaken && offered) tab.set(TOKEN, offered.token);
  offered = null;
}

/** Shows the ticket of one packet for another one too that has none. @param {string} from @param {string} to */
export function shareTicket(from, to) {
  const ticket = tab.get(TICKET + from);
  if (ticket && !tab.get(TICKET + to)) tab.set(TICKET + to, ticket);
}

/** Waits for the ticket that the embedding app was asked for. @param {string} packetId @returns {Promise<boolean>} whether it is another one */
export async function otherTicket(packetId) {
  const sent = tab.get(TICKET + packetId);
  return ((await asked.get(packetId)) ?? sent) !== sent;
}
