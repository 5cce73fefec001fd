//! This engine beside every published design, in turn: the same Redis, number of connections and data.

#![allow(clippy::expect_used, clippy::float_arithmetic)]

mod cell;
mod chart;
mod concurrent;
mod database;
mod designs;
mod durable;
mod functions;
mod goals;
mod growth;
mod heat;
mod hot;
mod http_path;
mod lab;
mod limits;
mod million;
mod ours;
mod over_tls;
mod redis_apart;
mod report;
mod rush;
mod spread;
mod start;
mod summary;
mod threads;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use lab::{Lab, TimeBox};
use million::Size;
use ours::Engine;
use redis_apart::RedisApart;
use report::{Machine, Report};

/// The local stack's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Any error. It ends the run without a report.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The workloads during which Redis has a processor of its own.
const HOT_PATH: [&str; 6] = ["A", "B", "C", "D", "start", "tls"];

/// How long a design waits for Redis. Long, so that other load on the machine does not end the run.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The benchmark.
#[derive(Parser)]
#[command(name = "bench")]
struct Options {
    /// One short round of each cell
    #[arg(long)]
    quick: bool,
    /// One small rush of each cell: shows that everything works; its figures mean nothing
    #[arg(long, conflicts_with = "quick")]
    rehearse: bool,
    /// Only these workloads; `tls` and `million` are more
    #[arg(long, value_delimiter = ',', default_value = "A,B,C,D,start,L,E,settle,growth,spread,functions")]
    only: Vec<String>,
    /// Rounds of each cell, if not 3. Goals of several rounds compare those that ran one after the other
    #[arg(long, conflicts_with_all = ["quick", "rehearse"])]
    rounds: Option<usize>,
    /// Only schemes whose names contain one of these
    #[arg(long, value_delimiter = ';', default_value = "")]
    scheme: Vec<String>,
    /// Users of `million`, each with one request [default: 1000000]
    #[arg(long)]
    users: Option<u32>,
    /// Slips of its packet, fewer than users [default: 100000]
    #[arg(long)]
    slips: Option<u32>,
    /// The folder of the deployed functions, for their sizes; by default the sizes are of this build
    #[arg(long)]
    deployed: Option<PathBuf>,
    /// The folder for the report [default: target/bench, or target/bench-valkey on Valkey]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Makes a share of the requests of `million`, for the program that started this one
    #[arg(long, hide = true)]
    worker: bool,
}

impl Options {
    fn time(&self) -> TimeBox {
        match self {
            Self { rehearse: true, .. } => TimeBox::REHEARSAL,
            Self { quick: true, .. } => TimeBox::QUICK,
            Self { rounds, .. } => TimeBox { rounds: rounds.unwrap_or(TimeBox::FULL.rounds), ..TimeBox::FULL },
        }
    }

    fn wants(&self, workload: &str) -> bool {
        self.only.iter().any(|wanted| wanted == workload)
    }

    /// A lab for the hot path, and the engine in it.
    async fn hot(&self, report: Report, redis_apart: Option<&RedisApart>) -> Result<(Lab, Arc<Engine>), BoxError> {
        let lab = Lab::open(self.time(), self.scheme.clone(), report).await?;
        if let Some(apart) = redis_apart {
            apart.take_there(lab.redis())?;
        }
        let engine = Engine::new(&lab.redis_url(), &lab.dynamodb_url(), "hot", "redis").await?;
        Ok((lab, Arc::new(engine)))
    }

    async fn few_in_flight(&self, report: Report, redis_apart: Option<&RedisApart>) -> Result<Report, BoxError> {
        let (mut lab, engine) = self.hot(report, redis_apart).await?;
        hot::a_with_few(&mut lab, &engine).await?;
        Ok(lab.close().await)
    }

    async fn hot_path(&self, report: Report, redis_apart: Option<&RedisApart>) -> Result<Report, BoxError> {
        let (mut lab, engine) = self.hot(report, redis_apart).await?;
        if self.wants("A") {
            hot::a(&mut lab, &engine).await?;
        }
        if self.wants("B") {
            hot::b(&mut lab, &engine).await?;
        }
        if self.wants("C") {
            hot::c(&mut lab, &engine).await?;
        }
        if self.wants("D") {
            hot::d(&mut lab, &engine).await?;
        }
        if self.wants("start") {
            start::run(&mut lab, &engine).await?;
        }
        if self.wants("tls") {
            tls::run(&mut lab, redis_apart).await?;
        }
        Ok(lab.close().await)
    }

    async fn all_else(&self, report: Report) -> Result<Report, BoxError> {
        let mut lab = Lab::open(self.time(), self.scheme.clone(), report).await?;
        let (redis, dynamodb) = (lab.redis_url(), lab.dynamodb_url());
        let hot = Arc::new(Engine::new(&redis, &dynamodb, "hot", "redis").await?);
        let durable = Arc::new(Engine::new(&redis, &dynamodb, "durable", "ledger").await?);
        if self.wants("L") {
            durable::l(&mut lab, &durable).await?;
        }
        if self.wants("E") {
            durable::e(&mut lab, &durable).await?;
        }
        if self.wants("settle") {
            durable::settle(&mut lab, &hot).await?;
        }
        if self.wants("growth") {
            let growth = growth::run(&hot, &lab).await?;
            growth.ratios().into_iter().for_each(|ratio| lab.report.reached(ratio));
        }
        if self.wants("spread") {
            spread::run(&mut lab).await?;
        }
        if self.wants("million") {
            let Size { users, slips } = Size::FULL;
            let [users, slips] =
                [(self.users, users), (self.slips, slips)].map(|(own, full)| own.unwrap_or(lab.scaled(full)));
            million::run(&mut lab, Size { users, slips }).await?;
        }
        if self.wants("functions") {
            if cfg!(target_os = "linux") {
                let functions = functions::run(&lab, self.deployed.as_deref()).await?;
                functions.ratios().into_iter().for_each(|ratio| lab.report.reached(ratio));
                lab.report.add_functions(functions);
            } else {
                eprintln!("functions: left out, the Lambda runtime interface emulator runs on Linux only");
            }
        }
        Ok(lab.close().await)
    }
}

/// A runtime with a worker per processor of the machine, even if the clients may use only some of them. With a single worker a
/// few of a thousand requests wait for long behind the others.
fn runtime(cores: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(cores).enable_all().build()
}

fn main() -> Result<(), BoxError> {
    shared::redis::install_crypto_provider();
    let options = Options::parse();
    if options.worker {
        return million::work();
    }
    let mut report = Report::of(Machine::here()?);
    let is_hot = |workload: &String| HOT_PATH.contains(&workload.as_str());
    if options.only.iter().any(is_hot) {
        let apart = RedisApart::begin()?;
        report.machine.redis_apart = apart.is_some();
        report = runtime(report.machine.cores)?.block_on(options.hot_path(report, apart.as_ref()))?;
        if options.wants("A") {
            // Tokio's default, as in any process: a worker for each processor that the clients may use. With so few requests, a
            // second worker on the same processor would only take turns with the first.
            report = Runtime::new()?.block_on(options.few_in_flight(report, apart.as_ref()))?;
        }
        if let Some(apart) = apart {
            apart.end()?;
        }
    }
    if !options.only.iter().all(is_hot) {
        report = runtime(report.machine.cores)?.block_on(options.all_else(report))?;
    }
    report.conclude();
    report.write(&options.out.unwrap_or_else(|| report.folder()))?;
    println!("{report}");
    Ok(())
}
