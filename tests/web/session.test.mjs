// Who the user is: the ways to sign in, browsers that keep nothing, and clocks that are wrong.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';

import { alter, api, assertAccessible, assertFits, assertSoon, browse, counted, goTo, openAs, openDeployed, packet, person, press, reload, rich, someone, stack, textOf, ticketKey, tokenOf, watchShift } from './harness.mjs';
import { signTicket } from '../../clients/js/tickets.js';

/** @typedef {import('playwright-core').Page} Page */

const HOUR_MS = 3_600_000;

browse('a token in the fragment is accepted, and a message from the page’s own window is not', async () => {
  const page = await person({ locale: 'en-US' });
  await configure(page, { kind: 'token', origins: ['https://app.test'] });
  /** @type {string[]} */
  const given = [];
  await page.route('**/me/*', (route) => {
    given.push(route.request().headers()['authorization'] ?? '');
    return route.fulfill({ json: mineOf('zoe') });
  });
  const token = tokenOf({ sub: 'zoe', exp: Math.floor(Date.now() / 1000) + 3600 });
  await goTo(page, stack.url, '.notice');
  await page.evaluate((stolen) => postMessage({ type: 'hongbao-token', token: stolen }), token);
  await page.waitForTimeout(200);
  assert.deepEqual(given, []);
  await goTo(page, `${stack.url}/#token=${token}&to=/mine`, '.purse');
  assert.deepEqual([...new Set(given)], [`Bearer ${token}`]);
  assert.ok(!page.url().includes('token'), page.url());
  assert.match(await textOf(page, '.bar .user'), /zoe/);
  assert.equal(await page.locator('a[href="#/rush"]').count(), 0, 'the rush exists only on the local stack');
});

browse('the header names its user as the app does, in one line, and nothing jumps for it', async () => {
  const sub = '7b3f9c12-5d0e-4c1a-9f6e-2a8d4c6b0e13';
  const { id } = await packet({ greeting: '恭喜' });
  const hook = (/** @type {string} */ name) => `export const profiles = async (ids, language) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return Object.fromEntries(ids.filter((id) => id === '${sub}').map((id) => [id, { name: ${name} }]));
  };`;
  const names = `{ 'zh-CN': '艾莉', 'zh-TW': '艾莉', en: 'Alice Pleasance Liddell' }[language]`;
  for (const [locale, name, width] of /** @type {const} */ ([['zh-CN', '艾莉', 390], ['zh-TW', '艾莉', 1280], ['en-US', 'Alice Pleasance', 320], ['zh-CN', null, 390]])) {
    for (const path of ['/', '/mine', `/p/${id}`]) {
      const page = await person({ locale, width, height: width > 1_000 ? 800 : 844 });
      const shiftOf = await watchShift(page);
      await page.addInitScript(() => {
        const seen = /** @type {any} */ (window);
        seen.headers = [];
        new MutationObserver(() => seen.headers.push(document.querySelector('.bar .user')?.textContent ?? '')).observe(document, { childList: true, subtree: true, characterData: true });
      });
      await page.route('**/app/people.js', (route) => route.fulfill({ contentType: 'text/javascript', body: hook(names) }));
      await openDeployed(page, sub, path, name ? { profiles: 'app/people.js' } : {});
      const shown = name ?? sub;
      await page.waitForFunction((text) => document.querySelector('.bar .user')?.textContent?.startsWith(text), shown);
      await page.waitForTimeout(300);
      assert.ok((await page.evaluate(() => /** @type {Element} */ (document.querySelector('.bar')).clientHeight)) <= 61, `the bar at ${path} at ${width}`);
      const shift = await shiftOf();
      assert.ok(shift <= 0.02, `${path} at ${width}: ${shift}`);
      const headers = await page.evaluate(() => /** @type {any} */ (window).headers);
      assert.ok(headers.every((/** @type {string} */ text) => text === '' || text.startsWith(shown)), `${headers}`);
      await assertFits(page, `the header at ${width} in ${locale}`);
      await page.context().close();
    }
  }
});

