//! The bodies of answers, in the field order of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::page::Page;
use crate::domain::{
    Amount, Best, Claim, ClaimRecord, Cover, Intervention, Labels, LimitKey, Movement, Note, OperatorReason, PacketId,
    Reference, RequestKey, SendingDecision, Signer, Status, Suspension, Terms, Timestamp, UserId, UserLimits, Wallet,
    WinLimit, Withdrawal, WithdrawalState, Won,
};
use crate::service::{
    ListedClaim, NextRound, Obstacle, PacketTotals, PacketView, ReceiverState, ReceiverStatus, ReportedClaim,
    SelectionTotals, Share, ShareView, Slice,
};

/// A time as texts have it.
pub(super) struct Rfc3339(pub(super) Timestamp);

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A packet. Wherever one is shown, it has these fields; what it does not have is `null`.
#[derive(Serialize)]
pub struct PacketBody<'a> {
    packet_id: PacketId,
    sender_id: &'a UserId,
    split: &'static str,
    currency: &'a str,
    total_amount: Amount,
    count: u32,
    greeting: &'a str,
    cover: Option<&'a Cover>,
    created_at: Rfc3339,
    starts_at: Option<Rfc3339>,
    expires_at: Rfc3339,
    closed_at: Option<Rfc3339>,
    status: Status,
    commitment: String,
    split_version: u8,
    slip_cap: Amount,
    has_passphrase: bool,
    eligibility: Option<&'static str>,
    limit: Option<LimitView<'a>>,
    claimed_count: u32,
    claimed_amount: Amount,
    refunded_amount: Amount,
    mine: Option<MineView<'a>>,
    next: Option<NextView>,
    best: Option<BestView<'a>>,
    seed: Option<String>,
    #[serde(flatten)]
    private: Option<PrivateFields<'a>>,
}

/// The fields of a packet that only its sender and the operator see.
#[derive(Serialize)]
struct PrivateFields<'a> {
    reference: Option<&'a Reference>,
    metadata: Option<&'a BTreeMap<String, String>>,
    #[serde(flatten)]
    long: Option<LongFields<'a>>,
}

/// The fields of a packet that lists leave out.
#[derive(Serialize)]
struct LongFields<'a> {
    recipients: Option<&'a BTreeSet<UserId>>,
    #[serde(flatten)]
    operators: Option<OperatorFields<'a>>,
}

/// The fields of a packet that only the operator sees.
#[derive(Serialize)]
struct OperatorFields<'a> {
    closing: Option<ClosingView<'a>>,
    settled_at: Option<Rfc3339>,
}

/// Why, by whom and when a packet was closed.
#[derive(Serialize)]
struct ClosingView<'a> {
    reason: &'a OperatorReason,
    by: Option<&'a Signer>,
    at: Rfc3339,
}

impl<'a> ClosingView<'a> {
    const fn new(Intervention { reason, at, by }: &'a Intervention) -> Self {
        Self { reason, by: by.as_ref(), at: Rfc3339(*at) }
    }
}

/// What one user wins at most, and how much of it the viewer has left.
#[derive(Serialize)]
struct LimitView<'a> {
    key: &'a LimitKey,
    wins: Option<u32>,
    amount: Option<Amount>,
    wins_left: Option<u32>,
    amount_left: Option<Amount>,
}

impl<'a> LimitView<'a> {
    fn new(limit: &'a WinLimit, won: Option<Won>) -> Self {
        let WinLimit { key, wins, amount } = limit;
        let wins_left = won.and_then(|won| limit.wins_left(won));
        let amount_left = won.and_then(|won| limit.amount_left(won));
        Self { key, wins: *wins, amount: *amount, wins_left, amount_left }
    }
}

/// For whom a packet is shown.
#[derive(Clone, Copy, Debug)]
pub enum Viewer<'a> {
    /// A user.
    User(&'a UserId),
    /// The operator, who sees what the sender sees.
    Operator,
}

impl Viewer<'_> {
    fn sees_all_of(self, terms: &Terms) -> bool {
        match self {
            Self::User(user) => *user == terms.sender,
            Self::Operator => true,
        }
    }
}

impl<'a> PacketBody<'a> {
    /// A packet by itself. The seed and the luckiest claim are shown once every slip is decided.
    pub fn single(view: &'a PacketView, viewer: Viewer) -> Self {
        let closing = view.closing.as_ref().map(ClosingView::new);
        let settled_at = view.settled_at.map(Rfc3339);
        let operators = matches!(viewer, Viewer::Operator).then_some(OperatorFields { closing, settled_at });
        let long = LongFields { recipients: view.terms.guard.recipients.as_ref(), operators };
        Self::new(view, viewer, Some(long))
    }

