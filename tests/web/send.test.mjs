// The form and what follows a send: each takes effect once, within the limits, and gives a link to share.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import { api, apiOf, assertAccessible, assertFits, assertSoon, browse, essential, fund, goTo, isInView, openAs, openDeployed, packet, person, press, reload, rich, someone, stack, startBrowser, startStack, textOf } from './harness.mjs';

/** @type {typeof import('jsqr').default} */
const jsQR = createRequire(import.meta.url)('jsqr');

const HOUR_MS = 3_600_000;

essential('a double click sends once, and so does a reload before the answer', async () => {
  const alice = await rich('alice', 100_000);
  const page = await person({ name: alice, allow: /net::ERR_(FAILED|ABORTED)/ });
  /** @type {string[]} */
  const keys = [];
  let isHeld = true;
  await page.route('**/packets', async (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    const isLost = isHeld;
    const answer = await route.fetch();
    // The service carries out the send; its answer is lost with the page.
    if (isLost) return;
    await route.fulfill({ response: answer });
  });
  await page.goto(stack.url);
  await page.fill('#total', '10');
  await page.dblclick('button[type=submit]');
  await page.locator('#greeting').press('Enter');
  await assertSoon(async () => (await api(alice, 'GET', '/me/packets')).packets.length === 1);
  isHeld = false;
  await reload(page, '.qr path');
  assert.equal(new Set(keys).size, 1, `${keys}`);
  assert.ok(keys.length >= 2);
  assert.deepEqual((await api(alice, 'GET', '/me/packets')).totals, { count: 1, amount: 1_000 });
  // Opening the form again does not send the packet again.
  await goTo(page, stack.url, '#total');
  await page.waitForTimeout(300);
  assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 1);
});

browse('the form shows the limits before the user exceeds them', async () => {
  const alice = someone('alice');
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#count', '10');
  assert.match(await textOf(page, '#total-hint'), /¥0\.10 to ¥2,000\.00, at most ¥200\.00/);
  for (const [total, count, hint, says] of /** @type {const} */ ([
    ['0.09', '10', '#total-hint', /At least ¥0\.10/],
    ['2000.01', '10', '#total-hint', /At most ¥2,000\.00/],
    ['1.005', '10', '#total-hint', /Enter an amount, such as/],
    ['-5', '10', '#total-hint', /Enter an amount, such as/],
    ['5', '10', '#total-hint', /¥5\.00 more than your balance/],
    ['5', '0', '#count-hint', /from 1 to 100,000/],
    ['5', '100001', '#count-hint', /from 1 to 100,000/],
  ])) {
    await page.fill('#total', total);
    await page.fill('#count', count);
    assert.match(await textOf(page, hint), says);
    assert.equal(await page.isDisabled('button[type=submit]'), true, total);
    assert.equal(await page.getAttribute(hint.replace('-hint', ''), 'aria-invalid'), 'true');
  }
  await page.click('summary');
  await page.fill('#recipients', 'bob, c/d');
  assert.match(await textOf(page, '#recipients-hint'), /Not a user ID: c\/d/);
  await page.fill('#recipients', '');
  await page.fill('#total', '5');
  await page.fill('#count', '10');
  await press(page, '.balance button', 'button[type=submit]:enabled');
  assert.match(await textOf(page, 'button[type=submit]'), /Put in ¥5\.00/);
});

