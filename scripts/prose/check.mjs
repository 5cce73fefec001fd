// Checks the prose of one file: textlint's kernel with two rules of our own, over the Markdown that the file is or has in its comments.

import { TextlintKernel } from "@textlint/kernel";
import textlintMarkdown from "@textlint/textlint-plugin-markdown";
import { splitAST } from "sentence-splitter";
import { parseDocument, visit, isScalar } from "yaml";

// Words and phrases that documents and comments do without. ARCHITECTURE.md has the project's terms; CONTRIBUTING.md says how we write.
//
// [pattern, what to write instead]. Patterns ignore case. A space matches a line break too.
const listed = [  ["he|him|his|himself", "they, or the noun: the winner, the caller, the user"],
  ["who(?:so)?ever|who (?:comes|came)", "the noun: any caller, each user, the operator"],
  ["told|hears?|heard", "is answered, receives"],
  ["patience", "timeout"],
  ["learners?|learns|learnt|learned", "reconciler, reconcile"],
  ["fences?|fenced|fencing|(?<!\\bin )facts?", "slip decision, known decision; or say what it is"],
  ["save (?:for|that|where|when|what|those|in)", "except"],
  ["but for|(?:all|none|nothing|nobody|anything|everything|any|every|no \\w+) but", "except, only"],
];

const word = ([pattern, instead]) => [new RegExp(`(?<![\\w-])(?:${pattern.replaceAll(" ", "\\s+")})(?![\\w-])`, "gi"), instead];

const phrases = listed.map(word);
const wordsMax = 30;

const kernel = new TextlintKernel();
const markdown = { pluginId: "markdown", plugin: textlintMarkdown.default ?? textlintMarkdown };

// A node's text as a reader counts it: code and links are one word each, pictures and HTML none.
function counted(node) {
  switch (node.type) {
    case "Code": return "code";
    case "Link": case "LinkReference": return "link";
    case "Image": case "ImageReference": case "Html": return "";
    case "Break": return " ";
    default: return node.value ?? (node.children ?? []).map(counted).join("");
  }
}

const shown = text => text.replace(/\s+/g, " ");

function sentences({ Syntax, RuleError, report, locator }) {
  return {
    [Syntax.Paragraph](node) {
      for (const sentence of splitAST(node).children.filter(({ type }) => type === "Sentence")) {
        const padding = locator.range(sentence.range.map(offset => offset - node.range[0]));
        const words = counted(sentence).trim().split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length;
        if (words > wordsMax) report(node, new RuleError(`a sentence of ${words} words; at most ${wordsMax}`, { padding }));
      }
    },
  };
}

function wording({ Syntax, RuleError, report, locator }) {
  return {
    [Syntax.Str](node) {
      for (const [pattern, instead] of phrases) {
        for (const { 0: found, index } of node.value.matchAll(pattern)) {
          const padding = locator.range([index, index + found.length]);
          report(node, new RuleError(`“${shown(found)}”: ${instead}`, { padding }));
        }
      }
    },
  };
}

// `[{ line, column, message }]`, both from 1, of a file's documents, comments or descriptions.
export async function findings(file, source) {
  const { text, places } = markdownOf(file, source);
  if (!text.trim()) return [];
  const { messages } = await kernel.lintText(text, {
    ext: ".md",
    plugins: [markdown],
    rules: [
      { ruleId: "sentences", rule: sentences },
      { ruleId: "wording", rule: wording },
    ],
  });
  return messages.map(({ loc: { start }, message }) => {
    const { line, column } = places[start.line - 1];
    return { line, column: column + start.column - 1, message };
  }).sort((one, other) => one.line - other.line || one.column - other.column);
}

// --- From a file to Markdown that textlint can read, with the place in the file that each line came from

