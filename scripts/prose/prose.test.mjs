// Every rule finds the mistake of its example, at its place, in every kind of file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings } from "./check.mjs";

const places = async (file, source) => (await findings(file, source)).map(({ line, column }) => `${line}:${column}`);
const long = `A sentence ${"of many words ".repeat(10)}ends.`;

test("a word and a long sentence in a document", async () => {
  assert.deepEqual(await places("a.md", "# A fence\n\nThe winner keeps it.\nThen he\nleaves.\n"), ["1:5", "4:6"]);
  assert.deepEqual(await places("a.md", `It is short. ${long}\n`), ["1:14"]);
  assert.deepEqual(await places("a.md", `A [${long}](x) link, \`he\` in code.\n\n    he\n\n| ${long} |\n| --- |\n`), []);
});

test("a phrase across lines", async () => {
  assert.deepEqual(await places("a.md", "All but\nforgotten. Nothing\nbut trouble.\n"), ["1:1", "2:12"]);
});

test("comments, not code or strings", async () => {
  assert.deepEqual(await places("a.rs", 'let he = "// his"; // his slip\n    /// It says his. It stays.\n//! His.\n'), ["1:23", "2:17", "3:5"]);
  assert.deepEqual(await places("a.lua", "local he = 1\n-- he  the caller\n"), ["2:4"]);
  assert.deepEqual(await places("Makefile", "he: ## Take his slip\n\techo he\n"), ["1:13"]);
  assert.deepEqual(await places("a.py", 'x = "# he"\n# he\ndef f():\n    """Keeps his slip.\n\n    Then he leaves.\n    """\n    he = 1\n'), ["2:3", "4:14", "6:10"]);
  assert.deepEqual(await places("a.js", "he(); // he\n/**\n * Keeps his slip.\n */\nhe();\n"), ["1:10", "3:10"]);
});

test("messages and names of functions in Rust", async () => {
  assert.deepEqual(await places("a.rs", 'fn the_winner_keeps_his_slip() { his(); panic!("he has his"); }\n'), ["1:21", "1:49", "1:56"]);
});

test("descriptions in YAML", async () => {
  assert.deepEqual(await places("a.yaml", "name: he\ndescription: he\nparts:\n  - summary: 'his slip'\n  - description: |\n      First.\n\n      He left.\n# his\n"), ["2:14", "4:15", "8:7", "9:3"]);
});
