// `make prose`: checks the prose of every file that Git knows, or of those that are named.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findings } from "./check.mjs";
import { isKnown } from "./extract.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const named = process.argv.slice(2);
const git = () => execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
const files = (named.length ? named : git().trim().split("\n")).filter(file => isKnown(file) && existsSync(join(root, file)));

// Chinese; written by others; generated from openapi.yaml and hongbao.js, which are checked.
const skipped = [/\.zh-CN\.md$/, /^web\/assets\/vendor\//, /^clients\/js\/.*\.d\.ts$/];

let count = 0;
for (const file of files.filter(file => !skipped.some(path => path.test(file)))) {
  for (const { line, column, message } of await findings(file, readFileSync(join(root, file), "utf8"))) {
    console.log(`${file}:${line}:${column} ${message}`);
    count += 1;
  }
}
if (count > 0) {
  console.error(`prose: ${count} findings in ${files.length} files. CONTRIBUTING.md says how we write.`);
  process.exit(1);
}
