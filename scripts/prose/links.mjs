// Checks the relative links and anchors of every Markdown file, offline: `make prose`.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { remark } from "remark";
import remarkGfm from "remark-gfm";
import remarkValidateLinks from "remark-validate-links";
import { engine } from "unified-engine";

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], { cwd: root, encoding: "utf8" })
  .trim().split("\n").filter(file => existsSync(join(root, file)));

// remark-validate-links reads Markdown's own links; pictures are often HTML, for their width.
let missing = 0;
for (const file of files) {
  for (const [, target] of readFileSync(join(root, file), "utf8").matchAll(/<(?:img|source|a)\s[^>]*?(?:src|srcset|href)="([^"#:]+)[^":]*"/g)) {
    if (existsSync(join(root, dirname(file), target))) continue;
    console.error(`${file}: cannot find ${target}`);
    missing += 1;
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
