// How the envelope looks and moves, and the way from it to the amount: covers, sizes, languages, motions, colours, fonts.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { api, assertAccessible, assertSoon, browse, fund, goTo, grab, isInView, openAs, packet, person, pictures, press, reload, rich, someone, stack, startBrowser, textOf, yuan } from './harness.mjs';

const COVERS = ['plain', 'spring', 'wedding', 'birthday'];
const LOCALES = ['zh-CN', 'zh-TW', 'en-US'];
const SIZES = /** @type {const} */ ([[320, 568], [568, 320], [390, 844], [844, 390], [768, 1024], [1024, 768], [1440, 900]]);
const GOT = { 'zh-CN': /^你抢到了/, 'zh-TW': /^你搶到了/, 'en-US': /^You got/ };

browse('each cover is shown, and an unknown one looks plain', async () => {
  const folder = await pictures();
  /** @type {Map<string, string>} */
  const looks = new Map();
  for (const cover of ['plain', 'spring', 'wedding', 'birthday', 'dragon-boat']) {
    const { link } = await packet({ cover });
    const page = await openAs(link, '#open', { name: someone() });
    looks.set(cover, await page.evaluate(() => `${getComputedStyle(/** @type {Element} */ (document.querySelector('.envelope'))).getPropertyValue('--cover')} ${document.querySelector('.art')?.childElementCount}`));
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${folder}cover-${cover}.png` });
  }
  assert.equal(looks.get('dragon-boat'), looks.get('plain'));
  assert.equal(new Set(looks.values()).size, 4);
});

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
        const page = await openAs(link, '#open', { name: user, locale, width, height, dark, still });
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

browse('a greeting of 64 characters is not cut, and cannot turn the text around it', async () => {
  for (const greeting of ['恭'.repeat(64), 'W'.repeat(64), 'Best wishes to the whole family for health and joy and good luck', '🎉'.repeat(64), 'مبارك'.repeat(12)]) {
    const { link } = await packet({ greeting });
    for (const width of [320, 390, 1440]) {
      const page = await openAs(link, '#open', { name: someone(), width, height: width === 320 ? 568 : 844 });
      const { isCut, direction, isolation } = await page.evaluate(() => {
        const line = /** @type {HTMLElement} */ (document.querySelector('.envelope .greeting'));
        const face = /** @type {HTMLElement} */ (document.querySelector('.face'));
        const coin = /** @type {HTMLElement} */ (document.querySelector('.coin')).getBoundingClientRect();
        const { bottom } = line.getBoundingClientRect();
        const { direction, unicodeBidi } = getComputedStyle(line);
        return { isCut: line.scrollHeight > line.clientHeight + 1 || bottom > coin.top + 2 || bottom > face.getBoundingClientRect().bottom, direction, isolation: unicodeBidi };
      });
      assert.equal(isCut, false, `${greeting.slice(0, 8)} at ${width}`);
      assert.equal(direction, greeting.startsWith('م') ? 'rtl' : 'ltr');
      assert.match(isolation, /isolate|plaintext/);
      await page.context().close();
    }
  }
});

browse('the amount is on the slip within 900 ms of the answer, and a press skips the rest', async () => {
  for (const skip of [false, true]) {
    const { link, id } = await packet();
    const user = someone();
    const page = await openAs(link, '#open', { name: user, locale: 'en-US' });
    await page.waitForTimeout(500);
    await page.evaluate(() => {
      const times = /** @type {any} */ (window);
      new MutationObserver(() => {
        if (document.querySelector('.envelope.opened .slip .sum .glyph')) times.onSlip ??= performance.now();
        if (document.querySelector('.result[data-outcome=grabbed]')) times.shown ??= performance.now();
      }).observe(document.body, { childList: true, subtree: true, attributes: true });
    });
    await press(page, '#open', '.envelope.opened');
    if (skip) await page.mouse.down();
    await page.waitForSelector('.result[data-outcome=grabbed]');
    const { onSlip, shown } = await page.evaluate(() => {
      const { onSlip: slip, shown: result } = /** @type {any} */ (window);
      const answered = /** @type {any} */ (performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/grab'))).responseEnd;
      return { onSlip: slip - answered, shown: result - answered };
    });
    console.log(`${skip ? 'skipped' : 'whole'}: on the slip after ${Math.round(onSlip)} ms, the result after ${Math.round(shown)} ms`);
    assert.ok(onSlip <= 900 && shown <= 900, `${onSlip} and ${shown} ms`);
    if (skip) assert.ok(shown < 600, `${shown} ms`);
    const { amount } = await grab(user, id);
    assert.equal(await page.getAttribute('.won', 'aria-label'), `You got ¥${(amount / 100).toFixed(2)}`);
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
  await press(page, '#open', '.result[data-outcome=grabbed]');
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

browse('more luck is more gold, a fen is a gentle joke, and the best has a crown', async () => {
  // One user gets one fen, the other two.
  const { link } = await packet({ split: 'random', total_amount: 3, count: 2 });
  /** @type {number[]} By amount. */
  const grains = [];
  const pages = [await person({ name: someone() }), await person({ name: someone() })];
  for (const page of pages) {
    await page.goto(link);
    await press(page, '#open', '.won');
    grains[await yuan(page)] = await page.locator('.won .dust i').count();
  }
  assert.ok(Number(grains[1]) > 0 && Number(grains[2]) > Number(grains[1]), `${grains}`);
  for (const page of pages) {
    await reload(page, '.won');
    const amount = await yuan(page);
    assert.equal(await page.locator('.joke').count(), amount === 1 ? 1 : 0);
    assert.equal(await page.isVisible('.luck'), amount === 2);
    if (amount === 2) assert.match(await textOf(page, '.luck'), /手气最佳/);
  }
});

browse('Chinese has a blank only beside a name that is not Chinese', async () => {
  const page = await person();
  await page.goto(stack.url);
  const said = await page.evaluate(async () => {
    const { loadTexts, switchLanguage, t } = await import(/** @type {any} */ ('/assets/i18n.js'));
    await loadTexts();
    const all = [];
    for (const language of ['zh-CN', 'zh-TW', 'en']) {
      await switchLanguage(language);
      for (const sender of ['艾莉', 'Alice', 'A 莉']) all.push(t('grab.from', { sender }));
      all.push(t('mine.totals', { count: 2, amount: '¥3.00' }));
    }
    return all;
  });
  assert.deepEqual(said, [
    ...['艾莉的红包', 'Alice 的红包', 'A 莉的红包', '共 2 个，¥3.00'],
    ...['艾莉的紅包', 'Alice 的紅包', 'A 莉的紅包', '共 2 個，¥3.00'],
    ...['From 艾莉', 'From Alice', 'From A 莉', '2 packets, ¥3.00'],
  ]);
});

browse('people have names and pictures in the page’s language', async () => {
  await fund('alice', 1_000);
  const { packet_id: id } = await api('alice', 'POST', '/packets', { split: 'equal', total_amount: 200, count: 2 });
  await grab('bob', id);
  for (const [locale, sender, winner] of /** @type {const} */ ([['zh-CN', '艾莉的红包', '阿宝'], ['zh-TW', '艾莉的紅包', '阿寶'], ['en-US', 'From Alice', 'Bob']])) {
    const page = await openAs(`${stack.url}/p/${id}`, '.claim', { name: someone(), locale });
    assert.equal(await textOf(page, '.envelope .from'), sender);
    assert.equal(await textOf(page, '.claim .name'), winner);
    await page.waitForFunction(() => [...document.querySelectorAll('.claim img, .from img')].filter((image) => /** @type {HTMLImageElement} */ (image).naturalWidth > 0).length === 2);
  }
});

browse('nobody is the luckiest of equal packets, of one slip, of a single claim, or of amounts that are all the same', async () => {
  for (const [terms, hasBest] of /** @type {const} */ ([
    [{ split: 'equal', total_amount: 600, count: 2 }, false],
    [{ total_amount: 600, count: 1 }, false],
    [{ total_amount: 600, count: 3, expires_in_s: 2 }, false],
    [{ total_amount: 2, count: 2 }, false],
    [{ total_amount: 600, count: 2 }, true],
  ])) {
    const { id, link } = await packet(terms);
    const [first, second] = [someone('first'), someone('second')];
    await grab(first, id);
    if (terms.count === 2) await grab(second, id);
    await assertSoon(async () => {
      await api(first, 'POST', '/_local/settle');
      return (await api(first, 'GET', `/packets/${id}`)).best !== null;
    });
    const winner = (await api(first, 'GET', `/packets/${id}`)).best.user_id;
    const page = await openAs(link, '.claim', { name: winner });
    assert.deepEqual([await page.isVisible('.luck'), await page.locator('.claim.best .crown').count()], [hasBest, Number(hasBest)], JSON.stringify(terms));
  }
});

browse('text on an envelope has a contrast of 4.5 or more, on every cover', async () => {
  const measured = [];
  for (const cover of COVERS) {
    const sender = await rich('sender', 100_000);
    const { link, id } = await packet({ cover, count: 1, greeting: '新年快乐，万事如意 🎉'.repeat(4) });
    const page = await person({ name: sender, still: true });
    await page.goto(stack.url);
    await page.check(`.covers input[value=${cover}]`);
    measured.push(...(await contrasts(page, '.envelope', `an empty form in ${cover}`)));
    await page.fill('#total', '88.88');
    await page.fill('#greeting', '恭喜发财，大吉大利');
    measured.push(...(await contrasts(page, '.envelope', `a filled form in ${cover}`)));
    await goTo(page, link, '#open');
    measured.push(...(await contrasts(page, '.envelope', `a packet in ${cover}`)));
    await grab(someone(), id);
    await reload(page, '.lost .gone:not(:empty)');
    measured.push(...(await contrasts(page, '.lost', `an empty ${cover}`)));
    await goTo(page, `${stack.url}/#/mine`, '.purse .sum');
    measured.push(...(await contrasts(page, '.purse', 'the purse')));
    await page.context().close();
  }
  assert.ok(measured.length > 50, `${measured.length} texts`);
  assert.deepEqual(measured.filter(({ ratio }) => ratio < 4.5).map(({ what, ratio }) => `${what}: ${ratio.toFixed(2)}`), []);
});

