use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id under which callers trace what one request of theirs does: 16 bytes, not all of them zero. It is spelled as 32 hex digits in lower
/// case.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceId([u8; 16]);

/// A text that is no trace id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be 32 hex digits in lower case, not all of them 0")]
pub struct TraceIdError;

impl TraceId {
    /// The id in a header `traceparent` of the W3C: version, trace id, parent's id and flags. Versions after 00 may add fields.
    #[must_use]
    pub fn of_traceparent(value: &str) -> Option<Self> {
        let mut fields = value.splitn(5, '-');
        let mut field = |length: usize| fields.next().filter(|text| text.len() == length && is_hex(text));
        let (version, id, parent, _flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let is_known = version != "ff" && (version != "00" || fields.next().is_none());
        let has_parent = parent.bytes().any(|digit| digit != b'0');
        if is_known && has_parent { id.parse().ok() } else { None }
    }

    /// The id in a header `X-Amzn-Trace-Id`: its root, such as `Root=1-5759e988-bd862e3fe1be46a994272793`.
    #[must_use]
    pub fn of_amazon(value: &str) -> Option<Self> {
        let root = value.split(';').find_map(|field| field.trim().strip_prefix("Root=1-"))?;
        let (seconds, rest) = root.split_once('-')?;
        let mut digits = [0; 32];
        let (first, last) = digits.split_at_mut(8);
        if seconds.len() != first.len() || rest.len() != last.len() {
            return None;
        }
        first.copy_from_slice(seconds.as_bytes());
        last.copy_from_slice(rest.as_bytes());
        std::str::from_utf8(&digits).ok()?.parse().ok()
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit() || matches!(digit, b'a'..=b'f'))
}

impl FromStr for TraceId {
    type Err = TraceIdError;

    fn from_str(text: &str) -> Result<Self, TraceIdError> {
        let mut bytes = [0; 16];
        let is_good = is_hex(text) && hex::decode_to_slice(text, &mut bytes).is_ok() && bytes != [0; 16];
        if is_good { Ok(Self(bytes)) } else { Err(TraceIdError) }
    }
}

impl TryFrom<String> for TraceId {
    type Error = TraceIdError;

    fn try_from(text: String) -> Result<Self, TraceIdError> {
        text.parse()
    }
}

impl From<TraceId> for String {
    fn from(id: TraceId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 32];
        // 16 bytes fill 32 digits.
        hex::encode_to_slice(self.0, &mut digits).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_has_its_id() {
        for good in [
            format!("00-{ID}-00f067aa0ba902b7-01"),
            format!("00-{ID}-00f067aa0ba902b7-00"),
            format!("cc-{ID}-00f067aa0ba902b7-01"),
            format!("cc-{ID}-00f067aa0ba902b7-01-what-the-future-brings"),
        ] {
            assert_eq!(TraceId::of_traceparent(&good).map(String::from).as_deref(), Some(ID), "{good}");
        }
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            ID.to_owned(),
            format!("00-{ID}-00f067aa0ba902b7"),
            format!("00-{ID}-00f067aa0ba902b7-01-more"),
            format!("00-{ID}-00f067aa0ba902b7-01-"),
            format!("ff-{ID}-00f067aa0ba902b7-01"),
            format!("0-{ID}-00f067aa0ba902b7-01"),
            format!("00-{ID}-00f067aa0ba902b7-1"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{ID}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", &ID[1..]),
            format!("00-{}\n-00f067aa0ba902b7-01", &ID[1..]),
            format!(" 00-{ID}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "红".repeat(10) + "ab"),
        ] {
            assert_eq!(TraceId::of_traceparent(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_header_of_amazons_has_its_id() {
        let (seconds, rest) = ID.split_at(8);
        for good in [
            format!("Root=1-{seconds}-{rest}"),
            format!("Root=1-{seconds}-{rest};Parent=53995c3f42cd8ad8;Sampled=1"),
            format!("Self=1-67891234-12456789abcdef012345678a;Root=1-{seconds}-{rest}"),
            format!("Sampled=?; Root=1-{seconds}-{rest}"),
        ] {
            assert_eq!(TraceId::of_amazon(&good).map(String::from).as_deref(), Some(ID), "{good}");
        }
        for bad in [
            String::new(),
            "Root=".to_owned(),
            format!("Root=2-{seconds}-{rest}"),
            format!("Root=1-{seconds}{rest}"),
            format!("Root=1-{seconds}-{rest}0"),
            format!("Root=1-{rest}-{seconds}"),
            format!("Root=1-{}-{rest}", seconds.to_uppercase()),
            format!("Root=1-00000000-{}", "0".repeat(24)),
            format!("Root=1-红\u{e9}abc-{rest}"),
            format!("Parent=1-{seconds}-{rest}"),
        ] {
            assert_eq!(TraceId::of_amazon(&bad), None, "{bad}");
        }
    }
}
