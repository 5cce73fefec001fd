//! What only those who answer users ask for: what operators did, of which users they have decided, and whose a movement is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::{Fields, parse_body};
use super::page::optional;
use super::problem::Problem;
use super::request::optional_key;
use super::views::{Rfc3339, SuspensionBody};
use crate::domain::{
    Amount, Deed, DeedKind, IdempotencyKey, LimitKey, Mandate, OperatorReason, PacketId, Reference, RequestKey, Signer,
    Status, Timestamp, UserId, UserLimits,
};
use crate::service::{Decided, LimitUse, Requested, SentAsked};
use lambda_http::Request;

const BODY_BYTES_MAX: usize = 16 * 1_024;

/// A deed.
#[derive(Serialize)]
pub struct DeedRow<'a> {
    at: Rfc3339,
    by: Option<&'a Signer>,
    deed: DeedKind,
    user_id: Option<&'a UserId>,
    packet_id: Option<PacketId>,
    reference: Option<&'a Reference>,
    id: Option<&'a RequestKey>,
    reason: Option<&'a OperatorReason>,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

impl<'a> DeedRow<'a> {
    /// A deed, as lists show it.
    #[must_use]
    pub const fn new(deed: &'a Deed) -> Self {
        Self {
            at: Rfc3339(deed.at),
            by: deed.by.as_ref(),
            deed: deed.deed,
            user_id: deed.user_id.as_ref(),
            packet_id: deed.packet_id,
            reference: deed.reference.as_ref(),
            id: deed.id.as_ref(),
            reason: deed.reason.as_ref(),
            before: deed.before.as_ref(),
            after: deed.after.as_ref(),
        }
    }
}

/// A user who is suspended, or has limits of their own.
#[derive(Serialize)]
pub struct DecidedRow<'a> {
    user_id: &'a UserId,
    suspension: Option<SuspensionBody<'a>>,
    limits: Option<LimitsRow<'a>>,
}

#[derive(Serialize)]
struct LimitsRow<'a> {
    daily_sent_max: Option<Amount>,
    deposit_max: Option<Amount>,
    set_at: Rfc3339,
    by: Option<&'a Signer>,
}

impl<'a> DecidedRow<'a> {
    /// One of them.
    #[must_use]
    pub fn new(decided: &'a Decided) -> Self {
        let limits = |limits: &'a UserLimits| LimitsRow {
            daily_sent_max: limits.daily_sent_max,
            deposit_max: limits.deposit_max,
            set_at: Rfc3339(limits.at),
            by: limits.by.as_ref(),
        };
        Self {
            user_id: &decided.user,
            suspension: decided.suspension.as_ref().map(SuspensionBody::new),
            limits: decided.limits.as_ref().map(limits),
        }
    }
}

/// What a user has won towards a limit.
#[derive(Serialize)]
pub struct WinsRow<'a> {
    sender_id: &'a UserId,
    limit_key: &'a LimitKey,
    wins: u32,
    amount: Amount,
}

impl<'a> WinsRow<'a> {
    /// One of their limits.
    #[must_use]
    pub const fn new(LimitUse { sender, key, won }: &'a LimitUse) -> Self {
        Self { sender_id: sender, limit_key: key, wins: won.wins, amount: won.amount }
    }
}

/// Whose a deposit or a withdrawal is.
#[derive(Serialize)]
pub struct RequestedRow<'a> {
    kind: &'static str,
    user_id: &'a UserId,
    id: &'a RequestKey,
}

impl<'a> RequestedRow<'a> {
    /// One with this id.
    #[must_use]
    pub const fn new(Requested { kind, user }: &'a Requested, id: &'a RequestKey) -> Self {
        Self { kind: kind.name(), user_id: user, id }
    }
}

