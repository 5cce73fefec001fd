//! This engine beside every published design: the same Redis, the same number of connections, the same data, in turn.

#![allow(clippy::expect_used, clippy::float_arithmetic)]

mod cell;
mod chart;
mod database;
mod designs;
mod durable;
mod flights;
mod functions;
mod goals;
mod growth;
mod heat;
mod hot;
mod http_path;
mod lab;
mod limits;
mod ours;
mod report;
mod rush;
mod spread;
mod threads;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;

use lab::{Lab, TimeBox};
use ours::Engine;
use report::Machine;

/// As the local stack has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever can go wrong: then there is no report.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a design waits for Redis: a machine that is busy with something else is no reason to end the run.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The benchmark.
#[derive(Parser)]
#[command(name = "bench")]
struct Options {
    /// One short round of each cell
    #[arg(long)]
    quick: bool,
    /// One small rush of each cell, to its end: shows that everything works, and its figures say nothing
    #[arg(long, conflicts_with = "quick")]
    rehearse: bool,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', default_value = "A,B,C,D,L,E,settle,growth,spread,functions")]
    only: Vec<String>,
    /// Only schemes whose name contains this
    #[arg(long, default_value = "")]
    scheme: String,
    /// Where the functions are as they are deployed, whose size is asked for: without it, it is that of this build
    #[arg(long)]
    deployed: Option<PathBuf>,
    /// Where to write the report
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    shared::redis::install_crypto_provider();
    let options = Options::parse();
    let time = match options {
        Options { rehearse: true, .. } => TimeBox::REHEARSAL,
        Options { quick: true, .. } => TimeBox::QUICK,
        _ => TimeBox::FULL,
    };
    let mut lab = Lab::open(time, options.scheme.clone()).await?;
    let wants = |workload: &str| options.only.iter().any(|wanted| wanted == workload);
    let (redis, dynamodb) = (lab.redis_url(), lab.dynamodb_url());
    let hot = Arc::new(Engine::new(&redis, &dynamodb, "hot", "redis").await?);
    let durable = Arc::new(Engine::new(&redis, &dynamodb, "durable", "ledger").await?);
    if wants("A") {
        hot::a(&mut lab, &hot).await?;
    }
    if wants("B") {
        hot::b(&mut lab, &hot).await?;
    }
    if wants("C") {
        hot::c(&mut lab, &hot).await?;
    }
    if wants("D") {
        hot::d(&mut lab, &hot).await?;
    }
    if wants("L") {
        durable::l(&mut lab, &durable).await?;
    }
    if wants("E") {
        durable::e(&mut lab, &durable).await?;
    }
    if wants("settle") {
        durable::settle(&mut lab, &hot).await?;
    }
    if wants("growth") {
        let growth = growth::run(&hot, &lab).await?;
        growth.ratios().into_iter().for_each(|ratio| lab.report.reached(ratio));
    }
    if wants("spread") {
        spread::run(&mut lab).await?;
    }
    if wants("functions") {
        if cfg!(target_os = "linux") {
            let functions = functions::run(&lab, options.deployed.as_deref()).await?;
            functions.ratios().into_iter().for_each(|ratio| lab.report.reached(ratio));
            lab.report.add_functions(functions);
        } else {
            eprintln!("functions: left out, the Lambda runtime interface emulator runs on Linux only");
        }
    }
    let machine = Machine::of(lab.redis())?;
    let mut report = lab.close().await;
    report.conclude(machine);
    report.write(&options.out)?;
    println!("{report}");
    Ok(())
}
