//! A rush, and the times of its steps.

mod packet;
mod pool;
mod simulation;

use crate::PlanError;
use crate::cost::Costs;
use crate::inputs::Inputs;
use crate::outcome::Outcome;
use crate::station::{Nanos, SECOND, millis};

use simulation::Simulation;

/// A rush on one packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rush {
    /// Users, each of whom grabs once.
    pub users: u32,
    /// Nanoseconds within which they come, at random.
    pub within: Nanos,
    /// Slips of the packet, 1 to 100,000.
    pub slips: u32,
    /// The seed of all that is random.
    pub seed: u64,
}

impl Rush {
    const USERS_MOST: u32 = 20_000_000;
    const SLIPS_MOST: u32 = 100_000;

    /// A rush.
    pub const fn new(users: u32, within: std::time::Duration, slips: u32, seed: u64) -> Result<Self, PlanError> {
        if users == 0 || users > Self::USERS_MOST {
            return Err(PlanError::BadRush("expected 1 to 20,000,000 users"));
        }
        if slips == 0 || slips > Self::SLIPS_MOST {
            return Err(PlanError::BadRush("expected 1 to 100,000 slips"));
        }
        if within.as_secs() >= 86_400 {
            return Err(PlanError::BadRush("expected users to come within a day"));
        }
        Ok(Self { users, within: within.as_nanos() as Nanos, slips, seed })
    }

    /// The parts of its packet.
    #[must_use]
    pub fn parts(&self) -> u32 {
        packet::part_count(self.slips)
    }

    /// Users a second on average. All of them, if they come within less than a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        f64::from(self.users) / (self.within as f64 / SECOND as f64).max(1.0)
    }
}

/// How long each step takes if nobody is in the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Nanoseconds of a shard's core for a call that holds a slip.
    pub win: Nanos,
    /// The same for a call that finds none.
    pub lose: Nanos,
    /// The same for the call that reconciles a claim.
    pub reconcile: Nanos,
    /// Nanoseconds of a losing call of the function, with one round trip to Redis.
    pub loser: Nanos,
    /// Nanoseconds of a winning call.
    pub winner: Nanos,
    /// Nanoseconds that Redis takes longer for a write that waits for a replica.
    pub sync: Nanos,
    /// Write units of a claim.
    pub claim_units: f64,
}

impl Times {
    /// The scripts' times from the inputs, the functions' from the list of costs.
    #[must_use]
    pub fn of(inputs: &Inputs, costs: &Costs) -> Self {
        let micros = |us: f64| millis(us / 1e3);
        Self {
            win: micros(inputs.win_us),
            lose: micros(inputs.lose_us),
            reconcile: micros(inputs.reconcile_us),
            loser: millis(costs.work("loser-ms")),
            winner: millis(costs.work("winner-ms")),
            sync: millis(inputs.redis_sync * costs.work("sync-ms")),
            claim_units: costs.work("winner-writes"),
        }
    }
}

/// Follows a rush to the last answer.
#[must_use]
pub fn simulate(inputs: &Inputs, times: &Times, rush: &Rush) -> Outcome {
    Simulation::new(inputs, times, rush).run()
}