browse('a link with another user’s token asks before it replaces the session, at its start and while the page is open', async () => {
  const page = await person({ locale: 'en-US' });
  await configure(page, { kind: 'token', origins: [] });
  const [ours, renewed, theirs] = [tokenOf({ sub: 'zoe', n: 1 }), tokenOf({ sub: 'zoe', n: 2 }), tokenOf({ sub: 'mallory' })];
  /** @type {string[]} */
  const given = [];
  await page.route(/\/(me|packets)\//, (route) => {
    const token = route.request().headers()['authorization']?.replace('Bearer ', '') ?? '';
    given.push(token);
    return route.fulfill({ json: mineOf(token === theirs ? 'mallory' : 'zoe') });
  });
  await goTo(page, `${stack.url}/#token=${ours}&to=/mine`, '.purse');
  given.length = 0;
  for (const isOpen of [true, false]) {
    if (isOpen) await page.evaluate((token) => location.assign(`#token=${token}&to=/p/38FS4S83HF3Y07WMYNH727QYT0`), theirs);
    else {
      await page.goto(`${stack.url}/config.json`);
      await page.goto(`${stack.url}/#token=${theirs}&to=/p/38FS4S83HF3Y07WMYNH727QYT0`);
    }
    await page.waitForSelector('.notice[data-kind=other-user]');
    assert.ok(!page.url().includes('token'), page.url());
    assert.match((await textOf(page, '.notice')).replace(/[\u2066-\u2069]/g, ''), /You are signed in as zoe\. The link signs you in as mallory/);
    assert.match(await textOf(page, '.bar .user'), /zoe/);
    assert.equal(given.length, 0, 'nothing is asked in either name before the decision');
    await page.click('.notice button:first-of-type');
    await page.waitForFunction(() => !document.querySelector('.notice[data-kind=other-user]'));
    await goTo(page, `${stack.url}/#/mine`, '.purse');
    assert.ok(!given.includes(theirs));
    given.length = 0;
  }
  // The same user's next token needs no question, and what is no token changes nothing.
  await page.goto(`${stack.url}/#token=x&to=/mine/sent`);
  await goTo(page, `${stack.url}/#token=${renewed}&to=/mine`, '.purse');
  assert.match(await textOf(page, '.bar .user'), /zoe/);
  await goTo(page, `${stack.url}/#token=${theirs}&to=/mine`, '.notice[data-kind=other-user]');
  await assertAccessible(page, 'the question whose session it is');
  given.length = 0;
  await press(page, '.notice button:last-of-type', '.purse');
  assert.match(await textOf(page, '.bar .user'), /mallory/);
  assert.deepEqual([...new Set(given)], [theirs]);
});

browse('Cognito’s code flow with PKCE', async () => {
  const page = await person({ locale: 'en-US' });
  const domain = 'https://auth.test';
  const auth = { kind: 'cognito', domain, client_id: 'client-1' };
  const token = tokenOf({ sub: 'xia', exp: Math.floor(Date.now() / 1000) + 3600 });
  await configure(page, auth);
  await page.route('**/me/*', (route) => {
    assert.equal(route.request().headers()['authorization'], `Bearer ${token}`);
    return route.fulfill({ json: mineOf('xia') });
  });
  // A deployment’s policy lets the page reach its user pool.
  await allow(page, "connect-src 'self'", `connect-src 'self' ${domain}`);
  let challenge = '';
  await page.route(`${domain}/oauth2/authorize*`, (route) => {
    const asked = new URL(route.request().url()).searchParams;
    challenge = asked.get('code_challenge') ?? '';
    assert.deepEqual([asked.get('response_type'), asked.get('client_id'), asked.get('code_challenge_method')], ['code', 'client-1', 'S256']);
    const back = `${asked.get('redirect_uri')}?code=c-1&state=${asked.get('state')}`;
    return route.fulfill({ contentType: 'text/html', body: `<script>location.replace(${JSON.stringify(back)})</script>` });
  });
  await page.route(`${domain}/oauth2/token`, async (route) => {
    const form = new URLSearchParams(route.request().postData() ?? '');
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(form.get('code_verifier') ?? ''));
    assert.equal(Buffer.from(digest).toString('base64url'), challenge);
    assert.deepEqual([form.get('grant_type'), form.get('code')], ['authorization_code', 'c-1']);
    return route.fulfill({ json: { id_token: token, refresh_token: 'r-1' }, headers: { 'Access-Control-Allow-Origin': '*' } });
  });
  await page.goto(`${stack.url}/#/mine`);
  await press(page, '.notice button', '.purse');
  assert.ok(page.url().endsWith('/#/mine'), page.url());
  // The page does not use a code that it did not ask for.
  const other = await page.context().newPage();
  await configure(other, auth);
  await goTo(other, `${stack.url}/?code=stolen&state=guessed#/mine`, '.notice button');
  assert.ok(!other.url().includes('stolen'));
});

