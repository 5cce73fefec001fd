//! Texts that users write: what a passphrase is compared as, and what a greeting may show to others.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// A passphrase in the form in which it is compared: NFKC, without invisible characters, and without white space at its
/// ends. Passphrases that look alike are equal, whatever keyboard wrote them. Upper and lower case differ.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passphrase(Box<str>);

impl Passphrase {
    /// The passphrase that `text` stands for. It may be empty.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let visible = text.chars().filter(|&letter| !is_ignorable(letter));
        Self(visible.nfkc().collect::<String>().trim().into())
    }

    /// The normalised text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The joiners: ZWNJ keeps two letters apart, ZWJ connects letters or emoji.
const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';

/// The flags of England, Scotland and Wales, the only ones that are made of tags: UTS #51 lists no others.
const FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Whether others can see all of `text`, in the order in which it was written. It then has no control characters, no
/// characters that change the direction of the text around them, and no invisible characters, except where `has_meaning`
/// finds one. `web/assets/input.js` is the same rule, and `tests/greetings.json` has examples for both.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    if !text.contains(is_hidden) {
        return true;
    }
    let text = FLAGS.iter().fold(text.to_owned(), |text, flag| text.replace(flag, "\u{1f3f4}"));
    let letters: Vec<char> = text.chars().collect();
    let is_seen = |(place, &letter): (usize, &char)| {
        !is_hidden(letter) || has_meaning(&letters[..place], letter, &letters[place + 1..])
    };
    letters.iter().enumerate().all(is_seen)
}

/// Whether a hidden character says something between the characters before and after it. Those before it have been judged.
fn has_meaning(before: &[char], letter: char, after: &[char]) -> bool {
    let (last, next) = (before.last().copied(), after.first().copied());
    // The letter or symbol that the last character is a mark on.
    let base = before.iter().copied().rfind(|&letter| !is_combining_mark(letter));
    let is = |letter: Option<char>, kind: fn(char) -> bool| letter.is_some_and(kind);
    match letter {
        '\u{fe0e}' | '\u{fe0f}' => is(last, has_variants),
        // Standardized variants have the first three selectors, ideographic ones those of plane 14.
        '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => is(last, is_ideograph),
        '\u{180b}'..='\u{180d}' | '\u{180f}' => is(last, is_mongolian),
        // Parts the last vowel of a word.
        '\u{180e}' => is(base, is_mongolian) && is(next, is_mongolian),
        ZWJ if is(base, is_emoji) && is(next, is_emoji) => true,
        // A letter takes the form that it has inside a word.
        ZWJ if is(base, is_cursive) => true,
        // Bengali and Kannada keep the form of ra, Sinhala letters touch.
        ZWJ if is(base, char::is_alphabetic) && is(next, is_virama) => is(after.get(1).copied(), is_letter),
        ZWNJ if is(base, is_cursive) && is(next, is_cursive) => true,
        ZWNJ | ZWJ => is(base, char::is_alphabetic) && is(last, is_virama) && !is(next, is_combining_mark),
        _ => false,
    }
}

/// Whether a character is a sign that takes the vowel from the letter before it.
fn is_virama(letter: char) -> bool {
    canonical_combining_class(letter) == 9
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() && !is_combining_mark(letter)
}

/// Whether a character is a letter that connects to its neighbours: of Arabic, Syriac, N'Ko, Mandaic, Mongolian, Hanifi
/// Rohingya or Adlam. A whole script counts, also those of its letters that connect on one side only, because people
/// write a ZWNJ after these, too.
fn is_cursive(letter: char) -> bool {
    is_letter(letter)
        && matches!(
            letter,
            '\u{620}'..='\u{77f}'
                | '\u{7c0}'..='\u{7ff}'
                | '\u{840}'..='\u{8ff}'
                | '\u{1820}'..='\u{18aa}'
                | '\u{10d00}'..='\u{10d3f}'
                | '\u{1e900}'..='\u{1e95f}'
        )
}

fn is_mongolian(letter: char) -> bool {
    matches!(letter, '\u{1820}'..='\u{18aa}')
}

/// Whether a character is a unified ideograph, the only kind that has ideographic variants.
fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{fa0e}'..='\u{fa29}' | '\u{20000}'..='\u{3fffd}')
}

