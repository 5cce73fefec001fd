//! The ledger's table, in whichever store the operator's tool finds it. The function `operate` knows `DynamoDB` only.

#[cfg(feature = "postgres")]
use postgres_ledger::PostgresTable;
use shared::dynamodb::SdkTable;
use shared::ports::{Batch, Item, Key, Query, Table, TableError, TransactError, Write};

/// A table of one kind or the other.
#[derive(Clone, Debug)]
pub enum AnyTable {
    /// `DynamoDB`.
    Dynamo(SdkTable),
    /// `PostgreSQL`.
    #[cfg(feature = "postgres")]
    Postgres(PostgresTable),
}

/// Calls the same method of either.
macro_rules! of_either {
    ($table:expr, $method:ident($($argument:expr),*)) => {
        match $table {
            AnyTable::Dynamo(table) => table.$method($($argument),*).await,
            #[cfg(feature = "postgres")]
            AnyTable::Postgres(table) => table.$method($($argument),*).await,
        }
    };
}

impl Table for AnyTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        of_either!(self, get(key))
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        of_either!(self, batch_get(keys))
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        of_either!(self, query(query))
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        of_either!(self, due(shard, until_ms, after, limit))
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        of_either!(self, transact(writes, token))
    }
}
