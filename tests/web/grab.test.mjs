// A packet in the hands of its readers: every outcome, a network that fails, and what changes while somebody looks.

import assert from 'node:assert/strict';

import { alter, api, assertAccessible, assertSoon, browse, counted, essential, goTo, grab, hide, hold, openAs, packet, person, press, reload, rich, settled, someone, stack, textOf, traffic, yuan } from './harness.mjs';

const HOUR_MS = 3_600_000;

essential('send, share, grab as a second user, sold out for a third, and a reload shows the same', async () => {
  const alice = await rich('alice', 100_000);
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '88.88');
  await page.fill('#count', '2');
  await page.fill('#greeting', '恭喜 <b>发财</b>');
  assert.equal(await page.inputValue('.envelope .greeting'), '恭喜 <b>发财</b>');
  assert.match(await textOf(page, '.balance'), /1,000\.00.*911\.12/);
  await press(page, 'button[type=submit]', '.qr path');
  const link = await page.inputValue('#link');
  assert.match(link, /\/p\/[0-9A-Z]{26}$/);
  const id = link.slice(-26);

  const bob = await person({ name: someone('bob') });
  await bob.goto(link);
  await press(bob, '#open', '.result[data-outcome=grabbed]');
  const amount = await yuan(bob);
  assert.ok(amount >= 1 && amount < 8_888);
  assert.equal(await bob.locator('.claim').count(), 1);
  assert.equal(await bob.locator('.claim.best').count(), 0, 'no claim is the best before the last slip is claimed');

  const carol = someone('carol');
  const other = (await grab(carol, id)).amount;
  assert.equal(amount + other, 8_888);
  // The list grows by itself. After the last claim, the best one gets its mark.
  await bob.waitForSelector('.claim.best');
  assert.equal(await bob.locator('.claim').count(), 2);
  assert.equal(await bob.isVisible('.luck'), amount > other || (await bob.locator('.claim.best.me').count()) === 1);
  const best = await textOf(bob, '.claim.best .got');
  assert.equal(Math.round(Number(best.replace(/[^\d.]/g, '')) * 100), Math.max(amount, other));

  const dave = await openAs(link, '.result[data-outcome=sold_out]', { name: someone('dave') });
  assert.match(await textOf(dave, 'h1'), /派完了/);

  await reload(bob, '.result[data-outcome=grabbed]');
  assert.equal(await yuan(bob), amount);
  // Also if this tab remembers nothing.
  await bob.evaluate(() => Object.keys(sessionStorage).filter((key) => key.startsWith('hongbao.grabbed')).forEach((key) => sessionStorage.removeItem(key)));
  await reload(bob, '.result[data-outcome=grabbed]');
  assert.equal(await yuan(bob), amount);
});

essential('a passphrase is asked for, and a wrong one is refused', async () => {
  const { link, id } = await packet({ passphrase: '芝麻开门' });
  const user = someone();
  const page = await person({ name: user, allow: /status of 403 .*\/grab$/ });
  await page.goto(link);
  const asked = counted(page, '/grab');
  // The page knows beforehand that there is a passphrase: a tap without it only shows where to write it.
  await page.waitForSelector('#word');
  await page.click('#open');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'word');
  assert.match(await textOf(page, '.envelope-status'), /输入口令/);
  assert.equal(asked(), 0);
  await page.fill('#word', '开门');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.envelope-status')?.textContent?.includes('口令错误'));
  assert.equal(asked(), 1);
  assert.ok(await page.evaluate(() => document.querySelector('.envelope')?.getAnimations().length), 'the envelope shakes its head');
  await page.fill('#word', '芝麻开门 ');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal((await grab(user, id)).amount, await yuan(page));
});

