// The texts of the page in the user's language: one file a language, of which one is loaded.

import { device } from './browser.js';

/** @typedef {import('./lang/en.js').Key} Key */
/** @typedef {import('./lang/en.js').Text} Text */

const LANGUAGE = 'hongbao.language';

/** The languages, each with its own name for itself. @type {ReadonlyMap<string, string>} */
export const LANGUAGES = new Map([['zh-CN', '简体中文'], ['zh-TW', '繁體中文'], ['en', 'English']]);

let current = (() => {
  const chosen = device.get(LANGUAGE) ?? '';
  return LANGUAGES.has(chosen) ? chosen : languageOf(navigator.languages[0] ?? navigator.language);
})();
/** @type {Partial<Record<Key, Text>>} */
let texts = {};
// Asked for at once: the page's other modules may still be on their way.
let loading = read(current);
loading.catch(() => {});

/** @param {string} tag @returns {Promise<{texts: Record<Key, Text>}>} */
function read(tag) {
  return import(`./lang/${tag}.js`);
}

/** Returns the language of the page that is nearest to a BCP 47 tag. @param {string} tag */
function languageOf(tag) {
  const { language: spoken, script } = new Intl.Locale(tag || 'en').maximize();
  return spoken !== 'zh' ? 'en' : script === 'Hant' ? 'zh-TW' : 'zh-CN';
}

/** Reads the texts of another page, which has these too. @type {((tag: string) => Promise<{texts: Record<string, Text>}>) | null} */
let beside = null;

/** Loads the texts; every other function needs them. @param {((tag: string) => Promise<{texts: Record<string, Text>}>) | null} [others] */
export async function loadTexts(others = null) {
  beside = others;
  texts = { ...(await loading).texts, ...(await beside?.(current))?.texts };
}

/** Returns the language as a BCP 47 tag. */
export function language() {
  return current;
}

/** Chooses what is written in the page's language. @template T @param {Record<string, T>} written @returns {T | undefined} */
export function spoken(written) {
  return written[current] ?? written['en'];
}

/** @param {string} wanted */
export async function switchLanguage(wanted) {
  if (!LANGUAGES.has(wanted)) return;
  texts = { ...(await read(wanted)).texts, ...(await beside?.(wanted))?.texts };
  current = wanted;
  device.set(LANGUAGE, wanted);
}

/** @param {number} value */
export function number(value) {
  return new Intl.NumberFormat(current).format(value);
}

/** A letter beside which Chinese has no blank. */
const CHINESE = /^[\p{sc=Han}\u3000-\u303f\uff00-\uffef]$/u;

/**
 * Returns a text. Numbers among its values are formatted, and `count` chooses its plural. In Chinese, a blank stands only
 * beside what is not Chinese: “Alice 的红包”, but “艾莉的红包”.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const text = texts[key] ?? '';
  const count = values['count'];
  const form = typeof text === 'string' ? text : typeof count === 'number' && new Intl.PluralRules(current).select(count) === 'one' ? (text.one ?? text.other) : text.other;
  return form.replace(/( ?)\{(\w+)\}( ?)/g, (_, before, name, after) => {
    const value = values[name] ?? '';
    const shown = typeof value === 'number' ? number(value) : value;
    const letters = [...shown];
    const gap = (/** @type {string} */ blank, /** @type {string | undefined} */ beside) => (current !== 'en' && CHINESE.test(beside ?? '') ? '' : blank);
    return gap(before, letters[0]) + shown + gap(after, letters.at(-1));
  });
}
