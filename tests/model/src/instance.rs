//! The bounds of a check, the instances to check, the mutants, and sets of slips and parts.

use std::fmt;

use crate::properties;

/// A slip's index.
pub type Slip = u8;
/// A user.
pub type User = u8;
/// A part's index.
pub type Part = u8;

/// The most slips of an instance. A checker that visits millions of states needs small arrays.
pub const SLIPS: usize = 3;
/// The most users.
pub const USERS: usize = 3;
/// The most parts.
pub const PARTS: usize = 2;
/// The most grabs at once.
pub const GRABS: usize = 3;
/// The most runs of settle.
pub const SETTLERS: usize = 2;

/// The sum of the amounts of `slips`. Amounts are different powers of two, so each sum identifies its slips.
pub fn sum(slips: Set) -> u8 {
    slips.each().map(|slip| 1 << slip).sum()
}

/// The acknowledgement mode: `AckMode` in the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ack {
    /// A winner is answered after the ledger's commit.
    Ledger,
    /// A winner is answered after the hot store's hold.
    Redis,
}

/// The bounds within which the checker tries everything.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Its name.
    pub name: &'static str,
    /// The packet's acknowledgement mode.
    pub ack: Ack,
    /// Number of the packet's slips.
    pub slips: u8,
    /// Number of its parts.
    pub parts: u8,
    /// The users of the grabs. A user who is in it twice grabs from two devices at once.
    pub grabs: &'static [User],
    /// How many times each of them grabs, one time after another. Each grab may die at any step.
    pub tries: u8,
    /// Number of runs of settle, at once or one after another. Each run may die at any step.
    pub settlers: u8,
    /// Slips per refund.
    pub chunk: usize,
    /// How many times the hot store, or the node of a part, may go back to an earlier state, or lose everything.
    pub losses: u8,
    /// How many calls may be executed twice, late, or never.
    pub copies: u8,
    /// Whether a packet may be refunded while the hot store still gives slips, because clocks differ by more than the
    /// grace.
    pub early_refund: bool,
    /// Whether the operator may close the packet.
    pub closes: bool,
    /// How many users may reach the packet's limit by what they win elsewhere. Such a packet is in `ledger` mode.
    pub limits: u8,
    /// The mutant, if any.
    pub mutant: Option<Mutant>,
}

impl Instance {
    /// Whether this is an instance of `mutant`.
    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// All slips.
    pub const fn all(&self) -> Set {
        Set::range(0, self.slips)
    }

    /// All parts.
    pub const fn all_parts(&self) -> Set {
        Set::range(0, self.parts)
    }

    /// The slips of a part: `PartId::slips`.
    pub fn slips_of(&self, part: Part) -> Set {
        let bound = |part: Part| part * self.slips / self.parts;
        Set::range(bound(part), bound(part + 1))
    }

    /// The part of a slip: `PartId::of_slip`.
    pub fn part_of(&self, slip: Slip) -> Part {
        (0..self.parts).find(|part| self.slips_of(*part).has(slip)).unwrap_or_default()
    }

    /// The part at position `probe` of a user's probe order: each user begins one part after the user before.
    pub const fn probed(&self, user: User, probe: u8) -> Part {
        (user + probe) % self.parts
    }

    /// Whether all users are alike: each grabs from one device, and all probe the same part first.
    pub fn is_symmetric(&self) -> bool {
        self.parts == 1 && (0..).zip(self.grabs).all(|(n, user): (User, _)| n == *user)
    }

    /// Whether promises must be kept. `lost`: the hot store has lost something.
    pub fn keeps_promises(&self, lost: bool) -> bool {
        self.ack == Ack::Ledger || !lost
    }
}

/// The base of most instances: two users and one run of settle. The only fault: every actor may die at any step.
const PLAIN: Instance = Instance {
    name: "plain",
    ack: Ack::Ledger,
    slips: 2,
    parts: 1,
    grabs: &[0, 1],
    tries: 1,
    settlers: 1,
    chunk: 1,
    losses: 0,
    copies: 0,
    early_refund: false,
    closes: false,
    limits: 0,
    mutant: None,
};

