//! The bounds of a check, and the mutants.

use std::fmt;

use crate::bounds::Bits;
pub use crate::bounds::{GRABS, PARTS, SETTLERS, SLIPS, USERS};
use crate::set::Set;

/// A slip's index.
pub type Slip = u8;
/// A user.
pub type User = u8;
/// A part's index.
pub type Part = u8;

/// A slip's amount. Amounts are different powers of two, so each sum identifies its slips.
pub const fn amount(slip: Slip) -> Bits {
    1 << slip
}

/// The sum of the amounts of `slips`.
pub fn sum(slips: Set) -> Bits {
    slips.into_iter().map(amount).sum()
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
    /// Each user's probe order: `PartId::probe_order`.
    pub orders: [[Part; PARTS]; USERS],
    /// The users of the grabs. A user who is in it twice grabs from two devices at once.
    pub grabs: &'static [User],
    /// How many times each of them grabs, one time after another. Each grab may die at any step.
    pub tries: u8,
    /// Number of runs of settle, at once or one after another. Each run may die at any step.
    pub settlers: u8,
    /// Slips per refund.
    pub chunk: usize,
    /// How many times the hot store may go back to an earlier state.
    pub rollbacks: u8,
    /// How many times the hot store may lose everything.
    pub wipes: u8,
    /// How many calls may be executed twice, late, or never.
    pub copies: u8,
    /// Whether a packet may be refunded while the hot store still gives slips, because clocks differ by more than the
    /// grace.
    pub early_refund: bool,
    /// Whether the operator may close the packet.
    pub closes: bool,
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

    /// The slips of a part: `PartId::slips`.
    pub fn slips_of(&self, part: Part) -> Set {
        let bound = |part: Part| part * self.slips / self.parts;
        Set::range(bound(part), bound(part + 1))
    }

    /// The part of a slip: `PartId::of_slip`.
    pub fn part_of(&self, slip: Slip) -> Part {
        (0..self.parts).find(|part| self.slips_of(*part).has(slip)).unwrap_or_default()
    }

    /// The part at position `probe` of a user's probe order.
    pub fn probed(&self, user: User, probe: u8) -> Part {
        self.orders[usize::from(user)][usize::from(probe)] % self.parts
    }

    /// Whether promises must be kept. `lost`: the hot store has lost something.
    pub fn keeps_promises(&self, lost: bool) -> bool {
        self.ack == Ack::Ledger || !lost
    }
}

/// A copy of the protocol with one mistake. Each breaks one rule, and thereby one property.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Mutant {
    /// A claim does not check whether the slip has a decision.
    NoSlipDecision,
    /// A claim does not check whether the user has a claim.
    NoClaimDecision,
    /// Settle drops a hold from the outbox before its claim is committed.
    AckBeforeCommit,
    /// A hold is the answer, in an instance whose answers wait for the ledger.
    HoldIsAnswer,
    /// A user is denied although a slip has no decision and their claim item was not read.
    NegativeInDoubt,
    /// A user who is in doubt is denied after a read of their claim item, although another of their requests may still win.
    ReadInDoubt,
    /// A slip whose claim got no answer becomes free for others.
    PutBackAfterTimeout,
    /// Settle marks the packet as settled after the first refund that succeeds.
    SettledTooEarly,
    /// A load overwrites a loaded part.
    LoadOverLoaded,
    /// A new packet is loaded into the hot store before the ledger has it.
    RedisBeforeLedger,
    /// A process caches a part as final once no slip is free.
    EmptyIsFinal,
    /// A packet in `redis` mode is refunded before its outbox is empty.
    RefundWithoutDraining,
    /// A close leaves out a part that is not loaded.
    CloseSkipsUnloaded,
    /// Settle refunds a closed packet without closing its parts.
    RefundBeforeTold,
    /// A refund returns the total minus the claims that were counted before.
    RefundByCount,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clap::ValueEnum::to_possible_value(self);
        f.write_str(name.as_ref().map_or("", |name| name.get_name()))
    }
}
