//! Sets of slips and of parts.

use std::fmt;

/// A set of small numbers, slips or parts: one bit each.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Set(u8);

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

    /// The numbers, in ascending order.
    pub fn each(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.has(*number))
    }

    /// The lowest number, if there is one.
    pub fn first(self) -> Option<u8> {
        self.each().next()
    }

    /// All except the lowest number.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }
}

impl FromIterator<u8> for Set {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::NONE, |set, number| set.and(Self::of(number)))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}
