// How the page asks: the routes of the deployment, and the tool beside the page.

import { tab, timed } from '../assets/browser.js';
import { setCurrency } from '../assets/context.js';
import { sleep } from '../assets/dom.js';
import { Problem, Unreachable } from '../client/hongbao.js';

/** @typedef {Record<string, any>} Row What a route answers: openapi.yaml describes it. */
/** @typedef {{method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal | undefined, timeoutMs?: number, triesMax?: number}} Asked */

const TOKEN = 'hongbao.console';
const TRIES_MAX = 3;
const TIMEOUT_MS = 15_000;
/** A tool may work through a whole ledger, for five minutes. */
const TOOL_TIMEOUT_MS = 310_000;

/** `tool`: whether commands run beside the page. `log`: whether they read a log. `who`: the principal of all calls. @type {{api: string, tool: boolean, log: boolean, who: string | null, currency?: string}} */
export let config = { api: '', tool: false, log: false, who: null };

/** Reads the settings. The token of the page's own server comes in the address, and leaves it at once. */
export async function loadConfig() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    tab.set(TOKEN, token);
    history.replaceState(null, '', location.pathname);
  }
  const known = tab.get(TOKEN);
  config = { ...config, ...(await (await fetch('config.json', { headers: known ? { 'Console-Token': known } : {} })).json()) };
  if (config.currency) setCurrency(config.currency);
}

/** A path whose values are encoded, so that no value is a path of its own. @param {TemplateStringsArray} texts @param {...string} values */
export function path(texts, ...values) {
  return String.raw({ raw: texts }, ...values.map(encodeURIComponent));
}

/** Adds a query without what is empty. @param {string} to @param {Record<string, string | number | null | undefined>} values */
export function asked(to, values) {
  const query = new URLSearchParams(Object.entries(values).flatMap(([name, value]) => (value ? [[name, String(value)]] : [])));
  return query.size > 0 ? `${to}?${query}` : to;
}

/** The right that a call needs, by the names that keys and policies have. @param {string} method @param {string} to */
function rightOf(method, to) {
  if (method === 'GET') return 'read';
  return to.endsWith('/webhooks') ? 'webhooks' : /\/(post|void)$/.test(to) ? 'payout' : 'money';
}

/** Nobody knows whether such a call was carried out. @param {unknown} error */
export const isUnknown = (error) => error instanceof Unreachable || (error instanceof Problem && [502, 503, 504].includes(error.status));
/** What may pass: no answer, and what the service asks to repeat. Nothing here counts twice: reads, and deeds with a key. @param {unknown} error */
const passes = (error) => isUnknown(error) || (error instanceof Problem && error.status === 429);

/** @param {string} url @param {string} right @param {Asked} how @returns {Promise<Response>} */
async function request(url, right, { method = 'GET', body, headers = {}, signal, timeoutMs = TIMEOUT_MS, triesMax = TRIES_MAX }) {
  const text = body === undefined ? null : JSON.stringify(body);
  const token = tab.get(TOKEN);
  const all = { ...headers, ...(text && { 'Content-Type': 'application/json' }), ...(token && { 'Console-Token': token }) };
  for (let tries = 1; ; tries += 1) {
    try {
      const limit = AbortSignal.timeout(timeoutMs);
      const response = timed(await fetch(url, { method, headers: all, body: text, signal: signal ? AbortSignal.any([signal, limit]) : limit }));
      // The body is read here too: an answer that breaks off is none.
      const bytes = await response.arrayBuffer();
      const { status } = response;
      if (response.ok) return new Response(bytes.byteLength > 0 ? bytes : null, { status, headers: response.headers });
      throw problem(response, new TextDecoder().decode(bytes), right);
    } catch (error) {
      signal?.throwIfAborted();
      const known = error instanceof Problem ? error : new Unreachable(error);
      if (!passes(known) || tries >= triesMax) throw known;
      await sleep(300 * 2 ** tries, signal);
      signal?.throwIfAborted();
    }
  }
}

/** @param {Response} response @param {string} text @param {string} right */
function problem({ status, headers }, text, right) {
  /** @type {Row} */
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // An answer of a proxy. Its status says enough.
  }
  const requestId = body['request_id'] ?? headers.get('X-Request-Id') ?? headers.get('apigw-requestid') ?? '';
  const fault = new Problem(status, body['code'] ?? String(status), { detail: body['detail'] ?? body['message'] ?? '', errors: body['errors'] ?? [], requestId });
  return Object.assign(fault, { right });
}

/** Reads a route. @param {string} to @param {AbortSignal} [signal] @returns {Promise<Row>} */
export async function read(to, signal) {
  const answer = await (await request(config.api + to, 'read', { signal })).json();
  if (answer.currency) setCurrency(answer.currency);
  return answer;
}

/** Reads a file. @param {string} to @param {string} type @returns {Promise<{name: string, blob: Blob}>} */
export async function readFile(to, type) {
  const response = await request(config.api + to, 'read', { headers: { Accept: type } });
  return { name: /filename="(.+)"/.exec(response.headers.get('Content-Disposition') ?? '')?.[1] ?? 'claims.csv', blob: await response.blob() };
}

/** Does a deed. The same key again does it no second time. @param {string} method @param {string} to @param {Row} body @param {string} key @returns {Promise<Row | null>} */
export async function act(method, to, body, key) {
  const response = await request(config.api + to, rightOf(method, to.split('?')[0] ?? ''), { method, body, headers: { 'Idempotency-Key': key } });
  return response.json().catch(() => null);
}

/** Runs a command beside the page. A deed is asked for once: it has no key. @param {string[]} command @param {{reason?: string, signal?: AbortSignal, isDeed?: boolean}} [more] @returns {Promise<{exit: number, output: any}>} */
export async function tool(command, { reason, signal, isDeed = false } = {}) {
  const response = await request('tool', 'repair', { method: 'POST', body: { command, ...(reason && { reason }) }, signal, timeoutMs: TOOL_TIMEOUT_MS, triesMax: isDeed ? 1 : TRIES_MAX });
  return response.json();
}
