// The way from the envelope to the amount, on every kind of machine: covers, motions, languages, sizes, light and dark, fonts.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { api, assertAccessible, browse, fund, grab, isInView, packet, person, someone, stack, textOf, yuan } from './browser.mjs';
import { startBrowser } from './stack.mjs';

const COVERS = ['plain', 'spring', 'wedding', 'birthday'];
const LOCALES = ['zh-CN', 'zh-TW', 'en-US'];
const SIZES = /** @type {const} */ ([[320, 568], [568, 320], [390, 844], [844, 390], [768, 1024], [1024, 768], [1440, 900]]);
const GOT = { 'zh-CN': /^你抢到了/, 'zh-TW': /^你搶到了/, 'en-US': /^You got/ };

browse('each cover opens in both motions, in every language, on every size, in light and dark, by finger and by key', async () => {
  let run = 0;
  for (const cover of COVERS) {
    for (const locale of /** @type {(keyof typeof GOT)[]} */ (LOCALES)) {
      for (const still of [false, true]) {
        // Sizes and colours go round at other paces, so that each meets each cover and language.
        const [width, height] = /** @type {readonly [number, number]} */ (SIZES[run % SIZES.length]);
        const dark = run % 4 > 1;
        run += 1;
        const what = `${cover} in ${locale}, ${width} x ${height}, ${dark ? 'dark' : 'light'}, ${still ? 'still' : 'moving'}`;
        const { link, id } = await packet({ cover, count: 2, greeting: '恭喜发财' });
        const user = someone();
        const page = await person({ name: user, locale, width, height, dark, still });
        await page.goto(link);
        await page.waitForSelector('#open');
        await page.waitForTimeout(still ? 50 : 450);
        for (const part of ['.envelope', '#open']) assert.ok(await isInView(page, part), `${part}: ${what}`);
        await assertAccessible(page, `the envelope: ${what}`);
        if (run % 3 === 0) {
          await page.focus('#open');
          await page.keyboard.press('Enter');
        } else await page.click('#open');
        await page.waitForSelector('.result[data-outcome=grabbed] .claim');
        assert.match((await page.getAttribute('.won', 'aria-label')) ?? '', GOT[locale], what);
        assert.equal(await yuan(page), (await grab(user, id)).amount, what);
        // Users who prefer that nothing moves see at most a cross-fade.
        if (still) {
          const longest = await page.evaluate(() => Math.max(0, ...document.getAnimations().map((animation) => Number(animation.effect?.getComputedTiming().duration))));
          assert.ok(longest <= 50, `${longest} ms: ${what}`);
        }
        await page.waitForTimeout(still ? 60 : 1_200);
        assert.ok(await isInView(page, '.won .sum'), `the amount: ${what}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${wide} wide: ${what}`);
        await assertAccessible(page, `the result: ${what}`);
        await page.context().close();
      }
    }
  }
});

browse('a browser without view transitions moves the slip itself', async () => {
  const { link, id } = await packet();
  const user = someone();
  const page = await person({ name: user });
  await page.addInitScript(() => {
    Reflect.deleteProperty(Document.prototype, 'startViewTransition');
    const seen = /** @type {any} */ (window);
    seen.moves = [];
    const animate = Element.prototype.animate;
    Element.prototype.animate = function (/** @type {Keyframe[] | PropertyIndexedKeyframes | null} */ frames, /** @type {number | KeyframeAnimationOptions | undefined} */ options) {
      // Where the frame puts the element, and where the slip was.
      const animation = animate.call(this, frames, options);
      animation.currentTime = 0;
      const { left, top, width } = this.getBoundingClientRect();
      seen.moves.push({ name: this.className, from: [left, top, width], slip: seen.slip });
      return animation;
    };
    const follow = () => {
      const slip = document.querySelector('.envelope.opened .slip');
      if (slip) {
        const { left, top, width } = slip.getBoundingClientRect();
        seen.slip = [left, top, width];
      }
      requestAnimationFrame(follow);
    };
    follow();
  });
  await page.goto(link);
  await page.click('#open');
  await page.waitForSelector('.result[data-outcome=grabbed]');
  assert.equal(await page.evaluate(() => 'startViewTransition' in document), false);
  /** @type {{name: string, from: number[], slip: number[]}[]} */
  const moves = await page.evaluate(() => /** @type {any} */ (window).moves);
  assert.deepEqual(moves.map(({ name }) => name), ['ticket']);
  for (const { from, slip } of moves) from.forEach((at, i) => assert.ok(Math.abs(at - Number(slip[i])) < 24, `the card begins at ${from}, the slip was at ${slip}`));
  assert.equal(await yuan(page), (await grab(user, id)).amount);
});

