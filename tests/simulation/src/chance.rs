use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use shared::ports::Entropy;

/// The only source of randomness in a run, so the same seed gives the same run.
#[derive(Debug)]
pub struct Chance(Mutex<ChaCha8Rng>);

impl Chance {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }

    /// True `per_mille` times in a thousand.
    pub fn happens(&self, per_mille: u32) -> bool {
        self.between(1..=1_000) <= per_mille
    }

    /// A number from the range.
    pub fn between(&self, range: RangeInclusive<u32>) -> u32 {
        self.0.lock().unwrap().random_range(range)
    }

    /// A duration from the range, in milliseconds.
    pub fn millis(&self, range: RangeInclusive<u32>) -> Duration {
        Duration::from_millis(self.between(range).into())
    }

    /// One of `choices`.
    pub fn pick<V: Copy>(&self, choices: &[V]) -> V {
        choices[self.0.lock().unwrap().random_range(0..choices.len())]
    }
}

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap().fill_bytes(bytes);
    }
}