/// Checked by the tests.
pub const SMALL: &[Instance] = &[
    Instance { name: "three users, two slips, and a loss", grabs: &[0, 1, 2], settlers: 0, losses: 1, ..PLAIN },
    Instance { name: "a user with two devices, and a loss", grabs: &[0, 0, 1], settlers: 0, losses: 1, ..PLAIN },
    Instance { name: "two users grab twice", tries: 2, ..PLAIN },
    Instance { name: "a loss", losses: 1, ..PLAIN },
    Instance { name: "two settle runs", settlers: 2, ..PLAIN },
    Instance { name: "a call twice, late, or never", copies: 1, ..PLAIN },
    Instance { name: "clocks that differ by more than the grace", early_refund: true, losses: 1, ..PLAIN },
    Instance { name: "three slips in two parts", slips: 3, parts: 2, ..PLAIN },
    Instance { name: "a slip in two parts, and a loss", slips: 1, parts: 2, losses: 1, ..PLAIN },
    Instance { name: "`redis` mode, with two parts", ack: Ack::Redis, parts: 2, tries: 2, ..PLAIN },
    Instance { name: "`redis` mode, a call twice", ack: Ack::Redis, tries: 2, copies: 1, ..PLAIN },
    Instance { name: "`redis` mode, with a loss", ack: Ack::Redis, tries: 2, losses: 1, ..PLAIN },
    Instance { name: "a close", closes: true, ..PLAIN },
    Instance { name: "a close, in `redis` mode", ack: Ack::Redis, closes: true, ..PLAIN },
    Instance { name: "a limit", limits: 1, ..PLAIN },
    Instance { name: "a limit, a slip, and a call twice, late, or never", slips: 1, limits: 1, copies: 1, ..PLAIN },
];

/// Checked by the command only.
pub const LARGE: &[Instance] = &[
    Instance { name: "three users grab two slips", grabs: &[0, 1, 2], ..PLAIN },
    Instance { name: "three users grab three slips", grabs: &[0, 1, 2], slips: 3, chunk: 2, ..PLAIN },
    Instance { name: "three users, settle, and a loss", grabs: &[0, 1, 2], losses: 1, ..PLAIN },
    Instance { name: "two users grab twice, and a loss", tries: 2, losses: 1, ..PLAIN },
    Instance { name: "two parts and a loss", parts: 2, losses: 1, ..PLAIN },
    Instance { name: "two losses", losses: 2, ..PLAIN },
    Instance { name: "two settle runs, and a loss", settlers: 2, losses: 1, ..PLAIN },
    Instance { name: "three users and two settle runs", grabs: &[0, 1, 2], settlers: 2, ..PLAIN },
    Instance { name: "a close and a loss", closes: true, losses: 1, ..PLAIN },
    Instance { name: "a close, in `redis` mode with two parts", ack: Ack::Redis, parts: 2, closes: true, ..PLAIN },
    Instance { name: "a limit and a loss", limits: 1, losses: 1, ..PLAIN },
    Instance { name: "two users grab twice and may reach a limit", limits: 2, tries: 2, ..PLAIN },
    Instance { name: "a limit, and two settle runs", limits: 1, settlers: 2, ..PLAIN },
    Instance { name: "a limit, and a user with two devices", limits: 1, grabs: &[0, 0, 1], ..PLAIN },
    Instance { name: "a limit and two parts", limits: 1, parts: 2, ..PLAIN },
];

/// A copy of the protocol with one mistake. Each breaks one rule, and thereby one property.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Mutant {
    /// A claim does not check whether the slip has a decision.
    NoSlipDecision,
    /// A claim does not check whether the user has a claim.
    NoClaimDecision,
    /// A reconcile ends a hold although its slip has no decision.
    EndWithoutDecision,
    /// A hold is the answer, in an instance whose answers wait for the ledger.
    HoldIsAnswer,
    /// A user in doubt is denied although their claim item was not read.
    DenyWithoutClaim,
    /// A user of a packet that is known to be final is denied although their claim item was not read.
    FinalWithoutClaim,
    /// A grab overlooks a hold of its user that an earlier one left behind.
    OverlookHold,
    /// Settle marks the packet as settled after the first refund that succeeds.
    SettledTooEarly,
    /// A load overwrites a loaded part.
    LoadOverLoaded,
    /// A part without a free slip counts as final.
    EmptyIsFinal,
    /// A packet in `redis` mode is refunded before its outbox is empty.
    RefundWithoutDraining,
    /// A close leaves out a part that is not loaded.
    CloseSkipsUnloaded,
    /// Settle refunds a closed packet without closing its parts.
    RefundBeforeTold,
    /// A refund pays for all slips of its chunk, also for those that were decided meanwhile.
    RefundDecided,
    /// The limit is checked before a grab takes a slip, and not in the claim's transaction.
    LimitBeforeClaim,
    /// The limit refuses a claim although the user has one already: an earlier transaction, whose answer was lost, has committed it.
    RefusedBeforeClaim,
    /// A claim counts as refused although the outcome of its transaction is unknown.
    UnansweredIsRefused,
    /// Settle does not release a hold whose claim is refused.
    SettleKeepsRefused,
    /// A release makes its slip free although the user does not hold it any more.
    FreeWithoutHold,
}

