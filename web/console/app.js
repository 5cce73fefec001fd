// Starts the support page, and shows the view that the address names.

import { h, glyph, byId } from '../assets/dom.js';
import { LANGUAGES, language, loadTexts, switchLanguage } from '../assets/i18n.js';
import { config, loadConfig } from './calls.js';
import { IS_PACKET, IS_REFERENCE, isUserId, t, trouble } from './parts.js';

/** @typedef {(root: HTMLElement, signal: AbortSignal, parts: string[], query: URLSearchParams) => Promise<void> | void} View */

const isPacket = (/** @type {string} */ id) => IS_PACKET.test(id);
const isReference = (/** @type {string} */ id) => IS_REFERENCE.test(id);
/** Each view, with what its address must have. Nothing else of an address reaches a call. @type {[string, ((part: string) => boolean)[], number, () => Promise<View>][]} */
const VIEWS = [
  ['', [], 0, async () => (await import('./find.js')).home],
  ['find', [(text) => text.length > 0], 1, async () => (await import('./find.js')).findView],
  ['user', [isUserId], 1, async () => (await import('./user.js')).userView],
  ['packet', [isPacket, isUserId], 1, async () => (await import('./packet.js')).packetView],
  ['evening', [isReference, isUserId], 1, async () => (await import('./evening.js')).eveningView],
  ['withdrawals', [], 0, async () => (await import('./withdrawals.js')).withdrawalsView],
  ['state', [], 0, async () => (await import('./state.js')).stateView],
  ['deeds', [], 0, async () => (await import('./deeds.js')).deedsView],
];

let showing = new AbortController();

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** Shows the view of the address. @param {boolean} [isSame] whether it is shown already, and only its data is new */
async function show(isSame = false) {
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  const [path, query] = location.hash.slice(1).split('?');
  const [name = '', ...parts] = (path ?? '').split('/').slice(1).map(decoded);
  const view = VIEWS.find(([known, checks, least]) => known === name && parts.length >= least && parts.length <= checks.length && parts.every((part, i) => checks[i]?.(part)));
  frame(name, name === 'find' ? (parts[0] ?? '') : '');
  const root = byId('main');
  const content = h('div', { class: 'view', 'data-view': name || 'home' });
  try {
    const draw = view ? await view[3]() : notFound;
    if (signal.aborted) return;
    root.replaceChildren(content);
    await draw(content, signal, parts, new URLSearchParams(query));
  } catch (error) {
    if (!signal.aborted) content.append(trouble(error, () => void show()));
  }
  if (signal.aborted || isSame) return;
  const title = content.querySelector('h1');
  document.title = `${title?.textContent ?? ''} · hongbao`;
  scrollTo(0, 0);
  if (title && !['q', 'language'].includes(document.activeElement?.id ?? '')) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }
}

/** @param {HTMLElement} root */
function notFound(root) {
  root.append(h('section', { class: 'notice' }, h('h1', null, t('notFound.title')), h('a', { class: 'button', href: '#/' }, t('nav.find'))));
}

/** Draws the header and the search box, which every view has. @param {string} name @param {string} wanted */
function frame(name, wanted) {
  document.documentElement.lang = language();
  byId('skip').textContent = t('skip');
  const link = (/** @type {string} */ to, /** @type {import('./parts.js').Key} */ text) => h('a', { href: `#/${to}`, 'aria-current': name === to ? 'page' : null }, h('span', null, t(text)));
  byId('bar').replaceChildren(
    h('a', { class: 'brand', href: '#/', 'aria-label': `hongbao · ${t('console')}` }, h('span', { class: 'seal', 'aria-hidden': 'true' }, glyph('開')), h('span', { class: 'wordmark' }, t('console'))),
    h('nav', { class: 'tabs', 'aria-label': t('nav.main') }, link('', 'nav.find'), link('withdrawals', 'nav.withdrawals'), link('state', 'nav.state'), link('deeds', 'nav.deeds')),
    h('div', { class: 'tools' }, config.who && h('bdi', { class: 'user', title: config.who }, config.who.split('/').at(-1) ?? ''), languageChoice()),
  );
  const box = /** @type {HTMLInputElement | null} */ (document.getElementById('q'));
  if (box && document.activeElement === box) return;
  const input = h('input', { id: 'q', type: 'search', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', enterkeyhint: 'search', maxlength: 300, 'aria-label': t('find.label'), placeholder: t('find.label'), value: wanted });
  const form = h('form', { role: 'search' }, input, h('label', { for: 'q', class: 'slash', 'aria-hidden': 'true' }, '/'), h('button', { class: 'button', type: 'submit' }, t('find.go')));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    input.blur();
    const next = `#/find/${encodeURIComponent(text)}`;
    // The same search again looks again.
    if (location.hash === next) void show();
    else location.hash = next;
  });
  byId('search').replaceChildren(form);
}

function languageChoice() {
  const choice = h('select', { id: 'language', class: 'choice', 'aria-label': t('language.label') }, ...[...LANGUAGES].map(([tag, name]) => h('option', { value: tag, lang: tag, selected: tag === language() }, name)));
  choice.addEventListener('change', async () => {
    await switchLanguage(choice.value).catch(() => {});
    await show();
    byId('language').focus();
  });
  return choice;
}

addEventListener('hashchange', () => void show());
// A deed was done.
addEventListener('hongbao-changed', () => void show(true));
addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select, dialog');
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  event.preventDefault();
  /** @type {HTMLInputElement} */ (byId('q')).select();
});

Promise.all([loadConfig(), loadTexts((tag) => import(`./lang/${tag}.js`))])
  .then(() => show())
  .catch((error) => byId('main').replaceChildren(trouble(error, () => location.reload())));
