// Signs in by Cognito's code flow with PKCE.

import { tab } from './browser.js';
import { home } from './context.js';
import { REFRESH, TOKEN, packetFragment } from './session.js';

const FLOW = 'hongbao.flow';

/** @param {Uint8Array} bytes */
function base64Url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

/** Goes to Cognito's sign-in page. @param {import('./session.js').Auth} auth */
export async function startCodeFlow(auth) {
  const random = () => base64Url(crypto.getRandomValues(new Uint8Array(32)));
  const flow = { verifier: random(), state: random(), to: location.hash || packetFragment() };
  tab.set(FLOW, JSON.stringify(flow));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(flow.verifier));
  const parameters = new URLSearchParams({
    response_type: 'code',
    client_id: auth.client_id ?? '',
    redirect_uri: home(),
    scope: auth.scope ?? 'openid',
    state: flow.state,
    code_challenge: base64Url(new Uint8Array(digest)),
    code_challenge_method: 'S256',
  });
  location.assign(`${auth.domain}/oauth2/authorize?${parameters}`);
}

/** Takes the code that Cognito sent the user back with. @param {import('./session.js').Auth} auth @returns {Promise<boolean>} whether this tab did not ask for it */
export async function finishCodeFlow(auth) {
  const parameters = new URLSearchParams(location.search);
  const [code, state] = [parameters.get('code'), parameters.get('state')];
  if (!code || !state) return false;
  const flow = JSON.parse(tab.get(FLOW) ?? 'null');
  tab.remove(FLOW);
  history.replaceState(null, '', `${home()}${flow?.to ?? ''}`);
  if (!flow || flow.state !== state) return true;
  await exchange(auth, { grant_type: 'authorization_code', code, redirect_uri: home(), code_verifier: flow.verifier });
  return false;
}

/** @param {import('./session.js').Auth} auth @returns {Promise<string | null>} */
export async function refresh(auth) {
  const token = tab.get(REFRESH);
  return token ? exchange(auth, { grant_type: 'refresh_token', refresh_token: token }) : null;
}

/** @param {import('./session.js').Auth} auth @param {Record<string, string>} grant @returns {Promise<string | null>} */
async function exchange(auth, grant) {
  const body = new URLSearchParams({ ...grant, client_id: auth.client_id ?? '' });
  const response = await fetch(`${auth.domain}/oauth2/token`, { method: 'POST', body });
  // Cognito is busy: that says nothing about the user.
  if (response.status === 429 || response.status >= 500) throw new Error(`sign-in: ${response.status}`);
  if (!response.ok) return null;
  const tokens = await response.json();
  // The id token, since the API's authorizer checks the audience, which is the client here.
  tab.set(TOKEN, tokens.id_token);
  if (tokens.refresh_token) tab.set(REFRESH, tokens.refresh_token);
  return tokens.id_token;
}
