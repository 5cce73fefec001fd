// What a greeting may show to others. People paste invisible characters without knowing; those that mean nothing are dropped.
// The service refuses them by the same rule (shared/src/domain/text.rs), and tests/greetings.json has examples for both.

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