// What a line begins with whose rest is a comment; what a comment after code begins with.
// Strings are blanked before comments are looked for, because they may contain what begins a comment.
const strings = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;
const hash = { full: /#+!?/, after: /#+/, strings };
const js = { full: /\/\/|\/\*\*?|\*(?![/\w])/, after: /\/\//, strings };
// A single quote in Rust may begin a lifetime.
const rs = {
  full: /\/\/[/!]?/,
  after: /\/\//,
  strings: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'/g,
  // Messages, and the names of functions, which in tests are sentences.
  spoken: /(?<=")(?:[^"\\]|\\.)*(?=")|(?<=\bfn )\w+/g,
};
const markers = { rs, js, mjs: js, ts: js, lua: { full: /--/, after: /--/, strings } };
const hashes = new Set(["sh", "py", "toml", "yaml", "yml", "Makefile", "run"]);
const described = new Set(["description", "summary", "title", "Description", "AlarmDescription"]);

// Whether there is prose in a file of this name that `markdownOf` finds.
export function isKnown(path) {
  const kind = kindOf(path);
  return kind === "md" || hashes.has(kind) || kind in markers;
}

// `{ text, places }`: Markdown, and for each of its lines `{ line, column }` of its first character, both from 1.
function markdownOf(path, source) {
  const kind = kindOf(path);
  const lines = source.split("\n");
  if (kind === "md") return assemble(lines.map((text, at) => ({ line: at + 1, column: 1, text })));
  const found = comments(kind === "py" ? docstringsMarked(lines) : lines, markers[kind] ?? hash);
  if (kind === "yaml" || kind === "yml") found.push(...descriptions(source, lines));
  return assemble(found);
}

const kindOf = path => {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return name.slice(name.lastIndexOf(".") + 1);
};

function assemble(found) {
  const text = [], places = [];
  for (const { line, column, text: words } of found) {
    text.push(words);
    places.push({ line, column });
  }
  return { text: text.join("\n"), places };
}

const blank = line => ({ line, column: 1, text: "" });

// Comments that fill their lines follow each other as in the file. A comment after code, a line of columns, a JSDoc tag and a
// message are paragraphs of their own.
function comments(lines, marker) {
  const full = new RegExp(`^(\\s*(?:${marker.full.source})) ?`);
  const after = new RegExp(`^(.*\\S\\s+(?:${marker.after.source})) `);
  const found = [];
  lines.forEach((source, at) => {
    const line = at + 1;
    const lone = full.exec(source);
    const code = source.replace(marker.strings, literal => "_".repeat(literal.length));
    const trailing = !lone && after.exec(code);
    const prefix = (lone || trailing || [""])[0].length;
    const text = source.slice(prefix);
    const apart = !lone || text.startsWith("@") || /^[-=~#*/ ]*$/.test(text) || /\S {2,}\S/.test(text) && !/^\s*(?:[-*]|\d+\.) /.test(text);
    if (apart) found.push(blank(line));
    for (const { 0: name, index } of (!lone && marker.spoken && source.matchAll(marker.spoken)) || []) {
      const words = name.replaceAll("_", " ");
      if (words.split(" ").length > 2) found.push({ line, column: index + 1, text: words }, blank(line));
    }
    if (lone || trailing) found.push({ line, column: prefix + 1, text });
    if (apart) found.push(blank(line));
  });
  return found;
}

// A docstring's lines as comments of the same columns. Other strings of three quotes are not prose.
function docstringsMarked(lines) {
  let open = null;
  return lines.map(line => {
    const quotes = line.split('"""').length - 1;
    const begins = !open && /^\s*"""/.test(line);
    const inDocstring = begins || open === "docstring";
    if (quotes % 2 === 1) open = open ? null : begins ? "docstring" : "string";
    if (!inDocstring) return line;
    const [, indent, text] = /^(\s*(?:""")?)(.*?)(?:""")?$/.exec(line);
    return `${"#".padStart(indent.length - 1)} ${text}`;
  });
}

function descriptions(source, lines) {
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1) + line.length + 1);
  const lineOf = offset => {
    let low = 0, high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= offset) low = middle; else high = middle;
    }
    return low;
  };
  const found = [];
  visit(parseDocument(source, { logLevel: "silent" }), {
    Pair(_, { key, value }) {
      if (!isScalar(key) || !described.has(key.value) || !isScalar(value) || typeof value.value !== "string") return;
      const [from, to] = value.range;
      const block = value.type.startsWith("BLOCK");
      const first = lineOf(from) + (block ? 1 : 0), last = lineOf(to - 1);
      const body = lines.slice(first, last + 1).map((text, at) => {
        const begin = block || at > 0 ? 0 : from - starts[first] + (value.type === "PLAIN" ? 0 : 1);
        const end = !block && at === last - first ? to - starts[last] - (value.type === "PLAIN" ? 0 : 1) : text.length;
        return { line: first + at + 1, column: begin + 1, text: text.slice(begin, end) };
      });
      const rest = block ? body : body.slice(1);
      const indent = Math.min(...rest.filter(({ text }) => text.trim()).map(({ text }) => /^ */.exec(text)[0].length));
      for (const part of rest) {
        const dropped = Math.min(indent, part.text.length);
        part.text = part.text.slice(dropped);
        part.column += dropped;
      }
      found.push(blank(first + 1), ...body, blank(last + 1));
    },
  });
  return found;
}
