// The plain red cover: waves of gold.

/** @type {import('../envelope.js').Cover} */
export const cover = {
  names: { en: 'Plain red', 'zh-CN': '中国红', 'zh-TW': '中國紅' },
  blessings: {
    en: ['Best wishes', 'Good luck', 'Thank you', 'Treat yourself'],
    'zh-CN': ['恭喜发财，大吉大利', '好运连连', '辛苦啦', '请你喝奶茶'],
    'zh-TW': ['恭喜發財，大吉大利', '好運連連', '辛苦了', '請你喝珍奶'],
  },
  colours: { '--cover': '#b81f33', '--cover-deep': '#8f1222', '--cover-bright': '#df4152', '--cover-art': '#f2cf86' },
  art: (s) => {
    // Rows of waves, each wave of three arcs, that fade upwards.
    const waves = [];
    for (let row = 0; row < 6; row += 1) {
      for (let x = row % 2 ? 0 : -25; x <= 325; x += 50) {
        for (const r of [24, 16, 8]) waves.push(`M${x - r} ${430 - row * 17}a${r} ${r} 0 0 1 ${2 * r} 0`);
      }
    }
    return [s('path', { d: waves.join(''), fill: 'none', stroke: 'currentColor', 'stroke-width': 1.2, opacity: 0.28 })];
  },
};
