// The limits on the page's size, its times and its requests, in a real browser.

import assert from 'node:assert/strict';

import { browse, goTo, grab, packet, person, press, reload, someone, stack, watchShift } from './harness.mjs';

browse('the first paint comes within a second; an envelope takes at most 66 KB, the form 71 KB, all screens 150 KB', async () => {
  const { id, sender } = await packet({ count: 1, cover: 'wedding' });
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
  await goTo(page, stack.url, '#total');
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  const first = bytes;
  for (const [path, selector] of /** @type {const} */ ([[`/sent/${id}`, '.qr'], [`/p/${id}`, '#open'], ['/mine', '.nothing'], ['/rush', '#users']])) {
    await goTo(page, `${stack.url}/#${path}`, selector);
  }
  await page.goto(`${stack.url}/p/${id}`);
  await page.click('#open');
  await press(page, 'a.verify', '.proof[data-fair=true]');
  const guest = await person({ name: someone() });
  const guestSession = await guest.context().newCDPSession(guest);
  await guestSession.send('Network.enable');
  let link = 0;
  guestSession.on('Network.loadingFinished', ({ encodedDataLength }) => {
    link += encodedDataLength;
  });
  await goTo(guest, `${stack.url}/p/${(await packet()).id}`, '#open');
  const envelope = link;
  console.log(`first paint ${Math.round(paint)} ms; ${first} bytes for the form, ${envelope} for an envelope, ${bytes} for all`);
  assert.deepEqual([...origins], [stack.url], 'the page sends no request to another origin');
  assert.ok(paint < 1_000, `${paint} ms`);
  assert.ok(first > 5_000 && first <= 71_000 && envelope <= 66_000 && bytes <= 150_000, `${first}, ${envelope} and ${bytes} bytes`);
});

browse('on a slow network and a slow processor the coin can be pressed in 2 s, and in 1 s the second time', async () => {
  const page = await person({ name: someone() });
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  // The slow 3G of WebPageTest.
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: 400, downloadThroughput: 400_000 / 8, uploadThroughput: 400_000 / 8 });
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 });
  for (const limit of [2_000, 1_000]) {
    const { link } = await packet();
    await page.goto(link, { waitUntil: 'commit' });
    // The static envelope with its coin is the first paint, and a press of it counts from then on.
    await page.waitForFunction(() => performance.getEntriesByName('first-paint').length > 0);
    await press(page, '.coin', '.result[data-outcome=grabbed]');
    const { coin, known, answered } = await page.evaluate(() => {
      const of = (/** @type {RegExp} */ name) => /** @type {any} */ (performance.getEntriesByType('resource').find((entry) => name.test(entry.name))).responseEnd;
      return { coin: performance.getEntriesByName('first-paint')[0]?.startTime ?? Infinity, known: of(/\/packets\/\w+$/), answered: of(/\/grab$/) };
    });
    console.log(`the coin after ${Math.round(coin)} ms, the packet after ${Math.round(known)} ms, the amount after ${Math.round(answered)} ms`);
    assert.ok(coin <= limit, `${coin} ms`);
    await page.waitForTimeout(1_500);
  }
});

browse('a reload asks for the page, its configuration and the packet, and for nothing else', async () => {
  const { link, id } = await packet();
  const page = await person({ name: someone(), allow: /./ });
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  await goTo(page, link, '#open');
  await page.waitForLoadState('networkidle');
  /** @type {Map<string, string>} */
  const asked = new Map();
  session.on('Network.requestWillBeSent', ({ requestId, request }) => asked.set(requestId, new URL(request.url).pathname));
  // What the browser answers by itself is no request to the server.
  session.on('Network.requestServedFromCache', ({ requestId }) => asked.delete(requestId));
  session.on('Network.responseReceived', ({ requestId, response }) => {
    if (response.fromDiskCache || response.fromPrefetchCache) asked.delete(requestId);
  });
  await reload(page, '#open');
  assert.deepEqual([...asked.values()].sort(), [`/config.json`, `/p/${id}`, `/packets/${id}`].sort());
});

browse('nothing jumps on any screen', async () => {
  const over = await packet({ count: 2 });
  await grab(over.sender, over.id);
  await grab(someone(), over.id);
  const { id, sender } = await packet({ count: 3, cover: 'spring' });
  await grab(someone(), id);
  for (const [width, height] of /** @type {const} */ ([[390, 844], [1280, 800]])) {
    for (const [path, selector, name] of /** @type {const} */ ([['/#/', '#total', sender], [`/#/sent/${id}`, '.qr', sender], [`/p/${id}`, '#open', someone()], [`/p/${over.id}`, '.result', over.sender], ['/#/mine', '.purse', sender], ['/#/mine/sent', '.history li', sender], [`/#/verify/${over.id}`, '.proof', sender], ['/#/rush', '#users', sender]])) {
      const page = await person({ name, width, height });
      const shiftOf = await watchShift(page);
      await goTo(page, stack.url + path, selector);
      await page.waitForTimeout(1_200);
      const shift = await shiftOf();
      assert.ok(shift <= 0.02, `${path} at ${width}: ${shift}`);
      await page.context().close();
    }
  }
});
