use serde::{Deserialize, Serialize};

/// Imbalances that a report spells out; beyond these it only counts. A run's answer
/// has them twice and goes through an event bus, which takes 256 KB.
const LISTED_MAX: usize = 50;

/// What is wrong.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An item whose key has no meaning here.
    UnknownItem,
    /// An item that does not read.
    Malformed,
    /// An item of a packet that does not exist.
    Orphan,
    /// Amounts that are missing, or not what the terms say.
    Amounts,
    /// A packet's debit that is missing or another.
    Debit,
    /// A decision that is not what its packet says, or of a slip that the packet does not have.
    Decision,
    /// A claimed decision without the claim of that user with the same words.
    DecisionWithoutClaim,
    /// A claim without the decision of that slip with the same words.
    ClaimWithoutDecision,
    /// Refunds that are not what the refunded decisions sum to.
    Refunds,
    /// A packet of which claimed, refunded and undecided slips are not the total.
    Conservation,
    /// A settled packet that is not what its decisions sum to.
    Closing,
    /// A packet that should be in the index of what is to be settled and is not, or the other way round.
    Index,
    /// Movements of a user who has no wallet.
    NoWallet,
    /// A wallet that is not what its movements sum to, or negative.
    Wallet,
    /// A user whose idempotency keys are not those of the packets he sent.
    SendKeys,
}

impl Kind {
    /// The name that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownItem => "unknown-item",
            Self::Malformed => "malformed",
            Self::Orphan => "orphan",
            Self::Amounts => "amounts",
            Self::Debit => "debit",
            Self::Decision => "decision",
            Self::DecisionWithoutClaim => "decision-without-claim",
            Self::ClaimWithoutDecision => "claim-without-decision",
            Self::Refunds => "refunds",
            Self::Conservation => "conservation",
            Self::Closing => "closing",
            Self::Index => "index",
            Self::NoWallet => "no-wallet",
            Self::Wallet => "wallet",
            Self::SendKeys => "send-keys",
        }
    }
}

/// One thing that is wrong in the ledger, seen again and again while nothing changed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Imbalance {
    /// What.
    pub kind: Kind,
    /// Where: `PK / SK` of the item.
    pub key: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Imbalance {
    pub(crate) fn new(
        kind: Kind,
        key: impl std::fmt::Display,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { kind, key: key.to_string(), expected: expected.into(), found: found.into() }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Figures {
    /// Packets that were checked.
    pub packets: u64,
    /// Slips of these.
    pub slips: u64,
    /// Wallets that were checked.
    pub wallets: u64,
    /// Movements of these.
    pub movements: u64,
    /// What came from outside into these wallets. This and the following in minor units.
    pub deposited: u64,
    /// What went outside out of them.
    pub withdrawn: u64,
    /// What is in them.
    pub in_wallets: u64,
    /// What is in slips, of these packets, that have no decision.
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
        self.in_slips = self.in_slips.saturating_add(other.in_slips);
    }
}

/// What an audit found so far.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Report {
    /// What was looked at. After a full audit of a ledger at rest `deposited - withdrawn = in_wallets + in_slips`; while
    /// money moves, each wallet and packet is of its own moment.
    #[serde(flatten)]
    pub figures: Figures,
    /// All that is wrong; [`Self::imbalances`] lists no more than 50.
    pub imbalance_count: u64,
    /// What is wrong.
    pub imbalances: Vec<Imbalance>,
    /// Packets and wallets that never stood still for long enough to be judged, or took all of a run's time.
    pub undecided_count: u64,
    /// Up to 50 of their keys.
    pub undecided: Vec<String>,
}

impl Report {
    /// Whether all that was looked at is in order.
    pub const fn is_balanced(&self) -> bool {
        self.imbalance_count == 0 && self.undecided_count == 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.figures.add(other.figures);
        self.imbalance_count += other.imbalance_count;
        self.undecided_count += other.undecided_count;
        self.imbalances.extend(other.imbalances);
        self.imbalances.truncate(LISTED_MAX);
        self.undecided.extend(other.undecided);
        self.undecided.truncate(LISTED_MAX);
    }

    pub(crate) fn wrong(imbalances: Vec<Imbalance>) -> Self {
        let mut report = Self { imbalance_count: imbalances.len() as u64, imbalances, ..Self::default() };
        report.imbalances.truncate(LISTED_MAX);
        report
    }

    pub(crate) fn undecided(key: String) -> Self {
        Self { undecided_count: 1, undecided: vec![key], ..Self::default() }
    }

    /// Logs what is wrong, each as an error that names ids and amounts that are no secret.
    pub(crate) fn log(&self) {
        for Imbalance { kind, key, expected, found } in &self.imbalances {
            tracing::error!(?kind, key, expected, found, "an imbalance");
        }
        for key in &self.undecided {
            tracing::error!(key, "not decided: it never stood still");
        }
    }
}
