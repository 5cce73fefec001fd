// The send screen: a form that shows its limits before the user exceeds them, and a send that takes effect once.

import { Problem, newKey } from '../client/hongbao.js';
import { api, config, decimal, me, minorUnits, money, number, setCurrency, symbol } from './context.js';
import { h, say } from './dom.js';
import { envelope } from './envelope.js';
import { t } from './i18n.js';
import { explain } from './problems.js';
import { isUserId } from './session.js';

/** @typedef {import('../client/hongbao.js').SendRequest} SendRequest */
/** @typedef {{key: string, body: SendRequest}} Pending */
/** @typedef {import('./i18n.js').Key} Key */

const CHARS_MAX = 64;
const RECIPIENTS_MAX = 500;
const EXPIRY_DEFAULT_S = 86_400;
const TOP_UP = 100_000;
// Emoji, whose joiners and selectors stay; or what the service refuses in a greeting: invisible characters and controls of
// direction. People paste those without knowing.
const EMOJI_OR_HIDDEN = /(\p{Emoji}[\ufe0e\ufe0f]?(?:\u200d\p{Emoji}[\ufe0e\ufe0f]?)*)|[\p{Cc}\p{Co}\p{DI}\p{Zl}\p{Zp}]/gu;

// The send that has no answer yet, with its key. After a reload the page retries it with the same key.
const pendingName = () => `hongbao.sending.${me()}`;
/** @returns {Pending | null} */
const pending = () => JSON.parse(sessionStorage.getItem(pendingName()) ?? 'null');
/** @param {Pending} send */
const keep = (send) => sessionStorage.setItem(pendingName(), JSON.stringify(send));
const drop = () => sessionStorage.removeItem(pendingName());

/** @param {HTMLElement} root @param {AbortSignal} signal */
export async function sendScreen(root, signal) {
  const wallet = await api.wallet({ signal });
  if (signal.aborted) return;
  setCurrency(wallet.currency);
  const form = new Form(root, signal, wallet.balance);
  const left = pending();
  if (left) await form.send(left);
}

class Form {
  /** @param {HTMLElement} root @param {AbortSignal} signal @param {number} balance */
  constructor(root, signal, balance) {
    this.signal = signal;
    this.balance = balance;
    this.isBusy = false;
    this.split = /** @type {'random' | 'equal'} */ ('random');
    this.count = input('count', { inputmode: 'numeric', value: '10', maxlength: 6 });
    this.total = input('total', { inputmode: 'decimal', placeholder: decimal(8800), maxlength: 16 });
    this.greeting = input('greeting', { placeholder: t('send.greeting.default'), autocomplete: 'off' });
    this.passphrase = input('passphrase', { autocomplete: 'off' });
    this.recipients = h('textarea', { id: 'recipients', name: 'recipients', rows: 2, spellcheck: 'false', autocapitalize: 'off' });
    this.expiry = h(
      'select',
      { id: 'expiry', name: 'expiry' },
      ...(config.local ? [10] : []).concat([600, 3_600, EXPIRY_DEFAULT_S, 259_200]).map((seconds) =>
        h('option', { value: seconds, selected: seconds === EXPIRY_DEFAULT_S }, t(/** @type {Key} */ (`send.expiry.${seconds}`))),
      ),
    );
    this.submit = h('button', { class: 'button wide', type: 'submit' });
    this.state = h('div', { class: 'state', role: 'status' });
    this.balanceLine = h('p', { class: 'balance' });
    this.splitHint = h('p', { class: 'hint' });
    this.preview = h('div', { class: 'preview', role: 'img', 'aria-label': t('send.preview') });
    this.amountShown = h('p', { class: 'amount', 'aria-hidden': 'true' });
    this.#draw(root);
    this.#update();
  }

