// What the page reads and writes: amounts, greetings, its texts and its colours. It needs no browser.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';

import { profiles } from '../../web/assets/characters.js';
import { cleanGreeting, inWords, readAmount, readCount, writeAmount } from '../../web/assets/input.js';
import { FINGERPRINT, fingerprint } from './shown.mjs';

/** Texts that can be read in one way, with the amount in hundredths. @type {[string, number][]} */
const AMOUNTS = [
  ['8', 800], ['8.', 800], ['8.8', 880], ['8.88', 888], ['8,88', 888], ['0,50', 50], ['0.5', 50], [',5', 50], ['12,3', 1_230], ['888,88', 88_888], ['1234,5', 123_450],
  ['1,234.56', 123_456], ['1.234,56', 123_456], ['1 234,56', 123_456], ['1\u00a0234,56', 123_456], ['1\u202f234.5', 123_450], ['1\u2019234.50', 123_450], ["1'234", 123_400], ['1 234', 123_400],
  ['1,234,567', 123_456_700], ['1.234.567,8', 123_456_780], ['12,345.6', 1_234_560], [' 88.80 ', 8_880], ['\u200e88.80\ufeff', 8_880],
  ['１００', 10_000], ['８８．８０', 8_880], ['８８，８０', 8_880], ['8。88', 888], ['8｡88', 888], ['１，２３４．５', 123_450], ['𝟖.𝟖', 880],
  ['٨٫٨٨', 888], ['٨،٨٨', 888], ['٨.٨٨', 888], ['١٬٢٣٤٫٥', 123_450], ['١٬٢٣٤', 123_400], ['۱۲۳', 12_300], ['۸۸٫۸', 8_880], ['१००', 10_000], ['८.८८', 888], ['९,०५', 905],
  ['888888888888', 88_888_888_888_800],
];
/** Texts that are refused, with the reason. @type {[string, 'both' | 'fine' | 'none'][]} */
const REFUSED = [
  ['1,234', 'both'], ['1.234', 'both'], ['١,٢٣٤', 'both'], ['１，２３４', 'both'], ['123.456', 'both'], ['8.880', 'both'],
  ['0,123', 'fine'], ['1234.567', 'fine'], ['1,2345', 'fine'], ['1,234.567', 'fine'], ['1٫234', 'fine'], ['0.005', 'fine'],
  ['1,00,000.50', 'none'], ['1,0000,0000', 'none'], ['1,234,56', 'none'], ['1,23,456', 'none'], ['1,2,3', 'none'], ['1.2.3', 'none'], ['88 80', 'none'], ['1,234.567,89', 'none'], ['1,234 567.8', 'none'],
  ['', 'none'], ['.', 'none'], [',', 'none'], ['-5', 'none'], ['+5', 'none'], ['1e3', 'none'], ['0x10', 'none'], ['¥¥8', 'none'], ['8元8', 'none'], ['8元8角', 'none'], ['元', 'none'], ['$8', 'none'], ['8€', 'none'], ['8美元', 'none'], ['10²', 'none'], ['½', 'none'], ['⑩', 'none'], ['⒈', 'none'],
  ['\u202e88', 'none'], ['8-8', 'none'], ['8888888888888', 'none'], ['NaN', 'none'],
];

test('an amount is read in one way, or refused with the reason', () => {
  for (const [text, minor] of AMOUNTS) assert.deepEqual(readAmount(text, 2, 'CNY'), { minor }, text);
  for (const [text, wrong] of REFUSED) assert.equal(/** @type {any} */ (readAmount(text, 2, 'CNY')).wrong, wrong, text);
  assert.deepEqual(readAmount('1.234', 2, 'CNY'), { wrong: 'both', written: '1.234', before: '1', after: '234' });
});

