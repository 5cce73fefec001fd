//! The ledger: `DynamoDB` as far as one packet is concerned. A transaction is one step, and so is a consistent read.

use crate::instance::{Instance, Mutant, SLIPS, Slip, USERS, User, amount};
use crate::set::Set;

/// What stands in the ledger about one packet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Ledger {
    /// The packet is there: the send's transaction is done.
    pub sent: bool,
    /// The fence of each slip.
    pub fences: [Fence; SLIPS],
    /// The claim item of each user.
    pub claims: [Option<Slip>; USERS],
    /// What came into each user's wallet.
    pub credited: [u8; USERS],
    /// What came back into the sender's wallet.
    pub returned: u8,
    /// The packet's status is "settled".
    pub settled: bool,
    /// A fence was written over another: what no condition would allow.
    pub overwritten: bool,
}

/// The item that says whose a slip is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Fence {
    /// There is none.
    #[default]
    Absent,
    /// The slip is a user's.
    Claimed(User),
    /// The slip went back.
    Refunded,
}

/// How a claim's transaction ended: `ClaimOutcome` in `dynamo/claim.rs`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClaimOutcome {
    /// It is committed.
    Committed,
    /// The user has a claim already.
    Already {
        /// The slip he has.
        slip: Slip,
        /// Whether the fence that stood in the way is another's.
        foreign: bool,
    },
    /// The slip is another's, or was refunded.
    Taken,
}

impl Ledger {
    /// The slips that have a fence.
    pub fn fenced(&self) -> Set {
        (0..).zip(self.fences).filter(|(_, fence)| *fence != Fence::Absent).map(|(slip, _)| slip).collect()
    }

    /// The slips that users claimed.
    pub fn claimed(&self) -> Set {
        (0..).zip(self.fences).filter(|(_, fence)| matches!(fence, Fence::Claimed(_))).map(|(slip, _)| slip).collect()
    }

    /// Whose a slip is, if it is a user's.
    pub fn owner(&self, slip: Slip) -> Option<User> {
        if let Fence::Claimed(user) = self.fences[usize::from(slip)] { Some(user) } else { None }
    }

    /// `Ledger::claim` and `what_stands` (`dynamo/claim.rs`): a fence and a claim, each if absent, and the amount to the
    /// wallet; else what stands there.
    pub fn claim(&mut self, instance: &Instance, user: User, slip: Slip) -> ClaimOutcome {
        let fence = self.fences[usize::from(slip)];
        let claim = self.claims[usize::from(user)];
        let fence_passes = fence == Fence::Absent || instance.has(Mutant::NoSlipFence);
        let claim_passes = claim.is_none() || instance.has(Mutant::NoClaimFence);
        if fence_passes && claim_passes {
            self.fence(slip, Fence::Claimed(user));
            self.claims[usize::from(user)] = Some(slip);
            self.credited[usize::from(user)] += amount(slip);
            return ClaimOutcome::Committed;
        }
        match claim {
            Some(slip) => {
                let foreign = fence != Fence::Absent && fence != Fence::Claimed(user);
                ClaimOutcome::Already { slip, foreign }
            }
            None => ClaimOutcome::Taken,
        }
    }

    /// `Ledger::refund` and `fences_in_the_way` (`dynamo/refund.rs`): a fence for each slip of a chunk, each if absent, and
    /// `sum` to the sender's wallet. (The refund's own item is there if and only if its lowest slip's fence is.) Returns
    /// the slips whose fences stood in the way: none if it is done.
    pub fn refund(&mut self, slips: Set, sum: u8) -> Set {
        let in_the_way = self.fenced().within(slips);
        if in_the_way.is_empty() {
            slips.into_iter().for_each(|slip| self.fence(slip, Fence::Refunded));
            self.returned = self.returned.saturating_add(sum);
        }
        in_the_way
    }

    fn fence(&mut self, slip: Slip, fence: Fence) {
        let place = &mut self.fences[usize::from(slip)];
        self.overwritten |= *place != Fence::Absent && *place != fence;
        *place = fence;
    }
}
