//! Sets of slips and of parts.

use std::fmt;

use crate::bounds::Bits;

/// A set of small numbers, slips or parts: one bit each.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Set(Bits);

impl Set {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The numbers from `first` to `end`, without `end`.
    pub const fn range(first: u8, end: u8) -> Self {
        Self(((1 << end) - 1) & !((1 << first) - 1))
    }

    /// Only `number`.
    pub const fn of(number: u8) -> Self {
        Self(1 << number)
    }

    /// Whether `number` is in it.
    pub const fn has(self, number: u8) -> bool {
        self.0 & (1 << number) != 0
    }

    /// Whether all of `other` is in the set.
    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The numbers that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The lowest `count` numbers.
    #[must_use]
    pub fn lowest(self, count: usize) -> Self {
        self.into_iter().take(count).collect()
    }

    /// The lowest number, if there is one.
    pub fn first(self) -> Option<u8> {
        self.into_iter().next()
    }
}

impl IntoIterator for Set {
    type Item = u8;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        Members(self.0)
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::NONE, |set, number| set.and(Self::of(number)))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(*self).finish()
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (place, number) in self.into_iter().enumerate() {
            write!(f, "{}{number}", if place > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

/// The numbers of a [`Set`] in ascending order.
pub struct Members(Bits);

impl Iterator for Members {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        u8::try_from(lowest).ok().filter(|lowest| u32::from(*lowest) < Bits::BITS)
    }
}
