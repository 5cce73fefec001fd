//! Checks the protocol in every state of all instances, or shows the property that a mutant breaks.

use std::process::ExitCode;

use clap::Parser;
use model::instance::{LARGE, Mutant, SMALL, of_mutant};
use model::{check, refute};

/// Checks the protocol in every state of all instances. Takes minutes and gigabytes.
#[derive(Parser)]
struct Arguments {
    /// Shows how this mutant is refuted instead.
    #[arg(long)]
    mutant: Option<Mutant>,
}

fn main() -> ExitCode {
    let is_good = Arguments::parse().mutant.map_or_else(check_all, show);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_all() -> bool {
    let mut is_good = true;
    for instance in SMALL.iter().chain(LARGE) {
        let report = check(instance);
        println!("{}: {report}", instance.name);
        is_good &= report.is_good();
    }
    is_good
}

fn show(mutant: Mutant) -> bool {
    let steps = refute(mutant);
    match &steps {
        Some(steps) => println!("\"{}\" does not hold after these steps: {steps:#?}", of_mutant(mutant).1),
        None => println!("{mutant:?} is not refuted"),
    }
    steps.is_some()
}
