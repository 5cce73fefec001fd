// The session of the signed-in user. config.json selects one of three ways to sign in:
//
// `local`: a choice of names, for the local stack, which trusts the header X-User-Id.
//
// `token`: the embedding app passes a bearer token, in the fragment (#token=…) or by postMessage.
//
// `cognito`: Cognito's authorization code flow with PKCE.
//
// A token stays in sessionStorage, which ends with the tab. No other tab and no later visitor can read it.

/**
 * @typedef {object} Auth
 * @property {'local' | 'token' | 'cognito'} kind
 * @property {string[]} [users] local: the names to choose from
 * @property {string[]} [origins] token: the origins that may pass a token by postMessage
 * @property {string} [domain] cognito: such as https://example.auth.ap-east-1.amazoncognito.com
 * @property {string} [client_id] cognito
 * @property {string} [scope] cognito
 */
/**
 * @typedef {object} Session
 * @property {string} userId
 * @property {() => Promise<Record<string, string>>} headers The headers that identify the user.
 * @property {() => void} expired To call when the service no longer accepts the token.
 */

import { home } from './context.js';

const TOKEN = 'hongbao.token';
const REFRESH = 'hongbao.refresh';
const USER = 'hongbao.user';
const FLOW = 'hongbao.flow';
/** A token is renewed this long before it expires. */
const RENEW_BEFORE_S = 60;

/** Returns the names that the local stack offers. @param {Auth} auth */
export function localUsers(auth) {
  return auth.users ?? ['alice', 'bob', 'carol', 'dave'];
}

/** Chooses a name, on the local stack. @param {string} userId */
export function chooseLocalUser(userId) {
  // Each tab may have another user. A new tab starts with the last choice.
  sessionStorage.setItem(USER, userId);
  localStorage.setItem(USER, userId);
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
  if (auth.kind === 'local') return localSession(auth);
  if (auth.kind === 'cognito') await finishCodeFlow(auth);
  else takeTokenOfFragment();
  const token = sessionStorage.getItem(TOKEN);
  return token && isFresh(token) ? tokenSession(auth, token) : renewed(auth);
}

/** @param {Auth} auth @returns {Session} */
function localSession(auth) {
  const userId = sessionStorage.getItem(USER) ?? localStorage.getItem(USER) ?? localUsers(auth)[0] ?? 'alice';
  sessionStorage.setItem(USER, userId);
  return { userId, headers: async () => ({ 'X-User-Id': userId }), expired: () => {} };
}

