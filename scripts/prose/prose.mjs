// `make prose`: checks the prose of every file that Git knows, or of those that are named.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findings } from "./check.mjs";
import { exceptions, skipped } from "./exceptions.mjs";
import { isKnown } from "./extract.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const named = process.argv.slice(2);
const git = () => execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
const files = (named.length ? named : git().trim().split("\n")).filter(file => isKnown(file) && existsSync(join(root, file)));

const used = new Set();
let count = 0;
const report = line => { console.log(line); count += 1; };

for (const file of files) {
  const skip = skipped.find(({ path }) => path.test(file));
  if (skip) { used.add(skip); continue; }
  const source = readFileSync(join(root, file), "utf8");
  const lines = source.split("\n");
  for (const { line, column, message } of await findings(file, source)) {
    const exception = exceptions.find(({ file: name, text }) => name === file && lines[line - 1].includes(text));
    if (exception) used.add(exception);
    else report(`${file}:${line}:${column} ${message}`);
  }
}
if (!named.length) {
  for (const unused of [...skipped, ...exceptions].filter(one => !used.has(one))) {
    report(`scripts/prose/exceptions.mjs: nothing needs ${unused.text ?? unused.path}`);
  }
}
if (count > 0) {
  console.error(`prose: ${count} findings in ${files.length} files. CONTRIBUTING.md says how we write.`);
  process.exit(1);
}
