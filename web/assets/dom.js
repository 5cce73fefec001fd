// Builds elements without markup in strings, so that a user's text is never parsed as HTML; and draws glyphs.

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {Record<string, any>} Props */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @param {Element} element
 * @param {Props | null} props `onX` adds a listener; `$x` sets a property; others are attributes, which `true` sets empty and `false` leaves out
 * @param {Child[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name.startsWith('$')) /** @type {any} */ (element)[name.slice(1)] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = null, ...children) {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

/**
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, props = null, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  fill(element, props, children);
  return element;
}

/**
 * Sets custom properties through the object model, since the content security policy allows no style attributes.
 * @template {HTMLElement | SVGElement} E
 * @param {E} element
 * @param {Record<string, string | number>} properties
 * @returns {E}
 */
export function vary(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, String(value));
  return element;
}

/** @param {string} id */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element ${id}`);
  return element;
}

/** Announces a text to screen readers. @param {string} text */
export function say(text) {
  const live = byId('live');
  live.textContent = '';
  // Emptied first: a screen reader does not speak a text that stays the same.
  requestAnimationFrame(() => {
    live.textContent = text;
  });
}

/** Whether the user allows animations. */
export function mayMove() {
  return !matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

// --- Glyphs as paths: they look the same on every machine, with or without a Chinese serif font. The outlines are those of Noto Serif CJK
// (SIL Open Font License), at 200 units an em, with the baseline at 176.

/** @type {Record<string, [number, string]>} Width and path of each. */
const GLYPHS = {
  '開': [200, 'M107 102v29h-17v-6v-23zm-62 29l2 5h23c-1 17-6 34-22 48l2 2c29-13 37-32 39-50h18v48h4c10 0 16-4 16-5v-43h23c3 0 5-1 5-3c-6-6-17-16-17-16l-10 14h-1v-29h19c3 0 5-1 6-3c-7-7-19-16-19-16l-11 13h-72l1 6h19v23v6zm23-104v19h-29v-19zm-52-5v172h4c11 0 19-6 19-9v-109h29v9h4c7 0 17-4 17-6v-49c4-1 6-2 8-4l-21-15l-10 11h-26l-24-11zm23 29h29v19h-29zm121-24v19h-30v-19zm-52-5v62h3c10 0 19-5 19-7v-1h30v89c0 2 0 3-4 3c-3 0-18-1-18-1v3c8 2 11 4 14 8c2 3 3 8 3 16c25-2 28-11 28-27v-136c4-1 7-3 8-4l-22-18l-11 13h-27l-23-10zm22 29h30v19h-30z'],
  '¥': [118, 'M13 116h33v18h-33v9h33v26l-22 1v6h70v-6l-22-1v-26h33v-9h-33v-18h33v-9h-30l30-66l14-2v-6h-41v6l18 2l-29 64l-29-64l19-2v-6h-58v6l12 1l32 67h-30z'],
  '$': [118, 'M56 202h8v-23c26-3 44-18 44-41c0-20-10-33-41-45l-2-1v-55c5 0 8 1 12 2l4 17c2 11 8 14 14 14c4 0 9-3 10-9c-2-18-17-30-40-31v-20h-8v21c-26 2-43 17-43 38c0 22 13 34 37 44l5 2v57c-8 0-13-1-19-2l-2-18c-2-9-6-13-12-13c-5 0-9 3-12 9c2 19 18 31 45 31zm8-83c17 7 22 14 22 28c0 13-8 22-22 25zm-7-30c-15-7-22-14-22-27c0-13 9-22 22-24z'],
  '€': [118, 'M2 125h14c6 36 27 54 57 54c22 0 38-11 41-28c-1-7-6-9-10-9c-6 0-12 2-14 14l-4 16c-3 0-6 1-9 1c-17 0-32-16-36-48h49v-10h-50v-10v-12h50v-9h-49c4-33 18-47 36-47c3 0 5 0 8 1l4 16c2 11 8 14 14 14c5 0 9-3 10-9c-2-17-18-29-39-29c-28 0-51 18-58 54h-14v9h13c0 4 0 8 0 12v10h-13z'],
  '0': [119, 'M59 179c27 0 51-23 51-77c0-54-24-77-51-77c-26 0-50 23-50 77c0 54 24 77 50 77zm0-6c-13 0-24-16-24-71c0-55 11-71 24-71c13 0 25 16 25 71c0 55-12 71-25 71z'],
  '1': [93, 'M11 176h75v-5l-22-4c-1-13-1-26-1-38v-69l1-32l-3-2l-50 11v7l25-3v88v38l-25 3z'],
  '2': [119, 'M12 176h97v-21h-83c11-10 21-19 27-25c35-30 51-45 51-66c0-23-14-39-44-39c-24 0-46 12-48 34c2 5 6 8 11 8c6 0 11-3 13-15l5-19c3-1 7-2 10-2c16 0 26 12 26 32c0 20-9 34-31 59c-10 11-22 25-34 38z'],
  '3': [119, 'M55 179c32 0 52-16 52-41c0-21-11-36-41-40c26-6 37-20 37-38c0-21-15-35-45-35c-22 0-42 9-44 32c2 3 6 5 10 5c7 0 12-3 14-12l4-18c3 0 6-1 9-1c16 0 25 11 25 30c0 23-12 34-31 34h-7v8h8c22 0 33 12 33 35c0 22-11 35-33 35c-3 0-7-1-9-2l-4-18c-2-11-6-15-13-15c-5 0-9 3-11 8c2 21 18 33 46 33z'],
  '4': [119, 'M67 179h24v-38h22v-18h-22v-98h-19l-65 101v15h60zm-50-56l27-42l23-36v78z'],
  '5': [119, 'M52 179c33 0 57-17 57-47c0-29-20-45-52-45c-10 0-18 1-27 4l3-42h71v-21h-78l-5 70l5 3c7-2 14-4 22-4c20 0 32 13 32 36c0 26-12 40-32 40c-5 0-9-1-13-2l-3-19c-2-10-6-14-13-14c-5 0-9 3-11 8c2 21 18 33 44 33z'],
  '6': [119, 'M62 179c29 0 48-21 48-48c0-27-14-45-40-45c-13 0-24 4-32 13c5-34 27-61 66-70l-1-4c-57 5-94 46-94 94c0 38 20 60 53 60zm-25-73c7-7 15-10 23-10c15 0 24 13 24 37c0 27-10 40-22 40c-16 0-25-19-25-59z'],
  '7': [118, 'M30 176h22l52-135v-13h-92v21h81l-65 125z'],
  '8': [119, 'M57 179c33 0 51-16 51-41c0-19-11-32-35-44c22-10 30-22 30-35c0-19-14-34-43-34c-26 0-46 15-46 39c0 18 10 33 30 43c-22 8-33 20-33 37c0 21 15 35 46 35zm12-87c-26-12-32-24-32-37c0-14 11-24 23-24c14 0 21 12 21 27c0 14-3 24-12 34zm-20 17c27 12 35 24 35 38c0 16-9 26-25 26c-16 0-26-11-26-32c0-14 5-23 16-32z'],
  '9': [119, 'M21 180c55-12 89-47 89-93c0-39-19-62-52-62c-27 0-49 17-49 49c0 28 18 44 44 44c11 0 21-4 27-9c-5 32-24 53-60 65zm61-78c-6 5-12 7-19 7c-17 0-28-14-28-39c0-26 11-39 24-39c14 0 24 15 24 53c0 6-1 12-1 18z'],
  '.': [67, 'M34 179c9 0 16-7 16-16c0-9-7-16-16-16c-10 0-17 7-17 16c0 9 7 16 17 16z'],
  ',': [67, 'M15 213c22-7 35-23 35-46c0-5-1-9-3-14c-4-4-8-6-13-6c-10 0-16 7-16 16c0 6 3 11 10 15l9 5c-4 12-11 18-24 24z'],
};
const EM = 200;

/**
 * Draws one path of an em's height.
 * @param {number} width
 * @param {string} path
 * @param {string} [name] class
 */
export function outline(width, path, name = '') {
  return s('svg', { class: `glyph ${name}`.trim(), viewBox: `0 0 ${width} ${EM}`, 'aria-hidden': 'true' }, s('path', { d: path }));
}

/** Returns the glyph of a character; a text where there is none, such as a currency's symbol. @param {string} letter */
export function glyph(letter) {
  const known = GLYPHS[letter];
  return known ? outline(...known) : h('span', { class: 'letter' }, letter);
}

/** Returns the glyphs of a text. @param {string} text */
export function glyphs(text) {
  return [...text].map(glyph);
}
