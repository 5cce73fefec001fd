// What went wrong for users of similar projects, tried on the page: each case has inputs and the right value.
// tests/it/contract/reported.rs has the cases of the API.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { readAmount, readCount, writeAmount } from '../../web/assets/amounts.js';
import { cleanGreeting } from '../../web/assets/greeting.js';
import { inWords } from '../../web/assets/words.js';
import { api, assertAccessible, assertSoon, browse, fund, packet, person, someone, stack, textOf } from './browser.mjs';
import { apiOf, startStack } from './stack.mjs';

/** @typedef {import('playwright-core').Page} Page */

// --- 1. Amounts ---------------------------------------------------------------------------------------------------------------------

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
  ['', 'none'], ['.', 'none'], [',', 'none'], ['-5', 'none'], ['+5', 'none'], ['1e3', 'none'], ['0x10', 'none'], ['¥8', 'none'], ['8元', 'none'], ['10²', 'none'], ['½', 'none'], ['⑩', 'none'], ['⒈', 'none'],
  ['\u202e88', 'none'], ['8-8', 'none'], ['8888888888888', 'none'], ['NaN', 'none'],
];

test('1. an amount is read in one way, or refused with the reason', () => {
  for (const [text, minor] of AMOUNTS) assert.deepEqual(readAmount(text, 2), { minor }, text);
  for (const [text, wrong] of REFUSED) assert.equal(/** @type {any} */ (readAmount(text, 2)).wrong, wrong, text);
  assert.deepEqual(readAmount('1.234', 2), { wrong: 'both', written: '1.234', before: '1', after: '234' });
});

test('1. a currency without decimals has none, and one with three has three', () => {
  for (const [text, minor] of /** @type {const} */ ([['888', 888], ['1,234', 1_234], ['1.234', 1_234], ['١٢٣', 123], ['12 345', 12_345]])) assert.deepEqual(readAmount(text, 0), { minor }, text);
  for (const text of ['8,88', '8.8', '0.50', '1,234.5', '888.00']) assert.equal(/** @type {any} */ (readAmount(text, 0)).wrong, 'fine', text);
  for (const [text, minor] of /** @type {const} */ ([['8,88', 8_880], ['1234.567', 1_234_567], ['0.250', 250], ['01.250', 1_250], ['1,234.567', 1_234_567], ['1٫250', 1_250]])) assert.deepEqual(readAmount(text, 3), { minor }, text);
  assert.equal(/** @type {any} */ (readAmount('1.250', 3)).wrong, 'both');
});

test('1. what the page writes into the form is read as the same amount', () => {
  for (const digits of [0, 2, 3, 4]) {
    for (let minor = 1; minor < 3_000_000; minor += minor < 12_000 ? 1 : 997) assert.deepEqual(readAmount(writeAmount(minor, digits), digits), { minor });
  }
});

test('1. a count is a whole number, in any digits', () => {
  for (const [text, count] of /** @type {const} */ ([['10', 10], ['１０', 10], ['١٠', 10], ['۱۰', 10], ['१०', 10], ['100,000', 100_000], ['100.000', 100_000], ['0', 0]])) assert.equal(readCount(text), count, text);
  for (const text of ['1,5', '1.5', '10.0', '1,00', '', 'ten', '-1', '1e2', '5²']) assert.equal(readCount(text), null, text);
});

