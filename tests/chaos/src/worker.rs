//! One of the processes that are killed: the local stack over given stores.

use std::error::Error;

use local::options::Ack;
use local::{Local, Options};
use tokio::io::AsyncReadExt;

/// Log level of the workers.
const LOG_FILTER: &str = "error";

/// The stores of a worker, and its mode.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The address of Redis, or those of a cluster's nodes.
    pub redis_url: String,
    /// Whether Redis is a cluster.
    pub cluster: bool,
    /// The `DynamoDB` endpoint.
    pub dynamodb_url: String,
    /// The acknowledgement mode of its packets.
    pub ack: Ack,
}

/// The command line of a worker.
#[derive(Debug, clap::Args)]
pub struct Worker {
    #[command(flatten)]
    options: Options,
    /// The crash point, and the pass at which the worker dies there: `grab.after_claim=3`
    #[arg(long, value_name = "POINT=PASSES", value_parser = crash)]
    crash: Vec<(String, u32)>,
}

impl Stores {
    /// The arguments for a worker's command line.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--redis-url", &self.redis_url, "--dynamodb-url", &self.dynamodb_url];
        arguments.extend(["--ack", self.ack.name(), "--settle-every", "0s"]);
        if self.cluster {
            arguments.push("--redis-cluster");
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

impl Worker {
    /// Serves until it dies, or until its parent process is gone.
    pub async fn run(self) -> Result<(), Box<dyn Error>> {
        shared::log_to_stderr(LOG_FILTER);
        shared::redis::install_crypto_provider();
        for (point, passes) in &self.crash {
            if !shared::crash::arm(point, *passes) {
                return Err(format!("there is no crash point {point}").into());
            }
        }
        let local = Local::start(self.options).await?;
        // The parent reads this line as the sign of readiness. It holds the other end of the input for its lifetime.
        println!("{}", local.url());
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        local.stop().await;
        Ok(())
    }
}

fn crash(text: &str) -> Result<(String, u32), String> {
    let (point, passes) = text.split_once('=').ok_or("expected POINT=PASSES")?;
    let passes = passes.parse().map_err(|_| "PASSES must be a number")?;
    Ok((point.to_owned(), passes))
}
