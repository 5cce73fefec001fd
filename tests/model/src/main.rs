//! Checks the instances that are too large for a test, or shows what a mutant breaks.

use std::process::ExitCode;

use clap::Parser;
use model::instance::Mutant;
use model::{check, instances};

#[derive(Parser)]
#[command(about)]
struct Arguments {
    /// Show how this mutant is refuted, instead of checking the protocol.
    #[arg(long)]
    mutant: Option<Mutant>,
}

fn main() -> ExitCode {
    let is_good = match Arguments::parse().mutant {
        Some(mutant) => show(mutant),
        None => instances::SMALL.iter().chain(instances::LARGE).fold(true, |is_good, instance| {
            println!("{}", instance.name);
            let report = check::check(instance);
            println!("{report}");
            is_good && report.is_good()
        }),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(mutant: Mutant) -> bool {
    let found = check::refute(mutant);
    match &found {
        Some(counterexample) => println!("{mutant}\n{counterexample}"),
        None => println!("{mutant}: not refuted"),
    }
    found.is_some()
}
