use std::time::{Duration, Instant, SystemTime};

/// A point in time by two clocks, so that it also counts the time in which Lambda froze the process.
///
/// A frozen function's monotonic clock may stand still while its peers give it up. The wall clock may be set back. The longer of
/// the two times counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreezeAwareInstant {
    monotonic: Instant,
    wall: SystemTime,
}

impl FreezeAwareInstant {
    pub(super) fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.monotonic.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_says_longer_counts() {
        let now = FreezeAwareInstant::now();
        let hour = Duration::from_hours(1);
        let frozen = FreezeAwareInstant { wall: now.wall - hour, ..now };
        assert!(frozen.elapsed() >= hour);
        let set_back = FreezeAwareInstant { wall: now.wall + hour, ..now };
        assert!(set_back.elapsed() < hour);
    }
}
