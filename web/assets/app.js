// Starts the page, and shows the screen that the address names.

import { device, tab } from './browser.js';
import { config, expectPacket, home, loadConfig, me, session, useSession } from './context.js';
import { byId, glyph, h, say } from './dom.js';
import { LANGUAGES, language, loadTexts, switchLanguage, t } from './i18n.js';
import { forgetPeople, isolated, meet, preparePeople, self } from './people.js';
import { chooseLocalUser, cognito, decide, embedder, isFlowLost, isUserId, localUsers, offered, openSession } from './session.js';

/** @typedef {(root: HTMLElement, signal: AbortSignal, ...parts: string[]) => void | Promise<void>} Screen */

/** @typedef {import('./i18n.js').Key} Key */

/** The address, the title and the loader of each screen. A screen is loaded when it is first shown. @type {[RegExp, Key, () => Promise<Screen>][]} */
const ROUTES = [
  [/^\/(?:send)?$/, 'send.title', async () => (await import('./send.js')).sendScreen],
  [/^\/sent\/([0-9A-Z]+)$/, 'sent.title', async () => (await import('./sent.js')).sentScreen],
  [/^\/p\/([^/]+)$/, 'app.name', async () => (await import('./packet/screen.js')).packetScreen],
  [/^\/mine(?:\/(sent|received|statement))?$/, 'mine.title', async () => (await import('./mine.js')).mineScreen],
  [/^\/verify(?:\/([^/]+))?$/, 'verify.title', async () => (await import('./verify.js')).verifyScreen],
  [/^\/rush$/, 'rush.title', async () => (await import('./rush.js')).rushScreen],
];
/** A screen that takes longer shows that it is loading. */
const SLOW_MS = 400;

let shown = new AbortController();
let isFirst = true;
let isNoted = false;

/** Returns the screen's path: of the fragment, or of a link /p/<id>. */
function route() {
  const fragment = location.hash.replace(/^#/, '');
  return fragment || (/\/p\/[^/]+$/.exec(location.pathname)?.[0] ?? '/');
}

/** Whether the embedding app has written a token or a ticket into the address. */
const isGiven = () => /^#(token|ticket)=/.test(location.hash);

/** Shows a packet as /p/<id> in the address, where the server answers that, and every other screen in the fragment. */
function straighten() {
  const path = route();
  const wanted = config.links === 'path' && /^\/p\/[^/]+$/.test(path) ? `${home()}${path.slice(1)}` : `${home()}#${path}`;
  if (isGiven() || location.href === wanted || (path === '/' && !location.hash)) return;
  history.replaceState(null, '', wanted);
}

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  straighten();
  frame();
  const root = byId('main');
  if (!session) return signIn(root, signal);
  if (offered) return chooseSession(root, offered.userId);
  const path = route();
  const [title, load, parts] = match(path);
  document.title = t(title);
  // The envelope of the static page stays. CSS hides the text as soon as the screen has drawn something beside it.
  const slow = setTimeout(() => (root.querySelector('.boot .envelope') ? say(t('loading')) : root.replaceChildren(h('p', { class: 'waiting', role: 'status' }, t('loading')))), SLOW_MS);
  signal.addEventListener('abort', () => clearTimeout(slow));
  try {
    const screen = await loaded(load);
    if (signal.aborted) return;
    // What was shown stays until the new screen is drawn.
    const old = [...root.childNodes];
    const drawn = new MutationObserver(() => {
      drawn.disconnect();
      clearTimeout(slow);
      if (byId('live').textContent === t('loading')) byId('live').textContent = '';
      for (const node of old) node.remove();
      root.dataset['screen'] = path.split('/')[1] || 'send';
      if (!isFirst) focusTitle(root, signal);
      isFirst = false;
    });
    drawn.observe(root, { childList: true });
    signal.addEventListener('abort', () => drawn.disconnect());
    await screen(root, signal, ...parts);
  } catch (error) {
    if (signal.aborted) return;
    const { NotLoaded, problemNotice } = await import('./problems.js');
    // A part that is missing although the browser is online belongs to another version: only the whole page fits together.
    const again = error instanceof NotLoaded && navigator.onLine ? () => location.reload() : () => void show();
    root.replaceChildren(problemNotice(error, again, signal));
  }
}

