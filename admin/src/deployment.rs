use std::path::Path;

use ::audit::{Auditor, Reader};
use ::aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use shared::config::{Config, ConfigError};
use shared::domain::PacketId;
use shared::dynamodb::SdkTable;
use shared::ledger::LedgerError;
use shared::redis::{Connection, RedisConfig, RedisConfigError, RedisError, RedisStore};
use shared::service::{Failure, Stores};
use shared::wiring::{self, Wiring};

use crate::options::Deployment;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Invalid arguments or environment.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Invalid Redis URL.
    #[error(transparent)]
    Redis(#[from] RedisConfigError),
    /// Invalid options of an audit.
    #[error(transparent)]
    Event(#[from] ::audit::TooManySegments),
    /// The audit could not read the table.
    #[error("the audit could not finish")]
    Audit(#[from] ::audit::ReadError),
    /// The journal could not read the table.
    #[error("the journal could not finish")]
    Journal(#[source] ::audit::ReadError),
    /// A store did not answer.
    #[error(transparent)]
    Store(#[from] Failure),
    /// Redis did not answer.
    #[error("Redis did not answer")]
    RedisUnavailable(#[from] RedisError),
    /// The timelines could not be completed.
    #[error("the timelines are not complete")]
    Timeline(#[source] ::audit::ReadError),
    /// No such packet.
    #[error("there is no packet {0}")]
    NoPacket(PacketId),
    /// The input can't be verified.
    #[error("{0}")]
    Unverifiable(String),
    /// The command does not go to the function.
    #[error("{0}")]
    NoFunction(&'static str),
    /// The function's answer can't be used.
    #[error("the function's answer was not understood: {0}")]
    Answer(String),
    /// AWS refused a call, or did not answer.
    #[error("{0}")]
    Aws(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The function ended without an answer.
    #[error("the function {0} failed: {1}")]
    Function(String, String),
    /// A file or folder that can't be read or written.
    #[error("{0}")]
    File(String, #[source] std::io::Error),
}

/// Says which file or folder could not be read or written.
pub fn in_file(path: &Path) -> impl FnOnce(std::io::Error) -> Failed {
    let name = path.display().to_string();
    move |error| Failed::File(name, error)
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        Self::Store(error.into())
    }
}

/// Both stores of a deployment.
pub struct Deployed {
    pub(crate) stores: Stores<SdkTable, RedisStore>,
    /// The connection for reads that the hot store's port does not offer.
    pub(crate) connection: Connection,
    pub(crate) auditor: Auditor,
    /// The table, for reads that the ledger does not offer.
    pub(crate) reader: Reader,
}

impl Deployed {
    /// The stores that the command line and the environment name.
    pub async fn connect(deployment: &Deployment) -> Result<Self, Failed> {
        let mut config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some(deployment.table.clone()),
            "REDIS_URL" => deployment.redis_url.clone(),
            "REDIS_CLUSTER" => Some(deployment.redis_cluster.to_string()),
            _ => std::env::var(name).ok(),
        })?;
        let (client, aws) = aws(deployment).await;
        if let (Some(redis), Some(aws)) = (&mut config.redis, aws) {
            redis.aws = aws;
        }
        Ok(Self::over(config, client)?)
    }

    /// The stores that `config` names. The connections are made when a command first needs them.
    pub fn over(mut config: Config, client: Client) -> Result<Self, RedisConfigError> {
        let redis = config.redis.get_or_insert_with(|| RedisConfig::new(""));
        if redis.aws.region().is_none() {
            redis.aws = wiring::environment_for_redis();
        }
        let connection = Connection::new(redis)?;
        let auditor = Auditor::new(client.clone(), config.table.clone());
        let reader = Reader::new(client.clone(), config.table.clone());
        let stores = Wiring::new(config, client)?.stores().clone();
        Ok(Self { stores, connection, auditor, reader })
    }
}

/// The audit of a table.
pub async fn auditor(deployment: &Deployment) -> Auditor {
    Auditor::new(aws(deployment).await.0, deployment.table.clone())
}

/// The region and the credentials of the environment or profile.
pub async fn aws_config() -> SdkConfig {
    ::aws_config::from_env().http_client(wiring::https_client()).load().await
}

/// A client for the given endpoint, or for AWS with the environment's or profile's region and credentials.
pub async fn dynamodb(deployment: &Deployment) -> Client {
    aws(deployment).await.0
}

async fn aws(deployment: &Deployment) -> (Client, Option<SdkConfig>) {
    if let Some(url) = &deployment.dynamodb_url {
        return (wiring::dynamodb_at(url), None);
    }
    let aws = aws_config().await;
    (wiring::dynamodb(&aws), Some(aws))
}
