// A deed in two steps: a form from openapi.yaml's own schema, then a sentence that says what will happen. One key for each opening of the
// form: whatever is repeated counts once.

import { currency, minorDigits, money } from '../assets/context.js';
import { h, say } from '../assets/dom.js';
import { readAmount, writeAmount } from '../assets/input.js';
import { misread } from '../assets/problems.js';
import { newKey } from '../client/hongbao.js';
import { act, asked, isUnknown, path, read, tool } from './calls.js';
import { deedLine } from './deeds.js';
import { FORMS } from './forms.js';
import { named, t, trouble } from './parts.js';

/** @typedef {import('./calls.js').Row} Row */
/** @typedef {import('./forms.js').Field} Field */
/**
 * @typedef {object} Deed
 * @property {string} [form] the operation of openapi.yaml that has the fields. Of a command that is one with a reason only
 * @property {(about: Row) => string[]} [command] of the tool, in place of a route
 * @property {(about: Row, body: Row) => Promise<string> | string} says what will happen, from what is so now
 */

/** @param {Row} about */
const wallet = ({ user_id }) => read(path`/wallets/${user_id}`);
/** @param {Row} about */
const withdrawal = ({ user_id, withdrawal_id }) => read(path`/wallets/${user_id}/withdrawals/${withdrawal_id}`);
/** @param {number | null | undefined} amount */
const orAll = (amount) => (amount ? money(amount) : t('limits.everybody'));

/** @satisfies {Record<string, Deed>} */
export const DEEDS = {
  suspend: {
    form: 'suspendUser',
    says: async (about, { grabs }) => t(grabs ? 'says.suspend.grabs' : 'says.suspend', { user: about['user_id'], amount: money((await wallet(about))['balance']) }),
  },
  lift: { form: 'liftSuspension', says: ({ user_id: user }) => t('says.lift', { user }) },
  limit: {
    form: 'setUserLimits',
    says: ({ user_id: user }, body) => t('says.limit', { user, day: orAll(body['daily_sent_max']), deposit: orAll(body['deposit_max']) }),
  },
  deposit: {
    form: 'deposit',
    says: async (about, { amount }) => {
      const { balance } = await wallet(about);
      return t('says.deposit', { amount: money(amount), user: about['user_id'], before: money(balance), after: money(balance + amount) });
    },
  },
  withdraw: {
    form: 'withdraw',
    says: async (about, { amount, pending }) => {
      const { balance } = await wallet(about);
      return t(pending ? 'says.reserve' : 'says.withdraw', { amount: money(amount), user: about['user_id'], before: money(balance), after: money(balance - amount) });
    },
  },
  post: {
    form: 'postWithdrawal',
    says: async (about, { amount }) => {
      const { amount: reserved } = await withdrawal(about);
      const paid = amount ?? reserved;
      return t(paid < reserved ? 'says.post.less' : 'says.post', { amount: money(paid), user: about['user_id'], back: money(reserved - paid) });
    },
  },
  void: { form: 'voidWithdrawal', says: async (about) => t('says.void', { amount: money((await withdrawal(about))['amount']), user: about['user_id'] }) },
  close: {
    form: 'closePacket',
    says: async ({ packet_id }) => {
      const packet = await read(path`/operator/packets/${packet_id}`);
      const { total_amount: total, claimed_amount: kept, refunded_amount: refunded, claimed_count: count, sender_id: sender } = packet;
      return t('says.close', { back: money(total - kept - refunded), sender, count, kept: money(kept) });
    },
  },
  'close-reference': {
    form: 'closeReference',
    says: async ({ reference, sender_id: sender }) => {
      const sums = await read(asked(path`/operator/references/${reference}`, { sender_id: sender }));
      const packets = sums['packets'].filter((/** @type {Row} */ { status }) => !['closed', 'expired', 'settled'].includes(status)).length;
      return t('says.close-reference', { packets, back: money(sums['undecided_amount']), sender, count: sums['users'], kept: money(sums['won_amount']) });
    },
  },
  pause: { form: 'decideSending', says: () => t('says.pause') },
  resume: { form: 'decideSending', says: () => t('says.resume') },
  'enable-webhooks': { form: 'enableWebhooks', says: () => t('says.enable-webhooks') },
  'disable-webhooks': { form: 'enableWebhooks', says: () => t('says.disable-webhooks') },
  replay: {
    form: 'closePacket',
    command: ({ packet_id, slip }) => ['replay', packet_id, ...(slip === undefined ? [] : [String(slip)]), '--json'],
    says: ({ packet_id: packet }) => t('says.replay', { packet }),
  },
  redeliver: { command: () => ['webhooks', 'replay', '--json'], says: () => t('says.redeliver') },
  rebuild: { form: 'closePacket', command: ({ packet_id }) => ['rebuild', packet_id, '--json'], says: ({ packet_id: packet }) => t('says.rebuild', { packet }) },
};

