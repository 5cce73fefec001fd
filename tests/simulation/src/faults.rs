//! The faults of a run, and the source of all its randomness.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use clap::ValueEnum;
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

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub enum Fault {
    /// A read of the table fails.
    ReadLost,
    /// The table is too busy for some items of a batch.
    ReadThrottled,
    /// A transaction never reaches the table; the caller can't know.
    RequestLost,
    /// A transaction is executed, but its answer is lost.
    ReplyLost,
    /// A transaction is executed long after its caller has timed out.
    Late,
    /// A transaction is cancelled because another one seems to run on one of its items.
    Conflict,
    /// A transaction is cancelled because it is throttled; the reasons say so.
    Throttled,
    /// A transaction fails a condition; its other reasons are conflicts and throttling.
    Mixed,
    /// A transaction fails a condition; the reasons do not contain the existing items.
    Bare,
    /// The transaction's token is said to be spent, whether or not the transaction was executed.
    TokenSpent,
    /// The index shows an older state.
    StaleIndex,
    /// A script never reaches the hot store; the caller can't know.
    HotRequestLost,
    /// A script is executed, but its answer is lost.
    HotReplyLost,
    /// A script is executed long after its caller has timed out, perhaps on another primary.
    HotLate,
    /// A script is executed twice; the second time at once or long after.
    HotTwice,
    /// The hot store names another slip than the one that it holds.
    Lie,
    /// A message takes seconds.
    Slow,
    /// A caller goes away in the middle of a call.
    Dropped,
    /// A process is killed.
    Killed,
    /// A job is started twice.
    Doubled,
    /// The hot store, or one node of it, loses everything.
    Wiped,
    /// The hot store, or one node of it, goes back to an older state.
    RolledBack,
    /// Two primaries take writes, until one of them wins.
    Split,
}

impl Fault {
    const COUNT: usize = Self::Split as usize + 1;

    /// Whether the hot store loses or falsifies data that it has acknowledged.
    pub const fn loses(self) -> bool {
        matches!(self, Self::Wiped | Self::RolledBack | Self::Split | Self::Lie)
    }
}

/// How often each fault strikes, per mille of its opportunities.
#[derive(Clone, Debug, Default)]
pub struct Rates([u32; Fault::COUNT]);

impl Rates {
    /// The rates of a run: no faults, one kind only, or a mixture.
    pub fn draw(chance: &Chance) -> Self {
        let mut rates = Self::default();
        match chance.between(0..=9) {
            0 => {}
            1..=3 => rates.set(chance.pick(Fault::value_variants()), chance.between(50..=400)),
            _ => {
                let most = chance.pick(&[20, 60, 150, 300]);
                for &fault in Fault::value_variants() {
                    if chance.happens(400) {
                        rates.set(fault, chance.between(2..=most));
                    }
                }
                if chance.happens(300) {
                    rates.lossless();
                }
            }
        }
        rates
    }

    fn lossless(&mut self) {
        for fault in Fault::value_variants().iter().filter(|fault| fault.loses()) {
            self.set(*fault, 0);
        }
    }

    /// The rate of `fault`, per mille.
    pub const fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }

    /// Whether no fault strikes.
    pub fn is_quiet(&self) -> bool {
        self.0.iter().all(|rate| *rate == 0)
    }

    const fn set(&mut self, fault: Fault, per_mille: u32) {
        self.0[fault as usize] = per_mille;
    }
}

/// How often each fault has struck.
#[derive(Clone, Debug, Default)]
pub struct Struck([u64; Fault::COUNT]);

impl Struck {
    /// Counts one more `fault`.
    pub const fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// How often `fault` has struck.
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}
