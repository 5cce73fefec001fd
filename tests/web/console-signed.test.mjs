// The support page of `hongbao-admin console`, in front of a stand-in for API Gateway that checks signatures and rights.

import assert from 'node:assert/strict';

import { answers, desk, pending, suspend } from './console.mjs';
import { api, essential, packet, rich, runOn, someone, startProgram, textOf } from './harness.mjs';

/** The addresses of the consoles, each with its token. @type {Record<string, string>} */
let consoles = {};
runOn(async () => {
  const stack = await startProgram('signed-stack');
  consoles = Object.fromEntries(stack.said.map((line) => line.split(' ')));
  return stack;
});
const addressOf = (/** @type {string} */ who) => consoles[who] ?? assert.fail(`no console of the ${who}`);

answers(() => addressOf('boss'));

essential('a deed is done in the name of the principal who signs', async () => {
  const user = await rich('member', 100);
  const { page, click, confirm, find, sees } = await desk(addressOf('boss'));
  assert.equal(await textOf(page, '.tools .user'), 'BOSS');
  await find(user);
  await click('.user-wallet button', 'Suspend');
  await confirm('stolen phone', user);
  await sees('dialog .line', 'BOSS');
});

essential('a reader can do nothing: each deed is not allowed, by the name of its right', async () => {
  const [user, other] = [await rich('member', 1_000), await rich('member', 100)];
  await pending(user);
  await suspend(other, 'stolen phone');
  const { id } = await packet({ reference: someone('evening') });
  const { reference } = await api('operator', 'GET', `/operator/packets/${id}`);
  const { page, click, sees } = await desk(addressOf('reader'), { allow: /status of 403/ });
  const refused = async (/** @type {string} */ hash, /** @type {string} */ name, /** @type {string} */ right) => {
    await page.goto(new URL(hash, page.url()).href);
    await click('.deeds button', name);
    for (const field of await page.locator('dialog input:not([type=checkbox])').all()) await field.fill((await field.getAttribute('inputmode')) ? '1' : 'because');
    await page.press('#deed-reason', 'Enter');
    await click('dialog .go');
    await sees('dialog .trouble', `needs the right “${right}”`);
    await sees('dialog .trouble .hint');
    await page.keyboard.press('Escape');
  };
  for (const name of ['Suspend', 'Set limits', 'Deposit', 'Withdraw']) await refused(`#/user/${user}`, name, 'money');
  for (const name of ['Post', 'Void']) await refused(`#/user/${user}`, name, 'payout');
  await refused(`#/user/${other}`, 'Lift', 'money');
  await refused(`#/packet/${id}`, 'Close', 'money');
  await refused(`#/packet/${id}`, 'Rebuild', 'repair');
  await refused(`#/evening/${reference}`, 'Close all', 'money');
  await refused('#/state', 'Pause', 'money');
  await refused('#/state', 'Disable', 'webhooks');
  await api('operator', 'PUT', '/operator/sending', { paused: true, reason: 'bought accounts' });
  await api('operator', 'PUT', '/operator/webhooks', { enabled: false });
  await page.reload();
  await refused('#/state', 'Resume', 'money');
  await refused('#/state', 'Enable', 'webhooks');
  assert.equal((await api('operator', 'GET', '/operator/sending')).paused, true);
  assert.equal((await api('operator', 'GET', '/operator/webhooks')).status, 'disabled');
  assert.equal((await api('operator', 'GET', `/operator/packets/${id}`)).status, 'open');
  assert.equal((await api('operator', 'GET', `/wallets/${user}`)).balance, 500);
  assert.equal((await api('operator', 'GET', `/operator/deeds?user_id=${user}`)).deeds.length, 0);
});
