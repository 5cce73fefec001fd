use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::{IdempotencyKey, PacketId, RequestKey, Signer, UserId};
use super::labels::Reference;
use super::operator::OperatorReason;
use super::time::Timestamp;

/// What an operator can do.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "openapi.yaml describes them")]
pub enum DeedKind {
    Suspend,
    Lift,
    Limit,
    Pause,
    Resume,
    Close,
    CloseReference,
    Deposit,
    Withdraw,
    Post,
    Void,
    EnableWebhooks,
    DisableWebhooks,
    Deliver,
    Replay,
    Rebuild,
    Erase,
}

/// Something that an operator did: who, when, why, to what, and what was before and after.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Deed {
    /// What.
    pub deed: DeedKind,
    /// When, by the clock of the process that wrote it.
    pub at: Timestamp,
    /// The principal who signed the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<OperatorReason>,
    /// The user whom it was done to, or who sent the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_id: Option<PacketId>,
    /// The reference of the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The deposit or the withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestKey>,
    /// What it changed, as it was before. Absent where there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The same after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The idempotency key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
}

impl Deed {
    /// A deed on this mandate, of which nothing else is known yet.
    #[must_use]
    pub fn new(deed: DeedKind, mandate: Mandate, at: Timestamp) -> Self {
        Self {
            deed,
            at,
            by: mandate.by.cloned(),
            reason: mandate.reason.cloned(),
            user_id: None,
            packet_id: None,
            reference: None,
            id: None,
            before: None,
            after: None,
            key: mandate.key.cloned(),
        }
    }
}

/// On whose word an operator's request acts, and why.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mandate<'a> {
    /// The principal who signed it.
    pub by: Option<&'a Signer>,
    /// Why.
    pub reason: Option<&'a OperatorReason>,
    /// Its idempotency key.
    pub key: Option<&'a IdempotencyKey>,
}

impl<'a> From<Option<&'a Signer>> for Mandate<'a> {
    fn from(by: Option<&'a Signer>) -> Self {
        Self { by, ..Self::default() }
    }
}
