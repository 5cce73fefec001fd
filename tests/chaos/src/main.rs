//! Real kills: real processes over a real Redis and a real `DynamoDB` API, with a fault proxy before each.
//!
//! Workers die by `SIGKILL` at crash points and at random, and are restarted at once. Redis is harmed in every way that
//! it knows. Requests fail before and after they are carried out. Clients retry like real ones. In the end every answer
//! is checked against the ledger.
//!
//! The program runs the chaos, and is also the worker that the chaos kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // A defect of the harness itself must stop it.

mod clients;
mod crowd;
mod fleet;
mod hot;
mod proxies;
mod report;
mod shard;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use futures::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio::time::{Instant, interval};

use crate::fleet::{Mode, Worker};
use crate::report::{Group, Report, Tally};
use crate::shard::{KINDS, Load, Shard};

/// How often a run prints its progress.
const NEWS_EVERY: Duration = Duration::from_secs(10);
/// A run of at least this duration must hit every crash point.
const LONG: Duration = Duration::from_mins(5);

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
    /// Run as a worker to be killed; the harness starts these
    #[command(hide = true)]
    Worker(Box<Worker>),
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Duration of the faults
    #[arg(long, default_value_t = 2)]
    minutes: u32,
    /// Repeats a run's schedule of faults; by default each run has its own
    #[arg(long)]
    seed: Option<u64>,
    /// The most packets that each of the four shards has open at once
    #[arg(long, default_value_t = 8)]
    crowds: usize,
    /// Folder of the report and the workers' logs
    #[arg(long, value_name = "FOLDER", default_value = "target/chaos")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    match Options::parse().command {
        Command::Worker(worker) => {
            worker.run().await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(run) => tokio::select! {
            is_good = run.run() => Ok(if is_good? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
            // The run's processes end when it is dropped.
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                Ok(ExitCode::FAILURE)
            }
        },
    }
}

impl Run {
    /// Runs the chaos, and writes and prints the report. Returns whether all is well.
    async fn run(self) -> Result<bool, Box<dyn Error>> {
        let seed = self.seed.unwrap_or_else(|| rand::random::<u32>().into());
        println!("chaos for {} min, seed {seed}", self.minutes);
        std::fs::create_dir_all(&self.out)?;
        let tally = Arc::new(Tally::default());
        let (mode, watching) = watch::channel(Mode::Calm);
        let load = Load { seed, crowds: self.crowds };
        let mut shards = try_join_all(KINDS.map(|kind| Shard::start(kind, load, &tally, &self.out, &watching))).await?;

        let (started, time) = (Instant::now(), Duration::from_mins(1) * self.minutes);
        let end = started + time;
        let news = tokio::spawn(tell(Arc::clone(&tally), started));
        mode.send_replace(Mode::Chaos);
        let calm = async {
            tokio::time::sleep_until(end).await;
            mode.send_replace(Mode::Calm);
        };
        tokio::join!(calm, join_all(shards.iter_mut().map(|shard| shard.run(end))));
        join_all(shards.iter().map(Shard::check)).await;
        news.abort();
        mode.send_replace(Mode::Stop);
        for shard in shards {
            shard.stop().await?;
        }
        let report = tally.report();
        let text = format!("chaos for {} min, seed {seed}\n{report}", self.minutes);
        std::fs::write(self.out.join(format!("run-{seed}.txt")), &text)?;
        print!("{text}");
        Ok(report.violations == 0 && (time < LONG || report.points_missed().is_empty()))
    }
}

async fn tell(tally: Arc<Tally>, started: Instant) {
    let mut ticks = interval(NEWS_EVERY);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let report: Report = tally.report();
        let [answers, points, ends, losses, faults] =
            [Group::Answer, Group::KillAtPoint, Group::OtherEnd, Group::RedisLoss, Group::RedisFault]
                .map(|group| report.sum(group));
        let (seconds, violations) = (started.elapsed().as_secs(), report.violations);
        println!(
            "{seconds:>5} s: {answers} answers, {points} ends at crash points, {ends} others, {losses} Redis losses, {faults} other \
             faults of Redis, {violations} violations"
        );
    }
}
