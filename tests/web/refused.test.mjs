// What an operator decides, in a real browser: packets that are closed, users who cannot send.

import assert from 'node:assert/strict';

import { api, assertAccessible, assertSoon, browse, fund, packet, person, someone, stack, textOf } from './browser.mjs';

const CLOSED = { 'zh-CN': /红包已被关闭/, 'zh-TW': /紅包已被關閉/, 'en-US': /This packet was closed/ };

browse('a packet that the operator closes is closed by itself, at a tap, and after a reload', async () => {
  for (const locale of /** @type {(keyof typeof CLOSED)[]} */ (Object.keys(CLOSED))) {
    for (const way of ['by itself', 'at a tap']) {
      const { link, id, sender } = await packet();
      const page = await person({ name: someone(), locale });
      const closed = { status: 'closed', closed_at: new Date().toISOString() };
      let isClosed = false;
      // The packet as the service shows it once it is closed; at a tap, the page has no news of that yet.
      await page.route(`**/packets/${id}`, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), ...(isClosed && closed) } });
      });
      await page.route('**/grab', (route) => {
        isClosed = true;
        return route.fulfill({ json: { outcome: 'closed', packet_id: id } });
      });
      await page.goto(link);
      await page.waitForSelector('#open');
      if (way === 'by itself') isClosed = true;
      else await page.click('#open');
      await page.waitForSelector('.result[data-outcome=closed]');
      assert.match(await textOf(page, 'h1'), CLOSED[locale]);
      assert.ok((await textOf(page, '.lost .after')).length > 8);
      await assertAccessible(page, `closed, in ${locale}`);
      await page.reload();
      await page.waitForSelector('.result[data-outcome=closed]');
      // The sender has nothing to share any more; their history says why.
      const owner = await person({ name: sender, locale });
      await owner.route(`**/packets/${id}`, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), ...closed } });
      });
      await owner.goto(`${stack.url}/#/sent/${id}`);
      await owner.waitForSelector('.result[data-outcome=closed]');
      await owner.route('**/me/packets*', async (route) => {
        const response = await route.fetch();
        const body = await response.json();
        await route.fulfill({ response, json: { ...body, packets: body.packets.map((/** @type {object} */ sent) => ({ ...sent, ...closed })) } });
      });
      await owner.goto(`${stack.url}/#/mine/sent`);
      await owner.waitForSelector('.history .tag.closed');
    }
  }
});

browse('a suspended user, and one at their limit of the day, read why nothing was sent, and keep what they wrote', async () => {
  const resets_at = '2027-01-02T00:00:00.000Z';
  for (const [locale, suspended, limit] of /** @type {const} */ ([
    ['zh-CN', /账户已被停用.*抢红包不受影响/s, /限额.*2027年1月2日.* 恢复额度/s],
    ['zh-TW', /帳戶已被停權.*搶紅包不受影響/s, /額度.*2027年1月2日.* 恢復/s],
    ['en-US', /account is suspended.*still open them/s, /more than you can send in a day.*Jan 2, 2027.*/s],
  ])) {
    const alice = someone('alice');
    await fund(alice, 10_000);
    const page = await person({ name: alice, locale, allow: /status of 403/ });
    let code = 'account-suspended';
    await page.route('**/packets', (route) =>
      route.fulfill({ status: 403, contentType: 'application/problem+json', body: JSON.stringify({ status: 403, code, title: code, ...(code === 'daily-limit-exceeded' && { resets_at }) }) }),
    );
    await page.goto(stack.url);
    await page.fill('#total', '8.88');
    await page.fill('#greeting', '恭喜');
    for (const [refusal, says] of /** @type {const} */ ([['account-suspended', suspended], ['daily-limit-exceeded', limit]])) {
      code = refusal;
      await page.click('button[type=submit]');
      await assertSoon(async () => says.test(await textOf(page, '.state')));
      await assertAccessible(page, `${refusal} in ${locale}`);
      await page.waitForSelector('button[type=submit]:enabled');
      assert.deepEqual([await page.inputValue('#total'), await page.inputValue('#greeting')], ['8.88', '恭喜']);
    }
    // It is a final refusal: a reload tries nothing again.
    await page.unroute('**/packets');
    await page.reload();
    await page.waitForSelector('#total');
    await page.waitForTimeout(300);
    assert.equal((await api(alice, 'GET', '/me/packets')).totals.count, 0);
  }
});
