//! When a delivery is tried again.

use std::time::Duration;

/// The pause after the first try. It doubles with each try, up to [`PAUSE_MOST`].
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MOST: Duration = Duration::from_hours(1);
/// How often an event is received before it becomes a dead letter. The pauses between that many tries sum to a day and a little
/// more; the queue's `maxReceiveCount` is this number.
pub const RECEIVES_MAX: u32 = 34;

/// The pause after try number `attempt` of an event, the first of which is 1. It is up to a quarter more than its base. Events that
/// failed together have different pauses, so that they do not come back together.
pub fn pause(attempt: u32, id: &str) -> Duration {
    let base = PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(PAUSE_MOST);
    let hash = id.bytes().fold(attempt, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    base + base / 4 * (hash % 256) / 256
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