browse('after too many wrong passphrases the page says how long to wait', async () => {
  const { link } = await packet({ passphrase: 'sesame' });
  const page = await openAs(link, '#word', { name: someone(), locale: 'en-US', allow: /status of (403|429) .*\/grab$/ });
  for (let i = 0; i < 12; i += 1) {
    await page.fill('#word', `wrong ${i}`);
    const [answer] = await Promise.all([page.waitForResponse('**/grab'), page.keyboard.press('Enter')]);
    await page.waitForSelector('.envelope:not(.opening)');
    if (answer.status() === 429) break;
  }
  const wait = async () => Number(/Try again in (\d+) second/.exec(await textOf(page, '.envelope-status'))?.[1]);
  const first = await wait();
  assert.ok(first > 0 && first <= 60, `${first}`);
  assert.equal(await page.isDisabled('#open'), true);
  await assertSoon(async () => (await wait()) <= first - 2);
});

browse('a tap after the last slip was taken shows "sold out"', async () => {
  const { id, link } = await packet({ count: 1 });
  const page = await openAs(link, '#open', { name: someone(), allow: /ERR_FAILED/ });
  // The page has no news of it yet.
  await page.route(`**/packets/${id}`, (route) => route.abort());
  await grab(someone(), id);
  await press(page, '#open', '.result[data-outcome=sold_out]');
});

browse('a closed envelope turns into the result by itself once the last slip is gone', async () => {
  const { link, id } = await packet({ count: 2 });
  const page = await openAs(link, '#open', { name: someone(), locale: 'en-US' });
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
  await press(page, '.lost a.button', '#total');
});

browse('a packet expires, and the undecided slips are refunded', async () => {
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#count', '3');
  await page.click('.segments label:last-child');
  // An equal split asks for the amount of each.
  await page.fill('#total', '10');
  assert.match(await textOf(page, '#total-hint'), /¥30\.00 in all/);
  await page.click('summary');
  await page.selectOption('#expiry', '10');
  await press(page, 'button[type=submit]', '.qr path');
  const id = (await page.inputValue('#link')).slice(-26);
  assert.equal((await grab(someone(), id)).amount, 1_000);
  const late = await openAs(`${stack.url}/#/p/${id}`, '#open', { name: someone('late'), locale: 'en-US' });
  // The packet was open when the page was loaded. At its end the page says so, without a tap.
  await late.waitForSelector('.result[data-outcome=expired]');
  assert.match(await textOf(late, 'h1'), /Too late/);
  await settled(alice, id);
  await reload(late, '.result[data-outcome=expired]');
  assert.match(await textOf(late, '.who .foot'), /20\.00 went back/);
  await goTo(page, `${stack.url}/#/mine/sent`, '.history .back');
  assert.match(await textOf(page, '.history .back'), /¥20\.00 came back/);
  assert.match(await textOf(page, '.purse .sum'), /90\.00/);
  assert.match(await textOf(page, '.history .tag'), /Over/);
});

browse('an expired packet tells its sender what was taken and what came back', async () => {
  const sender = await rich('sender', 1_000);
  const send = async () => /** @type {string} */ ((await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 3, expires_in_s: 1 })).packet_id);
  const [taken, untouched] = [await send(), await send()];
  await grab(someone(), taken);
  await assertSoon(async () => (await api(sender, 'GET', `/packets/${taken}`)).status === 'expired');
  const page = await openAs(`${stack.url}/p/${taken}`, '.result[data-outcome=expired]', { name: sender });
  assert.equal(await textOf(page, 'h1'), '已过期');
  const took = '被领走 1/3 个，共 ¥1.00';
  assert.deepEqual(await page.locator('.after p').allTextContents(), [took, '还剩 ¥2.00，稍后退回给你']);
  await settled(sender, taken, untouched);
  // The page follows the refund by itself.
  await page.waitForFunction(() => document.querySelector('.after p:last-child')?.textContent === '¥2.00 已退回给你');
  assert.equal(await textOf(page, '.after p'), took);
  assert.equal(await page.locator('.lost .row button:visible').count(), 1, 'how lucky the others were');
  await goTo(page, `${stack.url}/#/p/${untouched}`, '.none:not([hidden])');
  assert.equal(await page.locator('.lost .row button:visible').count(), 0, 'there are no others');
  assert.deepEqual(await page.locator('.after p').allTextContents(), ['没有人领', '¥3.00 已退回给你']);
  assert.equal(await textOf(page, '.none'), '没有人领');
});