test('1. words name the amount in each language', () => {
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

browse('1. the form repeats the amount in figures and words, and says how it read what it refuses', async () => {
  const alice = someone('alice');
  await fund(alice, 2_000_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#count', '１０');
  for (const [typed, says] of /** @type {const} */ ([['8,88', /¥8\.88\s*8 yuan 88 fen$/], ['٠٫٥', /¥0\.50\s*50 fen$/], ['１，２３４．５', /¥1,234\.50\s*1 thousand 234 yuan 50 fen$/]])) {
    await page.fill('#total', typed);
    assert.match(await textOf(page, 'button[type=submit]'), says, typed);
  }
  for (const [typed, says] of /** @type {const} */ ([
    ['1,234', /“1,234” could be 1234, or 1 point 234\..*such as 1234 or 1\.23\./],
    ['١.٢٣٤', /“1\.234” could be 1234, or 1 point 234\./],
    ['0,123', /“0,123” is 0 point 123, and the smallest amount is ¥0\.01\./],
    ['1,00,000', /“1,00,000” is no amount that we can read\. Enter an amount, such as 88\.80/],
  ])) {
    await page.fill('#total', typed);
    assert.match(await textOf(page, '#total-hint'), says, typed);
    assert.equal(await page.isDisabled('button[type=submit]'), true, typed);
  }
  for (const [language, label, says] of /** @type {const} */ ([['zh-TW', '總金額', /「1,234」可能是 1234，也可能是 1 點 234。/], ['zh-CN', '总金额', /“1,234”可能是 1234，也可能是 1 点 234。/]])) {
    await page.selectOption('#language', language);
    // The old form stays until the new one is drawn.
    await page.waitForSelector(`label[for=total]:text("${label}")`);
    await page.fill('#total', '1,234');
    assert.match(await textOf(page, '#total-hint'), says);
  }
  await page.fill('#total', '8,88');
  assert.match(await textOf(page, 'button[type=submit]'), /¥8\.88\s*捌元捌角捌分$/);
  for (const typed of ['1,5', '2.5', '3²']) {
    await page.fill('#count', typed);
    assert.equal(await page.isDisabled('button[type=submit]'), true, typed);
    assert.equal(await page.getAttribute('#count', 'aria-invalid'), 'true');
  }
  await page.fill('#count', '٣');
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.deepEqual([sent.total_amount, sent.count], [888, 3]);
});

browse('1. a paste is never cut to another number', async () => {
  const page = await person({ locale: 'en-US' });
  await page.goto(stack.url);
  for (const id of ['count', 'total']) {
    await page.fill(`#${id}`, '');
    await page.focus(`#${id}`);
    await page.keyboard.insertText('1000000.000000000000000001');
    assert.equal(await page.inputValue(`#${id}`), '1000000.000000000000000001');
    assert.equal(await page.getAttribute(`#${id}`, 'aria-invalid'), 'true');
  }
});

browse('1. the rush reads its numbers in the same way', async () => {
  const page = await person({ locale: 'en-US' });
  /** @type {any[]} */
  const asked = [];
  await page.route('**/_local/rush', (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ body: `${JSON.stringify({ type: 'end', packet_id: 'x', currency: 'CNY', books: { deposited: 888, in_wallets: 888, wallets: 1, unclaimed: 0, balanced: true } })}\n` });
  });
  await page.goto(`${stack.url}/#/rush`);
  await page.waitForSelector('#users');
  assert.equal(await page.inputValue('#total'), '888.00');
  for (const [users, slips, total, says] of /** @type {const} */ ([['10', '4', '1,234', /could be 1234, or 1 point 234/], ['1,5', '4', '8,88', /1 to 5,000 people/], ['10', '0.4', '8,88', /1 to 5,000 people/]])) {
    await page.fill('#users', users);
    await page.fill('#slips', slips);
    await page.fill('#total', total);
    await page.click('button[type=submit]');
    assert.match(await textOf(page, '[role=alert]'), says);
  }
  await page.fill('#users', '１，０００');
  await page.fill('#slips', '٤');
  await page.fill('#total', '8,88');
  await page.click('button[type=submit]');
  await page.waitForSelector('.sum[data-balanced=true]');
  assert.deepEqual(asked.map(({ users, count, total_amount }) => [users, count, total_amount]), [[1_000, 4, 888]]);
});

browse('1. in yen there are no decimals, on the form and in the rush', async () => {
  const other = await startStack({ CURRENCY: 'JPY' });
  const page = await person({ locale: 'en-US' });
  await apiOf(other.url)('alice', 'PUT', '/wallets/alice/deposits/first', { amount: 10_000 });
  await page.goto(`${other.url}/#/rush`);
  await page.waitForSelector('#total');
  assert.equal(await page.inputValue('#total'), '888');
  await page.goto(`${other.url}/#/`);
  await page.waitForSelector('#greeting');
  await page.evaluate(() => sessionStorage.setItem('hongbao.user', 'alice'));
  await page.reload();
  await page.waitForSelector('#greeting');
  await page.fill('#total', '8,88');
  assert.match(await textOf(page, '#total-hint'), /8 point 88, and the smallest amount is ¥1\./);
  await page.fill('#total', '1,234');
  assert.match(await textOf(page, 'button[type=submit]'), /¥1,234\s*1 thousand 234 Japanese yen$/);
  await other.stop();
});

// --- 2. A browser without DOM storage ----------------------------------------------------------------------------------------------

for (const storage of /** @type {const} */ (['null', 'throws', 'full', 'silent'])) {
  browse(`2. the page works where storages are: ${storage}`, async () => {
    const user = someone('bare');
    await fund(user, 10_000);
    const page = await person({ locale: 'en-US', storage });
    await asUser(page, user);
    await page.goto(stack.url);
    await page.waitForSelector('#total');
    assert.match(await textOf(page, '#note'), /keeps nothing for this page/);
    await page.click('#note button');
    assert.equal(await page.isVisible('#note'), false);
    await page.selectOption('#language', 'zh-CN');
    await page.waitForSelector('label[for=total]:text("总金额")');
    await page.fill('#total', '5');
    await page.fill('#count', '2');
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    await page.click('a.gold');
    await page.click('#open');
    await page.waitForSelector('.result[data-outcome=grabbed]');
    await page.click('.tabs a[href="#/mine"]');
    await page.waitForSelector('.purse');
    assert.equal(await page.isVisible('#note'), false, 'it says so once');
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
    await page.selectOption('#user', 'carol');
    await page.waitForFunction(() => /** @type {HTMLSelectElement | null} */ (document.querySelector('#user'))?.value === 'carol' && document.querySelector('.purse'));
  });
}

browse('2. where the browser keeps all, the page says nothing of it', async () => {
  const page = await person();
  await page.goto(stack.url);
  await page.waitForSelector('#total');
  assert.equal(await page.isVisible('#note'), false);
});

browse('2. a send without an answer says that a reload loses it', async () => {
  const user = someone('bare');
  await fund(user, 10_000);
  const page = await person({ locale: 'en-US', storage: 'null', allow: /net::ERR_FAILED/ });
  await asUser(page, user);
  await page.goto(stack.url);
  /** @type {string[]} */
  const keys = [];
  let isLost = true;
  await page.route('**/packets', async (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    const answer = await route.fetch();
    await (isLost ? route.abort() : route.fulfill({ response: answer }));
  });
  await page.fill('#total', '5');
  await page.click('button[type=submit]');
  await page.waitForSelector('.state .hint');
  assert.match(await textOf(page, '.state'), /Stay on this page until the answer is here/);
  await page.waitForSelector('.state .button');
  assert.match(await textOf(page, '.state'), /No answer yet.*Stay on this page until the answer is here/);
  // In this tab the send is still known, on every screen.
  await page.click('.tabs a[href="#/mine"]');
  await page.waitForSelector('.purse');
  isLost = false;
  await page.click('.tabs a[href="#/"]');
  await page.waitForSelector('.qr path');
  assert.equal(new Set(keys).size, 1);
  assert.equal((await api(user, 'GET', '/me/packets')).totals.count, 1);
});

browse('2. a token of the app works without storage', async () => {
  const page = await person({ locale: 'en-US', storage: 'null' });
  const token = tokenOf({ sub: 'zoe' });
  await page.route('**/config.json', (route) => route.fulfill({ json: { auth: { kind: 'token', origins: [] }, api: '' } }));
  await page.route('**/me/*', (route) => route.fulfill({ json: mineOf('zoe') }));
  await page.goto(`${stack.url}/#token=${token}&to=/mine`);
  await page.waitForSelector('.purse');
  assert.match(await textOf(page, '#note'), /sign in again/);
});

browse('2. Cognito’s sign-in without storage says why it can’t work, and sends nobody in circles', async () => {
  for (const storage of /** @type {const} */ (['null', undefined])) {
    const page = await person({ locale: 'en-US', ...(storage && { storage }) });
    await page.route('**/config.json', (route) => route.fulfill({ json: { auth: { kind: 'cognito', domain: 'https://auth.test', client_id: 'c' }, api: '' } }));
    // With storage: the user comes back to a page that no longer knows that it asked.
    await page.goto(storage ? stack.url : `${stack.url}/?code=a&state=b`);
    await page.waitForSelector('.notice p');
    assert.match(await textOf(page, '.notice'), /keeps nothing for this page meanwhile/);
    assert.equal(await page.locator('.notice button').count(), storage ? 0 : 1);
  }
});

// --- 3. A wrong clock --------------------------------------------------------------------------------------------------------------

const HOUR_MS = 3_600_000;

for (const hours of [-9, 3, 300]) {
  browse(`3. a token is sent, whatever the clock says: ${hours} hours off`, async () => {
    const page = await person({ locale: 'en-US', aheadMs: hours * HOUR_MS });
    const token = tokenOf({ sub: 'zoe', exp: Math.floor(Date.now() / 1000) + 3_600 });
    /** @type {string[]} */
    const given = [];
    await page.route('**/config.json', (route) => route.fulfill({ json: { auth: { kind: 'token', origins: [] }, api: '' } }));
    await page.route('**/me/*', (route) => {
      given.push(route.request().headers()['authorization'] ?? '');
      return route.fulfill({ json: mineOf('zoe') });
    });
    await page.goto(`${stack.url}/#token=${token}&to=/mine`);
    await page.waitForSelector('.purse');
    await page.reload();
    await page.waitForSelector('.purse');
    assert.deepEqual([...new Set(given)], [`Bearer ${token}`]);
  });

  browse(`3. Cognito’s tokens are used until a 401, and renewed once: ${hours} hours off`, async () => {
    const { page, tokens, renewals } = await cognito({ aheadMs: hours * HOUR_MS });
    await page.goto(`${stack.url}/#/mine`);
    await page.waitForSelector('.purse');
    for (const tab of ['sent', 'statement']) {
      await page.click(`.segments a[href="#/mine/${tab}"]`);
      await page.waitForSelector(`.segments a[href="#/mine/${tab}"][aria-current]`);
    }
    assert.equal(renewals(), 0, 'no token is asked for before a 401');
    tokens.accepted = 'second';
    tokens.renewed = 'second';
    await page.click('.segments a[href="#/mine/received"]');
    await assertSoon(async () => renewals() === 1);
    await page.waitForSelector('.segments a[href="#/mine/received"][aria-current]');
    assert.equal(await page.locator('.notice').count(), 0);
    // Later again.
    tokens.accepted = 'third';
    tokens.renewed = 'third';
    await page.click('.segments a[href="#/mine/sent"]');
    await page.waitForSelector('.segments a[href="#/mine/sent"][aria-current]');
    assert.equal(renewals(), 2);
  });
}

browse('3. if the new token is refused too, the page shows the sign-in and asks no more', async () => {
  for (const renewed of ['second', null]) {
    const { page, tokens, renewals } = await cognito({ allow: /status of 40[01]/ });
    tokens.accepted = 'none';
    tokens.renewed = renewed;
    await page.goto(`${stack.url}/#/mine`);
    await page.waitForSelector('.notice[data-kind=signin]');
    assert.match(await textOf(page, '.notice'), /You are no longer signed in/);
    await page.click('.tabs a[href="#/"]');
    await page.waitForTimeout(300);
    await page.waitForSelector('.notice[data-kind=signin]');
    assert.equal(renewals(), 1);
    await page.route('https://auth.test/oauth2/authorize*', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Cognito</h1>' }));
    await page.click('.notice button');
    await page.waitForURL('https://auth.test/**');
  }
});

browse('3. the app is asked once for another token, and the request is repeated as the same user', async () => {
  const [old, fresh, stranger] = [tokenOf({ sub: 'yan', n: 1 }), tokenOf({ sub: 'yan', n: 2 }), tokenOf({ sub: 'zed' })];
  for (const [given, ends] of /** @type {const} */ ([[[old, fresh], '.purse'], [[old, old], '.notice[data-kind=signin]'], [[old, stranger], '.notice[data-kind=signin]']])) {
    const app = `<!doctype html><iframe src="${stack.url}/#/mine"></iframe><script>
      const tokens = ${JSON.stringify(given)};
      window.wanted = 0;
      addEventListener('message', (event) => {
        if (event.data.type !== 'hongbao-token-wanted') return;
        event.source.postMessage({ type: 'hongbao-token', token: tokens[Math.min(wanted, 1)] }, event.origin);
        wanted += 1;
      });</script>`;
    const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(app));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const origin = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
    const page = await person({ locale: 'en-US', aheadMs: 5 * HOUR_MS, allow: /status of 401/ });
    await page.route('**/config.json', (route) => route.fulfill({ json: { auth: { kind: 'token', origins: [origin] }, api: '' } }));
    /** @type {string[]} */
    const used = [];
    await page.route('**/me/*', (route) => {
      const token = (route.request().headers()['authorization'] ?? '').slice(7);
      used.push(token);
      return token === old ? route.fulfill({ status: 401, json: { message: 'Unauthorized' } }) : route.fulfill({ json: mineOf('yan') });
    });
    await page.route(`${stack.url}/`, async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("frame-ancestors 'none'", `frame-ancestors ${origin}`) };
      await route.fulfill({ response, headers });
    });
    await page.goto(`${origin}/`);
    await page.frameLocator('iframe').locator(ends).waitFor();
    // Once to sign in, once after the 401.
    assert.equal(await page.evaluate(() => /** @type {any} */ (window).wanted), 2);
    assert.ok(!used.includes(stranger), 'no request is repeated as another user');
    server.close();
  }
});

