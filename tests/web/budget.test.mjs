// The limits on the page's size and its time to first paint, in a real browser.

import assert from 'node:assert/strict';

import { browse, packet, person, stack } from './browser.mjs';

browse('the first paint comes within a second, and all screens together take less than 100 KB', async () => {
  const { id, sender } = await packet({ count: 1 });
  const page = await person({ name: sender });
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  /** @type {Set<string>} */
  const origins = new Set();
  page.on('request', (request) => origins.add(new URL(request.url()).origin));
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.goto(stack.url);
  await page.waitForSelector('#total');
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  const first = bytes;
  for (const [path, selector] of /** @type {const} */ ([[`/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], ['/mine', '.nothing'], ['/rush', '#users']])) {
    await page.goto(`${stack.url}/#${path}`);
    await page.waitForSelector(selector);
  }
  await page.goto(`${stack.url}/#/p/${id}`);
  await page.click('#open');
  await page.click('a.verify');
  await page.waitForSelector('.proof[data-fair=true]');
  console.log(`first paint ${Math.round(paint)} ms; ${first} bytes for the first screen, ${bytes} for all`);
  assert.deepEqual([...origins], [stack.url], 'the page sends no request to another origin');
  assert.ok(paint < 1_000, `${paint} ms`);
  assert.ok(first > 5_000 && bytes < 100_000, `${bytes} bytes`);
});
