// Runs examples/payout.py between a local stack and a provider that fails. PAYOUT=full runs 10,000 withdrawals, PAYOUT_SEED=… repeats a run.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { apiOf, assertSoon as until, startStack } from '../web/harness.mjs';
import { repository, start, statusOf } from './app.mjs';
import { chance, Provider, signed } from './provider.mjs';

const KEY = 'a secret of 24 bytes or more';
const PROVIDERS_KEY = 'the secret of a provider';
const [SECRET, PROVIDER_SECRET] = [KEY, PROVIDERS_KEY].map((key) => `whsec_${Buffer.from(key).toString('base64')}`);
const DEPLOYMENT = 'shop/test';
const SEED = process.env['PAYOUT_SEED'] ?? String(Date.now());
const SIZE = process.env['PAYOUT'] === 'full'
  ? { withdrawals: 10_000, users: 100, workers: 8, sweepS: 2, killMs: 1_500, killsMax: 100_000, waitMs: 10_000, withinMs: 1_800_000 }
  : { withdrawals: 240, users: 20, workers: 4, sweepS: 0.5, killMs: 300, killsMax: 12, waitMs: 800, withinMs: 60_000 };
const FAULTS = 0.2;
/** What no worker reports: that a withdrawal was ended otherwise, or a mistake of its own. */
const SURPRISES = /HTTPError 409|Traceback|(?:Name|Key|Attribute|Unbound\w+)Error/;

/** @typedef {{user: string, id: string, amount: number}} Wish */

const nameOf = (/** @type {{user: string, id: string}} */ { user, id }) => `${user}/${id}`;
/** The number under which the provider must know a withdrawal. @param {string} name @param {string} [deployment] */
const numberOf = (name, deployment = DEPLOYMENT) => createHash('sha256').update(`${deployment}/${name}`).digest('hex').slice(0, 32);
const pathOf = (/** @type {{user: string, id: string}} */ { user, id }) => `/wallets/${user}/withdrawals/${id}`;
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((total, number) => total + number, 0);
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Starts a stack, and a server that passes webhooks and notices on to some worker: some twice, some late, and some get lost.
 * @param {number} faults the share of the engine's answers that get lost, and of what goes wrong with events
 * @param {string} [deployment]
 */
