//! What the sender's app writes on a packet. The engine keeps it and shows it, and never acts on it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The look of a packet, which everybody sees: 1 to 32 of `[a-z0-9-]`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cover(Box<str>);

/// The app's own name for what a packet belongs to, such as an order: 1 to 64 of `[A-Za-z0-9_.:-]`. Several packets can have the
/// same one. It is not `.` or `..`, which no client can put into a path.
///
/// Without `#` no reference can reach past its place in a ledger key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference(Box<str>);

/// The sender's own name for what the packets with one [`WinLimit`](super::WinLimit) share: 1 to 64 of `[A-Za-z0-9_.:-]`.
///
/// Without `#` no key can reach past its place in a ledger key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct LimitKey(Box<str>);

/// Packets of one sender that belong together. One of the two names is there; with both, a packet has both.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selection {
    /// Who sent them.
    pub sender: super::UserId,
    /// Their reference.
    pub reference: Option<Reference>,
    /// The key of their limit.
    pub limit_key: Option<LimitKey>,
}

/// Why a text is not a label. The message says what one looks like, and never repeats the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be {expected}")]
pub struct LabelError {
    expected: &'static str,
}

/// The labels of a packet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Labels {
    /// The look, for everybody.
    pub cover: Option<Cover>,
    /// The app's name for what the packet belongs to; for its sender and the operator.
    pub reference: Option<Reference>,
    /// More of the app's own data, by key; for the same readers. Keys and values are plain, as a greeting is.
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Labels {
    /// The most keys of a packet's metadata.
    pub const METADATA_KEYS_MAX: usize = 10;
    /// The longest key of metadata, in characters.
    pub const METADATA_KEY_CHARS_MAX: usize = 40;
    /// The longest value of metadata, in characters.
    pub const METADATA_VALUE_CHARS_MAX: usize = 200;

    /// About the bytes of all labels.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let metadata = self.metadata.iter().flatten().map(|(key, value)| key.len() + value.len() + 64);
        metadata.sum::<usize>() + 128
    }
}

macro_rules! label {
    ($label:ident, $max:literal, $good:expr, $reserved:expr, $expected:literal) => {
        impl $label {
            /// The label as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $label {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $label {
            type Err = LabelError;

            fn from_str(text: &str) -> Result<Self, LabelError> {
                let (good, reserved): (fn(u8) -> bool, &[&str]) = ($good, &$reserved);
                if (1..=$max).contains(&text.len()) && text.bytes().all(good) && !reserved.contains(&text) {
                    Ok(Self(text.into()))
                } else {
                    Err(LabelError { expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $label {
            type Error = LabelError;

            fn try_from(text: String) -> Result<Self, LabelError> {
                text.parse()
            }
        }

        impl From<$label> for String {
            fn from(label: $label) -> Self {
                label.0.into()
            }
        }
    };
}

label!(
    Cover,
    32,
    |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
    [],
    "1 to 32 characters of a-z 0-9 -"
);
label!(
    Reference,
    64,
    |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-'),
    [".", ".."],
    "1 to 64 characters of A-Z a-z 0-9 _ . : -, and not . or .."
);
label!(
    LimitKey,
    64,
    |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-'),
    [],
    "1 to 64 characters of A-Z a-z 0-9 _ . : -"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_and_references_are_short_and_plain() {
        for good in ["spring", "2027", "-", "a-1", &"c".repeat(32)] {
            assert_eq!(good.parse::<Cover>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "Spring", "a_b", "a b", "a#b", "é", "春", "a\n", &"c".repeat(33)] {
            assert!(bad.parse::<Cover>().is_err(), "{bad:?}");
        }
        for good in ["order-17", "A_b.c:d-9", "...", "..a", &"r".repeat(64)] {
            assert_eq!(good.parse::<Reference>().map(|reference| reference.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", " ", "a b", "a#b", "a/b", "a%b", "a+b", "号", "a\0", ".", "..", &"r".repeat(65)] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn labels_weigh_what_they_take_in_memory() {
        let of = |entries: usize, value: usize| {
            let entry = |n| (format!("key-{n:036}"), "v".repeat(value));
            Labels { metadata: Some((0..entries).map(entry).collect()), ..Labels::default() }
        };
        for (entries, value) in [(0, 0), (1, 0), (10, 0), (10, 200)] {
            let texts = entries * (40 + value);
            let least = size_of::<Labels>() + texts + entries * 2 * size_of::<String>();
            let weight = of(entries, value).bytes();
            assert!((least..=2 * least + 64).contains(&weight), "{entries} of {value}: {weight} for {least}");
        }
    }
}