browse('the form repeats the amount in figures and words, and says how it read what it refuses', async () => {
  const alice = await rich('alice', 2_000_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#count', '１０');
  for (const [typed, says] of /** @type {const} */ ([['8,88', /¥8\.88\s*8 yuan 88 fen$/], ['￥10', /¥10\.00\s*10 yuan$/], ['10块', /¥10\.00\s*10 yuan$/], ['٠٫٥', /¥0\.50\s*50 fen$/], ['１，２３４．５', /¥1,234\.50\s*1 thousand 234 yuan 50 fen$/]])) {
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
  await press(page, 'button[type=submit]', '.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.deepEqual([sent.total_amount, sent.count], [888, 3]);
});

browse('a paste is never cut to another number', async () => {
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

browse('in yen there are no decimals, on the form and in the rush', async () => {
  const other = await startStack({ CURRENCY: 'JPY' });
  const page = await person({ locale: 'en-US' });
  await apiOf(other.url)('alice', 'PUT', '/wallets/alice/deposits/first', { amount: 10_000 });
  await goTo(page, `${other.url}/#/rush`, '#total');
  assert.equal(await page.inputValue('#total'), '888');
  await goTo(page, `${other.url}/#/`, '#greeting');
  await page.evaluate(() => sessionStorage.setItem('hongbao.user', 'alice'));
  await reload(page, '#greeting');
  await page.fill('#total', '8,88');
  assert.match(await textOf(page, '#total-hint'), /8 point 88, and the smallest amount is ¥1\./);
  await page.fill('#total', '1,234');
  assert.match(await textOf(page, 'button[type=submit]'), /¥1,234\s*1 thousand 234 Japanese yen$/);
  await other.stop();
});

browse('a greeting is sent with its joiners and without other invisible characters, and a blank passphrase is none', async () => {
  const alice = await rich('alice', 1_000);
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '8');
  await page.fill('#greeting', '\ufeff恭\u200b\ufe0f喜\u202e\u200d 👩🏽\u200d🚀❤\ufe0f می\u200cخواهم ක්\u200dරි 葛\u{e0100} 1\u200d2');
  await page.click('summary');
  await page.fill('#passphrase', ' \u3000');
  await press(page, 'button[type=submit]', '.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.equal(sent.greeting, '恭喜 👩🏽\u200d🚀❤\ufe0f می\u200cخواهم ක්\u200dරි 葛\u{e0100} 12');
  assert.equal((await api(someone(), 'POST', `/packets/${sent.packet_id}/grab`)).outcome, 'grabbed');
});

browse('who lacks money reads once how much, and where more comes from', async () => {
  const topUp = 'https://app.test/topup';
  for (const [locale, lack, link, ask] of /** @type {const} */ ([
    ['zh-CN', /余额还差 ¥88\.80/g, '充值', /余额不足.*充值请联系客服/s],
    ['zh-TW', /餘額還差 ¥88\.80|餘額還差 \$88\.80/g, '儲值', /餘額不足.*儲值請洽客服/s],
    ['en-US', /¥88\.80 more than your balance/g, 'Top up', /Not enough balance.*operator can top it up/s],
  ])) {
    for (const top_up of [undefined, topUp]) {
      const alice = someone('alice');
      const page = await person({ locale, width: 320, height: 568 });
      await openDeployed(page, alice, '/', { top_up });
      await page.fill('#total', '88.80');
      const said = await page.evaluate(() => document.querySelector('.send')?.textContent ?? '');
      assert.equal([...said.matchAll(/88\.80/g)].length, 1, said);
      assert.equal([...said.matchAll(lack)].length, 1, said);
      const shown = '.sticky .wide:not([hidden])';
      assert.equal(await page.locator(shown).count(), 1);
      if (top_up) assert.deepEqual([await textOf(page, `${shown}[href]`), await page.getAttribute(shown, 'href'), await page.getAttribute(shown, 'target')], [link, topUp, '_top']);
      else assert.match(await textOf(page, `${shown}:disabled`), ask);
      assert.equal(await isInView(page, shown), true);
      await assertFits(page, `too little money in ${locale}`);
      await assertAccessible(page, `too little money in ${locale}`);
      // The user comes back with money, and the page has kept what they wrote.
      await fund(alice, 10_000);
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
      await page.waitForSelector('.sticky [type=submit]:enabled');
      assert.equal(await page.locator(shown).count(), 1);
      await press(page, '.tabs a[href="#/mine"]', '.purse');
      assert.equal(await page.locator(`.purse a[href="${topUp}"]`).count(), top_up ? 1 : 0);
      await page.context().close();
    }
  }
});

browse('who leaves to top up finds what they wrote when they come back, once', async () => {
  const alice = someone('alice');
  const page = await person({ locale: 'en-US' });
  await page.route('https://app.test/topup', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Top up</h1>' }));
  await openDeployed(page, alice, '/', { top_up: 'https://app.test/topup' });
  await page.fill('#total', '88.80');
  await page.fill('#greeting', '恭喜');
  await page.click('summary');
  await page.fill('#passphrase', '芝麻开门');
  await page.check('[name=split][value=equal]');
  await press(page, '.sticky a', 'h1:text("Top up")');
  await fund(alice, 100_000);
  const written = () => page.evaluate(() => ['total', 'greeting', 'passphrase'].map((id) => /** @type {HTMLInputElement} */ (document.getElementById(id)).value));
  await goTo(page, stack.url, '.sticky [type=submit]:enabled');
  assert.deepEqual(await written(), ['88.80', '恭喜', '芝麻开门']);
  assert.equal(await page.isChecked('[name=split][value=equal]'), true);
  await press(page, '.sticky [type=submit]', '.qr path');
  await goTo(page, `${stack.url}/?again`, '#total');
  assert.deepEqual(await written(), ['', '', '']);
});

browse('if the money was spent elsewhere meanwhile, nothing is sent and the balance is read again', async () => {
  const alice = await rich('alice', 1_000);
  const page = await person({ name: alice, locale: 'en-US', allow: /status of 402/ });
  await page.goto(stack.url);
  await page.fill('#total', '8');
  await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 1 });
  await press(page, 'button[type=submit]', '.state .bad');
  assert.match(await textOf(page, '.state'), /no longer covers it/);
  await assertSoon(async () => /¥7\.00/.test(await textOf(page, '.balance')));
  assert.match(await textOf(page, '#total-hint'), /¥1\.00 more than your balance/);
  assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 1);
});

browse('a suspended user, and one at their limit of the day, read why nothing was sent, and keep what they wrote', async () => {
  const resets_at = '2027-01-02T00:00:00.000Z';
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, allow: /status of 403/ });
  let code = 'account-suspended';
  await page.route('**/packets', (route) =>
    route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify({ status: 403, code, title: code, ...(code === 'daily-limit-exceeded' && { resets_at }) }) }),
  );
  await page.goto(stack.url);
  await page.fill('#total', '8.88');
  await page.fill('#greeting', '恭喜');
  for (const [refusal, says] of /** @type {const} */ ([['account-suspended', /账号已被停用.*本次操作没有成功/s], ['daily-limit-exceeded', /限额.*2027年1月2日.* 恢复/s]])) {
    code = refusal;
    await page.click('button[type=submit]');
    await assertSoon(async () => says.test(await textOf(page, '.state')));
    await assertAccessible(page, `${refusal}`);
    await page.waitForSelector('button[type=submit]:enabled');
    assert.deepEqual([await page.inputValue('#total'), await page.inputValue('#greeting')], ['8.88', '恭喜']);
  }
  // It is a final refusal: a reload tries nothing again.
  await page.unroute('**/packets');
  await reload(page, '#total');
  await page.waitForTimeout(300);
  assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 0);
});