async function company(faults, deployment = DEPLOYMENT) {
  /** @type {Awaited<ReturnType<typeof worker>>[]} */
  const workers = [];
  /** The ends that events name, by withdrawal. @type {Map<string, Set<string>>} */
  const ends = new Map();
  let turn = 0;
  const entrance = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { type, data } = JSON.parse(body.toString());
    if (type === 'WithdrawalPosted' || type === 'WithdrawalVoided') {
      const name = `${data.user_id}/${data.withdrawal_id}`;
      ends.set(name, (ends.get(name) ?? new Set()).add(`${type} ${data.posted_amount}`));
    }
    turn += 1;
    const [place, event] = [turn, chance(SEED, turn, 'event')];
    const onward = async () => {
      const to = workers[Math.floor(chance(SEED, place, 'worker') * workers.length)];
      const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => name.startsWith('webhook-')));
      const passed = to && fetch(to.said + request.url?.slice(1), { method: 'POST', headers: /** @type {Record<string, string>} */ (headers), body });
      return (await passed?.catch(() => undefined))?.status ?? 503;
    };
    if (event < faults / 4) return response.writeHead(204).end();
    if (event < faults / 2) await pause(event * 4_000);
    if (event > 1 - faults / 2) await onward();
    return response.writeHead(await onward()).end();
  });
  await once(entrance.listen(0, '127.0.0.1'), 'listening');
  const at = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (entrance.address()).port}`;
  const share = String(faults / 4);
  const lossy = faults > 0 ? ['sandbox', '--faults', `lose-answers=${share},503=${share}`] : undefined;
  const stack = await startStack({ RUST_LOG: 'error' }, ['--user-withdrawals', '--webhook-url', `${at}/`, '--webhook-secret', SECRET ?? ''], lossy);
  const folder = mkdtempSync(join(tmpdir(), 'hongbao-payout-'));
  const log = openSync(join(folder, 'log'), 'a');
  const worker = (/** @type {string} */ PROVIDER_URL, /** @type {number} */ sweepS) => {
    const secrets = { WEBHOOK_SECRET: SECRET ?? '', PROVIDER_SECRET: PROVIDER_SECRET ?? '' };
    const times = { SWEEP_S: String(sweepS), PROVIDER_TIMEOUT_S: '1' };
    const env = { HONGBAO_URL: `${stack.url}/`, PROVIDER_URL: `${PROVIDER_URL}/`, DEPLOYMENT: deployment, ...secrets, ...times, PORT: '0', PYTHONDONTWRITEBYTECODE: '1' };
    return start(repository('.tools/clients/bin/python'), ['examples/payout.py'], { cwd: repository('.'), env, stderr: log }, /payout listens at (\S+)/);
  };
  const api = apiOf(stack.url);
  /** Asks until there is an answer. @param {string} method @param {string} path @param {unknown} [body] @param {string} [user] */
  const ask = async (method, path, body, user = 'operator') => {
    for (;;) {
      const answer = await api(user, method, path, body).catch(() => ({ code: 'unavailable' }));
      if (answer.code !== 'unavailable') return answer;
      await pause(20);
    }
  };
  /** All rows of a list. @param {string} path @param {string} rows */
  const list = async (path, rows) => {
    const all = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await ask('GET', `${path}${path.includes('?') ? '&' : '?'}limit=100${cursor && `&cursor=${cursor}`}`);
      all.push(...page[rows]);
      cursor = page.next_cursor;
    }
    return all;
  };
  const reported = () => readFileSync(join(folder, 'log'), 'utf8').split('\n');
  const stop = async () => {
    await Promise.all(workers.map((each) => each.stop()));
    await stack.stop();
    entrance.closeAllConnections();
    await new Promise((resolve) => entrance.close(resolve));
    closeSync(log);
    const surprises = reported().filter((line) => SURPRISES.test(line));
    rmSync(folder, { recursive: true });
    assert.deepEqual(surprises, [], 'what the workers report');
  };
  return { at, workers, worker, ask, list, ends, reported, stop };
}

test('only a final answer of the provider ends a withdrawal, and an old event pays nothing', async () => {
  const { workers, worker, ask, reported, stop } = await company(0);
  const provider = new Provider(SEED);
  try {
    const AMOUNT = 500;
    const final = { status: 'paid', paid: AMOUNT, afterMs: 0 };
    /** @type {Record<string, [import('./provider.mjs').Fate, string, number | null]>} */
    const cases = {
      paid: [final, 'posted', AMOUNT],
      partial: [{ ...final, status: 'partial', paid: 1 }, 'posted', 1],
      less: [{ ...final, paid: 499 }, 'posted', 499],
      failed: [{ ...final, status: 'failed', paid: 0 }, 'voided', 0],
      cancelled: [{ ...final, status: 'cancelled', paid: 0 }, 'voided', 0],
      rejected: [{ ...final, status: 'rejected', paid: 0 }, 'voided', 0],
      closed: [{ ...final, status: 'closed', paid: 0 }, 'voided', 0],
      waits: [{ ...final, afterMs: 2 ** 30 }, 'pending', null],
      unknown: [{ ...final, status: 'reversed', paid: 0 }, 'pending', null],
      'paid-nothing': [{ ...final, paid: 0 }, 'pending', null],
      'paid-more': [{ ...final, says: { paid_amount: AMOUNT + 1 } }, 'pending', null],
      'failed-but-paid': [{ ...final, status: 'failed' }, 'pending', null],
      text: [{ ...final, says: { paid_amount: '500' } }, 'pending', null],
      fraction: [{ ...final, says: { paid_amount: 499.5 } }, 'pending', null],
      missing: [{ ...final, status: 'failed', paid: 0, says: { paid_amount: null } }, 'pending', null],
      'another-number': [{ ...final, status: 'failed', paid: 0, says: { number: 'a' } }, 'pending', null],
      'another-note': [{ ...final, says: { attach: 'shop/prod/tg:7&+/another-note' } }, 'pending', null],
      'another-amount': [{ ...final, says: { amount: AMOUNT + 1 } }, 'pending', null],
      'in-an-error': [{ ...final, status: 'failed', paid: 0, code: 500 }, 'pending', null],
      'in-a-refusal': [{ ...final, status: 'failed', paid: 0, code: 400 }, 'pending', null],
    };
    // A user's id may have characters that a path must escape.
    const wishes = Object.keys(cases).map((id) => ({ user: 'tg:7&+', id, amount: AMOUNT }));
    const user = encodeURIComponent('tg:7&+');
    for (const wish of wishes) provider.fates.set(numberOf(nameOf(wish)), cases[wish.id]?.[0] ?? assert.fail());
    await ask('PUT', `/wallets/${user}/deposits/d`, { amount: AMOUNT * wishes.length });
    const url = await provider.start();
    workers.push(await worker(url, 0.2), await worker(url, 0.2));
    for (const { id } of wishes) assert.equal((await ask('PUT', pathOf({ user, id }), { amount: AMOUNT, pending: true })).status, 'pending', id);
    const asked = (/** @type {Wish} */ wish) => provider.asked.get(numberOf(nameOf(wish))) ?? 0;
    for (const wish of wishes) {
      const [, status, posted] = cases[wish.id] ?? assert.fail();
      const look = () => ask('GET', pathOf({ user, id: wish.id }));
      // What stays pending is asked about again and again.
      await until(async () => (status === 'pending' ? asked(wish) > 3 : (await look()).status === status));
      const { status: is, posted_amount } = await look();
      assert.deepEqual([is, posted_amount], [status, posted], wish.id);
    }
    for (const wish of wishes) assert.equal(provider.transfers.get(numberOf(nameOf(wish)))?.number, numberOf(nameOf(wish)), wish.id);
    assert.equal(provider.transfers.size, wishes.length, 'no other number');
    // An answer that contradicts itself is a person's business; one that is missing is not.
    const isQuiet = (/** @type {string} */ id) => ['waits', 'in-an-error', 'in-a-refusal'].includes(id) || cases[id]?.[1] !== 'pending';
    const alarmed = new Set(reported().flatMap((line) => /ERROR.*tg:7&\+\/(\S+): a person must look/.exec(line)?.[1] ?? []));
    assert.deepEqual([...alarmed].sort(), Object.keys(cases).filter((id) => !isQuiet(id)).sort());

    /** Delivers an event. @param {string} type @param {string} withdrawal_id @param {{key?: string, at?: number}} [forged] */
    const deliver = async (type, withdrawal_id, { key = KEY, at = Date.now() } = {}) => {
      const event = { type, timestamp: new Date(at).toISOString(), data: { user_id: 'tg:7&+', withdrawal_id } };
      return (await fetch(workers[0]?.said ?? '', signed(JSON.stringify(event), key, at))).status;
    };
    const ended = wishes[0] ?? assert.fail();
    const before = asked(ended);
    // The provider has forgotten the number: it would pay again.
    provider.transfers.delete(numberOf(nameOf(ended)));
    assert.equal(await deliver('WithdrawalRequested', ended.id), 204);
    assert.equal(await deliver('WithdrawalRequested', ended.id, { key: 'another key' }), 401);
    assert.equal(await deliver('WithdrawalRequested', ended.id, { at: Date.now() - 400_000 }), 401);
    assert.equal(await deliver('WithdrawalThawed', ended.id), 204, 'an event of a later version');
    // Whatever was doubtful is asked about until it is final.
    for (const wish of wishes) Object.assign(provider.transfers.get(numberOf(nameOf(wish)))?.fate ?? {}, final, { says: {}, code: 200 });
    const waits = provider.transfers.get(numberOf(`tg:7&+/waits`)) ?? assert.fail();
    waits.isFinal = true;
    for (const { id } of wishes) await until(async () => (await ask('GET', pathOf({ user, id }))).status !== 'pending');
    assert.equal(asked(ended), before, 'nobody asks about what has ended');
    assert.equal((await ask('GET', `/wallets/${user}`)).pending, 0);
  } finally {
    await provider.stop();
    await stop();
  }
});

test('a payee learns what to open, and one who does not in time has the money back and knows why', async () => {
  const { workers, worker, ask, stop } = await company(0);
  const provider = new Provider(SEED);
  try {
    const [opened, missed] = ['opened', 'missed'].map((id) => ({ user: 'ann', id, amount: 300 }));
    if (!opened || !missed) assert.fail();
    for (const [wish, afterMs] of /** @type {const} */ ([[opened, 2 ** 30], [missed, 1_500]])) {
      provider.fates.set(numberOf(nameOf(wish)), { status: 'closed', paid: 0, afterMs, waits: true });
    }
    const url = await provider.start();
    workers.push(await worker(url, 0.2));
    await ask('PUT', '/wallets/ann/deposits/d', { amount: 600 });
    for (const wish of [opened, missed]) await ask('POST', '/me/withdrawals', { id: wish.id, amount: wish.amount }, 'ann');
    const told = () => new Map(workers[0]?.printed.map((line) => JSON.parse(line)).map(({ withdrawal, package_info }) => [withdrawal, package_info]));
    await until(async () => told().size === 2);
    assert.equal((await ask('GET', pathOf(opened))).status, 'pending', 'nobody has opened it');
    provider.confirm(told().get('ann/opened'));
    await until(async () => (await ask('GET', pathOf(opened))).status === 'posted');
    await until(async () => (await ask('GET', pathOf(missed))).status === 'voided');
    assert.equal((await ask('GET', pathOf(missed))).void_reason, 'You did not confirm it in time.');
    const { balance, pending } = await ask('GET', '/wallets/ann');
    assert.deepEqual([balance, pending], [300, 0]);
  } finally {
    await provider.stop();
    await stop();
  }
});

test('two deployments with one account at the provider each pay a withdrawal of the same name', async () => {
  const provider = new Provider(SEED);
  const names = ['shop-dev', 'shop-prod'];
  const companies = await Promise.all(names.map((name) => company(0, name)));
  try {
    const url = await provider.start();
    const wish = { user: 'ann', id: 'w1', amount: 500 };
    for (const name of names) provider.fates.set(numberOf(nameOf(wish), name), { status: 'paid', paid: 500, afterMs: 0 });
    for (const { ask, workers, worker } of companies) {
      await ask('PUT', '/wallets/ann/deposits/d', { amount: 500 });
      await ask('PUT', pathOf(wish), { amount: 500, pending: true });
      workers.push(await worker(url, 0.2));
    }
    for (const { ask } of companies) await until(async () => (await ask('GET', pathOf(wish))).status === 'posted');
    assert.deepEqual([...provider.paid.values()], [500, 500], 'two withdrawals, two payments');
    assert.deepEqual([...provider.transfers.values()].map(({ attach }) => attach).sort(), ['shop-dev/ann/w1', 'shop-prod/ann/w1']);
  } finally {
    await provider.stop();
    await Promise.all(companies.map(({ stop }) => stop()));
  }
});

test('a suspended user’s withdrawal is held back until the suspension is lifted, unless the provider knows it', async () => {
  const { workers, worker, ask, reported, stop } = await company(0);
  const provider = new Provider(SEED);
  try {
    const [known, unknown] = ['known', 'unknown'].map((id) => ({ user: 'eve', id, amount: 300 }));
    if (!known || !unknown) assert.fail();
    for (const wish of [known, unknown]) provider.fates.set(numberOf(nameOf(wish)), { status: 'paid', paid: 300, afterMs: 0 });
    const url = await provider.start();
    await ask('PUT', '/wallets/eve/deposits/d', { amount: 600 });
    for (const wish of [known, unknown]) await ask('PUT', pathOf(wish), { amount: 300, pending: true });
    // A worker asked for it, and was killed.
    await fetch(`${url}/transfers/${numberOf(nameOf(known))}`, { method: 'PUT', body: JSON.stringify({ amount: 300, attach: `${DEPLOYMENT}/${nameOf(known)}` }) });
    await ask('PUT', '/operator/users/eve/suspension', { reason: 'a test' });
    workers.push(await worker(url, 0.2));
    await until(async () => (await ask('GET', pathOf(known))).status === 'posted');
    await until(async () => reported().some((line) => line.endsWith('eve/unknown: held back, the user is suspended')));
    assert.deepEqual([...provider.asked.keys()], [numberOf(nameOf(known))], 'nobody asks for the other');
    assert.equal((await ask('GET', pathOf(unknown))).status, 'pending');
    await ask('DELETE', '/operator/users/eve/suspension');
    await until(async () => (await ask('GET', pathOf(unknown))).status === 'posted');
  } finally {
    await provider.stop();
    await stop();
  }
});

test('a notice counts only with the provider’s signature, and nothing long is read', async () => {
  const { workers, worker, ask, stop } = await company(0);
  const provider = new Provider(SEED);
  try {
    const url = await provider.start();
    const wish = { user: 'ann', id: 'w1', amount: 500 };
    provider.fates.set(numberOf(nameOf(wish)), { status: 'paid', paid: 500, afterMs: 0 });
    await ask('PUT', '/wallets/ann/deposits/d', { amount: 500 });
    await ask('PUT', pathOf(wish), { amount: 500, pending: true });
    // It does not sweep while the test runs.
    workers.push(await worker(url, 1_000));
    const at = workers[0]?.said ?? '';
    const post = async (/** @type {string} */ path, /** @type {RequestInit} */ what) => (await fetch(at + path, what).catch(() => ({ status: 0 }))).status;
    const notice = (/** @type {string} */ attach) => JSON.stringify({ attach });
    assert.equal(await post('provider', { method: 'POST', body: notice(`${DEPLOYMENT}/ann/w1`) }), 401);
    const event = JSON.stringify({ type: 'WithdrawalRequested', data: { user_id: 'ann', withdrawal_id: 'w1' } });
    assert.equal(await post('', signed(event, KEY)), 204);
    await until(async () => (await ask('GET', pathOf(wish))).status === 'posted');
    assert.equal(await post('provider', signed(notice(`${DEPLOYMENT}/ann/w1`), PROVIDERS_KEY)), 204);
    assert.equal(await post('provider', signed(notice('shop/prod/ann/w1'), PROVIDERS_KEY)), 204, 'of another deployment');
    assert.equal(await post('provider', signed(notice(`${DEPLOYMENT}/ann/w1`), KEY)), 401, 'the key of the events');
    assert.equal(await post('', signed(event, PROVIDERS_KEY)), 401, 'the key of the notices');
    for (const length of ['-1', '65537', '1e3', '']) assert.equal(await statusOf(at, ['Content-Length: ' + length]), 413, length);
    assert.equal(await statusOf(at, []), 413, 'of no length');
  } finally {
    await provider.stop();
    await stop();
  }
});

test(`workers that are killed at random end each withdrawal once, with what the provider paid (seed ${SEED})`, async (t) => {
  const { at, workers, worker, ask, list, ends, stop } = await company(FAULTS);
  const provider = new Provider(SEED, { faults: FAULTS, waitMs: SIZE.waitMs, notices: `${at}/provider`, key: PROVIDERS_KEY });
  let isOver = false;
  let kills = 0;
  /** @type {Promise<void>[]} */
  const background = [];
  try {
    const url = await provider.start();
    /** @type {Wish[]} */
    const wishes = Array.from({ length: SIZE.withdrawals }, (_, place) => ({ user: `user-${place % SIZE.users}`, id: `w${place}`, amount: 1 + Math.floor(chance(SEED, place) * 5_000) }));
    const users = [...new Set(wishes.map(({ user }) => user))];
    const REST = 17;
    const deposited = new Map(users.map((user) => [user, REST + sum(wishes.filter((wish) => wish.user === user).map(({ amount }) => amount))]));
    for (const [user, amount] of deposited) await ask('PUT', `/wallets/${user}/deposits/d`, { amount });
    workers.push(...(await Promise.all(Array.from({ length: SIZE.workers }, () => worker(url, SIZE.sweepS)))));

    const kill = async () => {
      while (!isOver && kills < SIZE.killsMax) {
        await pause(SIZE.killMs * 2 * chance(SEED, kills, 'when'));
        const place = Math.floor(chance(SEED, kills, 'whom') * workers.length);
        kills += 1;
        await workers[place]?.stop('SIGKILL');
        workers[place] = await worker(url, SIZE.sweepS);
      }
    };
    const paidTo = (/** @type {string} */ user) => sum([...provider.transfers.values()].map(({ number, attach }) => (attach.startsWith(`${DEPLOYMENT}/${user}/`) ? (provider.paid.get(number) ?? 0) : 0)));
    /** @type {string[]} */
    const wrong = [];
    const watch = async () => {
      for (let look = 0; !isOver; look += 1) {
        const user = users[look % users.length] ?? '';
        const { balance, pending } = await ask('GET', `/wallets/${user}`);
        // The provider's count is read later, so it has at least what was posted.
        const left = (deposited.get(user) ?? 0) - balance - pending;
        if (balance < REST || pending < 0 || left < 0 || left > paidTo(user)) wrong.push(`${user}: balance ${balance}, pending ${pending}, left ${left}, paid ${paidTo(user)}`);
        await pause(50);
      }
    };
    const request = async (/** @type {number} */ first) => {
      for (let place = first; place < wishes.length; place += 8) {
        const { user, id, amount } = wishes[place] ?? assert.fail();
        // Every fourth one is the user's own, unless too many of theirs are pending.
        const asked = place % 4 === 0 ? await ask('POST', '/me/withdrawals', { id, amount }, user) : undefined;
        const { withdrawal_id } = asked?.withdrawal_id ? asked : await ask('PUT', pathOf({ user, id }), { amount, pending: true });
        assert.equal(withdrawal_id, id, `${user}/${id}`);
      }
    };
    background.push(kill(), watch());
    await Promise.all(Array.from({ length: 8 }, (_, first) => request(first)));
    await until(async () => sum(await Promise.all(users.map(async (user) => (await ask('GET', `/wallets/${user}`)).pending))) === 0, SIZE.withinMs);
    isOver = true;
    await Promise.all(background);
    assert.deepEqual(await list('/operator/withdrawals?state=pending', 'withdrawals'), []);

    let [posted, voided, partial] = [0, 0, 0];
    /** @type {Map<string, number>} */
    const postedOf = new Map();
    for (const wish of wishes) {
      const { status, posted_amount } = await ask('GET', pathOf(wish));
      const paid = provider.paid.get(numberOf(nameOf(wish))) ?? 0;
      assert.deepEqual([status, posted_amount], [paid > 0 ? 'posted' : 'voided', paid], nameOf(wish));
      postedOf.set(nameOf(wish), posted_amount);
      if (paid === 0) voided += 1;
      else if (paid < wish.amount) partial += 1;
      else posted += 1;
    }
    assert.equal(sum([...provider.paid.values()]), sum([...postedOf.values()]), 'what the provider paid is what is posted');
    assert.deepEqual([...provider.transfers.keys()].sort(), wishes.map((wish) => numberOf(nameOf(wish))).sort(), 'the provider knows one number for each withdrawal');
    for (const [name, each] of ends) assert.equal(each.size, 1, `${name} ended as ${[...each]}`);
    assert.deepEqual(wrong, []);
    for (const user of users) {
      const own = wishes.filter((wish) => wish.user === user);
      const { balance, pending } = await ask('GET', `/wallets/${user}`);
      assert.deepEqual([balance, pending], [(deposited.get(user) ?? 0) - sum(own.map((wish) => postedOf.get(nameOf(wish)) ?? 0)), 0], user);
      const movements = await list(`/wallets/${user}/movements`, 'movements');
      assert.equal(sum(movements.map(({ amount }) => amount)), balance, user);
      const rows = movements.filter(({ kind }) => kind !== 'deposit').map(({ kind, id, amount }) => `${kind} ${id} ${amount}`);
      const expected = own.flatMap((wish) => {
        const back = wish.amount - (postedOf.get(nameOf(wish)) ?? 0);
        return [`withdrawal ${wish.id} ${-wish.amount}`, ...(back > 0 ? [`return ${wish.id} ${back}`] : [])];
      });
      assert.deepEqual(rows.sort(), expected.sort(), `${user}: each withdrawal gives back once what was not paid`);
    }
    const seen = [...provider.seen].map(([what, times]) => `${what} ${times}`).sort().join(', ');
    t.diagnostic(`${posted} posted, ${partial} in part, ${voided} voided; ${kills} kills; the provider: ${seen}`);
    assert.ok(kills > 3 && posted > 0 && partial > 0 && voided > 0, `${kills} kills, ${posted}, ${partial}, ${voided}`);
  } finally {
    isOver = true;
    await Promise.allSettled(background);
    await provider.stop();
    await stop();
  }
});
