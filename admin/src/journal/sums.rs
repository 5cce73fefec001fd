//! Sums of movements.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// The kinds of movements in the order of the accounts: how money comes in, moves, and goes out.
pub const KINDS: [&str; 7] = ["deposit", "sent", "claim", "refund", "reserve", "release", "withdrawal"];

/// A number of movements, and the sum of their amounts in minor units.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub amount: i128,
}

impl Add for Sum {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { count: self.count + other.count, amount: self.amount + other.amount }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.amount)
    }
}

/// The sum of each kind of movements.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movements(BTreeMap<String, Sum>);

impl Movements {
    /// The sums that `sum` says.
    pub fn new(sum: impl Fn(&'static str) -> Sum) -> Self {
        Self(KINDS.iter().map(|kind| ((*kind).to_owned(), sum(kind))).collect())
    }

    /// The sum of a kind.
    pub fn of(&self, kind: &str) -> Sum {
        self.0.get(kind).copied().unwrap_or_default()
    }
}

/// The balance of each class of accounts: its credits less its debits. Together they are always zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Classes {
    /// Money outside: negative while there is money in the deployment.
    pub external: i128,
    pub wallets: i128,
    /// What pending withdrawals have reserved.
    #[serde(default)]
    pub pending: i128,
    pub packets: i128,
}

impl Classes {
    /// The balances of accounts that began with nothing.
    pub fn of(movements: &Movements) -> Self {
        let [deposit, sent, claim, refund, reserve, release, withdrawal] = KINDS.map(|kind| movements.of(kind).amount);
        Self {
            external: withdrawal - deposit,
            wallets: deposit - sent + claim + refund - reserve + release - withdrawal,
            pending: reserve - release,
            packets: sent - claim - refund,
        }
    }
}
