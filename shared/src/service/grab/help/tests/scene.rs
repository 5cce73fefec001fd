//! A packet over stores in memory that take their time. The clock stands still except for that.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::domain::{Amount, Amounts, IdempotencyKey, PacketId, Partition, UserId};
use crate::ledger::{Ledger, SendRequest, keys};
use crate::lock;
use crate::memory::{MemoryHot, MemoryTable};
use crate::ports::{
    Backlog, Clock, GrabAnswer, Grabber, HotStoreError, Item, Key, Loaded, OutboxEntry, PartReport, Query, Reconciled,
    SnapshotResult, System, TransactError, Write,
};
use crate::service::grab::help::*;
use crate::service::{GrabOutcome, GrabSlip};

pub const REDIS: Duration = Duration::from_millis(1);
pub const LEDGER: Duration = Duration::from_millis(10);
/// The bound of the first losers: the wait, one transaction, and five calls of Redis.
pub const FIRST: Duration = HELP_AFTER.saturating_add(LEDGER).saturating_add(REDIS.saturating_mul(5));
/// What a thousand more requests add: their probes need three calls, one after the other.
pub const CROWD: Duration = REDIS.saturating_mul(2);

/// What the ledger does with the winner's transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    None,
    /// The ledger calls it malformed.
    Refused,
    /// It fails whenever it is tried.
    Failing,
    /// It has no answer.
    Silent,
    /// It meets another transaction.
    Conflict,
    /// This process asks too much of it for the winner's transaction.
    Overloaded,
    /// Nothing has an answer.
    Outage,
}

/// A table that takes its time.
pub struct SlowTable {
    pub table: Arc<MemoryTable>,
    pub trouble: Arc<Mutex<Trouble>>,
    pub transactions: Arc<AtomicU64>,
}

impl SlowTable {
    pub async fn travel(&self) -> Result<(), TableError> {
        if *lock(&self.trouble) == Trouble::Outage {
            sleep(Duration::from_secs(3)).await;
            return Err(TableError::Unavailable("an outage".into()));
        }
        sleep(LEDGER).await;
        Ok(())
    }
}

impl Table for SlowTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.travel().await?;
        self.table.get(key).await
    }

    async fn batch_get(&self, _: Vec<Key>) -> Result<Vec<Item>, TableError> {
        unreachable!("a grab reads no batch")
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.travel().await?;
        self.table.query(query).await
    }

    async fn due(&self, _: u32, _: u64, _: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
        unreachable!("a grab settles nothing")
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        let trouble = *lock(&self.trouble);
        self.travel().await?;
        let is_winners = writes.iter().any(|write| write.key() == &keys::claim(&user(0), Terms::sample().id));
        match trouble {
            Trouble::Overloaded if is_winners => Err(TableError::Overloaded("no permit".into()).into()),
            Trouble::None | Trouble::Outage | Trouble::Overloaded => self.table.transact(writes, token).await,
            Trouble::Refused => Err(TableError::Refused("malformed".into()).into()),
            Trouble::Failing => Err(TableError::Unavailable("an internal error".into()).into()),
            Trouble::Conflict => {
                Err(TransactError::Cancelled(vec![crate::ports::Reason::Busy("TransactionConflict".to_owned())]))
            }
            Trouble::Silent => std::future::pending().await,
        }
    }
}

/// A hot store that takes its time, and counts its calls.
#[derive(Debug)]
pub struct SlowHot {
    pub hot: MemoryHot,
    pub calls: AtomicU64,
    /// Snapshots that answer bulk waiters.
    pub snapshots: AtomicU64,
    /// Whether no reconcile reaches it.
    pub is_gone: AtomicBool,
    /// Whether no probe can read it.
    pub is_damaged: AtomicBool,
    /// Whether the clock of the process is an hour ahead. It reads the certain answers.
    pub is_ahead: AtomicBool,
}

impl SlowHot {
    pub async fn travel(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        sleep(REDIS).await;
    }
}

pub type Answer<V> = Result<V, HotStoreError>;