/// Whether a character has no place in a text for others: it is invisible, moves what stands around it, or has no
/// meaning that writer and reader share. Characters that Unicode has not assigned yet are allowed: each year some become
/// emoji.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || is_ignorable(letter)
        // Separators of lines and paragraphs.
        || matches!(letter, '\u{2028}' | '\u{2029}')
        // Private use, and the planes behind the tags, which are for variation selectors and private use.
        || matches!(letter, '\u{e000}'..='\u{f8ff}' | '\u{e1000}'..)
}

/// Whether a character is invisible: Unicode's property `Default_Ignorable_Code_Point`, and the marks of annotations
/// (U+FFF9 to U+FFFB). The property includes all controls of direction, zero-width characters, tags and variation
/// selectors, and the ranges that Unicode reserves for more of them.
const fn is_ignorable(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether a character is in a block of emoji and symbols. All emoji that a joiner connects are, with their skin tones.
fn is_emoji(letter: char) -> bool {
    matches!(letter, '\u{2190}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character can be shown as text or as an emoji. It is an emoji, or a symbol of another block, as in keycaps
/// and ㊗.
fn has_variants(letter: char) -> bool {
    is_emoji(letter)
        || matches!(
            letter,
            '#' | '*' | '0'..='9' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '⤴' | '⤵' | '〰' | '〽' | '㊗' | '㊙'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        Passphrase::new(text).as_str().to_owned()
    }

    #[test]
    fn passphrases_that_look_alike_are_equal() {
        for (text, expected) in [
            ("芝麻开门", "芝麻开门"),
            (" 芝麻开门\u{3000}\n", "芝麻开门"),
            ("ａｂｃ　１２３！", "abc 123!"),
            ("ｶﾞﾝ", "ガン"),
            ("e\u{301}", "é"),
            ("e\u{200d}\u{301}", "é"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
            ("❤\u{fe0f}", "❤"),
            ("\u{feff}a\u{200b}b\u{ad}", "ab"),
            ("\u{ffa0}\u{3164} ", ""),
            ("a\u{a0}b  c", "a b  c"),
            ("ABC", "ABC"),
        ] {
            assert_eq!(normal(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_normalised_passphrase_stays_as_it_is() {
        // All planes with letters, and the tags.
        for letter in ('\0'..'\u{30000}').chain('\u{e0000}'..'\u{e1100}') {
            let once = normal(&format!("e{letter}\u{301}"));
            assert_eq!(normal(&once), once, "{letter:?}");
            let alone = normal(&letter.to_string());
            assert_eq!(normal(&alone), alone, "{letter:?}");
            assert_eq!(alone.is_empty(), letter.is_whitespace() || is_ignorable(letter), "{letter:?}");
        }
    }

    /// The examples that the page reads, too.
    #[test]
    fn the_examples_are_judged_as_the_page_judges_them() {
        #[derive(serde::Deserialize)]
        struct Group {
            #[serde(default)]
            plain: Vec<String>,
            #[serde(default)]
            cleaned: Vec<(String, String)>,
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/greetings.json");
        let groups: Vec<Group> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (refused, clean) in groups.iter().flat_map(|group| &group.cleaned) {
            assert!(!is_plain(refused) && is_plain(clean), "{refused:?}");
        }
        let plain = || groups.iter().flat_map(|group| &group.plain);
        for text in plain() {
            assert!(is_plain(text), "{text:?}");
        }
        // The page has a table of all viramas.
        for virama in ('\0'..=char::MAX).filter(|&letter| is_virama(letter)) {
            let word = format!("क{virama}\u{200c}क{virama}\u{200d}");
            assert!(plain().any(|text| text.contains(&word)), "add {word:?}");
        }
    }

    #[test]
    fn what_is_invisible_or_turns_the_text_is_not_plain() {
        for letter in '\0'..=char::MAX {
            assert_eq!(is_plain(&letter.to_string()), !is_hidden(letter), "{letter:?}");
        }
        for text in [
            "\u{202e}fdp",
            "a\u{2066}b",
            "\u{200f}",
            "恭\u{200b}喜",
            "\u{feff}",
            "a\u{ad}",
            "\u{e0041}",
            "\u{e000}",
            "\n",
        ] {
            assert!(!is_plain(text), "{text:?}");
        }
    }

    #[test]
    fn plain_text_may_be_of_any_script() {
        for text in
            ["", " ", "恭喜发财，大吉大利！", "שלום", "مرحبا", "नमस्ते", "e\u{301}", "\u{378}", "\u{1fae9}", "<b>&"]
        {
            assert!(is_plain(text), "{text:?}");
        }
    }
}