/**
 * Opens the form of a deed.
 * @param {keyof typeof DEEDS} name @param {Row} about whose ids the path needs @param {Row} [fixed] fields that the deed decides @param {Row} [now] what stands in the form
 */
export function openDeed(name, about, fixed = {}, now = {}) {
  /** @type {Deed} */
  const deed = DEEDS[name];
  const form = FORMS[deed.form ?? ''];
  const key = newKey();
  let isUnderWay = false;
  const dialog = h('dialog', { class: 'deed card', 'aria-labelledby': 'deed-title' });
  const step = (/** @type {HTMLElement[]} */ ...content) => dialog.replaceChildren(h('h2', { id: 'deed-title' }, t(`deed.${name}`)), subject(about), ...content);
  const close = h('button', { type: 'button', class: 'button plain', onClick: () => dialog.close() }, t('cancel'));
  const isReason = (/** @type {Field} */ field) => Number(field.name === 'reason');
  const wanted = (form?.fields ?? []).filter((field) => !(field.name in fixed)).sort((one, other) => isReason(one) - isReason(other));
  const fields = wanted.map((field) => input(field, now[field.name]));
  const ask = h('form', { class: 'form', novalidate: true }, ...fields.map(({ element }) => element), h('div', { class: 'row' }, close, h('button', { class: 'button', type: 'submit' }, t('continue'))));

  /** Disables all buttons while a call is under way. @param {() => Promise<void>} call */
  const alone = async (call) => {
    if (isUnderWay) return;
    isUnderWay = true;
    const pressed = /** @type {HTMLElement | null} */ (document.activeElement);
    const buttons = [...dialog.querySelectorAll('button')];
    for (const one of buttons) one.disabled = true;
    try {
      await call();
    } finally {
      isUnderWay = false;
      for (const one of buttons) one.disabled = false;
      // A button that is disabled loses the focus.
      if (pressed && dialog.contains(pressed)) pressed.focus();
    }
  };
  ask.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = fields.map((field) => field.read());
    if (values.some((value) => value === null)) return void fields.find((_, i) => values[i] === null)?.focus();
    const body = { ...fixed, ...Object.fromEntries(values.flatMap((value) => (value ? [value] : [])).filter(([, value]) => value !== undefined)) };
    ask.querySelector('.trouble')?.remove();
    void alone(async () => {
      try {
        second(await deed.says(about, body), body);
      } catch (error) {
        ask.append(trouble(error));
      }
    });
  });

  /** @param {string} sentence @param {Row} body */
  const second = (sentence, body) => {
    const failed = h('div');
    const back = h('button', { type: 'button', class: 'button plain', onClick: () => first() }, t('back'));
    const go = h('button', { type: 'button', class: 'button go' }, t(`deed.${name}`));
    go.addEventListener('click', () =>
      void alone(async () => {
        go.textContent = t('working');
        try {
          const answer = deed.command ? await tool(deed.command(about), { reason: body['reason'], isDeed: true }) : null;
          if (!answer && form) await act(form.method, address(form.path, about, key), body, key);
          done(await lineOf(name, about, body), answer);
        } catch (error) {
          go.textContent = t(isUnknown(error) ? 'retry' : `deed.${name}`);
          // It may have been done: only the very same may be sent again.
          if (isUnknown(error)) back.replaceWith(close);
          failed.replaceChildren(trouble(error));
        }
      }),
    );
    step(h('p', { class: 'says', tabindex: '-1' }, sentence), body['reason'] ? h('p', { class: 'hint' }, t('reason.is', { reason: body['reason'] })) : h('p'), failed, h('div', { class: 'row' }, back, go));
    go.focus();
    say(sentence);
  };

  /** @param {Row | null} line @param {Row | null} answer of the tool */
  const done = (line, answer) => {
    const end = h('button', { type: 'button', class: 'button', onClick: () => dialog.close() }, t('close'));
    const output = answer && h('pre', { class: 'output', tabindex: '0' }, typeof answer['output'] === 'string' ? answer['output'] : JSON.stringify(answer['output'], null, 2));
    const isGood = !answer || answer['exit'] === 0;
    step(h('p', { class: isGood ? 'done' : 'done bad' }, t(isGood ? 'done' : 'done.not')), output ?? h('p'), line ? deedLine(line) : h('p', { class: 'hint' }, t('done.line')), h('div', { class: 'row' }, end));
    dialog.addEventListener('close', () => dispatchEvent(new Event('hongbao-changed')));
    end.focus();
    say(t(isGood ? 'done' : 'done.not'));
  };

  const first = () => {
    step(ask);
    /** @type {HTMLElement | null} */ (ask.querySelector('input:not([type=checkbox]), textarea'))?.focus();
  };
  dialog.addEventListener('cancel', (event) => isUnderWay && event.preventDefault());
  dialog.addEventListener('close', () => dialog.remove());
  // The way back leaves the form too, but not what is under way.
  addEventListener('hashchange', () => isUnderWay || dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  first();
  // Nothing to fill in.
  if (fields.length === 0) ask.requestSubmit();
}

