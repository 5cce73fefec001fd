//! `hongbao serve`: the engine on one's own server, beside Redis or Valkey and `PostgreSQL`. Several of these processes share the two stores.

mod duties;
mod engine;
mod events;
mod metrics;
mod operators;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use local::gateway::Gateway;
use local::gateway::sign_in::{SignIn, SignInOptions};
use postgres_ledger::Database;
use redis::cmd;
use shared::batching::Permits;
use shared::config::Config;
use shared::domain::AckMode;
use shared::redis::{Authorities, Call, Connection};
use shared::wiring;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::either;
use engine::Engine;
use events::Delivery;

/// The log filter without `RUST_LOG`.
const LOG_FILTER: &str = "info,tokio_postgres=warn,refinery_core=warn";
/// Concurrent requests. Beyond that the stores would only be slower.
const REQUESTS_AT_ONCE: usize = 1_000;
/// How long a proxy takes to see that this process is ending.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
/// How long unfinished requests may take at the end.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(15);

/// What `serve` takes. Each has a variable too, which other users of the machine don't see in a list of processes.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeOptions {
    /// The address to listen on; what encrypts is a proxy before it
    #[arg(long, value_name = "ADDRESS", env = "LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// The ledger's database, `postgres://USER:PASSWORD@HOST/NAME`
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,

    /// The Redis or Valkey server
    #[arg(long, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    redis_url: String,

    #[command(flatten)]
    sign_in: SignInOptions,

    /// The addresses of proxies, separated by commas: they alone may say who the client is, with X-Forwarded-For
    #[arg(long, value_name = "ADDRESSES", env = "TRUSTED_PROXIES", value_delimiter = ',')]
    trusted_proxies: Vec<IpAddr>,

    /// Deliver each event to this URL
    #[arg(long, value_name = "URL", env = "WEBHOOK_URL", requires = "webhook_secret")]
    webhook_url: Option<String>,

    /// The secret that signs webhooks, whsec_ and the base64 of at least 24 bytes; several, separated by commas, each sign
    #[arg(long, value_name = "SECRET", env = "WEBHOOK_SECRET", hide_env_values = true, requires = "webhook_url")]
    webhook_secret: Option<String>,
}

/// Serves until a signal ends it.
pub async fn run(options: ServeOptions) -> anyhow::Result<()> {
    shared::logs::to_stdout_as_json(LOG_FILTER);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let running = tokio::select! {
        running = Running::start(options) => running?,
        () = either(&mut terminate, &mut interrupt) => return Ok(()),
    };
    let Running { engine, gateway, mut duties } = running;
    tokio::select! {
        () = either(&mut terminate, &mut interrupt) => {}
        // None ends by itself. Without it this process would look well, and refund nothing.
        ended = duties.join_next() => bail!("a duty has ended: {ended:?}"),
    }
    tracing::info!("ending");
    engine.drain();
    sleep(NOTICED_WITHIN).await;
    // Requests end that have begun. What a duty had begun, another process does again.
    gateway.stop(REQUESTS_END_WITHIN).await;
    tracing::info!("ended");
    Ok(())
}

struct Running {
    engine: Arc<Engine>,
    gateway: Gateway,
    /// They end with it.
    duties: JoinSet<()>,
}

impl Running {
    async fn start(options: ServeOptions) -> anyhow::Result<Self> {
        let address = options.listen;
        let unusable = || format!("{address} can't be listened on");
        let listener = TcpListener::bind(address).await.with_context(unusable)?;
        let config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some("hongbao".to_owned()),
            "REDIS_URL" => Some(options.redis_url.clone()),
            _ => std::env::var(name).ok(),
        })?;
        let authorities: Authorities = std::env::var("DATABASE_CA").ok().map(Into::into).unwrap_or_default();
        let database = Database::new(&options.database_url, &authorities)?;
        let redis = wiring::redis(&config)?;
        // What is not safe does not start. Afterwards a store may go away and come back.
        database.check().await?;
        check_redis(&redis, config.policy.ack).await?;
        let sign_in = SignIn::new(&options.sign_in).await?;
        let sign_in =
            sign_in.context("nobody could tell who a user is: --jwks, --issuer and --audience are required")?;
        let delivery = Delivery::new(&options, &config, &database)?;
        match delivery {
            Some(_) => database.migrate_with_events().await?,
            None => database.migrate().await?,
        }
        let engine = Arc::new(Engine::new(config, database, redis, sign_in, options.trusted_proxies)?);
        let duties = duties::start(&engine, delivery);
        let limiter = Permits::new(REQUESTS_AT_ONCE);
        let gateway = Gateway::serve(listener, Arc::clone(&engine), limiter).with_context(unusable)?;
        tracing::info!(address = %gateway.address(), version = env!("CARGO_PKG_VERSION"), "serving");
        Ok(Self { engine, gateway, duties })
    }
}

/// Asks the server whether it keeps what the engine relies on.
async fn check_redis(redis: &Connection, ack: AckMode) -> anyhow::Result<()> {
    let unreachable = "Redis can't be reached";
    let memory: String = redis.run(&Call::from(cmd("INFO")).arg("memory")).await.context(unreachable)?;
    let policy = memory.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).unwrap_or_default();
    if policy != "noeviction" {
        bail!(
            "Redis evicts keys when its memory is full (maxmemory-policy {policy}), and a slip could be held twice: it must be noeviction"
        );
    }
    if ack == AckMode::Redis {
        for (name, wanted) in [("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")] {
            let call = Call::from(cmd("CONFIG")).arg("GET").arg(name);
            let found: HashMap<String, String> = redis.run(&call).await.context(unreachable)?;
            let value = found.get(name).map_or("unknown", String::as_str);
            if value != wanted {
                bail!(
                    "with GRAB_ACK=redis a grab is a promise that only Redis knows: {name} must be {wanted}, and is {value}"
                );
            }
        }
    }
    Ok(())
}
