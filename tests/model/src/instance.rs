//! What is checked: the bounds of an instance, and the mistakes that can be made in it on purpose.

use std::fmt;

use crate::set::Set;

/// The most slips of an instance.
pub const SLIPS: usize = 3;
/// The most users.
pub const USERS: usize = 3;
/// The most parts.
pub const PARTS: usize = 2;
/// The most grabs under way at once.
pub const GRABS: usize = 3;
/// The most settle functions at once.
pub const SETTLERS: usize = 2;

/// A slip's index.
pub type Slip = u8;
/// A user.
pub type User = u8;
/// A part's index.
pub type Part = u8;

/// What is in a slip: different powers of two, so that each sum tells which slips are in it.
pub const fn amount(slip: Slip) -> u8 {
    1 << slip
}

/// What is in all of `slips`.
pub fn sum(slips: Set) -> u8 {
    slips.into_iter().map(amount).sum()
}

/// When a grab is answered: `AckMode` in the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ack {
    /// Once its claim is committed.
    Ledger,
    /// On the word of the hot store.
    Redis,
}

/// The bounds within which everything that can happen is tried.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Its name.
    pub name: &'static str,
    /// The packet's ack mode.
    pub ack: Ack,
    /// How many slips the packet has.
    pub slips: u8,
    /// How many parts.
    pub parts: u8,
    /// The user of each grab that can be under way. A user who is in it twice grabs from two devices at once.
    pub grabs: &'static [User],
    /// How many times each of these grabs, one after another. Each of these may die at any step.
    pub tries: u8,
    /// How many settle functions run, at once or one after another. Each may die at any step.
    pub settlers: u8,
    /// How many slips one refund takes back.
    pub chunk: usize,
    /// How many times the hot store may go back to an earlier state.
    pub rollbacks: u8,
    /// How many times it may lose everything.
    pub wipes: u8,
    /// How many calls may be executed a second time, or late when nobody waits for them any more, or not at all.
    pub copies: u8,
    /// Whether a packet may be refunded while the hot store still gives its slips: clocks that differ by more than
    /// the grace.
    pub early_refund: bool,
    /// The mistake that is made, if any.
    pub mutant: Option<Mutant>,
}

impl Instance {
    /// Whether `mutant` is in it.
    pub fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// All slips.
    pub const fn all(&self) -> Set {
        Set::range(0, self.slips)
    }

    /// The slips of a part: `PartId::slips`.
    pub const fn slips_of(&self, part: Part) -> Set {
        let first_end = self.slips.div_ceil(self.parts);
        if part == 0 { Set::range(0, first_end) } else { Set::range(first_end, self.slips) }
    }

    /// The part of a slip: `PartId::of_slip`.
    pub const fn part_of(&self, slip: Slip) -> Part {
        if self.slips_of(0).has(slip) { 0 } else { 1 }
    }

    /// The part that a user asks as his `probe`th: `PartId::probe_order`.
    pub const fn probed(&self, user: User, probe: u8) -> Part {
        (user + probe) % self.parts
    }

    /// Whether answers keep to what was promised although the hot store lost something, or not (`lost`).
    pub fn keeps_promises(&self, lost: bool) -> bool {
        self.ack == Ack::Ledger || !lost
    }
}

/// A mistake in the protocol: each breaks one rule and thereby a property.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Mutant {
    /// A claim does not ask whether the slip has a decision.
    NoSlipDecision,
    /// A claim does not ask whether the user has a claim.
    NoClaimDecision,
    /// Settle drops a hold from the outbox before its claim is committed.
    AckBeforeCommit,
    /// A hold is told to the user as his, in an instance whose answers wait for the ledger.
    HoldIsAnswer,
    /// A user is turned away although a slip's decision is missing, and his claim item was not read.
    NegativeInDoubt,
    /// A slip whose claim got no answer is given to somebody else.
    PutBackAfterTimeout,
    /// Settle marks the packet as settled after the first refund that succeeds.
    SettledTooEarly,
    /// A part that is loaded is loaded again.
    LoadOverLoaded,
    /// A new packet is put into the hot store before it is in the ledger.
    RedisBeforeLedger,
    /// A process remembers a part as final once no slip is free.
    EmptyIsFinal,
    /// A packet that is answered on the hot store's word is refunded before its outbox is empty.
    RefundWithoutDraining,
    /// A refund brings back the total less what was counted before.
    RefundByCount,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clap::ValueEnum::to_possible_value(self);
        f.write_str(name.as_ref().map_or("", |name| name.get_name()))
    }
}
