use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shared::domain::Timestamp;
use shared::ports::{Clock, System};

/// Where a clock with a seed begins: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_ms(1_767_225_600_000);

/// A clock that can be moved ahead.
#[derive(Debug)]
pub struct MovableClock {
    /// Whether it stands still unless it is moved. Otherwise it goes with the machine's.
    stands: bool,
    moved_ms: AtomicU64,
}

impl MovableClock {
    /// A clock that was not moved yet.
    pub const fn new(stands: bool) -> Self {
        Self { stands, moved_ms: AtomicU64::new(0) }
    }

    /// Moves it ahead.
    pub fn advance(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves it ahead by a millisecond, and returns the time then, which no other caller gets.
    pub fn tick(&self) -> Timestamp {
        START.after(Duration::from_millis(self.moved_ms.fetch_add(1, Ordering::SeqCst) + 1))
    }

    /// Takes back all moves.
    pub fn reset(&self) {
        self.moved_ms.store(0, Ordering::SeqCst);
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Timestamp {
        let start = if self.stands { START } else { System.now() };
        start.after(Duration::from_millis(self.moved_ms.load(Ordering::SeqCst)))
    }
}