/**
 * Returns the contrast of every text in a part of the page with the worst pixel that its letters lie on. Buttons have backgrounds of their own.
 * @param {import('playwright-core').Page} page
 * @param {string} part selector
 * @param {string} screen
 */
async function contrasts(page, part, screen) {
  await page.waitForTimeout(100);
  const { x, y, width, height } = /** @type {any} */ (await page.locator(part).boundingBox());
  const clip = { x: Math.floor(x), y: Math.floor(y), width: Math.ceil(width), height: Math.ceil(height) };
  const texts = await page.evaluate((within) => {
    const root = /** @type {Element} */ (document.querySelector(within));
    const found = [...root.querySelectorAll('*')].filter((element) => {
      if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('.avatar, .coin, .button')) return false;
      return element.matches('input, textarea, .glyph') || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim());
    });
    return found.map((element) => {
      const field = /** @type {HTMLInputElement} */ (element);
      const isEmpty = element.matches('input, textarea') && field.value === '';
      const { color, opacity } = getComputedStyle(element, isEmpty ? '::placeholder' : null);
      const box = element.getBoundingClientRect();
      const [r = 0, g = 0, b = 0, alpha = 1] = (color.match(/[\d.]+/g) ?? []).map(Number);
      const name = `${element.localName}.${element.getAttribute('class') ?? ''} “${(isEmpty ? field.placeholder : field.value || element.textContent || '').slice(0, 12)}”`;
      /** @type {HTMLElement} */ (element).dataset['measured'] = '';
      return { name, ink: [r, g, b], alpha: alpha * Number(opacity), box: { left: box.left, top: box.top, right: box.right, bottom: box.bottom } };
    });
  }, part);
  const shown = await page.screenshot({ clip });
  // The same picture without the text: nothing else may change.
  await page.evaluate(() => {
    for (const element of document.querySelectorAll('[data-measured]')) {
      /** @type {HTMLElement} */ (element).style.setProperty('color', 'transparent', 'important');
      /** @type {HTMLElement} */ (element).style.setProperty('caret-color', 'transparent', 'important');
    }
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('[data-measured]::placeholder { color: transparent !important; }');
    document.adoptedStyleSheets = [sheet];
  });
  const bare = await page.screenshot({ clip });
  await page.evaluate(() => {
    document.adoptedStyleSheets = [];
    for (const element of document.querySelectorAll('[data-measured]')) {
      element.removeAttribute('style');
      element.removeAttribute('data-measured');
    }
  });
  const ratios = await page.evaluate(
    async ([with_, without, texts, { x: left, y: top, width: wide, height: high }]) => {
      const pixelsOf = async (/** @type {string} */ data) => {
        const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))]));
        const drawing = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(wide, high).getContext('2d'));
        drawing.drawImage(image, 0, 0);
        return drawing.getImageData(0, 0, wide, high).data;
      };
      const [a, b] = [await pixelsOf(with_), await pixelsOf(without)];
      const luminance = (/** @type {number[]} */ colour) => {
        const [r = 0, g = 0, bl = 0] = colour.map((value) => (value <= 10.31475 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * bl;
      };
      return texts.map(({ ink, alpha, box }) => {
        let worst = Infinity;
        for (let py = Math.max(0, Math.floor(box.top - top)); py < Math.min(high, box.bottom - top); py += 1) {
          for (let px = Math.max(0, Math.floor(box.left - left)); px < Math.min(wide, box.right - left); px += 1) {
            const at = 4 * (py * wide + px);
            const paper = [...b.slice(at, at + 3)];
            if (paper.every((value, i) => Math.abs(value - (a[at + i] ?? 0)) < 8)) continue;
            const letter = ink.map((value, i) => value * alpha + (paper[i] ?? 0) * (1 - alpha));
            const [light = 0, dark = 0] = [luminance(letter), luminance(paper)].sort((one, other) => other - one);
            worst = Math.min(worst, (light + 0.05) / (dark + 0.05));
          }
        }
        return worst;
      });
    },
    /** @type {const} */ ([shown.toString('base64'), bare.toString('base64'), texts, clip]),
  );
  return texts.map(({ name }, i) => ({ what: `${screen}: ${name}`, ratio: ratios[i] ?? 0 }));
}