browse('3. the start field knows the server’s time, with a clock that is hours off', async () => {
  for (const hours of [-30, -3, 3, 30]) {
    const user = someone('late');
    await fund(user, 10_000);
    const page = await person({ name: user, locale: 'en-US', aheadMs: hours * HOUR_MS });
    await page.goto(stack.url);
    await page.fill('#total', '5');
    await page.click('summary');
    const at = (/** @type {number} */ ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
    for (const [after, fits] of /** @type {const} */ ([[-0.1, false], [0.1, true], [2, true], [7 * 24 - 0.1, true], [7 * 24 + 0.1, false]])) {
      await page.fill('#starts', at(Date.now() + after * HOUR_MS));
      assert.equal(await page.getAttribute('#starts', 'aria-invalid'), String(!fits), `${after} hours ahead, clock ${hours} off`);
    }
  }
});

browse('3. a clock that is corrected while the page is open opens no coin early', async () => {
  for (const [before, after] of /** @type {const} */ ([[-20_000, 0], [0, 3 * HOUR_MS], [HOUR_MS, 0]])) {
    const startsAt = new Date(Date.now() + 5_000);
    const { link } = await packet({ starts_at: startsAt.toISOString() });
    const page = await person({ name: someone(), locale: 'en-US', aheadMs: before });
    await page.goto(link);
    await page.waitForSelector('.starts span');
    await page.evaluate((now) => {
      /** @type {any} */ (window).aheadMs = now;
    }, after);
    await page.waitForSelector('#open:enabled');
    const early = startsAt.getTime() - Date.now();
    assert.ok(early < 50 && early > -2_000, `${early} ms before the start`);
  }
});

browse('3. the end and the day of a claim go by the server’s time', async () => {
  const { link, id } = await packet({ expires_in_s: 3_600, count: 2 });
  await api(someone(), 'POST', `/packets/${id}/grab`, {});
  const page = await person({ name: someone(), locale: 'en-US', aheadMs: 50 * HOUR_MS });
  await page.goto(link);
  await page.waitForSelector('.claim time');
  assert.match(await textOf(page, '.ends'), /ends in (01:00:00|00:59:\d\d)/);
  // A claim of today shows no date.
  assert.match(await textOf(page, '.claim time'), /^\d\d:\d\d:\d\d$/);
});

// --- 5. The picture of a link ------------------------------------------------------------------------------------------------------

test('5. a link’s picture has a whole address, whoever asks', { skip: Boolean(process.env['CUT']) }, async () => {
  const { url, stop } = await startStack();
  const port = new URL(url).port;
  for (const [asked, headers, origin] of /** @type {const} */ ([
    [url, {}, `http://127.0.0.1:${port}`],
    [`http://localhost:${port}`, {}, `http://localhost:${port}`],
    [url, { 'X-Forwarded-Host': 'red.example', 'X-Forwarded-Proto': 'https' }, 'https://red.example'],
  ])) {
    const html = await (await fetch(`${asked}/p/01JZZZZZZZZZZZZZZZZZZZZZZZ`, { headers })).text();
    const picture = new URL(/property="og:image" content="([^"]+)"/.exec(html)?.[1] ?? '');
    assert.equal(picture.origin, origin);
    const shown = await fetch(url + picture.pathname);
    assert.deepEqual([shown.status, shown.headers.get('content-type')], [200, 'image/png']);
  }
  await stop();
});

