// The screen after a send: the sealed envelope with the QR code of its link on its back, and what to copy into a chat.

import { api, me, minute, money, number, setCurrency, shareLink } from './context.js';
import { h, s, say } from './dom.js';
import { coin, envelope, greetingLine, loadCover } from './envelope.js';
import { t } from './i18n.js';
import { passphraseOf } from './passphrases.js';
import { isolated, person } from './people.js';
import encodeQR from './vendor/qr.js';

/** @typedef {import('../client/hongbao.js').Packet} Packet */

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
export async function sentScreen(root, signal, packetId = '') {
  const packet = await api.packet(packetId, { signal });
  await loadCover(packet.cover);
  if (signal.aborted) return;
  // There is nothing to share: to others the packet is not theirs, and in the end nobody can open it.
  if (packet.sender_id !== me() || (packet.status !== 'open' && packet.status !== 'scheduled')) {
    location.replace(`#/p/${packetId}`);
    return;
  }
  setCurrency(packet.currency);
  const link = shareLink(packetId);
  const greeting = packet.greeting || t('send.greeting.default');
  const starts = (/** @type {Intl.DateTimeFormatOptions} */ more) => (packet.status === 'scheduled' && packet.starts_at ? ` ${t('sent.starts', { time: minute(packet.starts_at, more) })}` : '');
  // With the time zone: who reads it may be in another one.
  const text = `${t('sent.text', { sender: isolated(packet.sender_id), greeting })}${starts({ timeZoneName: 'short' })}\n${link}`;
  const shown = h('input', { class: 'linkbox', id: 'link', readonly: true, value: link, 'aria-label': t('sent.link'), onFocus: () => shown.select() });
  const copy = h('button', { class: 'button', id: 'copy', onClick: () => void copyText(text, shown, copy, copied) }, t('copy'));
  const copied = h('p', { class: 'bad', id: 'copied' });
  const drawn = envelope({ cover: packet.cover, sender: packet.sender_id, greeting: greetingLine(greeting), seal: coin(), rear: qrCode(link) });
  drawn.classList.add('turned');
  root.append(
    h(
      'section',
      { class: 'sent' },
      h('h1', null, t('sent.title')),
      h('p', { class: 'big' }, money(packet.total_amount), ' ', h('small', null, t('sent.count', { count: packet.count }))),
      h('p', { class: 'lead' }, t(leadOf(packet)), packet.has_passphrase && ` ${t('sent.lead.word')}`, starts({})),
      drawn,
      isThisMachine() && h('p', { class: 'bad' }, t('sent.local')),
      h('p', { class: 'invitation', dir: 'auto' }, text.split('\n')[0]),
      h('div', { class: 'row' }, shown, copy, copied),
      h(
        'div',
        { class: 'row' },
        h('a', { class: 'button gold', href: `#/p/${packetId}` }, t(packet.recipients && !packet.recipients.includes(me()) ? 'grab.who' : 'sent.open')),
        'share' in navigator &&
          h('button', { class: 'button plain', onClick: () => void navigator.share({ text, url: link }).catch(() => {}) }, t('sent.share')),
        h('a', { class: 'link', href: '#/' }, t('sent.another')),
      ),
      ...who(packet),
      h('details', { class: 'more' }, h('summary', null, t('sent.commitment')), h('p', { class: 'hint' }, t('sent.commitment.hint')), h('code', { class: 'hex' }, packet.commitment)),
    ),
  );
}

/** Says who can open the packet. @param {Packet} packet @returns {import('./i18n.js').Key} */
function leadOf({ recipients, eligibility }) {
  if (eligibility) return recipients ? 'sent.lead.both' : 'sent.lead.ticket';
  return recipients ? 'sent.lead.some' : 'sent.lead';
}

/** The names that are shown at once. */
const NAMES_SHOWN = 12;

/** Shows the passphrase and the recipients. @param {Packet} packet */
function who({ packet_id, has_passphrase, recipients }) {
  const word = has_passphrase && passphraseOf(packet_id);
  const names = (recipients ?? []).flatMap((id, i) => [i > 0 ? ' · ' : '', person(id)]);
  return [
    word && h('p', { class: 'word' }, t('send.passphrase'), ' ', h('strong', { dir: 'auto' }, word)),
    has_passphrase && h('p', { class: 'hint' }, t(word ? 'sent.word.kept' : 'sent.word.lost')),
    recipients && h('details', { class: 'more', open: recipients.length <= NAMES_SHOWN }, h('summary', null, `${t('send.recipients')} (${number(recipients.length)})`), h('p', { class: 'names' }, ...names)),
  ];
}

/** Whether the page's address means another machine on every other one. */
function isThisMachine() {
  return /^(localhost|.+\.localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
}

/** @param {string} text @param {HTMLInputElement} shown @param {HTMLElement} button @param {HTMLElement} note */
async function copyText(text, shown, button, note) {
  // Without https there is no `navigator.clipboard`, and it may refuse.
  const isCopied = (await navigator.clipboard?.writeText(text).then(() => true, () => false)) || copySelected(text, shown);
  note.textContent = isCopied ? '' : t('sent.uncopied');
  if (isCopied) {
    button.textContent = t('copied');
    button.focus();
  }
  say(t(isCopied ? 'copied' : 'sent.uncopied'));
}

/** Copies in the older way, which copies what is selected. @param {string} text @param {HTMLInputElement} shown */
function copySelected(text, shown) {
  const put = (/** @type {ClipboardEvent} */ event) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', put, { once: true });
  shown.focus();
  shown.select();
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', put);
  return isCopied;
}

/** @param {string} text */
export function qrCode(text) {
  // The standard asks for a margin of four modules.
  const border = 4;
  const modules = encodeQR(text, 'raw', { ecc: 'medium', border });
  const size = modules.length;
  const path = modules.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : ''))).join('');
  return s(
    'svg',
    { class: 'qr', viewBox: `0 0 ${size} ${size}`, role: 'img', 'aria-label': t('sent.qr'), 'shape-rendering': 'crispEdges' },
    s('rect', { width: size, height: size, class: 'paper' }),
    s('path', { d: path, class: 'ink' }),
  );
}
