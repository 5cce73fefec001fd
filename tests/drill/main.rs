//! Drills: what an operator does on a bad day, on real programs and stores. Each compares every answer with the ledger, and
//! runs the audit of `hongbao-admin`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic)]

mod fleet;
mod folder;
mod loss;
mod restore;
mod users;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Drills for a bad day
#[derive(Parser)]
#[command(name = "drill")]
struct Options {
    /// Only one drill
    #[command(subcommand)]
    only: Option<Drill>,
    /// Repeats the choices of an earlier run
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Few packets, and no goal for the time: shows that nothing is lost
    #[arg(long, global = true)]
    short: bool,
}

#[derive(Clone, Copy, Subcommand)]
enum Drill {
    /// The table goes back to an earlier time
    Restore,
    /// Redis loses everything in the middle of a rush
    Loss,
    /// The data folder is full, then read-only
    Folder,
}

/// How large a drill is.
#[derive(Clone, Copy)]
pub struct Size {
    /// The seed of its choices.
    pub seed: u64,
    /// Whether it is the short cut.
    pub short: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    shared::redis::install_crypto_provider();
    let Options { only, seed, short } = Options::parse();
    let size = Size { seed: seed.unwrap_or_else(|| rand::random::<u32>().into()), short };
    println!("drills with seed {}", size.seed);
    let mut violations = Vec::new();
    for drill in only.map_or_else(|| vec![Drill::Restore, Drill::Loss, Drill::Folder], |only| vec![only]) {
        violations.extend(match drill {
            Drill::Restore => restore::run(size).await,
            Drill::Loss => loss::run(size).await,
            Drill::Folder => folder::run(size).await,
        });
    }
    for violation in &violations {
        println!("VIOLATION: {violation}");
    }
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
