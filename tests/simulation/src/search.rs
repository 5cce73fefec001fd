//! Many runs at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::faults::Struck;
use crate::history::AnswerCounts;
use crate::mutants::Mutant;
use crate::run::{Outcome, run};

/// The results of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The faults that struck.
    pub struck: Struck,
    /// Store calls that were executed.
    pub operations: u64,
    /// What users were answered.
    pub answers: AnswerCounts,
    /// Seeds of runs that broke a promise, lowest first, each with its first violation.
    pub failed: Vec<(u64, crate::Violation)>,
}

impl Totals {
    fn add(&mut self, seed: u64, mut outcome: Outcome) {
        self.runs += 1;
        self.struck.merge(&outcome.tally.struck);
        self.operations += outcome.tally.operations;
        self.answers.merge(&outcome.answers);
        if !outcome.tally.violations.is_empty() {
            self.failed.push((seed, outcome.tally.violations.remove(0)));
        }
    }
}

/// Runs all `seeds` on `threads` threads, and calls `progress` with the results from time to time. Ends early once
/// `enough` returns true.
///
/// # Panics
/// If a run panics.
pub fn run_all(
    seeds: std::ops::Range<u64>,
    mutant: Option<Mutant>,
    threads: usize,
    mut progress: impl FnMut(&Totals) -> bool,
) -> Totals {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let mut totals = Totals::default();
    thread::scope(|scope| {
        let (outcomes, ran) = mpsc::channel();
        for _ in 0..threads {
            let outcomes = outcomes.clone();
            let (next, stop) = (&next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || outcomes.send((seed, run(seed, mutant, false))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(outcomes);
        for (seed, outcome) in ran {
            totals.add(seed, outcome);
            if progress(&totals) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    totals.failed.sort_by_key(|(seed, _)| *seed);
    totals
}
