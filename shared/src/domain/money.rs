use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

/// An amount of money in minor units (fen for CNY), never negative.
///
/// The bounds in [`Limits`](super::Limits) keep every amount far below `u64::MAX`, so an overflow is a defect. Checked operations
/// answer it with `None`. The sum of an iterator saturates: the largest amount fails every comparison that a wrapped one might pass.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Amount(u64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount of `minor_units`.
    #[must_use]
    pub const fn new(minor_units: u64) -> Self {
        Self(minor_units)
    }

    /// The number of minor units.
    #[must_use]
    pub const fn minor_units(self) -> u64 {
        self.0
    }

    /// The same in the currency's own unit, such as 12.30 for 1,230 fen of CNY. The digits are those of ISO 4217's list one.
    #[must_use]
    pub fn major(self, currency: &str) -> String {
        let digits = match currency {
            "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "UYI" | "VND"
            | "VUV" | "XAF" | "XOF" | "XPF" => return self.to_string(),
            "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
            _ => 2,
        };
        let unit = 10_u64.pow(digits);
        format!("{}.{:0width$}", self.0 / unit, self.0 % unit, width = digits as usize)
    }

    /// `self + other`, or `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `self - other`, or `None` where `other` is more than `self`.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }

    /// `self × times`, or `None` on overflow.
    #[must_use]
    pub const fn checked_mul(self, times: u64) -> Option<Self> {
        match self.0.checked_mul(times) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sum for Amount {
    /// Saturates at the largest amount.
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Amount;

    const MOST: Amount = Amount::new(u64::MAX);

    #[test]
    fn arithmetic_is_checked() {
        let (two, three) = (Amount::new(2), Amount::new(3));
        assert_eq!((two.checked_add(three), MOST.checked_add(two)), (Some(Amount::new(5)), None));
        assert_eq!((three.checked_sub(two), two.checked_sub(three)), (Some(Amount::new(1)), None));
        assert_eq!((three.checked_sub(three), Amount::ZERO.minor_units()), (Some(Amount::ZERO), 0));
        assert_eq!((three.checked_mul(4), MOST.checked_mul(2)), (Some(Amount::new(12)), None));
    }

    #[test]
    fn an_impossible_sum_saturates() {
        assert_eq!([Amount::new(2), Amount::new(3)].into_iter().sum::<Amount>(), Amount::new(5));
        assert_eq!([MOST, Amount::new(2)].into_iter().sum::<Amount>(), MOST);
    }

    #[test]
    fn is_shown_in_minor_units() {
        let amount = Amount::new(20_000);
        assert_eq!((amount.minor_units(), amount.to_string()), (20_000, "20000".to_owned()));
    }
}
