//! The items as they are stored, without their keys. Numbers are integers, seeds and digests lower-case hex.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::LedgerError;
use crate::domain::{
    AckMode, Amount, Claim, Cover, Decision, Guard, Intervention, Labels, LimitKey, Note, OperatorReason, Owner,
    PacketId, PassphraseDigest, Reference, RequestKey, Requester, Seed, Signer, Split, Suspension, Terms, Timestamp,
    TraceId, UserId, UserLimits, WinLimit, Withdrawal, WithdrawalRequest, WithdrawalState,
};
use crate::ports::{Item, current_trace};

/// The attribute of a packet's state.
pub const STATUS: &str = "status";
/// The state of a packet that is neither closed nor settled.
pub const OPEN: &str = "open";
/// The state of a packet that the operator has closed, until it is settled.
pub const CLOSED: &str = "closed";
/// The state of a packet of which every slip is decided, after its expiry or its close.
pub const SETTLED: &str = "settled";

/// The attribute of a packet with the trace of the request that closed it.
pub const CLOSE_TRACE: &str = "close_trace";
/// The attribute of a withdrawal with the trace of the request that ended it.
pub const END_TRACE: &str = "end_trace";

/// The attribute of a packet or a withdrawal that has lost its sender's or its user's texts: when.
pub const ERASED_AT: &str = "erased_at";

/// The attribute of a wallet whose owner is suspended: no money leaves it by a send or a withdrawal. It is absent otherwise.
pub const SUSPENDED: &str = "suspended";

/// The attribute of a wallet whose owner may not grab either. Only a suspended one has it.
pub const MAY_NOT_GRAB: &str = "may_not_grab";

/// The attribute of a wallet with what the operator lets its owner do. It is absent where they never said.
pub const LIMITS: &str = "limits";

/// The attribute of a wallet with the number of pending withdrawals that its owner asked for.
pub const ASKED: &str = "asked";

/// The attributes of what a user has won towards a limit: how often, and how much.
pub const WINS: &str = "wins";
/// See [`WINS`].
pub const WON_AMOUNT: &str = "amount";

/// A packet: its terms, written by send, and its state, changed once when it is closed and once when it is settled.
#[derive(Deserialize, Serialize)]
pub struct PacketItem {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    pub split: Split,
    pub split_version: u8,
    pub seed: String,
    pub currency: String,
    pub total_amount: Amount,
    pub slip_count: u32,
    pub slip_cap: Amount,
    pub greeting: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub ack: AckMode,
    /// Absent where users may grab at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<Vec<UserId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<WinLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<Cover>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The trace of the request that wrote it. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// [`OPEN`], [`CLOSED`] or [`SETTLED`].
    pub status: String,
    /// The packet's place in the index of packets that are not settled. Absent once it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_shard: Option<u32>,
    /// When settle may refund it: from its expiry on, at once (0) if it is closed.
    pub due_at: Timestamp,
    /// When, why and by whom the packet was closed. Absent in a packet that never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close_reason: Option<OperatorReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<Signer>,
    /// Absent until it is settled.
    #[serde(flatten)]
    pub settling: Option<SettledItem>,
}

/// When a packet was settled and the sums of its decisions, which settling adds to its item. `best_*` are absent if nobody claimed a slip.
#[derive(Deserialize, Serialize)]
pub struct SettledItem {
    pub settled_at: Timestamp,
    pub claimed_count: u32,
    pub claimed_amount: Amount,
    pub refunded_count: u32,
    pub refunded_amount: Amount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_slip: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_user: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_amount: Option<Amount>,
}

impl PacketItem {
    pub fn new(terms: &Terms) -> Self {
        Self {
            packet_id: terms.id,
            sender_id: terms.sender.clone(),
            split: terms.split,
            split_version: terms.split_version,
            seed: hex::encode(terms.seed.0),
            currency: terms.currency.clone(),
            total_amount: terms.total,
            slip_count: terms.count,
            slip_cap: terms.cap,
            greeting: terms.greeting.clone(),
            created_at: terms.created_at,
            expires_at: terms.expires_at,
            ack: terms.ack,
            starts_at: terms.guard.starts_at,
            passphrase_digest: terms.guard.passphrase.map(|digest| hex::encode(digest.0)),
            recipients: terms.guard.recipients.as_ref().map(|users| users.iter().cloned().collect()),
            limit: terms.limit.clone(),
            cover: terms.labels.cover.clone(),
            reference: terms.labels.reference.clone(),
            metadata: terms.labels.metadata.clone(),
            trace: current_trace(),
            status: OPEN.to_owned(),
            due_shard: Some(super::keys::due_shard(terms.id.partition())),
            due_at: terms.expires_at,
            closed_at: None,
            close_reason: None,
            closed_by: None,
            settling: None,
        }
    }

