//! The bodies of answers, in the field order of the contract.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use crate::domain::{Amount, Best, Claim, ClaimRecord, Movement, PacketId, Signer, Terms, Timestamp, UserId, Wallet};
use crate::service::{ListedClaim, PacketView, SentRecord, Status};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// A packet, as the answer to its send shows it.
#[derive(Serialize)]
pub struct PacketBody<'a> {
    packet_id: PacketId,
    sender_id: &'a UserId,
    split: &'static str,
    currency: &'a str,
    total_amount: Amount,
    count: u32,
    greeting: &'a str,
    #[serde(serialize_with = "rfc3339")]
    created_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    expires_at: Timestamp,
    status: &'static str,
    commitment: String,
}

impl<'a> PacketBody<'a> {
    /// The packet with these terms and this status.
    pub fn new(terms: &'a Terms, status: Status) -> Self {
        Self {
            packet_id: terms.id,
            sender_id: &terms.sender,
            split: terms.split.name(),
            currency: &terms.currency,
            total_amount: terms.total,
            count: terms.count,
            greeting: &terms.greeting,
            created_at: terms.created_at,
            expires_at: terms.expires_at,
            status: status.name(),
            commitment: hex::encode(terms.commitment()),
        }
    }
}

/// The viewer's own slip.
#[derive(Serialize)]
pub struct MineView {
    slip: u32,
    amount: Amount,
    #[serde(serialize_with = "rfc3339")]
    grabbed_at: Timestamp,
}

impl From<&Claim> for MineView {
    fn from(claim: &Claim) -> Self {
        Self { slip: claim.slip, amount: claim.amount, grabbed_at: claim.at }
    }
}

#[derive(Serialize)]
struct BestView<'a> {
    user_id: &'a UserId,
    amount: Amount,
}

/// A packet, as one of its viewers sees it.
#[derive(Serialize)]
pub struct ViewBody<'a> {
    #[serde(flatten)]
    packet: PacketBody<'a>,
    split_version: u8,
    slip_cap: Amount,
    claimed_count: u32,
    claimed_amount: Amount,
    refunded_amount: Amount,
    mine: Option<MineView>,
    best: Option<BestView<'a>>,
    seed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<&'a BTreeSet<UserId>>,
}

impl<'a> ViewBody<'a> {
    /// What `viewer` may see. The seed and the luckiest claim are shown once every slip is decided, and the recipients only to the
    /// sender.
    pub fn new(view: &'a PacketView, viewer: &UserId) -> Self {
        let PacketView { terms, status, summary, mine, is_decided } = view;
        let best = |best: &'a Best| BestView { user_id: &best.user, amount: best.amount };
        Self {
            packet: PacketBody::new(terms, *status),
            split_version: terms.split_version,
            slip_cap: terms.cap,
            claimed_count: summary.claimed_count,
            claimed_amount: summary.claimed_amount,
            refunded_amount: summary.refunded_amount,
            mine: mine.as_ref().map(MineView::from),
            best: summary.best.as_ref().filter(|_| *is_decided).map(best),
            seed: is_decided.then(|| hex::encode(terms.seed.0)),
            recipients: terms.guard.recipients.as_ref().filter(|_| terms.sender == *viewer),
        }
    }
}

/// A claim in a packet's list, or in its owner's.
#[derive(Serialize)]
pub struct ClaimRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_id: Option<PacketId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_id: Option<&'a UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a UserId>,
    #[serde(flatten)]
    claim: MineView,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    greeting: Option<&'a str>,
}

impl<'a> ClaimRow<'a> {
    /// A claim as a packet's list shows it.
    pub fn of_packet(listed: &'a ListedClaim) -> Self {
        let claim = MineView::from(&listed.claim);
        let (user_id, best) = (Some(&listed.user), Some(listed.best));
        Self { packet_id: None, sender_id: None, user_id, claim, best, greeting: None }
    }

    /// A claim as its owner's history shows it.
    pub fn of_user(record: &'a ClaimRecord) -> Self {
        let claim = MineView::from(&record.claim);
        let (packet_id, sender_id, greeting) = (Some(record.packet_id), Some(&record.sender), Some(&*record.greeting));
        Self { packet_id, sender_id, user_id: None, claim, best: None, greeting }
    }
}

