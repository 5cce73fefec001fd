// What the views are made of. All data becomes text: nothing of it is parsed as HTML.

import { money, moment } from '../assets/context.js';
import { h } from '../assets/dom.js';
import { t as any } from '../assets/i18n.js';
import { isUserId } from '../assets/session.js';
import { Problem, Unreachable } from '../client/hongbao.js';
import { asked, read } from './calls.js';

/** @typedef {import('./calls.js').Row} Row */
/** @typedef {import('../assets/dom.js').Child} Child */
/** @typedef {import('../assets/i18n.js').Key | import('./lang/en.js').Key} Key */

/** A text of this page or of the users' page. @param {Key} key @param {Record<string, string | number>} [values] */
export const t = (key, values) => any(/** @type {any} */ (key), values);

/** A text for a name that a later service may have; the name itself where there is none. @param {string} group @param {string} name */
export const named = (group, name) => any(/** @type {any} */ (`${group}.${name}`)) || name;

export const IS_PACKET = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
export const IS_REFERENCE = /^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,64}$/;
export const IS_KEY = /^[A-Za-z0-9_-]{1,64}$/;
export { isUserId };

/** @param {string[]} parts */
export const to = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;
/** @param {string} id */
export const userLink = (id) => h('a', { href: to('user', id), class: 'id' }, h('bdi', null, id));
/** @param {string} id @param {string} [text] */
export const packetLink = (id, text = id) => h('a', { href: to('packet', id), class: text === id ? 'id' : null }, h('bdi', null, text));
/** @param {string} id @param {string} [sender] */
export const referenceLink = (id, sender) => h('a', { href: sender ? to('evening', id, sender) : to('evening', id), class: 'id' }, h('bdi', null, id));
/** @param {string | null | undefined} at */
export const when = (at) => at && h('time', { datetime: at }, moment(at));
/** @param {string} status @param {string} [group] */
export const tag = (status, group = 'status') => h('span', { class: `tag ${status}` }, named(group, status));
/** What a user or the operator wrote. @param {string | null | undefined} text */
export const written = (text) => text && h('q', { dir: 'auto' }, text);
/** @param {number} amount */
export const sum = (amount) => h('span', { class: 'money' }, money(amount));
/** An amount with its sign. @param {number} amount */
export const signed = (amount) => h('span', { class: amount > 0 ? 'money plus' : 'money' }, (amount > 0 ? '+' : '') + money(amount));

/** Who did it: the last part of an ARN says it, and the whole is behind it. @param {string | null | undefined} by */
export const principal = (by) => by && h('bdi', { class: 'by', title: by }, by.split('/').at(-1) || by);
/** When, and by whom. @param {string | null | undefined} at @param {string | null | undefined} by */
export const signedAt = (at, by) => h('div', { class: 'about' }, when(at), principal(by));
/** The title of a view. @param {Key} kind @param {string} id */
export const heading = (kind, id) => h('h1', null, h('span', { class: 'kind' }, t(kind)), ' ', h('bdi', { class: 'id' }, id));

/** @param {Key} text @param {() => void} onClick @param {string} [look] */
export const button = (text, onClick, look = 'plain') => h('button', { type: 'button', class: `button ${look}`, onClick }, t(text));

/** Names and values; what is null is left out. @param {[Key, Child | Child[]][]} rows */
export function facts(...rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '');
  return h('dl', { class: 'facts' }, ...shown.flatMap(([name, value]) => [h('dt', null, t(name)), h('dd', null, ...[value].flat())]));
}

/** Says what failed, with the number of the request. @param {unknown} error @param {() => void} [retry] */
export function trouble(error, retry) {
  const isProblem = error instanceof Problem;
  const right = /** @type {any} */ (error).right;
  const text = isProblem && error.status === 403 ? t('trouble.forbidden', { right }) : isProblem && error.status === 404 ? t(error.code === 'route-not-found' ? 'trouble.route' : 'trouble.none') : error instanceof Unreachable ? t('trouble.unreachable') : error instanceof Error ? error.message : '';
  const fields = isProblem ? error.errors.map(({ field, reason }) => h('li', null, `${field}: ${reason}`)) : [];
  return h(
    'div',
    { class: 'trouble', role: 'alert', 'data-code': isProblem ? error.code : error instanceof Unreachable ? 'unreachable' : 'page' },
    h('p', null, text),
    fields.length > 0 && h('ul', null, ...fields),
    isProblem && error.requestId && h('p', { class: 'hint' }, t('trouble.request', { id: error.requestId })),
    retry && !(isProblem && error.status < 429) && h('button', { type: 'button', class: 'link', onClick: retry }, t('retry')),
  );
}

