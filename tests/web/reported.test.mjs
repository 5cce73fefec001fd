// What went wrong for users of similar projects, tried on the page: each case has inputs and the right value.
// tests/it/contract/reported.rs has the cases of the API.

import assert from 'node:assert/strict';

import { assertAccessible, browse, packet, person, someone, stack, textOf } from './browser.mjs';

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