/// A packet in its sender's history.
#[derive(Serialize)]
pub struct SentRow<'a> {
    packet_id: PacketId,
    split: &'static str,
    total_amount: Amount,
    count: u32,
    greeting: &'a str,
    #[serde(serialize_with = "rfc3339")]
    created_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    expires_at: Timestamp,
    status: &'static str,
    claimed_count: u32,
    claimed_amount: Amount,
    refunded_amount: Amount,
}

impl<'a> From<&'a SentRecord> for SentRow<'a> {
    fn from(SentRecord { terms, status, summary }: &'a SentRecord) -> Self {
        Self {
            packet_id: terms.id,
            split: terms.split.name(),
            total_amount: terms.total,
            count: terms.count,
            greeting: &terms.greeting,
            created_at: terms.created_at,
            expires_at: terms.expires_at,
            status: status.name(),
            claimed_count: summary.claimed_count,
            claimed_amount: summary.claimed_amount,
            refunded_amount: summary.refunded_amount,
        }
    }
}

/// The totals of a whole history. Refunds are not subtracted.
#[derive(Serialize)]
pub struct Totals {
    /// The number of packets or claims.
    pub count: u64,
    /// The sum of their amounts.
    pub amount: Amount,
}

/// A wallet.
#[derive(Serialize)]
pub struct WalletBody<'a> {
    user_id: &'a UserId,
    balance: Amount,
    currency: &'a str,
}

impl<'a> WalletBody<'a> {
    /// A user's wallet.
    pub const fn new(user_id: &'a UserId, wallet: &Wallet, currency: &'a str) -> Self {
        Self { user_id, balance: wallet.balance, currency }
    }
}

/// A movement of a wallet.
#[derive(Serialize)]
pub struct MovementRow<'a> {
    kind: &'static str,
    id: &'a str,
    amount: i64,
    #[serde(serialize_with = "rfc3339")]
    at: Timestamp,
    packet_id: Option<PacketId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Signer>,
}

impl<'a> From<&'a Movement> for MovementRow<'a> {
    fn from(movement: &'a Movement) -> Self {
        let Movement { kind, id, amount, at, packet_id, by } = movement;
        Self { kind: kind.name(), id, amount: *amount, at: *at, packet_id: *packet_id, by: by.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Guard, Seed, Summary};

    /// A packet that was sent by another version, under another cap than today's.
    fn view(is_decided: bool) -> PacketView {
        let terms = Terms {
            sender: "ann".parse().unwrap(),
            split_version: 7,
            seed: Seed([3; 32]),
            cap: Amount::new(321),
            guard: Guard { passphrase: None, recipients: Some(["bob".parse().unwrap()].into()) },
            ..Terms::sample()
        };
        let summary = Summary {
            claimed_count: 1,
            best: Some(Best { user: "bob".parse().unwrap(), amount: Amount::new(250), slip: 0 }),
            ..Summary::default()
        };
        PacketView { terms: Arc::new(terms), status: Status::Open, summary, mine: None, is_decided }
    }

    fn shown(view: &PacketView, viewer: &str) -> Value {
        serde_json::to_value(ViewBody::new(view, &viewer.parse().unwrap())).unwrap()
    }

    #[test]
    fn a_packet_says_what_its_own_split_was_made_with() {
        let packet = shown(&view(false), "bob");
        assert_eq!((&packet["split_version"], &packet["slip_cap"]), (&json!(7), &json!(321)));
    }

    #[test]
    fn the_seed_and_the_best_wait_for_the_end_and_the_recipients_are_the_senders() {
        let (open, decided) = (shown(&view(false), "bob"), shown(&view(true), "ann"));
        assert_eq!((&open["seed"], &open["best"], open.get("recipients")), (&Value::Null, &Value::Null, None));
        assert_eq!(decided["seed"], json!("03".repeat(32)));
        assert_eq!(
            (&decided["best"], &decided["recipients"]),
            (&json!({"user_id": "bob", "amount": 250}), &json!(["bob"]))
        );
    }
}
