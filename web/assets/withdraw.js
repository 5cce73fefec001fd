// The form "Withdraw" of the screen "Mine". It asks for money out of the wallet, which takes effect once.

import { Problem, newKey } from '../client/hongbao.js';
import { tab } from './browser.js';
import { api, config, currency, endSession, me, minorDigits, money } from './context.js';
import { h } from './dom.js';
import { language, spoken, t } from './i18n.js';
import { inWords, readAmount, writeAmount } from './input.js';
import { explain, misread } from './problems.js';

/** @typedef {{id: string, amount: number}} Ask */
/** @typedef {{balance: number, pending: number}} Wallet */

const STATEMENT = '#/mine/statement';
/** Shows how an amount is typed. */
const EXAMPLE = 888;
/** What the refusals say that mean something else elsewhere on the page. */
const REFUSALS = /** @type {const} */ ({
  'insufficient-balance': 'withdraw.poor',
  'too-many-pending': 'withdraw.many',
  'idempotency-key-reused': 'withdraw.reused',
  'forbidden': 'withdraw.none',
});

export class WithdrawForm {
  /**
   * @param {number} balance
   * @param {(wallet: Wallet) => void} onWallet receives the wallet after each answer
   * @param {AbortSignal} signal
   */
  constructor(balance, onWallet, signal) {
    this.balance = balance;
    this.onWallet = onWallet;
    this.signal = signal;
    this.isBusy = false;
    /** Where the tab keeps what has no answer yet: after a reload the page asks again with the same id. */
    this.place = `hongbao.withdrawing.${me()}`;
    this.input = h('input', { id: 'withdraw', name: 'withdraw', inputmode: 'decimal', autocomplete: 'off', enterkeyhint: 'done', placeholder: typed(0), 'aria-describedby': 'withdraw-hint' });
    this.hint = h('p', { class: 'hint', id: 'withdraw-hint' });
    this.submit = h('button', { class: 'button', type: 'submit' });
    this.state = h('div', { class: 'state', role: 'status' });
    const { withdrawal_terms: terms = {} } = config;
    const says = typeof terms === 'string' ? terms : spoken(terms);
    this.element = h(
      'form',
      { class: 'card form withdraw', novalidate: true },
      h('div', { class: 'field' }, h('label', { for: 'withdraw' }, t('withdraw.amount')), h('div', { class: 'asks' }, this.input, this.submit), this.hint),
      h('p', { class: 'hint terms', dir: 'auto' }, says ?? t('withdraw.terms')),
      this.state,
    );
    this.element.addEventListener('input', () => this.#update());
    this.element.addEventListener('submit', (event) => {
      event.preventDefault();
      const { amount, wrong } = this.#read();
      if (!this.isBusy && amount && !wrong) void this.#ask({ id: newKey(), amount });
    });
    this.#update();
    const left = this.#left();
    if (left) void this.#ask(left);
  }

  /** @param {number} balance */
  setBalance(balance) {
    this.balance = balance;
    this.#update();
  }

  /** @returns {Ask | null} */
  #left() {
    return JSON.parse(tab.get(this.place) ?? 'null');
  }

  /** Forgets what is answered, unless the user has asked for something else meanwhile. @param {Ask} ask */
  #drop({ id }) {
    if (this.#left()?.id === id) tab.remove(this.place);
  }

