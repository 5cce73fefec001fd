use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::time::Timestamp;

/// Random bytes for a packet id, of which it takes 79 bits, so that nobody can guess one.
pub const PACKET_ID_RANDOM_BYTES: usize = 10;

const RANDOM_BITS: u32 = 79;
const PARTS_BITS: u32 = 4;
/// The three bits above the number of parts.
const LIMIT: u128 = 1 << PARTS_BITS;
const TICKET: u128 = LIMIT << 1;
const GUARD: u128 = TICKET << 1;
/// The bits below the random ones.
pub(super) const LOW_BITS: u32 = PARTS_BITS + 3;

/// The most parts of a packet. With more it would spread over more nodes, but more users would find their first part exhausted, and calls
/// would have fewer users for each part.
pub const MAX_PARTS: u32 = 1 << PARTS_BITS;

/// Why a text is not an id. The message says what an id looks like, and never repeats the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be {expected}")]
pub struct IdError {
    expected: &'static str,
}

/// A packet's id: 26 characters of Crockford's base 32 that sort by time and can't be guessed.
///
/// From the high bits to the low: 42 bits of milliseconds since the epoch, 79 random bits, 3 bits, and 4 bits with the number of parts less
/// one. The 3 bits say whether the packet has a guard, wants a ticket, and has a limit. The time is enough until 2109.
///
/// So the id names every Redis key of its packet. A grab needs to read nothing before it can ask the hot store, or turn a user away.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct PacketId(u128);

impl PacketId {
    /// The id of a packet of `parts` parts created at `at`.
    #[must_use]
    pub fn new(at: Timestamp, parts: u32, random: [u8; PACKET_ID_RANDOM_BYTES]) -> Self {
        debug_assert!((1..=MAX_PARTS).contains(&parts));
        // The bits beyond 42 are lost.
        let time = u128::from(at.ms());
        let random = random.iter().fold(0_u128, |bits, &byte| (bits << 8) | u128::from(byte)) % (1 << RANDOM_BITS);
        Self((time << (RANDOM_BITS + LOW_BITS)) | (random << LOW_BITS) | u128::from(parts - 1))
    }

    /// The same id, of a packet that wants a ticket.
    #[must_use]
    pub const fn with_ticket(self) -> Self {
        Self(self.0 | TICKET)
    }

    /// Whether only a user with a ticket may grab it.
    #[must_use]
    pub const fn wants_ticket(self) -> bool {
        self.0 & TICKET != 0
    }

    /// The same id, of a packet with a limit.
    #[must_use]
    pub const fn with_limit(self) -> Self {
        Self(self.0 | LIMIT)
    }

    /// Whether the packet has a limit of what a user wins.
    #[must_use]
    pub const fn has_limit(self) -> bool {
        self.0 & LIMIT != 0
    }

    /// The same id, of a packet with a guard.
    #[must_use]
    pub const fn with_guard(self) -> Self {
        Self(self.0 | GUARD)
    }

    /// Whether the packet has a guard: a start, a passphrase or recipients.
    #[must_use]
    pub const fn is_guarded(self) -> bool {
        self.0 & GUARD != 0
    }

    /// The lowest id of a packet created at `at`. A time that no id can hold counts as the last one.
    #[must_use]
    pub fn first_at(at: Timestamp) -> Self {
        let most = u64::MAX >> (RANDOM_BITS + LOW_BITS - u64::BITS);
        Self::new(Timestamp::from_ms(at.ms().min(most)), 1, [0; PACKET_ID_RANDOM_BYTES])
    }

    /// When the packet was created.
    #[must_use]
    pub fn created_at(self) -> Timestamp {
        Timestamp::from_ms(u64::try_from(self.0 >> (RANDOM_BITS + LOW_BITS)).unwrap_or(u64::MAX))
    }

    pub(super) const fn to_be_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The number of the packet's parts, 1 to 16.
    #[must_use]
    pub const fn part_count(self) -> u32 {
        low_byte(self.0) as u32 % (1 << PARTS_BITS) + 1
    }
}

const fn low_byte(bits: u128) -> u8 {
    bits.to_le_bytes()[0]
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Ulid(self.0).array_to_str(&mut [0; ulid::ULID_LEN]))
    }
}