    /// A packet in a list.
    pub fn listed(view: &'a PacketView, viewer: Viewer) -> Self {
        Self::new(view, viewer, None)
    }

    fn new(view: &'a PacketView, viewer: Viewer, long: Option<LongFields<'a>>) -> Self {
        let PacketView { terms, status, closed_at, summary, mine, won, next, is_decided, .. } = view;
        let best = |best: &'a Best| BestView { user_id: &best.user, amount: best.amount };
        let Labels { reference, metadata, .. } = &terms.labels;
        let private = PrivateFields { reference: reference.as_ref(), metadata: metadata.as_ref(), long };
        Self {
            packet_id: terms.id,
            sender_id: &terms.sender,
            split: terms.split.name(),
            currency: &terms.currency,
            total_amount: terms.total,
            count: terms.count,
            greeting: &terms.greeting,
            cover: terms.labels.cover.as_ref(),
            created_at: Rfc3339(terms.created_at),
            starts_at: terms.guard.starts_at.map(Rfc3339),
            expires_at: Rfc3339(terms.expires_at),
            closed_at: closed_at.map(Rfc3339),
            status: *status,
            commitment: hex::encode(terms.commitment()),
            split_version: terms.split_version,
            slip_cap: terms.cap,
            has_passphrase: terms.guard.passphrase.is_some(),
            eligibility: terms.id.wants_ticket().then_some("ticket"),
            limit: terms.limit.as_ref().map(|limit| LimitView::new(limit, *won)),
            claimed_count: summary.claimed_count,
            claimed_amount: summary.claimed_amount,
            refunded_amount: summary.refunded_amount,
            mine: mine.as_ref().map(|claim| MineView::new(claim, &terms.currency)),
            next: next.map(|NextRound { id, starts_at }| NextView { packet_id: id, starts_at: Rfc3339(starts_at) }),
            best: summary.best.as_ref().filter(|_| *is_decided).map(best),
            seed: is_decided.then(|| hex::encode(terms.seed.0)),
            private: viewer.sees_all_of(terms).then_some(private),
        }
    }
}

/// The next round that the viewer may grab.
#[derive(Serialize)]
struct NextView {
    packet_id: PacketId,
    starts_at: Rfc3339,
}

/// The viewer's own slip.
#[derive(Serialize)]
pub struct MineView<'a> {
    slip: u32,
    amount: Amount,
    currency: &'a str,
    grabbed_at: Rfc3339,
}

impl<'a> MineView<'a> {
    const fn new(claim: &Claim, currency: &'a str) -> Self {
        Self { slip: claim.slip, amount: claim.amount, currency, grabbed_at: Rfc3339(claim.at) }
    }
}

#[derive(Serialize)]
struct BestView<'a> {
    user_id: &'a UserId,
    amount: Amount,
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
    claim: MineView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    greeting: Option<&'a str>,
}

impl<'a> ClaimRow<'a> {
    /// A claim as a packet's list shows it.
    pub fn of_packet(listed: &'a ListedClaim, currency: &'a str) -> Self {
        let claim = MineView::new(&listed.claim, currency);
        let (user_id, best) = (Some(&listed.user), Some(listed.best));
        Self { packet_id: None, sender_id: None, user_id, claim, best, greeting: None }
    }

    /// A claim as its owner's history shows it.
    pub fn of_user(record: &'a ClaimRecord, currency: &'a str) -> Self {
        let claim = MineView::new(&record.claim, currency);
        let (packet_id, sender_id, greeting) = (Some(record.packet_id), Some(&record.sender), Some(&*record.greeting));
        Self { packet_id, sender_id, user_id: None, claim, best: None, greeting }
    }
}

/// What a user has of a packet, for the operator.
#[derive(Serialize)]
pub struct ShareBody<'a> {
    packet_id: PacketId,
    user_id: &'a UserId,
    state: &'static str,
    slip: Option<u32>,
    amount: Option<Amount>,
    currency: &'a str,
    at: Option<Rfc3339>,
    by: Option<&'a Signer>,
    packet_status: Status,
    obstacles: &'a [Obstacle],
}

