//! This engine beside every published design, in turn: the same Redis, number of connections and data.

#![allow(clippy::expect_used, clippy::float_arithmetic)]
#![allow(clippy::cast_precision_loss)] // Figures for people.

mod cell;
mod chart;
mod clients;
mod designs;
mod functions;
mod http;
mod lab;
mod ours;
mod postgres;
mod report;
mod rush;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use cell::Cell;
use lab::{Lab, Processors};
use report::Report;

/// The local stack's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Any error. It ends the run without a report.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a design waits for Redis. Long, so that other load on the machine does not end the run.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The benchmark.
#[derive(Parser)]
#[command(name = "bench")]
struct Options {
    /// One short round of each cell
    #[arg(long)]
    quick: bool,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', default_value = "A,B,C,D,F,TLS,L,E,T")]
    only: Vec<String>,
    /// Rounds of each cell, if not 3. A ratio compares rounds that ran one after the other
    #[arg(long, conflicts_with = "quick")]
    rounds: Option<usize>,
    /// Only schemes whose names contain one of these
    #[arg(long, value_delimiter = ';', default_value = "")]
    scheme: Vec<String>,
    /// The folder of the deployed functions: measures their sizes and starts instead of the workloads
    #[arg(long)]
    deployed: Option<PathBuf>,
    /// The folder for the report [default: target/bench, or target/bench-valkey on Valkey]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Workloads that run in the same way.
#[derive(Clone, Copy)]
enum Stage {
    /// Redis has a processor of its own.
    HotPath,
    /// The same, and Redis answers once its disk has a write.
    Fsynced,
    /// As the first, with few requests in flight.
    FewInFlight,
    /// The embedded ledger or `PostgreSQL` takes part, and everything has all processors.
    WithLedger,
}

impl Options {
    fn wants(&self, workload: &str) -> bool {
        self.only.iter().any(|wanted| wanted == workload)
    }

    async fn measure(&self, stage: Stage, redis: Option<&Processors>, report: &mut Report) -> Result<(), BoxError> {
        let (rounds, time) = match (self.quick, self.rounds) {
            (true, _) => (1, Duration::from_millis(500)),
            (false, rounds) => (rounds.unwrap_or(3), Duration::from_secs(3)),
        };
        let args: &[&str] = match stage {
            Stage::Fsynced => &["--appendonly", "yes", "--appendfsync", "always"],
            _ => &[],
        };
        let mut lab = Lab::open(rounds, time, self.scheme.clone(), args, redis).await?;
        match stage {
            Stage::HotPath => {
                for workload in ["A", "B", "C", "D"].into_iter().filter(|workload| self.wants(workload)) {
                    workloads::hot(&mut lab, workload).await?;
                }
                if self.wants("TLS") {
                    workloads::tls(&mut lab).await?;
                }
            }
            Stage::Fsynced if self.wants("F") => workloads::fsynced(&mut lab).await?,
            Stage::FewInFlight if self.wants("A") => workloads::few_in_flight(&mut lab).await?,
            Stage::Fsynced | Stage::FewInFlight => {}
            Stage::WithLedger => {
                if self.wants("L") {
                    workloads::l(&mut lab).await?;
                    workloads::l_postgres(&mut lab).await?;
                }
                if self.wants("E") {
                    workloads::e(&mut lab).await?;
                }
                if self.wants("T") {
                    workloads::t(&mut lab).await?;
                }
            }
        }
        report.server = lab.server().await?;
        report.cells.extend(lab.close().await);
        Ok(())
    }

    /// Runs all workloads.
    fn run(&self, report: &mut Report) -> Result<(), BoxError> {
        // A worker per processor of the machine, even if the clients may use only some of them. With a single worker a few of a
        // thousand requests wait for long behind the others.
        let cores = std::thread::available_parallelism()?.get();
        let wide = || Builder::new_multi_thread().worker_threads(cores).enable_all().build();
        let apart = Processors::split(cores);
        let redis = apart.as_ref().map(|(redis, _)| redis);
        report.redis_apart = redis.is_some();
        wide()?.block_on(self.measure(Stage::HotPath, redis, report))?;
        wide()?.block_on(self.measure(Stage::Fsynced, redis, report))?;
        // Tokio's default, as in any process: with so few requests, a second worker on the same processor would only take turns
        // with the first.
        Runtime::new()?.block_on(self.measure(Stage::FewInFlight, redis, report))?;
        if let Some((_, all)) = &apart {
            all.take(std::process::id());
        }
        wide()?.block_on(self.measure(Stage::WithLedger, None, report))
    }
}

fn main() -> Result<(), BoxError> {
    shared::redis::install_crypto_provider();
    let options = Options::parse();
    let mut report = Report::now();
    if let Some(deployed) = &options.deployed {
        report.functions = Runtime::new()?.block_on(functions::run(deployed))?;
    } else {
        options.run(&mut report)?;
    }
    report.cells.sort_by_key(|cell: &Cell| cell.workload);
    report.write(options.out.as_deref())?;
    println!("{report}");
    Ok(())
}
