use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::Rng;

use crate::domain::Timestamp;

/// A source of the time.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// A source of randomness.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes`. They seed packets and make ids, so nobody may predict them.
    fn fill(&self, bytes: &mut [u8]);

    /// Sixteen random bytes.
    fn bytes16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }

    /// A random part of `whole`, at most all of it.
    fn part_of(&self, whole: Duration) -> Duration {
        let mut bytes = [0; 2];
        self.fill(&mut bytes);
        whole * u32::from(u16::from_le_bytes(bytes)) / u32::from(u16::MAX)
    }

    /// A random pause, at least half of `pause` and at most all of it, so that callers that failed together do not return together.
    fn jitter(&self, pause: Duration) -> Duration {
        pause / 2 + self.part_of(pause / 2)
    }
}

/// The machine's clock and the operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Entropy for System {
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}
