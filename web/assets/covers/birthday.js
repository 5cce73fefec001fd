// Birthday: a cake with candles, and confetti.

/** @type {import('../envelope.js').Cover} */
export const cover = {
  names: { en: 'Birthday', 'zh-CN': '生日', 'zh-TW': '生日' },
  blessings: {
    en: ['Happy birthday', 'Make a wish', 'Another lovely year', 'Cake is on me'],
    'zh-CN': ['生日快乐，天天开心', '许个愿吧', '又长大一岁啦', '蛋糕我请'],
    'zh-TW': ['生日快樂，天天開心', '許個願吧', '又長大一歲了', '蛋糕我請'],
  },
  colours: { '--cover': '#c23222', '--cover-deep': '#9a2027', '--cover-bright': '#f37a4a', '--cover-art': '#ffe2a0' },
  art: (s) => {
    const bits = Array.from({ length: 34 }, (_, i) => {
      // Scattered, and the same each time.
      const [x, y] = [(i * 83) % 300, 268 + ((i * 47) % 150)];
      return s('rect', { x, y, width: 4, height: i % 3 ? 9 : 4, rx: i % 3 ? 1 : 2, transform: `rotate(${(i * 61) % 180} ${x} ${y})`, opacity: 0.35 + (i % 4) * 0.12 });
    });
    const candles = [116, 138, 162, 184].map((x) =>
      s('g', null, s('rect', { x: x - 3, y: 306, width: 6, height: 26, rx: 2 }), s('path', { d: `M${x} 286c7 8 5 16 0 16s-7-8 0-16z`, fill: 'var(--cover-bright)', stroke: 'currentColor' })),
    );
    return [
      s('g', { fill: 'currentColor' }, ...bits),
      s(
        'g',
        { class: 'motif', transform: 'translate(33 95) scale(.78)' },
        s('g', { fill: 'currentColor' }, ...candles),
        s('path', { d: 'M92 346a14 14 0 0 1 14-14h88a14 14 0 0 1 14 14v66H92z', fill: 'currentColor' }),
        s('path', { d: 'M92 350c10 18 20 18 29 0 10 18 20 18 29 0 10 18 20 18 29 0 10 18 20 18 29 0v-4a14 14 0 0 0-14-14h-88a14 14 0 0 0-14 14z', fill: 'var(--cover)', opacity: 0.85 }),
        s('path', { d: 'M92 384h116', stroke: 'var(--cover)', 'stroke-width': 5, 'stroke-dasharray': '1 9', 'stroke-linecap': 'round' }),
        s('rect', { x: 74, y: 410, width: 152, height: 7, rx: 3.5, fill: 'currentColor' }),
      ),
    ];
  },
};
