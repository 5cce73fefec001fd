//! The bodies of requests and answers, as in `openapi.yaml`. Amounts are in minor units, times in RFC 3339.
//!
//! Answers grow: a later service may answer with more fields, which are ignored, and with values that this client does not know.

#![expect(missing_docs, reason = "the fields are those of the contract")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a packet is divided.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// At random.
    Random,
    /// Into equal slips, as far as the amount allows.
    Equal,
    /// In a way that this client does not know.
    #[serde(other, skip_serializing)]
    Other,
}

/// The state of a packet.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its start is ahead.
    Scheduled,
    /// It can be grabbed.
    Open,
    /// Every slip is claimed.
    SoldOut,
    /// It is past its expiry.
    Expired,
    /// The operator has closed it.
    Closed,
    /// It is past its expiry or closed, and every slip is claimed or refunded.
    Settled,
    /// One that this client does not know.
    #[serde(other)]
    Other,
}

/// A packet to send.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SendRequest {
    /// How it is divided.
    pub split: Split,
    /// The money in all slips together.
    pub total_amount: u64,
    /// The number of slips.
    pub count: u32,
    /// At most 64 characters.
    pub greeting: Option<String>,
    /// When grabs begin, at most 7 days ahead; `None` means at once.
    pub starts_at: Option<String>,
    /// For how many seconds users can grab it; `None` means a day.
    pub expires_in_s: Option<u64>,
    /// The passphrase that each user has to give with a grab.
    pub passphrase: Option<String>,
    /// The only users who may grab.
    pub recipients: Option<Vec<String>>,
    /// `Some("ticket")`: only users to whom your app gives a ticket may grab.
    pub eligibility: Option<String>,
    /// The look of the packet, for everybody: at most 32 of `[a-z0-9-]`.
    pub cover: Option<String>,
    /// What it belongs to in the sender's app: at most 64 of `[A-Za-z0-9_.:-]`. The sender and the operator see it.
    pub reference: Option<String>,
    /// At most 10 texts of at most 200 characters, under keys of at most 40. The sender and the operator see them.
    pub metadata: Option<BTreeMap<String, String>>,
    /// What one user wins at most of this packet and others of its sender.
    pub limit: Option<SendLimit>,
}

/// What one user wins at most of all packets of one sender whose limit has this key: `wins`, `amount` or both.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SendLimit {
    /// 1 to 64 of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// How often.
    pub wins: Option<u32>,
    /// How much.
    pub amount: Option<u64>,
}

impl SendRequest {
    /// A packet that any user can grab for a day.
    pub const fn new(split: Split, total_amount: u64, count: u32) -> Self {
        Self {
            split,
            total_amount,
            count,
            greeting: None,
            starts_at: None,
            expires_in_s: None,
            passphrase: None,
            recipients: None,
            eligibility: None,
            cover: None,
            reference: None,
            metadata: None,
            limit: None,
        }
    }
}

/// A packet, as its viewer sees it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Packet {
    pub packet_id: String,
    pub sender_id: String,
    pub split: Split,
    pub currency: String,
    pub total_amount: u64,
    pub count: u32,
    pub greeting: String,
    pub cover: Option<String>,
    pub created_at: String,
    pub starts_at: Option<String>,
    pub expires_at: String,
    pub closed_at: Option<String>,
    pub status: Status,
    pub commitment: String,
    /// The version of the split's algorithm.
    pub split_version: u8,
    /// The most that a slip could hold when the packet was sent.
    pub slip_cap: u64,
    pub has_passphrase: bool,
    /// `Some("ticket")`: a grab needs a ticket.
    pub eligibility: Option<String>,
    /// What one user wins at most of this packet and others of its sender.
    pub limit: Option<WinLimit>,
    pub claimed_count: u32,
    pub claimed_amount: u64,
    pub refunded_amount: u64,
    pub mine: Option<Mine>,
    /// The next round in which the caller may still win, once they have a slip of this packet or nobody can grab it. Only in the view of a
    /// single packet with a limit.
    pub next: Option<NextRound>,
    pub best: Option<Best>,
    pub seed: Option<String>,
    /// Only for the sender and the operator.
    pub reference: Option<String>,
    /// Only for the sender and the operator, and not in lists.
    pub recipients: Option<Vec<String>>,
    /// Only for the sender and the operator.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Only for the operator, in the view of a single packet.
    pub closing: Option<Closing>,
    /// The server's time, in the view of a single packet.
    pub now: Option<String>,
}

