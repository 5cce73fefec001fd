//! A table that counts requests and can lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use shared::dynamodb::SdkTable;
use shared::ports::{Batch, Item, Key, Query, Reason, Table, TableError, TransactError, Write};

/// Counts and faults, shared by all tables of a world.
///
/// Replaces client request tokens by others, so that nothing can depend on them.
#[derive(Debug, Default)]
pub struct Rig {
    queries: AtomicU64,
    refused: AtomicU64,
    answers_to_lose: AtomicU32,
}

impl Rig {
    /// Queries so far.
    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::SeqCst)
    }

    /// Transactions so far that a condition refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// The next `count` transactions are executed, but their answers are lost.
    pub fn lose_answers(&self, count: u32) {
        self.answers_to_lose.store(count, Ordering::SeqCst);
    }
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// The real table behind a [`Rig`].
#[derive(Debug)]
pub struct Rigged {
    table: SdkTable,
    rig: Arc<Rig>,
}

impl Rigged {
    /// Puts `rig` in front of `table`.
    pub const fn new(table: SdkTable, rig: Arc<Rig>) -> Self {
        Self { table, rig }
    }
}

impl Table for Rigged {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.rig.queries.fetch_add(1, Ordering::SeqCst);
        self.table.query(query).await
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        self.table.due(shard, until_ms, after, limit).await
    }

    async fn transact(&self, writes: &[Write], _: &str) -> Result<(), TransactError> {
        let answer = self.table.transact(writes, &format!("{:032x}", rand::random::<u128>())).await;
        if take_one(&self.rig.answers_to_lose) {
            return Err(TableError::Unavailable("the test lost the answer".into()).into());
        }
        if let Err(TransactError::Cancelled(reasons)) = &answer
            && reasons.iter().any(|reason| matches!(reason, Reason::ConditionFailed(_)))
        {
            self.rig.refused.fetch_add(1, Ordering::SeqCst);
        }
        answer
    }
}
