// The screen after a send: the sealed envelope with the QR code of its link on its back, and what to copy into a chat.

import { api, me, minute, money, setCurrency, shareLink } from './context.js';
import { h, s, say } from './dom.js';
import { coin, envelope, greetingLine, loadCover } from './envelope.js';
import { t } from './i18n.js';
import { isolated } from './people.js';
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
  const text = `${t('sent.text', { sender: isolated(packet.sender_id), greeting })}\n${link}`;
  const shown = h('input', { class: 'linkbox', id: 'link', readonly: true, value: link, 'aria-label': t('sent.link'), onFocus: () => shown.select() });
  const copy = h('button', { class: 'button', id: 'copy', onClick: () => void copyText(text, shown, copy) }, t('copy'));
  const drawn = envelope({ cover: packet.cover, sender: packet.sender_id, greeting: greetingLine(greeting), seal: coin(), rear: qrCode(link) });
  drawn.classList.add('turned');
  root.append(
    h(
      'section',
      { class: 'sent' },
      h('h1', null, t('sent.title')),
      h('p', { class: 'big' }, money(packet.total_amount), ' ', h('small', null, t('sent.count', { count: packet.count }))),
      h('p', { class: 'lead' }, [t(leadOf(packet)), packet.has_passphrase && t('sent.lead.word'), packet.starts_at && t('sent.starts', { time: minute(packet.starts_at) })].filter(Boolean).join(' ')),
      drawn,
      isThisMachine() && h('p', { class: 'bad' }, t('sent.local')),
      h('p', { class: 'invitation', dir: 'auto' }, text.split('\n')[0]),
      h('div', { class: 'row' }, shown, copy),
      h(
        'div',
        { class: 'row' },
        h('a', { class: 'button gold', href: `#/p/${packetId}` }, t('sent.open')),
        'share' in navigator &&
          h('button', { class: 'button plain', onClick: () => void navigator.share({ text, url: link }).catch(() => {}) }, t('sent.share')),
        h('a', { class: 'link', href: '#/' }, t('sent.another')),
      ),
      h('details', { class: 'more' }, h('summary', null, t('sent.commitment')), h('p', { class: 'hint' }, t('sent.commitment.hint')), h('code', { class: 'hex' }, packet.commitment)),
    ),
  );
}

/** Says who can open the packet. @param {Packet} packet @returns {import('./i18n.js').Key} */
function leadOf({ recipients, eligibility }) {
  if (eligibility) return recipients ? 'sent.lead.both' : 'sent.lead.ticket';
  return recipients ? 'sent.lead.some' : 'sent.lead';
}

/** Whether the page's address means another machine on every other one. */
function isThisMachine() {
  return /^(localhost|.+\.localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
}

/** @param {string} text @param {HTMLInputElement} shown @param {HTMLElement} button */
async function copyText(text, shown, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without access to the clipboard, the link is at least selected.
    shown.focus();
    shown.select();
    return;
  }
  button.textContent = t('copied');
  say(t('copied'));
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
