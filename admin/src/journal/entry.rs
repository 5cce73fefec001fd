//! The entries of the journal, and their sums.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use shared::domain::MovementKind;

/// An entry as the files show it: a movement as a debit of one account and a credit of another.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Line {
    pub time: String,
    pub kind: String,
    pub user: String,
    /// The movement's name among the user's movements of this kind, as in the operator's API.
    pub id: String,
    /// The packet; none for a deposit or a withdrawal.
    pub packet: Option<String>,
    /// The account that the money leaves.
    pub debit: String,
    /// The account that the money reaches.
    pub credit: String,
    /// Minor units.
    pub amount: u64,
    pub currency: String,
}

/// A number of movements, and the sum of their amounts in minor units.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub amount: i128,
}

impl Sum {
    /// `count` movements of `amount` together.
    pub fn new(count: u64, amount: u64) -> Self {
        Self { count, amount: amount.into() }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.amount += other.amount;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.amount)
    }
}

/// Sums of movements, by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movements {
    pub deposit: Sum,
    pub sent: Sum,
    pub claim: Sum,
    pub refund: Sum,
    pub withdrawal: Sum,
}

impl Movements {
    /// The sum of a kind.
    pub const fn of(&mut self, kind: MovementKind) -> &mut Sum {
        match kind {
            MovementKind::Deposit => &mut self.deposit,
            MovementKind::Sent => &mut self.sent,
            MovementKind::Claim => &mut self.claim,
            MovementKind::Refund => &mut self.refund,
            MovementKind::Withdrawal => &mut self.withdrawal,
        }
    }

    /// All sums in the order of the accounts: how money comes in, moves, and goes out.
    pub const fn each(&self) -> [(MovementKind, Sum); 5] {
        [
            (MovementKind::Deposit, self.deposit),
            (MovementKind::Sent, self.sent),
            (MovementKind::Claim, self.claim),
            (MovementKind::Refund, self.refund),
            (MovementKind::Withdrawal, self.withdrawal),
        ]
    }
}

impl AddAssign for Movements {
    fn add_assign(&mut self, other: Self) {
        for (kind, sum) in other.each() {
            *self.of(kind) += sum;
        }
    }
}

/// The balance of each class of accounts: its credits less its debits. Together they are always zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Classes {
    /// Money outside: negative while there is money in the deployment.
    pub external: i128,
    pub wallets: i128,
    pub packets: i128,
}

impl Classes {
    /// The balances of accounts that began with nothing.
    pub const fn of(movements: &Movements) -> Self {
        let Movements { deposit, sent, claim, refund, withdrawal } = movements;
        Self {
            external: withdrawal.amount - deposit.amount,
            wallets: deposit.amount - sent.amount + claim.amount + refund.amount - withdrawal.amount,
            packets: sent.amount - claim.amount - refund.amount,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_classes_of_any_movements_are_balanced(amounts in proptest::collection::vec((0_usize..5, 0_u64..1 << 60), 0..50)) {
            let mut movements = Movements::default();
            for (kind, amount) in amounts {
                *movements.of(MovementKind::ALL[kind]) += Sum::new(1, amount);
            }
            let Classes { external, wallets, packets } = Classes::of(&movements);
            prop_assert_eq!(external + wallets + packets, 0);
        }
    }
}