// --- Helpers -----------------------------------------------------------------------------------------------------------------------

/** Lets a page that keeps nothing begin as this user. @param {Page} page @param {string} user */
const asUser = (page, user) =>
  page.route('**/config.json', async (route) => {
    const response = await route.fetch();
    const config = await response.json();
    return route.fulfill({ response, json: { ...config, auth: { kind: 'local', users: [user, 'carol'] } } });
  });

/** Returns one body that fits as an answer to every request under /me. @param {string} user */
const mineOf = (user) => ({ user_id: user, balance: 5, currency: 'CNY', claims: [], packets: [], movements: [], next_cursor: null, totals: { count: 0, amount: 0 } });

/** Returns a token that the page can read. Its signature is not valid. @param {object} claims */
function tokenOf(claims) {
  const part = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.x`;
}

/**
 * Opens a page that was signed in by Cognito before. The service accepts one token, and Cognito gives another one for the refresh token.
 * @param {import('./stack.mjs').Person} options
 */
async function cognito(options) {
  const domain = 'https://auth.test';
  const exp = Math.floor(Date.now() / 1000) + 3_600;
  const named = (/** @type {string} */ name) => tokenOf({ sub: 'xia', name, exp });
  const tokens = { accepted: 'first', renewed: /** @type {string | null} */ ('second') };
  let renewals = 0;
  const page = await person({ locale: 'en-US', allow: /status of 401/, ...options });
  await page.addInitScript((first) => {
    if (!location.href.startsWith('http://127')) return;
    if (sessionStorage.getItem('hongbao.refresh')) return;
    sessionStorage.setItem('hongbao.token', first);
    sessionStorage.setItem('hongbao.refresh', 'r-1');
  }, named('first'));
  await page.route('**/config.json', (route) => route.fulfill({ json: { auth: { kind: 'cognito', domain, client_id: 'c' }, api: '' } }));
  await page.route('**/me/*', (route) =>
    route.request().headers()['authorization'] === `Bearer ${named(tokens.accepted)}` ? route.fulfill({ json: mineOf('xia') }) : route.fulfill({ status: 401, json: { message: 'Unauthorized' } }),
  );
  await page.route(new RegExp(`^${stack.url}/(\\?.*)?$`), async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("connect-src 'self'", `connect-src 'self' ${domain}`) };
    await route.fulfill({ response, headers });
  });
  await page.route(`${domain}/oauth2/token`, (route) => {
    renewals += 1;
    const allowed = { 'Access-Control-Allow-Origin': '*' };
    return tokens.renewed === null ? route.fulfill({ status: 400, json: {}, headers: allowed }) : route.fulfill({ json: { id_token: named(tokens.renewed) }, headers: allowed });
  });
  return { page, tokens, renewals: () => renewals };
}

const UNSUPPORTED = {
  type: 'urn:hongbao:problem:user-id-unsupported',
  title: 'User id unsupported',
  status: 403,
  detail: 'The user id, the subject of the token, must be 1 to 128 printable ASCII characters other than space / ? # %, and not . or ..',
  code: 'user-id-unsupported',
  request_id: 'r-1',
};

browse('7. a user whose id is not supported reads that, and is not sent to sign in again', async () => {
  for (const [locale, title, text] of /** @type {const} */ ([
    ['zh-CN', /这个账户不能在这里使用/, /重新登录也没有用/],
    ['zh-TW', /這個帳戶不能在這裡使用/, /重新登入也沒有用/],
    ['en-US', /can’t use this account here/, /Signing in again won’t help/],
  ])) {
    const { link } = await packet();
    const page = await person({ name: someone(), locale, allow: /403/ });
    let asked = 0;
    const refuse = (/** @type {import('playwright-core').Route} */ route) => {
      asked += Number(route.request().url().includes('/packets/'));
      return route.fulfill({ status: 403, contentType: 'application/problem+json', json: UNSUPPORTED });
    };
    await page.route(/\/(packets|me)\/\w+(\?.*)?$/, refuse);
    await page.goto(link);
    await page.waitForSelector('.notice[data-kind=unsupported]');
    assert.match(await textOf(page, '.notice h1'), title);
    assert.match(await textOf(page, '.notice p'), text);
    assert.equal(await page.locator('.notice button').count(), 0, 'nothing to repeat');
    assert.equal(asked, 1, 'it is asked once');
    await assertAccessible(page, `an unsupported id, in ${locale}`);
    await page.goto(`${stack.url}/#/mine/sent`);
    await page.waitForSelector('.notice[data-kind=unsupported]');
  }
});

