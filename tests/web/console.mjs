// The sixteen questions of a support desk, each answered by the support page in 30 seconds and 5 clicks.

import assert from 'node:assert/strict';

import { api, essential, fund, grab, openAs, packet, rich, settled, someone, stack, textOf } from './harness.mjs';

/** @typedef {Awaited<ReturnType<typeof desk>>} Desk */

const CLICKS_MAX = 5;
const SECONDS_MAX = 30;
const today = () => {
  const now = new Date();
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
};

/** Opens the page at its address as one of the staff, and counts what they do. @param {string} address @param {import('./harness.mjs').Person} [who] */
export async function desk(address, who = {}) {
  const page = await openAs(address, 'main h1', { locale: 'en-US', width: 1280, height: 900, ...who });
  let clicks = 0;
  const begun = Date.now();
  const sees = async (/** @type {string} */ selector, /** @type {string | RegExp} */ text = '') => {
    await page.locator(selector).filter({ hasText: text }).first().waitFor();
  };
  return {
    page,
    sees,
    click: async (/** @type {string} */ selector, /** @type {string} */ text = '') => {
      clicks += 1;
      await page.locator(selector).filter({ hasText: text }).first().click();
    },
    /** Enter counts as a click. @param {string} text */
    find: async (text) => {
      clicks += 1;
      await page.fill('#q', text);
      await page.press('#q', 'Enter');
    },
    /** Fills in the reason, and confirms the sentence. @param {string} reason @param {string | RegExp} sentence */
    confirm: async (reason, sentence) => {
      clicks += 2;
      await page.fill('#deed-reason', reason);
      await page.press('#deed-reason', 'Enter');
      await sees('dialog .says', sentence);
      await page.click('dialog .go');
      await sees('dialog .done');
    },
    done: (/** @type {string} */ question) => {
      const seconds = (Date.now() - begun) / 1_000;
      console.log(`${question}: ${clicks} clicks, ${seconds.toFixed(1)} s`);
      assert.ok(clicks <= CLICKS_MAX && seconds <= SECONDS_MAX, `${question}: ${clicks} clicks, ${seconds} s`);
    },
  };
}

/** @type {[string, (seat: Desk) => Promise<void>][]} */
const QUESTIONS = [];
const question = (/** @type {string} */ text, /** @type {(seat: Desk) => Promise<void>} */ answer) => QUESTIONS.push([text, answer]);

/** Tests that the page at an address answers each question. @param {() => string} address */
export function answers(address) {
  for (const [text, answer] of QUESTIONS) {
    essential(text, async () => {
      const seat = await desk(address());
      await answer(seat);
      seat.done(text);
    });
  }
}

/** @param {string} user @param {string} reason */
export const suspend = (user, reason, grabs = true) => api('operator', 'PUT', `/operator/users/${user}/suspension`, { reason, grabs });
export const pending = async (/** @type {string} */ user, amount = 500) => {
  const id = someone('payout');
  await api('operator', 'PUT', `/wallets/${user}/withdrawals/${id}`, { amount, pending: true, note: 'to their bank' });
  return id;
};

question('1. who is this user, what do they have, are they suspended?', async ({ find, sees }) => {
  const user = await rich('member', 1_234);
  await suspend(user, 'reported by their bank');
  await find(user);
  await sees('h1', user);
  await sees('.user-wallet .sum', '¥12.34');
  await sees('.user-wallet .alarm', 'reported by their bank');
  await sees('.user-deeds td', 'Suspend');
});

question('2. what moved, with the greeting and the other side?', async ({ find, sees }) => {
  const { id, sender } = await packet({ count: 1, total_amount: 888, greeting: 'Happy new year' });
  const user = await rich('member', 500);
  await grab(user, id);
  await find(user);
  await sees('.user-movements tr:has-text("Won")', 'Happy new year');
  await sees('.user-movements tr:has-text("Won") a', sender);
  await sees('.user-movements tr:has-text("Deposit")', '+¥5.00');
});