for (const hours of [-9, 300]) {
  browse(`a token is sent, whatever the clock says: ${hours} hours off`, async () => {
    const page = await person({ locale: 'en-US', aheadMs: hours * HOUR_MS });
    const token = tokenOf({ sub: 'zoe', exp: Math.floor(Date.now() / 1000) + 3_600 });
    /** @type {string[]} */
    const given = [];
    await configure(page, { kind: 'token', origins: [] });
    await page.route('**/me/*', (route) => {
      given.push(route.request().headers()['authorization'] ?? '');
      return route.fulfill({ json: mineOf('zoe') });
    });
    await goTo(page, `${stack.url}/#token=${token}&to=/mine`, '.purse');
    await reload(page, '.purse');
    assert.deepEqual([...new Set(given)], [`Bearer ${token}`]);
  });

  browse(`Cognito’s tokens are used until a 401, and renewed once: ${hours} hours off`, async () => {
    const { page, tokens, renewals } = await cognito({ aheadMs: hours * HOUR_MS });
    await goTo(page, `${stack.url}/#/mine`, '.purse');
    for (const tab of ['sent', 'statement']) {
      await press(page, `.segments a[href="#/mine/${tab}"]`, `.segments a[href="#/mine/${tab}"][aria-current]`);
    }
    assert.equal(renewals(), 0, 'no token is asked for before a 401');
    tokens.accepted = 'second';
    tokens.renewed = 'second';
    await page.click('.segments a[href="#/mine/received"]');
    await assertSoon(async () => renewals() === 1);
    await page.waitForSelector('.segments a[href="#/mine/received"][aria-current]');
    assert.equal(await page.locator('.notice').count(), 0);
    // Later again.
    tokens.accepted = 'third';
    tokens.renewed = 'third';
    await press(page, '.segments a[href="#/mine/sent"]', '.segments a[href="#/mine/sent"][aria-current]');
    assert.equal(renewals(), 2);
  });
}

