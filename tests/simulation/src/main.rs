//! `simulate`: runs seeds, repeats one, or searches for seeds that find mutants.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use simulation::{Fault, Mutant, Totals, run, run_all};

/// Prints the rate every so many runs.
const PROGRESS_EVERY: u64 = 5_000;

#[derive(Debug, Parser)]
#[command(about = "Runs the use cases over in-memory stores that fail by seed")]
struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Repeats one seed, and prints all events.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs this mutant: its number in the list of `--mutants`.
    #[arg(long)]
    mutant: Option<usize>,
    /// Searches for seeds that find each mutant.
    #[arg(long)]
    mutants: bool,
    /// Threads to run on; by default one per processor.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mutant = options.mutant.and_then(|number| Mutant::ALL.get(number.wrapping_sub(1)).copied());
    match options {
        Options { mutants: true, .. } => find_mutants(options.seeds, threads),
        Options { seed: Some(seed), .. } => replay(seed, mutant),
        _ => simulate(&options, mutant, threads),
    }
}

fn replay(seed: u64, mutant: Option<Mutant>) -> ExitCode {
    let tally = run(seed, mutant, true).tally;
    for line in &tally.lines {
        println!("{line}");
    }
    println!("seed {seed}: trace {:016x}, {} violations", tally.hash, tally.violations.len());
    for violation in &tally.violations {
        println!("  {violation}");
    }
    if tally.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulate(options: &Options, mutant: Option<Mutant>, threads: usize) -> ExitCode {
    let started = Instant::now();
    let totals = run_all(options.from..options.from + options.seeds, mutant, threads, |totals| {
        if totals.runs % PROGRESS_EVERY == 0 {
            println!("{} seeds, {} violated, {}", totals.runs, totals.failed.len(), rate(totals, started));
        }
        false
    });
    print(&totals, started);
    for (seed, violation) in totals.failed.iter().take(20) {
        println!("seed {seed}: {violation}\n  make simulate SEED={seed}");
    }
    if totals.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn rate(totals: &Totals, started: Instant) -> String {
    let ms = started.elapsed().as_millis().max(1);
    format!("{} seeds/s", u128::from(totals.runs) * 1_000 / ms)
}

fn print(totals: &Totals, started: Instant) {
    println!("{} seeds in {} s, {}", totals.runs, started.elapsed().as_secs(), rate(totals, started));
    let counts = &totals.answers;
    println!(
        "{} calls of the stores; grabs: {} grabbed, {} sold out,",
        totals.operations, counts.grabbed, counts.sold_out
    );
    println!(
        "{} expired, {} closed, {} not started, {} refused, {} not found, {} with an unknown outcome",
        counts.expired, counts.closed, counts.not_started, counts.refused, counts.not_found, counts.unknown
    );
    println!("{} histories checked for linearizability, {} too long to decide", counts.decided, counts.undecided);
    for fault in Fault::ALL {
        println!("{:>12} {fault:?}", totals.struck.of(fault));
    }
    println!("{} seeds violated an invariant", totals.failed.len());
}

fn find_mutants(seeds: u64, threads: usize) -> ExitCode {
    let mut all_found = true;
    println!("{:>2}  {:<46} {:>9} {:>12}  what breaks", "", "mutant", "seed", "seeds of 1000");
    for (number, mutant) in Mutant::ALL.into_iter().enumerate() {
        let sample = run_all(0..seeds.min(1_000), Some(mutant), threads, |_| false);
        let found = if sample.failed.is_empty() {
            let rest = run_all(sample.runs..seeds, Some(mutant), threads, |totals| !totals.failed.is_empty());
            rest.failed.first().cloned()
        } else {
            sample.failed.first().cloned()
        };
        let (seed, what) = match &found {
            Some((seed, violation)) => (seed.to_string(), violation.to_string()),
            None => ("-".to_owned(), "not found".to_owned()),
        };
        let what: String = what.chars().take(150).collect();
        println!("{:>2}  {:<46} {seed:>9} {:>12}  {what}", number + 1, mutant.name(), sample.failed.len());
        all_found &= found.is_some();
    }
    if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
