// Checks the prose of one file: textlint's kernel with two rules of our own.

import { TextlintKernel } from "@textlint/kernel";
import textlintMarkdown from "@textlint/textlint-plugin-markdown";
import { splitAST } from "sentence-splitter";
import { markdownOf } from "./extract.mjs";
import { phrases, wordsMax } from "./phrases.mjs";

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