impl<'a> ShareBody<'a> {
    /// The share of this user.
    pub fn new(ShareView { terms, status, share, obstacles }: &'a ShareView, user_id: &'a UserId) -> Self {
        let (state, slip, amount, at, by) = match share {
            Share::Claimed { claim, by } => {
                ("claimed", Some(claim.slip), Some(claim.amount), Some(claim.at), by.as_ref())
            }
            Share::Held { slip, at, promised } => ("held", Some(*slip), *promised, Some(*at), None),
            Share::Refunded { slip, at } => ("refunded", Some(*slip), None, Some(*at), None),
            Share::None => ("none", None, None, None, None),
        };
        Self {
            packet_id: terms.id,
            user_id,
            state,
            slip,
            amount,
            currency: &terms.currency,
            at: at.map(Rfc3339),
            by,
            packet_status: *status,
            obstacles,
        }
    }
}

/// A claim in the report on all packets of a sender that belong together.
#[derive(Serialize)]
pub struct ReportedRow<'a> {
    packet_id: PacketId,
    metadata: Option<&'a BTreeMap<String, String>>,
    user_id: &'a UserId,
    #[serde(flatten)]
    claim: MineView<'a>,
}

impl<'a> ReportedRow<'a> {
    /// A claim of one of the packets.
    pub fn new(ReportedClaim { terms, user, claim }: &'a ReportedClaim) -> Self {
        let metadata = terms.labels.metadata.as_ref();
        Self { packet_id: terms.id, metadata, user_id: user, claim: MineView::new(claim, &terms.currency) }
    }
}

/// What became of the money of all packets of a sender with a reference.
#[derive(Serialize)]
pub struct ReferenceBody<'a> {
    reference: &'a Reference,
    sender_id: &'a UserId,
    currency: &'a str,
    #[serde(flatten)]
    all: MoneyFields,
    users: usize,
    packets: Vec<ReferencedPacket<'a>>,
}

/// What became of some money, and how many slips are claimed.
#[derive(Clone, Copy, Serialize)]
struct MoneyFields {
    total_amount: Amount,
    won_count: u64,
    won_amount: Amount,
    refunded_amount: Amount,
    undecided_amount: Amount,
}

/// One of the packets.
#[derive(Serialize)]
struct ReferencedPacket<'a> {
    packet_id: PacketId,
    status: Status,
    metadata: Option<&'a BTreeMap<String, String>>,
    created_at: Rfc3339,
    starts_at: Option<Rfc3339>,
    expires_at: Rfc3339,
    count: u32,
    #[serde(flatten)]
    money: MoneyFields,
}

impl<'a> ReferenceBody<'a> {
    /// What became of it, as of `now`.
    pub fn new(
        reference: &'a Reference,
        sender_id: &'a UserId,
        currency: &'a str,
        totals: &'a SelectionTotals,
        now: Timestamp,
    ) -> Self {
        let packets: Vec<_> = totals.packets.iter().map(|totals| ReferencedPacket::new(totals, now)).collect();
        let sum = |amount: fn(&MoneyFields) -> Amount| packets.iter().map(|packet| amount(&packet.money)).sum();
        let all = MoneyFields {
            total_amount: sum(|money| money.total_amount),
            won_count: packets.iter().map(|packet| packet.money.won_count).sum(),
            won_amount: sum(|money| money.won_amount),
            refunded_amount: sum(|money| money.refunded_amount),
            undecided_amount: sum(|money| money.undecided_amount),
        };
        Self { reference, sender_id, currency, all, users: totals.users, packets }
    }
}

impl<'a> ReferencedPacket<'a> {
    fn new(totals: &'a PacketTotals, now: Timestamp) -> Self {
        let terms = &totals.packet.terms;
        let money = MoneyFields {
            total_amount: terms.total,
            won_count: totals.won_count.into(),
            won_amount: totals.won,
            refunded_amount: totals.refunded,
            undecided_amount: totals.undecided(),
        };
        Self {
            packet_id: terms.id,
            status: totals.status(now),
            metadata: terms.labels.metadata.as_ref(),
            created_at: Rfc3339(terms.created_at),
            starts_at: terms.guard.starts_at.map(Rfc3339),
            expires_at: Rfc3339(terms.expires_at),
            count: terms.count,
            money,
        }
    }
}

/// The totals of a whole history. Refunds are not subtracted.
#[derive(Serialize)]
struct Totals {
    count: u64,
    amount: Amount,
}