browse('if the new token is refused too, the page shows the sign-in and asks no more', async () => {
  for (const renewed of ['second', null]) {
    const { page, tokens, renewals } = await cognito({ allow: /status of 40[01]/ });
    tokens.accepted = 'none';
    tokens.renewed = renewed;
    await goTo(page, `${stack.url}/#/mine`, '.notice[data-kind=signin]');
    assert.match(await textOf(page, '.notice'), /You are no longer signed in/);
    await page.click('.tabs a[href="#/"]');
    await page.waitForTimeout(300);
    await page.waitForSelector('.notice[data-kind=signin]');
    assert.equal(renewals(), 1);
    await page.route('https://auth.test/oauth2/authorize*', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Cognito</h1>' }));
    await page.click('.notice button');
    await page.waitForURL('https://auth.test/**');
  }
});

browse('the app is asked once for another token, and the request is repeated as the same user', async () => {
  const [old, fresh, stranger] = [tokenOf({ sub: 'yan', n: 1 }), tokenOf({ sub: 'yan', n: 2 }), tokenOf({ sub: 'zed' })];
  for (const [given, ends] of /** @type {const} */ ([[[old, fresh], '.purse'], [[old, old], '.notice[data-kind=signin]'], [[old, stranger], '.notice[data-kind=signin]']])) {
    const app = `<!doctype html><iframe src="${stack.url}/#/mine"></iframe><script>
      const tokens = ${JSON.stringify(given)};
      window.wanted = 0;
      addEventListener('message', (event) => {
        if (event.data.type !== 'hongbao-token-wanted') return;
        event.source.postMessage({ type: 'hongbao-token', token: tokens[Math.min(wanted, 1)] }, event.origin);
        wanted += 1;
      });</script>`;
    const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(app));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const origin = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
    const page = await person({ locale: 'en-US', aheadMs: 5 * HOUR_MS, allow: /status of 401/ });
    await configure(page, { kind: 'token', origins: [origin] });
    /** @type {string[]} */
    const used = [];
    await page.route('**/me/*', (route) => {
      const token = (route.request().headers()['authorization'] ?? '').slice(7);
      used.push(token);
      return token === old ? route.fulfill({ status: 401, json: { message: 'Unauthorized' } }) : route.fulfill({ json: mineOf('yan') });
    });
    await allow(page, "frame-ancestors 'none'", `frame-ancestors ${origin}`);
    await page.goto(`${origin}/`);
    await page.frameLocator('iframe').locator(ends).waitFor();
    // Once to sign in, once after the 401.
    assert.equal(await page.evaluate(() => /** @type {any} */ (window).wanted), 2);
    assert.ok(!used.includes(stranger), 'no request is repeated as another user');
    server.close();
  }
});

browse('a user whose id is not supported reads that, and is not sent to sign in again', async () => {
  const { link } = await packet();
  const page = await person({ name: someone(), allow: /403/ });
  let asked = 0;
  const refuse = (/** @type {import('playwright-core').Route} */ route) => {
    asked += Number(route.request().url().includes('/packets/'));
    return route.fulfill({ status: 403, contentType: 'application/problem+json', json: UNSUPPORTED });
  };
  await page.route(/\/(packets|me)\/\w+(\?.*)?$/, refuse);
  await goTo(page, link, '.notice[data-kind=unsupported]');
  assert.match(await textOf(page, '.notice h1'), /这个账号用不了红包/);
  assert.match(await textOf(page, '.notice p'), /重新登录也没用/);
  assert.equal(await page.locator('.notice button').count(), 0, 'nothing to repeat');
  assert.equal(asked, 1, 'it is asked once');
  await assertAccessible(page, `an unsupported id`);
  await goTo(page, `${stack.url}/#/mine/sent`, '.notice[data-kind=unsupported]');
});

const UNSUPPORTED = {
  type: 'urn:hongbao:problem:user-id-unsupported',
  title: 'User id unsupported',
  status: 403,
  detail: 'The user id, the subject of the token, must be 1 to 128 printable ASCII characters other than space / ? # %, and not . or ..',
  code: 'user-id-unsupported',
  request_id: 'r-1',
};

for (const storage of /** @type {const} */ (['null', 'throws', 'full', 'silent'])) {
  browse(`the page works where storages are: ${storage}`, async () => {
    const user = await rich('bare', 10_000);
    const page = await person({ locale: 'en-US', storage });
    await asUser(page, user);
    await goTo(page, stack.url, '#total');
    assert.match(await textOf(page, '#note'), /keeps nothing for this page/);
    await page.click('#note button');
    assert.equal(await page.isVisible('#note'), false);
    await page.selectOption('#language', 'zh-CN');
    await page.waitForSelector('label[for=total]:text("总金额")');
    await page.fill('#total', '5');
    await page.fill('#count', '2');
    await press(page, 'button[type=submit]', '.qr path');
    await page.click('a.gold');
    await press(page, '#open', '.result[data-outcome=grabbed]');
    await press(page, '.tabs a[href="#/mine"]', '.purse');
    assert.equal(await page.isVisible('#note'), false, 'it says so once');
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
    await page.selectOption('#user', 'carol');
    await page.waitForFunction(() => /** @type {HTMLSelectElement | null} */ (document.querySelector('#user'))?.value === 'carol' && document.querySelector('.purse'));
  });
}

