//! A cell of the table: one scheme at one workload, in several rounds.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::heat::{Heat, Shares};
use crate::rush::Rush;

/// The minimum, median and maximum of several figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of at least one figure.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let [min, .., max] = figures[..] else {
            let only = figures.first().copied().unwrap_or_default();
            return Self { min: only, median: only, max: only };
        };
        Self { min, median: figures[figures.len() / 2], max }
    }
}

/// A cell.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The workload's name, for example "A".
    pub workload: &'static str,
    /// The scheme's name in the report.
    pub scheme: String,
    /// Answers per second, over the rounds.
    pub per_s: Spread,
    /// Median seconds of a rush, from its beginning to its last answer.
    pub rush_s: f64,
    /// Microseconds within which half of the answers came.
    pub p50_us: f64,
    /// Microseconds within which 99 % of them came.
    pub p99_us: f64,
    /// Microseconds within which 99.9 % of them came.
    pub p999_us: f64,
    /// Redis' processor time per answer, in microseconds: the median of the rounds.
    pub redis_cpu_us: f64,
    /// Round trips to Redis per answer.
    pub redis_calls: f64,
    /// Users with a slip: the minimum of the rushes.
    pub winners: u64,
    /// Slips given out beyond those of the packets: the maximum of the rushes.
    pub oversold: u64,
    /// Users with two slips of one packet: the maximum of the rushes.
    pub double_winners: u64,
    /// Slips that nobody has after all requests: the maximum of the rushes. `None` if no rush came to its end.
    pub left: Option<u64>,
    /// For the charts: latencies in microseconds, each with the share of the answers within it.
    pub latencies: Vec<(f64, f64)>,
    /// The figures of each round. Rounds of the same number ran one after the other, so they are compared with each other.
    #[serde(skip)]
    pub rounds: Vec<RoundFigures>,
}

/// The figures of one round of a cell.
#[derive(Clone, Copy, Debug)]
pub struct RoundFigures {
    /// Answers per second.
    pub per_s: f64,
    /// Redis' processor time per answer, in microseconds.
    pub redis_cpu_us: f64,
}

/// Collects the heats of a cell.
#[derive(Debug)]
pub struct Collector {
    workload: &'static str,
    scheme: String,
    rounds: Vec<Round>,
    rushes: Vec<f64>,
    nanos: Histogram<u64>,
    answers: u64,
    calls: u64,
    shares: Option<Shares>,
}

/// The sums of a round's heats.
#[derive(Debug, Default)]
struct Round {
    answers: u64,
    took: Duration,
    cpu_us: u64,
}

impl Round {
    fn figures(&self) -> RoundFigures {
        RoundFigures {
            per_s: float(self.answers) / self.took.as_secs_f64(),
            redis_cpu_us: float(self.cpu_us) / float(self.answers.max(1)),
        }
    }
}

const NANOS_MOST: u64 = 60_000_000_000;

impl Collector {
    /// An empty collector for one scheme at one workload.
    ///
    /// # Panics
    /// Never: the bounds of its histogram are valid.
    #[must_use]
    pub fn new(workload: &'static str, scheme: &str) -> Self {
        let nanos = Histogram::new_with_bounds(1, NANOS_MOST, 3).expect("valid bounds");
        Self {
            workload,
            scheme: scheme.to_owned(),
            rounds: Vec::new(),
            rushes: Vec::new(),
            nanos,
            answers: 0,
            calls: 0,
            shares: None,
        }
    }

    /// Whether it collects this scheme at this workload.
    #[must_use]
    pub fn is_of(&self, workload: &str, scheme: &str) -> bool {
        self.workload == workload && self.scheme == scheme
    }

    /// Begins a round: the next heats belong to it.
    pub fn begin_round(&mut self) {
        self.rounds.push(Round::default());
    }

    /// The time that the heats of this round took together.
    #[must_use]
    pub fn round_took(&self) -> Duration {
        self.rounds.last().map_or(Duration::ZERO, |round| round.took)
    }

    /// Adds a heat to the round. `rush` is what its design met.
    pub fn add(&mut self, rush: &Rush, heat: &Heat) {
        if let Some(round) = self.rounds.last_mut() {
            round.answers += heat.answers.len() as u64;
            round.took += heat.elapsed;
            round.cpu_us += heat.cpu_us;
        }
        self.rushes.push(heat.elapsed.as_secs_f64());
        for answer in &heat.answers {
            self.nanos.saturating_record(answer.nanos);
        }
        self.answers += heat.answers.len() as u64;
        self.calls += heat.calls;
        let now = heat.shares(rush);
        self.shares = Some(match self.shares {
            None => now,
            Some(before) => Shares {
                winners: before.winners.min(now.winners),
                oversold: before.oversold.max(now.oversold),
                double_winners: before.double_winners.max(now.double_winners),
                left: before.left.max(now.left),
            },
        });
    }

    /// The cell of all heats so far.
    #[must_use]
    pub fn cell(&self) -> Cell {
        let micros = |nanos: u64| float(nanos) / 1e3;
        let shares = self.shares.unwrap_or_default();
        let rounds: Vec<RoundFigures> = self.rounds.iter().map(Round::figures).collect();
        let spread = |figure: fn(&RoundFigures) -> f64| Spread::of(rounds.iter().map(figure).collect());
        Cell {
            workload: self.workload,
            scheme: self.scheme.clone(),
            per_s: spread(|round| round.per_s),
            rush_s: Spread::of(self.rushes.clone()).median,
            p50_us: micros(self.nanos.value_at_quantile(0.5)),
            p99_us: micros(self.nanos.value_at_quantile(0.99)),
            p999_us: micros(self.nanos.value_at_quantile(0.999)),
            redis_cpu_us: spread(|round| round.redis_cpu_us).median,
            redis_calls: float(self.calls) / float(self.answers.max(1)),
            winners: shares.winners,
            oversold: shares.oversold,
            double_winners: shares.double_winners,
            left: shares.left,
            latencies: (self.nanos.iter_quantiles(5))
                .map(|step| (micros(step.value_iterated_to()), step.quantile()))
                .collect(),
            rounds,
        }
    }
}

/// A count as a number that can be divided.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
#[must_use]
pub const fn float(count: u64) -> f64 {
    count as f64
}
