// Words and phrases that documents and comments do without. ARCHITECTURE.md has the project's terms; CONTRIBUTING.md says how we write.
//
// [pattern, what to write instead]. Patterns ignore case. A space matches a line break too.
const listed = [
  ["he|him|his|himself", "they, or the noun: the winner, the caller, the user"],
  ["who(?:so)?ever|who (?:comes|came)", "the noun: any caller, each user, the operator"],
  ["told|hears?|heard", "is answered, receives"],
  ["patience", "timeout"],
  ["learners?|learns|learnt|learned", "reconciler, reconcile"],
  ["fences?|fenced|fencing|(?<!\\bin )facts?", "slip decision, known decision; or say what it is"],
  ["save (?:for|that|where|when|what|those|in)", "except"],
  ["but for|(?:all|none|nothing|nobody|anything|everything|any|every|no \\w+) but", "except, only"],
];

const word = ([pattern, instead]) => [new RegExp(`(?<![\\w-])(?:${pattern.replaceAll(" ", "\\s+")})(?![\\w-])`, "gi"), instead];

export const phrases = listed.map(word);
export const wordsMax = 30;
