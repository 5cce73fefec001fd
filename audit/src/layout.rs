//! How a packet lies in the table, by the audit's own reckoning, and how reports show a key.

use shared::ports::Key;

/// More slips have no part of their own: a packet has one part for each, up to [`PARTS_MAX`].
const SLIPS_PER_PART: u32 = 1_000;
const PARTS_MAX: u32 = 64;

/// The parts of a packet, by its number of slips.
pub fn part_count(count: u32) -> u32 {
    count.div_ceil(SLIPS_PER_PART).clamp(1, PARTS_MAX)
}

/// The first slip of part `index`; of the part after the last one: the number of slips.
pub fn part_start(index: u32, parts: u32, count: u32) -> u64 {
    u64::from(index) * u64::from(count) / u64::from(parts)
}

/// A key as reports show it.
pub fn shown(key: &Key) -> String {
    format!("{} / {}", key.pk, key.sk)
}