/** @param {Auth} auth @param {string} token @returns {Session} */
function tokenSession(auth, token) {
  let current = token;
  return {
    // Only for display: the service verifies the token itself.
    userId: String(claimsOf(token)?.['sub'] ?? ''),
    headers: async () => {
      if (!isFresh(current) && auth.kind === 'cognito') current = (await refresh(auth)) ?? current;
      return { Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? current}` };
    },
    expired: () => {
      sessionStorage.removeItem(TOKEN);
    },
  };
}

/** @param {Auth} auth */
async function renewed(auth) {
  const token = auth.kind === 'cognito' ? await refresh(auth) : null;
  return token ? tokenSession(auth, token) : null;
}

/** @param {string} token @returns {Record<string, unknown> | null} */
function claimsOf(token) {
  try {
    const part = (token.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/');
    const bytes = Uint8Array.from(atob(part), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

/** @param {string} token */
function isFresh(token) {
  const claims = claimsOf(token);
  if (!claims) return false;
  return typeof claims['exp'] !== 'number' || claims['exp'] - RENEW_BEFORE_S > Date.now() / 1000;
}

/** Returns the fragment that shows the packet of a link /p/<id>. */
function packetFragment() {
  const path = /\/p\/[^/]+$/.exec(location.pathname)?.[0];
  return path ? `#${path}` : '';
}

// --- A token from the embedding app ---------------------------------------------------------------------------------------------

function takeTokenOfFragment() {
  const given = new URLSearchParams(location.hash.replace(/^#/, ''));
  const token = given.get('token');
  if (!token) return;
  sessionStorage.setItem(TOKEN, token);
  // Removed from the address at once: otherwise it would stay in the history and in links that users copy.
  const to = given.get('to');
  history.replaceState(null, '', `${home()}${to === null ? packetFragment() || '#/' : `#${to}`}`);
}

/**
 * Asks the embedding app for a token and waits for the message `{type: 'hongbao-token', token}` from a configured origin.
 * @param {Auth} auth
 * @returns {Promise<Session>}
 */
export function tokenFromEmbedder(auth) {
  const origins = auth.origins ?? [];
  return new Promise((resolve) => {
    const listen = (/** @type {MessageEvent} */ event) => {
      const { type, token } = event.data ?? {};
      const trusted = origins.includes(event.origin) && (event.source === parent || event.source === opener);
      if (!trusted || type !== 'hongbao-token' || typeof token !== 'string' || !isFresh(token)) return;
      removeEventListener('message', listen);
      sessionStorage.setItem(TOKEN, token);
      resolve(tokenSession(auth, token));
    };
    addEventListener('message', listen);
    for (const embedder of [parent, opener]) {
      if (!embedder || embedder === window) continue;
      // Sent only to the configured origins: another site that frames the page does not receive it.
      for (const origin of origins) embedder.postMessage({ type: 'hongbao-token-wanted' }, origin);
    }
  });
}

// --- Cognito ---------------------------------------------------------------------------------------------------------

/** @param {Uint8Array} bytes */
function base64Url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

const redirectUri = () => home();

/** Goes to Cognito's sign-in page. @param {Auth} auth */
export async function startCodeFlow(auth) {
  const random = () => base64Url(crypto.getRandomValues(new Uint8Array(32)));
  const flow = { verifier: random(), state: random(), to: location.hash || packetFragment() };
  sessionStorage.setItem(FLOW, JSON.stringify(flow));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(flow.verifier));
  const parameters = new URLSearchParams({
    response_type: 'code',
    client_id: auth.client_id ?? '',
    redirect_uri: redirectUri(),
    scope: auth.scope ?? 'openid',
    state: flow.state,
    code_challenge: base64Url(new Uint8Array(digest)),
    code_challenge_method: 'S256',
  });
  location.assign(`${auth.domain}/oauth2/authorize?${parameters}`);
}

/** @param {Auth} auth */
async function finishCodeFlow(auth) {
  const parameters = new URLSearchParams(location.search);
  const [code, state] = [parameters.get('code'), parameters.get('state')];
  if (!code || !state) return;
  const flow = JSON.parse(sessionStorage.getItem(FLOW) ?? 'null');
  sessionStorage.removeItem(FLOW);
  history.replaceState(null, '', `${home()}${flow?.to ?? ''}`);
  // This tab did not ask for a code with another state.
  if (!flow || flow.state !== state) return;
  await exchange(auth, { grant_type: 'authorization_code', code, redirect_uri: redirectUri(), code_verifier: flow.verifier });
}

/** @param {Auth} auth @returns {Promise<string | null>} */
function refresh(auth) {
  const token = sessionStorage.getItem(REFRESH);
  return token ? exchange(auth, { grant_type: 'refresh_token', refresh_token: token }) : Promise.resolve(null);
}

/** @param {Auth} auth @param {Record<string, string>} grant @returns {Promise<string | null>} */
async function exchange(auth, grant) {
  const body = new URLSearchParams({ ...grant, client_id: auth.client_id ?? '' });
  const response = await fetch(`${auth.domain}/oauth2/token`, { method: 'POST', body });
  if (!response.ok) return null;
  const tokens = await response.json();
  // The id token, since the API's authorizer checks the audience, which is the client here.
  sessionStorage.setItem(TOKEN, tokens.id_token);
  if (tokens.refresh_token) sessionStorage.setItem(REFRESH, tokens.refresh_token);
  return tokens.id_token;
}
