// `make prose`: checks the prose of every file that Git knows, and the links, anchors and named files of its documents, offline. With
// arguments it checks the prose of these files only.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { remark } from "remark";
import remarkGfm from "remark-gfm";
import remarkValidateLinks from "remark-validate-links";
import { engine } from "unified-engine";
import { findings, isKnown } from "./check.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const named = process.argv.slice(2);
const known = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 })
  .trim().split("\n").filter(file => existsSync(join(root, file)));
const read = file => readFileSync(join(root, file), "utf8");

// Chinese; written by others; generated from openapi.yaml and hongbao.js, which are checked.
const skipped = [/\.zh-CN\.md$/, /^web\/assets\/vendor\//, /^clients\/js\/.*\.d\.ts$/];
const files = (named.length ? named : known).filter(file => isKnown(file) && !skipped.some(path => path.test(file)));

let count = 0;
for (const file of files) {
  for (const { line, column, message } of await findings(file, read(file))) {
    console.log(`${file}:${line}:${column} ${message}`);
    count += 1;
  }
}
if (count > 0) console.error(`prose: ${count} findings in ${files.length} files. CONTRIBUTING.md says how we write.`);
if (named.length) process.exit(Number(count > 0));

const documents = known.filter(file => file.endsWith(".md"));
let missing = 0;
const report = (file, target) => { console.error(`${file}: cannot find ${target}`); missing += 1; };

for (const file of documents) {
  const text = read(file);
  // remark-validate-links reads Markdown's own links; pictures are often HTML, for their width.
  for (const [, target] of text.matchAll(/<(?:img|source|a)\s[^>]*?(?:src|srcset|href)="([^"#:]+)[^":]*"/g)) {
    if (!existsSync(join(root, dirname(file), target))) report(file, target);
  }
  // A file that is named in code, by the end of its path: `grab/mod.rs`.
  for (const [, target] of text.matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:rs|lua|md|m?js|ts|py|sh|ya?ml|toml|json))`/g)) {
    if (!known.some(path => `/${path}`.endsWith(`/${target}`)) && !/^(?:target|\.\w+)\//.test(target)) report(file, target);
  }
}

engine({
  processor: remark().use(remarkGfm),
  plugins: [[remarkValidateLinks, { repository: false }]],
  cwd: root,
  files: documents,
  frail: true,
  quiet: true,
  output: false,
  detectConfig: false,
  detectIgnore: false,
}, (error, code) => {
  if (error) throw error;
  process.exit(code || Number(missing + count > 0));
});