/// Why, by whom and when the operator closed a packet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Closing {
    pub reason: String,
    /// The principal who signed the request, as IAM names it.
    pub by: Option<String>,
    pub at: String,
}

/// The next round of a campaign.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NextRound {
    pub packet_id: String,
    /// When grabs begin or began.
    pub starts_at: String,
}

/// The limit of all packets of one sender that have this key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WinLimit {
    pub key: String,
    /// How often a user wins at most.
    pub wins: Option<u32>,
    /// How much a user wins at most.
    pub amount: Option<u64>,
    /// How often the caller may still win, in the view of a single packet.
    pub wins_left: Option<u32>,
    /// How much the caller may still win, in the view of a single packet.
    pub amount_left: Option<u64>,
}

/// The caller's own slip.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mine {
    pub slip: u32,
    pub amount: u64,
    pub currency: String,
    pub grabbed_at: String,
}

/// The claim with the largest amount.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Best {
    pub user_id: String,
    pub amount: u64,
}

/// The outcome of a grab.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum GrabResult {
    /// The caller has a slip. The engine keeps this promise.
    Grabbed { packet_id: String, slip: u32, amount: u64, currency: String, grabbed_at: String, replayed: bool },
    /// Other users have every slip.
    SoldOut { packet_id: String },
    /// The packet is past its expiry.
    Expired { packet_id: String },
    /// The operator has closed the packet.
    Closed { packet_id: String },
    /// The caller has won as much as the packet's limit allows, or would exceed it with the slip that was free.
    LimitReached { packet_id: String },
    /// The packet's start is ahead: ask again after so many milliseconds.
    NotStarted { packet_id: String, starts_at: String, retry_after_ms: u64 },
    /// An outcome that this client does not know: the caller has no slip.
    #[serde(other)]
    Other,
}

/// A claim in a packet's list.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketClaim {
    pub user_id: String,
    pub slip: u32,
    pub amount: u64,
    pub currency: String,
    pub grabbed_at: String,
    pub best: bool,
}

/// What a user has of a packet, for the operator.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Share {
    pub packet_id: String,
    pub user_id: String,
    /// `claimed`, `held`, `refunded` or `none`; later versions may have more.
    pub state: String,
    pub slip: Option<u32>,
    pub amount: Option<u64>,
    pub currency: String,
    /// When they grabbed the slip, or when it went back.
    pub at: Option<String>,
    /// The principal who repaired the claim.
    pub by: Option<String>,
    pub packet_status: Status,
    /// Why a user without a slip can win none, as the ledger knows it now: `not_a_recipient`, `suspended`, `limit_reached`; later
    /// versions may have more.
    pub obstacles: Vec<String>,
}

/// A wallet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wallet {
    pub user_id: String,
    /// What the user can use.
    pub balance: u64,
    /// What pending withdrawals have reserved.
    pub pending: u64,
    pub currency: String,
    /// Only for the operator, and if the user is suspended.
    pub suspension: Option<Suspension>,
}

/// A withdrawal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Withdrawal {
    pub user_id: String,
    pub withdrawal_id: String,
    pub amount: u64,
    /// `pending`, `posted` or `voided`.
    pub status: String,
    /// What has left; `None` while it is pending.
    pub posted_amount: Option<u64>,
    /// `operator` or `user`.
    pub requested_by: String,
    pub note: Option<String>,
    /// Why the operator voided it.
    pub void_reason: Option<String>,
    pub at: String,
    pub ended_at: Option<String>,
    /// Only for the operator: the principals who signed the request and its end, as IAM names them.
    pub by: Option<String>,
    pub ended_by: Option<String>,
    /// The wallet as it is now. A list leaves these three out.
    pub balance: Option<u64>,
    pub pending: Option<u64>,
    pub currency: Option<String>,
}

/// Why a user is suspended, and since when.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Suspension {
    pub reason: String,
    /// Whether they may not grab either.
    pub grabs: bool,
    pub suspended_at: String,
    /// The principal who signed the request, as IAM names it.
    pub by: Option<String>,
}

/// A suspended user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SuspendedUser {
    pub user_id: String,
    #[serde(flatten)]
    pub suspension: Suspension,
}

/// Whether packets can be sent, as the operator decided last.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sending {
    pub paused: bool,
    pub reason: Option<String>,
    /// `None`: it never was decided.
    pub decided_at: Option<String>,
    pub by: Option<String>,
}

/// How the receiver of webhooks is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WebhookReceiver {
    /// `well`, `retrying`, `put_off`, `failing` or `disabled`. A later version may have more.
    pub status: String,
    pub since: Option<String>,
    pub last_answer: Option<String>,
    pub last_answer_at: Option<String>,
    pub put_off_until: Option<String>,
    pub oldest_waiting_at: Option<String>,
    pub enabled_at: Option<String>,
}

