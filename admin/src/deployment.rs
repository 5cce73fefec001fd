use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use ::audit::{Auditor, Malformed, ReadError, Reader, Source};
use ::aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
#[cfg(feature = "postgres")]
use postgres_ledger::{Database, PostgresReader, PostgresTable};
use shared::config::{Config, ConfigError};
use shared::domain::PacketId;
use shared::dynamodb::SdkTable;
use shared::ledger::{Ledger, LedgerError};
use shared::ports::{HotStoreError, System};
use shared::redis::{Connection, RedisConfig, RedisConfigError, RedisError, RedisStore};
use shared::service::{Failure, Stores};
use shared::wiring::{self, Environment, Wiring};

use crate::any_table::AnyTable;
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
    /// The table could not be read.
    #[error("the table was not read to its end")]
    Unread(#[from] ReadError),
    /// An item that can't be parsed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A store did not answer.
    #[error(transparent)]
    Store(Failure),
    /// Redis did not answer, or refused.
    #[error(transparent)]
    HotStore(RedisError),
    /// Somebody else wrote to a key of Redis.
    #[error("a key has the wrong type: `hongbao-admin rebuild` mends the keys of a packet")]
    WrongType(#[source] RedisError),
    /// The ledger did not answer; where it is.
    #[error("{0}")]
    Table(String, #[source] Box<Self>),
    /// An item does not read as an event.
    #[error(transparent)]
    Unreadable(#[from] shared::events::Unreadable),
    /// What was asked for is not there, or can't be done.
    #[error("{0}")]
    Refused(String),
    /// A plan can't be made.
    #[error(transparent)]
    Plan(#[from] plan::PlanError),
    /// The function's answer can't be used.
    #[error("the function's answer was not understood: {0}")]
    Answer(String),
    /// AWS refused a call, or did not answer.
    #[error("{0}")]
    Aws(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The function ended without an answer.
    #[error("the function {0} failed: {1}")]
    Function(String, String),
    /// `SQLite` could not work with its temporary file.
    #[error("the temporary database failed")]
    Scratch(#[from] rusqlite::Error),
    /// A file or folder that can't be read or written.
    #[error("{0}")]
    File(String, #[source] std::io::Error),
}

/// Says which file or folder could not be read or written.
pub fn in_file<E: Into<std::io::Error>>(path: &Path) -> impl FnOnce(E) -> Failed {
    move |error| Failed::File(path.display().to_string(), error.into())
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        Self::Store(error.into())
    }
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        if error.is_wrong_type() { Self::WrongType(error) } else { Self::HotStore(error) }
    }
}

impl From<Failure> for Failed {
    /// An error of Redis says by itself what is wrong and where, and whether that is a defect.
    fn from(failure: Failure) -> Self {
        let (Failure::Unavailable(source) | Failure::Defect(source)) = &failure;
        let cause = source.downcast_ref::<HotStoreError>().map(HotStoreError::cause);
        let cause = cause.and_then(|cause| cause.downcast_ref::<RedisError>());
        cause.cloned().map_or_else(|| Self::Store(failure), Self::from)
    }
}

impl Failed {
    /// There is no such packet.
    pub(crate) fn no_packet(id: PacketId) -> Self {
        Self::Refused(format!("there is no packet {id}"))
    }

    /// Says which table it is that did not answer.
    #[must_use]
    pub fn in_table(self, place: &str) -> Self {
        match self {
            Self::Unread(_) | Self::Store(_) => Self::Table(place.to_owned(), Box::new(self)),
            other => other,
        }
    }
}

/// The segments of the table that are read at once.
pub const SEGMENTS: u8 = 8;

/// The ledger's table.
pub struct Table {
    pub any: AnyTable,
    source: Arc<dyn Source>,
    pub name: String,
    /// Its name and where it is, for people.
    pub place: String,
}

impl Table {
    fn new(client: Client, name: String, endpoint: Option<&str>) -> Self {
        let place = match (endpoint, client.config().region()) {
            (Some(url), _) => format!("the table {name} at {url}"),
            (None, Some(region)) => format!("the table {name} in {region}"),
            (None, None) => format!("the table {name}"),
        };
        let source = Arc::new(Reader::new(client.clone(), name.clone()));
        Self { any: AnyTable::Dynamo(SdkTable::new(client, name.clone())), source, name, place }
    }

    /// The table that the command line and the environment name.
    pub async fn of(deployment: &Deployment) -> Result<Self, Failed> {
        if let Some(url) = &deployment.database_url {
            return Self::in_database(url);
        }
        let (client, _) = aws(deployment).await;
        Ok(Self::new(client, deployment.table.clone(), deployment.dynamodb_url.as_deref()))
    }

    #[cfg(feature = "postgres")]
    fn in_database(url: &str) -> Result<Self, Failed> {
        let authorities = std::env::var("DATABASE_CA").ok().map(Into::into).unwrap_or_default();
        let database = Database::new(url, &authorities).map_err(|error| Failed::Refused(error.to_string()))?;
        let source = Arc::new(PostgresReader::new(database.clone()));
        let place = "the database".to_owned();
        Ok(Self { any: AnyTable::Postgres(PostgresTable::new(database)), source, name: "hongbao".to_owned(), place })
    }

    #[cfg(not(feature = "postgres"))]
    fn in_database(_: &str) -> Result<Self, Failed> {
        Err(Failed::Refused("this program knows no PostgreSQL".to_owned()))
    }

    /// Says what will be read, before a reading that takes long.
    pub fn announce(&self) {
        let _ = writeln!(std::io::stderr(), "reading {}", self.place);
    }

    /// The ledger without the hot store.
    pub fn ledger(&self) -> Ledger<AnyTable> {
        Ledger::new(self.any.clone(), Arc::new(System))
    }

    /// Its items as they are.
    pub fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.source)
    }
}

/// Both stores of a deployment.
pub struct Deployed {
    pub(crate) stores: Stores<AnyTable, RedisStore>,
    /// The connection for reads that the hot store's port does not offer.
    pub(crate) connection: Connection,
    pub(crate) auditor: Auditor,
    /// The table's name and where it is, for people.
    pub(crate) place: String,
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
        if let Some(url) = &deployment.database_url {
            return Ok(Self::at(config, Table::in_database(url)?)?);
        }
        let (client, aws) = aws(deployment).await;
        if let (Some(redis), Some(aws)) = (&mut config.redis, aws) {
            redis.aws = aws;
        }
        let table = Table::new(client, config.table.clone(), deployment.dynamodb_url.as_deref());
        Ok(Self::at(config, table)?)
    }

    /// The stores that `config` names. The connections are made when a command first needs them.
    pub fn over(config: Config, client: Client) -> Result<Self, RedisConfigError> {
        let table = Table::new(client, config.table.clone(), None);
        Self::at(config, table)
    }

    fn at(mut config: Config, Table { any, source, place, .. }: Table) -> Result<Self, RedisConfigError> {
        let redis = config.redis.get_or_insert_with(|| RedisConfig::new(""));
        if redis.aws.region().is_none() {
            redis.aws = wiring::environment_for_secrets();
        }
        let connection = Connection::new(redis)?;
        let wiring = Wiring::over(any, connection.clone(), config, Environment::default());
        Ok(Self { stores: wiring.stores().clone(), connection, auditor: Auditor::over(source), place })
    }
}

/// The region and the credentials of the environment or profile.
pub async fn aws_config() -> SdkConfig {
    ::aws_config::from_env().http_client(wiring::https_client()).load().await
}

/// A client for the given endpoint, or for AWS with the environment's or profile's region and credentials.
async fn aws(deployment: &Deployment) -> (Client, Option<SdkConfig>) {
    if let Some(url) = &deployment.dynamodb_url {
        return (wiring::dynamodb_at(url), None);
    }
    let aws = aws_config().await;
    (wiring::dynamodb(&aws), Some(aws))
}
