// The rush of the local stack, in a real browser.

import assert from 'node:assert/strict';

import { browse, person, stack, textOf } from './browser.mjs';

browse('a rush balances, and the screen shows it', async () => {
  const page = await person({ locale: 'en-US', width: 1100, height: 900 });
  await page.goto(`${stack.url}/#/rush`);
  await page.fill('#users', '300');
  await page.fill('#slips', '40');
  await page.click('button[type=submit]');
  await page.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
  assert.match(await textOf(page, '.sum'), /¥888\.00.*=.*¥888\.00.*in 41 wallets.*\+.*¥0\.00/);
  const tallies = (await textOf(page, '.tallies')).replace(/,/g, '');
  assert.match(tallies, /answered 300got one 40came too late 260failed 0/);
  assert.equal(await page.locator('.chart svg').count(), 3);
  await page.fill('#users', '0');
  await page.click('button[type=submit]');
  assert.match(await textOf(page, '[role=alert]'), /1 to 5,000 people/);
});
