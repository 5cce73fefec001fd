// Sign-in with a token and with Cognito, in a real browser.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';

import { browse, person, stack, textOf } from './browser.mjs';

browse('a token in the fragment is accepted, and a message from the page’s own window is not', async () => {
  const page = await person({ locale: 'en-US' });
  const config = { auth: { kind: 'token', origins: ['https://app.test'] }, api: '', limits: { slip_amount_max: 20_000, count_max: 100_000 } };
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  /** @type {string[]} */
  const given = [];
  await page.route('**/me/*', (route) => {
    given.push(route.request().headers()['authorization'] ?? '');
    return route.fulfill({ json: mineOf('zoe') });
  });
  const token = tokenOf({ sub: 'zoe', exp: Math.floor(Date.now() / 1000) + 3600 });
  await page.goto(stack.url);
  await page.waitForSelector('.notice');
  await page.evaluate((stolen) => postMessage({ type: 'hongbao-token', token: stolen }), token);
  await page.waitForTimeout(200);
  assert.deepEqual(given, []);
  await page.goto(`${stack.url}/#token=${token}&to=/mine`);
  await page.waitForSelector('.purse');
  assert.deepEqual([...new Set(given)], [`Bearer ${token}`]);
  assert.ok(!page.url().includes('token'), page.url());
  assert.match(await textOf(page, '.bar .user'), /zoe/);
  assert.equal(await page.locator('a[href="#/rush"]').count(), 0, 'the rush exists only on the local stack');
});

browse('a token from the embedding app is accepted', async () => {
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(app));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  // Another port makes another origin.
  const origin = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  const page = await person({ locale: 'en-US' });
  const token = tokenOf({ sub: 'yan', exp: Math.floor(Date.now() / 1000) + 3600 });
  const config = { auth: { kind: 'token', origins: [origin] }, api: '' };
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  await page.route('**/me/*', (route) => route.fulfill({ json: mineOf('yan') }));
  // A deployment’s policy names the embedding apps; the local stack’s policy names none.
  await page.route(`${stack.url}/`, async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("frame-ancestors 'none'", `frame-ancestors ${origin}`) };
    await route.fulfill({ response, headers });
  });
  const app = `<!doctype html><iframe src="${stack.url}/#/mine"></iframe><script>
    addEventListener('message', (event) => {
      if (event.origin === '${stack.url}' && event.data.type === 'hongbao-token-wanted') event.source.postMessage({ type: 'hongbao-token', token: '${token}' }, event.origin);
    });</script>`;
  await page.goto(`${origin}/`);
  await page.frameLocator('iframe').locator('.purse').waitFor();
  server.close();
});

browse('Cognito’s code flow with PKCE', async () => {
  const page = await person({ locale: 'en-US' });
  const domain = 'https://auth.test';
  const config = { auth: { kind: 'cognito', domain, client_id: 'client-1' }, api: '' };
  const token = tokenOf({ sub: 'xia', exp: Math.floor(Date.now() / 1000) + 3600 });
  await page.route('**/config.json', (route) => route.fulfill({ json: config }));
  await page.route('**/me/*', (route) => {
    assert.equal(route.request().headers()['authorization'], `Bearer ${token}`);
    return route.fulfill({ json: mineOf('xia') });
  });
  // A deployment’s policy lets the page reach its user pool.
  await page.route(new RegExp(`^${stack.url}/(\\?.*)?$`), async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), 'content-security-policy': (response.headers()['content-security-policy'] ?? '').replace("connect-src 'self'", `connect-src 'self' ${domain}`) };
    await route.fulfill({ response, headers });
  });
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
  await page.click('.notice button');
  await page.waitForSelector('.purse');
  assert.ok(page.url().endsWith('/#/mine'), page.url());
  // The page does not use a code that it did not ask for.
  const other = await page.context().newPage();
  await other.route('**/config.json', (route) => route.fulfill({ json: config }));
  await other.goto(`${stack.url}/?code=stolen&state=guessed#/mine`);
  await other.waitForSelector('.notice button');
  assert.ok(!other.url().includes('stolen'));
});

/** Returns one body that fits as an answer to every request under /me. @param {string} user */
const mineOf = (user) => ({ user_id: user, balance: 5, currency: 'CNY', claims: [], packets: [], next_cursor: null, totals: { count: 0, amount: 0 } });

/** Returns a token that the page can read. Its signature is not valid. @param {object} claims */
function tokenOf(claims) {
  const part = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.x`;
}
