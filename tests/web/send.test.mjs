// Sends in a real browser: each takes effect once, within the limits, and gives a link to share.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import { api, assertSoon, browse, fund, packet, person, someone, stack, textOf } from './browser.mjs';

/** @type {typeof import('jsqr').default} */
const jsQR = createRequire(import.meta.url)('jsqr');

browse('a double click sends once, and so does a reload before the answer', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
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
  await page.reload();
  await page.waitForSelector('.qr path');
  assert.equal(new Set(keys).size, 1, `${keys}`);
  assert.ok(keys.length >= 2);
  assert.deepEqual((await api(alice, 'GET', '/me/packets')).totals, { count: 1, amount: 1_000 });
  // Opening the form again does not send the packet again.
  await page.goto(stack.url);
  await page.waitForSelector('#total');
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
  assert.match(await textOf(page, '#recipients-hint'), /Not a user name: c\/d/);
  await page.fill('#recipients', '');
  await page.fill('#total', '5');
  await page.fill('#count', '10');
  await page.click('.balance button');
  await page.waitForSelector('button[type=submit]:enabled');
  assert.match(await textOf(page, 'button[type=submit]'), /Put in ¥5\.00/);
});

browse('a greeting is sent without invisible characters, and a blank passphrase is none', async () => {
  const alice = someone('alice');
  await fund(alice, 1_000);
  const page = await person({ name: alice });
  await page.goto(stack.url);
  await page.fill('#total', '8');
  await page.fill('#greeting', '\ufeff恭\u200b\ufe0f喜\u202e\u200d 👩🏽\u200d🚀❤\ufe0f');
  await page.click('summary');
  await page.fill('#passphrase', ' \u3000');
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.equal(sent.greeting, '恭喜 👩🏽\u200d🚀❤\ufe0f');
  assert.equal((await api(someone(), 'POST', `/packets/${sent.packet_id}/grab`)).outcome, 'grabbed');
});

browse('if the money was spent elsewhere meanwhile, nothing is sent and the balance is read again', async () => {
  const alice = someone('alice');
  await fund(alice, 1_000);
  const page = await person({ name: alice, locale: 'en-US', allow: /status of 402/ });
  await page.goto(stack.url);
  await page.fill('#total', '8');
  await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 1 });
  await page.click('button[type=submit]');
  await page.waitForSelector('.state .bad');
  assert.match(await textOf(page, '.state'), /no longer covers it/);
  await assertSoon(async () => /¥7\.00/.test(await textOf(page, '.balance')));
  assert.match(await textOf(page, '#total-hint'), /¥1\.00 more than your balance/);
  assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 1);
});

browse('the link can be copied, and the QR code holds it', async () => {
  const { id, sender, link } = await packet();
  const page = await person({ name: sender, locale: 'en-US' });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`${stack.url}/#/sent/${id}`);
  await page.waitForSelector('.qr path');
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
  for (const [, x, y] of ((await page.getAttribute('.qr path', 'd')) ?? '').matchAll(/M(\d+) (\d+)h1v1h-1z/g)) {
    for (let i = 0; i < scale ** 2; i += 1) {
      const [column, row] = [Number(x) * scale + (i % scale), Number(y) * scale + Math.floor(i / scale)];
      pixels.fill(0, 4 * (row * size * scale + column), 4 * (row * size * scale + column) + 3);
    }
  }
  assert.equal(jsQR(pixels, size * scale, size * scale)?.data, link);
});