test('an amount may have the sign, the name or the code of its currency, and of no other', () => {
  for (const text of ['¥10', '￥10', '10元', '10块', '10塊', '10 圆', '１０元', '¥10.00元', '10.00 CNY', 'cny 10', 'CN¥10', 'RMB10', '人民币10', '10人民幣', '10 yuan', '10 Chinese yuan']) assert.deepEqual(readAmount(text, 2, 'CNY'), { minor: 1_000 }, text);
  for (const [text, digits, currency, minor] of /** @type {const} */ ([['$8', 2, 'USD', 800], ['US$8.50', 2, 'USD', 850], ['8 usd', 2, 'USD', 800], ['8美元', 2, 'USD', 800], ['8,50 €', 2, 'EUR', 850], ['¥888', 0, 'JPY', 888], ['888日圓', 0, 'JPY', 888], ['NT$100', 2, 'TWD', 10_000]])) {
    assert.deepEqual(readAmount(text, digits, currency), { minor }, text);
  }
  for (const [text, currency] of /** @type {const} */ ([['¥8', 'USD'], ['8元', 'USD'], ['$8', 'EUR'], ['8 EUR', 'CNY']])) assert.equal(/** @type {any} */ (readAmount(text, 2, currency)).wrong, 'none', text);
  assert.deepEqual(readAmount('¥1,234', 2, 'CNY'), { wrong: 'both', written: '¥1,234', before: '1', after: '234' });
  assert.equal(readCount('10元'), null);
});

test('a currency without decimals has none, and one with three has three', () => {
  for (const [text, minor] of /** @type {const} */ ([['888', 888], ['1,234', 1_234], ['1.234', 1_234], ['١٢٣', 123], ['12 345', 12_345]])) assert.deepEqual(readAmount(text, 0), { minor }, text);
  for (const text of ['8,88', '8.8', '0.50', '1,234.5', '888.00']) assert.equal(/** @type {any} */ (readAmount(text, 0)).wrong, 'fine', text);
  for (const [text, minor] of /** @type {const} */ ([['8,88', 8_880], ['1234.567', 1_234_567], ['0.250', 250], ['01.250', 1_250], ['1,234.567', 1_234_567], ['1٫250', 1_250]])) assert.deepEqual(readAmount(text, 3), { minor }, text);
  assert.equal(/** @type {any} */ (readAmount('1.250', 3)).wrong, 'both');
});

test('what the page writes into the form is read as the same amount', () => {
  for (const digits of [0, 2, 3, 4]) {
    for (let minor = 1; minor < 3_000_000; minor += minor < 12_000 ? 1 : 997) assert.deepEqual(readAmount(writeAmount(minor, digits), digits), { minor });
  }
});

test('a count is a whole number, in any digits', () => {
  for (const [text, count] of /** @type {const} */ ([['10', 10], ['１０', 10], ['١٠', 10], ['۱۰', 10], ['१०', 10], ['100,000', 100_000], ['100.000', 100_000], ['0', 0]])) assert.equal(readCount(text), count, text);
  for (const text of ['1,5', '1.5', '10.0', '1,00', '', 'ten', '-1', '1e2', '5²']) assert.equal(readCount(text), null, text);
});

test('words name the amount in each language', () => {
  for (const [minor, en, cn, tw] of /** @type {const} */ ([
    [1, '1 fen', '壹分', '壹分'],
    [80, '80 fen', '捌角', '捌角'],
    [808, '8 yuan 8 fen', '捌元零捌分', '捌元零捌分'],
    [888, '8 yuan 88 fen', '捌元捌角捌分', '捌元捌角捌分'],
    [88_800, '888 yuan', '捌佰捌拾捌元整', '捌佰捌拾捌元整'],
    [123_450, '1 thousand 234 yuan 50 fen', '壹仟贰佰叁拾肆元伍角', '壹仟貳佰參拾肆元伍角'],
    [1_000_050, '10 thousand yuan 50 fen', '壹万元伍角', '壹萬元伍角'],
    [100_100_000, '1 million 1 thousand yuan', '壹佰万零壹仟元整', '壹佰萬零壹仟元整'],
  ])) {
    assert.deepEqual(['en', 'zh-CN', 'zh-TW'].map((language) => inWords(minor, 2, 'CNY', language)), [en, cn, tw]);
  }
  assert.deepEqual(['en', 'zh-CN'].map((language) => inWords(888, 0, 'JPY', language)), ['888 Japanese yen', '捌佰捌拾捌日元']);
  assert.deepEqual(['en', 'zh-TW'].map((language) => inWords(1_250, 3, 'KWD', language)), ['1 point 250 Kuwaiti dinars', '壹點貳伍零科威特第納爾']);
});

// The service's unit test reads the same examples.
test('a greeting keeps the hidden characters that mean something, and loses the others', async () => {
  /** @type {{why: string, plain?: string[], cleaned?: [string, string][]}[]} */
  const groups = JSON.parse(await readFile(new URL('../greetings.json', import.meta.url), 'utf8'));
  for (const { why, plain = [], cleaned = [] } of groups) {
    for (const text of plain) assert.equal(cleanGreeting(text), text, why);
    for (const [text, clean] of cleaned) {
      assert.equal(cleanGreeting(text), clean, why);
      assert.equal(cleanGreeting(clean), clean, why);
    }
  }
  assert.equal(cleanGreeting('\ud83ea\udeff'), 'a', 'half a character');
  const long = 'a\u200b'.repeat(100_000);
  const begun = performance.now();
  assert.equal(cleanGreeting(long).length, 100_000);
  assert.ok(performance.now() - begun < 2_000, 'a long paste does not hang the page');
});