/// The limits of a user; `None`: the deployment's.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UserLimits {
    pub user_id: String,
    pub daily_sent_max: Option<u64>,
    pub deposit_max: Option<u64>,
    /// Absent if they were never set.
    pub set_at: Option<String>,
    /// The principal who set them.
    pub by: Option<String>,
}

/// Something that an operator did.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Deed {
    pub at: String,
    pub by: Option<String>,
    /// `suspend`, `lift`, `close`, or another of the contract.
    pub deed: String,
    pub user_id: Option<String>,
    pub packet_id: Option<String>,
    pub reference: Option<String>,
    /// The deposit or the withdrawal.
    pub id: Option<String>,
    pub reason: Option<String>,
    /// What it changed, as it was before, and after it.
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
}

/// A user who is suspended, or has limits of their own.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DecidedUser {
    pub user_id: String,
    pub suspension: Option<Suspension>,
    pub limits: Option<OwnLimits>,
}

/// The limits of a user's own.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OwnLimits {
    pub daily_sent_max: Option<u64>,
    pub deposit_max: Option<u64>,
    pub set_at: String,
    pub by: Option<String>,
}

/// What a user has won of all packets of a sender whose limit has this key.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wins {
    pub sender_id: String,
    pub limit_key: String,
    pub wins: u32,
    pub amount: u64,
}

/// Whose a deposit or a withdrawal is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FoundMovement {
    /// `deposit` or `withdrawal`.
    pub kind: String,
    pub user_id: String,
    pub id: String,
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct List<Row> {
    #[serde(
        alias = "claims",
        alias = "movements",
        alias = "packets",
        alias = "withdrawals",
        alias = "deeds",
        alias = "users",
        alias = "wins"
    )]
    pub rows: Vec<Row>,
    pub next_cursor: Option<String>,
    /// With the newest claims: where a later request for newer ones goes on.
    pub newest_cursor: Option<String>,
    /// Of the packets that a user sent, and of their claims.
    pub totals: Option<Totals>,
}

/// The totals of a whole history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Totals {
    pub count: u64,
    pub amount: u64,
}

/// A claim in its winner's history.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct UserClaim {
    pub packet_id: String,
    pub sender_id: String,
    pub slip: u32,
    pub amount: u64,
    pub currency: String,
    pub grabbed_at: String,
    pub greeting: String,
}

/// A claim of one of the packets that belong together.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReportedClaim {
    pub packet_id: String,
    /// That of the packet.
    pub metadata: Option<BTreeMap<String, String>>,
    pub user_id: String,
    pub slip: u32,
    pub amount: u64,
    pub currency: String,
    pub grabbed_at: String,
}

/// What became of the money of all packets of a sender with a reference.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReferenceTotals {
    pub reference: String,
    pub sender_id: String,
    pub currency: String,
    pub total_amount: u64,
    pub won_count: u64,
    pub won_amount: u64,
    pub refunded_amount: u64,
    /// What is neither won nor refunded.
    pub undecided_amount: u64,
    /// How many users have won.
    pub users: u64,
    /// Each packet, the oldest first.
    pub packets: Vec<ReferencedPacket>,
}

/// What became of the money of one of the packets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReferencedPacket {
    pub packet_id: String,
    /// As the ledger knows it.
    pub status: Status,
    pub metadata: Option<BTreeMap<String, String>>,
    pub created_at: String,
    pub starts_at: Option<String>,
    pub expires_at: String,
    pub count: u32,
    pub total_amount: u64,
    pub won_count: u32,
    pub won_amount: u64,
    pub refunded_amount: u64,
    /// What is neither won nor refunded.
    pub undecided_amount: u64,
}

/// A movement of a wallet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movement {
    pub kind: String,
    pub id: String,
    pub amount: i64,
    pub at: String,
    pub packet_id: Option<String>,
    /// Who sent the packet of a claim.
    pub sender_id: Option<String>,
    /// The greeting of a claim's packet; may be empty.
    pub greeting: Option<String>,
    /// How far a withdrawal is: `pending`, `posted` or `voided`.
    pub status: Option<String>,
    /// What a withdrawal says to its user.
    pub note: Option<String>,
    /// Why the operator voided a withdrawal.
    pub void_reason: Option<String>,
    /// Only for the operator: the principal who signed a deposit or a withdrawal, as IAM names it.
    pub by: Option<String>,
}
