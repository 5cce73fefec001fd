//! Counts the events of a running run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::report::Report;

/// The counts of a run, shared by everything that counts.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Report>);

/// Violations that are kept as text; further ones are only counted.
const VIOLATIONS_TOLD: u64 = 100;

impl Tally {
    /// A worker died at a crash point.
    pub fn died_at(&self, point: &str) {
        count(&mut self.lock().kills_at_points, point);
    }

    /// A worker was killed at any line.
    pub fn killed(&self) {
        self.lock().kills_at_random += 1;
    }

    /// A worker ended because a store did not answer at its start.
    pub fn ended(&self) {
        self.lock().failed_starts += 1;
    }

    /// A harm to Redis lost acknowledged data, or may have.
    pub fn redis_lost(&self, how: &str) {
        count(&mut self.lock().redis_losses, how);
    }

    /// A harm to Redis lost nothing.
    pub fn redis_harmed(&self, how: &str) {
        count(&mut self.lock().redis_faults, how);
    }

    /// A request to `DynamoDB` met a fault.
    pub fn dynamodb_fault(&self, fault: &str) {
        count(&mut self.lock().dynamodb_faults, fault);
    }

    /// A connection to Redis met a fault.
    pub fn connection_fault(&self, fault: &str) {
        count(&mut self.lock().connection_faults, fault);
    }

    /// A client received an answer, or gave up.
    pub fn answered(&self, what: &str) {
        count(&mut self.lock().answers, what);
    }

    /// A client's attempt had no answer, and was repeated.
    pub fn retried(&self) {
        self.lock().retries += 1;
    }

    /// The time from the end of a loss of the kind `how` to the first good answer to a grab.
    pub fn recovered(&self, how: &str, after: Duration) {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.lock().recovery_ms.entry(how.to_owned()).or_default().push(after_ms);
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

    /// Deaths at each crash point so far.
    pub fn deaths(&self) -> BTreeMap<String, u64> {
        self.lock().kills_at_points.clone()
    }

    /// Changes the counts at the end of a run.
    pub fn update(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.lock());
    }

    /// The report so far.
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
    if let Some(count) = counts.get_mut(what) {
        *count += 1;
    } else {
        counts.insert(what.to_owned(), 1);
    }
}
