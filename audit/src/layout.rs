//! A packet's layout in the table, computed independently, and the format of a key in reports.

use shared::ports::Key;

/// The first slip of part `index`. For the index after the last part: the number of slips.
pub fn part_start(index: u32, parts: u32, count: u32) -> u64 {
    u64::from(index) * u64::from(count) / u64::from(parts)
}

/// The format of a key in reports.
pub fn shown(key: &Key) -> String {
    format!("{} / {}", key.pk, key.sk)
}
