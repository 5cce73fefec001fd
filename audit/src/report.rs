use std::fmt::Display;

use serde::{Deserialize, Serialize};
use shared::ports::Key;

use crate::item::Malformed;
use crate::source::shown;

/// Imbalances that a report spells out; it only counts further ones. A run's answer has them twice, and goes through an
/// event bus with a limit of 256 KB.
const LISTED_MAX: usize = 50;

/// The kinds of imbalance.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An item whose key has no meaning here.
    UnknownItem,
    /// An item that can't be parsed.
    Malformed,
    /// An item of a packet that does not exist.
    Orphan,
    /// Amounts that are missing, or contradict the terms.
    Amounts,
    /// A packet's debit that is missing, or differs.
    Debit,
    /// A decision that contradicts its packet, or is of a slip that the packet does not have.
    Decision,
    /// A claimed decision without that user's equal claim.
    DecisionWithoutClaim,
    /// A claim without an equal decision of its slip.
    ClaimWithoutDecision,
    /// Refunds that differ from the sum of the refunded decisions.
    Refunds,
    /// A packet whose claimed, refunded and undecided slips do not sum to the total.
    Conservation,
    /// A settled packet whose totals differ from the sums of its decisions.
    Closing,
    /// An open packet that is missing in the index of due packets, or a settled one that is in it.
    Index,
    /// Movements of a user without a wallet.
    NoWallet,
    /// A wallet that differs from the sum of its movements, or is negative.
    Wallet,
    /// A user whose idempotency keys do not match the packets that they sent.
    SendKeys,
    /// A day whose sum differs from the sends that count towards its limit.
    Days,
    /// What a user has won towards a limit that differs from the claims that count towards it.
    Limits,
    /// A packet that is missing under its reference or the key of its limit, or is under one that it does not have.
    Reference,
    /// A user's timeline that differs from their deposits, refunds and withdrawals.
    Timeline,
}

/// An imbalance, seen several times in a row without a change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Imbalance {
    /// The kind.
    pub kind: Kind,
    /// The item: `PK / SK`.
    pub key: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

impl Imbalance {
    pub(crate) fn new(kind: Kind, key: impl Display, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { kind, key: key.to_string(), expected: expected.into(), found: found.into() }
    }

    /// That an item is missing, or says something else than what is expected of it.
    pub(crate) fn unless_equal(
        kind: Kind,
        key: &Key,
        expected: &impl Display,
        found: Option<Result<String, Malformed>>,
    ) -> Option<Self> {
        let (expected, found) = match (expected.to_string(), found) {
            (expected, Some(Ok(found))) => (expected, found),
            (expected, Some(Err(Malformed(wanted)))) => (expected, format!("not {wanted}")),
            (expected, None) => (expected, "no such item".to_owned()),
        };
        (expected != found).then(|| Self::new(kind, shown(key), expected, found))
    }

    /// An item that can't be parsed. What it says instead may be a secret.
    pub(crate) fn malformed(key: &Key, Malformed(expected): Malformed) -> Self {
        Self::new(Kind::Malformed, shown(key), expected, "something else")
    }
}

/// What the audit has covered.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Figures {
    /// Number of checked packets.
    pub packets: u64,
    /// Number of their slips.
    pub slips: u64,
    /// Number of checked wallets.
    pub wallets: u64,
    /// Number of their movements.
    pub movements: u64,
    /// Deposits into these wallets. This and the following are in minor units.
    pub deposited: u64,
    /// Withdrawals from these wallets.
    pub withdrawn: u64,
    /// The sum of these wallets, without what is reserved.
    pub in_wallets: u64,
    /// The sum of what their pending withdrawals have reserved.
    pub in_pending: u64,
    /// The sum of these packets' undecided slips.
    pub in_slips: u64,
}

impl Figures {
    pub(crate) const fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.slips = self.slips.saturating_add(other.slips);
        self.wallets = self.wallets.saturating_add(other.wallets);
        self.movements = self.movements.saturating_add(other.movements);
        self.deposited = self.deposited.saturating_add(other.deposited);
        self.withdrawn = self.withdrawn.saturating_add(other.withdrawn);
        self.in_wallets = self.in_wallets.saturating_add(other.in_wallets);
        self.in_pending = self.in_pending.saturating_add(other.in_pending);
        self.in_slips = self.in_slips.saturating_add(other.in_slips);
    }
}

/// The findings of an audit so far.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Report {
    /// What the audit has covered. After a full audit of an idle ledger
    /// `deposited - withdrawn = in_wallets + in_pending + in_slips`. While money moves, each wallet and packet is read at its own
    /// moment.
    #[serde(flatten)]
    pub figures: Figures,
    /// Number of imbalances; [`Self::imbalances`] lists at most 50.
    pub imbalance_count: u64,
    /// The imbalances.
    pub imbalances: Vec<Imbalance>,
    /// Number of packets and wallets that kept changing, or took a whole run's time.
    pub unjudged_count: u64,
    /// Up to 50 of their keys.
    pub unjudged: Vec<String>,
}

impl Report {
    /// Whether everything that was checked is in order.
    pub const fn is_balanced(&self) -> bool {
        self.imbalance_count == 0 && self.unjudged_count == 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.figures.add(other.figures);
        self.imbalance_count += other.imbalance_count;
        self.unjudged_count += other.unjudged_count;
        self.imbalances.extend(other.imbalances);
        self.imbalances.truncate(LISTED_MAX);
        self.unjudged.extend(other.unjudged);
        self.unjudged.truncate(LISTED_MAX);
    }

    pub(crate) fn wrong(imbalances: Vec<Imbalance>) -> Self {
        let mut report = Self { imbalance_count: imbalances.len() as u64, imbalances, ..Self::default() };
        report.imbalances.truncate(LISTED_MAX);
        report
    }

    pub(crate) fn unjudged(key: String) -> Self {
        Self { unjudged_count: 1, unjudged: vec![key], ..Self::default() }
    }

    /// Logs each imbalance as an error. The ids and amounts in it are no secret.
    pub(crate) fn log(&self) {
        for Imbalance { kind, key, expected, found } in &self.imbalances {
            tracing::error!(?kind, key, expected, found, "an imbalance");
        }
        for key in &self.unjudged {
            tracing::error!(key, "not judged, because it kept changing");
        }
    }
}
