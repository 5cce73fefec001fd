use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admin::Queues;
use anyhow::Context as _;
use shared::batching::Permits;
use shared::dynamodb::SdkTable;
use shared::service::RunReport;
use shared::wiring::{self, Environment};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::data_dir::{self, DataDir};
use crate::dynamodb::DynamoDb;
use crate::gateway::{Gateway, Invoke};
use crate::ledger_file;
use crate::options::{DevOptions, Mode, Options, SandboxOptions};
use crate::redis_server::RedisServer;
use crate::request_log;
use crate::sandbox::Sandbox;
use crate::stack::{self, Stack, Stores};
use crate::stores_file;
use crate::webhooks::{Webhooks, sqs};

/// How long unfinished requests may take at the end.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(5);
/// Concurrent requests: the default quota of concurrent executions of a new Lambda account.
const REQUESTS_AT_ONCE: usize = 1_000;

/// The running system.
///
/// Without [`Self::stop`] a drop ends everything too, including Redis, but cuts off unfinished work.
pub struct Local {
    gateway: Gateway,
    /// Settle, which ends with it.
    ticker: JoinSet<()>,
    webhooks: Option<Webhooks>,
    redis: Option<RedisServer>,
    dynamodb: Option<DynamoDb>,
    stores: Stores,
    stores_file: Option<NamedTempFile>,
    base_path: String,
    stack: Arc<Stack>,
    /// The last field, because fields are dropped in order: the folder must be ours until nothing uses it.
    data: Option<DataDir>,
}

impl Local {
    /// The data folder, if there is one. A temporary one ends with the stack.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.data.as_ref().map(DataDir::path)
    }

    /// Starts everything. Returns when the system is ready for requests.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let port = options.port;
        let unusable = || format!("port {port} can't be used");
        // This comes first, because it is the likeliest to fail. Early clients wait until the gateway serves.
        let listener = TcpListener::bind((options.listen, port)).await.with_context(unusable)?;
        let (dev, sandbox) = match &options.mode {
            Mode::Dev(dev) => (Some(dev), None),
            Mode::Sandbox(SandboxOptions { seed, faults }) => {
                (None, Some(Sandbox::new(*seed, faults.unwrap_or_default())))
            }
        };
        let sandbox = sandbox.map(Arc::new);
        let data = open_data(dev).await?;
        // The folder, if its content is kept.
        let kept = data.as_ref().filter(|data| !data.is_temporary()).map(DataDir::path);
        // The ledger comes first: Redis' data without a ledger would be refused at the next start.
        let (redis_url, dynamodb_url) =
            dev.map(|dev| (dev.redis_url.clone(), dev.dynamodb_url.clone())).unwrap_or_default();
        let dynamodb = match &dynamodb_url {
            Some(_) => None,
            None => Some(start_dynamodb(kept, redis_url.is_none()).await?),
        };
        let redis = match &data {
            Some(data) if redis_url.is_none() => Some(RedisServer::start(data).await?),
            _ => None,
        };
        let stores = Stores {
            redis_url: redis.as_ref().map(RedisServer::url).or(redis_url).unwrap_or_default(),
            dynamodb_url: dynamodb.as_ref().map(DynamoDb::url).or(dynamodb_url).unwrap_or_default(),
            ledger_is_embedded: dynamodb.as_ref().is_some_and(DynamoDb::is_embedded),
        };
        let config = stack::config(&options, &stores)?;
        let base_path = config.base_path.clone();
        let clock = sandbox.as_ref().map_or_else(Environment::default, |sandbox| sandbox.environment()).clock;
        let webhooks = match (&options.webhook_url, &options.webhook_secret) {
            (Some(url), Some(secret)) => {
                let table = SdkTable::new(wiring::dynamodb_at(&stores.dynamodb_url), config.table.clone());
                Some(Webhooks::start(kept, url, secret, &config, clock, table)?)
            }
            _ => None,
        };
        let gateway = format!("{}{base_path}", url_of(listener.local_addr().with_context(unusable)?));
        let stores_file = match kept {
            Some(folder) => {
                let gateway = webhooks.as_ref().map(|_| &*gateway);
                let written = stores_file::write(folder, &config, &stores, gateway);
                Some(written.with_context(|| data_dir::unusable(folder))?)
            }
            None => None,
        };
        let at = |path: &str| webhooks.as_ref().map(|_| format!("{gateway}{path}"));
        let queues = Queues { queue: at(sqs::WAITING), dead_letters: at(sqs::DEAD), endpoint: at(sqs::PATH) };
        let log = data.as_ref().map(|data| data.path().join(request_log::FOLDER)).into_iter().collect();
        let tool = dev.map(|_| stack::tool(&config, &stores, queues, log));
        let (webhooks, watch) = webhooks.unzip();
        let period = options.settle_every;
        let stack = Arc::new(Stack::connect(config, options, &stores, sandbox.clone(), watch, tool).await?);
        let mut ticker = JoinSet::new();
        // What settle finds by itself would depend on the machine's speed.
        let is_seeded = sandbox.as_ref().is_some_and(|sandbox| sandbox.is_seeded());
        if !period.is_zero() && !is_seeded {
            ticker.spawn(settle_every(period, Arc::clone(&stack)));
        }
        let limiter = Permits::new(REQUESTS_AT_ONCE);
        let gateway = Gateway::serve(listener, Arc::clone(&stack), limiter).with_context(unusable)?;
        Ok(Self { gateway, ticker, webhooks, redis, dynamodb, stores, stores_file, base_path, stack, data })
    }

    /// Asks Redis for an answer, which takes at most a few seconds. [`Self::start`] does not, because a stack can start while
    /// a given Redis is away.
    pub async fn reach_redis(&self) -> anyhow::Result<()> {
        self.stack.reach_redis().await
    }

    /// The address for requests.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", url_of(self.gateway.address()), self.base_path)
    }

    /// The Redis server's address. A given address may contain a password.
    #[must_use]
    pub fn redis_url(&self) -> &str {
        &self.stores.redis_url
    }

    /// The `DynamoDB` endpoint.
    #[must_use]
    pub fn dynamodb_url(&self) -> &str {
        &self.stores.dynamodb_url
    }

    /// The stores that were started here, by name and address. Given stores are left out, because their addresses may
    /// contain passwords.
    #[must_use]
    pub fn own_stores(&self) -> Vec<(&'static str, String)> {
        let redis = self.redis.as_ref().map(|redis| ("Redis", redis.url()));
        let dynamodb = self.dynamodb.as_ref().map(|dynamodb| ("DynamoDB", dynamodb.url()));
        redis.into_iter().chain(dynamodb).collect()
    }

    /// Waits until Redis ends by itself, and describes that. Waits for ever while it runs.
    pub async fn failed(&self) -> String {
        match &self.redis {
            Some(redis) => {
                let how = redis.ended().await;
                format!("the Redis server {how}, and the local stack with it: start it again")
            }
            None => std::future::pending().await,
        }
    }

    /// Stops in an order that loses nothing: new requests, unfinished requests, settle, stores. Each step has its time
    /// limit.
    pub async fn stop(self) {
        self.gateway.stop(REQUESTS_END_WITHIN).await;
        // A run that is cut off loses nothing, and the next start goes on.
        drop(self.ticker);
        if let Some(webhooks) = self.webhooks {
            webhooks.stop().await;
        }
        if let Some(redis) = self.redis {
            redis.stop().await;
        }
        if let Some(dynamodb) = self.dynamodb {
            dynamodb.stop().await;
        }
        drop(self.stores_file);
        drop(self.data);
    }
}

