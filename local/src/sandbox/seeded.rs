use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use shared::ports::{Entropy, System};

/// Randomness that is the same each time, so nothing may depend on nobody knowing it.
#[derive(Debug)]
pub struct Seeded {
    seed: u64,
    random: Mutex<StdRng>,
}

impl Seeded {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, random: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// Starts the sequence again.
    pub fn reset(&self) {
        *self.random.lock().unwrap_or_else(PoisonError::into_inner) = StdRng::seed_from_u64(self.seed);
    }
}

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    /// How long retries pause shows in no answer. How many there are depends on the machine, so they take nothing of the sequence.
    fn jitter(&self, pause: Duration) -> Duration {
        System.jitter(pause)
    }
}
