//! Randomness that a seed repeats.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// A source of randomness for one kind of fault. Its draws follow from the run's seed and its own name, and so do not
/// depend on the draws of others.
#[derive(Debug)]
pub struct Dice(Mutex<StdRng>);

impl Dice {
    /// The dice of `name` in the run with this seed.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: the same on every machine and in every version.
        let hash = name
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(Mutex::new(StdRng::seed_from_u64(hash)))
    }

    /// True `times` times in `of`.
    pub fn happens(&self, times: u32, of: u32) -> bool {
        self.lock().random_ratio(times, of)
    }

    /// A number from `range`.
    pub fn number(&self, range: Range<u32>) -> u32 {
        self.lock().random_range(range)
    }

    /// A duration from `range`, in milliseconds.
    pub fn time(&self, range: Range<u32>) -> Duration {
        Duration::from_millis(self.number(range).into())
    }

    /// One of `choices`; `None` if there are none.
    pub fn pick<'a, T>(&self, choices: &'a [T]) -> Option<&'a T> {
        choices.choose(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, StdRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
