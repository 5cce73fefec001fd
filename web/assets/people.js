// Users' names and pictures, which the embedding app knows: docs/INTEGRATE.md describes its module.

import { config, home } from './context.js';
import { h, sleep, vary } from './dom.js';
import { language, t } from './i18n.js';

/** @typedef {{name?: string, picture?: string}} Profile */
/** @typedef {(ids: string[], language: string) => Promise<Record<string, Profile>> | Record<string, Profile>} Hook */

/** No screen waits longer for names and pictures. */
const MEET_MOST_MS = 400;

/** The folder of `assets/`, read before the page's address changes. */
const FOLDER = new URL('..', /** @type {HTMLScriptElement} */ (document.querySelector('script[src]')).src);

/** What is known of each user, and of whom nothing is. @type {Map<string, Profile>} */
const known = new Map();
/** @type {Set<string>} */
const wanted = new Set();
/** @type {Promise<void> | undefined} */
let asking;

/** Loads the app's module beforehand. A failure shows when profiles are needed. */
export function preparePeople() {
  if (config.profiles) import(addressOf(config.profiles)).catch(() => {});
}

/** Forgets all profiles: the language has changed. */
export function forgetPeople() {
  known.clear();
}

/** Asks for these users' profiles, together with others that are wanted at the same time. @param {string[]} ids */
export async function meet(ids) {
  if (!config.profiles) return;
  for (const id of ids) if (!known.has(id)) wanted.add(id);
  if (wanted.size > 0) await (asking ??= Promise.resolve().then(ask).finally(() => {
    asking = undefined;
  }));
}

/** The same, but it does not wait for long: names and pictures that come later are filled in. @param {string[]} ids @param {AbortSignal} signal */
export function meetSoon(ids, signal) {
  return Promise.race([meet(ids), sleep(MEET_MOST_MS, signal)]);
}

async function ask() {
  const ids = [...wanted];
  wanted.clear();
  /** @type {Record<string, Profile>} */
  let found = {};
  try {
    /** @type {{profiles: Hook}} */
    const hook = await import(addressOf(config.profiles ?? ''));
    found = await hook.profiles(ids, language());
  } catch {
    // Without profiles, users are shown by their ids.
  }
  for (const id of ids) known.set(id, found[id] ?? {});
  for (const part of document.querySelectorAll('[data-user]')) introduce(/** @type {HTMLElement} */ (part));
}

/** Returns a user's name; the id as long as no name is known. @param {string} id */
export function nameOf(id) {
  return known.get(id)?.name || id;
}

/** Returns a name that can not turn the direction of the text around it. @param {string} id */
export function isolated(id) {
  const name = nameOf(id);
  return /[\u0590-\u08ff\ufb1d-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name;
}

/**
 * Returns an element with a user's name, which is filled in again when it is known.
 * @param {string} id
 * @param {import('./i18n.js').Key} [text] a text that names the user as its `sender`
 */
export function person(id, text) {
  const part = h('bdi', { 'data-user': id, 'data-text': text });
  introduce(part);
  void meet([id]);
  return part;
}

/** Returns the user of the session. Nothing shows until the app has answered, so that no id shows before a name. @param {string} id */
export function self(id) {
  const part = h('bdi', { class: 'user', 'data-user': id });
  if (known.has(id) || !config.profiles) introduce(part);
  void meet([id]);
  return part;
}

/** Returns a user's picture, or their first letter on a colour that is always the same for this user. @param {string} id */
export function avatar(id) {
  let hue = 0;
  for (const letter of id) hue = (hue * 31 + (letter.codePointAt(0) ?? 0)) % 360;
  const part = vary(h('span', { class: 'avatar', 'aria-hidden': 'true', 'data-user': id, 'data-picture': true }), { '--hue': hue });
  introduce(part);
  void meet([id]);
  return part;
}

/** Returns the address of a file of the app; below `assets/`, that of a file of this version of the page. @param {string} path */
function addressOf(path) {
  return path.startsWith('assets/') ? new URL(path, FOLDER).href : new URL(path, home()).href;
}

/** @param {HTMLElement} part */
function introduce(part) {
  const id = part.dataset['user'] ?? '';
  if (part.dataset['picture'] === undefined) {
    const text = /** @type {import('./i18n.js').Key | undefined} */ (part.dataset['text']);
    part.textContent = text ? t(text, { sender: nameOf(id) }) : nameOf(id);
    return;
  }
  const { picture } = known.get(id) ?? {};
  const letter = [...nameOf(id)][0]?.toUpperCase() ?? '?';
  part.replaceChildren(picture ? h('img', { src: addressOf(picture), alt: '', width: 40, height: 40 }) : letter);
}
