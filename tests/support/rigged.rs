//! A table that counts requests and can lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use shared::dynamodb::SdkTable;
use shared::ports::{Batch, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use tokio::sync::Notify;

/// Counts and faults, shared by all tables of a world.
///
/// Replaces client request tokens by others, so that nothing can depend on them.
#[derive(Debug, Default)]
pub struct Rig {
    gets: AtomicU64,
    queries: AtomicU64,
    transactions: AtomicU64,
    refused: AtomicU64,
    answers_to_lose: AtomicU32,
    answers_to_hold: AtomicU32,
    held: Notify,
    throttled: AtomicBool,
}

impl Rig {
    /// From now on all transactions are throttled, or none.
    pub fn throttle(&self, throttled: bool) {
        self.throttled.store(throttled, Ordering::SeqCst);
    }

    /// Reads of single items so far.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    /// Queries so far.
    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::SeqCst)
    }

    /// Transactions so far.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::SeqCst)
    }

    /// Transactions so far that a condition refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// The next `count` transactions are executed, but their answers are lost.
    pub fn lose_answers(&self, count: u32) {
        self.answers_to_lose.store(count, Ordering::SeqCst);
    }

    /// The next transaction is executed, but its caller waits for ever. A caller that is aborted meanwhile acts like a killed
    /// process. [`Self::held`] waits for that transaction.
    pub fn hold_answer(&self) {
        self.answers_to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits for a transaction whose answer is held.
    pub async fn held(&self) {
        self.held.notified().await;
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
        self.rig.gets.fetch_add(1, Ordering::SeqCst);
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
        self.rig.transactions.fetch_add(1, Ordering::SeqCst);
        if self.rig.throttled.load(Ordering::SeqCst) {
            return Err(TransactError::Cancelled(vec![Reason::Busy("ThrottlingError".to_owned()); writes.len()]));
        }
        let answer = self.table.transact(writes, &format!("{:032x}", rand::random::<u128>())).await;
        if take_one(&self.rig.answers_to_hold) {
            self.rig.held.notify_one();
            std::future::pending::<()>().await;
        }
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
