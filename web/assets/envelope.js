// The red envelope. It is one object from the form to the thanks: what lies in it, on it and on its back are parts of it.

import { config } from './context.js';
import { cover as plain } from './covers/plain.js';
import { glyph, h, s, vary } from './dom.js';
import { avatar, person } from './people.js';

/**
 * @typedef {object} Parts
 * @property {string | null | undefined} cover
 * @property {string} sender
 * @property {Node} greeting
 * @property {Node} seal
 * @property {Node | null} [foot]
 * @property {Node | null} [slip] the paper inside
 * @property {Node | null} [rear] what is on the back
 */

/** @param {Parts} parts */
export function envelope({ cover, sender, greeting, seal, foot = null, slip = null, rear = null }) {
  const look = coverOf(cover);
  const front = h(
    'div',
    { class: 'front' },
    h('div', { class: 'lining', 'aria-hidden': 'true' }),
    slip && h('div', { class: 'slip' }, slip),
    h('div', { class: 'pocket', 'aria-hidden': 'true' }, artOf(look)),
    h('div', { class: 'flap' }, h('div', { class: 'dome', 'aria-hidden': 'true' }), h('div', { class: 'face' }, h('p', { class: 'from' }, avatar(sender), person(sender, 'grab.from')), greeting)),
    h('div', { class: 'mouth' }, seal),
    h('div', { class: 'foot' }, foot),
  );
  return dress(h('div', { class: 'envelope' }, h('div', { class: 'leaf' }, front, rear && h('div', { class: 'rear' }, rear))), look);
}

/** Dresses a drawn envelope in another cover. @param {HTMLElement} drawn @param {string} cover */
export function redress(drawn, cover) {
  const look = coverOf(cover);
  dress(drawn, look);
  drawn.querySelector('.art')?.replaceWith(artOf(look));
}

/** Returns a greeting whose letters are smaller the longer it is, so that 64 characters fit. @param {string} text */
export function greetingLine(text) {
  return h('p', { class: `greeting ${sizeOf(text)}`, dir: 'auto' }, text);
}

/** @param {string} text */
export function sizeOf(text) {
  const letters = [...text].length;
  return letters > 36 ? 'longest' : letters > 14 ? 'long' : 'short';
}

/** Returns what is drawn on the coin. */
export function coinFace() {
  return h('span', { class: 'minted', 'aria-hidden': 'true' }, glyph('開'));
}

/** Returns a coin that can not be pressed. */
export function coin() {
  return h('span', { class: 'coin', 'aria-hidden': 'true' }, coinFace());
}

// --- Covers. Each is one file in covers/: its colours as custom properties, and what is drawn on the envelope.

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

/** Gives an element a cover's colours. @template {HTMLElement} E @param {E} element @param {Cover} cover @returns {E} */
export function dress(element, cover) {
  return vary(element, cover.colours);
}

/** @param {Cover} cover */
export function artOf(cover) {
  return s('svg', { class: 'art', viewBox: '0 0 300 430', preserveAspectRatio: 'xMidYMax slice', 'aria-hidden': 'true' }, ...cover.art(s));
}
