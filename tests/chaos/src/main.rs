//! Real kills: real processes over a real Redis and a real `DynamoDB` API, with a fault proxy before each.
//!
//! Workers die by `SIGKILL` at crash points and at random, and are restarted at once. Redis is harmed in every way that
//! it knows. Requests fail before and after they are carried out. Clients retry like real ones. In the end every answer
//! is checked against the ledger.
//!
//! The program runs the chaos, adds up reports of several runs, and is also the worker that the chaos kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // A defect of the harness itself must stop it.

mod clients;
mod crowd;
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

/// Kills real processes at any line, over stores that fail in every way.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let everything fail for a while, then check every answer against the ledger
    Run(Run),
    /// Add up the reports of several runs
    Sum {
        /// The reports
        #[arg(required = true)]
        reports: Vec<PathBuf>,
    },
    /// Run as a worker to be killed; the harness starts these
    #[command(hide = true)]
    Worker(Worker),
}

/// A run of at least this duration must hit every crash point.
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
            // The run's processes end when it is dropped.
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