  /** @returns {{amount: number | null, wrong: string}} */
  #read() {
    const reading = readAmount(this.input.value, minorDigits(), currency);
    if ('wrong' in reading) return { amount: null, wrong: this.input.value.trim() && misread(reading, typed(EXAMPLE)) };
    const { minor: amount } = reading;
    if (amount > this.balance) return { amount, wrong: t('send.bad.balance', { short: money(amount - this.balance) }) };
    return { amount, wrong: amount < least() ? tooLittle() : '' };
  }

  #range() {
    return this.balance < least() ? tooLittle() : t('withdraw.hint', { least: money(least()), most: money(this.balance) });
  }

  #update() {
    const { amount, wrong } = this.#read();
    // The amount that is being asked for may be gone from the balance already.
    const isBad = wrong !== '' && !this.isBusy;
    this.hint.textContent = isBad ? wrong : amount ? `${money(amount)} · ${inWords(amount, minorDigits(), currency, language())}` : this.#range();
    this.hint.classList.toggle('bad', isBad);
    this.input.setAttribute('aria-invalid', String(isBad));
    this.input.disabled = this.isBusy;
    this.submit.disabled = this.isBusy || isBad || !amount;
    this.submit.textContent = t('withdraw.submit');
  }

  /** @param {Ask} ask */
  async #ask(ask) {
    this.isBusy = true;
    this.input.value = typed(ask.amount);
    this.#update();
    this.submit.textContent = t('withdraw.asking');
    const isKept = tab.set(this.place, JSON.stringify(ask));
    this.state.replaceChildren(isKept ? '' : h('p', { class: 'hint' }, t('withdraw.unkept')));
    try {
      // Without the screen's signal: the page needs the answer even if another screen is shown.
      const wallet = await api.askWithdrawal(ask);
      this.#drop(ask);
      this.#rest('');
      const isListed = location.hash === STATEMENT;
      this.state.replaceChildren(h('p', null, t('withdraw.done', { amount: money(ask.amount) })), isListed ? '' : h('a', { class: 'link', href: STATEMENT }, t('mine.statement')));
      if (!this.signal.aborted) this.onWallet(wallet);
    } catch (error) {
      this.#failed(ask, error, isKept);
    }
  }

  /** Lets the user write again. @param {string} text */
  #rest(text) {
    this.isBusy = false;
    this.input.value = text;
    this.#update();
  }

  /** @param {Ask} ask @param {unknown} error @param {boolean} isKept */
  #failed(ask, error, isKept) {
    if (!(error instanceof Problem) || error.status >= 500 || error.code === 'too-many-requests') return this.#offer(ask, isKept);
    if (error.code === 'unauthenticated') {
      // An earlier answer may have been lost, so it is kept for after the sign-in.
      this.submit.textContent = t('withdraw.submit');
      return this.state.replaceChildren(h('p', { class: 'bad' }, t('signin.again')), h('button', { class: 'button', type: 'button', onClick: endSession }, t('signin.title')));
    }
    this.#drop(ask);
    this.#rest(this.input.value);
    this.state.replaceChildren(...refusal(error));
    if (error.code === 'forbidden') this.element.replaceChildren(this.state);
    void this.#readWallet();
  }

  /** No answer came, so the money may be reserved or not. @param {Ask} ask @param {boolean} isKept */
  #offer(ask, isKept) {
    const forget = () => {
      this.#drop(ask);
      this.#rest('');
      this.state.replaceChildren();
      void this.#readWallet();
    };
    this.submit.textContent = t('withdraw.submit');
    this.state.replaceChildren(
      h('p', { class: 'bad' }, t('withdraw.unknown')),
      h(
        'p',
        { class: 'row' },
        h('button', { class: 'button', type: 'button', onClick: () => void this.#ask(ask) }, t('retry')),
        h('button', { class: 'link', type: 'button', title: t('withdraw.forget.hint'), onClick: forget }, t('send.forget')),
      ),
      h('p', { class: 'hint' }, t('withdraw.forget.hint')),
      isKept ? '' : h('p', { class: 'hint' }, t('withdraw.unkept')),
    );
  }

  /** Reads the wallet again: what refused may have changed it. */
  async #readWallet() {
    // If that fails, the screen stays as it was. The refusal is said.
    const wallet = await api.wallet({ signal: this.signal }).catch(() => null);
    if (wallet && !this.signal.aborted) this.onWallet(wallet);
  }
}

/** The least that users can ask for. A `config.json` of before this limit has none. */
const least = () => config.limits.withdrawal_min ?? 1;
const tooLittle = () => t('withdraw.least', { least: money(least()) });

/** An amount as users type it. @param {number} minor */
const typed = (minor) => writeAmount(minor, minorDigits());

/** @param {Problem} error */
function refusal(error) {
  const { code, errors, limit } = error;
  const known = code in REFUSALS ? REFUSALS[/** @type {keyof typeof REFUSALS} */ (code)] : null;
  if (known) return [h('p', { class: 'bad' }, t(known, { count: limit?.value ?? '' }))];
  const reasons = errors.map(({ field, reason }) => `${field}: ${reason}`).join('; ');
  const { title, text } = explain(error);
  return [h('p', { class: 'bad' }, reasons || title), reasons ? '' : h('p', { class: 'hint' }, text)];
}