browse('a send without an answer says that a reload loses it', async () => {
  const user = await rich('bare', 10_000);
  const page = await person({ locale: 'en-US', storage: 'null', allow: /net::ERR_FAILED/ });
  await asUser(page, user);
  await page.goto(stack.url);
  /** @type {string[]} */
  const keys = [];
  let isLost = true;
  await page.route('**/packets', async (route) => {
    keys.push(route.request().headers()['idempotency-key'] ?? '');
    const answer = await route.fetch();
    await (isLost ? route.abort() : route.fulfill({ response: answer }));
  });
  await page.fill('#total', '5');
  await press(page, 'button[type=submit]', '.state .hint');
  assert.match(await textOf(page, '.state'), /Stay on this page until the answer is here/);
  await page.waitForSelector('.state .button');
  assert.match(await textOf(page, '.state'), /No answer yet.*Stay on this page until the answer is here/);
  // In this tab the send is still known, on every screen.
  await press(page, '.tabs a[href="#/mine"]', '.purse');
  isLost = false;
  await press(page, '.tabs a[href="#/"]', '.qr path');
  assert.equal(new Set(keys).size, 1);
  assert.equal((await api(user, 'GET', '/me/packets')).totals.count, 1);
});

browse('a token of the app works without storage', async () => {
  const page = await person({ locale: 'en-US', storage: 'null' });
  const token = tokenOf({ sub: 'zoe' });
  await configure(page, { kind: 'token', origins: [] });
  await page.route('**/me/*', (route) => route.fulfill({ json: mineOf('zoe') }));
  await goTo(page, `${stack.url}/#token=${token}&to=/mine`, '.purse');
  assert.match(await textOf(page, '#note'), /sign in again/);
});

browse('Cognito’s sign-in without storage says why it can’t work, and sends nobody in circles', async () => {
  for (const storage of /** @type {const} */ (['null', undefined])) {
    const page = await person({ locale: 'en-US', ...(storage && { storage }) });
    await configure(page, { kind: 'cognito', domain: 'https://auth.test', client_id: 'c' });
    // With storage: the user comes back to a page that no longer knows that it asked.
    await goTo(page, storage ? stack.url : `${stack.url}/?code=a&state=b`, '.notice p');
    assert.match(await textOf(page, '.notice'), /keeps nothing for this page meanwhile/);
    assert.equal(await page.locator('.notice button').count(), storage ? 0 : 1);
  }
});

/** Lets a page that keeps nothing begin as this user. @param {Page} page @param {string} user */
const asUser = (page, user) => alter(page, '**/config.json', () => ({ auth: { kind: 'local', users: [user, 'carol'] } }));

/** Opens the deployment's session in one way. @param {Page} page @param {object} auth */
const configure = (page, auth) => page.route('**/config.json', (route) => route.fulfill({ json: { auth, api: '' } }));

/** Changes the page's policy as a deployment would. @param {Page} page @param {string} from @param {string} to */
const allow = (page, from, to) =>
  page.route(new RegExp(`^${stack.url}/(\\?.*)?$`), async (route) => {
    const response = await route.fetch();
    const policy = response.headers()['content-security-policy'] ?? '';
    await route.fulfill({ response, headers: { ...response.headers(), 'content-security-policy': policy.replace(from, to) } });
  });