test('every language has the same texts with the same placeholders', async () => {
  for (const page of ['assets', 'console']) {
    const [en, ...others] = await Promise.all(['en', 'zh-CN', 'zh-TW'].map(async (name) => (await import(`../../web/${page}/lang/${name}.js`)).texts));
    const holes = (/** @type {any} */ text) => [...(text.other ?? text).matchAll(/\{\w+\}/g)].map(String).sort().join();
    assert.ok(Object.keys(en).length > 100);
    for (const other of others) {
      assert.deepEqual(Object.keys(other).sort(), Object.keys(en).sort());
      for (const key of Object.keys(en)) assert.equal(holes(other[key]), holes(en[key]), key);
    }
  }
});

test('the support page has no text of the users’ page once more, and its forms are those of openapi.yaml', async () => {
  const [users, support] = await Promise.all(['assets', 'console'].map(async (page) => Object.keys((await import(`../../web/${page}/lang/en.js`)).texts)));
  assert.deepEqual(support?.filter((key) => users?.includes(key)), []);
  const { status, stderr } = spawnSync(new URL('../../scripts/console-forms.mjs', import.meta.url).pathname, ['--check'], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});

// Whether a sentence is true can only be judged beside the state in which it is shown: target/web/sentences.md has all of them.
test('every sentence names the state in which it is shown', async () => {
  const languages = await Promise.all(['en', 'zh-CN', 'zh-TW'].map(async (name) => (await import(`../../web/assets/lang/${name}.js`)).texts));
  const lines = (await readFile(new URL('states.txt', import.meta.url), 'utf8')).split('\n').slice(1);
  const states = new Map(lines.flatMap((line, i) => (line.startsWith(' ') ? line.trim().split(' ').map((key) => [key, lines[i - 1]]) : [])));
  const keys = Object.keys(languages[0]);
  assert.deepEqual(keys.filter((key) => !states.get(key)), [], 'texts without a state');
  assert.deepEqual([...states.keys()].filter((key) => !keys.includes(key)), [], 'states of texts that are gone');
  const said = (/** @type {any} */ text) => (typeof text === 'string' ? text : Object.values(text).join(' / ')).replaceAll('|', '\\|');
  const rows = keys.map((key) => [states.get(key), `\`${key}\``, ...languages.map((texts) => said(texts[key]))]);
  const table = [['State', 'Key', 'en', 'zh-CN', 'zh-TW'], Array(5).fill('---'), ...rows].map((row) => `| ${row.join(' | ')} |\n`).join('');
  await mkdir(new URL('../../target/web/', import.meta.url), { recursive: true });
  await writeFile(new URL('../../target/web/sentences.md', import.meta.url), table);
});

test('every character has a picture, and traditional Chinese has traditional signs', async () => {
  const drawn = await readFile(new URL('../../web/assets/characters.svg', import.meta.url), 'utf8');
  const ids = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi', 'ivan', 'judy', 'kevin', 'lily'];
  for (const language of ['en', 'zh-CN', 'zh-TW']) {
    const known = await profiles(ids, language);
    const signs = ids.map((id) => known[id]?.picture?.split('#')[1] ?? '');
    for (const sign of signs) assert.ok(drawn.includes(`<view id="${sign}"`), sign);
    assert.equal(signs.includes('erin-tw'), language === 'zh-TW', 'the dragon');
  }
});

test('each colour is named once', async () => {
  const css = await readFile(new URL('../../web/assets/style.css', import.meta.url), 'utf8');
  const colours = [...css.matchAll(/#[0-9a-f]{3,8}\b(?=[;\s,)])/gi)].map(([colour]) => colour.toLowerCase());
  assert.ok(colours.length > 20);
  assert.deepEqual(colours.filter((colour, i) => colours.indexOf(colour) !== i), []);
});

test('the pictures in the documents show the page as it is', async () => {
  assert.equal((await readFile(FINGERPRINT, 'utf8')).trim(), await fingerprint(), 'take them again: make generate ONLY=pictures');
});
