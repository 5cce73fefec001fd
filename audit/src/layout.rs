//! A packet's layout in the table, computed independently, and the format of a key in reports.

use shared::ports::Key;

/// A packet has one part per this many slips, but at most [`PARTS_MAX`] parts.
const SLIPS_PER_PART: u32 = 1_000;
const PARTS_MAX: u32 = 64;

/// A packet's number of parts, from its number of slips.
pub fn part_count(count: u32) -> u32 {
    count.div_ceil(SLIPS_PER_PART).clamp(1, PARTS_MAX)
}

/// The first slip of part `index`. For the index after the last part: the number of slips.
pub fn part_start(index: u32, parts: u32, count: u32) -> u64 {
    u64::from(index) * u64::from(count) / u64::from(parts)
}

/// The format of a key in reports.
pub fn shown(key: &Key) -> String {
    format!("{} / {}", key.pk, key.sk)
}
