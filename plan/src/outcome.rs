//! What became of a rush.

use serde::Serialize;

use crate::station::Nanos;

/// The last answer that a user gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A slip.
    Slip,
    /// No slip is left.
    SoldOut,
    /// 429 from API Gateway at each try.
    TooManyRequests,
    /// 503 at the last try.
    Unavailable,
}

impl Answer {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Slip, Self::SoldOut, Self::TooManyRequests, Self::Unavailable];
}

/// What can refuse a try.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The grab route of API Gateway.
    GrabRate,
    /// API Gateway's rate of the account.
    ApiRate,
    /// Lambda's requests a second for the executions that are allowed.
    Requests,
    /// Lambda's ramp.
    Ramp,
    /// Lambda's executions at once.
    Concurrency,
    /// A shard of Redis, which did not answer in time.
    Redis,
    /// The table's write and read units.
    Table,
}

impl Limit {
    /// All of them, in the order of the way.
    pub const ALL: [Self; 7] =
        [Self::GrabRate, Self::ApiRate, Self::Requests, Self::Ramp, Self::Concurrency, Self::Redis, Self::Table];
}

/// What became of a rush.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Users by their last answer.
    #[serde(skip)]
    pub answers: [u64; 4],
    /// Microseconds of each user from their first try to the last answer, by answer, in order.
    #[serde(skip)]
    pub micros: [Vec<u32>; 4],
    /// Tries that each limit refused, in the order of [`Limit::ALL`].
    #[serde(skip)]
    pub refused: [u64; 7],
    /// Tries of all clients.
    pub tries: u64,
    /// Tries that API Gateway let pass.
    pub accepted: u64,
    /// Calls of the function.
    pub invocations: u64,
    /// Executions that had to start.
    pub cold_starts: u64,
    /// Executions at once, at most.
    pub executions: u64,
    /// Calls of Redis.
    pub redis_calls: u64,
    /// The share of the busiest second in which the busiest shard's core worked.
    pub redis_busiest: f64,
    /// Slips that somebody has in the ledger.
    pub committed: u64,
    /// Slips that Redis holds for a user whom the ledger did not take in time: settle commits them.
    pub held: u64,
    /// Write units of the busiest second.
    pub write_units: f64,
    /// Claim items that were read for losers.
    pub claim_reads: u64,
    /// Those of the busiest second: each takes a read unit.
    pub read_units: f64,
}

impl Outcome {
    /// Users with a last answer.
    #[must_use]
    pub fn users(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// Milliseconds within which this share of the users with this answer had it. `None` if nobody has it.
    #[must_use]
    pub fn quantile_ms(&self, answer: Answer, share: f64) -> Option<f64> {
        let micros = &self.micros[answer as usize];
        let place = (share * micros.len() as f64).ceil() as usize;
        micros.get(place.clamp(1, micros.len().max(1)) - 1).map(|micros| f64::from(*micros) / 1e3)
    }

    /// Tries that this limit refused.
    #[must_use]
    pub const fn refused_by(&self, limit: Limit) -> u64 {
        self.refused[limit as usize]
    }

    /// The limit that refused most tries. `None` if nothing refused any.
    #[must_use]
    pub fn binds(&self) -> Option<Limit> {
        let most = Limit::ALL.into_iter().rev().max_by_key(|limit| self.refused_by(*limit))?;
        (self.refused_by(most) > 0).then_some(most)
    }

    /// Whether every user was answered with a slip or that none is left.
    #[must_use]
    pub fn all_served(&self) -> bool {
        self.served() == self.users()
    }

    /// Users who were answered with a slip or that none is left.
    #[must_use]
    pub const fn served(&self) -> u64 {
        self.answers[Answer::Slip as usize] + self.answers[Answer::SoldOut as usize]
    }

    pub(crate) fn answer(&mut self, answer: Answer, first: Nanos, at: Nanos) {
        self.answers[answer as usize] += 1;
        self.micros[answer as usize].push(u32::try_from((at - first) / 1_000).unwrap_or(u32::MAX));
    }

    pub(crate) fn finish(&mut self) {
        self.micros.iter_mut().for_each(|micros| micros.sort_unstable());
    }
}
