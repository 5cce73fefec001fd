// The covers. Each is one file in covers/: its colours as custom properties, and what is drawn on the envelope.

import { config } from './context.js';
import { s, vary } from './dom.js';
import { language } from './i18n.js';
import { cover as plain } from './covers/plain.js';

/**
 * @typedef {object} Cover
 * @property {Record<string, string>} names by language
 * @property {Record<string, string[]>} blessings by language
 * @property {{'--cover': string, '--cover-deep': string, '--cover-bright': string, '--cover-art': string}} colours
 * @property {(draw: typeof s) => SVGElement[]} art drawn on 300 by 430 units
 */

const COVERS = ['plain', 'spring', 'wedding', 'birthday'];

/** @type {Map<string, Cover>} */
const loaded = new Map([['plain', plain]]);

export function coverNames() {
  return config.covers ?? COVERS;
}

/** Loads a cover. An unknown one looks plain. @param {string | null | undefined} name @returns {Promise<Cover>} */
export async function loadCover(name) {
  if (!name || !coverNames().includes(name)) return plain;
  try {
    const found = loaded.get(name) ?? /** @type {{cover: Cover}} */ (await import(`./covers/${name}.js`)).cover;
    loaded.set(name, found);
    return found;
  } catch {
    return plain;
  }
}

/** Returns a cover that is already loaded. @param {string | null | undefined} name */
export function coverOf(name) {
  return loaded.get(name ?? '') ?? plain;
}

/** Chooses what is written in the page's language. @template T @param {Record<string, T>} texts @returns {T | undefined} */
export function spoken(texts) {
  return texts[language()] ?? texts['en'];
}

/** Gives an element a cover's colours. @template {HTMLElement} E @param {E} element @param {Cover} cover @returns {E} */
export function dress(element, cover) {
  return vary(element, cover.colours);
}

/** @param {Cover} cover */
export function artOf(cover) {
  return s('svg', { class: 'art', viewBox: '0 0 300 430', preserveAspectRatio: 'xMidYMax slice', 'aria-hidden': 'true' }, ...cover.art(s));
}
