// The red envelope, drawn in CSS.

import { h, vary } from './dom.js';

/** Returns a user's first letter on a colour that is always the same for this user. @param {string} userId */
export function avatar(userId) {
  let hue = 0;
  for (const letter of userId) hue = (hue * 31 + (letter.codePointAt(0) ?? 0)) % 360;
  const first = [...userId][0]?.toUpperCase() ?? '?';
  return vary(h('span', { class: 'avatar', 'aria-hidden': 'true' }, first), { '--hue': hue });
}

/**
 * @param {{sender: string, from: string, greeting: string, seal: Node, foot?: Node | null}} parts
 */
export function envelope({ sender, from, greeting, seal, foot = null }) {
  return h(
    'div',
    { class: 'envelope' },
    h('div', { class: 'body', 'aria-hidden': 'true' }),
    h('div', { class: 'flap', 'aria-hidden': 'true' }),
    h(
      'div',
      { class: 'face' },
      h('p', { class: 'from' }, avatar(sender), h('span', null, from)),
      h('p', { class: 'greeting' }, greeting),
    ),
    h('div', { class: 'mouth' }, seal),
    h('div', { class: 'foot' }, foot),
  );
}

const GRAINS = 18;

/** Returns grains of gold that fly apart once, from the place where they are inserted. */
export function goldDust() {
  const grains = Array.from({ length: GRAINS }, (_, i) => {
    const [angle, far] = [(i / GRAINS) * 2 * Math.PI, 5 + Math.random() * 5];
    return vary(h('i'), { '--x': `${Math.cos(angle) * far * 1.4}rem`, '--y': `${Math.sin(angle) * far}rem`, '--late': `${Math.random() * 0.12}s` });
  });
  return h('span', { class: 'dust', 'aria-hidden': 'true' }, ...grains);
}