    /// What the operator did, if the packet is closed.
    pub fn closing(&mut self) -> Result<Option<Intervention>, LedgerError> {
        let by = self.closed_by.take();
        match (self.status.as_str(), self.closed_at, self.close_reason.take()) {
            (OPEN | SETTLED, None, None) => Ok(None),
            (CLOSED | SETTLED, Some(at), Some(reason)) => Ok(Some(Intervention { reason, at, by })),
            _ => Err(LedgerError::Impossible("a packet that is neither open, closed nor settled".to_owned())),
        }
    }

    pub fn into_terms(self) -> Result<Terms, LedgerError> {
        Ok(Terms {
            id: self.packet_id,
            sender: self.sender_id,
            split: self.split,
            split_version: self.split_version,
            seed: Seed(bytes32(&self.seed)?),
            currency: self.currency,
            total: self.total_amount,
            count: self.slip_count,
            cap: self.slip_cap,
            greeting: self.greeting,
            created_at: self.created_at,
            expires_at: self.expires_at,
            ack: self.ack,
            guard: Guard {
                starts_at: self.starts_at,
                passphrase: self.passphrase_digest.map(|hex| bytes32(&hex).map(PassphraseDigest)).transpose()?,
                recipients: self.recipients.map(|users| users.into_iter().collect()),
            },
            limit: self.limit,
            labels: Labels { cover: self.cover, reference: self.reference, metadata: self.metadata },
        })
    }
}

fn bytes32(text: &str) -> Result<[u8; 32], LedgerError> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| LedgerError::Impossible("not 32 bytes of hex".to_owned()))?;
    Ok(bytes)
}

/// The amounts of one part's slips, in order, as [`Amounts`](crate::domain::Amounts) packs them. Written by send.
#[derive(Deserialize, Serialize)]
pub struct AmountsItem {
    pub amounts: ByteBuf,
}

/// A slip decision. Written by the transaction of its claim or refund, never changed.
#[derive(Deserialize, Serialize)]
pub struct DecisionItem {
    pub slip: u32,
    /// Absent: the slip was refunded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    pub amount: Amount,
    pub at: Timestamp,
}

impl From<&Decision> for DecisionItem {
    fn from(decision: &Decision) -> Self {
        Self { slip: decision.slip, user_id: decision.owner.user().cloned(), amount: decision.amount, at: decision.at }
    }
}

impl From<DecisionItem> for Decision {
    fn from(item: DecisionItem) -> Self {
        let owner = item.user_id.map_or(Owner::Refunded, Owner::User);
        Self { slip: item.slip, owner, amount: item.amount, at: item.at }
    }
}

/// A claim, under its winner. Written by the transaction of the slip's decision. It repeats what the winner's history shows.
#[derive(Deserialize, Serialize)]
pub struct ClaimItem {
    pub packet_id: PacketId,
    pub slip: u32,
    pub amount: Amount,
    pub at: Timestamp,
    pub sender_id: UserId,
    pub greeting: String,
    /// The packet's, for the event `SlipClaimed`. The winner never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The key of the packet's limit, towards which the claim counts. Absent if the packet has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<LimitKey>,
    /// The trace of the request that committed it. Absent without one, and if settle did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// The principal whose replay committed a parked hold. Absent on all other claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
}

impl ClaimItem {
    pub const fn claim(&self) -> Claim {
        Claim { slip: self.slip, amount: self.amount, at: self.at }
    }
}

/// A packet's debit, under its sender. Written by send.
#[derive(Deserialize, Serialize)]
pub struct SentItem {
    pub packet_id: PacketId,
    pub amount: Amount,
    pub at: Timestamp,
    /// The day whose limit it counts towards, such as `2027-01-01`. Absent if no limit applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
}

/// That a packet has a reference, under the reference, or a limit, under its key. Written by send.
#[derive(Deserialize, Serialize)]
pub struct ReferenceItem {
    pub packet_id: PacketId,
    pub at: Timestamp,
}

/// The credit of one chunk of a refund, under the packet's sender. Written by the transaction of its slips' decisions.
#[derive(Deserialize, Serialize)]
pub struct RefundItem {
    pub packet_id: PacketId,
    pub slip_count: u32,
    pub amount: Amount,
    pub at: Timestamp,
}

/// The state of a withdrawal whose money is reserved.
pub const PENDING: &str = "pending";
/// The state of a withdrawal that was pending, and is paid out.
pub const POSTED: &str = "posted";
/// The state of a withdrawal that was pending, and is back in the wallet.
pub const VOIDED: &str = "voided";

