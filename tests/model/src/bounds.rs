//! The sizes of the model's arrays and sets.
//!
//! A checker that visits millions of states needs them small. A history of the simulation needs room. So the same sources
//! are compiled twice: as `model`, and with the feature `wide` as `model-wide`.

#[cfg(not(feature = "wide"))]
mod sizes {
    pub type Bits = u8;
    pub const SLIPS: usize = 3;
    pub const USERS: usize = 3;
    pub const PARTS: usize = 2;
    pub const GRABS: usize = 3;
    pub const SETTLERS: usize = 2;
}

#[cfg(feature = "wide")]
mod sizes {
    pub type Bits = u16;
    pub const SLIPS: usize = 12;
    pub const USERS: usize = 12;
    pub const PARTS: usize = 4;
    pub const GRABS: usize = USERS;
    // A replay makes one step at a time.
    pub const SETTLERS: usize = 1;
}

/// The bits of a set of slips or of parts, and a sum of amounts.
pub type Bits = sizes::Bits;
/// The most slips of an instance.
pub const SLIPS: usize = sizes::SLIPS;
/// The most users.
pub const USERS: usize = sizes::USERS;
/// The most parts.
pub const PARTS: usize = sizes::PARTS;
/// The most grabs at once.
pub const GRABS: usize = sizes::GRABS;
/// The most runs of settle.
pub const SETTLERS: usize = sizes::SETTLERS;
