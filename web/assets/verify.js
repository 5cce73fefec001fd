// The verify screen: the browser computes the split again and compares it with the claims.

import { api, money, number, setCurrency } from './context.js';
import { h, say } from './dom.js';
import { t } from './i18n.js';
import { person } from './people.js';
import { problemNotice } from './problems.js';
import { SplitError, seedFromHex, verify } from './split.js';

/** The most rows that the table shows. All slips are checked. */
const ROWS_MAX = 500;

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
export async function verifyScreen(root, signal, packetId = '') {
  const id = h('input', { id: 'packet', value: packetId, required: true, spellcheck: 'false', autocomplete: 'off' });
  const result = h('div', { class: 'verdict', role: 'status' });
  const form = h(
    'form',
    { class: 'card form' },
    h('div', { class: 'field' }, h('label', { for: 'packet' }, t('verify.packet')), id),
    h('button', { class: 'button wide', type: 'submit' }, t('verify.run')),
  );
  const run = async () => {
    const wanted = /([0-9A-HJKMNP-TV-Z]{26})\s*$/i.exec(id.value)?.[1]?.toUpperCase() ?? id.value.trim();
    result.replaceChildren(h('p', { class: 'waiting' }, t('verify.running')));
    try {
      await check(result, signal, wanted);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof SplitError) result.replaceChildren(h('p', { class: 'bad' }, t(`verify.error.${error.reason}`)));
      else result.replaceChildren(problemNotice(error, () => void run(), signal));
    }
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (id.value.trim()) void run();
  });
  root.append(
    h('section', { class: 'verify-screen' }, h('h1', null, t('verify.title')), h('p', { class: 'lead' }, t('verify.lead')), form, result, h('p', { class: 'hint' }, t('verify.not'))),
  );
  if (packetId) await run();
}

/**
 * @param {HTMLElement} result
 * @param {AbortSignal} signal
 * @param {string} packetId
 * @param {Pick<typeof api, 'packet' | 'allClaims'>} [source] where the packet and its claims are read
 */
export async function check(result, signal, packetId, source = api) {
  if (!globalThis.crypto?.subtle) return result.replaceChildren(h('p', { class: 'bad' }, t('verify.insecure')));
  const packet = await source.packet(packetId, { signal });
  setCurrency(packet.currency);
  if (packet.seed === null) return result.replaceChildren(h('p', { class: 'bad' }, t('verify.early')));
  const claims = [];
  for await (const claim of source.allClaims(packetId, { signal })) claims.push(claim);
  const terms = {
    version: packet.split_version,
    split: /** @type {import('./split.js').Split} */ (packet.split),
    total: BigInt(packet.total_amount),
    count: packet.count,
    cap: BigInt(packet.slip_cap),
    seed: seedFromHex(packet.seed),
  };
  const verdict = await verify(terms, packet.commitment, claims, packet);
  if (signal.aborted) return;
  const title = t(verdict.fair ? 'verify.fair' : 'verify.unfair');
  const checks = /** @type {const} */ ([
    ['verify.check.commitment', verdict.committed],
    ['verify.check.slips', verdict.slips.every((slip) => slip.ok)],
    ['verify.check.complete', verdict.complete],
    ['verify.check.sums', verdict.sums],
  ]);
  result.replaceChildren(
    h(
      'section',
      { class: `card proof ${verdict.fair ? 'fair' : 'unfair'}`, 'data-fair': String(verdict.fair) },
      h('h2', null, h('span', { class: 'stamp', 'aria-hidden': 'true' }, verdict.fair ? '✓' : '✗'), title),
      h('p', null, t(verdict.fair ? 'verify.fair.text' : 'verify.unfair.text')),
      h('ul', { class: 'checks' }, ...checks.map(([key, ok]) => h('li', { class: ok ? 'ok' : 'not' }, h('span', { role: 'img', 'aria-label': t(ok ? 'verify.holds' : 'verify.fails') }, ok ? '✓ ' : '✗ '), t(key)))),
      inputs(packet, verdict.commitment),
      table(verdict.slips),
    ),
  );
  say(title);
}

/**
 * Lists the inputs of the computation and the commitment that they give.
 * @param {import('../client/hongbao.js').Packet} packet
 * @param {string} committed
 */
function inputs(packet, committed) {
  const hex = (/** @type {string | null} */ text) => h('code', { class: 'hex' }, text ?? '');
  const rows = /** @type {[import('./i18n.js').Key, Node | string][]} */ ([
    ['send.split', t(packet.split === 'equal' ? 'send.equal' : 'send.random')],
    ['send.total', money(packet.total_amount)],
    ['send.count', number(packet.count)],
    ['verify.cap', money(packet.slip_cap)],
    ['verify.version', String(packet.split_version)],
    ['verify.seed', hex(packet.seed)],
    ['sent.commitment', hex(committed)],
  ]);
  return h('dl', { class: 'inputs' }, ...rows.flatMap(([name, value]) => [h('dt', null, t(name)), h('dd', null, value)]));
}

/** @param {import('./split.js').Verdict['slips']} slips */
function table(slips) {
  const head = ['verify.slip', 'verify.computed', 'verify.paid', 'verify.to'];
  return h(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': t('verify.computed') },
    h(
      'table',
      null,
      h('thead', null, h('tr', null, ...head.map((key) => h('th', { scope: 'col' }, t(/** @type {import('./i18n.js').Key} */ (key)))))),
      h(
        'tbody',
        null,
        ...slips.slice(0, ROWS_MAX).map(({ slip, amount, paid, user, ok }) =>
          h(
            'tr',
            { class: ok ? null : 'not' },
            h('th', { scope: 'row' }, String(slip + 1)),
            h('td', null, money(amount)),
            h('td', null, paid === null ? '–' : money(paid)),
            h('td', null, user ? person(user) : t('verify.refunded')),
          ),
        ),
      ),
    ),
  );
}