// The service's unit test reads the same examples.
test('4. a greeting keeps the hidden characters that mean something, and loses the others', async () => {
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

browse('4. the form sends a greeting with its joiners', async () => {
  const alice = someone('alice');
  await api(someone(), 'PUT', `/wallets/${alice}/deposits/d`, { amount: 1_000 });
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '8');
  await page.fill('#greeting', '\ufeffمی\u200cخواهم ක්\u200dරි 葛\u{e0100} 1\u200d2');
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.equal(sent.greeting, 'می\u200cخواهم ක්\u200dරි 葛\u{e0100} 12');
});

browse('10. the page sends, shares and grabs below a base path', async () => {
  const below = await startStack({}, ['--base-path', '/hongbao']);
  try {
    assert.match(below.url, /\/hongbao$/);
    const [alice, bob] = [someone('alice'), someone('bob')];
    const call = apiOf(below.url);
    await call(alice, 'PUT', `/wallets/${alice}/deposits/d`, { amount: 1_000 });
    const page = await person({ name: alice });
    /** @type {string[]} */
    const outside = [];
    page.on('request', (request) => void (request.url().startsWith(`${below.url}/`) || outside.push(request.url())));
    await page.goto(`${below.url}/`);
    await page.fill('#total', '8');
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    const [sent] = (await call(alice, 'GET', '/me/packets')).packets;
    const link = `${below.url}/p/${sent.packet_id}`;
    assert.ok((await page.content()).includes(link), 'the link that is shared');
    await page.goto(`${below.url}/#/mine/sent`);
    await page.waitForSelector('.history li');
    await page.goto(`${below.url}/#/rush`);
    await page.fill('#users', '20');
    await page.click('button[type=submit]');
    await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    const other = await person({ name: bob });
    other.on('request', (request) => void (request.url().startsWith(`${below.url}/`) || outside.push(request.url())));
    await other.goto(link);
    await other.click('#open');
    await other.waitForSelector('.result[data-outcome=grabbed]');
    assert.deepEqual(outside, []);
  } finally {
    await below.stop();
  }
});