/// A wallet.
#[derive(Serialize)]
pub struct WalletBody<'a> {
    user_id: &'a UserId,
    balance: Amount,
    pending: Amount,
    currency: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspension: Option<SuspensionBody<'a>>,
}

impl<'a> WalletBody<'a> {
    /// A user's wallet.
    pub const fn new(user_id: &'a UserId, wallet: &Wallet, currency: &'a str) -> Self {
        Self { user_id, balance: wallet.balance, pending: wallet.pending, currency, suspension: None }
    }

    /// The same for the operator, who sees that the user is suspended.
    #[must_use]
    pub fn with_suspension(self, suspension: Option<&'a Suspension>) -> Self {
        Self { suspension: suspension.map(SuspensionBody::new), ..self }
    }
}

/// A user's suspension.
#[derive(Serialize)]
pub struct SuspensionBody<'a> {
    reason: &'a str,
    suspended_at: Rfc3339,
    grabs: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Signer>,
}

impl<'a> SuspensionBody<'a> {
    /// A suspension, as the operator sees it.
    pub fn new(suspension: &'a Suspension) -> Self {
        let Suspension { intervention: Intervention { reason, at, by }, grabs } = suspension;
        Self { reason: reason.as_str(), suspended_at: Rfc3339(*at), grabs: *grabs, by: by.as_ref() }
    }
}

/// Whether packets can be sent.
#[derive(Serialize)]
pub struct SendingBody<'a> {
    paused: bool,
    reason: Option<&'a str>,
    decided_at: Option<Rfc3339>,
    by: Option<&'a Signer>,
}

impl<'a> SendingBody<'a> {
    /// What the operator decided last, if ever.
    pub fn new(decision: Option<&'a SendingDecision>) -> Self {
        Self {
            paused: decision.is_some_and(|decision| decision.paused),
            reason: decision.and_then(|decision| decision.reason.as_ref()).map(OperatorReason::as_str),
            decided_at: decision.map(|decision| Rfc3339(decision.at)),
            by: decision.and_then(|decision| decision.by.as_ref()),
        }
    }
}

/// How the receiver of webhooks is.
#[derive(Serialize)]
pub struct ReceiverBody<'a> {
    status: ReceiverStatus,
    since: Option<Rfc3339>,
    last_answer: Option<&'a str>,
    last_answer_at: Option<Rfc3339>,
    put_off_until: Option<Rfc3339>,
    oldest_waiting_at: Option<Rfc3339>,
    enabled_at: Option<Rfc3339>,
}

impl<'a> ReceiverBody<'a> {
    /// What is known of it at `now`.
    pub fn new(receiver: &'a ReceiverState, now: Timestamp) -> Self {
        let (status, since) = receiver.status(now);
        Self {
            status,
            since: since.map(Rfc3339),
            last_answer: receiver.last_answer.as_deref(),
            last_answer_at: receiver.last_answer_at.map(Rfc3339),
            put_off_until: receiver.put_off_until.filter(|until| now < *until).map(Rfc3339),
            oldest_waiting_at: receiver.oldest_at.map(Rfc3339),
            enabled_at: receiver.enabled_at.map(Rfc3339),
        }
    }
}

/// What the operator lets a user do.
#[derive(Serialize)]
pub struct LimitsBody<'a> {
    user_id: &'a UserId,
    daily_sent_max: Option<Amount>,
    deposit_max: Option<Amount>,
    set_at: Option<Rfc3339>,
    by: Option<&'a Signer>,
}

impl<'a> LimitsBody<'a> {
    /// A user's limits; `None`: the operator never set any.
    pub fn new(user_id: &'a UserId, limits: Option<&'a UserLimits>) -> Self {
        Self {
            user_id,
            daily_sent_max: limits.and_then(|limits| limits.daily_sent_max),
            deposit_max: limits.and_then(|limits| limits.deposit_max),
            set_at: limits.map(|limits| Rfc3339(limits.at)),
            by: limits.and_then(|limits| limits.by.as_ref()),
        }
    }
}

/// A movement of a wallet.
#[derive(Serialize)]
pub struct MovementRow<'a> {
    kind: &'static str,
    id: &'a str,
    amount: i64,
    at: Rfc3339,
    packet_id: Option<PacketId>,
    #[serde(flatten)]
    claim: Option<ClaimOfRow<'a>>,
    #[serde(flatten)]
    withdrawal: Option<WithdrawalOfRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Signer>,
}

/// What only the row of a claim has.
#[derive(Serialize)]
struct ClaimOfRow<'a> {
    sender_id: &'a UserId,
    greeting: &'a str,
}

