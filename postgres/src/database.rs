use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use shared::ports::TableError;
use shared::redis::Authorities;
use shared::timeouts;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::failure::{Failure, failed};

/// The most connections of a process. Four of them at most commit.
const CONNECTIONS_MAX: usize = 16;
/// How long a request waits for a connection. A connection is free again after milliseconds, unless too much is asked.
const WAIT: Duration = Duration::from_secs(2);
/// The first version that counts: 15.
const VERSION_MIN: i32 = 150_000;
/// How long the server's host may be mute before its connections count as broken.
const TCP_TIMEOUT: Duration = Duration::from_secs(5);

/// What each connection begins with.
///
/// A commit must be on the disk, and on the standby if the server waits for one; a stronger setting of the server stays. Each statement is a
/// transaction, whose conditions hold for the rows that it locks. The server gives a statement up before this process does, so that
/// it is known to be undone; a commit is not given up. A lock is held for milliseconds: one that is held for longer must not keep
/// those waiting that share a statement. Rows are found by their keys, always: a plan that reads them in another
/// order would lock them in another order.
const SETTINGS: &str = "
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
    SET default_transaction_isolation = 'read committed';
    SET statement_timeout = '2500ms';
    SET lock_timeout = '500ms';
    SET enable_seqscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan;
    SET jit = off;
";

mod migrations {
    refinery::embed_migrations!("migrations");
}

/// Why a database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is not one of a `PostgreSQL` server. It may have a password, so nothing repeats it.
    #[error("the address of the database is none: postgres://USER:PASSWORD@HOST/NAME")]
    Address,
    /// The certificates that TLS is to trust can't be read.
    #[error("TLS to the database is not possible")]
    Tls(#[source] std::io::Error),
    /// The server can't be reached, or refuses this user.
    #[error("the database can't be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server may lose what it has answered as committed, or is too old.
    #[error("the database is not safe for money: {0}")]
    Unsafe(&'static str),
    /// The tables could not be made or changed.
    #[error("the tables can't be brought up to date")]
    Migration(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A database of `PostgreSQL`, and a schema in it that is the ledger's.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Pool,
    schema: String,
}

impl Database {
    /// The database at `url`, which may name several hosts (`target_session_attrs=read-write` then finds the primary). `ca` are the
    /// authorities that TLS trusts, where the address asks for TLS. Connects to nothing yet.
    pub fn new(url: &str, ca: &Authorities) -> Result<Self, ConnectError> {
        let mut config: tokio_postgres::Config = url.parse().map_err(|_| ConnectError::Address)?;
        config.application_name("hongbao").connect_timeout(timeouts::CONNECT).tcp_user_timeout(TCP_TIMEOUT);
        let tls = MakeRustlsConnect::new(ca.tls().map_err(ConnectError::Tls)?.as_ref().clone());
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let settings = Hook::async_fn(|client, _| {
            Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
        });
        let timeouts = Timeouts { wait: Some(WAIT), create: Some(WAIT), recycle: None };
        let pool = Pool::builder(Manager::from_config(config, tls, manager)).runtime(Runtime::Tokio1);
        let pool = pool.max_size(CONNECTIONS_MAX).timeouts(timeouts).post_create(settings).build();
        Ok(Self { pool: pool.map_err(|error| ConnectError::Unreachable(error.into()))?, schema: "hongbao".to_owned() })
    }

    /// The same database, with the ledger in another schema.
    #[must_use]
    pub fn in_schema(&self, schema: &str) -> Self {
        Self { pool: self.pool.clone(), schema: schema.to_owned() }
    }

    /// Makes the tables, or brings them up to date. Several processes may do so at once.
    pub async fn migrate(&self) -> Result<(), ConnectError> {
        self.prepare("").await
    }

    /// The same, and from now on notes the changes that may be [`Events`](crate::Events).
    pub async fn migrate_with_events(&self) -> Result<(), ConnectError> {
        self.prepare(include_str!("events.sql")).await
    }

    /// Asks the server whether it keeps what it has answered as committed.
    pub async fn check(&self) -> Result<(), ConnectError> {
        let unreachable = |error: PoolError| ConnectError::Unreachable(error.into());
        let unread = |error: tokio_postgres::Error| ConnectError::Unreachable(error.into());
        let client = self.pool.get().await.map_err(unreachable)?;
        let is_on = "SELECT current_setting('server_version_num')::int, current_setting('fsync')::bool,
            current_setting('full_page_writes')::bool";
        let row = client.query_one(is_on, &[]).await.map_err(unread)?;
        match (row.try_get(0).map_err(unread)?, row.try_get(1).map_err(unread)?, row.try_get(2).map_err(unread)?) {
            (..VERSION_MIN, _, _) => Err(ConnectError::Unsafe("it must be PostgreSQL 15 or later")),
            (_, false, _) => Err(ConnectError::Unsafe("its setting fsync is off")),
            (_, _, false) => Err(ConnectError::Unsafe("its setting full_page_writes is off")),
            _ => Ok(()),
        }
    }

    /// Asks the server for an answer.
    pub async fn reach(&self) -> Result<(), TableError> {
        self.connection().await.map_err(failed)?.query(timeouts::READ_TRY, "SELECT 1", &[]).await?;
        Ok(())
    }

    async fn prepare(&self, afterwards: &str) -> Result<(), ConnectError> {
        let unreachable = |error: PoolError| ConnectError::Unreachable(error.into());
        // Its session ends with this: it has settings of its own.
        let mut client = Object::take(self.pool.get().await.map_err(unreachable)?);
        let broken = |error: tokio_postgres::Error| ConnectError::Migration(error.into());
        let schema = &self.schema;
        let begin = format!(
            "SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock(hashtext('hongbao'), hashtext('{schema}'));
             CREATE SCHEMA IF NOT EXISTS \"{schema}\"; SET search_path = \"{schema}\";"
        );
        client.batch_execute(&begin).await.map_err(broken)?;
        let run = migrations::migrations::runner().run_async(&mut *client).await;
        run.map_err(|error| ConnectError::Migration(error.into()))?;
        client.batch_execute(afterwards).await.map_err(broken)
    }

    /// The schema as a statement names it.
    pub(crate) fn quoted_schema(&self) -> String {
        format!("\"{}\"", self.schema)
    }

    /// A connection for some statements, one after the other.
    pub(crate) async fn connection(&self) -> Result<Connection, PoolError> {
        Ok(Connection { object: Some(self.pool.get().await?), is_spoiled: false })
    }
}

/// A connection of the pool, to which it goes back if it is in order.
pub struct Connection {
    object: Option<Object>,
    is_spoiled: bool,
}

impl Connection {
    /// Runs a statement, which is a transaction of its own, and returns its rows.
    pub async fn query(
        &mut self,
        within: Duration,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        // Behind a statement that has no end, each other one would wait for its own time-out.
        let Some(connection) = self.object.as_ref().filter(|_| !self.is_spoiled) else { return Err(Failure::Late) };
        // It stays so if nobody waits for the rows any more.
        self.is_spoiled = true;
        let rows = timeout(within, async {
            let statement = connection.prepare_cached(statement).await?;
            connection.query(&statement, parameters).await
        });
        let rows = rows.await.map_err(|_| Failure::Late)?.map_err(Failure::from);
        self.is_spoiled = matches!(rows, Err(Failure::Elsewhere(_) | Failure::Unknown(_)));
        rows
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(connection) = self.object.take()
            && self.is_spoiled
        {
            drop(Object::take(connection));
        }
    }
}
