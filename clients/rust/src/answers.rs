//! The bodies of requests and answers, as in `openapi.yaml`. Amounts are in minor units, times in RFC 3339.

#![expect(missing_docs, reason = "the fields are those of the contract")]

use serde::{Deserialize, Serialize};

/// How a packet is divided.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// At random.
    Random,
    /// Into equal slips, as far as the amount allows.
    Equal,
}

/// The state of a packet.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can be grabbed.
    Open,
    /// Every slip is claimed.
    SoldOut,
    /// It is past its expiry.
    Expired,
    /// It is past its expiry, and every slip is claimed or refunded.
    Settled,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greeting: Option<String>,
    /// For how many seconds users can grab it; `None` means a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
    /// The passphrase that each user has to give with a grab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
    /// The only users who may grab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<Vec<String>>,
}

impl SendRequest {
    /// A packet that any user can grab for a day.
    pub const fn new(split: Split, total_amount: u64, count: u32) -> Self {
        Self { split, total_amount, count, greeting: None, expires_in_s: None, passphrase: None, recipients: None }
    }
}

/// A packet, as a send answers it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SentPacket {
    pub packet_id: String,
    pub sender_id: String,
    pub split: Split,
    pub currency: String,
    pub total_amount: u64,
    pub count: u32,
    pub greeting: String,
    pub created_at: String,
    pub expires_at: String,
    pub status: Status,
    pub commitment: String,
}

/// A packet, as the caller sees it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Packet {
    #[serde(flatten)]
    pub sent: SentPacket,
    /// The version of the split's algorithm.
    pub split_version: u8,
    /// The most that a slip could hold when the packet was sent.
    pub slip_cap: u64,
    pub claimed_count: u32,
    pub claimed_amount: u64,
    pub refunded_amount: u64,
    pub mine: Option<Mine>,
    pub best: Option<Best>,
    pub seed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<Vec<String>>,
}

/// The caller's own slip.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mine {
    pub slip: u32,
    pub amount: u64,
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
}

/// A claim in a packet's list.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketClaim {
    pub user_id: String,
    pub slip: u32,
    pub amount: u64,
    pub grabbed_at: String,
    pub best: bool,
}

/// A page of a packet's claims.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketClaims {
    pub claims: Vec<PacketClaim>,
    pub next_cursor: Option<String>,
}

/// A wallet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wallet {
    pub user_id: String,
    pub balance: u64,
    pub currency: String,
}

/// The totals of a whole history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Totals {
    pub count: u64,
    pub amount: u64,
}

/// A packet in its sender's history.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MyPacket {
    pub packet_id: String,
    pub split: Split,
    pub total_amount: u64,
    pub count: u32,
    pub greeting: String,
    pub created_at: String,
    pub expires_at: String,
    pub status: Status,
    pub claimed_count: u32,
    pub claimed_amount: u64,
    pub refunded_amount: u64,
}

/// A page of the packets that the caller sent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MyPackets {
    pub packets: Vec<MyPacket>,
    pub next_cursor: Option<String>,
    pub totals: Totals,
}

/// A claim in its winner's history.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MyClaim {
    pub packet_id: String,
    pub sender_id: String,
    pub slip: u32,
    pub amount: u64,
    pub grabbed_at: String,
    pub greeting: String,
}

/// A page of the caller's claims.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MyClaims {
    pub claims: Vec<MyClaim>,
    pub next_cursor: Option<String>,
    pub totals: Totals,
}

/// A movement of a wallet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movement {
    pub kind: String,
    pub id: String,
    pub amount: i64,
    pub at: String,
    pub packet_id: Option<String>,
    /// The principal who signed a deposit or a withdrawal, as IAM names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A page of a wallet's movements.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movements {
    pub movements: Vec<Movement>,
    pub next_cursor: Option<String>,
}
