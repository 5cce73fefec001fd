// Takes the pictures of the main screens that the documents show, and the animation of a packet from its sending to its result.

import { readFile, writeFile } from 'node:fs/promises';
import { after } from 'node:test';

import { api, browse, fund, grab, person, pictures, stack } from './harness.mjs';
import { FINGERPRINT, fingerprint } from './shown.mjs';

/** @typedef {import('playwright-core').Page} Page */

const LANGUAGES = /** @type {const} */ ([['zh-CN', 'zh', '新年快乐，万事如意'], ['en-US', 'en', 'Happy New Year']]);

browse('pictures of the main screens', async () => {
  const folder = await pictures();
  const alice = 'alice';
  await fund(alice, 100_000);
  for (const [locale, suffix, greeting] of LANGUAGES) {
    /** @type {Buffer[]} */
    const screens = [];
    const shoot = async (/** @type {Page} */ page) => screens.push(await page.screenshot());
    const page = await person({ name: alice, locale, scale: 2 });
    await page.goto(stack.url);
    await page.check('.covers input[value=spring]');
    await page.fill('#total', '88.88');
    await page.fill('#count', '5');
    await page.fill('#greeting', greeting);
    await page.locator('#greeting').blur();
    await page.evaluate(() => scrollTo(0, 0));
    await shoot(page);
    await page.click('button[type=submit]');
    await page.waitForSelector('.qr path');
    const id = (await page.inputValue('#link')).slice(-26);
    const bob = await person({ name: 'bob', locale, scale: 2 });
    await bob.goto(`${stack.url}/p/${id}`);
    await bob.waitForSelector('#open');
    await bob.waitForTimeout(600);
    await shoot(bob);
    await bob.click('#open');
    await bob.waitForSelector('.result');
    for (const name of ['carol', 'dave', 'erin', 'frank']) await grab(name, id);
    await bob.waitForSelector('.claim.best');
    await bob.waitForTimeout(800);
    await shoot(bob);
    await bob.click('a.verify');
    await bob.waitForSelector('.proof');
    await bob.locator('.proof').scrollIntoViewIfNeeded();
    await shoot(bob);
    const rush = await person({ name: alice, locale, width: 1100, height: 910, scale: 1.25, dark: true });
    await rush.goto(`${stack.url}/#/rush`);
    await rush.click('button[type=submit]');
    await rush.waitForSelector('.sum[data-balanced=true]', { timeout: 60_000 });
    await rush.screenshot({ path: `${folder}rush-${suffix}.jpg`, type: 'jpeg', quality: 82 });
    await writeFile(`${folder}screens-${suffix}.jpg`, await sideBySide(rush, screens));
  }
});

browse('pictures of the support page', async () => {
  const folder = await pictures();
  const call = (/** @type {string} */ method, /** @type {string} */ path, /** @type {unknown} */ body) =>
    fetch(stack.url + path, { method, body: JSON.stringify(body) });
  for (const [locale, suffix, greeting] of LANGUAGES) {
    const [sender, winner] = [`alice-${suffix}`, `bob-${suffix}`];
    await fund(sender, 100_000);
    const reason = locale === 'en-US' ? 'wrong amount' : '金额填错了';
    const sent = await api(sender, 'POST', '/packets', { split: 'random', total_amount: 8_888, count: 5, greeting });
    for (const name of [winner, 'carol', 'dave']) await grab(name, sent.packet_id);
    await call('PUT', `/wallets/${winner}/withdrawals/w-17`, { amount: 300, pending: true });
    await call('PUT', `/operator/users/${winner}/limits`, { deposit_max: 50_000, reason });
    await call('POST', `/operator/packets/${sent.packet_id}/close`, { reason });
    /** @type {Buffer[]} */
    const screens = [];
    for (const place of [`user/${winner}`, `packet/${sent.packet_id}`]) {
      const page = await person({ name: 'desk', locale, width: 900, height: 1_000 });
      await page.goto(`${stack.url}/console/#/${place}`);
      await page.waitForSelector('main table');
      await page.waitForLoadState('networkidle');
      screens.push(await page.screenshot());
    }
    const drawing = await person({ name: 'desk' });
    await writeFile(`${folder}console-${suffix}.jpg`, await sideBySide(drawing, screens, 880));
  }
});

/** Returns one picture of several screens. @param {Page} page any page; it draws @param {Buffer[]} screens @param {number} height */
async function sideBySide(page, screens, height = 844) {
  const width = 1_600;
  const drawing = await page.context().newPage();
  await drawing.setViewportSize({ width, height });
  const images = screens.map((screen) => `<img height="${height}" src="data:image/png;base64,${screen.toString('base64')}">`);
  await drawing.setContent(`<body style="margin: 0; background: white; display: flex; justify-content: space-between">${images.join('')}`);
  return drawing.screenshot({ type: 'jpeg', quality: 82 });
}

