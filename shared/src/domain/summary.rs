use super::id::UserId;
use super::money::Amount;
use super::slip::{Decision, Owner};

/// The luckiest claim of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Best {
    /// The slip.
    pub slip: u32,
    /// Who has it.
    pub user: UserId,
    /// What was in it.
    pub amount: Amount,
}

/// What a packet's decisions sum to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Slips that were claimed.
    pub claimed_count: u32,
    /// What was in them.
    pub claimed_amount: Amount,
    /// Slips that went back.
    pub refunded_count: u32,
    /// What was in them.
    pub refunded_amount: Amount,
    /// The largest claim; of equal ones the earliest.
    pub best: Option<Best>,
}

impl Summary {
    /// Sums up decisions.
    pub fn of<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Self {
        let (claimed, refunded): (Vec<&Decision>, Vec<&Decision>) =
            decisions.into_iter().partition(|decision| matches!(decision.owner, Owner::User(_)));
        let total = |decisions: &[&Decision]| decisions.iter().map(|decision| decision.amount).sum();
        let count = |decisions: &[&Decision]| u32::try_from(decisions.len()).unwrap_or(u32::MAX);
        let first = |decision: &&&Decision| (decision.amount, std::cmp::Reverse((decision.at, decision.slip)));
        let best = claimed.iter().max_by_key(first).and_then(|decision| {
            Some(Best { slip: decision.slip, user: decision.owner.user()?.clone(), amount: decision.amount })
        });
        Self {
            claimed_count: count(&claimed),
            claimed_amount: total(&claimed),
            refunded_count: count(&refunded),
            refunded_amount: total(&refunded),
            best,
        }
    }

    /// The number of slips that have a decision.
    pub const fn decided_count(&self) -> u32 {
        self.claimed_count + self.refunded_count
    }
}