  /** @param {HTMLElement} root */
  #draw(root) {
    const kinds = /** @type {const} */ (['random', 'equal']);
    const split = h(
      'fieldset',
      { class: 'segments' },
      h('legend', { class: 'unseen' }, t('send.split')),
      ...kinds.map((kind) =>
        h(
          'label',
          null,
          h('input', {
            type: 'radio',
            name: 'split',
            value: kind,
            checked: kind === this.split,
            onChange: () => {
              this.split = kind;
              this.#update();
            },
          }),
          h('span', null, t(`send.${kind}`)),
        ),
      ),
    );
    const form = h(
      'form',
      { class: 'card form', novalidate: true },
      split,
      this.splitHint,
      this.balanceLine,
      field('total', t('send.total'), h('span', { class: 'money' }, h('span', { 'aria-hidden': 'true' }, symbol()), this.total)),
      field('count', t('send.count'), this.count),
      field('greeting', t('send.greeting'), this.greeting),
      h(
        'details',
        { class: 'more' },
        h('summary', null, t('send.more')),
        field('expiry', t('send.expiry'), this.expiry, t('send.refund')),
        field('passphrase', t('send.passphrase'), this.passphrase),
        field('recipients', t('send.recipients'), this.recipients),
      ),
      this.amountShown,
      this.submit,
      this.state,
    );
    form.addEventListener('input', () => this.#update());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    root.append(
      h('section', { class: 'send' }, h('div', null, h('h1', null, t('send.title')), form), h('aside', null, this.preview)),
    );
  }

  /** The greeting that is sent; empty if the user wrote none. */
  #cleanGreeting() {
    return this.greeting.value.replace(EMOJI_OR_HIDDEN, '$1');
  }

  /** Reads the form. `wrong` has a message for each invalid field. */
  #read() {
    /** @type {Map<string, string>} */
    const wrong = new Map();
    const { slip_amount_max: slipMax, count_max: countMax } = config.limits;
    const countText = this.count.value.trim();
    const count = /^\d+$/.test(countText) ? Number(countText) : Number.NaN;
    const isCount = count >= 1 && count <= countMax;
    if (!isCount) wrong.set('count', t('send.bad.count', { most: number(countMax) }));
    const total = minorUnits(this.total.value);
    if (total === null) {
      if (this.total.value.trim()) wrong.set('total', t('send.bad.amount'));
    } else if (isCount && total < count) {
      wrong.set('total', t('send.bad.least', { least: money(count), unit: money(1) }));
    } else if (isCount && total > count * slipMax) {
      wrong.set('total', t('send.bad.most', { most: money(count * slipMax), slip: money(slipMax) }));
    } else if (total > this.balance) {
      wrong.set('total', t('send.bad.balance', { short: money(total - this.balance) }));
    }
    // The service normalises a passphrase before it measures it.
    const passphrase = this.passphrase.value.normalize('NFKC').trim();
    for (const [name, text] of /** @type {const} */ ([['greeting', this.#cleanGreeting()], ['passphrase', passphrase]])) {
      if ([...text].length > CHARS_MAX) wrong.set(name, t('send.bad.chars'));
    }
    const recipients = [...new Set(this.recipients.value.split(/[\s,，、;；]+/).filter(Boolean))];
    const bad = recipients.find((name) => !isUserId(name));
    if (bad !== undefined) wrong.set('recipients', t('send.bad.recipients', { name: bad }));
    else if (recipients.length > RECIPIENTS_MAX) wrong.set('recipients', t('send.bad.recipients.many'));
    return { wrong, total, count: isCount ? count : null, passphrase, recipients };
  }

  #update() {
    const { slip_amount_max: slipMax, count_max: countMax } = config.limits;
    const { wrong, total, count, recipients } = this.#read();
    const limits = { least: money(count ?? 1), most: money((count ?? 1) * slipMax), slip: money(slipMax) };
    const each = total !== null && count !== null && !wrong.has('total') ? t('send.each', { each: money(Math.floor(total / count)) }) : '';
    const greetingLeft = CHARS_MAX - [...this.#cleanGreeting()].length;
    /** @type {Record<string, string>} */
    const hints = {
      total: t('send.total.hint', limits) + (each && ` · ${each}`),
      count: t('send.count.hint', { most: number(countMax) }),
      greeting: t('send.left', { left: greetingLeft }),
      passphrase: t('send.passphrase.hint'),
      recipients: t('send.recipients.hint') + (recipients.length ? ` · ${t('send.recipients.count', { count: recipients.length })}` : ''),
    };
    for (const [name, hint] of Object.entries(hints)) mark(name, wrong.get(name), hint);
    this.splitHint.textContent = t(`send.${this.split}.hint`);
    const amount = total ?? 0;
    this.amountShown.textContent = money(amount);
    const isReady = total !== null && total > 0 && wrong.size === 0;
    this.submit.textContent = isReady ? t('send.submit', { amount: money(amount) }) : t('send.submit.empty');
    this.submit.disabled = !isReady || this.isBusy;
    this.#showBalance(isReady ? amount : 0);
    const greeting = this.#cleanGreeting() || t('send.greeting.default');
    const seal = h('span', { class: 'coin', 'aria-hidden': 'true' }, t('grab.open'));
    this.preview.replaceChildren(envelope({ sender: me(), from: t('grab.from', { sender: me() }), greeting, seal }));
  }

  /** @param {number} amount */
  #showBalance(amount) {
    const rest = amount > 0 && h('small', null, t('send.after', { left: money(this.balance - amount) }));
    const topUp =
      config.local &&
      h('button', { class: 'link', type: 'button', title: t('topup.hint'), onClick: () => void this.#topUp() }, t('topup', { amount: money(TOP_UP) }));
    // The line is drawn again; its button keeps the focus.
    const hadFocus = this.balanceLine.contains(document.activeElement);
    this.balanceLine.replaceChildren(h('span', null, `${t('send.balance')} `, h('strong', null, money(this.balance)), rest), topUp || '');
    if (hadFocus) this.balanceLine.querySelector('button')?.focus();
  }

  /** Reads the balance again: the user may have spent from it elsewhere. */
  async #readBalance() {
    try {
      this.balance = (await api.wallet({ signal: this.signal })).balance;
      this.#update();
    } catch (error) {
      if (!this.signal.aborted) say(explain(error).title);
    }
  }

  async #topUp() {
    try {
      this.balance = (await api.deposit(me(), newKey(), TOP_UP, { signal: this.signal })).balance;
      say(t('topup.done', { amount: money(TOP_UP) }));
      this.#update();
    } catch (error) {
      if (!this.signal.aborted) say(explain(error).title);
    }
  }

  #submit() {
    const { wrong, total, count, passphrase, recipients } = this.#read();
    if (this.isBusy || wrong.size > 0 || total === null || count === null) return;
    /** @type {SendRequest} */
    const body = {
      split: this.split,
      total_amount: total,
      count,
      greeting: this.#cleanGreeting() || t('send.greeting.default'),
      expires_in_s: Number(this.expiry.value),
      ...(passphrase && { passphrase }),
      ...(recipients.length > 0 && { recipients }),
    };
    void this.send({ key: newKey(), body });
  }

  /** @param {Pending} send */
  async send(send) {
    this.isBusy = true;
    this.submit.disabled = true;
    this.submit.textContent = t('send.sending');
    this.state.replaceChildren();
    keep(send);
    try {
      // Without the screen's signal: the page needs the answer of a send even if another screen is shown.
      const { packet } = await api.send(send.body, { key: send.key });
      drop();
      const some = send.body.recipients ? '1' : '';
      sessionStorage.setItem(`hongbao.sent.${packet.packet_id}`, JSON.stringify({ ...packet, some }));
      // Replaces the form in the history, so that "back" does not return to a filled form.
      location.replace(`#/sent/${packet.packet_id}`);
    } catch (error) {
      this.#failed(send, error);
    }
  }

  /** @param {Pending} send @param {unknown} error */
  #failed(send, error) {
    const { title, text } = explain(error);
    if (error instanceof Problem && error.status < 500 && error.code !== 'too-many-requests') {
      // A final refusal: nothing was sent.
      drop();
      this.isBusy = false;
      const reasons = error.errors.map(({ field: name, reason }) => `${name}: ${reason}`).join('; ');
      const isPoor = error.code === 'insufficient-balance';
      this.state.replaceChildren(h('p', { class: 'bad' }, isPoor ? t('send.bad.poor') : reasons || `${title}. ${text}`));
      this.#update();
      if (isPoor) void this.#readBalance();
      return;
    }
    this.submit.textContent = t('send.submit.empty');
    this.state.replaceChildren(
      h('p', { class: 'bad' }, t('send.unknown')),
      h(
        'p',
        { class: 'row' },
        h('button', { class: 'button', type: 'button', onClick: () => void this.send(send) }, t('retry')),
        h('button', { class: 'link', type: 'button', title: t('send.forget.hint'), onClick: () => this.#forget() }, t('send.forget')),
      ),
      h('p', { class: 'hint' }, t('send.forget.hint')),
    );
  }

  #forget() {
    drop();
    this.isBusy = false;
    this.state.replaceChildren();
    this.#update();
  }
}

/** @param {string} id @param {import('./dom.js').Props} more */
function input(id, more) {
  return h('input', { id, name: id, autocomplete: 'off', 'aria-describedby': `${id}-hint`, ...more });
}

/** @param {string} id @param {string} label @param {Node} control @param {string} [hint] */
function field(id, label, control, hint = '') {
  return h(
    'div',
    { class: 'field' },
    h('label', { for: id }, label),
    control,
    h('p', { class: 'hint', id: `${id}-hint` }, hint),
  );
}

/** @param {string} id @param {string | undefined} wrong @param {string} hint */
function mark(id, wrong, hint) {
  const control = document.getElementById(id);
  const line = document.getElementById(`${id}-hint`);
  if (!control || !line) return;
  control.setAttribute('aria-invalid', String(wrong !== undefined));
  control.setAttribute('aria-describedby', `${id}-hint`);
  line.textContent = wrong ?? hint;
  line.classList.toggle('bad', wrong !== undefined);
}
