// The page's words. They need no browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

test('every language has the same texts with the same placeholders', async () => {
  const [en, ...others] = await Promise.all(['en', 'zh-CN', 'zh-TW'].map(async (name) => (await import(`../../web/assets/lang/${name}.js`)).texts));
  const holes = (/** @type {any} */ text) => [...(text.other ?? text).matchAll(/\{\w+\}/g)].map(String).sort().join();
  assert.ok(Object.keys(en).length > 100);
  for (const other of others) {
    assert.deepEqual(Object.keys(other).sort(), Object.keys(en).sort());
    for (const key of Object.keys(en)) assert.equal(holes(other[key]), holes(en[key]), key);
  }
});