impl HotStore for SlowHot {
    async fn grab(&self, part: PartId, grabbers: &[Grabber]) -> Answer<Option<Vec<GrabAnswer>>> {
        self.travel().await;
        if self.is_damaged.load(Ordering::Relaxed) {
            let damaged: Box<dyn std::error::Error + Send + Sync> = "it is damaged".into();
            return Err(HotStoreError::Impossible(damaged.into()));
        }
        let mut found = self.hot.grab(part, grabbers).await?;
        for answer in found.iter_mut().flatten().filter(|_| self.is_ahead.load(Ordering::Relaxed)) {
            if let GrabAnswer::Nothing { expired, certain: true } = answer {
                *expired = true;
            }
        }
        Ok(found)
    }

    async fn reconcile(&self, part: PartId, count: u32, found: &[Decision], done: &[Hold]) -> Answer<Reconciled> {
        self.travel().await;
        if self.is_gone.load(Ordering::Relaxed) {
            let gone: Box<dyn std::error::Error + Send + Sync> = "it is gone".into();
            return Err(HotStoreError::Unavailable(gone.into()));
        }
        self.hot.reconcile(part, count, found, done).await
    }

    async fn load(&self, part: PartId, terms: &Terms, is_closed: bool, decisions: &[Decision]) -> Answer<Loaded> {
        self.hot.load(part, terms, is_closed, decisions).await
    }

    async fn close(&self, part: PartId) -> Answer<bool> {
        self.hot.close(part).await
    }

    async fn acquire_load_lease(&self, _: PartId, _: Duration) -> Answer<bool> {
        unreachable!("the part is loaded")
    }

    async fn release_load_lease(&self, _: PartId) -> Answer<()> {
        unreachable!("the part is loaded")
    }

    async fn help(&self, part: PartId, least_age: Duration, most: usize, lease: Duration) -> Answer<Help> {
        self.travel().await;
        self.hot.help(part, least_age, most, lease).await
    }

    async fn end_help(&self, part: PartId, doubt: Option<(Doubt, Duration)>) -> Answer<()> {
        self.travel().await;
        self.hot.end_help(part, doubt).await
    }

    async fn snapshot(&self, part: PartId, only_final: bool) -> Answer<SnapshotResult> {
        self.snapshots.fetch_add(u64::from(!only_final), Ordering::Relaxed);
        self.travel().await;
        HotStore::snapshot(&self.hot, part, only_final).await
    }

    async fn report(&self, _: PartId) -> Answer<Option<PartReport>> {
        unreachable!("nobody looks")
    }

    async fn pending_parts(&self, _: Partition) -> Answer<Vec<PartId>> {
        unreachable!("nobody settles")
    }

    async fn backlog(&self, _: Partition) -> Answer<Backlog> {
        unreachable!("nobody settles")
    }

    async fn outbox(&self, _: PartId, _: Duration) -> Answer<Vec<OutboxEntry>> {
        unreachable!("nobody settles")
    }

    async fn park(&self, _: PartId, _: &Hold, _: &str) -> Answer<()> {
        unreachable!("nobody settles")
    }
}

/// A clock that goes with the test's time.
pub struct TestClock(pub Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000).after(self.0.elapsed())
    }
}

/// A packet of one slip, which is held for a winner whose transaction never came.
pub struct Scene {
    pub terms: Terms,
    pub hot: Arc<SlowHot>,
    pub table: Arc<MemoryTable>,
    pub trouble: Arc<Mutex<Trouble>>,
    pub transactions: Arc<AtomicU64>,
    pub clock: Arc<TestClock>,
}

pub type Process = Arc<GrabSlip<SlowTable, SlowHot>>;

impl Scene {
    pub async fn new(trouble: Trouble) -> Self {
        let scene = Self::of(1).await;
        scene.hold().await;
        *lock(&scene.trouble) = trouble;
        scene.transactions.store(0, Ordering::Relaxed);
        sleep(HELP_AFTER).await;
        scene
    }

    /// A packet of `count` slips of one part, of which none is held.
    pub async fn of(count: u32) -> Self {
        Self::in_parts(Terms::sample().id, count).await
    }

