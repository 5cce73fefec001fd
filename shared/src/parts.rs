//! The parts of a deployment, put together once per process: what the functions and the local stack are made of.

use std::sync::Arc;
use std::time::Duration;

use aws_config::ConfigLoader;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};

use crate::config::Config;
use crate::dynamo::{Ledger, SdkTable};
use crate::metric::Meter;
use crate::redis::{Connection, RedisConfigError, RedisStore};
use crate::service::{GrabSlip, SendPacket, Settle, Stores, System, ViewPackets, Wallets};

/// How long to wait for a connection to `DynamoDB`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for one answer: well above a slow transaction, which `DynamoDB` would go on calling "in progress".
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Tries of one call; the ledger goes on with its transactions beyond them.
const ATTEMPTS_MAX: u32 = 3;

/// The ledger, and what goes with it.
pub struct LedgerParts {
    ledger: Arc<Ledger<SdkTable>>,
    config: Config,
}

/// Both stores, and what goes with them.
pub struct Parts {
    base: LedgerParts,
    stores: Stores<SdkTable, RedisStore>,
}

/// A `DynamoDB` client for the region, credentials and endpoint that the environment names.
pub async fn dynamodb() -> Client {
    Client::new(&loader().load().await)
}

/// A client for another implementation of the `DynamoDB` API at `url`. Where the environment names no credentials or no
/// region, it gets made-up ones, which such an implementation does not look at.
pub async fn dynamodb_at(url: &str) -> Client {
    let mut loader = loader().endpoint_url(url);
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_none() {
        loader = loader.credentials_provider(Credentials::new("local", "local", None, None, "local"));
    }
    if std::env::var_os("AWS_REGION").is_none() {
        loader = loader.region(Region::new("local"));
    }
    Client::new(&loader.load().await)
}

fn loader() -> ConfigLoader {
    let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).operation_attempt_timeout(ATTEMPT_TIMEOUT);
    aws_config::from_env()
        .timeout_config(timeouts.build())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
}

impl LedgerParts {
    /// Over the table that `config` names.
    pub fn new(config: Config, dynamodb: Client) -> Self {
        let table = SdkTable::new(dynamodb, config.table.clone());
        Self { ledger: Arc::new(Ledger::new(table, Arc::new(System))), config }
    }

    /// The operator's use cases.
    pub fn wallets(&self) -> Wallets<SdkTable> {
        Wallets::new(Arc::clone(&self.ledger), Arc::new(System), self.config.policy.currency.clone())
    }
}

impl Parts {
    /// Over the two stores that `config` names. Connects to nothing yet.
    pub fn new(mut config: Config, dynamodb: Client) -> Result<Self, RedisConfigError> {
        // A configuration without a Redis names no server, which is as wrong as one that names none that parses.
        let redis = config.redis.take().unwrap_or_else(|| crate::redis::RedisConfig::new(""));
        let meter = Arc::new(Meter::default());
        let hot = Arc::new(RedisStore::new(Connection::new(&redis)?).metered(Arc::clone(&meter)));
        let base = LedgerParts::new(config, dynamodb);
        let stores = Stores::new(Arc::clone(&base.ledger), hot, Arc::new(System), Arc::new(System));
        Ok(Self { base, stores: stores.metered(meter) })
    }

    /// What needs the ledger alone.
    pub const fn ledger_parts(&self) -> &LedgerParts {
        &self.base
    }

    /// Both stores, for the operator's tools.
    pub const fn stores(&self) -> &Stores<SdkTable, RedisStore> {
        &self.stores
    }

    /// The use case of sending.
    pub fn send_packet(&self) -> SendPacket<SdkTable, RedisStore> {
        SendPacket::new(self.stores.clone(), self.base.config.policy.clone())
    }

    /// The use case of grabbing.
    pub fn grab_slip(&self) -> GrabSlip<SdkTable, RedisStore> {
        GrabSlip::new(self.stores.clone(), self.base.config.policy.currency.clone())
    }

    /// The use case of looking.
    pub fn view_packets(&self) -> ViewPackets<SdkTable, RedisStore> {
        ViewPackets::new(self.stores.clone(), self.base.config.policy.currency.clone())
    }

    /// The scheduled use case.
    pub fn settle(&self) -> Settle<SdkTable, RedisStore> {
        Settle::new(self.stores.clone(), self.base.config.settle_grace)
    }
}
