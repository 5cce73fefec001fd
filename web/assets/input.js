// What users write and read in the form: amounts, amounts in words, greetings.

// --- Amounts. Keypads of many regions have only a comma, and "1,234" means two things in two places. So a text with two readings is
// refused: nobody may send a hundred times the money.

/**
 * How a text was read: as an amount in minor units, or why it was refused.
 * `both`: as a whole number or as one with decimals. `fine`: it has more decimals than the currency. `none`: it is no number.
 * @typedef {{minor: number} | {wrong: 'both' | 'fine', written: string, before: string, after: string} | {wrong: 'none', written: string}} Reading
 */

/** More digits before the decimals are no amount of money. */
const WHOLE_DIGITS_MAX = 12;
/** Separators of a number. An Arabic keypad has two of its own: U+066B for decimals, U+066C for groups. */
const SEPARATOR = /[.,' \u066b\u066c]/;
const DECIMAL_SEPARATORS = '.,\u066b';
/** What a paste brings along unseen. Marks that reverse the order of digits are not among them. */
const UNSEEN = /[\u061c\u200b\u200e\u200f\u2060\ufeff]/g;
/** Arabic-Indic digits, those of Persian and Urdu, and Devanagari ones. */
const OTHER_DIGITS = /[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f]/g;

/**
 * Reads an amount, with or without the currency before or after it.
 * @param {string} text
 * @param {number} digits the currency's decimal places
 * @param {string} [currency] such as CNY
 * @returns {Reading}
 */
export function readAmount(text, digits, currency) {
  const written = plain(text);
  const bare = currency ? withoutCurrency(written, currency) : written;
  const parts = bare.split(SEPARATOR);
  const marks = [...bare].filter((letter) => SEPARATOR.test(letter));
  const whole = joined(parts, marks);
  const decimal = decimals(parts, marks);
  // Without decimals in the currency, groups of three are groups.
  if (whole !== null && decimal && digits > 0) return { wrong: 'both', written, ...decimal };
  if (whole === null && decimal && decimal.after.length > digits) return { wrong: 'fine', written, ...decimal };
  const before = whole ?? decimal?.before ?? '';
  const minor = Number(before + (whole === null ? (decimal?.after ?? '') : '').padEnd(digits, '0'));
  const isAmount = before.length > 0 && before.length <= WHOLE_DIGITS_MAX && Number.isSafeInteger(minor);
  return isAmount ? { minor } : { wrong: 'none', written };
}

/** What people call the yuan beside what `Intl` knows. */
const YUAN = ['元', '块', '塊', '圆', '圓', 'rmb', 'yuan'];

/** @param {string} text @param {string} currency */
function withoutCurrency(text, currency) {
  const names = ['en', 'zh-CN', 'zh-TW'].flatMap((language) => /** @type {const} */ (['symbol', 'narrowSymbol', 'code', 'name']).map((display) => nameOf(currency, language, display).toLowerCase()));
  // The longest first: the shorter ones may be parts of it.
  const signs = (currency === 'CNY' ? YUAN.concat(names) : names).sort((one, other) => other.length - one.length);
  const lower = text.toLowerCase();
  const before = signs.find((sign) => lower.startsWith(sign)) ?? '';
  const after = signs.find((sign) => lower.endsWith(sign)) ?? '';
  return text.slice(before.length, Math.max(before.length, text.length - after.length)).trim();
}

/** Reads a whole number; null if it is none. @param {string} text */
export function readCount(text) {
  const reading = readAmount(text, 0);
  return 'minor' in reading ? reading.minor : null;
}

/**
 * Writes an amount so that `readAmount` reads it in one way only.
 * @param {number} minor
 * @param {number} digits
 */
export function writeAmount(minor, digits) {
  const text = String(minor).padStart(digits + 1, '0');
  const cut = text.length - digits;
  const written = digits ? `${text.slice(0, cut)}.${text.slice(cut)}` : text;
  // Three decimals could be a group: one fewer can not, and no group follows a zero.
  return written.replace(/(\.\d\d)0$/, '$1').replace(/^(?=\d{1,3}\.\d{3}$)/, '0');
}

/** Returns the text in ASCII digits and separators; other characters stay, and are refused later. @param {string} text */
function plain(text) {
  // NFKC would make digits of these, and 102 of 10².
  const folded = /[\p{No}\p{Nl}]/u.test(text) ? text : text.normalize('NFKC');
  return folded
    .replace(UNSEEN, '')
    .replace(OTHER_DIGITS, (digit) => String((digit.charCodeAt(0) % 16) - (digit >= '\u0966' ? 6 : 0)))
    .replace(/\u3002/g, '.')
    .replace(/\u060c/g, ',')
    .replace(/\u2019/g, "'")
    .replace(/\s/g, ' ')
    .trim();
}

/**
 * Reads a whole number, perhaps in groups of three behind one kind of separator; null if it is none.
 * @param {string[]} parts
 * @param {string[]} marks
 */
function joined(parts, marks) {
  const [first = '', ...groups] = parts;
  if (marks.length === 0) return /^\d+$/.test(first) ? first : null;
  const isGrouped = /^[1-9]\d{0,2}$/.test(first) && groups.every((group) => /^\d{3}$/.test(group));
  return isGrouped && marks[0] !== '\u066b' && new Set(marks).size === 1 ? parts.join('') : null;
}

/**
 * Reads a number with decimals. They are behind the last separator, and no other separator is of its kind.
 * @param {string[]} parts
 * @param {string[]} marks
 * @returns {{before: string, after: string} | null}
 */
function decimals(parts, marks) {
  const [last = '', after = ''] = [marks.at(-1), parts.at(-1)];
  if (!last || !DECIMAL_SEPARATORS.includes(last) || marks.indexOf(last) < marks.length - 1 || !/^\d*$/.test(after)) return null;
  const isShort = parts.length === 2 && parts[0] === '' && after !== '';
  const before = isShort ? '0' : joined(parts.slice(0, -1), marks.slice(0, -1));
  return before === null ? null : { before, after };
}

// --- Amounts in words. Figures can be misread: what is a thousand in one place is one in another.

const CHINESE = {
  'zh-CN': { digits: '零壹贰叁肆伍陆柒捌玖', groups: ['', '万', '亿', '万亿'], point: '点' },
  'zh-TW': { digits: '零壹貳參肆伍陸柒捌玖', groups: ['', '萬', '億', '萬億'], point: '點' },
};
const PLACES = ['', '拾', '佰', '仟'];
const THOUSANDS = ['', ' thousand', ' million', ' billion', ' trillion'];

/**
 * @param {number} minor
 * @param {number} digits the currency's decimal places
 * @param {string} currency such as CNY
 * @param {string} language
 */
export function inWords(minor, digits, currency, language) {
  const text = String(minor).padStart(digits + 1, '0');
  const [before, after] = [text.slice(0, text.length - digits), digits ? text.slice(-digits) : ''];
  const hasPart = Number(after) > 0;
  if (language !== 'zh-CN' && language !== 'zh-TW') {
    const whole = english(before);
    if (currency === 'CNY') return [(whole !== '0' || !hasPart) && `${whole} yuan`, hasPart && `${Number(after)} fen`].filter(Boolean).join(' ');
    return `${whole}${hasPart ? ` point ${after}` : ''} ${nameOf(currency, language)}`;
  }
  const look = CHINESE[language];
  const whole = chinese(before, look);
  const spell = (/** @type {string} */ digit) => look.digits[Number(digit)] ?? '';
  if (currency !== 'CNY') return `${whole}${hasPart ? look.point + [...after].map(spell).join('') : ''}${nameOf(currency, language)}`;
  const yuan = Number(before) > 0 ? `${whole}元` : '';
  if (!hasPart) return `${yuan}整`;
  const [tenths = '0', hundredths = '0'] = after;
  const jiao = tenths !== '0' ? `${spell(tenths)}角` : yuan && '零';
  return yuan + jiao + (hundredths !== '0' ? `${spell(hundredths)}分` : '');
}

/** @param {string} whole such as 1234567: "1 million 234 thousand 567" */
function english(whole) {
  const groups = whole.split(/(?=(?:\d{3})+$)/);
  const words = groups.map((group, i) => (Number(group) ? Number(group) + (THOUSANDS[groups.length - 1 - i] ?? '') : ''));
  return words.filter(Boolean).join(' ') || '0';
}

/** @param {string} whole @param {{digits: string, groups: string[]}} look */
function chinese(whole, { digits, groups }) {
  let words = '';
  let isGap = false;
  let inGroup = false;
  [...whole].forEach((digit, i) => {
    const place = whole.length - 1 - i;
    if (digit === '0') isGap = words !== '';
    else {
      words += (isGap ? digits[0] : '') + (digits[Number(digit)] ?? '') + PLACES[place % 4];
      [isGap, inGroup] = [false, true];
    }
    if (place % 4 > 0) return;
    if (inGroup) words += groups[place / 4] ?? '';
    inGroup = false;
  });
  return words || (digits[0] ?? '');
}

/** @param {string} currency @param {string} language @param {'name' | 'symbol' | 'narrowSymbol' | 'code'} [currencyDisplay] */
function nameOf(currency, language, currencyDisplay = 'name') {
  const format = new Intl.NumberFormat(language, { style: 'currency', currency, currencyDisplay });
  return format.formatToParts(2).find((part) => part.type === 'currency')?.value ?? currency;
}

// --- Greetings. People paste invisible characters without knowing; those that mean nothing are dropped. The service refuses them by the
// same rule (shared/src/domain/text.rs), and tests/greetings.json has examples for both.

// A flag that is made of tags (England, Scotland, Wales) counts as one letter, because UTS #51 lists no others.
const LETTERS = /\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}|[^]/gu;
const HIDDEN = /^[\p{Cc}\p{Co}\p{Cs}\p{DI}\p{Zl}\p{Zp}\ufff9-\ufffb\u{e1000}-\u{10ffff}]$/u;
const EMOJI = /^[\u2190-\u27bf\u2b00-\u2bff\u{1f000}-\u{1faff}]/u;
const HAS_VARIANTS = /^[\u2190-\u27bf\u2b00-\u2bff\u{1f000}-\u{1faff}#*0-9©®‼⁉™ℹ⤴⤵〰〽㊗㊙]/u;
const IDEOGRAPH = /^[\u3400-\u4dbf\u4e00-\u9fff\ufa0e-\ufa29\u{20000}-\u{3fffd}]/u;
const MONGOLIAN = /^[\u1820-\u18aa]/;
const LETTER = /^(?!\p{M})\p{Alphabetic}/u;
/** Letters that connect to their neighbours: of Arabic, Syriac, N'Ko, Mandaic, Mongolian, Hanifi Rohingya or Adlam. */
const CURSIVE = /^(?!\p{M})(?=\p{Alphabetic})[\u0620-\u077f\u07c0-\u07ff\u0840-\u08ff\u1820-\u18aa\u{10d00}-\u{10d3f}\u{1e900}-\u{1e95f}]/u;
/** Signs that take the vowel from the letter before them: those of the combining class 9, which no regular expression can name. */
const VIRAMA =
  /^[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u0e3a\u0eba\u0f84\u1039\u103a\u1714\u1715\u1734\u17d2\u1a60\u1b44\u1baa\u1bab\u1bf2\u1bf3\u2d7f\ua806\ua82c\ua8c4\ua953\ua9c0\uaaf6\uabed\u{10a3f}\u{11046}\u{11070}\u{1107f}\u{110b9}\u{11133}\u{11134}\u{111c0}\u{11235}\u{112ea}\u{1134d}\u{113ce}-\u{113d0}\u{11442}\u{114c2}\u{115bf}\u{1163f}\u{116b6}\u{1172b}\u{11839}\u{1193d}\u{1193e}\u{119e0}\u{11a34}\u{11a47}\u{11a99}\u{11c3f}\u{11d44}\u{11d45}\u{11d97}\u{11f41}\u{11f42}\u{1612f}]/u;

const ZWNJ = '\u200c';
const ZWJ = '\u200d';

/**
 * Returns a greeting in one line, as the service accepts it.
 * @param {string} text
 * @returns {string}
 */
export function cleanGreeting(text) {
  const line = text.replace(/[\r\n]+/g, ' ');
  const clean = withoutHidden(line);
  // What meant something beside a character that is gone may mean nothing now.
  return clean === line ? clean : cleanGreeting(clean);
}

/** @param {string} text */
function withoutHidden(text) {
  const letters = text.match(LETTERS) ?? [];
  /** @type {string[]} */
  const kept = [];
  letters.forEach((letter, place) => {
    if (!HIDDEN.test(letter) || hasMeaning(kept, letter, letters.slice(place + 1, place + 3))) kept.push(letter);
  });
  return kept.join('');
}

/**
 * Whether a hidden character says something between the characters before and after it.
 * @param {string[]} before
 * @param {string} letter
 * @param {string[]} after
 */
function hasMeaning(before, letter, [next = '', afterNext = '']) {
  const last = before[before.length - 1] ?? '';
  // The letter or symbol that the last character is a mark on.
  let place = before.length - 1;
  while (place >= 0 && isMark(before[place])) place -= 1;
  const base = before[place] ?? '';
  if (/[\ufe0e\ufe0f]/.test(letter)) return HAS_VARIANTS.test(last);
  // Standardized variants have the first three selectors, ideographic ones those of plane 14.
  if (/[\ufe00-\ufe02\u{e0100}-\u{e01ef}]/u.test(letter)) return IDEOGRAPH.test(last);
  if (/[\u180b-\u180d\u180f]/.test(letter)) return MONGOLIAN.test(last);
  // Parts the last vowel of a word.
  if (letter === '\u180e') return MONGOLIAN.test(base) && MONGOLIAN.test(next);
  if (letter === ZWJ && EMOJI.test(base) && EMOJI.test(next)) return true;
  // A letter takes the form that it has inside a word.
  if (letter === ZWJ && CURSIVE.test(base)) return true;
  // Bengali and Kannada keep the form of ra, Sinhala letters touch.
  if (letter === ZWJ && LETTER.test(base) && VIRAMA.test(next)) return LETTER.test(afterNext);
  if (letter === ZWNJ && CURSIVE.test(base) && CURSIVE.test(next)) return true;
  return (letter === ZWNJ || letter === ZWJ) && LETTER.test(base) && VIRAMA.test(last) && !isMark(next);
}

/** Whether a character is a mark on the one before it. A browser may be older than its script. @param {string | undefined} letter */
function isMark(letter = '') {
  return /^\p{M}/u.test(letter) || VIRAMA.test(letter);
}
