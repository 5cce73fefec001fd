//! Real kills: real processes over a real Redis and a real `DynamoDB` API, with a fault proxy before each.
//!
//! Workers die by `SIGKILL` at crash points and at random and are started again at once, Redis is harmed in every way it
//! knows, and requests fail before and after they are carried out. Clients retry as real ones would, and every answer they
//! were given is held against the ledger in the end.
//!
//! The program runs the chaos, adds up reports of several runs, and is one of the workers that the chaos kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // A harness that can't work has failed.

mod book;
mod clients;
mod crowd;
mod dice;
mod dynamo_proxy;
mod fleet;
mod hot;
mod redis_proxy;
mod report;
mod run;
mod shard;
mod tally;
mod worker;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::Report;
use crate::run::Run;
use crate::worker::Worker;

/// Real processes that are killed at any line, over stores that fail in every way.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let everything fail for a while, then hold every answer against the ledger
    Run(Run),
    /// Add up the reports of several runs
    Sum {
        /// The reports
        #[arg(required = true)]
        reports: Vec<PathBuf>,
    },
    /// Be a process that is killed: the harness starts these
    #[command(hide = true)]
    Worker(Worker),
}

/// From so many minutes on a run must have come by every crash point.
const LONG_S: u64 = 5 * 60;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let report = match Options::parse().command {
        Command::Worker(worker) => {
            worker.run().await?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Run(run) => tokio::select! {
            report = run.run() => report?,
            // Dropped, the run takes its processes along.
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(ExitCode::FAILURE);
            }
        },
        Command::Sum { reports } => sum(reports)?,
    };
    println!("{report}");
    let missed = report.seconds >= LONG_S && !report.points_missed().is_empty();
    Ok(if report.violations > 0 || missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn sum(files: Vec<PathBuf>) -> Result<Report, Box<dyn Error>> {
    let mut sum = Report::default();
    for file in files {
        let report = std::fs::read(&file)?;
        sum.add(serde_json::from_slice(&report).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(sum)
}
