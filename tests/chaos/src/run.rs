//! A run, from its start to its report.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio::time::{Instant, interval};

use crate::fleet::Mode;
use crate::report::Report;
use crate::shard::{KINDS, Load, Shard};
use crate::tally::Tally;

/// How often a run prints its progress.
const NEWS_EVERY: Duration = Duration::from_secs(10);

/// The command line of a run.
#[derive(Debug, clap::Args)]
pub struct Run {
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

impl Run {
    /// Runs the chaos, and writes and returns the report.
    pub async fn run(self) -> Result<Report, Box<dyn Error>> {
        let seed = self.seed.unwrap_or_else(|| rand::random::<u32>().into());
        println!("chaos for {} min, seed {seed}", self.minutes);
        std::fs::create_dir_all(&self.out)?;
        let tally = Arc::new(Tally::default());
        let (mode, watching) = watch::channel(Mode::Calm);
        let load = Load { seed, crowds: self.crowds };
        let mut shards = try_join_all(KINDS.map(|kind| Shard::start(kind, load, &tally, &self.out, &watching))).await?;

        let started = Instant::now();
        let end = started + Duration::from_mins(1) * self.minutes;
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

        tally.update(|report| {
            report.seeds = vec![seed];
            report.seconds = u64::from(self.minutes) * 60;
        });
        let report = tally.report();
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(self.out.join("report.json"), &json)?;
        std::fs::write(self.out.join(format!("run-{seed}.json")), &json)?;
        Ok(report)
    }
}

async fn tell(tally: Arc<Tally>, started: Instant) {
    let mut ticks = interval(NEWS_EVERY);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let report = tally.report();
        let sum = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
        println!(
            "{:>5} s: {} grabs, {} kills ({} at points), {} Redis losses, {} other faults of Redis, {} of connections, \
             {} of DynamoDB, {} violations",
            started.elapsed().as_secs(),
            report.grabs(),
            report.kills(),
            sum(&report.kills_at_points),
            sum(&report.redis_losses),
            sum(&report.redis_faults),
            sum(&report.connection_faults),
            sum(&report.dynamodb_faults),
            report.violations,
        );
    }
}
