//! Texts that users write: what a passphrase is compared as, and what a greeting may show to others.

use unicode_normalization::UnicodeNormalization;

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

/// The variation selectors for text and for emoji.
const SELECTORS: [char; 2] = ['\u{fe0e}', '\u{fe0f}'];

/// The joiner that makes one emoji of several.
const JOINER: char = '\u{200d}';

/// Whether others can see all of `text`, in the order in which it was written. It then has no control characters, no
/// invisible characters and no characters that change the direction of the text around them. A variation selector may
/// follow a symbol, and a joiner may stand between two emoji. The schema `Greeting` of openapi.yaml is the same rule.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    let mut letters = text.chars().peekable();
    // What may follow the last letter.
    let (mut selector, mut joiner) = (false, false);
    while let Some(letter) = letters.next() {
        (selector, joiner) = match letter {
            _ if SELECTORS.contains(&letter) && selector => (false, joiner),
            JOINER if joiner && letters.peek().copied().is_some_and(is_emoji) => (false, false),
            _ if is_hidden(letter) => return false,
            _ => (has_variants(letter), is_emoji(letter)),
        };
    }
    true
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
const fn is_emoji(letter: char) -> bool {
    matches!(letter, '\u{2190}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character can be shown as text or as an emoji. It is an emoji, or a symbol of another block, as in keycaps
/// and ㊗.
const fn has_variants(letter: char) -> bool {
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

    #[test]
    fn emoji_are_plain() {
        // With selectors, skin tones, joiners, keycaps and flags.
        for text in [
            "🧧",
            "❤\u{fe0f}❤\u{fe0e}",
            "👨\u{200d}👩\u{200d}👧\u{200d}👦",
            "👩🏽\u{200d}🚀",
            "❤\u{fe0f}\u{200d}🔥",
            "👁\u{fe0f}\u{200d}🗨\u{fe0f}",
            "🏃🏿\u{200d}♀\u{fe0f}\u{200d}➡\u{fe0f}",
            "🐈\u{200d}⬛",
            "1\u{fe0f}\u{20e3}#\u{fe0f}\u{20e3}",
            "©\u{fe0f}™\u{fe0f}㊗\u{fe0f}㊙\u{fe0f}⤴\u{fe0f}〰\u{fe0f}",
            "🇨🇳",
        ] {
            assert!(is_plain(text), "{text}");
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
        // A selector or joiner without its emoji.
        for text in [
            "a\u{fe0f}",
            "\u{fe0f}",
            "❤\u{fe0f}\u{fe0f}",
            "❤\u{fe0f}\u{fe0e}",
            "\u{200d}👩",
            "👩\u{200d}",
            "👩\u{200d}a",
            "a\u{200d}👩",
            "1\u{200d}2",
            "1\u{fe0f}\u{200d}👩",
            "👩\u{200d}\u{fe0f}👩",
            "👩\u{200d}\u{200d}👩",
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