/// A withdrawal, under the wallet's owner. Written by the transaction that changes the balance. A pending one is changed once, when it
/// ends. Its copy in the timeline has the same attributes, but is not in the index.
#[derive(Clone, Deserialize, Serialize)]
pub struct WithdrawalItem {
    pub id: RequestKey,
    pub amount: Amount,
    pub at: Timestamp,
    /// The principal who signed the first request. Absent where its user asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// Whether its user asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// The trace of the request that wrote it. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// [`PENDING`], [`POSTED`] or [`VOIDED`]. Absent on one that was posted at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What was paid out of one that was pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted_amount: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Signer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void_reason: Option<OperatorReason>,
}

impl WithdrawalItem {
    pub fn new(request: &WithdrawalRequest, by: Option<&Signer>, at: Timestamp) -> Self {
        let WithdrawalRequest { id, amount, pending, note, requester } = request.clone();
        Self {
            id,
            amount,
            at,
            by: by.cloned(),
            note,
            asked: requester == Requester::User,
            trace: current_trace(),
            status: pending.then(|| PENDING.to_owned()),
            posted_amount: None,
            ended_at: None,
            ended_by: None,
            void_reason: None,
        }
    }

    pub fn state(&self) -> Result<WithdrawalState, LedgerError> {
        match (self.status.as_deref(), self.posted_amount) {
            (None, None) => Ok(WithdrawalState::Posted(self.amount)),
            (Some(PENDING), None) => Ok(WithdrawalState::Pending),
            (Some(POSTED), Some(amount)) => Ok(WithdrawalState::Posted(amount)),
            (Some(VOIDED), None) => Ok(WithdrawalState::Voided),
            _ => Err(LedgerError::Impossible("a withdrawal that is neither pending, posted nor voided".to_owned())),
        }
    }

    pub fn into_withdrawal(self, user: UserId) -> Result<Withdrawal, LedgerError> {
        let state = self.state()?;
        let requester = if self.asked { Requester::User } else { Requester::Operator };
        let pending = self.status.is_some();
        let request = WithdrawalRequest { id: self.id, amount: self.amount, pending, note: self.note, requester };
        let ended = self.ended_at.map(|at| (at, self.ended_by));
        Ok(Withdrawal { user, request, state, at: self.at, by: self.by, ended, void_reason: self.void_reason })
    }
}

/// A deposit, or what a withdrawal gave back, under the wallet's owner. Written by the transaction that changes the balance.
#[derive(Deserialize, Serialize)]
pub struct OutsideItem {
    pub id: String,
    pub amount: Amount,
    pub at: Timestamp,
    /// The principal who signed the first request. Absent on items of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
}

/// An idempotency key, under the sender: which packet it sent, and the hash of what the client asked for. Written by send.
#[derive(Deserialize, Serialize)]
pub struct SendKeyItem {
    pub packet_id: PacketId,
    pub body_hash: String,
}

/// The numbers of a wallet. Changed by each movement, only ever by adding; a number that nothing was added to is absent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct WalletItem {
    /// [`SUSPENDED`]
    pub suspended: Option<Intervention>,
    /// [`MAY_NOT_GRAB`]
    pub may_not_grab: bool,
    /// [`LIMITS`]
    pub limits: Option<UserLimits>,
    pub balance: Amount,
    /// What pending withdrawals have reserved.
    pub pending: Amount,
    /// [`ASKED`]
    pub asked: u64,
    pub sent_count: u64,
    pub sent_amount: Amount,
    pub claim_count: u64,
    pub claim_amount: Amount,
}

impl WalletItem {
    /// The suspension of its owner, if they are suspended.
    pub fn suspension(&self) -> Option<Suspension> {
        let intervention = self.suspended.clone()?;
        Some(Suspension { intervention, grabs: self.may_not_grab })
    }

    /// What its owner may do instead of what everybody may. Limits that were taken back are none.
    pub fn own_limits(&self) -> Option<&UserLimits> {
        self.limits.as_ref().filter(|limits| limits.daily_sent_max.is_some() || limits.deposit_max.is_some())
    }
}

pub fn write<I: Serialize>(item: &I) -> Result<Item, LedgerError> {
    serde_dynamo::to_item(item).map_err(|error| LedgerError::Impossible(format!("an item does not write: {error}")))
}

pub fn read<I: DeserializeOwned>(item: Item) -> Result<I, LedgerError> {
    serde_dynamo::from_item(item).map_err(|error| LedgerError::Impossible(format!("an item does not read: {error}")))
}

/// A slip decision, read from its item.
pub fn read_decision(item: Item) -> Result<Decision, LedgerError> {
    Ok(read::<DecisionItem>(item)?.into())
}

/// An amount as the table adds it to a number.
pub fn signed(amount: Amount) -> Result<i64, LedgerError> {
    i64::try_from(amount.minor_units()).map_err(|_| LedgerError::Impossible(format!("an amount of {amount}")))
}
