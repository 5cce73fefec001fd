// Takes the pictures of the main screens that the documents show, and the animation of a packet from its sending to its result.

import { writeFile } from 'node:fs/promises';

import { animation, record } from './animation.mjs';
import { browse, fund, grab, person, stack } from './browser.mjs';
import { pictures } from './stack.mjs';

const LANGUAGES = /** @type {const} */ ([['zh-CN', 'zh', '新年快乐，万事如意'], ['en-US', 'en', 'Happy New Year']]);

browse('pictures of the main screens', async () => {
  const folder = await pictures();
  const alice = 'alice';
  await fund(alice, 100_000);
  for (const [locale, suffix, greeting] of LANGUAGES) {
    /** @param {import('playwright-core').Page} page @param {string} name */
    const shoot = (page, name) => page.screenshot({ path: `${folder}${name}-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    const page = await person({ name: alice, locale, scale: 2 });
    await page.goto(stack.url);
    await page.check('.covers input[value=spring]');
    await page.fill('#total', '88.88');
    await page.fill('#count', '5');
    await page.fill('#greeting', greeting);
    await page.locator('#greeting').blur();
    await page.evaluate(() => scrollTo(0, 0));
    await shoot(page, 'send');
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    const id = (await page.inputValue('#link')).slice(-26);
    const bob = await person({ name: 'bob', locale, scale: 2 });
    await bob.goto(`${stack.url}/p/${id}`);
    await bob.waitForSelector('#open');
    await bob.waitForTimeout(600);
    await shoot(bob, 'grab');
    await bob.click('#open');
    await bob.waitForSelector('.result');
    for (const name of ['carol', 'dave', 'erin', 'frank']) await grab(name, id);
    await bob.waitForSelector('.claim.best');
    await bob.waitForTimeout(800);
    await shoot(bob, 'result');
    await bob.click('a.verify');
    await bob.waitForSelector('.proof');
    await bob.locator('.proof').scrollIntoViewIfNeeded();
    await shoot(bob, 'verify');
    const rush = await person({ name: alice, locale, width: 1100, height: 910, scale: 1.25, dark: true });
    await rush.goto(`${stack.url}/#/rush`);
    await rush.click('button[type=submit]');
    await rush.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await shoot(rush, 'rush');
  }
});

browse('an animation of sending, opening and the result', async () => {
  const folder = await pictures();
  await fund('alice', 100_000);
  const [width, height] = [390, 780];
  for (const [locale, suffix, greeting] of LANGUAGES) {
    const alice = await person({ name: 'alice', locale, width, height });
    await alice.goto(stack.url);
    await alice.check('.covers input[value=spring]');
    await alice.fill('#count', '3');
    const sending = await record(alice);
    await alice.locator('#greeting').pressSequentially(greeting, { delay: 60 });
    await alice.locator('#total').pressSequentially('88.88', { delay: 90 });
    await alice.locator('#total').blur();
    await alice.waitForTimeout(500);
    await alice.click('button[type=submit]');
    await alice.waitForSelector('.qr path');
    await alice.waitForTimeout(1_800);
    const sent = await sending();
    const id = (await alice.inputValue('#link')).slice(-26);
    await grab('carol', id);
    const bob = await person({ name: 'bob', locale, width, height });
    await bob.goto(`${stack.url}/p/${id}`);
    await bob.waitForSelector('.claim');
    await bob.waitForTimeout(600);
    const opening = await record(bob);
    await bob.waitForTimeout(900);
    await bob.click('#open');
    await bob.waitForSelector('.result[data-outcome=grabbed]');
    await bob.waitForTimeout(1_500);
    await writeFile(`${folder}packet-${suffix}.webp`, await animation(bob, [sent, await opening()], { width: 312, height: 624 }));
  }
});
