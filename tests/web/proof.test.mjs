// The proof of the split, in a real browser and offline.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

import { api, browse, grab, packet, person, stack, textOf } from './browser.mjs';
import { apiOf, program, startStack } from './stack.mjs';

browse('the browser proves a split, and notices payments or terms that differ from it', async () => {
  const { link, id, sender } = await packet({ count: 4 });
  const page = await person({ name: sender, locale: 'en-US' });
  await page.goto(`${stack.url}/#/verify/${id}`);
  await page.waitForSelector('.verdict .bad');
  assert.match(await textOf(page, '.verdict'), /isn’t out yet/);
  for (let i = 0; i < 4; i += 1) await grab(`proof-${i}`, id);
  await page.goto(`${stack.url}/#/verify`);
  await page.fill('#packet', link);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.proof[data-fair=true]');
  assert.equal(await page.locator('.proof tbody tr').count(), 4);
  assert.match(await textOf(page, '.inputs'), /could hold¥200\.00.*method1/);
  // Terms that differ from those of the commitment.
  for (const [name, value, says] of /** @type {const} */ ([['slip_cap', 19_999, '.proof[data-fair=false]'], ['split_version', 2, '.verdict .bad']])) {
    const change = async (/** @type {import('playwright-core').Route} */ route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), [name]: value } });
    };
    await page.route(`**/packets/${id}`, change);
    await page.click('button[type=submit]');
    await page.waitForSelector(says);
    await page.unroute(`**/packets/${id}`, change);
  }
  // One fen moves from one claim to another: the sum stays the same.
  await page.route('**/claims*', async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    body.claims[0].amount += 1;
    body.claims[1].amount -= 1;
    await route.fulfill({ response, json: body });
  });
  await page.click('button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('.proof tr.not').length === 2);

  // The same with `hongbao-admin`, offline.
  const shown = await api(sender, 'GET', `/packets/${id}`);
  const { claims } = await api(sender, 'GET', `/packets/${id}/claims`);
  assert.equal(verifyOffline({ ...shown, claims }), 0);
  const [first, ...rest] = claims;
  assert.equal(verifyOffline({ ...shown, claims: [{ ...first, amount: first.amount + 1 }, ...rest] }), 1);
  assert.equal(verifyOffline({ ...shown, claims, slip_cap: 19_999 }), 1);
  assert.equal(verifyOffline({ ...shown, claims, seed: null }), 2);
});

browse('a packet is verified with the cap that it was sent under, not with the deployment’s present one', async () => {
  const small = await startStack({ MAX_SLIP_AMOUNT: '500' });
  try {
    const ask = apiOf(small.url);
    await ask('ann', 'PUT', '/wallets/ann/deposits/d', { amount: 1_900 });
    const { packet_id: id } = await ask('ann', 'POST', '/packets', { split: 'random', total_amount: 1_900, count: 4 });
    for (let i = 0; i < 4; i += 1) await ask(`u${i}`, 'POST', `/packets/${id}/grab`, {});
    const page = await person({ name: 'ann', locale: 'en-US' });
    // As if the operator had raised the cap since.
    await page.route('**/config.json', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), limits: { slip_amount_max: 20_000, count_max: 100_000 } } });
    });
    await page.goto(`${small.url}/#/verify/${id}`);
    await page.waitForSelector('.proof[data-fair=true]');
    assert.match(await textOf(page, '.inputs'), /could hold¥5\.00/);
    const [shown, { claims }] = [await ask('ann', 'GET', `/packets/${id}`), await ask('ann', 'GET', `/packets/${id}/claims`)];
    assert.equal(shown.slip_cap, 500);
    assert.equal(verifyOffline({ ...shown, claims }), 0);
  } finally {
    await small.stop();
  }
});

/** Returns the exit status of `hongbao-admin verify`. @param {unknown} packet */
const verifyOffline = (packet) => spawnSync(program('hongbao-admin'), ['verify', '-'], { input: JSON.stringify(packet), env: {} }).status;
