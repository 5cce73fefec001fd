//! The functions' handlers over the two stores: the system behind the gateway.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use http::Response;
use lambda_http::{Body, Request};
use serde_json::Value;
use shared::config::{Config, ConfigError};
use shared::domain::{Limits, Partition};
use shared::dynamodb::{SdkTable, create_table};
use shared::error_chain;
use shared::http::without_base_path;
use shared::ports::HotStore;
use shared::redis::{RedisConfigError, RedisStore};
use shared::service::{ClosePacket, GrabSlip, Report, SendPacket, Settle, ViewPackets, Wallets};
use shared::wiring::{self, Wiring};
use tokio::time::Instant;

use crate::gateway::{Function, Invoke, SettleFailed};
use crate::options::Ack;
use crate::webhooks::sqs::{self, SqsError};
use crate::webhooks::{Queue, Watch};

/// How long a run of settle may take. One run follows another here, and a packet that expires during a run waits for the next.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The grace. One machine has one clock, so almost none is needed.
const SETTLE_GRACE_MS: &str = "250";
/// The key of users' names in logs. The logs stay on this machine, with the ledger.
const LOG_KEY: &str = "local";

/// The stores' addresses and settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Redis or Valkey server, or a node of the cluster.
    pub redis_url: String,
    /// Whether it is a cluster.
    pub redis_cluster: bool,
    /// The `DynamoDB` endpoint.
    pub dynamodb_url: String,
    /// The table, created if absent.
    pub table: String,
    /// The acknowledgement mode.
    pub ack: Ack,
    /// The path before all others, if it is not that of the environment.
    pub base_path: Option<String>,
    /// Whether the program writes a log of requests into the data folder.
    pub logs_requests: bool,
    /// More hosts than its own under which the gateway answers.
    pub allowed_hosts: Vec<String>,
    /// Whether the endpoint is that of the embedded database.
    pub ledger_is_embedded: bool,
}

/// The five functions, ready to be called.
pub struct Stack {
    send: SendPacket<SdkTable, RedisStore>,
    close: ClosePacket<SdkTable, RedisStore>,
    grab: GrabSlip<SdkTable, RedisStore>,
    view: ViewPackets<SdkTable, RedisStore>,
    wallet: Wallets<SdkTable>,
    settle: Settle<SdkTable, RedisStore>,
    hot: Arc<RedisStore>,
    limits: Limits,
    base_path: String,
    allowed_hosts: Vec<String>,
    webhooks: Option<Arc<Queue>>,
}

/// Why the functions can't run.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// An option or an environment variable is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The Redis URL is not valid.
    #[error("{}", error_chain(.0))]
    Redis(#[from] RedisConfigError),
    /// Redis can't be reached.
    #[error("Redis can't be reached")]
    Unreachable(#[source] Arc<dyn Error + Send + Sync>),
    /// A store can't be reached or prepared.
    #[error("the stores can't be used: {0}")]
    Unavailable(String),
}

/// The key of users' names in logs.
pub fn log_key() -> String {
    std::env::var("LOG_KEY").unwrap_or_else(|_| LOG_KEY.to_owned())
}

impl Settings {
    /// The functions' configuration.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        Config::for_both_stores(|name| self.variable(name))
    }

    /// The options, and the environment for the rest.
    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "TABLE_NAME" => Some(self.table.clone()),
            "REDIS_URL" => Some(self.redis_url.clone()),
            "REDIS_CLUSTER" => Some(self.redis_cluster.to_string()),
            "BASE_PATH" if self.base_path.is_some() => self.base_path.clone(),
            "LOG_KEY" => Some(log_key()),
            "GRAB_ACK" => Some(self.ack.name().to_owned()),
            "SETTLE_GRACE_MS" => std::env::var(name).ok().or_else(|| Some(SETTLE_GRACE_MS.to_owned())),
            _ => std::env::var(name).ok(),
        }
    }
}

impl Stack {
    /// Connects to the stores and creates the table if it is absent. `webhooks` are the queue of webhooks and what watches all transactions
    /// for it, if there are webhooks.
    pub async fn connect(settings: Settings, webhooks: Option<(Arc<Queue>, Watch)>) -> Result<Self, StackError> {
        let config = settings.config()?;
        let mut client = wiring::dynamodb_at(&settings.dynamodb_url);
        let (queue, watch) = webhooks.unzip();
        if let Some(watch) = watch {
            client = Client::from_conf(client.config().to_builder().interceptor(watch).build());
        }
        create_table(&client, &settings.table)
            .await
            .map_err(|error| StackError::Unavailable(error_chain(error.as_ref())))?;
        let (limits, base_path) = (config.policy.limits.clone(), config.base_path.clone());
        let mut table = SdkTable::new(client, settings.table);
        if settings.ledger_is_embedded {
            // For each token it walks through all tokens of the last ten minutes, while everything else waits.
            table = table.without_tokens();
        }
        let wiring = Wiring::over(table, config)?;
        Ok(Self {
            send: wiring.send_packet(),
            close: wiring.close_packet(),
            grab: wiring.grab_slip().running_on(),
            view: wiring.view_packets(),
            wallet: wiring.ledger_wiring().wallets(),
            settle: wiring.settle(),
            hot: Arc::clone(&wiring.stores().hot),
            limits,
            base_path,
            allowed_hosts: settings.allowed_hosts.clone(),
            webhooks: queue,
        })
    }

    /// Asks Redis for an answer.
    pub async fn reach_redis(&self) -> Result<(), StackError> {
        let asked = self.hot.pending_parts(Partition::wrapping(0)).await;
        asked.map(drop).map_err(|error| StackError::Unreachable(Arc::clone(error.cause())))
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl Invoke for Stack {
    async fn call(&self, function: Function, request: Request) -> Response<Body> {
        let request = without_base_path(request, &self.base_path);
        match function {
            Function::Send => send::handle(&self.send, &self.close, request).await,
            Function::Grab => grab::handle(&self.grab, request).await,
            Function::View => view::handle(&self.view, request).await,
            Function::Wallet => wallet::handle(&self.wallet, request).await,
        }
    }

    async fn settle(&self) -> Result<Report, SettleFailed> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let report = settle::handle(&self.settle, settle::Event::default(), deadline).await;
        report.map_err(|error| SettleFailed(error_chain(&error)))
    }

    fn sqs(&self, operation: &str, body: &[u8]) -> Option<Result<Value, SqsError>> {
        self.webhooks.as_ref().map(|queue| sqs::answer(queue, operation, body))
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn allowed_hosts(&self) -> &[String] {
        &self.allowed_hosts
    }

    fn base_path(&self) -> &str {
        &self.base_path
    }
}