/** Returns one body that fits as an answer to every request under /me. @param {string} user */
const mineOf = (user) => ({ user_id: user, balance: 5, currency: 'CNY', claims: [], packets: [], movements: [], next_cursor: null, totals: { count: 0, amount: 0 } });

/**
 * Opens a page that was signed in by Cognito before. The service accepts one token, and Cognito gives another one for the refresh token.
 * @param {import('./harness.mjs').Person} options
 */
async function cognito(options) {
  const domain = 'https://auth.test';
  const exp = Math.floor(Date.now() / 1000) + 3_600;
  const named = (/** @type {string} */ name) => tokenOf({ sub: 'xia', name, exp });
  const tokens = { accepted: 'first', renewed: /** @type {string | null} */ ('second') };
  let renewals = 0;
  const page = await person({ locale: 'en-US', allow: /status of 401/, ...options });
  await page.addInitScript((first) => {
    if (!location.href.startsWith('http://127')) return;
    if (sessionStorage.getItem('hongbao.refresh')) return;
    sessionStorage.setItem('hongbao.token', first);
    sessionStorage.setItem('hongbao.refresh', 'r-1');
  }, named('first'));
  await configure(page, { kind: 'cognito', domain, client_id: 'c' });
  await page.route('**/me/*', (route) =>
    route.request().headers()['authorization'] === `Bearer ${named(tokens.accepted)}` ? route.fulfill({ json: mineOf('xia') }) : route.fulfill({ status: 401, json: { message: 'Unauthorized' } }),
  );
  await allow(page, "connect-src 'self'", `connect-src 'self' ${domain}`);
  await page.route(`${domain}/oauth2/token`, (route) => {
    renewals += 1;
    const allowed = { 'Access-Control-Allow-Origin': '*' };
    return tokens.renewed === null ? route.fulfill({ status: 400, json: {}, headers: allowed }) : route.fulfill({ json: { id_token: named(tokens.renewed) }, headers: allowed });
  });
  return { page, tokens, renewals: () => renewals };
}

browse('a ticket in a link admits its user, and leaves the address; without one the page says that the app decides', async () => {
  const { id, link } = await packet({ eligibility: 'ticket' });
  const name = someone();
  const ticket = await signTicket(ticketKey, { user: name, packet: id });
  const page = await openAs(`${link}#ticket=${ticket}`, '#open', { name });
  assert.equal(page.url(), link);
  // The tab keeps it.
  await page.reload();
  await press(page, '#open', '.result[data-outcome=grabbed]');
  const decides = '能不能领，由 App 决定';
  const expired = '领取资格过期了';
  const again = '请从收到红包的地方重新打开。';
  const stranger = someone();
  const late = await signTicket(ticketKey, { user: stranger, packet: id }, { now: Date.now() - 7_200_000 });
  const other = await openAs(link, '.notice[data-kind=not-for-you]', { name: stranger, allow: /403/ });
  assert.deepEqual([await textOf(other, '.notice h1'), await textOf(other, '.notice p')], [decides, again]);
  // Another user's ticket is none.
  await other.goto(`${stack.url}/#ticket=${ticket}&to=/p/${id}`);
  await other.waitForFunction(() => sessionStorage.length > 1 && document.querySelector('.notice'));
  assert.equal(await textOf(other, '.notice h1'), decides);
  await goTo(other, `${stack.url}/#ticket=${late}&to=/p/${id}`, '.notice[data-kind=expired]');
  assert.deepEqual([await textOf(other, '.notice h1'), await textOf(other, '.notice p')], [expired, again]);
  assert.ok(!other.url().includes('ticket'), other.url());
});