/** The load whose result each body shows: another choice may come while one is under way. @type {WeakMap<HTMLElement, symbol>} */
const latest = new WeakMap();

/**
 * Shows what is read, or why it can't be read.
 * @param {HTMLElement} body @param {AbortSignal} signal @param {() => Promise<Child | Child[]>} load
 */
export async function fillIn(body, signal, load) {
  const mine = Symbol('a load');
  latest.set(body, mine);
  const isLatest = () => !signal.aborted && latest.get(body) === mine;
  body.replaceChildren(h('p', { class: 'hint loading' }, t('loading')));
  try {
    const shown = [await load()].flat();
    if (isLatest()) body.replaceChildren(...shown.filter((child) => child !== null && child !== undefined && child !== false));
  } catch (error) {
    if (isLatest()) body.replaceChildren(trouble(error, () => void fillIn(body, signal, load)));
  }
}

/**
 * A part of a view that reads by itself: its failure leaves the others as they are.
 * @param {Key} title @param {AbortSignal} signal @param {() => Promise<Child | Child[]>} load @param {...Child} tools
 */
export function part(title, signal, load, ...tools) {
  const body = h('div', { class: 'body' });
  void fillIn(body, signal, load);
  return h('section', { class: `card panel ${title.replace('.', '-')}` }, h('header', null, h('h2', null, t(title)), ...tools), body);
}

/** The same, but it reads only when somebody asks. @param {Key} title @param {Key} text @param {AbortSignal} signal @param {() => Promise<Child | Child[]>} load @param {Key} [hint] */
export function partOnDemand(title, text, signal, load, hint) {
  const body = h('div', { class: 'body' }, hint && h('p', { class: 'hint' }, t(hint)));
  return h('section', { class: `card panel ${title.replace('.', '-')}` }, h('header', null, h('h2', null, t(title)), button(text, () => void fillIn(body, signal, load))), body);
}

/**
 * A table, whose rows are cards on a phone.
 * @param {Key[]} columns @param {Child[][]} rows each with as many cells
 */
export function table(columns, rows) {
  const body = h('tbody');
  const add = (/** @type {Child[][]} */ more) => body.append(...more.map((cells) => h('tr', null, ...cells.map((cell, i) => h('td', { 'data-name': t(/** @type {Key} */ (columns[i])) }, cell)))));
  add(rows);
  return { element: h('table', { class: 'rows' }, h('thead', null, h('tr', null, ...columns.map((key) => h('th', { scope: 'col' }, t(key))))), body), add };
}

/** A page of a filtered list may have no rows, and be followed by others. So many are read at once. */
const EMPTY_MAX = 5;

/** @param {string} route @param {Record<string, string | number | null | undefined>} query @param {string} name @param {AbortSignal} signal */
async function readRows(route, query, name, signal) {
  let page = await read(asked(route, query), signal);
  for (let i = 1; i < EMPTY_MAX && page[name].length === 0 && page['next_cursor']; i += 1) page = await read(asked(route, { ...query, cursor: page['next_cursor'] }), signal);
  return page;
}

/**
 * Reads a list page by page.
 * @param {AbortSignal} signal @param {string} route @param {Record<string, string | number | null | undefined>} query @param {string} name of the rows in the answer
 * @param {Key[]} columns @param {(row: Row) => Child[]} cells @param {Key} [none]
 * @param {Promise<Row>} [reading] of the first page, where somebody else needs it too
 */
export async function list(signal, route, query, name, columns, cells, none = 'none', reading = readRows(route, query, name, signal)) {
  const first = await reading;
  if (first[name].length === 0 && !first['next_cursor']) return h('p', { class: 'hint' }, t(none));
  const { element, add } = table(columns, first[name].map(cells));
  let cursor = first['next_cursor'];
  const more = h('button', { type: 'button', class: 'link more', hidden: !cursor }, t('more'));
  const failed = h('div');
  more.addEventListener('click', async () => {
    more.disabled = true;
    try {
      const next = await readRows(route, { ...query, cursor }, name, signal);
      add(next[name].map(cells));
      cursor = next['next_cursor'];
      more.hidden = !cursor;
      failed.replaceChildren();
    } catch (error) {
      if (!signal.aborted) failed.replaceChildren(trouble(error));
    }
    more.disabled = false;
  });
  return h('div', null, element, more, failed);
}

/** A time in the past. @param {number} days */
export const daysAgo = (days) => new Date(Date.now() - days * 86_400_000).toISOString();

/** The bounds of a day on this machine's clock. @param {string} day */
export const boundsOf = (day) => {
  const from = new Date(`${day}T00:00`);
  const end = new Date(from);
  end.setDate(end.getDate() + 1);
  return { from: from.toISOString(), to: end.toISOString() };
};
