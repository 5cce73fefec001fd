//! A table that counts requests and can lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use shared::dynamodb::SdkTable;
use shared::ports::{Batch, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use tokio::sync::Notify;

/// Counts and faults, shared by all tables of a world.
///
/// Replaces client request tokens by others unless asked not to, so that nothing can depend on them.
#[derive(Debug, Default)]
pub struct Rig {
    gets: AtomicU64,
    queries: AtomicU64,
    transactions: AtomicU64,
    refused: AtomicU64,
    keep_tokens: AtomicBool,
    answers_to_lose: AtomicU32,
    answers_to_hold: AtomicU32,
    held: Notify,
    released: Notify,
    misbehaves_one_in: AtomicU32,
    throttled: AtomicBool,
}

/// Faults of a transaction, besides those of the embedded `DynamoDB` itself.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The transaction is not executed; the caller can't know.
    RequestLost,
    /// The transaction is executed, but its answer is lost.
    ReplyLost,
    /// The transaction is cancelled because another one runs on one of its items.
    Conflict,
    /// If the transaction is cancelled, the reasons contain no items.
    Bare,
    /// If the transaction is cancelled, the reasons without a failed condition become throttling.
    Mixed,
}

impl Rig {
    /// From now on one transaction in `one_in` meets a fault of any kind; 0: none.
    pub fn misbehave(&self, one_in: u32) {
        self.misbehaves_one_in.store(one_in, Ordering::SeqCst);
    }

    /// From now on all transactions are throttled, or none.
    pub fn throttle(&self, throttled: bool) {
        self.throttled.store(throttled, Ordering::SeqCst);
    }

    fn fault(&self) -> Option<Fault> {
        const FAULTS: [Fault; 5] = [Fault::RequestLost, Fault::ReplyLost, Fault::Conflict, Fault::Bare, Fault::Mixed];
        let one_in = self.misbehaves_one_in.load(Ordering::SeqCst);
        let struck = one_in > 0 && rand::random_range(0..one_in) == 0;
        struck.then(|| FAULTS[rand::random_range(0..FAULTS.len())])
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

    /// Keeps the client request tokens.
    pub fn keep_tokens(&self) {
        self.keep_tokens.store(true, Ordering::SeqCst);
    }

    /// The next `count` transactions are executed, but their answers are lost.
    pub fn lose_answers(&self, count: u32) {
        self.answers_to_lose.store(count, Ordering::SeqCst);
    }

    /// The next transaction is executed, but its caller waits until [`Self::release`]. A caller that is aborted
    /// meanwhile acts like a killed process. [`Self::held`] waits for that transaction.
    pub fn hold_answer(&self) {
        self.answers_to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits for a transaction whose answer is held.
    pub async fn held(&self) {
        self.held.notified().await;
    }

    /// Releases the answer that is held back.
    pub fn release(&self) {
        self.released.notify_one();
    }
}

fn take_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn conflict(writes: usize) -> TransactError {
    let mut reasons = vec![Reason::None; writes];
    reasons[rand::random_range(0..writes)] = Reason::Busy("TransactionConflict".to_owned());
    TransactError::Cancelled(reasons)
}

fn each_reason(error: TransactError, change: fn(Reason) -> Reason) -> TransactError {
    match error {
        TransactError::Cancelled(reasons) => TransactError::Cancelled(reasons.into_iter().map(change).collect()),
        other => other,
    }
}

fn bare(reason: Reason) -> Reason {
    if matches!(reason, Reason::ConditionFailed(_)) { Reason::ConditionFailed(None) } else { reason }
}

fn throttled(reason: Reason) -> Reason {
    if matches!(reason, Reason::None) { Reason::Busy("ThrottlingError".to_owned()) } else { reason }
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

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.rig.transactions.fetch_add(1, Ordering::SeqCst);
        let fresh = format!("{:032x}", rand::random::<u128>());
        let token = if self.rig.keep_tokens.load(Ordering::SeqCst) { token } else { &fresh };
        if self.rig.throttled.load(Ordering::SeqCst) {
            return Err(TransactError::Cancelled(vec![Reason::Busy("ThrottlingError".to_owned()); writes.len()]));
        }
        let fault = self.rig.fault();
        let answer = match fault {
            Some(Fault::RequestLost) => Err(TableError::Unavailable("the test did not send it".into()).into()),
            Some(Fault::Conflict) => Err(conflict(writes.len())),
            _ => self.table.transact(writes, token).await,
        };
        let answer = match fault {
            Some(Fault::ReplyLost) => Err(TableError::Unavailable("the test lost the answer".into()).into()),
            Some(Fault::Bare) => answer.map_err(|error| each_reason(error, bare)),
            Some(Fault::Mixed) => answer.map_err(|error| each_reason(error, throttled)),
            _ => answer,
        };
        if take_one(&self.rig.answers_to_hold) {
            self.rig.held.notify_one();
            self.rig.released.notified().await;
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