browse('the sender of a packet with tickets reads that the app decides who opens it, before a tap and after', async () => {
  const { id, sender, link } = await packet({ eligibility: 'ticket' });
  const page = await person({ name: sender, allow: /403/ });
  await page.goto(`${stack.url}/#/sent/${id}`);
  assert.equal(await textOf(page, '.sent .lead'), 'App 允许的人才能领，每人一次。');
  await page.goto(link);
  await page.click('#open');
  await page.waitForFunction((wanted) => document.querySelector('.envelope-status')?.textContent === wanted, '谁能领由 App 决定，你现在不能领。可以在这里看大家的手气。');
  assert.equal(await page.isHidden('#open'), true);
  const named = await packet({ eligibility: 'ticket', recipients: ['friend'], passphrase: 'sesame' });
  const other = await person({ name: named.sender });
  await other.goto(`${stack.url}/#/sent/${named.id}`);
  assert.equal(await textOf(other, '.sent .lead'), '只有你指定、App 也允许的人能领，每人一次。 领的时候还要输入口令。');
});

/** Shows a packet in a frame of an app, which knows when it is asked for a ticket. @param {string} user @param {string} id @param {() => Promise<string | null>} answer */
async function framed(user, id, answer) {
  const app = `<!doctype html><iframe src="${stack.url}/#/p/${id}" width="380" height="700"></iframe><script>
    window.wanted = [];
    window.give = (ticket, packet_id = '${id}') => frames[0].postMessage({ type: 'hongbao-ticket', packet_id, ticket }, '${stack.url}');
    addEventListener('message', async ({ data }) => {
      if (data.type !== 'hongbao-ticket-wanted') return;
      wanted.push(data.packet_id);
      const ticket = await answer();
      if (ticket) give(ticket);
    });</script>`;
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(app));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const origin = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  const page = await person({ name: user, locale: 'en-US', allow: /status of 403/ });
  await configure(page, { kind: 'local', users: [user], origins: [origin] });
  await allow(page, "frame-ancestors 'none'", `frame-ancestors ${origin}`);
  await page.exposeFunction('answer', answer);
  const grabs = counted(page, '/grab', 'requestfinished');
  await page.goto(`${origin}/`);
  server.close();
  const wanted = () => page.evaluate(() => /** @type {any} */ (window).wanted);
  return { page, frame: page.frameLocator('iframe'), wanted, grabs };
}

browse('the page asks the embedding app for a ticket, once, and again when it has expired', async () => {
  const { id } = await packet({ eligibility: 'ticket' });
  const user = someone();
  let count = 0;
  const answer = () => {
    count += 1;
    // The first one is valid for a moment. Clocks may differ by 10 seconds.
    return signTicket(ticketKey, { user, packet: id, expiresInS: count === 1 ? 1 : 60 }, { now: Date.now() - (count === 1 ? 6_000 : 0) });
  };
  const { page, frame, wanted, grabs } = await framed(user, id, answer);
  await frame.locator('#open').waitFor();
  assert.deepEqual(await wanted(), [id]);
  const first = await page.frames()[1]?.evaluate((name) => sessionStorage.getItem(name), `hongbao.ticket.${id}`);
  await assertSoon(async () => {
    const response = await fetch(`${stack.url}/packets/${id}`, { headers: { 'X-User-Id': user, 'Grab-Ticket': first ?? '' } });
    return response.status === 403;
  });
  if (await frame.locator('#open').isVisible()) await frame.locator('#open').click();
  await frame.locator('.result[data-outcome=grabbed]').waitFor();
  assert.deepEqual(await wanted(), [id, id]);
  assert.ok(grabs() <= 2, `${grabs()} grabs`);
});