browse('a packet that the operator closes is closed by itself, at a tap, and after a reload', async () => {
  for (const [locale, way, says] of /** @type {const} */ ([
    ['zh-CN', 'by itself', /红包已关闭/],
    ['zh-TW', 'at a tap', /紅包已關閉/],
    ['en-US', 'at a tap', /This packet was closed/],
  ])) {
    const { link, id, sender } = await packet();
    const page = await person({ name: someone(), locale });
    const closed = { status: 'closed', closed_at: new Date().toISOString() };
    let isClosed = false;
    // The packet as the service shows it once it is closed; at a tap, the page has no news of that yet.
    await alter(page, `**/packets/${id}`, () => ({ ...(isClosed && closed) }));
    await page.route('**/grab', (route) => {
      isClosed = true;
      return route.fulfill({ json: { outcome: 'closed', packet_id: id } });
    });
    await goTo(page, link, '#open');
    if (way === 'by itself') isClosed = true;
    else await page.click('#open');
    await page.waitForSelector('.result[data-outcome=closed]');
    assert.match(await textOf(page, 'h1'), says);
    assert.ok((await textOf(page, '.lost .after')).length > 8);
    await assertAccessible(page, `closed, in ${locale}`);
    await reload(page, '.result[data-outcome=closed]');
    // The sender has nothing to share any more; their history says why.
    const owner = await person({ name: sender, locale });
    await alter(owner, `**/packets/${id}`, () => ({ ...closed }));
    await goTo(owner, `${stack.url}/#/sent/${id}`, '.result[data-outcome=closed]');
    await alter(owner, '**/me/packets*', ({ packets }) => ({ packets: packets.map((/** @type {object} */ sent) => ({ ...sent, ...closed })) }));
    await goTo(owner, `${stack.url}/#/mine/sent`, '.history .tag.closed');
  }
});

browse('a packet for other recipients, and one that does not exist', async () => {
  const { link } = await packet({ recipients: ['friend'] });
  const page = await openAs(link, '.notice[data-kind=not-for-you]', { name: someone(), allow: /status of (403|404)/ });
  await goTo(page, `${stack.url}/#/p/01JZZZZZZZZZZZZZZZZZZZZZZZ`, '.notice[data-kind=not-found]');
  await goTo(page, `${stack.url}/#/nowhere`, '.notice a[href="#/"]');
});

browse('a sender who is not among the recipients watches their own packet, and it stays', async () => {
  const sender = await rich('sender', 10_000);
  const { packet_id: id } = await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 200, count: 2, recipients: ['friend', 'other'] });
  const page = await openAs(`${stack.url}/p/${id}`, '.who', { name: sender, locale: 'en-US' });
  assert.equal(await page.isVisible('#open'), false);
  assert.match(await textOf(page, '.envelope-status'), /you are not among them/);
  await grab('friend', id);
  await page.waitForSelector('.claim');
  assert.match(await textOf(page, '.who .progress'), /1 of 2 opened/);
});

browse('a scheduled packet counts down by the server’s clock and opens in that very second, also if this machine’s is wrong or is corrected', async () => {
  for (const [before, after] of /** @type {const} */ ([[-600_000, -600_000], [-20_000, 0], [0, 3 * HOUR_MS], [HOUR_MS, 0]])) {
    const startsAt = new Date(Date.now() + 5_000);
    const { link } = await packet({ starts_at: startsAt.toISOString() });
    const page = await openAs(link, '.starts span', { name: someone(), locale: 'en-US', aheadMs: before });
    assert.equal(await page.isDisabled('#open'), true);
    assert.match(await textOf(page, '.starts span'), /^00:00:0\d$/);
    await page.evaluate((now) => {
      /** @type {any} */ (window).aheadMs = now;
    }, after);
    await page.waitForSelector('#open:enabled');
    const early = startsAt.getTime() - Date.now();
    assert.ok(early < 50 && early > -2_000, `${early} ms before the start`);
    await press(page, '#open', '.result[data-outcome=grabbed]');
  }
});

