//! Builds clients, stores and use cases, once per process: what the functions and the local stack are made of.

use std::sync::Arc;

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use crate::config::{Config, TicketSource};
use crate::dynamodb::SdkTable;
use crate::ledger::Ledger;
use crate::logs;
use crate::ports::{Clock, Entropy, System, Table};
use crate::redis::{Connection, RedisConfig, RedisConfigError, RedisStore, Server};
use crate::secret::Secret;
use crate::service::{CampaignReports, ClosePacket, GrabSlip, SendPacket, Settle, Stores, ViewPackets, Wallets};
use crate::telemetry::Meter;
use crate::tickets::TicketKeys;
use crate::timeouts;

/// The most tries of one call. The ledger repeats its transactions beyond that.
const ATTEMPTS_MAX: u32 = 3;

/// The ledger, and what goes with it.
pub struct LedgerWiring<T = SdkTable> {
    ledger: Arc<Ledger<T>>,
    config: Config,
    clock: Arc<dyn Clock>,
}

/// Both stores, and what goes with them.
pub struct Wiring<T = SdkTable, S = Connection> {
    base: LedgerWiring<T>,
    stores: Stores<T, RedisStore<S>>,
}

/// The process's clock and randomness.
#[derive(Clone)]
pub struct Environment {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids, seeds and jitter.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for Environment {
    /// Those of the machine.
    fn default() -> Self {
        Self { clock: Arc::new(System), entropy: Arc::new(System) }
    }
}

/// The configuration that Lambda puts into a function's environment: the region, the credentials of its role, and perhaps another
/// endpoint.
///
/// The endpoint is that of the ledger. It looks nowhere else. The code that reads profiles and assumes roles would be a tenth of a function, which needs none of it.
/// A tool that needs it loads its configuration with `aws_config` and passes it in.
pub fn environment() -> SdkConfig {
    environment_for("AWS_ENDPOINT_URL_DYNAMODB")
}

/// The same for secrets: those of Redis, of tickets and of webhooks.
pub fn environment_for_secrets() -> SdkConfig {
    environment_for("AWS_ENDPOINT_URL_SECRETS_MANAGER")
}

/// The same for the service whose endpoint that variable may name.
pub fn environment_for(endpoint: &str) -> SdkConfig {
    let is_set = |name| env(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let https = https_client();
    let provider = ProviderConfig::without_region().with_http_client(https.clone());
    // Credentials in variables do not change in a process. A process that outlives them has the address of new ones in its
    // environment.
    let credentials = CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("container", EcsCredentialsProvider::builder().configure(&provider).build());
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(https)
        .region(env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION")).map(Region::new))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .use_fips(is_set("AWS_USE_FIPS_ENDPOINT"))
        .use_dual_stack(is_set("AWS_USE_DUALSTACK_ENDPOINT"));
    config.set_endpoint_url(env(endpoint).or_else(|| env("AWS_ENDPOINT_URL")));
    config.build()
}

/// The HTTP client of the AWS SDK, with the cryptography that Redis's TLS uses too. The SDK's own choice builds for longer.
pub fn https_client() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

/// A `DynamoDB` client for the region, credentials and endpoint that `aws` names.
pub fn dynamodb(aws: &SdkConfig) -> Client {
    let bounds = TimeoutConfig::builder().connect_timeout(timeouts::CONNECT).operation_attempt_timeout(timeouts::TRY);
    let config = aws_sdk_dynamodb::config::Builder::from(aws)
        .timeout_config(bounds.build())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
    Client::from_conf(config.build())
}

/// A client for another implementation of the `DynamoDB` API at `url`.
pub fn dynamodb_at(url: &str) -> Client {
    dynamodb(&stand_in_at(url))
}

/// The configuration for another implementation of an API of AWS at `url`. Where the environment names no credentials or no
/// region, it gets made-up ones, which such an implementation does not look at.
pub fn stand_in_at(url: &str) -> SdkConfig {
    let mut aws = environment().into_builder().endpoint_url(url);
    if env("AWS_ACCESS_KEY_ID").is_none() {
        let credentials = Credentials::new("local", "local", None, None, "local");
        aws = aws.credentials_provider(SharedCredentialsProvider::new(credentials));
    }
    if env("AWS_REGION").is_none() {
        aws = aws.region(Region::new("local"));
    }
    aws.build()
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl LedgerWiring {
    /// Wires up the table that `config` names.
    pub fn new(config: Config, dynamodb: Client) -> Self {
        let table = SdkTable::new(dynamodb, config.table.clone());
        Self::over(table, config, Environment::default())
    }
}

impl<T: Table> LedgerWiring<T> {
    /// Wires up `table`.
    pub fn over(table: T, config: Config, environment: Environment) -> Self {
        if let Some(key) = &config.log_key {
            logs::name_users_under(key);
        }
        let Environment { clock, entropy } = environment;
        Self { ledger: Arc::new(Ledger::new(table, entropy)), config, clock }
    }

    /// The use case of reports.
    pub fn campaign_reports(&self) -> CampaignReports<T> {
        CampaignReports::new(Arc::clone(&self.ledger)).in_zone(self.config.policy.day_zone.clone())
    }

    /// The operator's use cases.
    pub fn wallets(&self) -> Wallets<T> {
        let Config { policy, deposit_max, user_withdrawals, .. } = &self.config;
        Wallets::new(Arc::clone(&self.ledger), Arc::clone(&self.clock), policy.currency.clone(), *deposit_max)
            .asked_by_users(*user_withdrawals, policy.limits.withdrawal_min)
    }
}

fn ticket_keys(source: TicketSource) -> Arc<Secret<TicketKeys>> {
    let parse = |text: &str| TicketKeys::parse(text).map_err(|error| error.to_string());
    Arc::new(match source {
        TicketSource::Keys(keys) => Secret::Given(Arc::new(keys)),
        TicketSource::Secret(id) => Secret::stored(&environment_for_secrets(), id, parse),
    })
}

/// The connection to the Redis that `config` names. Connects to nothing yet.
pub fn redis(config: &Config) -> Result<Connection, RedisConfigError> {
    // A configuration without a Redis is refused like one with an invalid address.
    let mut redis = config.redis.clone().unwrap_or_else(|| RedisConfig::new(""));
    if redis.aws.region().is_none() {
        redis.aws = environment_for_secrets();
    }
    Connection::new(&redis)
}

impl Wiring {
    /// Wires up the two stores that `config` names. Connects to nothing yet.
    pub fn new(config: Config, dynamodb: Client) -> Result<Self, RedisConfigError> {
        let table = SdkTable::new(dynamodb, config.table.clone());
        let server = redis(&config)?;
        Ok(Self::over(table, server, config, Environment::default()))
    }
}

impl<T: Table> Wiring<T> {
    /// Connects to the hot store. A function does so while it starts, when it has a whole processor; its first request then finds
    /// connections. If it fails, that request connects.
    pub async fn connect(&self) {
        if let Err(error) = self.stores.hot.connect().await {
            tracing::warn!(error = crate::error_chain(&error), "no connection to Redis at the start");
        }
    }

    /// The same, and reads the keys of tickets, if there are any.
    pub async fn connect_and_read_ticket_keys(&self) {
        let read = async {
            let Some(keys) = &self.stores.ticket_keys else { return };
            if let Err(cause) = keys.current().await {
                tracing::warn!(cause, "no keys of tickets at the start");
            }
        };
        tokio::join!(self.connect(), read);
    }
}

impl<T: Table, S: Server> Wiring<T, S> {
    /// Wires up `table` and a hot store that runs on `server`.
    pub fn over(table: T, server: S, config: Config, environment: Environment) -> Self {
        let meter = Arc::new(Meter::default());
        let hot = Arc::new(RedisStore::new(server).metered(Arc::clone(&meter)));
        let base = LedgerWiring::over(table, config, environment.clone());
        let stores = Stores::new(Arc::clone(&base.ledger), hot, environment.clock, environment.entropy);
        let ticket_keys = base.config.tickets.clone().map(ticket_keys);
        Self { base, stores: stores.metered(meter).taking_tickets(ticket_keys) }
    }

    /// The wiring of the ledger only.
    pub const fn ledger_wiring(&self) -> &LedgerWiring<T> {
        &self.base
    }

    /// Both stores, for the operator's tools.
    pub const fn stores(&self) -> &Stores<T, RedisStore<S>> {
        &self.stores
    }

    /// The use case of sending.
    pub fn send_packet(&self) -> SendPacket<T, RedisStore<S>> {
        SendPacket::new(self.stores.clone(), self.base.config.policy.clone())
    }

    /// The operator's use case of closing a packet.
    pub fn close_packet(&self) -> ClosePacket<T, RedisStore<S>> {
        ClosePacket::new(self.stores.clone(), self.base.config.policy.currency.clone())
    }

    /// The use case of grabbing.
    pub fn grab_slip(&self) -> GrabSlip<T, RedisStore<S>> {
        GrabSlip::new(self.stores.clone(), self.base.config.policy.currency.clone())
            .with_start_spread(self.base.config.start_spread)
    }

    /// The use case of viewing.
    pub fn view_packets(&self) -> ViewPackets<T, RedisStore<S>> {
        ViewPackets::new(self.stores.clone())
    }

    /// The use case of settling, which runs by schedule.
    pub fn settle(&self) -> Settle<T, RedisStore<S>> {
        Settle::new(self.stores.clone(), self.base.config.settle_grace)
    }
}
