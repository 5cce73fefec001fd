//! When a delivery is tried again.

use std::time::{Duration, SystemTime};

use shared::domain::Timestamp;

/// The pause after the first try. It doubles with each try, up to [`PAUSE_MOST`].
pub const PAUSE_FIRST: Duration = Duration::from_secs(5);
pub const PAUSE_MOST: Duration = Duration::from_hours(1);
/// After this time an event that was put off is received again, tried or not. An operator may have enabled the receiver meanwhile, and what
/// is hidden can't be called back.
pub const LOOK_AFTER: Duration = Duration::from_mins(10);
/// How often an event is received before a failed try of it is the last one. The pauses between that many tries sum to a day and a little
/// more. While the receiver must not be called, an event is received without being tried.
pub const RECEIVES_MAX: u32 = 34;

/// The pause after try number `attempt` of an event, the first of which is 1. It is up to a quarter more than its base. Events that
/// failed together have different pauses, so that they do not come back together.
pub fn pause(attempt: u32, id: &str) -> Duration {
    spread(PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(PAUSE_MOST), attempt, id)
}

/// A time from `base` to a quarter more, different for different events and tries.
pub fn spread(base: Duration, attempt: u32, id: &str) -> Duration {
    let hash = id.bytes().fold(attempt, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    base + base / 4 * (hash % 256) / 256
}

/// How long a receiver asks not to be called, by its header `retry-after` at `now`: seconds, or a date. It may ask for up to
/// [`PAUSE_MOST`]. A header that is neither, or a time that is over, asks for nothing.
pub fn retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    let is_number = !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit());
    let asked = if is_number {
        // A number that is too long for one is long enough.
        header.parse().map_or(PAUSE_MOST, Duration::from_secs)
    } else {
        let at = httpdate::parse_http_date(header).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        at.saturating_sub(Duration::from_millis(now.ms()))
    };
    Some(asked.min(PAUSE_MOST)).filter(|asked| !asked.is_zero())
}
