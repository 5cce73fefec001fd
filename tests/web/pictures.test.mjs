// Takes the pictures of the main screens that the documents show.

import { browse, fund, grab, person, stack } from './browser.mjs';
import { pictures } from './stack.mjs';

browse('pictures of the main screens', async () => {
  const folder = await pictures();
  const alice = 'alice';
  await fund(alice, 100_000);
  for (const [locale, suffix, greeting] of /** @type {const} */ ([['zh-CN', 'zh', '新年快乐，万事如意'], ['en-US', 'en', 'Happy New Year']])) {
    const page = await person({ name: alice, locale, scale: 2, dark: false });
    const shoot = (/** @type {string} */ name) => page.screenshot({ path: `${folder}${name}-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await page.goto(stack.url);
    await page.fill('#total', '88.88');
    await page.fill('#count', '5');
    await page.fill('#greeting', greeting);
    await page.locator('#greeting').blur();
    await shoot('send');
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    const id = (await page.inputValue('#link')).slice(-26);
    const bob = await person({ name: 'bob', locale, scale: 2 });
    await bob.goto(`${stack.url}/#/p/${id}`);
    await bob.waitForSelector('#open');
    await bob.waitForTimeout(600);
    await bob.screenshot({ path: `${folder}grab-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await bob.click('#open');
    await bob.waitForSelector('.result');
    for (const name of ['carol', 'dave', 'erin', 'frank']) await grab(name, id);
    await bob.waitForSelector('.claim.best');
    await bob.waitForTimeout(800);
    await bob.screenshot({ path: `${folder}result-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await bob.click('a.verify');
    await bob.waitForSelector('.proof');
    await bob.locator('.proof').scrollIntoViewIfNeeded();
    await bob.screenshot({ path: `${folder}verify-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    const rush = await person({ name: alice, locale, width: 1100, height: 910, scale: 1.25, dark: true });
    await rush.goto(`${stack.url}/#/rush`);
    await rush.click('button[type=submit]');
    await rush.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await rush.screenshot({ path: `${folder}rush-${suffix}.jpg`, type: 'jpeg', quality: 82 });
  }
});
