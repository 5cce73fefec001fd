//! What a sandbox has beyond the local stack: a hot store inside the process, a clock that tests move, randomness by seed, and
//! faults on purpose.

mod clock;
mod faults;
mod seeded;
mod server;

use std::sync::Arc;
use std::time::Duration;

use shared::memory::{Keyspace, MemoryServer};
use shared::ports::{Entropy, System};
use shared::wiring::Environment;

pub use clock::MovableClock;
pub use faults::{Dice, End, Fate, Faults, Rule};
pub use seeded::Seeded;
pub use server::HotServer;

/// How far a sandbox's clock can be moved at once.
pub const ADVANCE_MAX: Duration = Duration::from_hours(366 * 24);

/// A sandbox.
#[derive(Debug)]
pub struct Sandbox {
    /// Its clock.
    pub clock: Arc<MovableClock>,
    /// What goes wrong.
    pub dice: Dice,
    entropy: Option<Arc<Seeded>>,
    redis: Arc<MemoryServer>,
}

impl Sandbox {
    /// An empty one. With a seed of everything random, the clock stands still between requests.
    #[must_use]
    pub fn new(seed: Option<u64>, faults: Faults) -> Self {
        let clock = Arc::new(MovableClock::new(seed.is_some()));
        let redis = Arc::new(MemoryServer::new(Arc::clone(&clock) as _));
        Self { clock, dice: Dice::new(faults, seed), entropy: seed.map(Seeded::new).map(Arc::new), redis }
    }

    /// Whether its answers are the same each time.
    #[must_use]
    pub const fn is_seeded(&self) -> bool {
        self.entropy.is_some()
    }

    /// Its clock and randomness.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let entropy: Option<Arc<dyn Entropy>> = self.entropy.clone().map(|seeded| seeded as _);
        Environment { clock: Arc::clone(&self.clock) as _, entropy: entropy.unwrap_or_else(|| Arc::new(System)) }
    }

    /// Its hot store's server.
    #[must_use]
    pub fn server(&self) -> HotServer {
        HotServer::InProcess(Arc::clone(&self.redis))
    }

    /// A request begins. With a seed the clock goes on by a millisecond, and gives the request its name.
    #[must_use]
    pub fn begin(&self) -> Option<String> {
        self.is_seeded().then(|| format!("{:x}-0", self.clock.tick().ms()))
    }

    /// Forgets all it had, and starts its clock, its randomness and its faults anew.
    pub fn reset(&self) {
        self.redis.restore(&Keyspace::default());
        self.clock.reset();
        self.dice.reset();
        if let Some(seeded) = &self.entropy {
            seeded.reset();
        }
    }
}
