// What the pictures in docs/images show. Their fingerprint lies beside them, so that a test notices when the page has changed since.

import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { relative } from 'node:path';

const root = new URL('../../', import.meta.url).pathname;

export const FINGERPRINT = new URL('../../docs/images/page.sha256', import.meta.url);

/** Files of the page that no picture shows. */
const UNSEEN = /console|zh-TW|vendor|birthday|wedding|mine|withdraw|session|problems|\.(png|webmanifest)$/;

/** Returns the fingerprint of the page's files that the pictures show, and of the program that takes them. */
export async function fingerprint() {
  const files = await readdir(`${root}web`, { recursive: true, withFileTypes: true });
  const names = files.filter((file) => file.isFile()).map((file) => relative(root, `${file.parentPath}/${file.name}`));
  const shown = ['tests/web/pictures.test.mjs', ...names.filter((name) => !UNSEEN.test(name)).sort()];
  const hash = createHash('sha256');
  for (const name of shown) hash.update(name).update(await readFile(root + name));
  return hash.digest('hex');
}
