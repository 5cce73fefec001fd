// What changes while somebody looks: a closed envelope, a countdown, a long list.

import assert from 'node:assert/strict';

import { api, assertSoon, browse, fund, grab, packet, person, someone, stack, textOf } from './browser.mjs';

browse('a closed envelope turns into the result by itself once the last slip is gone', async () => {
  const { link, id } = await packet({ count: 2 });
  const page = await person({ name: someone(), locale: 'en-US' });
  await page.goto(link);
  await page.waitForSelector('#open');
  await grab(someone(), id);
  await assertSoon(async () => /1 left/.test(await textOf(page, '.ends')));
  await grab(someone(), id);
  const began = Date.now();
  await page.waitForSelector('.result[data-outcome=sold_out]');
  assert.ok(Date.now() - began < 8_000, `after ${Date.now() - began} ms`);
  // Losing shows how fast it went, the others' luck, and a way to send.
  await assertSoon(async () => /2 packets, gone in \d+ sec/.test(await textOf(page, '.gone')));
  await page.click('.lost .button.gold');
  assert.equal(await page.locator('.claim').count(), 2);
  await page.click('.lost a.button');
  await page.waitForSelector('#total');
});

browse('an envelope that nobody touches says at its end that it has expired', async () => {
  const { link } = await packet({ expires_in_s: 4 });
  const page = await person({ name: someone(), locale: 'en-US' });
  await page.goto(link);
  await page.waitForSelector('#open');
  await page.waitForSelector('.result[data-outcome=expired]');
});

browse('three days are days, not hours', async () => {
  const { link } = await packet({ expires_in_s: 259_200 });
  const page = await person({ name: someone(), locale: 'en-US' });
  await page.goto(link);
  await page.waitForSelector('#open');
  assert.match(await textOf(page, '.ends'), /ends in (3 days 00:00:00|2 days 23:59:\d\d)/);
});

browse('a scheduled packet counts down by the server’s clock, and opens in that very second', async () => {
  const startsAt = new Date(Date.now() + 6_000);
  const { link } = await packet({ starts_at: startsAt.toISOString() });
  const page = await person({ name: someone(), locale: 'en-US' });
  // This machine's clock is ten minutes behind.
  await page.addInitScript(() => {
    const real = Date;
    const late = 600_000;
    globalThis.Date = /** @type {any} */ (class extends real {
      /** @param {any[]} given */
      constructor(...given) {
        super(.../** @type {[]} */ (given.length > 0 ? given : [real.now() - late]));
      }
      static now() {
        return real.now() - late;
      }
    });
  });
  await page.goto(link);
  await page.waitForSelector('.starts span');
  assert.equal(await page.isDisabled('#open'), true);
  assert.match(await textOf(page, '.starts span'), /^00:00:0\d$/);
  await page.waitForSelector('#open:enabled');
  const early = startsAt.getTime() - Date.now();
  assert.ok(early < 50 && early > -1_500, `${early} ms before the start`);
  await page.click('#open');
  await page.waitForSelector('.result[data-outcome=grabbed]');
});

browse('a sender who is not among the recipients watches their own packet, and it stays', async () => {
  const sender = someone('sender');
  await fund(sender, 10_000);
  const { packet_id: id } = await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 200, count: 2, recipients: ['friend', 'other'] });
  const page = await person({ name: sender, locale: 'en-US' });
  await page.goto(`${stack.url}/p/${id}`);
  await page.waitForSelector('.who');
  assert.equal(await page.isVisible('#open'), false);
  assert.match(await textOf(page, '.envelope-status'), /you are not among them/);
  await grab('friend', id);
  await page.waitForSelector('.claim');
  assert.match(await textOf(page, '.who .progress'), /1 of 2 opened/);
});

browse('a list of 3,000 claims is read as it comes into view, and has at most 100 rows', async () => {
  const count = 3_000;
  const me = someone('me');
  const { link, id } = await packet({ count: count + 10, total_amount: 100_000, split: 'equal' });
  await grab(me, id);
  for (let i = 1; i < count; i += 50) await Promise.all(Array.from({ length: Math.min(50, count - i) }, (_, n) => grab(`many-${i + n}`, id)));
  const page = await person({ name: me, locale: 'en-US' });
  let asked = 0;
  page.on('request', (request) => {
    if (request.url().includes('/claims')) asked += 1;
  });
  await page.goto(link);
  await page.waitForSelector('.claim');
  assert.ok(asked <= 2, `${asked} requests for the first rows`);
  // The user's own claim is the oldest: it is on top all the same.
  assert.match(await textOf(page, '.pin.me'), /\(you\)/);
  const last = async () => Number((await page.locator('.claim').last().getAttribute('aria-posinset')) ?? 0);
  let rowsMost = 0;
  await assertSoon(async () => {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    rowsMost = Math.max(rowsMost, await page.locator('.claim').count());
    return (await last()) === count;
  });
  assert.ok(asked <= 31, `${asked} requests`);
  assert.ok(rowsMost <= 100, `${rowsMost} rows`);
  assert.equal(await page.locator('.claim.me').count(), 1, 'the own claim is the oldest one');

  // One new claim costs one request, and moves one row.
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForFunction(() => document.querySelector('.claim')?.getAttribute('aria-posinset') === '1');
  asked = 0;
  await page.evaluate(() => {
    const seen = /** @type {any} */ (window);
    seen.added = 0;
    new MutationObserver((changes) => {
      for (const { addedNodes } of changes) seen.added += addedNodes.length;
    }).observe(/** @type {Node} */ (document.querySelector('.claims')), { childList: true });
  });
  await grab(someone('new'), id);
  await assertSoon(async () => /3,001 of/.test(await textOf(page, '.who .progress')) && /^new-/.test(await textOf(page, '.claim .name')));
  await page.waitForTimeout(300);
  assert.equal(asked, 1);
  assert.equal(await page.evaluate(() => /** @type {any} */ (window).added), 1);
});

browse('without a screen that could not be loaded, the page says that it is offline, and goes on by itself', async () => {
  const page = await person({ name: someone(), locale: 'en-US', allow: /ERR_INTERNET_DISCONNECTED/ });
  await page.goto(stack.url);
  await page.waitForSelector('#total');
  await page.context().setOffline(true);
  await page.click('.tabs a[href="#/mine"]');
  await page.waitForSelector('.notice[data-kind=offline]');
  assert.doesNotMatch(await textOf(page, '.notice'), /TypeError/);
  await page.context().setOffline(false);
  await page.waitForSelector('.purse');
});