impl FromStr for PacketId {
    type Err = IdError;

    /// Accepts only the canonical form: a packet has one id, not several spellings of it.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = IdError { expected: "a packet id" };
        let id = Self(Ulid::from_string(text).map_err(|_| error)?.0);
        if id.to_string() == text { Ok(id) } else { Err(error) }
    }
}

/// A user's id as the authorizer states it: 1 to 128 printable ASCII characters other than space `/ ? # %`.
/// It is not `.` or `..`, which no client can put into a path.
///
/// Without `#` no user id can reach past its place in a ledger key. In Redis a user id is a field or a value, never a part
/// of a key's name. A clone shares the text: a grab hands its user on several times.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId(Arc<str>);

impl UserId {
    const MAX_LEN: usize = 128;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for UserId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'?' | b'#' | b'%');
        let is_path_step = matches!(text, "." | "..");
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(good) && !is_path_step {
            Ok(Self(text.into()))
        } else {
            Err(IdError { expected: "1 to 128 printable ASCII characters other than space / ? # %, and not . or .." })
        }
    }
}

/// The id that the operator gives to a deposit or a withdrawal, which must happen once: 1 to 64 of `[A-Za-z0-9_-]`.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestKey(Box<str>);

impl RequestKey {
    const MAX_LEN: usize = 64;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RequestKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(good) {
            Ok(Self(text.into()))
        } else {
            Err(IdError { expected: "1 to 64 characters of A-Z a-z 0-9 _ -" })
        }
    }
}

/// The client's name for a send, which must happen once: 1 to 255 visible ASCII characters, as other systems' keys have them. None
/// is a comma, with which API Gateway joins two headers.
///
/// It can have a `#`, so it is always the last part of a ledger key.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    const MAX_LEN: usize = 255;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IdempotencyKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let is_good = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        if (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(is_good) {
            Ok(Self(text.into()))
        } else {
            Err(IdError { expected: "1 to 255 visible ASCII characters, no comma" })
        }
    }
}

/// Who signed an operator's request: the principal's ARN, or the name of an operator's key. 1 to 2,048 printable ASCII characters.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Signer(Arc<str>);

impl Signer {
    const MAX_LEN: usize = 2_048;
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Signer {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let is_good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_good && text.len() <= Self::MAX_LEN {
            Ok(Self(text.into()))
        } else {
            Err(IdError { expected: "an ARN, or a key's name" })
        }
    }
}

macro_rules! as_string {
    ($($id:ty),+) => {$(
        impl TryFrom<String> for $id {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.to_string()
            }
        }
    )+};
}

