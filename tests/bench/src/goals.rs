//! The goals: figures of one run, most of them ratios, and their bounds.

use serde::Serialize;

use crate::cell::{Cell, RoundFigures, Spread};

/// A goal and the value that a run reached.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What is measured, for example one figure ÷ another.
    pub name: String,
    /// The bound.
    pub goal: Goal,
    /// What was measured; the median, if there are several values.
    pub value: f64,
    /// The least and the greatest value, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// Whether it is within the bound.
    pub met: bool,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least.
    AtLeast(f64),
    /// At most.
    AtMost(f64),
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

impl Ratio {
    /// A value beside its bound.
    #[must_use]
    pub fn new(name: impl Into<String>, goal: Goal, value: f64) -> Self {
        Self { name: name.into(), goal, value, range: None, met: goal.is_met_by(value) }
    }

    /// The median of several values beside its bound.
    #[must_use]
    pub fn of_several(name: impl Into<String>, goal: Goal, values: Spread) -> Self {
        Self { range: Some((values.min, values.max)), ..Self::new(name, goal, values.median) }
    }
}

/// A goal that divides a figure of one cell by the same figure of another.
struct Comparison {
    name: &'static str,
    workload: &'static str,
    ours: &'static str,
    theirs: &'static str,
    figure: Figure,
    goal: Goal,
}

/// A figure of a cell.
#[derive(Clone, Copy)]
enum Figure {
    /// Of each round.
    Round(fn(&RoundFigures) -> f64),
    /// The median seconds of a rush.
    Rush,
}

impl Figure {
    /// This figure of a cell ÷ that of another.
    fn ratio(self, ours: &Cell, theirs: &Cell) -> Spread {
        match self {
            Self::Round(figure) => {
                let pairs = ours.rounds.iter().zip(&theirs.rounds);
                Spread::of(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
            }
            Self::Rush => Spread::of(vec![ours.rush_s / theirs.rush_s]),
        }
    }
}

const PER_S: Figure = Figure::Round(|round| round.per_s);
const CPU: Figure = Figure::Round(|round| round.redis_cpu_us);

const COLLECTED: &str = "ours, collected, 1000 under way";
const LUA_QUEUE: &str = "lua-queue";
const LUA_QUEUE_PIPELINED: &str = "lua-queue pipelined, 1000 under way";

const COMPARISONS: [Comparison; 11] = [
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue as published",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE,
        figure: PER_S,
        goal: Goal::AtLeast(5.0),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue pipelined, 1,000 under way",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE_PIPELINED,
        figure: PER_S,
        goal: Goal::AtLeast(1.8),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue pipelined, 20 under way",
        workload: "A",
        ours: "ours, collected, 20 under way",
        theirs: "lua-queue pipelined, 20 under way",
        figure: PER_S,
        goal: Goal::AtLeast(1.4),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ the raw script",
        workload: "A",
        ours: COLLECTED,
        theirs: "ours, the raw script with 64 users a call",
        figure: PER_S,
        goal: Goal::AtLeast(0.65),
    },
    Comparison {
        name: "A: Redis CPU per grab, collected ÷ lua-queue pipelined",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE_PIPELINED,
        figure: CPU,
        goal: Goal::AtMost(0.4),
    },
    Comparison {
        name: "B: grabs/s, collected ÷ lock-counter as published",
        workload: "B",
        ours: "ours, collected, 10000 under way",
        theirs: "lock-counter",
        figure: PER_S,
        goal: Goal::AtLeast(10.0),
    },
    Comparison {
        name: "B: grabs/s, collected ÷ lua-queue as published",
        workload: "B",
        ours: "ours, collected, 10000 under way",
        theirs: LUA_QUEUE,
        figure: PER_S,
        goal: Goal::AtLeast(5.0),
    },
    Comparison {
        name: "C: grabs/s, collected ÷ lua-queue as published",
        workload: "C",
        ours: COLLECTED,
        theirs: LUA_QUEUE,
        figure: PER_S,
        goal: Goal::AtLeast(3.0),
    },
    Comparison {
        name: "E: requests/s, losers ÷ a constant answer",
        workload: "E",
        ours: "ours, losers",
        theirs: "a constant answer",
        figure: PER_S,
        goal: Goal::AtLeast(0.5),
    },
    Comparison {
        name: "B with the ledger: time to the last answer ÷ time of the winners' bare transactions",
        workload: "B",
        ours: "ours, acknowledged by the ledger",
        theirs: "bare claim transactions of the 100 winners",
        figure: Figure::Rush,
        goal: Goal::AtMost(1.4),
    },
    Comparison {
        name: "D: grabs/s, collected ÷ A without repeats",
        workload: "D",
        ours: COLLECTED,
        theirs: COLLECTED,
        figure: PER_S,
        goal: Goal::AtLeast(1.0),
    },
];

