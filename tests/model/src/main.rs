//! Checks the protocol in every state of all instances, or shows the property that a mutant breaks.

use std::process::ExitCode;

use clap::Parser;
use model::check;
use model::instance::{LARGE, Mutant, SMALL};

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
        println!("{}", instance.name);
        let report = check::check(instance);
        println!("{report}");
        is_good &= report.is_good();
    }
    is_good
}

fn show(mutant: Mutant) -> bool {
    let found = check::refute(mutant);
    match &found {
        Some(counterexample) => println!("{mutant:?}\n{counterexample}"),
        None => println!("{mutant:?} is not refuted"),
    }
    found.is_some()
}