/// What only the row of a withdrawal has.
#[derive(Serialize)]
struct WithdrawalOfRow<'a> {
    status: &'static str,
    note: Option<&'a Note>,
    void_reason: Option<&'a OperatorReason>,
}

impl<'a> MovementRow<'a> {
    /// A movement. Only the operator sees who signed it.
    pub fn new(movement: &'a Movement, viewer: Viewer) -> Self {
        let Movement { kind, id, amount, at, packet_id, sent, by, status, note, void_reason } = movement;
        let by = by.as_ref().filter(|_| matches!(viewer, Viewer::Operator));
        let claim = sent.as_ref().map(|(sender_id, greeting)| ClaimOfRow { sender_id, greeting });
        let (note, void_reason) = (note.as_ref(), void_reason.as_ref());
        let withdrawal = status.map(|status| WithdrawalOfRow { status, note, void_reason });
        Self { kind: kind.name(), id, amount: *amount, at: Rfc3339(*at), packet_id: *packet_id, claim, withdrawal, by }
    }
}

/// A withdrawal.
#[derive(Serialize)]
pub struct WithdrawalRow<'a> {
    user_id: &'a UserId,
    withdrawal_id: &'a RequestKey,
    amount: Amount,
    status: &'static str,
    posted_amount: Option<Amount>,
    requested_by: &'static str,
    note: Option<&'a Note>,
    void_reason: Option<&'a OperatorReason>,
    at: Rfc3339,
    ended_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Signer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'a Signer>,
}

impl<'a> WithdrawalRow<'a> {
    /// A withdrawal. Only the operator sees who signed what.
    pub fn new(withdrawal: &'a Withdrawal, viewer: Viewer) -> Self {
        let Withdrawal { user, request, state, at, by, ended, void_reason } = withdrawal;
        let is_shown = |_: &&Signer| matches!(viewer, Viewer::Operator);
        Self {
            user_id: user,
            withdrawal_id: &request.id,
            amount: request.amount,
            status: state.name(),
            posted_amount: match *state {
                WithdrawalState::Pending => None,
                WithdrawalState::Posted(amount) => Some(amount),
                WithdrawalState::Voided => Some(Amount::ZERO),
            },
            requested_by: request.requester.name(),
            note: request.note.as_ref(),
            void_reason: void_reason.as_ref(),
            at: Rfc3339(*at),
            ended_at: ended.as_ref().map(|(at, _)| Rfc3339(*at)),
            by: by.as_ref().filter(is_shown),
            ended_by: ended.as_ref().and_then(|(_, by)| by.as_ref()).filter(is_shown),
        }
    }
}

/// A withdrawal, and the wallet that it is of.
#[derive(Serialize)]
pub struct WithdrawalBody<'a> {
    #[serde(flatten)]
    withdrawal: WithdrawalRow<'a>,
    balance: Amount,
    pending: Amount,
    currency: &'a str,
}

impl<'a> WithdrawalBody<'a> {
    /// A withdrawal, and its user's wallet as it is now.
    pub fn new(withdrawal: &'a Withdrawal, wallet: &Wallet, currency: &'a str, viewer: Viewer) -> Self {
        let withdrawal = WithdrawalRow::new(withdrawal, viewer);
        Self { withdrawal, balance: wallet.balance, pending: wallet.pending, currency }
    }
}

/// A page of a list.
pub struct ListBody<R> {
    /// The field that has the rows.
    name: &'static str,
    rows: Vec<R>,
    next_cursor: Option<String>,
    #[expect(clippy::option_option, reason = "it is absent, null or a cursor")]
    newest_cursor: Option<Option<String>>,
    totals: Option<Totals>,
}

impl<R> ListBody<R> {
    /// A page of `list`, with its rows in the field `name`.
    pub fn new<'a, V, C: Display>(
        name: &'static str,
        list: &str,
        slice: &'a Slice<V, C>,
        row: impl FnMut(&'a V) -> R,
    ) -> Self {
        let next_cursor = slice.next.as_ref().map(|next| Page::encode(list, next));
        Self { name, rows: slice.rows.iter().map(row).collect(), next_cursor, newest_cursor: None, totals: None }
    }

    /// The same page of the newest claims. The cursor for newer ones is `null` where the claims come in slip order all the same.
    #[must_use]
    pub fn with_newest(self, cursor: Option<String>) -> Self {
        Self { newest_cursor: Some(cursor), ..self }
    }