browse('while sending is paused the user reads that nothing was sent; the draft keeps its key, and goes out once', async () => {
  const says = /发红包功能暂停，本次没有扣款/;
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, allow: /status of 503/ });
  /** @type {string[]} */
  const keys = [];
  let isPaused = true;
  await page.route('**/packets', (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    if (!isPaused) return route.continue();
    const body = JSON.stringify({ status: 503, code: 'sending-paused', title: 'Sending paused' });
    return route.fulfill({ status: 503, headers: { 'Retry-After': '60' }, contentType: 'application/problem+json', body });
  });
  await page.goto(stack.url);
  await page.fill('#total', '8.88');
  await page.fill('#greeting', '恭喜');
  await page.click('button[type=submit]');
  await assertSoon(async () => says.test(await textOf(page, '.state')));
  assert.doesNotMatch(await textOf(page, '.state'), /可能已经发出|确认是否已经发出/);
  await assertAccessible(page, `sending is paused`);
  assert.deepEqual([await page.inputValue('#total'), await page.inputValue('#greeting')], ['8.88', '恭喜']);
  // Also after a reload.
  await page.reload();
  await assertSoon(async () => says.test(await textOf(page, '.state')));
  isPaused = false;
  await press(page, '.state .button', '.qr path');
  assert.deepEqual([keys.length, new Set(keys).size], [3, 1]);
  assert.deepEqual((await api(alice, 'GET', '/me/packets')).totals, { count: 1, amount: 888 });
});