/** Loads a screen's module. @param {() => Promise<Screen>} load */
async function loaded(load) {
  try {
    return await load();
  } catch (error) {
    const { NotLoaded } = await import('./problems.js');
    throw new NotLoaded(String(error));
  }
}

/** @param {string} path @returns {[Key, () => Promise<Screen>, string[]]} */
function match(path) {
  for (const [pattern, title, load] of ROUTES) {
    const found = pattern.exec(path);
    if (found && (config.local || title !== 'rush.title')) return [title, load, found.slice(1)];
  }
  return ['notFound.title', async () => notFound, []];
}

/** @param {HTMLElement} root */
function notFound(root) {
  root.append(
    h('section', { class: 'notice' }, h('h1', { tabindex: '-1' }, t('notFound.title')), h('a', { class: 'button', href: '#/' }, t('notFound.home'))),
  );
}

/**
 * Moves the focus to the new screen's title as soon as there is one, for users of a keyboard or a screen reader.
 * @param {HTMLElement} root
 * @param {AbortSignal} signal
 */
function focusTitle(root, signal) {
  scrollTo(0, 0);
  root.focus({ preventScroll: true });
  const focus = () => {
    const title = root.querySelector('h1');
    if (!title) return false;
    title.tabIndex = -1;
    // Unless the user has moved the focus by then.
    if (document.activeElement === root || document.activeElement === document.body) title.focus({ preventScroll: true });
    return true;
  };
  if (focus()) return;
  const waiting = new MutationObserver(() => focus() && waiting.disconnect());
  waiting.observe(root, { childList: true });
  signal.addEventListener('abort', () => waiting.disconnect());
}

/** Asks whose session the page has from now on. @param {HTMLElement} root @param {string} other */
async function chooseSession(root, other) {
  const name = isUserId(other) ? other : '…';
  await meet([me(), name]).catch(() => {});
  const values = { user: isolated(me()), other: isolated(name) };
  const choice = (/** @type {boolean} */ isTaken, /** @type {Key} */ text) =>
    h('button', { class: isTaken ? 'button plain' : 'button', onClick: () => (decide(isTaken), void open().then(show)) }, t(text, values));
  root.replaceChildren(
    h(
      'section',
      { class: 'notice', 'data-kind': 'other-user' },
      h('h1', { tabindex: '-1' }, t('signin.other')),
      h('p', null, t('signin.other.text', values)),
      choice(false, 'signin.other.stay'),
      choice(true, 'signin.other.take'),
    ),
  );
}

function startCodeFlow() {
  void cognito().then(({ startCodeFlow }) => startCodeFlow(config.auth));
}

/** @param {HTMLElement} root @param {AbortSignal} signal */
async function signIn(root, signal) {
  const { auth } = config;
  const isCognito = auth.kind === 'cognito';
  // Cognito's page sends the user back to a page that remembers what it asked. Without that it would only send them there again.
  const comesBack = !isCognito || tab.lasts;
  root.replaceChildren(
    h(
      'section',
      { class: 'notice' },
      h('h1', { tabindex: '-1' }, t('signin.title')),
      h('p', null, t(!isCognito ? 'signin.token' : comesBack && !isFlowLost ? 'signin.cognito' : 'signin.storage')),
      isCognito && comesBack && h('button', { class: 'button', onClick: startCodeFlow }, t('signin.title')),
    ),
  );
  if (isCognito) return;
  const opened = await embedder().then(({ tokenFromEmbedder }) => tokenFromEmbedder(auth, signal));
  if (opened === null || signal.aborted) return;
  await open();
  await show();
}

