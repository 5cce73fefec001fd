// The send screen: the envelope is the form. It shows greeting, amount and cover while the user changes them, and it is sealed in
// view. A send takes effect once.

import { Problem, newKey } from '../client/hongbao.js';
import { serverNow, tab } from './browser.js';
import { api, config, currency, endSession, me, minorDigits, money, number, setCurrency, symbol } from './context.js';
import { glyphs, h, mayMove, say, sleep } from './dom.js';
import { coin, coverNames, coverOf, dress, envelope, loadCover, redress, sizeOf } from './envelope.js';
import { language, spoken, t } from './i18n.js';
import { cleanGreeting, inWords, readAmount, readCount, writeAmount } from './input.js';
import { explain, misread } from './problems.js';
import { isUserId } from './session.js';

/** @typedef {import('../client/hongbao.js').SendRequest} SendRequest */
/** @typedef {{key: string, body: SendRequest}} Pending */
/** @typedef {import('./i18n.js').Key} Key */
/** @typedef {'total' | 'count' | 'greeting' | 'passphrase' | 'recipients' | 'starts' | 'expiry'} Field */

const CHARS_MAX = 64;
const RECIPIENTS_MAX = 500;
const EXPIRY_DEFAULT_S = 86_400;
const AHEAD_MAX_MS = 7 * 86_400_000;
const TOP_UP = 100_000;
/** Lucky amounts, in hundredths of the currency's main unit. */
const QUICK = [666, 888, 8_800];
/** The coin falls and leaves its mark. */
const SEALING_MS = 420;

// The send that has no answer yet, with its key. After a reload the page retries it with the same key, if the browser has kept it.
const pendingName = () => `hongbao.sending.${me()}`;
/** @returns {Pending | null} */
const pending = () => JSON.parse(tab.get(pendingName()) ?? 'null');
/** @param {Pending} send @returns {boolean} whether a reload finds it */
const keep = (send) => tab.set(pendingName(), JSON.stringify(send));
const drop = () => tab.remove(pendingName());

/** An amount as users type it. @param {number} minor */
const typed = (minor) => writeAmount(minor, minorDigits());
/** A number of hundredths of the currency's main unit, in minor units. @param {number} hundredths */
const hundredthsOf = (hundredths) => Math.round((hundredths * 10 ** minorDigits()) / 100);

/** What the user wrote, while they look at another screen or choose another language. */
const draft = { user: '', split: /** @type {'random' | 'equal'} */ ('random'), cover: 'plain', fields: /** @type {Partial<Record<Field, string>>} */ ({}) };
/** Where the tab keeps it while the user tops up. */
const DRAFT = 'hongbao.draft';
function emptyDraft() {
  tab.remove(DRAFT);
  Object.assign(draft, { user: me(), split: 'random', cover: 'plain', fields: {} });
}

