//! The ledger: `DynamoDB` as far as one packet is concerned. A transaction is one step, and so is a consistent read.

use crate::instance::{Instance, Mutant, SLIPS, Slip, USERS, User, amount};
use crate::set::Set;

/// What stands in the ledger about one packet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Ledger {
    /// The packet is there: the send's transaction is done.
    pub sent: bool,
    /// The decision of each slip.
    pub decisions: [Decision; SLIPS],
    /// The claim item of each user.
    pub claims: [Option<Slip>; USERS],
    /// What came into each user's wallet.
    pub credited: [u8; USERS],
    /// What came back into the sender's wallet.
    pub returned: u8,
    /// The packet's status is "settled".
    pub settled: bool,
    /// A decision was written over another: what no condition would allow.
    pub overwritten: bool,
}

/// The item that says whose a slip is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Decision {
    /// There is none.
    #[default]
    Absent,
    /// The slip is a user's.
    Claimed(User),
    /// The slip went back.
    Refunded,
}

/// How a claim's transaction ended: `ClaimOutcome` in `ledger/claim.rs`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClaimOutcome {
    /// It is committed.
    Committed,
    /// The user has a claim already.
    Already {
        /// The slip he has.
        slip: Slip,
        /// Whether the decision that stood in the way is another's.
        foreign: bool,
    },
    /// The slip is another's, or was refunded.
    Taken,
}

impl Ledger {
    /// The slips that have a decision.
    pub fn decided(&self) -> Set {
        (0..).zip(self.decisions).filter(|(_, decision)| *decision != Decision::Absent).map(|(slip, _)| slip).collect()
    }

    /// The slips that users claimed.
    pub fn claimed(&self) -> Set {
        (0..)
            .zip(self.decisions)
            .filter(|(_, decision)| matches!(decision, Decision::Claimed(_)))
            .map(|(slip, _)| slip)
            .collect()
    }

    /// Whose a slip is, if it is a user's.
    pub fn owner(&self, slip: Slip) -> Option<User> {
        if let Decision::Claimed(user) = self.decisions[usize::from(slip)] { Some(user) } else { None }
    }

    /// `Ledger::claim` and `what_stands` (`ledger/claim.rs`): a decision and a claim, each if absent, and the amount to the
    /// wallet; else what stands there.
    pub fn claim(&mut self, instance: &Instance, user: User, slip: Slip) -> ClaimOutcome {
        let decision = self.decisions[usize::from(slip)];
        let claim = self.claims[usize::from(user)];
        let decision_passes = decision == Decision::Absent || instance.has(Mutant::NoSlipDecision);
        let claim_passes = claim.is_none() || instance.has(Mutant::NoClaimDecision);
        if decision_passes && claim_passes {
            self.decision(slip, Decision::Claimed(user));
            self.claims[usize::from(user)] = Some(slip);
            self.credited[usize::from(user)] += amount(slip);
            return ClaimOutcome::Committed;
        }
        match claim {
            Some(slip) => {
                let foreign = decision != Decision::Absent && decision != Decision::Claimed(user);
                ClaimOutcome::Already { slip, foreign }
            }
            None => ClaimOutcome::Taken,
        }
    }

    /// `Ledger::refund` and `decisions_in_the_way` (`ledger/refund.rs`): a decision for each slip of a chunk, each if absent, and
    /// `sum` to the sender's wallet. (The refund's own item is there if and only if its lowest slip's decision is.) Returns
    /// the slips whose decisions stood in the way: none if it is done.
    pub fn refund(&mut self, slips: Set, sum: u8) -> Set {
        let in_the_way = self.decided().within(slips);
        if in_the_way.is_empty() {
            slips.into_iter().for_each(|slip| self.decision(slip, Decision::Refunded));
            self.returned = self.returned.saturating_add(sum);
        }
        in_the_way
    }

    fn decision(&mut self, slip: Slip, decision: Decision) {
        let place = &mut self.decisions[usize::from(slip)];
        self.overwritten |= *place != Decision::Absent && *place != decision;
        *place = decision;
    }
}
