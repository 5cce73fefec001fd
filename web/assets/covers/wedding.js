// Wedding: double happiness between two clouds of rings.

/** @type {import('../envelope.js').Cover} */
export const cover = {
  names: { en: 'Wedding', 'zh-CN': '新婚', 'zh-TW': '新婚' },
  blessings: {
    en: ['Happily ever after', 'To the two of you', 'Love and laughter', 'Congratulations'],
    'zh-CN': ['百年好合，永结同心', '新婚快乐', '白头偕老', '早生贵子'],
    'zh-TW': ['百年好合，永結同心', '新婚快樂', '白頭偕老', '佳偶天成'],
  },
  colours: { '--cover': '#a51445', '--cover-deep': '#6f0b30', '--cover-bright': '#d8456f', '--cover-art': '#ffd9b0' },
  art: (s) => [
    s('circle', { class: 'motif', cx: 150, cy: 368, r: 51, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.6 }),
    s('circle', { class: 'motif', cx: 150, cy: 368, r: 46, fill: 'none', stroke: 'currentColor', 'stroke-width': 0.8, 'stroke-dasharray': '1.5 4' }),
    s('path', { class: 'motif', d: XI, transform: 'translate(116 334) scale(.34)', fill: 'currentColor' }),
    ...[[50, 300], [250, 300], [34, 392], [266, 392], [84, 418], [216, 418]].map(([x, y], i) => heart(s, `translate(${x} ${y}) scale(${i < 2 ? 0.8 : 1}) rotate(${i % 2 ? 12 : -12})`)),
  ],
};

const XI = 'M45 6v24h-37l2 5h35v17h-34l2 6h83c3 0 5-1 5-3c-7-7-19-16-19-16l-11 13h-4v-17h32h2h31v17h-30l2 6h83c3 0 5-1 6-3c-8-7-20-16-20-16l-10 13h-8v-17h35c2 0 4-1 5-3c-8-7-20-17-20-17l-11 14h-9v-15c4-1 6-3 6-5l-29-3v23h-31c-7-6-17-14-17-14l-10 15h-7v-16c5-1 6-3 6-5zm-26 64v36h3c3 0 5-1 7-1c3 5 4 13 3 19c2 3 5 4 8 5h-35l2 6h92h91c3 0 5-1 5-4c-7-6-18-16-18-16l-11 14h-13c6-6 13-12 17-17c5 1 7-1 7-4l-25-6c-1 8-3 19-4 27h-16c10-2 15-17-9-26c3-1 5-2 5-3h35v4h4c7 0 18-4 18-5v-21c3-1 5-2 6-4l-20-15l-10 11h-32l-22-9v45h3c3 0 5-1 8-1c2 5 3 13 2 19c3 3 5 4 8 5h-27c-6-6-15-13-15-13l-10 13h-11c6-5 12-12 17-16c4 0 6-2 7-4l-26-7c-1 8-2 19-3 27h-17c11-2 16-17-9-26c3-1 6-2 6-3h33v4h4c6 0 17-4 17-5v-21c3-1 5-2 6-4l-19-14l-10 10h-30l-22-9zm109 24v-19h35v19zm-20 52v47h2c9 0 18-4 18-6v-6h34v10h4c6 0 17-4 17-5v-32c4 0 6-2 7-3l-20-16l-10 11h-31l-21-9zm20 30v-25h34v25zm-88-82v-19h33v19zm-20 52v47h2c9 0 18-4 18-6v-6h34v10h3c7 0 18-4 18-5v-32c3 0 6-2 7-3l-20-15l-10 10h-31l-21-9zm20 29v-24h34v24z';

/** @param {Parameters<import('../envelope.js').Cover['art']>[0]} s @param {string} transform */
function heart(s, transform) {
  return s('path', { transform, d: 'M0 12C-22-3-14-18-5-15-2-14 0-11 0-9 0-11 2-14 5-15 14-18 22-3 0 12Z', fill: 'currentColor', opacity: 0.5 });
}