browse('without a ticket in time the page says that the app decides, takes none from elsewhere, and goes on when the app has one', async () => {
  const { id } = await packet({ eligibility: 'ticket' });
  const user = someone();
  const { page, frame, wanted } = await framed(user, id, async () => null);
  await frame.locator('.notice[data-kind=not-for-you]').waitFor();
  assert.match((await frame.locator('.notice h1').textContent()) ?? '', /The app decides/);
  assert.deepEqual(await wanted(), [id]);
  const ticket = await signTicket(ticketKey, { user, packet: id });
  const kept = () => page.frames()[1]?.evaluate((name) => sessionStorage.getItem(name), `hongbao.ticket.${id}`);
  // From the page's own window; for another packet; and what is no ticket.
  await page.frames()[1]?.evaluate((message) => postMessage(message), { type: 'hongbao-ticket', packet_id: id, ticket });
  await page.evaluate((ticket) => /** @type {any} */ (window).give(ticket, '38FS4S83HF3Y07WMYNH727QYT0'), ticket);
  await page.evaluate(() => /** @type {any} */ (window).give('x'));
  await page.waitForTimeout(300);
  assert.equal(await kept(), null);
  await page.evaluate((ticket) => /** @type {any} */ (window).give(ticket), ticket);
  await frame.locator('#open').click();
  await frame.locator('.result[data-outcome=grabbed]').waitFor();
  assert.equal(await kept(), ticket);
  assert.deepEqual(await wanted(), [id], 'it is asked once');
});

browse('a ticket that the service refuses is not asked for over and over', async () => {
  const { id } = await packet({ eligibility: 'ticket' });
  const user = someone();
  const { page, frame, wanted } = await framed(user, id, () => signTicket(ticketKey, { user: 'another', packet: id }));
  await frame.locator('.notice[data-kind=not-for-you]').waitFor();
  await page.waitForTimeout(1_000);
  assert.deepEqual(await wanted(), [id]);
});

browse('what has not the form of a ticket is not kept, and leaves the address too', async () => {
  const { id, link } = await packet();
  for (const bad of ['%0Ax.y.z', 'x.y', 'a.b.c.d', '%E7%A5%A8.y.z']) {
    const page = await openAs(`${link}#ticket=${bad}`, '#open', { name: someone() });
    assert.equal(page.url(), link);
    assert.equal(await page.evaluate((name) => sessionStorage.getItem(name), `hongbao.ticket.${id}`), null, bad);
  }
});

browse('a user whose turn has not come sees when it comes, and wins from then on', async () => {
  const { id, link } = await packet({ eligibility: 'ticket' });
  const name = someone();
  const page = await person({ name });
  const turn = Math.floor(Date.now() / 1_000) + 8;
  await goTo(page, `${link}#ticket=${await signTicket(ticketKey, { user: name, packet: id, notBefore: turn })}`, '.starts span');
  assert.match(await textOf(page, '.starts span'), /^00:00:0\d$/);
  assert.equal(await textOf(page, '.starts small'), '距轮到你还有');
  assert.match(await textOf(page, '.starts small:last-child'), / 轮到你$/);
  assert.equal(await page.isDisabled('#open'), true);
  await page.waitForSelector('#open:enabled');
  assert.ok(Math.abs(Date.now() - turn * 1_000) < 2_000, `${Date.now() - turn * 1_000} ms`);
  await press(page, '#open', '.result[data-outcome=grabbed]');
});

browse('who learns at their tap that their turn has not come reads of no missing answer, and wins without another press', async () => {
  const { id, sender } = await packet({ eligibility: 'ticket' });
  let turn = 0;
  const answer = () => {
    turn = Math.floor(Date.now() / 1_000) + 20;
    return signTicket(ticketKey, { user: sender, packet: id, notBefore: turn });
  };
  const { page, frame } = await framed(sender, id, answer);
  await frame.locator('#open').click();
  await frame.locator('.starts span').waitFor();
  assert.equal(await frame.locator('.starts small').first().textContent(), 'Your turn in');
  assert.equal(await frame.locator('#open').isDisabled(), true);
  await page.waitForTimeout(4_000);
  assert.equal(await frame.locator('.envelope.slow, .envelope.opening').count(), 0);
  assert.doesNotMatch((await frame.locator('.envelope-status').textContent()) ?? '', /No answer/);
  await frame.locator('.result[data-outcome=grabbed]').waitFor({ timeout: 40_000 });
  // The engine's clock may differ from the app's by 10 seconds.
  assert.ok(Date.now() >= (turn - 10) * 1_000);
});
