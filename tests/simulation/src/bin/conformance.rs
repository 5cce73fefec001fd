//! `conformance`: replays runs of the simulation in the model, step by step.

use std::ops::Range;
use std::process::ExitCode;

use clap::Parser;
use simulation::Mutant;
use simulation::conformance::{SKIPPED_MAX, conform, conform_all};

/// Prints the count every so many seeds.
const PROGRESS_EVERY: u64 = 1_000;
/// So many mutants alter a step at the least.
const REJECTED_MIN: usize = 6;

#[derive(Debug, Parser)]
#[command(about = "Replays runs of the simulation in the model")]
struct Options {
    /// How many seeds to replay.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Replays one seed, and prints its steps.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs this mutant: its number in the list of `--mutants`.
    #[arg(long)]
    mutant: Option<usize>,
    /// Searches for a seed of each mutant that the model rejects.
    #[arg(long)]
    mutants: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mutant = options.mutant.and_then(|number| Mutant::ALL.get(number.wrapping_sub(1)).copied());
    let is_good = match options {
        Options { mutants: true, seeds, .. } => reject_mutants(seeds, threads),
        Options { seed: Some(seed), .. } => replay(seed, mutant),
        Options { from, seeds, .. } => replay_all(from..from + seeds, mutant, threads),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, mutant: Option<Mutant>) -> bool {
    let verdict = conform(seed, mutant, true);
    println!("{} steps", verdict.steps);
    verdict.missing.iter().for_each(|missing| println!("left out: {missing}"));
    verdict.difference.iter().for_each(|difference| println!("{difference}"));
    verdict.difference.is_none()
}

fn replay_all(seeds: Range<u64>, mutant: Option<Mutant>, threads: usize) -> bool {
    let mut rejected = 0;
    let verdicts = conform_all(seeds, mutant, threads, |verdicts| {
        for (seed, difference) in verdicts.rejected.iter().skip(rejected) {
            println!("seed {seed}: {difference}\n  make conformance SEED={seed}");
        }
        rejected = verdicts.rejected.len();
        if verdicts.seeds % PROGRESS_EVERY == 0 {
            println!("{} seeds, {rejected} rejected", verdicts.seeds);
        }
        false
    });
    print!("{verdicts}");
    verdicts.rejected.is_empty() && verdicts.skipped() * 100 < verdicts.seeds * SKIPPED_MAX
}

/// Prints for each mutant the first seed that the model rejects.
fn reject_mutants(seeds: u64, threads: usize) -> bool {
    let mut rejected = 0;
    println!("{:>2}  {:<46} {:>9}  how the model differs", "", "mutant", "seed");
    for (number, mutant) in Mutant::ALL.into_iter().enumerate() {
        let verdicts = conform_all(0..seeds, Some(mutant), threads, |verdicts| !verdicts.rejected.is_empty());
        let (seed, what) = match verdicts.rejected.first() {
            Some((seed, difference)) => (seed.to_string(), difference.what.clone()),
            None => ("-".to_owned(), "not rejected".to_owned()),
        };
        rejected += usize::from(!verdicts.rejected.is_empty());
        let what: String = what.lines().next().unwrap_or_default().chars().take(150).collect();
        println!("{:>2}  {:<46} {seed:>9}  {what}", number + 1, mutant.name());
    }
    rejected >= REJECTED_MIN
}
