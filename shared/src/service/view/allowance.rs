use std::time::Duration;

use tokio::time::Instant;

/// The time in which a large packet's allowance grows by one read: five a second.
const READ_PERIOD: Duration = Duration::from_millis(200);
/// The most that an allowance grows to, in reads.
const READS_SAVED: u32 = 64;

/// How many groups of a large packet may be read now: it grows with time, up to a bound.
#[derive(Debug, Default)]
pub struct Allowance {
    /// When all that was taken has grown again.
    full_at: Option<Instant>,
}

impl Allowance {
    /// Takes up to `most` reads. Returns how many.
    pub fn take(&mut self, most: usize, now: Instant) -> usize {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let missing = full_at.duration_since(now).as_millis().div_ceil(READ_PERIOD.as_millis());
        let left = READS_SAVED.saturating_sub(u32::try_from(missing).unwrap_or(READS_SAVED));
        let taken = left.min(u32::try_from(most).unwrap_or(READS_SAVED));
        self.full_at = Some(full_at + READ_PERIOD * taken);
        taken as usize
    }
}