browse('another tab, or another language, does not empty the form', async () => {
  const alice = someone('alice');
  await fund(alice, 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#total', '12.34');
  await page.fill('#greeting', 'To you');
  await page.check('.covers input[value=birthday]');
  await page.click('.segments label:last-child');
  await page.click('summary');
  await page.fill('#passphrase', 'sesame');
  await page.click('.tabs a[href="#/mine"]');
  await page.waitForSelector('.purse');
  await page.click('.tabs a[href="#/"]');
  await page.waitForSelector('#total');
  await page.selectOption('#language', 'zh-TW');
  await page.waitForFunction(() => document.documentElement.lang === 'zh-TW' && document.querySelector('#total'));
  const left = await page.evaluate(() => ['total', 'greeting', 'passphrase'].map((id) => /** @type {HTMLInputElement} */ (document.getElementById(id)).value));
  assert.deepEqual(left, ['12.34', 'To you', 'sesame']);
  assert.equal(await page.isChecked('.covers input[value=birthday]'), true);
  assert.equal(await page.isChecked('input[value=equal]'), true);
  // After a send the form is empty.
  await page.fill('#count', '2');
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  await page.click('.tabs a[href="#/"]');
  await page.waitForSelector('#total');
  assert.equal(await page.inputValue('#total'), '');
});

browse('the page for sharing says who can open the packet, and is there only as long as somebody can', async () => {
  const stranger = someone('stranger');
  for (const [terms, says] of /** @type {const} */ ([
    [{}, /^Anyone with the link can open it once\.$/],
    [{ passphrase: 'sesame' }, /link and the passphrase/],
    [{ recipients: ['friend'] }, /^Only the people you named can open it/],
    [{ recipients: ['friend'], passphrase: 'sesame' }, /you named can open it, with the passphrase/],
    [{ starts_at: new Date(Date.now() + 3_600_000).toISOString() }, /It opens on .*20\d\d/],
  ])) {
    const { id, sender } = await packet(terms);
    const page = await person({ name: sender, locale: 'en-US', allow: /status of 403/ });
    await page.goto(`${stack.url}/#/sent/${id}`);
    await page.waitForSelector('.qr path');
    assert.match(await textOf(page, '.sent .lead'), says);
    // The link leads to this machine only.
    assert.match(await textOf(page, '.sent .bad'), /this machine only/);
  }
  const { id, sender } = await packet({ count: 1 });
  const other = await person({ name: stranger });
  await other.goto(`${stack.url}/#/sent/${id}`);
  await other.waitForSelector('#open');
  await api(stranger, 'POST', `/packets/${id}/grab`, {});
  const page = await person({ name: sender });
  await page.goto(`${stack.url}/#/sent/${id}`);
  await page.waitForSelector('.result[data-outcome=sold_out]');
});

browse('the QR code has the margin of four modules that scanners need', async () => {
  const { id, sender } = await packet();
  const page = await person({ name: sender });
  await page.goto(`${stack.url}/#/sent/${id}`);
  await page.waitForSelector('.qr path');
  const dark = [...((await page.getAttribute('.qr path', 'd')) ?? '').matchAll(/M(\d+) (\d+)h/g)].flatMap(([, x, y]) => [Number(x), Number(y)]);
  const size = Number((await page.getAttribute('.qr', 'viewBox'))?.split(' ')[2]);
  assert.deepEqual([Math.min(...dark), Math.max(...dark)], [4, size - 5]);
});

browse('a packet is scheduled on the form', async () => {
  const alice = someone('alice');
  await fund(alice, 10_000);
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(stack.url);
  await page.fill('#total', '5');
  await page.click('summary');
  const at = (/** @type {number} */ ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  await page.fill('#starts', at(Date.now() + 8 * 86_400_000));
  assert.match(await textOf(page, '#starts-hint'), /within the next 7 days/);
  await page.fill('#starts', at(Date.now() + 3_600_000));
  await page.click('button[type=submit]');
  await page.waitForSelector('.qr path');
  const [sent] = (await api(alice, 'GET', '/me/packets')).packets;
  assert.equal(sent.status, 'scheduled');
  assert.ok(Math.abs(Date.parse(sent.starts_at) - Date.now() - 3_600_000) < 120_000);
});

browse('a link to a packet has a title and a picture for chats, and nothing of the packet', async () => {
  const { link } = await packet({ greeting: 'only for friends' });
  const page = await person({ name: someone() });
  const answer = await page.goto(link);
  const html = (await answer?.text()) ?? '';
  assert.match(html, /property="og:title" content="[^"]+"/);
  const picture = /property="og:image" content="([^"]+)"/.exec(html)?.[1] ?? '';
  const shown = await page.request.get(new URL(picture, link).href);
  assert.deepEqual([shown.status(), shown.headers()['content-type']], [200, 'image/png']);
  assert.doesNotMatch(html, /friends/);
  await page.waitForSelector('#open');
  assert.equal(page.url(), link);
  // Other screens have the address that they always had, and "back" leads to the packet.
  await page.click('.tabs a[href="#/mine"]');
  await page.waitForSelector('.purse');
  assert.equal(page.url(), `${stack.url}/#/mine`);
  await page.goBack();
  await page.waitForSelector('#open');
  assert.equal(page.url(), link);
  await page.reload();
  await page.waitForSelector('#open');
});
