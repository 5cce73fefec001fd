//! What the operator decides about users and packets.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::id::{IdempotencyKey, Signer};
use super::money::Amount;
use super::text::is_plain;
use super::time::Timestamp;

/// Why the operator does something: 1 to 200 characters that all can be seen.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperatorReason(Box<str>);

impl OperatorReason {
    /// The longest reason, in characters.
    pub const CHARS_MAX: usize = 200;

    /// The reason as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no reason. The message never repeats the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be 1 to {} characters, without control or invisible characters", OperatorReason::CHARS_MAX)]
pub struct ReasonError;

impl FromStr for OperatorReason {
    type Err = ReasonError;

    fn from_str(text: &str) -> Result<Self, ReasonError> {
        let is_good = (1..=Self::CHARS_MAX).contains(&text.chars().count()) && is_plain(text);
        if is_good { Ok(Self(text.into())) } else { Err(ReasonError) }
    }
}

impl TryFrom<String> for OperatorReason {
    type Error = ReasonError;

    fn try_from(text: String) -> Result<Self, ReasonError> {
        text.parse()
    }
}

impl From<OperatorReason> for String {
    fn from(reason: OperatorReason) -> Self {
        reason.0.into()
    }
}

/// What the operator did to a user or a packet: why, when, and who signed it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Intervention {
    /// The operator's reason.
    pub reason: OperatorReason,
    /// When, by the clock of the process that wrote it.
    pub at: Timestamp,
    /// The principal who signed the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
}

/// The suspension of a user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Suspension {
    /// Why, when, and by whom.
    pub intervention: Intervention,
    /// Whether they may not grab either.
    pub grabs: bool,
}

/// What the operator lets one user do instead of what the deployment lets everybody do (`None`).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UserLimits {
    /// The most that they may send on a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_sent_max: Option<Amount>,
    /// The most that one deposit may put into their wallet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposit_max: Option<Amount>,
    /// When, by the clock of the process that wrote it.
    pub at: Timestamp,
    /// The principal who signed the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
}

/// What the operator decided about sending.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SendingDecision {
    /// Whether no packet can be sent.
    pub paused: bool,
    /// Why. A pause has a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<OperatorReason>,
    /// When, by the clock of the process that wrote it.
    pub at: Timestamp,
    /// The principal who signed the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
    /// The idempotency key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
}

/// How each key of an operator begins. The rest is the base64 of 32 random bytes.
pub const OPERATOR_KEY: &str = "hb_";

/// A right of an operator's key. Each is a policy of template.yaml.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// To view wallets, any packet and the operator's own decisions.
    Read,
    /// To move money, suspend users, close packets and pause sending.
    Money,
    /// To find pending withdrawals, view their wallets, and end them.
    Payout,
    /// To send, grab and view for users.
    Users,
    /// To view and enable the receiver of webhooks.
    Webhooks,
}

impl Right {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Read, "read"),
        (Self::Money, "money"),
        (Self::Payout, "payout"),
        (Self::Users, "users"),
        (Self::Webhooks, "webhooks"),
    ];
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(right, _)| right).ok_or_else(|| "must be read, money, payout, users or webhooks".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_can_be_seen_and_is_not_too_long() {
        for good in ["x", "诈骗", &"é".repeat(OperatorReason::CHARS_MAX)] {
            assert_eq!(good.parse::<OperatorReason>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "a\nb", "a\u{200b}", &"é".repeat(OperatorReason::CHARS_MAX + 1)] {
            assert_eq!(bad.parse::<OperatorReason>(), Err(ReasonError), "{bad:?}");
        }
    }

    #[test]
    fn a_right_has_its_name_in_json_and_in_text() {
        for (right, name) in Right::ALL {
            assert_eq!((serde_json::json!(right), name.parse()), (serde_json::json!(name), Ok(right)));
        }
        assert!("all".parse::<Right>().is_err());
    }
}
