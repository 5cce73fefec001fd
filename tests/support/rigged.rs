//! A table that counts, and that can lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use shared::dynamodb::SdkTable;
use shared::ports::{Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use tokio::sync::Notify;

/// What all tables of a world count, and how they are to fail.
///
/// Client request tokens are replaced by others unless asked for, so that nothing can lean on them.
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

/// What can go wrong with a transaction that `DynamoDB` takes, besides what the embedded one does by itself.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is not executed, and nobody knows.
    Unsent,
    /// It is executed, and nobody knows.
    Unheard,
    /// It is cancelled, since another one is under way on one of its items.
    Conflict,
    /// If it is cancelled, the reasons show no items.
    Bare,
    /// If it is cancelled, what its conditions don't speak against was throttled.
    Mixed,
}

impl Rig {
    /// From now on one transaction in so many meets a fault of any kind; 0: none.
    pub fn misbehave(&self, one_in: u32) {
        self.misbehaves_one_in.store(one_in, Ordering::SeqCst);
    }

    /// From now on no transaction is let through, or all are again.
    pub fn throttle(&self, throttled: bool) {
        self.throttled.store(throttled, Ordering::SeqCst);
    }

    fn fault(&self) -> Option<Fault> {
        const FAULTS: [Fault; 5] = [Fault::Unsent, Fault::Unheard, Fault::Conflict, Fault::Bare, Fault::Mixed];
        let one_in = self.misbehaves_one_in.load(Ordering::SeqCst);
        let struck = one_in > 0 && rand::random_range(0..one_in) == 0;
        struck.then(|| FAULTS[rand::random_range(0..FAULTS.len())])
    }

    /// Single items read so far.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    /// Queries so far.
    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::SeqCst)
    }

    /// Transactions tried so far.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::SeqCst)
    }

    /// Those of them that a condition refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Lets the client request tokens through.
    pub fn keep_tokens(&self) {
        self.keep_tokens.store(true, Ordering::SeqCst);
    }

    /// The next `count` transactions are executed, and nobody hears of it.
    pub fn lose_answers(&self, count: u32) {
        self.answers_to_lose.store(count, Ordering::SeqCst);
    }

    /// The next transaction is executed, and whoever asked for it waits until [`Self::release`], or is aborted, as a process that
    /// was killed there. [`Self::held`] says when.
    pub fn hold_answer(&self) {
        self.answers_to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits for a transaction whose answer is held.
    pub async fn held(&self) {
        self.held.notified().await;
    }

    /// Lets the answer that is held through.
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
    /// `table` with `rig`.
    pub const fn new(table: SdkTable, rig: Arc<Rig>) -> Self {
        Self { table, rig }
    }
}

impl Table for Rigged {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.rig.gets.fetch_add(1, Ordering::SeqCst);
        self.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Vec<Item>, TableError> {
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
            Some(Fault::Unsent) => Err(TableError::Unavailable("the test did not send it".into()).into()),
            Some(Fault::Conflict) => Err(conflict(writes.len())),
            _ => self.table.transact(writes, token).await,
        };
        let answer = match fault {
            Some(Fault::Unheard) => Err(TableError::Unavailable("the test lost the answer".into()).into()),
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