as_string!(PacketId, UserId, RequestKey, IdempotencyKey, Signer);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Partition;

    #[test]
    fn a_packet_id_carries_its_parts_and_sorts_by_time() {
        let early = PacketId::new(Timestamp::from_ms(1_000), MAX_PARTS, [0xff; 10]);
        let late = PacketId::new(Timestamp::from_ms(1_001), 1, [0; 10]);
        assert_eq!((early.part_count(), late.part_count()), (MAX_PARTS, 1));
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(early.partition(), Partition::wrapping(255));
        assert_eq!(early.to_string().parse(), Ok(early));
    }

    #[test]
    fn a_packet_id_says_whether_it_has_a_guard_wants_a_ticket_and_has_a_limit() {
        for parts in [1, MAX_PARTS] {
            let plain = PacketId::new(Timestamp::from_ms(1_000), parts, [0xff; 10]);
            for (id, says) in [
                (plain, (false, false, false)),
                (plain.with_ticket(), (true, false, false)),
                (plain.with_limit(), (false, true, false)),
                (plain.with_guard(), (false, false, true)),
                (plain.with_guard().with_limit().with_ticket(), (true, true, true)),
            ] {
                assert_eq!((id.wants_ticket(), id.has_limit(), id.is_guarded()), says);
                assert_eq!((id.part_count(), id.created_at()), (parts, plain.created_at()));
                assert_eq!((id.partition(), id.to_string().parse()), (plain.partition(), Ok(id)));
            }
        }
    }

    #[test]
    fn the_lowest_id_of_a_time_is_at_it_or_at_the_last_time_that_an_id_can_hold() {
        let last = Timestamp::from_ms((1 << 42) - 1);
        for (at, holds) in
            [(0, Timestamp::from_ms(0)), (1_795_181_400_000, Timestamp::from_ms(1_795_181_400_000)), (u64::MAX, last)]
        {
            let first = PacketId::first_at(Timestamp::from_ms(at));
            assert_eq!((first.created_at(), first.0 << 42), (holds, 0), "{at}");
        }
    }

    #[test]
    fn a_packet_id_is_made_of_time_randomness_and_parts() {
        let at = |ms| Timestamp::from_ms(ms);
        let random = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23];
        let id = PacketId::new(at(1_795_181_400_000), 3, random);
        assert_eq!(id.0, (1_795_181_400_000 << 86) | (0x0123_4567_89ab_cdef_0123 << 7) | 2);
        assert_eq!(id.partition(), Partition::wrapping(0x23));
        // After 2109 the time begins anew, and nothing else of the id changes.
        assert_eq!(PacketId::new(at((1 << 42) | 5), 3, random), PacketId::new(at(5), 3, random));
    }

    #[test]
    fn ids_show_as_they_were_given() {
        let (user, key): (UserId, RequestKey) = ("auth0|12".parse().unwrap(), "k-1".parse().unwrap());
        assert_eq!(
            (user.as_str(), &*user.to_string(), &*String::from(user.clone())),
            ("auth0|12", "auth0|12", "auth0|12")
        );
        assert_eq!((key.as_str(), &*key.to_string(), &*String::from(key.clone())), ("k-1", "k-1", "k-1"));
        assert_eq!(
            (UserId::try_from("a b".to_owned()).is_err(), RequestKey::try_from("k".to_owned()).is_ok()),
            (true, true)
        );
    }

    #[test]
    fn a_packet_id_has_one_spelling() {
        let id = PacketId::new(Timestamp::from_ms(1_795_181_400_000), 3, [0xab; 10]).to_string();
        let others =
            [id.to_lowercase(), format!("{id}0"), id[1..].to_owned(), String::new(), "8".repeat(26), "é".repeat(13)];
        for other in others {
            assert!(other.parse::<PacketId>().is_err(), "{other}");
        }
    }

    #[test]
    fn user_ids_keep_separators_out() {
        for good in ["a", "auth0|12{3}", "x:y;z@example.com", "~!$&'()*+,-.<=>[\\]^_`\"", &"u".repeat(128)] {
            assert!(good.parse::<UserId>().is_ok(), "{good}");
        }
        for bad in [".", "..", "", " ", "a b", "a/b", "a?b", "a#b", "a%b", "a\nb", "a\0", "é", &"u".repeat(129)] {
            assert!(bad.parse::<UserId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_signer_is_an_arn_or_the_name_of_a_key() {
        for good in ["arn:aws:iam::123456789012:user/ops", "arn:aws-cn:sts::1:assumed-role/r/ann@example.com", "ann"] {
            assert_eq!(good.parse::<Signer>().map(|signer| signer.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "arn:aws:iam::1:user/a b", "arn:aws:iam::1:user/é", &"x".repeat(2_049)] {
            assert!(bad.parse::<Signer>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn idempotency_keys_have_any_visible_characters() {
        let all: String = ('!'..='~').filter(|letter| *letter != ',').collect();
        for good in ["0", "order:17", "a#b", "\"", "\"\"", "a.b", "KEY#", &all, &"k".repeat(255)] {
            assert_eq!(good.parse::<IdempotencyKey>().map(|key| key.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", " ", "a b", " a", "a\t", "a\n", "a\0", "a,b", ",", "\u{7f}", "ключ", &"k".repeat(256)] {
            assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn request_keys_are_short_and_plain() {
        for good in ["0", "a-b_C", &"k".repeat(64)] {
            assert!(good.parse::<RequestKey>().is_ok(), "{good}");
        }
        for bad in ["", "a.b", "a#b", "ключ", &"k".repeat(65)] {
            assert!(bad.parse::<RequestKey>().is_err(), "{bad:?}");
        }
    }
}
