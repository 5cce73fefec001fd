use super::id::UserId;
use super::money::Amount;
use super::time::Timestamp;

/// What became of a slip.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// It was claimed by this user.
    User(UserId),
    /// It went back to the packet's sender.
    Refunded,
}

impl Owner {
    /// The user who claimed the slip, if one did.
    #[must_use]
    pub const fn user(&self) -> Option<&UserId> {
        match self {
            Self::User(user) => Some(user),
            Self::Refunded => None,
        }
    }
}

/// A slip decision: the ledger's last word on a slip, written once and never changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The slip's index in its packet.
    pub slip: u32,
    /// Who has it.
    pub owner: Owner,
    /// What was in it.
    pub amount: Amount,
    /// When it was grabbed, or refunded.
    pub at: Timestamp,
}

impl Decision {
    /// The claim of which this is the decision; `None` for a refund.
    #[must_use]
    pub fn claim(&self) -> Option<(&UserId, Claim)> {
        match &self.owner {
            Owner::User(user) => Some((user, Claim { slip: self.slip, amount: self.amount, at: self.at })),
            Owner::Refunded => None,
        }
    }
}

/// A slip that a user got: the answer that they are promised for ever.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Claim {
    /// The slip's index in its packet.
    pub slip: u32,
    /// What was in it.
    pub amount: Amount,
    /// When they grabbed it, by the hot store's clock.
    pub at: Timestamp,
}

impl Claim {
    /// The decision that this is `user`'s slip.
    #[must_use]
    pub fn decision(&self, user: &UserId) -> Decision {
        Decision { slip: self.slip, owner: Owner::User(user.clone()), amount: self.amount, at: self.at }
    }
}

/// A slip that the hot store holds for a user until the ledger says whose it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hold {
    /// The slip's index in its packet.
    pub slip: u32,
    /// For whom it is held.
    pub user: UserId,
    /// Since when, by the hot store's clock: the claim's time once it is committed.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claims_decision_says_whose_slip_it_is() {
        let (user, at): (UserId, _) = ("ann".parse().unwrap(), Timestamp::from_ms(7));
        let decision = Claim { slip: 3, amount: Amount::new(520), at }.decision(&user);
        assert_eq!(decision, Decision { slip: 3, owner: Owner::User(user.clone()), amount: Amount::new(520), at });
        assert_eq!((decision.owner.user(), Owner::Refunded.user()), (Some(&user), None));
    }
}