browse('another tab, or another language, does not empty the form', async () => {
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#total', '12.34');
  await page.fill('#greeting', 'To you');
  await page.check('.covers input[value=birthday]');
  await page.click('.segments label:last-child');
  await page.click('summary');
  await page.fill('#passphrase', 'sesame');
  await press(page, '.tabs a[href="#/mine"]', '.purse');
  await press(page, '.tabs a[href="#/"]', '#total');
  await page.selectOption('#language', 'zh-TW');
  await page.waitForFunction(() => document.documentElement.lang === 'zh-TW' && document.querySelector('#total'));
  const left = await page.evaluate(() => ['total', 'greeting', 'passphrase'].map((id) => /** @type {HTMLInputElement} */ (document.getElementById(id)).value));
  assert.deepEqual(left, ['12.34', 'To you', 'sesame']);
  assert.equal(await page.isChecked('.covers input[value=birthday]'), true);
  assert.equal(await page.isChecked('input[value=equal]'), true);
  // After a send the form is empty.
  await page.fill('#count', '2');
  await press(page, 'button[type=submit]', '.qr path');
  await press(page, '.tabs a[href="#/"]', '#total');
  assert.equal(await page.inputValue('#total'), '');
});

browse('a cover is chosen on the form, and the packet has it', async () => {
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.check('.covers input[value=wedding]');
  await page.click('.hero .chip >> nth=0');
  assert.equal(await page.inputValue('#greeting'), 'Happily ever after');
  await page.click('.quick .chip >> nth=1');
  assert.equal(await page.inputValue('#total'), '8.88');
  await press(page, 'button[type=submit]', '.qr path');
  const id = (await page.inputValue('#link')).slice(-26);
  const other = await openAs(`${stack.url}/p/${id}`, '#open', { name: someone() });
  assert.match(await other.evaluate(() => getComputedStyle(/** @type {Element} */ (document.querySelector('.envelope'))).getPropertyValue('--cover')), /#a51445/);
});

browse('the button that sends is in view and never behind the tabs, and the envelope is above it', async () => {
  for (const [width, height] of /** @type {const} */ ([[320, 568], [390, 844], [844, 390], [1280, 800]])) {
    const alice = await rich('alice', 10_000);
    const page = await openAs(stack.url, '#total', { name: alice, width, height });
    for (const scrolled of [0, 200, 5_000]) {
      await page.evaluate((y) => scrollTo(0, y), scrolled);
      const isOnTop = await page.evaluate(() => {
        const button = /** @type {HTMLElement} */ (document.querySelector('button[type=submit]'));
        const { left, top, width: w, height: h, bottom } = button.getBoundingClientRect();
        const at = document.elementFromPoint(left + w / 2, top + h / 2);
        return bottom <= innerHeight && (at === button || button.contains(at));
      });
      assert.ok(isOnTop, `${width} x ${height}, scrolled by ${scrolled}`);
    }
    await page.evaluate(() => scrollTo(0, 0));
    if (height > 500) assert.ok(await isInView(page, '.envelope'), `the envelope at ${width} x ${height}`);
    await page.context().close();
  }
});

browse('sealing is seen: the coin falls while the send is under way, and the envelope turns to its code', async () => {
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice });
  await page.route('**/packets', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 600));
    await route.continue();
  });
  await page.goto(stack.url);
  await page.fill('#total', '8.88');
  assert.equal(await page.evaluate(() => document.querySelector('.envelope .coin')?.getAnimations().length), 0);
  await page.click('button[type=submit]');
  await page.waitForFunction(() => document.querySelector('.envelope.sealing .coin')?.getAnimations().length);
  await page.waitForSelector('.envelope.turned .qr path');
  await page.waitForFunction(() => document.querySelector('.envelope.turned .leaf')?.getAnimations().length === 0);
});

