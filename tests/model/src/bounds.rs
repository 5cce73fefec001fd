//! The sizes of the model's arrays and sets. A checker that visits millions of states needs them small.

/// The bits of a set of slips or of parts, and a sum of amounts.
pub type Bits = u8;
/// The most slips of an instance.
pub const SLIPS: usize = 3;
/// The most users.
pub const USERS: usize = 3;
/// The most parts.
pub const PARTS: usize = 2;
/// The most grabs at once.
pub const GRABS: usize = 3;
/// The most runs of settle.
pub const SETTLERS: usize = 2;
