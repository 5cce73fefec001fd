//! Many runs at once.

use std::ops::Range;
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

/// Runs all `seeds` on `threads` threads, and calls `progress` after each. Ends early once that returns true.
///
/// # Panics
/// If a run panics.
pub fn run_all(
    seeds: Range<u64>,
    mutant: Option<Mutant>,
    threads: usize,
    mut progress: impl FnMut(&Totals) -> bool,
) -> Totals {
    let mut totals = Totals::default();
    for_each_seed(
        seeds,
        threads,
        |seed| run(seed, mutant, false),
        |seed, outcome| {
            totals.add(seed, outcome);
            progress(&totals)
        },
    );
    totals.failed.sort_by_key(|(seed, _)| *seed);
    totals
}

/// Does `work` for each of `seeds` on `threads` threads, and gives each result to `add`. Ends early once that returns true.
///
/// # Panics
/// If `work` panics.
pub fn for_each_seed<V: Send>(
    seeds: Range<u64>,
    threads: usize,
    work: impl Fn(u64) -> V + Sync,
    mut add: impl FnMut(u64, V) -> bool,
) {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    thread::scope(|scope| {
        let (results, done) = mpsc::channel();
        for _ in 0..threads {
            let results = results.clone();
            let (next, stop, work) = (&next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || results.send((seed, work(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (seed, result) in done {
            if add(seed, result) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}