/// The URL of a listener.
fn url_of(mut address: SocketAddr) -> String {
    // What listens on every address of the machine is reached at this one.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{address}")
}

/// The data folder, if data is kept.
async fn open_data(dev: Option<&DevOptions>) -> anyhow::Result<Option<DataDir>> {
    let Some(dev) = dev.filter(|dev| dev.redis_url.is_none() || dev.dynamodb_url.is_none()) else { return Ok(None) };
    let data = if dev.ephemeral { DataDir::temporary()? } else { DataDir::open(&dev.data_dir).await? };
    Ok(Some(data))
}

/// Starts the embedded database, on a checked file in `folder` or in memory.
async fn start_dynamodb(folder: Option<&Path>, has_redis: bool) -> anyhow::Result<DynamoDb> {
    let Some(folder) = folder.map(Path::to_owned) else { return DynamoDb::start(None).await };
    let file = ledger_file::ledger_file(&folder);
    spawn_blocking(move || ledger_file::check(&folder, has_redis)).await??;
    DynamoDb::start(Some(&file)).await
}

/// Runs settle periodically, one run at a time. Replaces the schedule.
async fn settle_every(period: Duration, stack: Arc<Stack>) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Skips the first tick, which comes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        settle(&*stack).await;
    }
}

async fn settle(stack: &impl Invoke) {
    match stack.settle().await {
        Ok(report) if did_something(&report) => tracing::info!(?report, "settle"),
        Ok(_) => {}
        Err(error) => tracing::error!(error = format!("{error:#}"), "settle failed"),
    }
}

/// Whether a report is worth a log line: most runs of an idle system do nothing.
fn did_something(report: &RunReport) -> bool {
    [report.persisted, report.parked, report.refunded_packets].iter().any(|count| *count > 0)
}