/** Draws the header with its navigation, anew for each screen and language. */
function frame() {
  document.documentElement.lang = language();
  document.title = t('app.name');
  byId('skip').textContent = t('skip');
  const path = route();
  const here = (/** @type {string} */ to) => path === to || (to === '/' && path === '/send') || (to !== '/' && path.startsWith(to));
  const link = (/** @type {string} */ to, /** @type {Key} */ name) =>
    h('a', { href: `#${to}`, 'aria-current': here(to) ? 'page' : null }, h('span', null, t(name)));
  byId('bar').replaceChildren(
    h('a', { class: 'brand', href: '#/', 'aria-label': `hongbao · ${t('app.name')}` }, h('span', { class: 'seal', 'aria-hidden': 'true' }, glyph('開')), h('span', { class: 'wordmark' }, 'hongbao')),
    h('nav', { class: 'tabs', 'aria-label': t('nav.main') }, link('/', 'nav.send'), link('/mine', 'nav.mine'), config.local && link('/rush', 'nav.rush')),
    h('div', { class: 'tools' }, session && userChoice(), languageChoice()),
  );
  note();
}

/** Says what the browser does not keep for the page, until the user has read it. */
function note() {
  byId('note').hidden = isNoted || !session || (tab.lasts && device.lasts);
  if (byId('note').hidden) return;
  const done = () => {
    isNoted = true;
    note();
  };
  byId('note').replaceChildren(h('p', null, t(tab.lasts ? 'storage.language' : 'storage.none')), h('button', { class: 'link', onClick: done }, t('storage.done')));
}

function languageChoice() {
  const choice = h('select', { id: 'language', class: 'choice', 'aria-label': t('language.label') }, ...[...LANGUAGES].map(([tag, name]) => h('option', { value: tag, lang: tag, selected: tag === language() }, name)));
  choice.addEventListener('change', async () => {
    // Where the texts can't be loaded, the page stays as it is.
    await switchLanguage(choice.value).catch(() => {});
    forgetPeople();
    await show();
    byId('language').focus();
  });
  return choice;
}

/** Returns the signed-in user's name; on the local stack a choice of names. */
function userChoice() {
  if (config.auth.kind !== 'local') return self(me());
  const names = [...new Set([...localUsers(config.auth), me()])];
  const other = '…';
  const options = names.map((name) => h('option', { value: name, selected: name === me() }, isolated(name)));
  const choice = h('select', { class: 'choice user', id: 'user', 'aria-label': t('user.label') }, ...options, h('option', { value: other }, t('user.other')));
  void meet(names).then(() => {
    names.forEach((name, i) => options[i]?.replaceChildren(isolated(name)));
  });
  choice.addEventListener('change', () => {
    const name = choice.value === other ? (prompt(t('user.prompt')) ?? '').trim() : choice.value;
    if (isUserId(name)) chooseLocalUser(name);
    void open().then(show);
  });
  return choice;
}

/** Opens the session; it stays closed if the user has to sign in first. */
async function open() {
  const opened = await openSession(config.auth);
  if (opened) useSession(opened);
}

/** Prepares the first screen as soon as the configuration is known: its texts and modules may still be on their way. */
async function prepare() {
  await loadConfig();
  preparePeople();
  await open();
  const packetId = /^\/p\/([^/]+)$/.exec(route())?.[1];
  if (session && !offered && packetId) expectPacket(packetId);
}

// The address will change its folder; those of the icons and the manifest do not.
for (const icon of /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll('link:is([rel$=icon], [rel=manifest])'))) icon.href = String(icon.href);

addEventListener('popstate', () => {
  // The embedding app may hand over another token or ticket while the page is open.
  void (isGiven() ? open().then(show) : show());
});

// The service has refused the user's token.
addEventListener('hongbao-signin', () => {
  if (config.auth.kind === 'cognito' && tab.lasts) startCodeFlow();
  else void open().then(show);
});

Promise.all([prepare(), loadTexts()])
  .then(show)
  .catch(async (error) => {
    frame();
    const { problemNotice } = await import('./problems.js');
    byId('main').replaceChildren(problemNotice(error, () => location.reload()));
  });
