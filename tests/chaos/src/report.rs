//! The counts of a run, and what they show in the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shared::crash::POINTS;

/// What is counted, in the order of the report. Each count also has a name of its own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Group {
    /// Workers that died at a crash point.
    KillAtPoint,
    /// Workers that were killed at any line, or could not start.
    OtherEnd,
    /// Harms to Redis that lost acknowledged data, or may have.
    RedisLoss,
    /// Harms to Redis that lost nothing.
    RedisFault,
    /// Requests to `DynamoDB` that met a fault.
    DynamoFault,
    /// Chunks sent to Redis that met a fault.
    ConnectionFault,
    /// Answers to clients, and attempts without one.
    Answer,
    /// What the ledger had in the end, and how it compares with the answers.
    Ledger,
}

/// The counts of a run, shared by everything that counts.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Report>);

/// Violations that are kept as text; further ones are only counted.
const VIOLATIONS_TOLD: u64 = 100;

impl Tally {
    /// Counts something.
    pub fn count(&self, group: Group, what: &str) {
        self.add(group, what, 1);
    }

    /// Counts something several times.
    pub fn add(&self, group: Group, what: &str, times: u64) {
        *self.lock().counts.entry(group).or_default().entry(what.to_owned()).or_default() += times;
    }

    /// A client's attempt had no answer, and is repeated.
    pub fn retried(&self) {
        self.count(Group::Answer, "an attempt without an answer");
    }

    /// A violation.
    pub fn violated(&self, what: String) {
        let mut report = self.lock();
        report.violations += 1;
        if report.violations <= VIOLATIONS_TOLD {
            eprintln!("VIOLATION: {what}");
            report.violated.push(what);
        }
    }

    /// The report so far.
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    counts: BTreeMap<Group, BTreeMap<String, u64>>,
    /// Number of violations.
    pub violations: u64,
    /// The first violations.
    violated: Vec<String>,
}

impl Report {
    /// How often this was counted.
    pub fn of(&self, group: Group, what: &str) -> u64 {
        self.counts.get(&group).and_then(|counts| counts.get(what)).copied().unwrap_or_default()
    }

    /// How often anything of a group was counted.
    pub fn sum(&self, group: Group) -> u64 {
        self.counts.get(&group).into_iter().flat_map(BTreeMap::values).sum()
    }

    /// Crash points at which no worker died.
    pub fn points_missed(&self) -> Vec<&'static str> {
        POINTS.iter().copied().filter(|point| self.of(Group::KillAtPoint, point) == 0).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, counts) in &self.counts {
            writeln!(f, "{:<48}{:>12}", format!("{group:?}"), self.sum(*group))?;
            for (what, count) in counts {
                writeln!(f, "  {what:<46}{count:>12}")?;
            }
        }
        writeln!(f, "Crash points missed: {:?}", self.points_missed())?;
        writeln!(f, "{} violations", self.violations)?;
        self.violated.iter().try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}
