//! The ledger: one packet's items in `DynamoDB`. A transaction is one step, and so is a consistent read.

use crate::instance::{Instance, Mutant, SLIPS, Set, Slip, USERS, User, sum};

/// The ledger's data about the packet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Ledger {
    /// The decision of each slip.
    pub decisions: [Decision; SLIPS],
    /// The claim item of each user.
    pub claims: [Option<Slip>; USERS],
    /// The amount that each user's wallet received.
    pub credited: [u8; USERS],
    /// The amount that the sender's wallet got back.
    pub returned: u8,
    /// The packet is marked as closed.
    pub closed: bool,
    /// The packet's status is "settled".
    pub settled: bool,
    /// The users who have reached the packet's limit by what they won elsewhere. They win nothing more, and keep what they have.
    pub at_limit: Set,
    /// Whether a decision was overwritten, which the conditions forbid.
    pub overwritten: bool,
}

/// A slip decision.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Decision {
    /// No decision.
    #[default]
    Absent,
    /// Claimed by a user.
    Claimed(User),
    /// Refunded.
    Refunded,
}

/// The outcome of a claim's transaction: `ClaimOutcome` in `ledger/claim.rs`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClaimOutcome {
    /// It is committed.
    Committed,
    /// The user has a claim already.
    Already {
        /// The slip of that claim.
        slip: Slip,
        /// Whether the existing decision has another owner.
        foreign: bool,
    },
    /// The slip is claimed by another user, or refunded.
    Taken,
    /// The user has reached the limit: the slip is nobody's.
    Refused,
}

impl ClaimOutcome {
    /// The decisions that the outcome of a claim of `slip` shows.
    pub const fn decisions(self, slip: Slip) -> Set {
        match self {
            Self::Committed | Self::Taken => Set::of(slip),
            Self::Already { slip: own, foreign: false } => Set::of(own),
            Self::Already { slip: own, foreign: true } => Set::of(own).and(Set::of(slip)),
            Self::Refused => Set::NONE,
        }
    }
}

impl Ledger {
    fn having(&self, is_wanted: impl Fn(Decision) -> bool) -> Set {
        (0..).zip(self.decisions).filter(|(_, decision)| is_wanted(*decision)).map(|(slip, _)| slip).collect()
    }

    /// The slips that have a decision.
    pub fn decided(&self) -> Set {
        self.having(|decision| decision != Decision::Absent)
    }

    /// The slips that users claimed.
    pub fn claimed(&self) -> Set {
        self.having(|decision| matches!(decision, Decision::Claimed(_)))
    }

    /// The slips that `user` claimed: at most one.
    pub fn claimed_by(&self, user: User) -> Set {
        self.having(|decision| decision == Decision::Claimed(user))
    }

    /// The owner of a slip, if a user claimed it.
    pub fn owner(&self, slip: Slip) -> Option<User> {
        if let Decision::Claimed(user) = self.decisions[usize::from(slip)] { Some(user) } else { None }
    }

    /// `Ledger::claim` and `what_stands` (`ledger/claim.rs`): writes a decision and a claim if both are absent and the user has not
    /// reached the limit, and credits the wallet. Otherwise returns the existing ones. The limit refuses only a user who has no claim.
    pub fn claim(&mut self, instance: &Instance, user: User, slip: Slip) -> ClaimOutcome {
        let decision = self.decisions[usize::from(slip)];
        let claim = self.claims[usize::from(user)];
        let decision_passes = decision == Decision::Absent || instance.has(Mutant::NoSlipDecision);
        let claim_passes = claim.is_none() || instance.has(Mutant::NoClaimDecision);
        let is_at_limit = self.at_limit.has(user);
        if is_at_limit && instance.has(Mutant::RefusedBeforeClaim) {
            return ClaimOutcome::Refused;
        }
        if decision_passes && claim_passes && (!is_at_limit || instance.has(Mutant::LimitBeforeClaim)) {
            self.decide(slip, Decision::Claimed(user));
            self.claims[usize::from(user)] = Some(slip);
            self.credited[usize::from(user)] += sum(Set::of(slip));
            return ClaimOutcome::Committed;
        }
        let foreign = decision != Decision::Absent && decision != Decision::Claimed(user);
        match claim {
            Some(slip) => ClaimOutcome::Already { slip, foreign },
            None if decision == Decision::Absent => ClaimOutcome::Refused,
            None => ClaimOutcome::Taken,
        }
    }

    /// `Ledger::refund` and `decisions_in_the_way` (`ledger/refund.rs`): writes a decision for each slip of a chunk if
    /// all are absent, and credits the sender's wallet. (The refund's own item exists exactly if its lowest slip's
    /// decision does.) Returns the slips with existing decisions: none if it is done.
    pub fn refund(&mut self, instance: &Instance, slips: Set) -> Set {
        let in_the_way = self.decided().within(slips);
        if in_the_way.is_empty() || instance.has(Mutant::RefundDecided) {
            slips.without(in_the_way).each().for_each(|slip| self.decide(slip, Decision::Refunded));
            self.returned = self.returned.saturating_add(sum(slips));
        }
        in_the_way
    }

    fn decide(&mut self, slip: Slip, decision: Decision) {
        let place = &mut self.decisions[usize::from(slip)];
        self.overwritten |= *place != Decision::Absent && *place != decision;
        *place = decision;
    }
}
