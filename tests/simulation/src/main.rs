//! `simulate`: runs seeds, repeats one, or searches for seeds that find mutants.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use simulation::{Fault, INSTANCES, Instance, Mutant, Totals, enumerate, run, run_all};

/// Prints the rate every so many runs.
const PROGRESS_EVERY: u64 = 5_000;

#[derive(Debug, Parser)]
#[command(about = "Runs the use cases over in-memory stores that fail by seed")]
struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Repeats one seed, and prints all events.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs this mutant.
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Searches for seeds that find each mutant.
    #[arg(long)]
    mutants: bool,
    /// Enumerates the orders of calls and faults in small worlds, instead of drawing them.
    #[arg(long)]
    enumerate: bool,
    /// Ends each enumeration after so many paths.
    #[arg(long, default_value_t = 100_000)]
    paths: u64,
    /// Enumerates only worlds with this in their names.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match options {
        Options { enumerate: true, .. } => enumerate_all(&options, threads),
        Options { mutants: true, .. } => find_mutants(options.seeds, threads),
        Options { seed: Some(seed), .. } => replay(seed, options.mutant),
        _ => simulate(&options, threads),
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

fn simulate(options: &Options, threads: usize) -> ExitCode {
    let started = Instant::now();
    let totals = run_all(0..options.seeds, options.mutant, threads, |totals| {
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
    println!("{} calls of the stores", totals.operations);
    for (answer, count) in &totals.answers {
        println!("{count:>12} grabs answered: {answer}");
    }
    for fault in Fault::value_variants() {
        println!("{:>12} {fault:?}", totals.struck.of(*fault));
    }
    println!("{} seeds violated an invariant", totals.failed.len());
}

fn find_mutants(seeds: u64, threads: usize) -> ExitCode {
    let mut all_found = true;
    println!("{:<26} {:>9} {:>14}  what breaks", "mutant", "seed", "seeds of 1000");
    for &mutant in Mutant::value_variants() {
        let mut totals = run_all(0..seeds.min(1_000), Some(mutant), threads, |_| false);
        let of_sample = totals.failed.len();
        if of_sample == 0 {
            totals = run_all(totals.runs..seeds, Some(mutant), threads, |totals| !totals.failed.is_empty());
        }
        let found = totals.failed.first().map(|(seed, violation)| (seed.to_string(), violation.to_string()));
        let found = found.or_else(|| INSTANCES.iter().find_map(|instance| enumerated(instance, mutant, threads)));
        all_found &= found.is_some();
        let (seed, what) = found.unwrap_or_else(|| ("-".to_owned(), "not found".to_owned()));
        println!("{:<26} {seed:>9} {of_sample:>14}  {what:.150}", format!("{mutant:?}"));
    }
    if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A world that finds what no seed has found, and what breaks there.
fn enumerated(instance: &Instance, mutant: Mutant, threads: usize) -> Option<(String, String)> {
    let report = enumerate(instance, Some(mutant), threads, 20_000);
    Some((instance.name.to_owned(), report.violation?.0.to_string()))
}

fn enumerate_all(options: &Options, threads: usize) -> ExitCode {
    let mut is_good = true;
    for instance in INSTANCES.iter().filter(|instance| instance.name.contains(&options.only)) {
        let report = enumerate(instance, options.mutant, threads, options.paths);
        println!("{}: {report}", instance.name);
        is_good &= report.violation.is_none();
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