    pub async fn in_parts(id: PacketId, count: u32) -> Self {
        let clock = Arc::new(TestClock(Instant::now()));
        let expires_at = clock.now().after(Duration::from_hours(1));
        let terms = Terms { id, count, total: Amount::new(count.into()), expires_at, ..Terms::sample() };
        let hot = MemoryHot::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let hot = Arc::new(SlowHot {
            hot,
            calls: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
            is_ahead: AtomicBool::new(false),
        });
        let (table, transactions) = (Arc::<MemoryTable>::default(), Arc::<AtomicU64>::default());
        let scene = Self { terms, hot, table, trouble: Arc::new(Mutex::new(Trouble::None)), transactions, clock };
        let (terms, ledger) = (&scene.terms, scene.ledger());
        let key: IdempotencyKey = "k".parse().unwrap();
        ledger.deposit(&terms.sender, &"d".parse().unwrap(), terms.total, None, terms.created_at).await.unwrap();
        let of_part = |part: PartId| Amounts::pack(&vec![1; part.slips(terms.count).len()]).unwrap();
        let amounts: Vec<Amounts> = terms.id.parts().map(of_part).collect();
        ledger
            .send(&SendRequest { terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_limit: None })
            .await
            .unwrap();
        for part in terms.id.parts() {
            scene.hot.load(part, terms, false, &[]).await.unwrap();
        }
        scene.transactions.store(0, Ordering::Relaxed);
        scene
    }

    /// Holds a slip for user 0.
    pub async fn hold(&self) {
        let winner = Grabber { user: user(0), passphrase: None };
        self.hot.hot.grab(self.part(), &[winner]).await.unwrap();
    }

    pub fn ledger(&self) -> Arc<Ledger<SlowTable>> {
        let table = SlowTable {
            table: Arc::clone(&self.table),
            trouble: Arc::clone(&self.trouble),
            transactions: Arc::clone(&self.transactions),
        };
        Arc::new(Ledger::new(table, Arc::new(System)))
    }

    /// A process that knows the packet, as one does that has had a winner.
    pub async fn process(&self) -> Process {
        Arc::new(self.grab().await)
    }

    /// The use case in such a process.
    pub async fn grab(&self) -> GrabSlip<SlowTable, SlowHot> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let stores = Stores::new(self.ledger(), Arc::clone(&self.hot), clock, Arc::new(System));
        let trouble = std::mem::replace(&mut *lock(&self.trouble), Trouble::None);
        stores.packets.terms(self.terms.id).await.unwrap();
        stores.packets.amounts(self.part()).await.unwrap();
        *lock(&self.trouble) = trouble;
        GrabSlip::new(stores, "CNY".to_owned())
    }

    pub fn part(&self) -> PartId {
        PartId { packet: self.terms.id, index: 0 }
    }

    /// The answers of these users, and how long the last of them waited.
    pub async fn ask(
        &self,
        process: &Process,
        users: RangeInclusive<u32>,
    ) -> (Vec<Result<GrabOutcome, Failure>>, Duration) {
        let (begun, id, mut asking) = (Instant::now(), self.terms.id, JoinSet::new());
        for number in users {
            let process = Arc::clone(process);
            asking.spawn(async move { process.grab(id, &user(number), None).await });
        }
        (asking.join_all().await, begun.elapsed())
    }

    /// Calls of Redis and transactions since the last call of this.
    pub fn count(&self) -> (u64, u64) {
        (self.hot.calls.swap(0, Ordering::Relaxed), self.transactions.swap(0, Ordering::Relaxed))
    }
}

pub fn user(number: u32) -> UserId {
    format!("u{number}").parse().unwrap()
}

pub fn are_sold_out(answers: &[Result<GrabOutcome, Failure>]) -> bool {
    answers.iter().all(|answer| matches!(answer, Ok(GrabOutcome::SoldOut)))
}

/// A table that answers at once.
pub struct SharedTable(pub Arc<MemoryTable>);

impl Table for SharedTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Vec<Item>, TableError> {
        self.0.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.query(query).await
    }

    async fn due(&self, shard: u32, until: u64, after: Option<(Key, u64)>, most: u32) -> Result<Vec<Item>, TableError> {
        self.0.due(shard, until, after, most).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.transact(writes, token).await
    }
}