browse('the icons of the page where it is installed', async () => {
  const drawn = await readFile(new URL('../../web/assets/icon.svg', import.meta.url), 'utf8');
  for (const size of [192, 512]) {
    const page = await person({ width: size, height: size });
    // A system may cut what is outside a circle of 80 %.
    await page.setContent(`<body style="margin: 0; padding: 20%; background: #f7e3b8">${drawn}`);
    const folder = process.env['SCREENSHOTS'] ? new URL('../../web/assets/', import.meta.url).pathname : await pictures();
    await page.screenshot({ path: `${folder}icon-${size}.png` });
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

after(async () => {
  // Of a run that failed, some pictures are old.
  if (process.env['SCREENSHOTS'] && !process.exitCode) await writeFile(FINGERPRINT, `${await fingerprint()}\n`);
});

// --- The animation: what a page showed, as an animated WebP. The browser encodes each frame; the container is written here.

/** @typedef {{jpeg: string, atMs: number}} Frame */

/** The last frame, and any long pause, is shown this long. */
const PAUSE_MOST_MS = 1_600;
/** No more than about 25 frames a second. */
const FRAME_LEAST_MS = 40;
const QUALITY = 0.72;

/** Records a page until the returned function is called. @param {Page} page @returns {Promise<() => Promise<Frame[]>>} */
async function record(page) {
  /** @type {Frame[]} */
  const frames = [];
  const session = await page.context().newCDPSession(page);
  session.on('Page.screencastFrame', ({ data, metadata, sessionId }) => {
    frames.push({ jpeg: data, atMs: (metadata.timestamp ?? 0) * 1_000 });
    void session.send('Page.screencastFrameAck', { sessionId }).catch(() => {});
  });
  await session.send('Page.startScreencast', { format: 'jpeg', quality: 95 });
  return async () => {
    await session.send('Page.stopScreencast');
    await session.detach();
    return frames;
  };
}

/**
 * Joins recordings to one animation, which repeats for ever.
 * @param {Page} page any page; it encodes
 * @param {Frame[][]} clips
 * @param {{width: number, height: number}} size
 */
async function animation(page, clips, { width, height }) {
  const shown = clips.flatMap((clip) => {
    const kept = clip.filter(({ atMs }, i) => i === 0 || i === clip.length - 1 || /** @type {Frame} */ (clip[i + 1]).atMs - atMs >= FRAME_LEAST_MS);
    return kept.map(({ jpeg, atMs }, i) => ({ jpeg, ms: Math.min(PAUSE_MOST_MS, Math.max(FRAME_LEAST_MS, (kept[i + 1]?.atMs ?? Infinity) - atMs)) }));
  });
  const parts = [];
  for (const { jpeg, ms } of shown) {
    const webp = await page.evaluate(
      async ([data, w, h, quality]) => {
        // The page's policy allows no picture from a data URL.
        const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))]));
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [w, h];
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d', { alpha: false }));
        context.imageSmoothingQuality = 'high';
        context.drawImage(image, 0, 0, w, h);
        return canvas.toDataURL('image/webp', quality).split(',')[1] ?? '';
      },
      /** @type {const} */ ([jpeg, width, height, QUALITY]),
    );
    const frame = Buffer.concat([uint24(0), uint24(0), uint24(width - 1), uint24(height - 1), uint24(Math.round(ms)), Buffer.from([NO_BLEND]), picture(Buffer.from(webp, 'base64'))]);
    parts.push(chunk('ANMF', frame));
  }
  const head = chunk('VP8X', Buffer.concat([Buffer.from([ANIMATED, 0, 0, 0]), uint24(width - 1), uint24(height - 1)]));
  // A background of white, and a count of 0: for ever.
  const repeat = chunk('ANIM', Buffer.from([255, 255, 255, 255, 0, 0]));
  return chunk('RIFF', Buffer.concat([Buffer.from('WEBP'), head, repeat, ...parts]));
}

const ANIMATED = 0b10;
const NO_BLEND = 0b10;

/** Returns the chunk of a WebP file that holds its picture. @param {Buffer} file */
function picture(file) {
  for (let at = 12; at < file.length; ) {
    const size = file.readUInt32LE(at + 4);
    const end = at + 8 + size + (size % 2);
    if (file.toString('latin1', at, at + 4) === 'VP8 ') return file.subarray(at, end);
    at = end;
  }
  throw new Error('no picture in the file');
}

/** @param {string} name @param {Buffer} body */
function chunk(name, body) {
  const head = Buffer.alloc(8, name, 'latin1');
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)]);
}

/** @param {number} value */
function uint24(value) {
  return Buffer.from([value & 255, (value >> 8) & 255, (value >> 16) & 255]);
}
