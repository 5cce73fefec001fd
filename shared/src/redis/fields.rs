//! The fields of the hash of a part, which [`PartKeys::part`] names.
//!
//! Each field has two names. Scripts and Rust use the long one; Redis stores the short one, because it keeps the name of a
//! field beside each value and hashes it for each access. A script writes `$held_count` for the field `held_count`;
//! [`embed`] replaces it once, when the process builds the script.
//!
//! Beside these fields the hash has one for each user with a claim or hold, named by the user's id. The short names begin
//! with `#`, which no user id contains.
//!
//! [`PartKeys::part`]: super::PartKeys::part

/// The first character of each short name. A field that begins with another one is a user.
pub const PREFIX: char = '#';

macro_rules! fields {
    ($($(#[$doc:meta])+ $constant:ident, $name:literal, $short:literal;)+) => {
        $($(#[$doc])+ pub const $constant: &str = $short;)+

        /// Each field's long name, and its short one.
        pub const ALL: &[(&str, &str)] = &[$(($name, $short)),+];
    };
}

fields! {
    /// When the packet expires, in milliseconds since the epoch. Set by load, never changed. Missing: the part is not loaded, whatever
    /// else the hash contains.
    EXPIRES_AT, "expires_at", "#x";

    /// When Redis forgets the part, in milliseconds since the epoch, once it holds nothing. Set by load, never changed. Never
    /// missing in a loaded part.
    FORGET_AT, "forget_at", "#k";

    /// Number of slips of the part. Set by load, never changed. Never missing in a loaded part.
    SLIP_COUNT, "slip_count", "#c";

    /// Number of known decisions. Set by load, counted anew by reconcile. Never missing in a loaded part, which is final once
    /// this equals `slip_count`.
    KNOWN_COUNT, "known_count", "#n";

    /// When winners are answered: `redis` or `ledger`. Set by load, never changed. Never missing in a loaded part.
    ACK_MODE, "ack_mode", "#a";

    /// When grabs begin, in milliseconds since the epoch. Set by load, never changed. Missing: at once.
    STARTS_AT, "starts_at", "#t";

    /// `1`: only recipients may grab. Set by load, never changed. Missing: everybody may.
    RECIPIENTS, "recipients", "#g";

    /// Followed by a user: that user is a recipient; the value is empty. Set by load, never changed. Missing: the user is no
    /// recipient, if there are `recipients`.
    RECIPIENT, "recipient", "#r:";

    /// The digest of the passphrase, in hexadecimal. Set by load, never changed. Missing: the packet has none.
    PASSPHRASE, "passphrase", "#w";

    /// The answer to users without a claim or hold when there is no slip, as `grab.lua` gives it: with `s`, `e` or `c`. Set by close and by
    /// the load of a closed packet. Set by the load or reconcile that knows the last decision, and by the reconcile that meets a refund.
    /// Also set by the grab that finds every slip taken; then load, release, reconcile and tidy delete it once one is free again.
    /// Missing: the answer depends on the counts.
    WORD, "word", "#s";

    /// Number of holds: the outbox is empty at `0`. Set by load, raised by grab, counted down by reconcile and release, counted anew by
    /// tidy. Never missing in a loaded part.
    HELD_COUNT, "held_count", "#h";
}

/// A script's source as Redis runs it: each `$name` of a field is replaced by its short name.
#[must_use]
pub fn embed(source: &str) -> String {
    let mut pieces = source.split('$');
    let mut code = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let name_len = piece.find(|letter: char| letter != '_' && !letter.is_ascii_lowercase()).unwrap_or(piece.len());
        let (name, rest) = piece.split_at(name_len);
        match ALL.iter().find(|(known, _)| *known == name) {
            Some((_, short)) => code.push_str(short),
            // The end of a pattern.
            None => code.extend(["$", name]),
        }
        code.push_str(rest);
    }
    code
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The files below `folder` that end in `extension`.
    fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                files.extend(self::files(&path, extension));
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
        files
    }

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    fn scripts() -> Vec<String> {
        let folders = [root().join("shared/src/redis/lua"), root().join("admin/src")];
        let files: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder, "lua")).collect();
        assert!(files.len() >= 9, "{files:?}");
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    /// The names after each `$` of a script.
    fn names(script: &str) -> impl Iterator<Item = &str> {
        script.split('$').skip(1).map(|piece| {
            let len = piece.find(|letter: char| letter != '_' && !letter.is_ascii_lowercase());
            &piece[..len.unwrap_or(piece.len())]
        })
    }

    /// The short names that a text has in quotes.
    fn quoted(text: &str) -> Vec<&str> {
        let is_short =
            |text: &str| ALL.iter().any(|(_, short)| *short == text || short.ends_with(':') && text.starts_with(short));
        let starts = text.match_indices(['"', '\'']).map(|(quote, _)| &text[quote + 1..]);
        starts.filter_map(|rest| rest.split(['"', '\'', '{']).next()).filter(|text| is_short(text)).collect()
    }

    #[test]
    fn scripts_use_each_field_by_its_name_and_no_other() {
        let scripts = scripts();
        let used: BTreeSet<&str> =
            scripts.iter().flat_map(|script| names(script)).filter(|name| !name.is_empty()).collect();
        assert_eq!(used, ALL.iter().map(|(name, _)| *name).collect());
        for script in &scripts {
            assert_eq!(quoted(script), [""; 0], "{script}");
            assert!(!names(&embed(script)).any(|name| !name.is_empty()), "a name is left");
        }
    }

    #[test]
    fn no_two_fields_share_a_name() {
        let (names, short): (BTreeSet<&str>, BTreeSet<&str>) = ALL.iter().copied().unzip();
        assert_eq!((names.len(), short.len()), (ALL.len(), ALL.len()));
        assert!(ALL.iter().all(|(_, short)| short.starts_with(PREFIX)));
    }

    #[test]
    fn rust_uses_the_constants() {
        let this = root().join(file!());
        // DynamoDB's expressions have names of that form.
        let is_other = |file: &Path| file == this || file.components().any(|part| part.as_os_str() == "dynamodb");
        for folder in ["shared/src", "admin/src", "audit", "functions", "local", "tests"] {
            for file in files(&root().join(folder), "rs") {
                if !is_other(&file) {
                    let text = std::fs::read_to_string(&file).unwrap();
                    assert_eq!(quoted(&text), [""; 0], "{}", file.display());
                }
            }
        }
    }

    #[test]
    fn only_names_of_fields_are_replaced() {
        assert_eq!(embed("HGET $word '^a$' .. '$recipient' .. user $"), "HGET #s '^a$' .. '#r:' .. user $");
        assert_eq!(embed("$words $wor-d"), "$words $wor-d");
        assert_eq!(embed(""), "");
    }
}
