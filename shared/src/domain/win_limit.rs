//! A limit on what one user wins of all packets of a sender that share a key.

use serde::{Deserialize, Serialize};

use super::labels::LimitKey;
use super::money::Amount;

/// What one user wins at most of all packets of one sender that have this key. Each packet is judged by its own numbers. A send has at
/// least one of them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WinLimit {
    /// The sender's name for what its packets share.
    pub key: LimitKey,
    /// How often a user wins at most; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wins: Option<u32>,
    /// How much a user wins at most; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
}

/// What a user has won of all packets of a sender that share a key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Won {
    /// How often.
    pub wins: u32,
    /// How much.
    pub amount: Amount,
}

impl WinLimit {
    /// The most that [`Self::wins`] can be.
    pub const WINS_MAX: u32 = 1_000_000;

    /// How often a user may still win. `won` is what they have. `None`: as often as they like.
    #[must_use]
    pub fn wins_left(&self, won: Won) -> Option<u32> {
        self.wins.map(|wins| wins.saturating_sub(won.wins))
    }

    /// How much a user may still win. `won` is what they have. `None`: any amount.
    #[must_use]
    pub fn amount_left(&self, won: Won) -> Option<Amount> {
        self.amount.map(|amount| amount.checked_sub(won.amount).unwrap_or(Amount::ZERO))
    }

    /// Whether a user who has `won` this may win a slip of `amount`.
    #[must_use]
    pub fn allows(&self, won: Won, amount: Amount) -> bool {
        self.wins_left(won).is_none_or(|wins| wins > 0) && self.amount_left(won).is_none_or(|left| amount <= left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_a_limit_holds_by_itself() {
        let limit =
            |wins, amount: Option<u64>| WinLimit { key: "nye".parse().unwrap(), wins, amount: amount.map(Amount::new) };
        let won = Won { wins: 2, amount: Amount::new(100) };
        for (wins, amount, slip, allows) in [
            (Some(3), None, 9_999, true),
            (Some(2), None, 1, false),
            (None, Some(150), 50, true),
            (None, Some(150), 51, false),
            (Some(3), Some(100), 1, false),
            (Some(1), Some(10), 1, false),
            (None, None, 9_999, true),
        ] {
            assert_eq!(limit(wins, amount).allows(won, Amount::new(slip)), allows, "{wins:?} {amount:?} {slip}");
        }
        assert_eq!(limit(Some(1), Some(10)).wins_left(won), Some(0), "packets with one key may differ");
        assert_eq!(limit(Some(1), Some(10)).amount_left(won), Some(Amount::ZERO));
    }
}