browse('a passphrase can be typed in before the start, and opens the packet from that second on', async () => {
  const { link } = await packet({ passphrase: 'sesame', starts_at: new Date(Date.now() + 5_000).toISOString() });
  const page = await person({ name: someone() });
  const asked = counted(page, '/grab');
  await goTo(page, link, '.starts span');
  await page.click('#word');
  await page.keyboard.type('sesame');
  await page.keyboard.press('Enter');
  assert.equal(await page.inputValue('#word'), 'sesame');
  assert.equal(await page.isDisabled('.asks button'), true);
  await page.waitForSelector('#open:enabled');
  assert.equal(asked(), 0, 'nothing is sent before the start');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(asked(), 1);
});

browse('the end and the day of a claim go by the server’s time', async () => {
  const { link, id } = await packet({ expires_in_s: 3_600, count: 2 });
  await api(someone(), 'POST', `/packets/${id}/grab`, {});
  const page = await openAs(link, '.claim time', { name: someone(), locale: 'en-US', aheadMs: 50 * HOUR_MS });
  assert.match(await textOf(page, '.ends'), /ends in (01:00:00|00:59:\d\d)/);
  // A claim of today shows no date.
  assert.match(await textOf(page, '.claim time'), /^\d\d:\d\d:\d\d$/);
});

browse('three days are days, not hours', async () => {
  const { link } = await packet({ expires_in_s: 259_200 });
  const page = await openAs(link, '#open', { name: someone(), locale: 'en-US' });
  assert.match(await textOf(page, '.ends'), /ends in (3 days 00:00:00|2 days 23:59:\d\d)/);
});

browse('the coin can be pressed before the modules are there, once, and the press counts', async () => {
  for (const passphrase of [undefined, 'sesame']) {
    const { link, id } = await packet({ passphrase });
    const user = someone();
    const page = await person({ name: user, locale: 'en-US' });
    const grabs = counted(page, '/grab');
    const release = await hold(page, '**/packet/screen.js');
    await page.goto(link, { waitUntil: 'commit' });
    await page.click('.coin');
    await page.evaluate(() => document.getElementById('early')?.click());
    assert.ok(await page.evaluate(() => document.querySelector('.coin')?.getAnimations().length), 'the coin turns');
    release();
    if (passphrase) {
      await page.waitForFunction(() => document.activeElement?.id === 'word');
      assert.match(await textOf(page, '.envelope-status'), /Enter the passphrase/);
      assert.equal(grabs(), 0);
      continue;
    }
    await page.waitForSelector('.result[data-outcome=grabbed]');
    assert.deepEqual([grabs(), await yuan(page)], [1, (await grab(user, id)).amount]);
  }
});

browse('while no answer comes, the page says so within seconds, and asks once for any number of taps', async () => {
  const { link, id } = await packet();
  const user = someone();
  const page = await person({ name: user });
  const asked = counted(page, '/grab');
  const answer = await hold(page, '**/grab');
  await page.goto(link);
  await page.click('#open');
  const began = Date.now();
  await page.waitForSelector('.envelope.slow');
  assert.ok(Date.now() - began < 5_000);
  assert.equal(await textOf(page, '.envelope-status'), '还没有收到回应 正在抢…还不知道有没有抢到。');
  await page.evaluate(() => document.getElementById('open')?.click());
  await assertAccessible(page, `no answer`);
  answer();
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.deepEqual([asked(), (await api(user, 'GET', `/packets/${id}`)).claimed_count], [1, 1]);
});

browse('lost answers: the page says what it knows, and shows by itself the slip that the first try won', async () => {
  for (const isSeen of [true, false]) {
    const { link, id } = await packet();
    const user = someone();
    const page = await person({ name: user, allow: /net::ERR_FAILED/ });
    let tries = 0;
    await page.route('**/grab', async (route) => {
      tries += 1;
      if (isSeen || tries < 3) {
        // The service carries out the grab; its answer is lost.
        await route.fetch();
        return route.abort();
      }
      return route.continue();
    });
    // Without other news, it is the answer to a later try that shows the slip.
    if (!isSeen) {
      await alter(page, `**/packets/${id}`, () => ({ mine: null }));
    }
    await page.goto(link);
    await press(page, '#open', '.envelope.slow');
    assert.equal(await textOf(page, '.envelope-status'), '没有收到回应 正在抢…还不知道有没有抢到。');
    await page.waitForSelector('.result[data-outcome=grabbed]');
    await page.unroute(`**/packets/${id}`);
    const seen = await api(user, 'GET', `/packets/${id}`);
    assert.deepEqual([seen.claimed_count, seen.mine.amount], [1, await yuan(page)]);
  }
});