    /// The same page with the totals of the whole list.
    #[must_use]
    pub fn with_totals(self, count: u64, amount: Amount) -> Self {
        Self { totals: Some(Totals { count, amount }), ..self }
    }
}

impl<R: Serialize> Serialize for ListBody<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry(self.name, &self.rows)?;
        body.serialize_entry("next_cursor", &self.next_cursor)?;
        if let Some(newest_cursor) = &self.newest_cursor {
            body.serialize_entry("newest_cursor", newest_cursor)?;
        }
        if let Some(totals) = &self.totals {
            body.serialize_entry("totals", totals)?;
        }
        body.end()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Guard, Labels, Seed, Summary};

    /// A packet that was sent by another version, under another cap than today's.
    fn view(is_decided: bool) -> PacketView {
        let terms = Terms {
            sender: "ann".parse().unwrap(),
            split_version: 7,
            seed: Seed([3; 32]),
            cap: Amount::new(321),
            guard: Guard { starts_at: None, passphrase: None, recipients: Some(["bob".parse().unwrap()].into()) },
            limit: None,
            labels: Labels {
                cover: Some("spring".parse().unwrap()),
                reference: Some("order-17".parse().unwrap()),
                metadata: Some([("k".to_owned(), "v".to_owned())].into()),
            },
            ..Terms::sample()
        };
        let summary = Summary {
            claimed_count: 1,
            best: Some(Best { user: "bob".parse().unwrap(), amount: Amount::new(250), slip: 0 }),
            ..Summary::default()
        };
        PacketView {
            terms: Arc::new(terms),
            status: Status::Open,
            closed_at: None,
            closing: None,
            settled_at: None,
            summary,
            mine: None,
            won: None,
            next: None,
            is_decided,
            is_settled: false,
        }
    }

    fn shown(view: &PacketView, viewer: &str) -> Value {
        let user = viewer.parse().unwrap();
        serde_json::to_value(PacketBody::single(view, Viewer::User(&user))).unwrap()
    }

    fn without(mut packet: Value, field: &str) -> Value {
        packet.as_object_mut().unwrap().remove(field);
        packet
    }

    #[test]
    fn a_packet_says_what_its_own_split_was_made_with() {
        let packet = shown(&view(false), "bob");
        assert_eq!((&packet["split_version"], &packet["slip_cap"]), (&json!(7), &json!(321)));
    }

    #[test]
    fn the_seed_and_the_best_wait_for_the_end() {
        let (open, decided) = (shown(&view(false), "bob"), shown(&view(true), "bob"));
        assert_eq!((&open["seed"], &open["best"]), (&Value::Null, &Value::Null));
        assert_eq!((&open["starts_at"], &open["closed_at"]), (&Value::Null, &Value::Null));
        assert_eq!(decided["seed"], json!("03".repeat(32)));
        assert_eq!(decided["best"], json!({"user_id": "bob", "amount": 250}));
    }

    #[test]
    fn what_the_sender_wrote_for_their_app_is_theirs_and_the_operators() {
        let view = view(false);
        let bob = shown(&view, "bob");
        assert_eq!(bob["cover"], "spring");
        for field in ["reference", "recipients", "metadata"] {
            assert_eq!(bob.get(field), None, "{field}");
        }
        let sender = shown(&view, "ann");
        let operator = serde_json::to_value(PacketBody::single(&view, Viewer::Operator)).unwrap();
        assert_eq!((sender.get("closing"), operator.get("closing")), (None, Some(&Value::Null)));
        assert_eq!(without(without(operator, "closing"), "settled_at"), sender);
        assert_eq!(
            (&sender["reference"], &sender["recipients"], &sender["metadata"]),
            (&json!("order-17"), &json!(["bob"]), &json!({"k": "v"}))
        );
        let listed = serde_json::to_value(PacketBody::listed(&view, Viewer::Operator)).unwrap();
        assert_eq!(listed["reference"], "order-17");
        assert_eq!((listed.get("recipients"), &listed["metadata"]), (None, &json!({"k": "v"})));
        // What is missing is shown as null, so that a client need not tell two cases apart.
        let plain = PacketView { terms: Arc::new(Terms { sender: "ann".parse().unwrap(), ..Terms::sample() }), ..view };
        let sender = shown(&plain, "ann");
        for field in ["cover", "reference", "recipients", "metadata"] {
            assert_eq!(sender.get(field), Some(&Value::Null), "{field}");
        }
    }
}