browse('the link can be copied, and the QR code holds it, with the margin that scanners need', async () => {
  const { id, sender, link } = await packet();
  const page = await person({ name: sender, locale: 'en-US' });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await goTo(page, `${stack.url}/#/sent/${id}`, '.qr path');
  assert.equal(await page.inputValue('#link'), link);
  await page.click('#copy');
  await page.waitForFunction(() => document.querySelector('#live')?.textContent === 'Copied');
  const invitation = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(invitation, /has a red packet for you/);
  assert.ok(invitation.endsWith(`\n${link}`), invitation);
  // An independent library reads the code from pixels, as a camera would.
  const size = Number((await page.getAttribute('.qr', 'viewBox'))?.split(' ')[2]);
  const scale = 4;
  const pixels = new Uint8ClampedArray(4 * (size * scale) ** 2).fill(255);
  const dark = [...((await page.getAttribute('.qr path', 'd')) ?? '').matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => [Number(x), Number(y)]);
  // Four modules on each side.
  assert.deepEqual([Math.min(...dark.flat()), Math.max(...dark.flat())], [4, size - 5]);
  for (const [x = 0, y = 0] of dark) {
    for (let i = 0; i < scale ** 2; i += 1) {
      const [column, row] = [x * scale + (i % scale), y * scale + Math.floor(i / scale)];
      pixels.fill(0, 4 * (row * size * scale + column), 4 * (row * size * scale + column) + 3);
    }
  }
  assert.equal(jsQR(pixels, size * scale, size * scale)?.data, link);
});

browse('a page without access to the clipboard copies too, and says so if it can not', async () => {
  // An address without https has no `navigator.clipboard`, unless it is this machine's own.
  const [using, named] = await Promise.all([startBrowser({}, ['--host-resolver-rules=MAP red.example 127.0.0.1']), startStack({}, ['--allow-host', 'red.example'])]);
  try {
    const ask = apiOf(named.url);
    await ask('ann', 'PUT', '/wallets/ann/deposits/d', { amount: 1_000 });
    const { packet_id: id } = await ask('ann', 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 1 });
    const page = await openAs(`${named.url.replace('127.0.0.1', 'red.example')}/#/sent/${id}`, '.qr path', { name: 'ann', locale: 'en-US', using, allow: /Cross-Origin-Opener-Policy header has been ignored/ });
    assert.equal(await page.evaluate(() => 'clipboard' in navigator), false);
    await page.click('#copy');
    await page.waitForFunction(() => document.querySelector('#live')?.textContent === 'Copied');
    assert.equal(await textOf(page, '#copy'), 'Copied');
    const reader = await page.context().newPage();
    await page.context().grantPermissions(['clipboard-read'], { origin: named.url });
    await reader.goto(named.url);
    const invitation = await reader.evaluate(() => navigator.clipboard.readText());
    assert.equal(invitation, `${await textOf(page, '.invitation')}\n${await page.inputValue('#link')}`);
    await page.bringToFront();
    // A browser that refuses this too.
    await page.evaluate(() => {
      document.execCommand = () => false;
    });
    await page.click('#copy');
    await page.waitForFunction(() => /Not copied/.test(document.querySelector('#live')?.textContent ?? ''));
    assert.match(await textOf(page, '#copied'), /Not copied/);
    assert.equal(await page.evaluate(() => String(getSelection())), await page.inputValue('#link'));
  } finally {
    await Promise.all([using.close(), named.stop()]);
  }
});

