//! When a delivery is tried again.

use std::time::{Duration, SystemTime};

use shared::domain::Timestamp;

/// The pause after the first try. It doubles with each try, up to [`PAUSE_MOST`].
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MOST: Duration = Duration::from_hours(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_tried_for_a_day() {
        let day = Duration::from_hours(24);
        for id in ["a", "evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7"] {
            let pauses: Vec<Duration> = (1..RECEIVES_MAX).map(|attempt| pause(attempt, id)).collect();
            let sum: Duration = pauses.iter().sum();
            assert!(sum >= day && sum < day * 3 / 2, "{sum:?}");
            assert!(sum.saturating_sub(pauses[pauses.len() - 1]) < day * 5 / 4, "no try more than that needs");
        }
        let bases: Duration = (1..RECEIVES_MAX - 1)
            .map(|n| PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(n - 1)).min(PAUSE_MOST))
            .sum();
        assert!(bases < day, "one try less would not do");
    }

    /// 13. `NOW` is Fri, 20 Nov 2026 13:30:10 GMT.
    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_or_until_a_date() {
        let now = Timestamp::from_ms(1_795_181_410_000);
        for (header, seconds) in [
            ("1", Some(1)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("007", Some(7)),
            ("3600", Some(3600)),
            ("3601", Some(3600)),
            ("86400", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Fri, 20 Nov 2026 13:31:10 GMT", Some(60)),
            ("Fri, 20 Nov 2026 14:30:10 GMT", Some(3600)),
            ("Sat, 21 Nov 2026 13:30:10 GMT", Some(3600)),
            ("Friday, 20-Nov-26 13:30:15 GMT", Some(5)),
            ("Fri Nov 20 13:30:15 2026", Some(5)),
            ("Fri, 20 Nov 2026 13:30:10 GMT", None),
            ("Fri, 20 Nov 2026 13:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("0", None),
            ("", None),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("1e3", None),
            ("5 s", None),
            ("5, 6", None),
            ("soon", None),
            ("１２", None),
            ("2026-11-20T13:31:10Z", None),
            ("Fri, 32 Nov 2026 13:31:10 GMT", None),
        ] {
            assert_eq!(retry_after(header, now), seconds.map(Duration::from_secs), "{header}");
        }
    }

    #[test]
    fn pauses_grow_to_an_hour_and_differ_between_events() {
        let pauses = [1, 2, 3, 11, 30, u32::MAX].map(|attempt| pause(attempt, "a").as_secs());
        for (pause, base) in pauses.into_iter().zip([5, 10, 20, 3600, 3600, 3600]) {
            assert!((base..=base * 5 / 4).contains(&pause), "{pause} {base}");
        }
        let different: std::collections::HashSet<Duration> = (0..50).map(|n| pause(9, &format!("evt_{n}"))).collect();
        assert!(different.len() > 25, "{different:?}");
    }
}
