//! The goals: figures of one run, most of them ratios, and their bounds.

use serde::Serialize;

use crate::cell::Cell;

/// A goal and the value that a run reached.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// What is measured, for example one figure ÷ another.
    pub name: String,
    /// The bound.
    pub goal: Goal,
    /// What was measured.
    pub value: f64,
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
        Self { name: name.into(), goal, value, met: goal.is_met_by(value) }
    }
}

/// A goal that divides a figure of one cell by the same figure of another.
struct Comparison {
    name: &'static str,
    workload: &'static str,
    ours: &'static str,
    theirs: &'static str,
    figure: fn(&Cell) -> f64,
    goal: Goal,
}

const fn per_s(cell: &Cell) -> f64 {
    cell.per_s.median
}

const fn cpu(cell: &Cell) -> f64 {
    cell.redis_cpu_us
}

const COLLECTED: &str = "ours, collected, 1000 under way";
const LUA_QUEUE: &str = "lua-queue";
const LUA_QUEUE_PIPELINED: &str = "lua-queue pipelined, 1000 under way";

const COMPARISONS: [Comparison; 12] = [
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue as published",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE,
        figure: per_s,
        goal: Goal::AtLeast(5.0),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue pipelined, 1,000 under way",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE_PIPELINED,
        figure: per_s,
        goal: Goal::AtLeast(1.8),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ lua-queue pipelined, 20 under way",
        workload: "A",
        ours: "ours, collected, 20 under way",
        theirs: "lua-queue pipelined, 20 under way",
        figure: per_s,
        goal: Goal::AtLeast(1.3),
    },
    Comparison {
        name: "A: grabs/s, collected ÷ the raw script",
        workload: "A",
        ours: COLLECTED,
        theirs: "ours, the raw script with 64 users a call",
        figure: per_s,
        goal: Goal::AtLeast(0.6),
    },
    Comparison {
        name: "A: Redis CPU per grab, collected ÷ lua-queue pipelined",
        workload: "A",
        ours: COLLECTED,
        theirs: LUA_QUEUE_PIPELINED,
        figure: cpu,
        goal: Goal::AtMost(0.4),
    },
    Comparison {
        name: "A: Redis CPU per grab, one user a call ÷ lua-queue pipelined",
        workload: "A",
        ours: "ours, one user a call, 1000 under way",
        theirs: LUA_QUEUE_PIPELINED,
        figure: cpu,
        goal: Goal::AtMost(1.1),
    },
    Comparison {
        name: "B: grabs/s, collected ÷ lock-counter as published",
        workload: "B",
        ours: "ours, collected, 10000 under way",
        theirs: "lock-counter",
        figure: per_s,
        goal: Goal::AtLeast(10.0),
    },
    Comparison {
        name: "B: grabs/s, collected ÷ lua-queue as published",
        workload: "B",
        ours: "ours, collected, 10000 under way",
        theirs: LUA_QUEUE,
        figure: per_s,
        goal: Goal::AtLeast(5.0),
    },
    Comparison {
        name: "C: grabs/s, collected ÷ lua-queue as published",
        workload: "C",
        ours: COLLECTED,
        theirs: LUA_QUEUE,
        figure: per_s,
        goal: Goal::AtLeast(3.0),
    },
    Comparison {
        name: "E: requests/s, losers ÷ a constant answer",
        workload: "E",
        ours: "ours, losers",
        theirs: "a constant answer",
        figure: per_s,
        goal: Goal::AtLeast(0.5),
    },
    Comparison {
        name: "B with the ledger: time to the last answer ÷ time of the winners' bare transactions",
        workload: "B",
        ours: "ours, acknowledged by the ledger",
        theirs: "bare claim transactions of the 100 winners",
        figure: rush_took,
        goal: Goal::AtMost(1.5),
    },
    Comparison {
        name: "D: grabs/s, collected ÷ A without repeats",
        workload: "D",
        ours: COLLECTED,
        theirs: COLLECTED,
        figure: per_s,
        goal: Goal::AtLeast(1.0),
    },
];

/// Median seconds of a rush.
const fn rush_took(cell: &Cell) -> f64 {
    cell.rush_s
}

/// The goals of these cells. A goal whose cells were not measured is left out.
#[must_use]
pub fn of(cells: &[Cell]) -> Vec<Ratio> {
    let find =
        |workload: &str, scheme: &str| cells.iter().find(|cell| cell.workload == workload && cell.scheme == scheme);
    let compare = |comparison: &Comparison| {
        let other_workload = if comparison.workload == "D" { "A" } else { comparison.workload };
        let ours = find(comparison.workload, comparison.ours)?;
        let theirs = find(other_workload, comparison.theirs)?;
        let value = (comparison.figure)(ours) / (comparison.figure)(theirs);
        Some(Ratio::new(comparison.name, comparison.goal, value))
    };
    let mut ratios: Vec<Ratio> = COMPARISONS.iter().filter_map(compare).collect();
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