browse('the page for sharing says who can open the packet, and is there only as long as somebody can', async () => {
  const stranger = someone('stranger');
  for (const [terms, says] of /** @type {const} */ ([
    [{}, /^Anyone with the link can open it once\.$/],
    [{ passphrase: 'sesame' }, /^Anyone with the link can open it once\. They need the passphrase too\.$/],
    [{ recipients: ['friend'] }, /^Only the people you named can open it/],
    [{ recipients: ['friend'], passphrase: 'sesame' }, /you named can open it, once each\. They need the passphrase too\.$/],
    [{ starts_at: new Date(Date.now() + 3_600_000).toISOString() }, /It opens on .*20\d\d/],
  ])) {
    const { id, sender } = await packet(terms);
    const page = await openAs(`${stack.url}/#/sent/${id}`, '.qr path', { name: sender, locale: 'en-US', allow: /status of 403/ });
    assert.match(await textOf(page, '.sent .lead'), says);
    // The link leads to this machine only.
    assert.match(await textOf(page, '.sent .bad'), /this machine only/);
  }
  const { id, sender } = await packet({ count: 1 });
  const other = await openAs(`${stack.url}/#/sent/${id}`, '#open', { name: stranger });
  await api(stranger, 'POST', `/packets/${id}/grab`, {});
  const page = await openAs(`${stack.url}/#/sent/${id}`, '.result[data-outcome=sold_out]', { name: sender });
});

browse('the sender is warned of slips for nobody, sees passphrase and recipients again in this browser, and who has not opened it', async () => {
  const absent = '还没拆：';
  const [alice, friend, other] = [someone('alice'), someone('friend'), someone('other')];
  await fund(alice, 10_000);
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '10');
  await page.click('summary');
  await page.fill('#passphrase', ' 芝麻开门 ');
  await page.fill('#recipients', `${friend} ${other}`);
  assert.equal(await textOf(page, '.sticky .bad'), '只指定了 2 人，会有 8 个没人领，到期退回。');
  assert.equal(await isInView(page, '.sticky .bad'), true);
  await page.fill('#count', '2');
  assert.equal(await textOf(page, '.sticky .bad'), '');
  await page.fill('#count', '10');
  await page.selectOption('#expiry', '10');
  await press(page, 'button[type=submit]', '.qr path');
  const id = (await page.inputValue('#link')).slice(-26);
  await reload(page, '.qr path');
  assert.equal(await textOf(page, '.sent .word'), '口令 芝麻开门');
  assert.equal(await textOf(page, '.sent .names'), `${friend} · ${other}`);
  await assertAccessible(page, `what the sender sees again`);
  // The sender is not among them: they have nothing to open.
  assert.doesNotMatch(await textOf(page, '.sent .button.gold'), /拆|Open/);
  const elsewhere = await openAs(`${stack.url}/#/sent/${id}`, '.qr path', { name: alice });
  assert.equal(await elsewhere.locator('.sent .word').count(), 0);
  assert.equal(await textOf(elsewhere, '.sent .hint'), '这个浏览器没有记下口令，服务器也不会显示。');
  await page.goto(`${stack.url}/p/${id}`);
  await page.waitForFunction((wanted) => document.querySelector('.absent')?.textContent === wanted, `${absent} ${friend} · ${other}`);
  await api(friend, 'POST', `/packets/${id}/grab`, { passphrase: '芝麻开门' });
  await page.waitForFunction((wanted) => document.querySelector('.absent')?.textContent === wanted, `${absent} ${other}`);
  await page.waitForFunction((wanted) => document.querySelector('.absent')?.textContent === wanted, `没有拆： ${other}`);
});

browse('of many recipients the sender sees all who have not opened the packet', async () => {
  const names = Array.from({ length: 150 }, () => someone('guest'));
  const { id, sender, link } = await packet({ split: 'equal', total_amount: 150, count: 150, recipients: names });
  for (let i = 0; i < 120; i += 40) await Promise.all(names.slice(i, i + 40).map((name) => api(name, 'POST', `/packets/${id}/grab`, {})));
  const page = await person({ name: sender });
  await page.goto(link);
  await page.waitForFunction(() => (document.querySelector('.absent')?.textContent ?? '').length > 4);
  const shown = (await textOf(page, '.absent')).replace('还没拆： ', '').split(' · ').sort();
  assert.deepEqual(shown, names.slice(120).sort());
  const guest = await openAs(link, '.claim', { name: names[0] ?? '' });
  assert.equal(await guest.isHidden('.absent'), true, 'only the sender knows the recipients');
});