/// The goals of one user a call, as a Lambda function makes it: each figure ÷ that of lua-queue with the same client.
const ONE_USER: [Comparison; 8] = [
    one_user("A: grabs/s, one user a call ÷ lua-queue pipelined", "A", MANY, PER_S, Goal::AtLeast(0.95)),
    one_user("B: grabs/s, one user a call ÷ lua-queue pipelined", "B", CROWD, PER_S, Goal::AtLeast(0.9)),
    one_user("C: grabs/s, one user a call ÷ lua-queue pipelined", "C", MANY, PER_S, Goal::AtLeast(0.95)),
    one_user("D: grabs/s, one user a call ÷ lua-queue pipelined", "D", MANY, PER_S, Goal::AtLeast(0.95)),
    one_user("A: Redis CPU per grab, one user a call ÷ lua-queue pipelined", "A", MANY, CPU, Goal::AtMost(1.05)),
    one_user("B: Redis CPU per grab, one user a call ÷ lua-queue pipelined", "B", CROWD, CPU, Goal::AtMost(1.15)),
    one_user("C: Redis CPU per grab, one user a call ÷ lua-queue pipelined", "C", MANY, CPU, Goal::AtMost(1.05)),
    one_user("D: Redis CPU per grab, one user a call ÷ lua-queue pipelined", "D", MANY, CPU, Goal::AtMost(1.05)),
];

/// The schemes that [`ONE_USER`] compares, with 1,000 requests in flight.
const MANY: [&str; 2] = ["ours, one user a call, 1000 under way", LUA_QUEUE_PIPELINED];
/// The same with 10,000.
const CROWD: [&str; 2] = ["ours, one user a call, 10000 under way", "lua-queue pipelined, 10000 under way"];

const fn one_user(
    name: &'static str,
    workload: &'static str,
    [ours, theirs]: [&'static str; 2],
    figure: Figure,
    goal: Goal,
) -> Comparison {
    Comparison { name, workload, ours, theirs, figure, goal }
}

/// The goals of these cells. A goal whose cells were not measured is left out.
#[must_use]
pub fn of(cells: &[Cell]) -> Vec<Ratio> {
    let find =
        |workload: &str, scheme: &str| cells.iter().find(|cell| cell.workload == workload && cell.scheme == scheme);
    let compare = |comparison: &Comparison| {
        let other_workload = if comparison.ours == comparison.theirs { "A" } else { comparison.workload };
        let ours = find(comparison.workload, comparison.ours)?;
        let theirs = find(other_workload, comparison.theirs)?;
        let ratio = comparison.figure.ratio(ours, theirs);
        Some(match comparison.figure {
            Figure::Round(_) => Ratio::of_several(comparison.name, comparison.goal, ratio),
            Figure::Rush => Ratio::new(comparison.name, comparison.goal, ratio.median),
        })
    };
    let mut ratios: Vec<Ratio> = COMPARISONS.iter().chain(&ONE_USER).filter_map(compare).collect();
    if let Some(ours) = find("B", "ours, collected, 10000 under way") {
        ratios.push(Ratio::new("B: slips oversold, collected", Goal::AtMost(0.0), count(ours.oversold)));
        ratios.push(Ratio::new("B: Redis calls per request, collected", Goal::AtMost(0.05), ours.redis_calls));
    }
    if let (Some(ours), Some(bare)) = (find("E", "ours, winners"), find("E", "bare claim transactions")) {
        let name = "E: p99 of a winner ÷ p50 of a bare claim transaction";
        ratios.push(Ratio::new(name, Goal::AtMost(3.0), ours.p99_us / bare.p50_us));
    }
    ratios
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
const fn count(count: u64) -> f64 {
    count as f64
}
