// What went wrong for users of similar projects, tried on the page: each case has inputs and the right value.
// tests/it/contract/reported.rs has the cases of the API.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { api, assertAccessible, browse, packet, person, someone, stack, textOf } from './browser.mjs';
import { cleanGreeting } from '../../web/assets/greeting.js';
import { apiOf, startStack } from './stack.mjs';

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