browse('a sender who has opened their own packet still finds the page for sharing', async () => {
  const { link, id, sender } = await packet();
  const page = await person({ name: sender });
  await page.goto(link);
  await press(page, '#open', '.result[data-outcome=grabbed]');
  await press(page, `.result a[href="#/sent/${id}"]`, '.qr path');
});

browse('the text to share says when the packet opens, with the time zone', async () => {
  const says = /给你发了一个红包：“恭喜” 2\d{3}年.*(GMT|UTC).* 开抢。$/;
  const { id, sender } = await packet({ greeting: '恭喜', starts_at: new Date(Date.now() + HOUR_MS).toISOString() });
  const page = await person({ name: sender });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await goTo(page, `${stack.url}/#/sent/${id}`, '.qr path');
  assert.match(await textOf(page, '.invitation'), says);
  await page.click('#copy');
  await page.waitForFunction(() => document.querySelector('#live')?.textContent);
  assert.match((await page.evaluate(() => navigator.clipboard.readText())).split('\n')[0] ?? '', says);
});

browse('a packet is scheduled on the form', async () => {
  const alice = await rich('alice', 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#total', '5');
  await page.click('summary');
  const at = (/** @type {number} */ ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  await page.fill('#starts', at(Date.now() + 8 * 86_400_000));
  assert.match(await textOf(page, '#starts-hint'), /within the next 7 days/);
  await page.fill('#starts', at(Date.now() + 3_600_000));
  await press(page, 'button[type=submit]', '.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.equal(sent.status, 'scheduled');
  assert.ok(Math.abs(Date.parse(sent.starts_at) - Date.now() - 3_600_000) < 120_000);
});

browse('the start field knows the server’s time, with a clock that is hours off', async () => {
  for (const hours of [-30, -3, 3, 30]) {
    const user = await rich('late', 10_000);
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

browse('the page can be installed, from the form and from a packet', async () => {
  const { link } = await packet();
  for (const address of [stack.url, link]) {
    const page = await openAs(address, '#total, #open', { name: someone() });
    const session = await page.context().newCDPSession(page);
    const { url, errors, data } = await session.send('Page.getAppManifest');
    assert.deepEqual([url, errors], [`${stack.url}/manifest.webmanifest`, []]);
    const { name, start_url: start, icons } = JSON.parse(data ?? '');
    assert.ok(name && icons.length > 0);
    assert.equal(new URL(start, url).href, `${stack.url}/`);
    const { installabilityErrors } = await session.send('Page.getInstallabilityErrors');
    // A test's browser keeps nothing.
    assert.deepEqual(installabilityErrors.map(({ errorId }) => errorId).filter((error) => error !== 'in-incognito'), []);
    const touch = await page.evaluate(() => /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=apple-touch-icon]')).href);
    assert.equal((await fetch(touch)).headers.get('content-type'), 'image/png');
  }
});

browse('a link to a packet has a title and a picture for chats, and nothing of the packet', async () => {
  const { link } = await packet({ greeting: 'only for friends' });
  const page = await person({ name: someone() });
  const answer = await page.goto(link);
  const html = (await answer?.text()) ?? '';
  assert.match(html, /property="og:title" content="[^"]+"/);
  assert.doesNotMatch(html, /friends/);
  for (const address of [stack.url, link]) {
    const asked = await (await fetch(address)).text();
    assert.match(asked, /property="og:title" content="[^"]+"/);
    const shown = await fetch(new URL(/property="og:image" content="([^"]+)"/.exec(asked)?.[1] ?? '', address));
    assert.deepEqual([shown.status, shown.headers.get('content-type')], [200, 'image/png']);
  }
  await page.waitForSelector('#open');
  assert.equal(page.url(), link);
  // Other screens have the address that they always had, and "back" leads to the packet.
  await press(page, '.tabs a[href="#/mine"]', '.purse');
  assert.equal(page.url(), `${stack.url}/#/mine`);
  await page.goBack();
  await page.waitForSelector('#open');
  assert.equal(page.url(), link);
  await reload(page, '#open');
});
