// Reads the numbers that users type. Keypads of many regions have only a comma, and "1,234" means two things in two places. So
// a text with two readings is refused: nobody may send a hundred times the money.

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
 * Reads an amount.
 * @param {string} text
 * @param {number} digits the currency's decimal places
 * @returns {Reading}
 */
export function readAmount(text, digits) {
  const written = plain(text);
  const parts = written.split(SEPARATOR);
  const marks = [...written].filter((letter) => SEPARATOR.test(letter));
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
