// Fails if the client's tracked types differ from those that openapi.yaml and hongbao.js generate.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'hongbao-types-'));
const here = new URL('.', import.meta.url).pathname;
const run = (/** @type {string} */ tool, /** @type {string[]} */ args) => execFileSync(join(here, 'node_modules/.bin', tool), args, { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] });
try {
  run('openapi-typescript', ['../../openapi.yaml', '--default-non-nullable', 'false', '-o', join(folder, 'api.d.ts')]);
  run('tsc', ['-p', 'tsconfig.client.json', '--outDir', folder]);
  for (const name of ['api.d.ts', 'hongbao.d.ts', 'webhooks.d.ts']) {
    if (readFileSync(join(folder, name), 'utf8') === readFileSync(join(here, '../../clients/js', name), 'utf8')) continue;
    console.error(`clients/js/${name} is not what openapi.yaml and the client give: run make generate ONLY=client`);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true });
}
