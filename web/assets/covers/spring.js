// Spring Festival: 福 on its point, lanterns and plum blossom.

/** @type {import('../envelope.js').Cover} */
export const cover = {
  names: { en: 'Spring Festival', 'zh-CN': '新春', 'zh-TW': '新春' },
  blessings: {
    en: ['Happy New Year', 'Luck and health', 'May all go well', 'A prosperous year'],
    'zh-CN': ['新年快乐，万事如意', '福气满满', '岁岁平安', '身体健康，阖家幸福'],
    'zh-TW': ['新年快樂，萬事如意', '福氣滿滿', '歲歲平安', '身體健康，闔家幸福'],
  },
  colours: { '--cover': '#c8102e', '--cover-deep': '#8d0b1c', '--cover-bright': '#f0523d', '--cover-art': '#ffd36b' },
  art: (s) => [
    s('g', { class: 'motif', transform: 'translate(150 366) rotate(45) scale(.88)' }, s('rect', { x: -41, y: -41, width: 82, height: 82, rx: 6, fill: 'currentColor', opacity: 0.95 }), s('rect', { x: -35, y: -35, width: 70, height: 70, rx: 3, fill: 'none', stroke: 'var(--cover)', 'stroke-width': 1.6 })),
    s('path', { class: 'motif', d: FU, transform: 'translate(121 337) scale(.29)', fill: 'var(--cover-deep)' }),
    ...[[40, 300, 1], [262, 318, 0.8]].map(([x, y, k]) => lantern(s, `translate(${x} ${y}) scale(${k})`)),
    ...[[22, 402, 1.1], [78, 414, 0.7], [236, 412, 0.9], [284, 392, 0.7], [62, 386, 0.5], [250, 380, 0.5]].map(([x, y, k]) => blossom(s, `translate(${x} ${y}) scale(${k})`)),
  ],
};

const FU = 'M172 7l-13 16h-80l2 5h107c3 0 5-1 6-3c-9-7-22-18-22-18zm-144-1l-2 1c5 8 11 20 12 30c19 16 42-21-10-31zm96 106v27h-21v-27zm19 0h20v27h-20zm-40 75v-7h60v12h4c7 0 18-4 18-5v-72c4 0 7-2 9-4l-22-16l-11 11h-57l-22-9v97h3c9 0 18-5 18-7zm0-13v-29h21v29zm52-122v27h-42v-27zm-42 37v-4h42v7h4c7 0 18-3 18-5v-31c4-1 7-2 8-4l-22-17l-10 12h-39l-22-9v57h3c9 0 18-4 18-6zm30 85v-29h20v29zm-88 12v-86c4 8 8 17 9 25c14 13 31-16-9-32c9-11 16-22 22-33c5-1 7-1 9-3l-21-20l-12 12h-45l1 6h44c-8 26-28 57-50 78l2 2c10-6 19-12 28-20v78h4c11 0 18-5 18-7z';

/** @param {Parameters<import('../envelope.js').Cover['art']>[0]} s @param {string} transform */
function lantern(s, transform) {
  return s(
    'g',
    { transform },
    s('path', { d: 'M0-60V-26M-8-26H8M-8 24H8M-5 24v22M0 24v28M5 24v22', stroke: 'currentColor', 'stroke-width': 2, fill: 'none' }),
    s('ellipse', { rx: 27, ry: 25, fill: 'var(--cover-bright)', stroke: 'currentColor', 'stroke-width': 1.5 }),
    s('path', { d: 'M0-25C-14-14-14 14 0 25M0-25C14-14 14 14 0 25M0-25V25', stroke: 'currentColor', 'stroke-width': 1, fill: 'none' }),
  );
}

/** @param {Parameters<import('../envelope.js').Cover['art']>[0]} s @param {string} transform */
function blossom(s, transform) {
  const petals = Array.from({ length: 5 }, (_, i) => s('ellipse', { cy: -10, rx: 7.5, ry: 9.5, transform: `rotate(${i * 72})` }));
  return s('g', { transform, fill: 'currentColor', opacity: 0.85 }, ...petals, s('circle', { r: 4, fill: 'var(--cover-deep)' }));
}