/// An instance in which a mutant breaks a property, and that property.
pub const fn of_mutant(mutant: Mutant) -> (Instance, &'static str) {
    const ALONE: Instance = Instance { settlers: 0, ..PLAIN };
    const REDIS: Instance = Instance { ack: Ack::Redis, ..PLAIN };
    let (instance, property) = match mutant {
        Mutant::NoSlipDecision => (Instance { losses: 1, ..ALONE }, properties::ONE_DECISION),
        Mutant::NoClaimDecision => (Instance { losses: 1, grabs: &[0, 1, 1], ..ALONE }, properties::ONE_CLAIM),
        Mutant::EndWithoutDecision => (Instance { copies: 1, ..PLAIN }, properties::WHOLE),
        Mutant::HoldIsAnswer => (PLAIN, properties::PROMISE),
        Mutant::DenyWithoutClaim => (Instance { losses: 1, grabs: &[0, 0], ..ALONE }, properties::DENIED_WINNER),
        Mutant::FinalWithoutClaim => {
            (Instance { slips: 1, parts: 2, grabs: &[0, 0, 1], ..ALONE }, properties::DENIED_WINNER)
        }
        Mutant::OverlookHold => (ALONE, properties::ASKS_AGAIN),
        Mutant::SettledTooEarly => (PLAIN, properties::SETTLED),
        Mutant::LoadOverLoaded => (Instance { tries: 2, ..REDIS }, properties::PROMISE),
        Mutant::EmptyIsFinal => (Instance { losses: 1, grabs: &[0, 0, 1], ..ALONE }, properties::DENIED_WINNER),
        Mutant::RefundWithoutDraining => (REDIS, properties::PROMISE),
        Mutant::CloseSkipsUnloaded => (Instance { closes: true, grabs: &[0], ..ALONE }, properties::AFTER_CLOSE),
        Mutant::RefundBeforeTold => (Instance { closes: true, grabs: &[0], ..REDIS }, properties::PROMISE),
        Mutant::RefundDecided => (Instance { chunk: 2, ..PLAIN }, properties::CONSERVATION),
        Mutant::LimitBeforeClaim => (Instance { limits: 1, ..ALONE }, properties::LIMIT),
        Mutant::RefusedBeforeClaim => (Instance { limits: 1, ..ALONE }, properties::DENIED_WINNER),
        Mutant::UnansweredIsRefused => (ALONE, properties::GIVEN_ONCE),
        Mutant::SettleKeepsRefused => (Instance { limits: 1, grabs: &[0], ..PLAIN }, properties::FREE_AGAIN),
        Mutant::FreeWithoutHold => (Instance { slips: 1, limits: 1, ..PLAIN }, properties::WHOLE),
    };
    (Instance { mutant: Some(mutant), ..instance }, property)
}

/// A set of small numbers, slips or parts: one bit each.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Set(u8);

impl Set {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The numbers from `first` to `end`, without `end`.
    pub const fn range(first: u8, end: u8) -> Self {
        Self(((1 << end) - 1) & !((1 << first) - 1))
    }

    /// Only `number`.
    pub const fn of(number: u8) -> Self {
        Self(1 << number)
    }

    /// Whether `number` is in it.
    pub const fn has(self, number: u8) -> bool {
        self.0 & (1 << number) != 0
    }

    /// Whether all of `other` is in the set.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The numbers that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The numbers, in ascending order.
    pub fn each(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.has(*number))
    }

    /// The lowest number, if there is one.
    pub fn first(self) -> Option<u8> {
        self.each().next()
    }

    /// All except the lowest number.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::NONE, |set, number| set.and(Self::of(number)))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}