/** @param {HTMLElement} root @param {AbortSignal} signal */
export async function sendScreen(root, signal) {
  if (!draft.user) Object.assign(draft, JSON.parse(tab.get(DRAFT) ?? '{}'));
  if (draft.user !== me()) emptyDraft();
  const [wallet] = await Promise.all([api.wallet({ signal }), ...coverNames().map(loadCover)]);
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
    /** @type {HTMLFormElement | undefined} */
    this.form = undefined;
    // Without a `maxlength`: it would cut digits off a number that is pasted.
    this.count = input('count', { inputmode: 'numeric', value: '10' });
    this.total = input('total', { inputmode: 'decimal', placeholder: typed(0), size: 6 });
    this.greeting = h('textarea', { id: 'greeting', name: 'greeting', class: 'greeting', rows: 2, placeholder: t('send.greeting.default'), 'aria-label': t('send.greeting'), 'aria-describedby': 'greeting-hint', dir: 'auto', autocomplete: 'off', enterkeyhint: 'done' });
    this.passphrase = input('passphrase', {});
    this.recipients = h('textarea', { id: 'recipients', name: 'recipients', rows: 2, spellcheck: 'false', autocapitalize: 'off' });
    this.starts = input('starts', { type: 'datetime-local' });
    this.expiry = h(
      'select',
      { id: 'expiry', name: 'expiry' },
      ...(config.local ? [10] : []).concat([600, 3_600, EXPIRY_DEFAULT_S, 259_200]).map((seconds) =>
        h('option', { value: seconds, selected: seconds === EXPIRY_DEFAULT_S }, t(/** @type {Key} */ (`send.expiry.${seconds}`))),
      ),
    );
    this.submit = h('button', { class: 'button wide', type: 'submit' });
    // Takes the place of the submit button while the balance is too small.
    const keepDraft = () => tab.set(DRAFT, JSON.stringify(draft));
    this.topUp = config.top_up ? h('a', { class: 'button wide', href: config.top_up, target: '_top', onClick: keepDraft }, t('topup.app')) : null;
    this.state = h('div', { class: 'state', role: 'status' });
    this.warning = h('p', { class: 'bad', role: 'status' });
    this.balanceLine = h('p', { class: 'balance' });
    this.splitHint = h('p', { class: 'hint' });
    this.totalLabel = h('label', { for: 'total' });
    this.blessings = h('div', { class: 'chips', role: 'group', 'aria-label': t('send.blessings') });
    this.greetingHint = h('p', { class: 'hint', id: 'greeting-hint' });
    this.drawn = envelope({
      cover: draft.cover,
      sender: me(),
      greeting: this.greeting,
      seal: coin(),
      foot: h('div', { class: 'amount' }, this.totalLabel, h('span', { class: 'money' }, h('span', { class: 'symbol', 'aria-hidden': 'true' }, ...glyphs(symbol())), this.total)),
    });
    this.drawn.classList.add('unsealed');
    this.#draw(root);
    this.#restore();
    this.#update();
    // The user may have topped up elsewhere.
    const onReturn = () => !document.hidden && !this.isBusy && this.#read().short > 0 && void this.#readBalance();
    document.addEventListener('visibilitychange', onReturn, { signal });
  }

  /** @returns {Record<Field, HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>} */
  get #fields() {
    const { total, count, greeting, passphrase, recipients, starts, expiry } = this;
    return { total, count, greeting, passphrase, recipients, starts, expiry };
  }

  /** @param {HTMLElement} root */
  #draw(root) {
    const quick = QUICK.map(hundredthsOf).filter((minor) => minor > 0);
    const more = h(
      'details',
      { class: 'more' },
      h('summary', null, t('send.more')),
      field('starts', t('send.starts'), this.starts),
      field('expiry', t('send.expiry'), this.expiry, t('send.refund')),
      field('passphrase', t('send.passphrase'), this.passphrase),
      field('recipients', t('send.recipients'), this.recipients),
    );
    more.open = ['passphrase', 'recipients', 'starts'].some((name) => draft.fields[/** @type {Field} */ (name)]);
    const form = h(
      'form',
      { class: 'compose', novalidate: true },
      h('div', { class: 'hero' }, this.drawn, this.greetingHint, this.blessings, this.#covers()),
      h(
        'div',
        { class: 'card form' },
        // Below the amount.
        h('p', { class: 'hint', id: 'total-hint' }),
        // Where a phone shows it without scrolling.
        field('count', t('send.count'), this.count),
        h('div', { class: 'chips quick', role: 'group', 'aria-label': t('send.quick') }, ...quick.map((minor) => this.#chip(money(minor), this.total, typed(minor)))),
        this.#choice('split', 'segments', t('send.split'), /** @type {const} */ (['random', 'equal']).map((kind) => [kind, h('span', null, t(`send.${kind}`))]), draft.split, (kind) => {
          draft.split = kind;
        }),
        this.splitHint,
        this.balanceLine,
        more,
      ),
      h('div', { class: 'sticky' }, this.state, this.warning, this.submit, this.topUp),
    );
    form.addEventListener('input', () => this.#update());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    // A greeting has one line: Enter sends, as in the other fields.
    this.greeting.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.form = form;
    root.append(h('section', { class: 'send' }, h('h1', { class: 'unseen' }, t('send.title')), form));
  }

  /**
   * Returns a group of radio buttons.
   * @template {string} T
   * @param {string} name
   * @param {string} look class
   * @param {string} legend
   * @param {(readonly [T, Node])[]} options
   * @param {string} chosen
   * @param {(value: T) => void} choose
   */
  #choice(name, look, legend, options, chosen, choose) {
    const labels = options.map(([value, shown]) => {
      const onChange = () => {
        choose(value);
        this.#update();
      };
      return h('label', null, h('input', { type: 'radio', name, value, checked: value === chosen, onChange }), shown);
    });
    return h('fieldset', { class: look }, h('legend', { class: 'unseen' }, legend), ...labels);
  }

  #covers() {
    const options = coverNames().map((name) => {
      const look = coverOf(name);
      return /** @type {const} */ ([name, dress(h('span', { class: 'swatch' }, h('span', { class: 'swatch-look', 'aria-hidden': 'true' }), spoken(look.names) ?? name), look)]);
    });
    return this.#choice('cover', 'covers', t('send.cover'), options, draft.cover, (name) => {
      draft.cover = name;
      redress(this.drawn, name);
    });
  }

  /** @param {string} label @param {HTMLInputElement | HTMLTextAreaElement} control @param {string} value */
  #chip(label, control, value) {
    const fill = () => {
      control.value = value;
      this.#update();
    };
    return h('button', { class: 'chip', type: 'button', onClick: fill }, label);
  }

  #restore() {
    for (const [name, control] of Object.entries(this.#fields)) {
      const value = draft.fields[/** @type {Field} */ (name)];
      if (value !== undefined) control.value = value;
    }
  }

  /** The greeting that is sent; empty if the user wrote none. */
  #cleanGreeting() {
    return cleanGreeting(this.greeting.value);
  }

  /** Reads the form. `wrong` has a message for each invalid field. */
  #read() {
    /** @type {Map<string, string>} */
    const wrong = new Map();
    const { slip_amount_max: slipMax, count_max: countMax } = config.limits;
    const isEqual = draft.split === 'equal';
    const count = readCount(this.count.value) ?? Number.NaN;
    const isCount = count >= 1 && count <= countMax;
    if (!isCount) wrong.set('count', t('send.bad.count', { most: countMax }));
    const reading = readAmount(this.total.value, minorDigits(), currency);
    const written = 'minor' in reading ? reading.minor : null;
    const total = written === null ? null : isEqual ? written * (isCount ? count : 1) : written;
    /** How much the balance lacks. */
    let short = 0;
    if (written === null || total === null) {
      if (this.total.value.trim() && 'wrong' in reading) wrong.set('total', misread(reading, typed(hundredthsOf(8_880))));
    } else if (isEqual && (written < 1 || written > slipMax)) {
      wrong.set('total', t('send.bad.each', { least: money(1), slip: money(slipMax) }));
    } else if (isCount && total < count) {
      wrong.set('total', t('send.bad.least', { least: money(count), unit: money(1) }));
    } else if (isCount && total > count * slipMax) {
      wrong.set('total', t('send.bad.most', { most: money(count * slipMax), slip: money(slipMax) }));
    } else if (total > this.balance) {
      short = total - this.balance;
      wrong.set('total', t('send.bad.balance', { short: money(short) }));
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
    const startsMs = this.starts.value ? Date.parse(this.starts.value) : null;
    if (startsMs !== null && !(startsMs > serverNow() && startsMs < serverNow() + AHEAD_MAX_MS)) wrong.set('starts', t('send.bad.starts'));
    return { wrong, total, short, count: isCount ? count : null, passphrase, recipients, startsAt: startsMs === null || wrong.has('starts') ? null : new Date(startsMs).toISOString() };
  }

  #update() {
    for (const [name, control] of Object.entries(this.#fields)) draft.fields[/** @type {Field} */ (name)] = control.value;
    const { slip_amount_max: slipMax, count_max: countMax } = config.limits;
    const { wrong, total, short, count, recipients } = this.#read();
    const isEqual = draft.split === 'equal';
    const limits = { least: money(isEqual ? 1 : (count ?? 1)), most: money((count ?? 1) * slipMax), slip: money(slipMax) };
    const isFit = total !== null && count !== null && !wrong.has('total');
    const result = !isFit ? '' : isEqual ? t('send.sum', { amount: money(total) }) : t('send.each', { each: money(Math.floor(total / count)) });
    const letters = [...this.#cleanGreeting()].length;
    /** @type {Record<string, string>} */
    const hints = {
      total: t(isEqual ? 'send.per.hint' : 'send.total.hint', limits) + (result && ` · ${result}`),
      count: t('send.count.hint', { most: countMax }),
      greeting: letters > CHARS_MAX - 24 ? t('send.left', { count: CHARS_MAX - letters }) : '',
      passphrase: t('send.passphrase.hint'),
      starts: t('send.starts.hint'),
      recipients: t('send.recipients.hint') + (recipients.length ? ` · ${t('send.recipients.count', { count: number(recipients.length) })}` : ''),
    };
    for (const [name, hint] of Object.entries(hints)) this.#mark(name, wrong.get(name), hint);
    this.totalLabel.textContent = t(isEqual ? 'send.per' : 'send.total');
    this.splitHint.textContent = t(`send.${draft.split}.hint`);
    this.greeting.className = `greeting ${sizeOf(this.greeting.value)}`;
    const isReady = total !== null && total > 0 && wrong.size === 0;
    const lack = short > 0 ? [t('send.short'), config.local ? '' : h('small', null, t('topup.ask'))] : null;
    this.submit.replaceChildren(...(isReady ? [t('send.submit', { amount: money(total) }), h('small', null, inWords(total, minorDigits(), currency, language()))] : (lack ?? [total ? (this.count.value ? ([...wrong.values()][0] ?? '') : t('send.missing.count')) : t('send.missing.total')])));
    this.submit.disabled = !isReady || this.isBusy;
    // Each of them can open it once.
    const spare = recipients.length > 0 && count !== null && !wrong.has('recipients') ? count - recipients.length : 0;
    this.warning.textContent = spare > 0 ? t('send.spare', { people: recipients.length, count: spare }) : '';
    if (this.topUp) [this.submit.hidden, this.topUp.hidden] = [lack !== null, lack === null];
    this.#showBalance(isReady ? total : 0);
    this.#showBlessings();
  }

  /** @param {string} id @param {string | undefined} wrong @param {string} hint */
  #mark(id, wrong, hint) {
    const control = this.form?.querySelector(`#${id}`);
    const line = this.form?.querySelector(`#${id}-hint`);
    if (!control || !line) return;
    control.setAttribute('aria-invalid', String(wrong !== undefined));
    control.setAttribute('aria-describedby', `${id}-hint`);
    line.textContent = wrong ?? hint;
    line.classList.toggle('bad', wrong !== undefined);
  }

  #showBlessings() {
    if (this.blessings.dataset['cover'] === draft.cover) return;
    this.blessings.dataset['cover'] = draft.cover;
    this.blessings.replaceChildren(...(spoken(coverOf(draft.cover).blessings) ?? []).map((text) => this.#chip(text, this.greeting, text)));
  }

  /** @param {number} amount */
  #showBalance(amount) {
    const rest = amount > 0 && h('small', null, t('send.after', { left: money(this.balance - amount) }));
    const topUp =
      config.local &&
      h('button', { class: 'link', type: 'button', title: t('topup.hint'), onClick: () => void this.#deposit() }, t('topup', { amount: money(TOP_UP) }));
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

  async #deposit() {
    try {
      this.balance = (await api.deposit(me(), newKey(), TOP_UP, { signal: this.signal })).balance;
      say(t('topup.done', { amount: money(TOP_UP) }));
      this.#update();
    } catch (error) {
      if (!this.signal.aborted) say(explain(error).title);
    }
  }

  #submit() {
    const { wrong, total, count, passphrase, recipients, startsAt } = this.#read();
    if (this.isBusy || wrong.size > 0 || !total || count === null) return;
    /** @type {SendRequest} */
    const body = {
      split: draft.split,
      total_amount: total,
      count,
      greeting: this.#cleanGreeting() || t('send.greeting.default'),
      expires_in_s: Number(this.expiry.value),
      ...(draft.cover !== 'plain' && { cover: draft.cover }),
      ...(startsAt && { starts_at: startsAt }),
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
    this.drawn.classList.add('sealing');
    const isKept = keep(send);
    this.state.replaceChildren(isKept ? '' : h('p', { class: 'hint' }, t('send.unkept')));
    try {
      const sealed = sleep(mayMove() ? SEALING_MS : 0);
      const { passphrase } = send.body;
      // Before the send: what is sent must be kept.
      const passphrases = passphrase && (await import('./passphrases.js'));
      // Without the screen's signal: the page needs the answer of a send even if another screen is shown.
      const { packet } = await api.send(send.body, { key: send.key });
      if (passphrases) passphrases.keepPassphrase(packet, passphrase);
      drop();
      emptyDraft();
      await sealed;
      // Replaces the form in the history, so that "back" does not return to a filled form.
      location.replace(`#/sent/${packet.packet_id}`);
    } catch (error) {
      this.#failed(send, error, isKept);
    }
  }

  /** @param {Pending} send @param {unknown} error @param {boolean} isKept */
  #failed(send, error, isKept) {
    this.drawn.classList.remove('sealing');
    const { title, text } = explain(error);
    if (error instanceof Problem && error.status < 500 && error.code !== 'too-many-requests') {
      // A final refusal: nothing was sent.
      drop();
      this.isBusy = false;
      const reasons = error.errors.map(({ field: name, reason }) => `${name}: ${reason}`).join('; ');
      const isPoor = error.code === 'insufficient-balance';
      this.state.replaceChildren(h('p', { class: 'bad' }, isPoor ? t('send.bad.poor') : reasons || title), isPoor || reasons ? '' : h('p', { class: 'hint' }, text));
      if (error.code === 'unauthenticated') this.state.append(h('button', { class: 'button', type: 'button', onClick: endSession }, t('signin.title')));
      this.#update();
      if (isPoor) void this.#readBalance();
      return;
    }
    // A pause is no final refusal: the same send may succeed later. But it certainly has not been sent.
    const isPaused = error instanceof Problem && error.code === 'sending-paused';
    const hint = isPaused ? '' : t('send.forget.hint');
    this.submit.textContent = t('send.submit.empty');
    this.state.replaceChildren(
      h('p', { class: 'bad' }, isPaused ? title : t('send.unknown')),
      h(
        'p',
        { class: 'row' },
        h('button', { class: 'button', type: 'button', onClick: () => void this.send(send) }, t('retry')),
        h('button', { class: 'link', type: 'button', title: hint, onClick: () => this.#forget() }, t('send.forget')),
      ),
      h('p', { class: 'hint' }, hint),
      isKept || isPaused ? '' : h('p', { class: 'hint' }, t('send.unkept')),
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
