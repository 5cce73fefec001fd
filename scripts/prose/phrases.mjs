// Words and phrases that our documents and comments do without. ARCHITECTURE.md has the project's terms; CONTRIBUTING.md says how we write.
//
// [pattern, what to write instead]. Patterns ignore case unless the third element says otherwise. A space matches a line break too.

const dated = [
  ["fences?|fenced|fencing", "slip decision"],
  ["(?<!\\bin )facts?", "slip decision, known decision; or say what it is"],
  ["learners?|learns|learnt|learned", "reconciler, reconcile"],
  ["(?<!in |single-)flights?|runway|boarding", "single-flight"],
  ["turns (?:of|for)|(?:a|an|its|their|each|one|own) turn", "permit, admission limiter"],
  ["told", "is answered, receives"],
  ["hears?|heard", "receives, is answered"],
  ["heeds?|heeded", "absorb; or say what is done"],
  ["patience", "timeout"],
  ["standing of", "packet snapshot"],
];

const plain = [
  ["he|him|his|himself", "they, or the noun: the winner, the caller, the user"],
  ["who(?:so)?ever", "the noun: any caller, each user, the operator"],
  ["who (?:comes|came)", "the noun: a caller, a later claim"],
  ["(?:is|are|was|were|be) held against|holds? (?:it |them |a \\w+ |the \\w+ )?against", "checked against, compared with"],
  ["save (?:for|that|where|when|what|those|in)", "except"],
  ["but for|(?:all|none|nothing|nobody|anything|everything|any|every|no \\w+) but", "except, only"],
  ["nothing else than|none other than|no other than", "only"],
  ["alone", "only; by itself"],
  ["one's own|of one's|one's", "your own, their own"],
  ["sooner (?:built|than)", "faster"],
  ["the eyes of", "say who checks"],
  ["up to now|hitherto|thereof|whereof|lest|whilst", "a common word"],
];

// Of a whole sentence. A question may begin with these words.
const openings = [["(?:What|Who|Whose|Whatever)\\b.*[^?]$", "begin with the subject: a noun, not a clause"]];

const word = ([pattern, instead]) => [new RegExp(`(?<![\\w-])(?:${pattern.replaceAll(" ", "\\s+")})(?![\\w-])`, "gi"), instead];

export const phrases = [...dated, ...plain].map(word);
export const sentenceOpenings = openings.map(([pattern, instead]) => [new RegExp(`^${pattern}`, "s"), instead]);
export const wordsMax = 30;