browse('a busy service is asked again by itself, later each time, and never before Retry-After', async () => {
  const { link, id } = await packet();
  const user = someone();
  const page = await person({ name: user, allow: /status of 503/ });
  /** @type {number[]} */
  const asked = [];
  await page.route('**/grab', (route) => {
    asked.push(Date.now());
    // More often than a client tries by itself.
    return asked.length > 5 ? route.continue() : route.fulfill(busy(asked.length === 1 ? '3' : '0'));
  });
  await page.goto(link);
  await press(page, '#open', '.envelope.slow');
  assert.equal(await textOf(page, '.envelope-status'), '服务暂时不可用 正在抢…还不知道有没有抢到。');
  assert.equal(await page.isDisabled('#open'), true);
  await page.waitForSelector('.result[data-outcome=grabbed]', { timeout: 60_000 });
  const waits = asked.slice(1).map((at, i) => at - Number(asked[i]));
  assert.ok(Number(waits[0]) >= 3_000 && Number(waits[4]) > Number(waits[1]) && Math.max(...waits) < 23_000, `${waits}`);
  assert.equal((await api(user, 'GET', `/packets/${id}`)).mine.amount, await yuan(page));
});

browse('once the packet is over, a page that has had no answer leaves the next try to the user', async () => {
  const { link, id } = await packet({ count: 1 });
  const page = await person({ name: someone(), allow: /status of 503/ });
  let isBusy = true;
  await page.route('**/grab', (route) => (isBusy ? route.fulfill(busy('0')) : route.continue()));
  await page.goto(link);
  await press(page, '#open', '.envelope.slow');
  await grab(someone(), id);
  await page.waitForSelector('.notice[data-kind=no-answer]', { timeout: 40_000 });
  assert.match(await textOf(page, '.notice'), /暂时不知道有没有抢到/);
  isBusy = false;
  await press(page, '.notice button', '.result[data-outcome=sold_out]');
});

browse('offline: the page says so, and goes on by itself', async () => {
  const { link } = await packet();
  const page = await openAs(link, '#open', { name: someone(), allow: /ERR_INTERNET_DISCONNECTED/ });
  await page.context().setOffline(true);
  await page.click('#open');
  await page.waitForFunction((wanted) => document.querySelector('.envelope-status')?.textContent === wanted, '网络已断开 恢复联网后会自动继续。');
  const tries = counted(page, '/grab', 'requestfinished');
  await page.context().setOffline(false);
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(tries(), 1);
});

browse('a link whose packet does not come says so within seconds, goes on by itself, and keeps the press of the coin', async () => {
  for (const [locale, says] of /** @type {const} */ ([['zh-CN', /还没有收到回应 加载中/], ['zh-TW', /還沒有收到回應 載入中/], ['en-US', /No answer yet Loading…/]])) {
    const { link, id } = await packet();
    const page = await person({ name: someone(), locale, allow: /status of 503/ });
    let [asked, grabs] = [0, 0];
    /** @type {() => void} */
    let answer = () => {};
    const held = new Promise((resolve) => {
      answer = () => resolve(null);
    });
    await page.route(`**/packets/${id}`, async (route) => {
      asked += 1;
      if (asked === 1) await held;
      // In one of them more often than a client tries by itself.
      return asked > (locale === 'zh-CN' ? 4 : 1) ? route.continue() : route.fulfill(busy('0'));
    });
    page.on('request', (request) => {
      if (request.url().endsWith('/grab')) grabs += 1;
    });
    await page.goto(link);
    await page.click('.coin');
    const began = Date.now();
    await page.waitForSelector('.boot .envelope-status');
    assert.ok(Date.now() - began < 5_000);
    assert.match(await textOf(page, '.boot .envelope-status'), says);
    await assertAccessible(page, `a packet that does not come, in ${locale}`);
    answer();
    await page.waitForSelector('.result[data-outcome=grabbed]', { timeout: 60_000 });
    assert.equal(grabs, 1);
  }
  // It says nothing on a screen that is shown by then.
  const slow = await packet();
  const elsewhere = await person({ name: someone() });
  await elsewhere.route(`**/packets/${slow.id}`, () => {});
  await elsewhere.goto(slow.link);
  await press(elsewhere, '.tabs a[href="#/mine"]', '.purse');
  await elsewhere.waitForTimeout(3_000);
  assert.equal(await elsewhere.isVisible('.purse'), true);
  // Also where another screen was before.
  const { id } = await packet();
  const page = await openAs(stack.url, '#total', { name: someone(), allow: /status of 503/ });
  let asked = 0;
  await page.route(`**/packets/${id}`, (route) => {
    asked += 1;
    return asked > 1 ? route.continue() : route.fulfill(busy('3'));
  });
  await page.goto(`${stack.url}/#/p/${id}`);
  await page.waitForFunction(() => document.querySelector('.waiting')?.textContent?.startsWith('服务暂时不可用'));
  await page.waitForSelector('#open');
});