question('3. what did they send, and what did they win?', async ({ find, sees }) => {
  const { id, sender } = await packet({ greeting: 'from me' });
  const other = await packet({ count: 1, total_amount: 888, greeting: 'for them' });
  await grab(sender, other.id);
  await find(sender);
  await sees(`.user-sent a[href$="${id}"]`, 'from me');
  await sees(`.user-won a[href*="${other.id}"]`, 'for them');
});

question('4. find a packet by its sender, day and amount; by its state', async ({ find, sees, page, click }) => {
  const sender = await rich('sender', 100_000);
  const send = async (/** @type {object} */ terms) => (await api(sender, 'POST', '/packets', { split: 'random', count: 3, ...terms })).packet_id;
  const [one, other] = [await send({ total_amount: 8_811 }), await send({ total_amount: 8_822, starts_at: new Date(Date.now() + 86_400_000).toISOString() })];
  await find(`${sender} 88.11 ${today()}`);
  await sees('h1', one);
  await click('.terms .facts a', sender);
  await page.selectOption('.user-sent select', 'scheduled');
  await sees(`.user-sent a[href$="${other}"]`);
  await page.waitForFunction((id) => !document.querySelector(`.user-sent a[href$="${id}"]`), one);
});

question('5. the story of a packet: terms, slips, why it was closed, and when all of it happened', async ({ find, sees }) => {
  const { id, sender, link } = await packet({ greeting: 'to all', metadata: { channel: 'app' } });
  const winner = someone();
  await grab(winner, id);
  await api('operator', 'POST', `/operator/packets/${id}/close`, { reason: 'sent by mistake' });
  await settled(sender, id);
  await find(link);
  await sees('.terms .greeting', 'to all');
  await sees('.terms .facts', 'channel: app');
  await sees('.terms .alarm', 'sent by mistake');
  await sees('.packet-slips td', winner);
  for (const step of ['Sent', 'Closed', 'Settled']) await sees('.times li', step);
});

question('6. "I grabbed and got nothing"', async ({ find, sees, click, page }) => {
  const { id } = await packet({ count: 1, total_amount: 888 });
  const loser = someone();
  await grab(someone(), id);
  await grab(loser, id);
  await find(id);
  await page.fill('#who', loser);
  await click('.ask button');
  await sees('.packet-who .verdict', `${loser} has nothing`);
  await sees('.packet-who .why', 'All gone');
  await sees('.packet-who td', 'grabPacket, sold_out');
});

question('7. the number on the error page', async ({ find, sees, click }) => {
  const { id } = await packet({ count: 1, total_amount: 888 });
  await grab(someone(), id);
  const response = await fetch(`${stack.url}/packets/${id}/grab`, { method: 'POST', headers: { 'X-User-Id': someone() } });
  await find(response.headers.get('X-Request-Id') ?? '');
  await sees('.looks', 'grabPacket, sold_out');
  await click('.looks a', 'sold_out');
  await sees('h1', id);
});

question('8. why can they win no more?', async ({ find, sees, click, page }) => {
  const sender = await rich('sender', 10_000);
  const send = async () => (await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, limit: { key: 'evening', wins: 1 } })).packet_id;
  const [first, second] = [await send(), await send()];
  const user = await rich('guest', 1);
  await grab(user, first);
  await grab(user, second);
  await find(user);
  await sees('.user-keys tr:has-text("evening")', '¥5.00');
  await find(second);
  await page.fill('#who', user);
  await click('.ask button');
  await sees('.packet-who .why', 'won all that the limit allows');
});

question('9. close this packet', async ({ find, sees, click, confirm }) => {
  const { id, sender } = await packet({ split: 'equal', total_amount: 1_000, count: 4 });
  await grab(someone(), id);
  await find(id);
  await click('.terms .deeds button', 'Close');
  await confirm('asked by the sender', `¥7.50 go back to ${sender}; 1 person keeps ¥2.50.`);
  await sees('dialog .line', 'asked by the sender');
  await click('dialog button', 'Close');
  await sees('.terms .alarm', 'asked by the sender');
});

question('9b. close all of an evening', async ({ find, sees, click, confirm }) => {
  const reference = someone('evening');
  const sender = await rich('sender', 10_000);
  for (const _ of [1, 2]) await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, reference });
  await find(reference);
  await click('.deeds button', 'Close all');
  await confirm('the party is over', `2 packets end. ¥20.00 go back to ${sender}`);
  await click('dialog button', 'Close');
  await sees('tbody tr:nth-child(2)', 'Closed');
});

