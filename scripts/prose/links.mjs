// `make prose`: checks the relative links, the anchors and the named files of every Markdown file, offline.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { remark } from "remark";
import remarkGfm from "remark-gfm";
import remarkValidateLinks from "remark-validate-links";
import { engine } from "unified-engine";

const root = fileURLToPath(new URL("../..", import.meta.url));
const known = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 })
  .trim().split("\n").filter(file => existsSync(join(root, file)));
const files = known.filter(file => file.endsWith(".md"));

let missing = 0;
const report = (file, target) => { console.error(`${file}: cannot find ${target}`); missing += 1; };

for (const file of files) {
  const text = readFileSync(join(root, file), "utf8");
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
  files,
  frail: true,
  quiet: true,
  output: false,
  detectConfig: false,
  detectIgnore: false,
}, (error, code) => {
  if (error) throw error;
  process.exit(code || Number(missing > 0));
});