/// The reason in a body that has nothing else, or not even that.
pub(super) fn reason_of_body(fields: &mut Fields, request: &Request) -> Result<Option<OperatorReason>, Problem> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        reason: Option<String>,
    }
    let body: Asked = parse_body(request, BODY_BYTES_MAX)?.unwrap_or_default();
    Ok(fields.text("reason", body.reason))
}

/// Why an operator's request acts, and its idempotency key.
#[derive(Debug, Default)]
pub struct Why {
    reason: Option<OperatorReason>,
    key: Option<IdempotencyKey>,
}

impl Why {
    /// The request's key, and this reason.
    ///
    /// # Errors
    /// `invalid-request` for a key that is none.
    pub fn new(request: &Request, reason: Option<OperatorReason>) -> Result<Self, Problem> {
        Ok(Self { reason, key: optional_key(request)? })
    }

    /// The same of a request whose body has a reason only, or nothing.
    ///
    /// # Errors
    /// `invalid-request`.
    pub fn of_body(request: &Request) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        let reason = reason_of_body(&mut fields, request)?;
        fields.finish()?;
        Self::new(request, reason)
    }

    /// On the word of `by`.
    #[must_use]
    pub const fn mandate<'a>(&'a self, by: &'a Signer) -> Mandate<'a> {
        Mandate { by: Some(by), reason: self.reason.as_ref(), key: self.key.as_ref() }
    }
}

/// Which packets the operator asks for, and the name of their list.
#[derive(Debug)]
pub enum PacketsAsked {
    /// Those with a reference.
    Referenced(Reference),
    /// Those of a sender.
    Sent(SentAsked),
    /// All that are not settled and have this status.
    Unsettled(Status),
}

impl PacketsAsked {
    /// What the query asks for.
    ///
    /// # Errors
    /// `invalid-request`: it needs a reference, a sender, or the status of packets that are not settled.
    pub fn of(request: &Request) -> Result<(Self, String), Problem> {
        const A_TIME: &str = "must be a time such as 2026-11-20T13:30:00.120Z";
        let mut fields = Fields::default();
        let a_name = "must be 1 to 64 characters of A-Z a-z 0-9 _ . : -";
        let reference = optional(&mut fields, request, "reference", a_name, |text| text.parse::<Reference>().ok());
        let sender = optional(&mut fields, request, "sender_id", "is not a user id", |text| text.parse().ok());
        let mut time = |name| optional(&mut fields, request, name, A_TIME, |text| text.parse::<Timestamp>().ok());
        let (from, to) = (time("from"), time("to"));
        let names = Status::ALL.map(Status::name);
        let reason = format!("must be one of {}", names.join(", "));
        let status = optional(&mut fields, request, "status", &reason, Status::named);
        if sender.is_none() && (from.is_some() || to.is_some()) {
            fields.check("sender_id", None::<()>, "is required with from and to");
        }
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            fields.check("to", None::<()>, "must not be before from");
        }
        fields.finish()?;
        match (reference, sender, status) {
            (Some(_), Some(_), _) => Err(Problem::field("sender_id", "is not for packets with a reference")),
            (Some(_), _, Some(_)) => Err(Problem::field("status", "is not for packets with a reference")),
            (Some(reference), None, None) => {
                let list = format!("packets with reference {reference}");
                Ok((Self::Referenced(reference), list))
            }
            (None, Some(sender), status) => {
                let text = |at: Option<Timestamp>| at.map_or_else(|| "any time".to_owned(), |at| at.to_string());
                let what = status.map_or("any status", Status::name);
                let list = format!("packets of sender {sender} from {} to {}, {what}", text(from), text(to));
                Ok((Self::Sent(SentAsked { sender, from, to, status }), list))
            }
            (None, None, Some(Status::Settled)) => Err(Problem::field("sender_id", "is required for settled packets")),
            (None, None, Some(status)) => {
                Ok((Self::Unsettled(status), format!("unsettled packets, {}", status.name())))
            }
            (None, None, None) => Err(Problem::field("reference", "is required, or sender_id, or status")),
        }
    }
}