/** Whom or what a deed is about. @param {Row} about */
function subject(about) {
  return h('p', { class: 'subject' }, h('bdi', null, Object.values(about).filter((value) => value !== undefined).join(' · ')));
}

/** The address of a deed. An id that the path lacks is made here: the key of the form. @param {string} template @param {Row} about @param {string} key */
function address(template, about, key) {
  const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(about[name] ?? key));
  return asked(filled, Object.fromEntries(Object.entries(about).filter(([name]) => !names.includes(name))));
}

/** The line that a deed has left; null if it is not there yet. @param {string} name @param {Row} about @param {Row} body @returns {Promise<Row | null>} */
async function lineOf(name, about, body) {
  try {
    const { deeds } = await read(asked('/operator/deeds', { user_id: about['user_id'], limit: 5 }));
    return deeds.find((/** @type {Row} */ { deed, reason }) => deed === name && (reason ?? undefined) === body['reason']) ?? null;
  } catch {
    return null;
  }
}

/**
 * A field of a form. `read` returns its name and value; null if the value can't be taken.
 * @param {Field} field @param {any} now
 * @returns {{element: HTMLElement, read: () => [string, any] | null, focus: () => void}}
 */
function input({ name, type, required, min, max, pattern }, now) {
  // Each deed says why, also where the route does not ask.
  const isNeeded = required || name === 'reason';
  const id = `deed-${name}`;
  const label = h('label', { for: id }, named('field', name), !isNeeded && type !== 'boolean' && h('span', { class: 'hint' }, ` ${t('optional')}`));
  const wrong = h('p', { class: 'bad', id: `${id}-wrong`, role: 'alert' });
  if (type === 'boolean') {
    const box = h('input', { id, type: 'checkbox', checked: Boolean(now) });
    return { element: h('div', { class: 'check' }, box, label), read: () => [name, box.checked], focus: () => box.focus() };
  }
  const digits = minorDigits();
  const box = h('input', { id, autocomplete: 'off', inputmode: type === 'money' ? 'decimal' : null, maxlength: type === 'money' ? 24 : max, pattern, 'aria-describedby': `${id}-wrong`, value: type === 'money' && now ? writeAmount(now, digits) : (now ?? '') });
  const refuse = (/** @type {string} */ why) => {
    wrong.textContent = why;
    box.setAttribute('aria-invalid', 'true');
    return null;
  };
  const take = () => {
    wrong.textContent = '';
    box.removeAttribute('aria-invalid');
    const text = box.value.trim();
    if (text === '') return isNeeded ? refuse(t('field.needed')) : /** @type {[string, any]} */ ([name, undefined]);
    if (type !== 'money') return box.validity.valid ? /** @type {[string, any]} */ ([name, text]) : refuse(t('field.characters'));
    const reading = readAmount(text, digits, currency);
    if (!('minor' in reading)) return refuse(misread(reading, writeAmount(888, digits)));
    if (reading.minor < (min ?? 1) || reading.minor > (max ?? Infinity)) return refuse(t('field.between', { least: money(min ?? 1), most: money(max ?? 0) }));
    return /** @type {[string, any]} */ ([name, reading.minor]);
  };
  return { element: h('div', { class: 'field' }, label, box, wrong), read: take, focus: () => box.focus() };
}
