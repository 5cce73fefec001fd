// The histories, in a real browser.

import assert from 'node:assert/strict';

import { api, assertSoon, browse, fund, grab, packet, person, someone, stack, textOf } from './browser.mjs';

browse('histories load more rows when scrolled, with totals over all rows', async () => {
  const alice = someone('alice');
  await fund(alice, 100_000);
  for (let i = 0; i < 45; i += 1) {
    const { packet_id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 100, count: 1, greeting: `no ${i}` });
    await grab(alice, packet_id);
  }
  const page = await person({ name: alice, locale: 'en-US' });
  for (const tab of ['sent', 'received']) {
    await page.goto(`${stack.url}/#/mine/${tab}`);
    // With a change of only the fragment, the old list would stay for a moment.
    await page.reload();
    await page.waitForSelector('.history li');
    await assertSoon(async () => /45 packets, ¥45\.00/.test(await textOf(page, '.mine .progress')));
    const names = async () => page.locator('.history .name').allTextContents();
    while ((await names()).length < 45) {
      const before = (await names()).length;
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
      await assertSoon(async () => (await names()).length > before);
    }
    assert.deepEqual(await names(), Array.from({ length: 45 }, (_, i) => `no ${44 - i}`));
    assert.match(await textOf(page, '.end'), /That’s all/);
  }
});

browse('a history of one packet has a singular, and an empty one offers to send', async () => {
  const { id, sender } = await packet({ count: 1 });
  const user = someone();
  await grab(user, id);
  const page = await person({ name: sender, locale: 'en-US' });
  await page.goto(`${stack.url}/#/mine/sent`);
  await page.waitForSelector('.history li');
  assert.equal(await textOf(page, '.mine .progress'), '1 packet, ¥88.88');
  assert.match(await textOf(page, '.history .hint'), /1 of 1/);
  await page.goto(`${stack.url}/#/mine/received`);
  await page.waitForSelector('.nothing');
  await page.click('.nothing a');
  await page.waitForSelector('#total');
});

browse('the statement lists every movement by month, refunds too, and its sums are those of the month', async () => {
  const alice = someone('alice');
  await fund(alice, 1_000);
  const { packet_id: id } = await api(alice, 'POST', '/packets', { split: 'equal', total_amount: 300, count: 3, expires_in_s: 1 });
  await grab(alice, id);
  await assertSoon(async () => {
    await api(alice, 'POST', '/_local/settle');
    return (await api(alice, 'GET', `/packets/${id}`)).status === 'settled';
  });
  const page = await person({ name: alice, locale: 'en-US' });
  await page.goto(`${stack.url}/#/mine/received`);
  await page.click('.segments a[href="#/mine/statement"]');
  // Only the statement has rows that lead nowhere: the deposit.
  await page.waitForSelector('.history .movement');
  assert.deepEqual(await page.locator('.history .name').allTextContents(), ['Came back unopened', 'Packet opened', 'Packet sent', 'Money in']);
  assert.deepEqual(await page.locator('.history .got').allTextContents(), ['+¥2.00', '+¥1.00', '-¥3.00', '+¥10.00']);
  assert.match(await textOf(page, '.month h2'), /20\d\d/);
  assert.equal(await textOf(page, '.month .hint'), 'in ¥13.00, out ¥3.00');
});