browse('the coin and the amount look the same without a Chinese serif font', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hongbao-fonts-'));
  const fonts = join(folder, 'fonts.conf');
  await writeFile(
    fonts,
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd"><fontconfig><include>/etc/fonts/fonts.conf</include><selectfont><rejectfont><glob>*SerifCJK*</glob></rejectfont></selectfont></fontconfig>',
  );
  const poor = await startBrowser({ FONTCONFIG_FILE: fonts });
  try {
    const { link } = await packet({ cover: 'spring', greeting: '恭喜发财' });
    const user = someone();
    /** @param {string[]} parts @param {boolean} opens */
    const look = async (parts, opens) => {
      /** @type {string[][]} */
      const looks = [];
      for (const using of [undefined, poor]) {
        const page = await person({ name: user, still: true, ...(using && { using }) });
        await page.goto(link);
        if (opens && !using) await page.click('#open');
        await page.waitForSelector(opens ? '.won .sum path' : '#open path');
        await page.waitForTimeout(200);
        looks.push(await Promise.all(parts.map(async (part) => (await page.locator(part).screenshot()).toString('base64'))));
        await page.context().close();
      }
      return parts.map((_, i) => looks[0]?.[i] === looks[1]?.[i]);
    };
    // What is written with fonts differs, which shows that the font is gone; what is drawn does not.
    assert.deepEqual(await look(['#open', '.envelope .greeting'], false), [true, false]);
    assert.deepEqual(await look(['.won .sum', '.ticket .greeting'], true), [true, false]);
  } finally {
    await poor.close();
    await rm(folder, { recursive: true });
  }
});

browse('people have names and pictures in the page’s language', async () => {
  await fund('alice', 1_000);
  const { packet_id: id } = await api('alice', 'POST', '/packets', { split: 'equal', total_amount: 200, count: 2 });
  await grab('bob', id);
  for (const [locale, sender, winner] of /** @type {const} */ ([['zh-CN', '艾莉 的红包', '阿宝'], ['zh-TW', '艾莉 的紅包', '阿寶'], ['en-US', 'From Alice', 'Bob']])) {
    const page = await person({ name: someone(), locale });
    await page.goto(`${stack.url}/p/${id}`);
    await page.waitForSelector('.claim');
    assert.equal(await textOf(page, '.envelope .from'), sender);
    assert.equal(await textOf(page, '.claim .name'), winner);
    await page.waitForFunction(() => [...document.querySelectorAll('.claim img, .from img')].filter((image) => /** @type {HTMLImageElement} */ (image).naturalWidth > 0).length === 2);
  }
});

browse('the coin can be pressed before the modules are there, once, and the press counts', async () => {
  for (const passphrase of [undefined, 'sesame']) {
    const { link, id } = await packet({ passphrase });
    const user = someone();
    const page = await person({ name: user, locale: 'en-US' });
    let grabs = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/grab')) grabs += 1;
    });
    /** @type {() => void} */
    let release = () => {};
    const held = new Promise((resolve) => {
      release = () => resolve(null);
    });
    await page.route('**/packet/screen.js', async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(link, { waitUntil: 'commit' });
    await page.click('.coin');
    await page.evaluate(() => document.getElementById('early')?.click());
    assert.ok(await page.evaluate(() => document.querySelector('.coin')?.getAnimations().length), 'the coin turns');
    release();
    if (passphrase) {
      await page.waitForFunction(() => document.activeElement?.id === 'word');
      assert.match(await textOf(page, '.envelope-status'), /Say the passphrase/);
      assert.equal(grabs, 0);
      continue;
    }
    await page.waitForSelector('.result[data-outcome=grabbed]');
    assert.deepEqual([grabs, await yuan(page)], [1, (await grab(user, id)).amount]);
  }
});
