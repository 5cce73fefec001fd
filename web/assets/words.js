// An amount in words. Figures can be misread: what is a thousand in one place is one in another.

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

/** @param {string} currency @param {string} language */
function nameOf(currency, language) {
  const format = new Intl.NumberFormat(language, { style: 'currency', currency, currencyDisplay: 'name' });
  return format.formatToParts(2).find((part) => part.type === 'currency')?.value ?? currency;
}