/** The answer of a service that is too busy. @param {string} seconds */
const busy = (seconds) => ({ status: 503, headers: { 'Retry-After': seconds }, contentType: 'application/problem+json', body: JSON.stringify({ code: 'unavailable' }) });

browse('a refusal of the whole service blames no sender', async () => {
  const { link, id } = await packet();
  const page = await person({ name: someone(), locale: 'en-US', allow: /status of 403/ });
  await page.route(`**/packets/${id}`, (route) => route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify({ code: 'forbidden', request_id: 'a-request' }) }));
  await goTo(page, link, '.notice[data-kind=broken]');
  assert.match(await textOf(page, '.notice'), /Something went wrong.*a-request/s);
});

browse('a slow start: every screen says that it is loading', async () => {
  const { id, sender } = await packet();
  const page = await person({ name: sender, locale: 'en-US' });
  for (const [path, selector] of /** @type {const} */ ([['/', '#total'], ['/mine', '.purse'], [`/p/${id}`, '#open'], [`/sent/${id}`, '.qr']])) {
    const answer = await hold(page, /\/(me|packets)\//);
    await goTo(page, `${stack.url}/#${path}`, '.waiting');
    assert.match(await textOf(page, '.waiting'), /Loading/);
    answer();
    await page.waitForSelector(selector);
    assert.equal(await page.isVisible('.waiting'), false);
    await page.unroute(/\/(me|packets)\//);
  }
});

browse('a link whose packet is slow says so to screen readers, until it is there', async () => {
  const { link } = await packet();
  const page = await person({ name: someone(), locale: 'en-US' });
  const answer = await hold(page, '**/packets/*');
  await page.goto(link);
  await page.waitForFunction(() => /Loading/.test(document.querySelector('#live')?.textContent ?? ''));
  assert.ok(await page.isVisible('.boot .coin'), 'the coin stays');
  answer();
  await page.waitForSelector('#open');
  assert.equal(await textOf(page, '#live'), '');
});

browse('without a screen that could not be loaded, the page says that it is offline, and goes on by itself', async () => {
  const page = await openAs(stack.url, '#total', { name: someone(), locale: 'en-US', allow: /ERR_INTERNET_DISCONNECTED/ });
  await page.context().setOffline(true);
  await press(page, '.tabs a[href="#/mine"]', '.notice[data-kind=offline]');
  assert.doesNotMatch(await textOf(page, '.notice'), /TypeError/);
  await page.context().setOffline(false);
  await page.waitForSelector('.purse');
});

browse('a poll without news is answered with 304', async () => {
  const { id, link } = await packet();
  await grab(someone(), id);
  const page = await person({ name: someone() });
  /** @type {number[]} */
  const statuses = [];
  /** @type {Map<string, string>} */
  const urls = new Map();
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  network.on('Network.requestWillBeSent', ({ requestId, request }) => urls.set(requestId, request.url));
  // The statuses on the wire: the browser turns a 304 into the cached 200 before the page sees it.
  network.on('Network.responseReceivedExtraInfo', ({ requestId, statusCode }) => {
    if (urls.get(requestId)?.endsWith(`/packets/${id}`)) statuses.push(statusCode);
  });
  await goTo(page, link, '.claim');
  await assertSoon(async () => statuses.includes(304));
  assert.equal(statuses[0], 200);
  await grab(someone(), id);
  await page.waitForFunction(() => document.querySelectorAll('.claim').length === 2);
});

browse('the pauses between polls grow, and a hidden page does not poll', async () => {
  const { link, id } = await packet();
  await grab(someone(), id);
  const page = await person({ name: someone() });
  const { seen, pass } = traffic(page, (url) => url.endsWith(`/packets/${id}`));
  await page.clock.install();
  await goTo(page, link, '.claim');
  // In two minutes the pauses grow from 1 s to 4 s.
  await pass(120);
  const calls = seen.asked;
  assert.ok(calls >= 20 && calls <= 45, `${calls} in two minutes`);
  await hide(page, true);
  await page.clock.runFor(60_000);
  const unseen = seen.asked;
  assert.ok(unseen <= calls + 1, 'one poll may have been in flight');
  await page.clock.runFor(60_000);
  assert.equal(seen.asked, unseen, 'the page is hidden');
  await hide(page, false);
  await assertSoon(async () => seen.asked > unseen);
});

browse('a list of 3,000 claims is read as it comes into view, and has at most 100 rows', async () => {
  const count = 3_000;
  const me = someone('me');
  const { link, id } = await packet({ count: count + 10, total_amount: 100_000, split: 'equal' });
  await grab(me, id);
  for (let i = 1; i < count; i += 50) await Promise.all(Array.from({ length: Math.min(50, count - i) }, (_, n) => grab(`many-${i + n}`, id)));
  // The claims of the last two seconds come again with the new ones.
  const claims = (/** @type {string} */ query) => api(me, 'GET', `/packets/${id}/claims?order=newest&${query}`);
  await assertSoon(async () => (await claims(`after=${(await claims('limit=1')).newest_cursor}`)).claims.length === 0);
  const page = await person({ name: me, locale: 'en-US' });
  let asked = 0;
  page.on('request', (request) => {
    if (request.url().includes('/claims')) asked += 1;
  });
  await goTo(page, link, '.claim');
  assert.ok(asked <= 2, `${asked} requests for the first rows`);
  // The user's own claim is the oldest: it is on top all the same.
  assert.match(await textOf(page, '.pin.me'), /\(you\)/);
  const last = async () => Number((await page.locator('.claim').last().getAttribute('aria-posinset')) ?? 0);
  let rowsMost = 0;
  await assertSoon(async () => {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    rowsMost = Math.max(rowsMost, await page.locator('.claim').count());
    return (await last()) === count;
  }, 60_000);
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

essential('a packet with a limit says how often a user may still win, and who is done with it sees the next round', async () => {
  const alice = await rich('alice', 100_000);
  const round = { split: 'equal', total_amount: 100, count: 1, reference: alice, limit: { key: 'evening', wins: 2 } };
  const at = (/** @type {number} */ ms) => new Date(Date.now() + ms).toISOString();
  const { packet_id: first } = await api(alice, 'POST', '/packets', round);
  const { packet_id: third } = await api(alice, 'POST', '/packets', { ...round, starts_at: at(HOUR_MS) });
  const bob = someone('bob');
  const page = await person({ name: bob });
  const loser = await person({ name: someone('carol') });
  const open = async (/** @type {import('playwright-core').Page} */ on, /** @type {string} */ id, /** @type {string} */ outcome) => {
    await on.goto(`${stack.url}/p/${id}`);
    await press(on, '#open', `.result[data-outcome=${outcome}]`);
  };
  for (const each of [page, loser]) {
    await goTo(each, `${stack.url}/p/${first}`, '.envelope');
    assert.match(await textOf(each, '.ends'), /还能领 2 次/);
  }
  const says = (/** @type {string} */ words) => page.waitForFunction((words) => document.querySelector('.ticket')?.textContent?.includes(words), words);
  await open(page, first, 'grabbed');
  await says('还能领 1 次');
  await loser.waitForSelector('.result[data-outcome=sold_out]');
  for (const each of [page, loser]) await each.waitForFunction(() => /^下一轮 0\d:\d\d:\d\d 后开抢$/.test(document.querySelector('.result .next')?.textContent ?? ''));
  await assertAccessible(page, 'a win with a next round');
  await assertAccessible(loser, 'a loss with a next round');
  const { packet_id: second } = await api(alice, 'POST', '/packets', { ...round, starts_at: at(4_000) });
  await assertSoon(async () => (await api(bob, 'GET', `/packets/${first}`)).next?.packet_id === second);
  await reload(page, '.result .next a.button');
  assert.equal(await textOf(page, '.result .next'), '下一轮开抢了，去看看');
  await page.click('.result .next a');
  await page.waitForURL(new RegExp(second));
  await press(page, '#open', '.result[data-outcome=grabbed]');
  await says('已达领取上限');
  assert.equal(await page.isHidden('.result .next'), true, 'no win is left for another round');

  // The page asks at once when the browser is back online, and else from time to time.
  const asks = (/** @type {string} */ shown) => loser.waitForFunction((shown) => dispatchEvent(new Event('online')) && document.querySelector(shown) !== null, shown, { polling: 300 });
  await asks(`.result .next a[href$='${third}']`);
  await api(alice, 'POST', `/operator/packets/${third}/close`, { reason: 'test' });
  await asks('.result .next[hidden]');

  const { packet_id: fourth } = await api(alice, 'POST', '/packets', { ...round, starts_at: at(HOUR_MS) });
  await goTo(page, `${stack.url}/p/${fourth}`, '.starts span');
  assert.equal(await page.isHidden('#open'), true);
  assert.match(await textOf(page, '#status'), /已达领取上限 本场活动每人最多领 2 次/);
  await assertAccessible(page, 'a reached limit');
});

browse('an answer that comes late does not show an older packet', async () => {
  const alice = await rich('alice', 1_000);
  const { packet_id: id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 200, count: 2, limit: { key: 'evening', wins: 2 } });
  const page = await openAs(`${stack.url}/p/${id}`, '#open', { name: someone('bob') });
  /** @type {(() => Promise<void>) | null} */
  let release = null;
  await page.route(`**/packets/${id}`, async (route) => {
    if (release) return route.continue();
    const response = await route.fetch();
    release = () => route.fulfill({ response });
  });
  await assertSoon(async () => release !== null);
  await page.click('#open');
  await page.waitForFunction(() => document.querySelector('.ticket')?.textContent?.includes('还能领 1 次'));
  await /** @type {() => Promise<void>} */ (/** @type {unknown} */ (release))();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.match(await textOf(page, '.ticket'), /还能领 1 次/);
});

essential('who took too large a slip for their limit may try again', async () => {
  const alice = await rich('alice', 100_000);
  const round = { split: 'equal', total_amount: 60, count: 1, limit: { key: 'evening', amount: 100 } };
  // Each of its slips is far above what is left.
  const large = { ...round, split: 'random', total_amount: 20_000, count: 2, limit: { key: 'evening', amount: 61 } };
  const page = await person({ name: someone('bob') });
  const { packet_id: first } = await api(alice, 'POST', '/packets', round);
  await page.goto(`${stack.url}/p/${first}`);
  await press(page, '#open', '.result[data-outcome=grabbed]');
  await page.waitForFunction(() => document.querySelector('.ticket')?.textContent?.includes('还能领 ¥0.40'));
  const { packet_id: other } = await api(alice, 'POST', '/packets', large);
  await page.goto(`${stack.url}/p/${other}`);
  await press(page, '#open', '.result[data-outcome=limit_reached]');
  assert.match(await textOf(page, '.lost'), /这一份超出你的剩余额度.*还能领 ¥0.01/);
  await assertAccessible(page, 'too large a slip');
  await press(page, '.lost .button:text("重试")', '#open');
});
