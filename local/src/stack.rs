//! The functions' handlers over the two stores: the system behind the gateway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin::{Deployment, Queues, Tool};
use anyhow::{Context as _, anyhow, bail};
use aws_sdk_dynamodb::Client;
use http::Response;
use lambda_http::aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use lambda_http::{Body, Request};
use serde_json::Value;
use shared::config::{Config, ConfigError};
use shared::dynamodb::{SdkTable, create_table};
use shared::http::{Code, Function};
use shared::redis::RedisConfigError;
use shared::service::RunReport;
use shared::wiring::{self, Environment};
use tokio::sync::RwLock;
use tokio::time::Instant;

use crate::functions::{Functions, SETTLE_TIMEOUT};
use crate::gateway::routes::is_operators;
use crate::gateway::sign_in::SignIn;
use crate::gateway::{self, Arrival, Entry, Invoke, event};
use crate::options::{DevOptions, Mode, Options};
use crate::sandbox::{HotServer, Sandbox};
use crate::webhooks::sqs;
use crate::webhooks::{Queue, Watch};

/// The grace. One machine has one clock, so almost none is needed.
const SETTLE_GRACE_MS: &str = "250";
/// A sandbox has one clock, which tests move: what is due by it is due.
const NO_GRACE: &str = "0";
/// How long the webhooks that have become due may take, and for how long nothing may become of any of them.
const WEBHOOKS_TIMEOUT: Duration = Duration::from_secs(30);
const WEBHOOKS_PATIENCE: Duration = Duration::from_secs(2);
/// The key of users' names in logs. The logs stay on this machine, with the ledger.
const LOG_KEY: &str = "local";

/// Where the stores are.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The Redis or Valkey server, or a node of the cluster; empty in a sandbox.
    pub redis_url: String,
    /// The `DynamoDB` endpoint.
    pub dynamodb_url: String,
    /// Whether the endpoint is that of the embedded database.
    pub ledger_is_embedded: bool,
}

/// The five functions, ready to be called.
pub struct Stack {
    /// Each call reads it to its end. What changes all of them, such as the clock, waits for them.
    functions: RwLock<Functions<SdkTable, HotServer>>,
    client: Client,
    table: SdkTable,
    config: Config,
    settings: gateway::Settings,
    /// Verifies users' tokens; without it callers are believed.
    sign_in: Option<SignIn>,
    sandbox: Option<Arc<Sandbox>>,
    webhooks: Option<Arc<Queue>>,
    /// The commands of the console.
    tool: Option<Tool>,
}

/// The key of users' names in logs.
pub fn log_key() -> String {
    std::env::var("LOG_KEY").unwrap_or_else(|_| LOG_KEY.to_owned())
}

/// The functions' configuration over these stores: the options, and the environment for the rest.
pub fn config(options: &Options, stores: &Stores) -> Result<Config, ConfigError> {
    let is_sandbox = matches!(options.mode, Mode::Sandbox(_));
    let is_cluster = matches!(options.mode, Mode::Dev(DevOptions { redis_cluster: true, .. }));
    let variable = |name: &str| match name {
        "TABLE_NAME" => Some(options.table.clone()),
        "REDIS_URL" => Some(stores.redis_url.clone()),
        "REDIS_CLUSTER" => Some(is_cluster.to_string()),
        "BASE_PATH" if options.base_path.is_some() => options.base_path.clone(),
        "TICKET_KEYS" if options.ticket_key.is_some() => options.ticket_key.clone(),
        "USER_WITHDRAWALS" if options.user_withdrawals => Some("true".to_owned()),
        "LOG_KEY" => Some(log_key()),
        "GRAB_ACK" => Some(options.ack.name().to_owned()),
        "SETTLE_GRACE_MS" if is_sandbox => Some(NO_GRACE.to_owned()),
        "SETTLE_GRACE_MS" => std::env::var(name).ok().or_else(|| Some(SETTLE_GRACE_MS.to_owned())),
        _ => std::env::var(name).ok(),
    };
    if is_sandbox { Config::for_the_ledger(variable) } else { Config::for_both_stores(variable) }
}

/// What runs the console's commands over the same stores, as `hongbao-admin` beside the stack would.
pub fn tool(config: &Config, stores: &Stores, queues: Queues, log: Vec<PathBuf>) -> Tool {
    let deployment = Deployment {
        table: config.table.clone(),
        dynamodb_url: Some(stores.dynamodb_url.clone()),
        database_url: None,
        redis_url: Some(stores.redis_url.clone()),
        redis_cluster: config.redis.as_ref().is_some_and(|redis| redis.cluster),
    };
    let currency = Some(config.policy.currency.clone());
    Tool { deployment, via: None, queues, currency, log, log_key: Some(log_key()) }
}