question('10. suspend', async ({ find, sees, click, confirm }) => {
  const user = await rich('member', 100);
  await find(user);
  await click('.user-wallet button', 'Suspend');
  await confirm('stolen phone', `${user} can neither send nor withdraw from now on. ¥1.00 stay`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .alarm', 'stolen phone');
});

question('10c. lift', async ({ find, sees, click, confirm }) => {
  const user = await rich('member', 100);
  await suspend(user, 'stolen phone');
  await find(user);
  await click('.user-wallet button', 'Lift');
  await confirm('their phone is back', `${user} can send and withdraw again.`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .fine', 'Not suspended');
  await sees('.user-deeds tr', 'stolen phone');
});

question('10b. limits of their own', async ({ find, sees, click, confirm, page }) => {
  const user = await rich('company', 100);
  await find(user);
  await click('.user-wallet button', 'Set limits');
  await page.fill('#deed-daily_sent_max', '50,000.00');
  await confirm('a company', `${user} may send this much a day: ¥50,000.00.`);
  await click('dialog button', 'Close');
  await sees('.user-wallet .facts', '¥50,000.00');
});

question('11. the oldest pending withdrawal, and its end', async ({ find, sees, click, confirm, page }) => {
  const user = await rich('member', 1_000);
  const id = await pending(user);
  await find(id);
  await click(`.user-withdrawals tr:has-text("${id}") button`, 'Void');
  await confirm('no such account', `¥5.00 go back to the wallet of ${user}`);
  await click('dialog button', 'Close');
  await sees(`.user-withdrawals tr:has-text("${id}")`, 'no such account');
  assert.match(await textOf(page, '.user-wallet .sum'), /¥10\.00/);
});

question('12. is sending paused, since when, by whom?', async ({ sees, click, confirm }) => {
  await click('nav a', 'State');
  await click('.state-sending button', 'Pause');
  await confirm('bought accounts', 'nobody can send');
  await click('dialog button', 'Close');
  await sees('.state-sending .alarm', 'bought accounts');
  await sees('.state-sending time');
  await api('operator', 'PUT', '/operator/sending', { paused: false });
});

question('13. the money of a campaign, and the file for finance', async ({ find, sees, click, page }) => {
  const reference = someone('campaign');
  const sender = await rich('sender', 10_000);
  const { packet_id: id } = await api(sender, 'POST', '/packets', { split: 'equal', total_amount: 1_000, count: 2, reference });
  await grab(someone(), id);
  await find(reference);
  await sees('.sums .facts', '¥5.00 in 1 slips by 1 people');
  const file = page.waitForEvent('download');
  await click('.deeds button', 'File');
  assert.match((await file).suggestedFilename(), /\.csv$/);
  const winner = someone();
  await grab(winner, id);
  await sees('.sums .facts', '¥10.00 in 2 slips by 2 people');
});

question('14. is all money right, does a hold wait?', async ({ sees, click }) => {
  await click('nav a', 'State');
  await sees('.state-parked', 'No hold is parked');
  await sees('.state-backlog', 'Nothing is late.');
  await click('.state-audit button', 'Audit');
  await sees('.state-audit', 'All money is accounted for.');
});

question('15. are webhooks late?', async ({ sees, click, confirm }) => {
  await click('nav a', 'State');
  await sees('.state-webhooks', 'Events are delivered');
  await click('.state-webhooks button', 'Disable');
  await confirm('their server moves', 'No event is delivered');
  await click('dialog button', 'Close');
  await sees('.state-webhooks', 'disabled');
  await api('operator', 'PUT', '/operator/webhooks', { enabled: true });
});

question('16. who did what?', async ({ sees, click, page }) => {
  const user = someone();
  await suspend(user, 'tried 500 passwords');
  await click('nav a', 'Deeds');
  await sees('.deeds-all tr', 'tried 500 passwords');
  await click('.deeds-all a', user);
  await sees('.user-deeds tr', 'tried 500 passwords');
  assert.notEqual(await textOf(page, '.user-deeds .by'), '');
});
