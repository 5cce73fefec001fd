//! A cell of the table: one scheme at one workload, in several rounds.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::rush::{Heat, Rush};

/// The minimum, median and maximum of several figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of some figures; of none, zeros.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied().unwrap_or_default();
        Self { min: at(0), median: at(figures.len() / 2), max: at(figures.len().saturating_sub(1)) }
    }
}

/// A cell.
#[derive(Debug)]
pub struct Cell {
    /// The workload's name, for example "A".
    pub workload: &'static str,
    /// The scheme's name in the report.
    pub scheme: String,
    /// Slips given out beyond those of the packets: the most in a rush.
    pub oversold: u64,
    /// Users with two slips of one packet: the most in a rush.
    pub double_winners: u64,
    rounds: Vec<Round>,
    nanos: Histogram<u64>,
}

/// The sums of a round's rushes. Rounds of the same number ran one after the other, so they are compared with each other.
#[derive(Debug, Default)]
struct Round {
    answers: u64,
    took: Duration,
    cpu_us: u64,
    calls: u64,
}

impl Round {
    fn per_s(&self) -> f64 {
        self.answers as f64 / self.took.as_secs_f64()
    }

    fn redis_cpu_us(&self) -> f64 {
        self.cpu_us as f64 / self.answers as f64
    }

    fn redis_calls(&self) -> f64 {
        self.calls as f64 / self.answers as f64
    }
}

const NANOS_MAX: u64 = 60_000_000_000;

impl Cell {
    /// An empty cell for one scheme at one workload.
    ///
    /// # Panics
    /// Never: the bounds of its histogram are valid.
    #[must_use]
    pub fn new(workload: &'static str, scheme: &str) -> Self {
        let nanos = Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("valid bounds");
        Self { workload, scheme: scheme.to_owned(), oversold: 0, double_winners: 0, rounds: Vec::new(), nanos }
    }

    /// Begins a round: the next rushes belong to it.
    pub fn begin_round(&mut self) {
        self.rounds.push(Round::default());
    }

    /// The time that the rushes of this round took together.
    #[must_use]
    pub fn round_took(&self) -> Duration {
        self.rounds.last().map_or(Duration::ZERO, |round| round.took)
    }

    /// Adds a run through `rush` to the round.
    pub fn add(&mut self, rush: &Rush, heat: &Heat) {
        if let Some(round) = self.rounds.last_mut() {
            round.answers += heat.answers.len() as u64;
            round.took += heat.elapsed;
            round.cpu_us += heat.cpu_us;
            round.calls += heat.calls;
        }
        for answer in &heat.answers {
            self.nanos.saturating_record(answer.nanos);
        }
        let mistakes = heat.mistakes(rush);
        self.oversold = self.oversold.max(mistakes.oversold);
        self.double_winners = self.double_winners.max(mistakes.double_winners);
    }

    /// Answers per second.
    #[must_use]
    pub fn per_s(&self) -> Spread {
        Spread::of(self.rounds.iter().map(Round::per_s))
    }

    /// Redis' processor time per answer, in microseconds.
    #[must_use]
    pub fn redis_cpu_us(&self) -> Spread {
        Spread::of(self.rounds.iter().map(Round::redis_cpu_us))
    }

    /// Round trips to Redis per answer.
    #[must_use]
    pub fn redis_calls(&self) -> Spread {
        Spread::of(self.rounds.iter().map(Round::redis_calls))
    }

    /// Its answers per second ÷ those of another cell, round by round.
    #[must_use]
    pub fn speed_beside(&self, other: &Self) -> Spread {
        Spread::of(self.rounds.iter().zip(&other.rounds).map(|(one, other)| one.per_s() / other.per_s()))
    }

    /// Redis' processor time of its answers ÷ that of another cell, round by round.
    #[must_use]
    pub fn cost_beside(&self, other: &Self) -> Spread {
        Spread::of(self.rounds.iter().zip(&other.rounds).map(|(one, other)| one.redis_cpu_us() / other.redis_cpu_us()))
    }

    /// Milliseconds within which this share of the answers came.
    #[must_use]
    pub fn ms_within(&self, share: f64) -> f64 {
        self.nanos.value_at_quantile(share) as f64 / 1e6
    }

    /// Whether it is of this engine.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.scheme.starts_with("ours")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_needs_no_order() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(Spread::of([7.0]), Spread { min: 7.0, median: 7.0, max: 7.0 });
    }
}
