// Builds elements without markup in strings, so that a user's text is never parsed as HTML.

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
