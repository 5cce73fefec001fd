// The screen after a send: the link to share, and its QR code, which the page draws itself.

import { api, money, number, setCurrency, shareLink } from './context.js';
import { h, s, say } from './dom.js';
import { t } from './i18n.js';
import encodeQR from './vendor/qr.js';

/** @param {HTMLElement} root @param {AbortSignal} signal @param {string} packetId */
export async function sentScreen(root, signal, packetId = '') {
  const packet = await api.packet(packetId, { signal });
  if (signal.aborted) return;
  setCurrency(packet.currency);
  const link = shareLink(packetId);
  const shown = h('input', { class: 'linkbox', id: 'link', readonly: true, value: link, 'aria-label': t('sent.link'), onFocus: () => shown.select() });
  const copy = h('button', { class: 'button', onClick: () => void copyLink(shown, copy) }, t('copy'));
  root.append(
    h(
      'section',
      { class: 'sent card' },
      h('h1', null, t('sent.title')),
      h('p', { class: 'big' }, money(packet.total_amount), h('small', null, t('sent.count', { count: number(packet.count) }))),
      h('p', { class: 'hint' }, t(packet.recipients ? 'sent.lead.some' : 'sent.lead')),
      qrCode(link),
      h('div', { class: 'row' }, shown, copy),
      h(
        'div',
        { class: 'row' },
        h('a', { class: 'button gold', href: `#/p/${packetId}` }, t('sent.open')),
        'share' in navigator &&
          h('button', { class: 'button plain', onClick: () => void navigator.share({ title: packet.greeting, url: link }).catch(() => {}) }, t('sent.share')),
        h('a', { class: 'link', href: '#/' }, t('sent.another')),
      ),
      h('details', { class: 'more' }, h('summary', null, t('sent.commitment')), h('p', { class: 'hint' }, t('sent.commitment.hint')), h('code', { class: 'hex' }, packet.commitment)),
    ),
  );
}

/** @param {HTMLInputElement} shown @param {HTMLElement} button */
async function copyLink(shown, button) {
  try {
    await navigator.clipboard.writeText(shown.value);
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
  const border = 2;
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
