//! What a sandbox has beyond the local stack: a hot store inside the process, a clock that tests move, randomness by seed, and
//! faults on purpose.

mod clock;
mod faults;
mod seeded;
mod server;

use std::sync::Arc;
use std::time::Duration;

use shared::domain::Timestamp;
use shared::memory::{Keyspace, MemoryServer};
use shared::ports::{Clock as _, Entropy, System};
use shared::wiring::Environment;

pub use clock::MovableClock;
pub use faults::{End, Fate, Faults, Rule};
pub use seeded::Seeded;
pub use server::HotServer;

/// How far a sandbox's clock can be moved at once.
pub const ADVANCE_MAX: Duration = Duration::from_hours(366 * 24);

/// What is asked of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// The seed of everything random. With it the clock stands still between requests.
    pub seed: Option<u64>,
    /// What goes wrong.
    pub faults: Faults,
}

/// A sandbox.
#[derive(Debug)]
pub struct Sandbox {
    clock: Arc<MovableClock>,
    entropy: Option<Arc<Seeded>>,
    faults: faults::Dice,
    redis: Arc<MemoryServer>,
}

impl Sandbox {
    /// An empty one.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let Settings { seed, faults } = settings;
        let clock = Arc::new(MovableClock::new(seed.is_some()));
        let redis = Arc::new(MemoryServer::new(Arc::clone(&clock) as _));
        Self { clock, entropy: seed.map(Seeded::new).map(Arc::new), faults: faults::Dice::new(faults, seed), redis }
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

    /// What becomes of the next request, which is for this route, and by or for this user.
    #[must_use]
    pub fn fate(&self, route: &str, user: Option<&str>) -> Fate {
        self.faults.fate(route, user)
    }

    /// Which requests go wrong, and how.
    #[must_use]
    pub fn faults(&self) -> Vec<Rule> {
        self.faults.rules()
    }

    /// Replaces that.
    pub fn set_faults(&self, rules: Vec<Rule>) {
        self.faults.set(rules);
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Forgets all it had, and starts its clock, its randomness and its faults anew.
    pub fn reset(&self) {
        self.redis.restore(&Keyspace::default());
        self.clock.reset();
        self.faults.reset();
        if let Some(seeded) = &self.entropy {
            seeded.reset();
        }
    }
}