impl Stack {
    /// Connects to the stores and creates the table if it is absent. `watch` watches all transactions for webhooks, if there are any.
    pub async fn connect(
        config: Config,
        options: Options,
        stores: &Stores,
        sandbox: Option<Arc<Sandbox>>,
        watch: Option<Watch>,
        tool: Option<Tool>,
    ) -> anyhow::Result<Self> {
        let mut client = wiring::dynamodb_at(&stores.dynamodb_url);
        let webhooks = watch.as_ref().map(|watch| Arc::clone(&watch.queue));
        if let Some(watch) = watch {
            client = Client::from_conf(client.config().to_builder().interceptor(watch).build());
        }
        let created = create_table(&client, &config.table).await;
        created.map_err(|error| anyhow!(error)).context("the stores can't be used")?;
        let mut table = SdkTable::new(client.clone(), config.table.clone());
        if stores.ledger_is_embedded {
            // For each token it walks through all tokens of the last ten minutes, while everything else waits.
            table = table.without_tokens();
        }
        let functions = functions(table.clone(), config.clone(), sandbox.as_deref())?;
        let sign_in = SignIn::new(&options.sign_in).await?;
        let settings = gateway::Settings {
            entry: if sign_in.is_some() { Entry::SignedIn } else { Entry::Believed },
            proxies: Vec::new(),
            base_path: config.base_path.clone(),
            allowed_hosts: options.allow_host,
            limits: config.policy.limits.clone(),
            user_withdrawals: config.user_withdrawals,
            has_tool: tool.is_some(),
            has_log: tool.as_ref().is_some_and(|tool| !tool.log.is_empty()),
        };
        Ok(Self {
            functions: RwLock::new(functions),
            client,
            table,
            config,
            settings,
            sign_in,
            sandbox,
            webhooks,
            tool,
        })
    }

    /// Asks Redis for an answer.
    pub async fn reach_redis(&self) -> anyhow::Result<()> {
        self.functions.read().await.reach_redis().await
    }

    /// Runs settle until nothing is due any more.
    async fn settle_all(&self) -> anyhow::Result<()> {
        let give_up = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let RunReport { persisted, refunded_packets, due_left, .. } = self.settle().await?;
            if persisted + refunded_packets + due_left == 0 {
                return Ok(());
            }
            if Instant::now() >= give_up {
                bail!("{due_left} packets are still due after {SETTLE_TIMEOUT:?}");
            }
        }
    }

    /// Waits for the webhooks that can be delivered now. Returns whether each was tried.
    async fn deliver_all(&self, patience: Duration) -> anyhow::Result<bool> {
        let Some(webhooks) = &self.webhooks else { return Ok(true) };
        Ok(webhooks.delivered_within(WEBHOOKS_TIMEOUT, patience).await?)
    }

    fn drop_webhooks(&self) -> anyhow::Result<()> {
        Ok(self.webhooks.as_ref().map_or(Ok(()), |webhooks| webhooks.empty())?)
    }

    /// Functions that remember nothing of what they read.
    fn forgetful(&self, sandbox: &Sandbox) -> Result<Functions<SdkTable, HotServer>, RedisConfigError> {
        functions(self.table.clone(), self.config.clone(), Some(sandbox))
    }
}

/// Functions that remember nothing yet.
fn functions(
    table: SdkTable,
    config: Config,
    sandbox: Option<&Sandbox>,
) -> Result<Functions<SdkTable, HotServer>, RedisConfigError> {
    let (server, environment) = match sandbox {
        Some(sandbox) => (sandbox.server(), sandbox.environment()),
        None => (HotServer::Redis(wiring::redis(&config)?), Environment::default()),
    };
    Ok(Functions::new(table, server, config, environment))
}

impl Invoke for Stack {
    async fn call(&self, function: Function, request: Request) -> Response<Body> {
        self.functions.read().await.call(function, request).await
    }

    async fn authorize(&self, arrival: Arrival<'_>) -> Result<Option<ApiGatewayRequestAuthorizer>, Response<Body>> {
        let headers = &arrival.parts.headers;
        Ok(match &self.sign_in {
            Some(sign_in) if !is_operators(arrival.path) => sign_in.subject(headers).await.map(event::of_user),
            _ => event::believed(arrival.path, headers),
        })
    }

    async fn settle(&self) -> anyhow::Result<RunReport> {
        Ok(self.functions.read().await.settle().await?)
    }

    fn sandbox(&self) -> Option<&Sandbox> {
        self.sandbox.as_deref()
    }

    async fn advance(&self, sandbox: &Sandbox, by: Duration) -> anyhow::Result<bool> {
        let mut functions = self.functions.write().await;
        sandbox.clock.advance(by);
        // What they remember for a time was read at another time. What users have asked counts on, by the clock.
        *functions = self.forgetful(sandbox)?.counting_on(&functions);
        drop(functions);
        self.settle_all().await?;
        self.deliver_all(WEBHOOKS_PATIENCE).await
    }

    async fn reset(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        // What is on its way belongs to the time before, and the end of a try is noted in the ledger.
        self.drop_webhooks()?;
        if !self.deliver_all(WEBHOOKS_TIMEOUT).await? {
            bail!("webhooks are still on their way after {WEBHOOKS_TIMEOUT:?}");
        }
        let mut functions = self.functions.write().await;
        let name = &self.config.table;
        self.client.delete_table().table_name(name).send().await?;
        create_table(&self.client, name).await.map_err(|error| anyhow!(error))?;
        self.drop_webhooks()?;
        sandbox.reset();
        *functions = self.forgetful(sandbox)?;
        drop(functions);
        Ok(())
    }

    fn sqs(&self, operation: &str, body: &[u8]) -> anyhow::Result<Option<Value>> {
        Ok(self.webhooks.as_ref().map_or(Ok(None), |queue| sqs::answer(queue, operation, body))?)
    }

    async fn tool(&self, body: &[u8]) -> Option<Result<Value, (Code, String)>> {
        Some(self.tool.as_ref()?.answer(body).await)
    }

    fn settings(&self) -> gateway::Settings {
        self.settings.clone()
    }
}
