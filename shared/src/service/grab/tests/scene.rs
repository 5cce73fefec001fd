//! A packet over stores in memory that take their time. The clock stands still except for that.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis::{Value, make_extension_error};
use tokio::task::JoinSet;

use super::*;
use crate::domain::{Amount, Guard};
use crate::ledger::Ledger;
use crate::memory::{MemoryServer, MemoryTable};
use crate::ports::{Batch, Clock, Item, Key, Query, System, TableError, TransactError, Write};
use crate::redis::{Call, RedisError, RedisStore, Server};

pub const REDIS: Duration = Duration::from_millis(1);
pub const LEDGER: Duration = Duration::from_millis(10);

/// A clock that shows the test's time.
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000).after(self.0.elapsed())
    }
}

/// A server that takes a millisecond for each call, counts calls, and can be gone or damaged.
#[derive(Debug)]
pub struct SlowServer {
    pub memory: MemoryServer,
    pub calls: AtomicU64,
    pub is_gone: AtomicBool,
    pub is_damaged: AtomicBool,
}

impl Server for SlowServer {
    async fn run(&self, call: &Call) -> Result<Value, RedisError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        sleep(REDIS).await;
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(RedisError::in_memory(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        }
        if self.is_damaged.load(Ordering::Relaxed) {
            return Err(RedisError::in_memory(make_extension_error("WRONGTYPE".to_owned(), None)));
        }
        self.memory.run(call).await
    }

    fn is_cluster(&self) -> bool {
        false
    }
}

/// A table that takes ten milliseconds for each request, and counts them.
#[derive(Default)]
pub struct SlowTable {
    pub memory: MemoryTable,
    pub reads: AtomicU64,
    pub transactions: AtomicU64,
    pub is_gone: AtomicBool,
}

impl SlowTable {
    async fn answer<V>(&self, count: &AtomicU64, answer: impl Future<Output = V>) -> Result<V, TableError> {
        count.fetch_add(1, Ordering::Relaxed);
        sleep(LEDGER).await;
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(TableError::Unavailable("gone".into()));
        }
        Ok(answer.await)
    }
}

/// The table, which all processes share.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<SlowTable>);

impl Table for Shared {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.answer(&self.0.reads, self.0.memory.get(key)).await?
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.0.answer(&self.0.reads, self.0.memory.batch_get(keys)).await?
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.answer(&self.0.reads, self.0.memory.query(query)).await?
    }

    async fn due(&self, _: u32, _: u64, _: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
        unreachable!("a grab settles nothing")
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.answer(&self.0.transactions, self.0.memory.transact(writes, token)).await?
    }
}

pub type SlowHot = RedisStore<SlowServer>;
pub type Process = Arc<GrabSlip<Shared, SlowHot>>;

/// A packet of slips of one minor unit each, which is loaded.
pub struct Scene {
    pub terms: Terms,
    pub table: Shared,
    pub hot: Arc<SlowHot>,
    clock: Arc<TestClock>,
}

impl Scene {
    /// A packet of one part.
    pub async fn of(count: u32) -> Self {
        Self::with(1, |terms| terms.count = count).await
    }

    pub async fn with(parts: u32, change: impl FnOnce(&mut Terms)) -> Self {
        let clock = Arc::new(TestClock(Instant::now()));
        let id = PacketId::new(clock.now(), parts, [1; 10]);
        let mut terms =
            Terms { id, count: parts, expires_at: clock.now().after(Duration::from_hours(1)), ..Terms::sample() };
        change(&mut terms);
        if terms.guard != Guard::default() {
            terms.id = terms.id.with_guard();
        }
        terms.total = Amount::new(terms.count.into());
        let server = SlowServer {
            memory: MemoryServer::new(Arc::clone(&clock) as Arc<dyn Clock>),
            calls: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        };
        let scene = Self { terms, table: Shared::default(), hot: Arc::new(RedisStore::new(server)), clock };
        let (terms, ledger) = (&scene.terms, scene.ledger());
        ledger.send_funded(terms).await;
        for part in terms.id.parts() {
            scene.hot.load(part, terms, false, &[]).await.unwrap();
        }
        scene.count();
        scene
    }

    pub fn ledger(&self) -> Arc<Ledger<Shared>> {
        Arc::new(Ledger::new(self.table.clone(), Arc::new(System)))
    }

    /// The use case in a process that knows the packet, as one does that has had a winner.
    pub async fn grab(&self) -> GrabSlip<Shared, SlowHot> {
        self.grab_behind(Duration::ZERO).await
    }

    /// The same in a process whose clock is so far behind the hot store's.
    pub async fn grab_behind(&self, lag: Duration) -> GrabSlip<Shared, SlowHot> {
        let clock: Arc<dyn Clock> = Arc::new(TestClock(self.clock.0 + lag));
        let stores = Stores::new(self.ledger(), Arc::clone(&self.hot), clock, Arc::new(System));
        stores.packets.terms(self.terms.id).await.unwrap();
        for part in self.terms.id.parts() {
            stores.packets.amounts(part).await.unwrap();
        }
        self.count();
        GrabSlip::new(stores, "CNY".to_owned())
    }

    pub async fn process(&self) -> Process {
        Arc::new(self.grab().await)
    }

    pub fn part(&self) -> PartId {
        PartId { packet: self.terms.id, index: 0 }
    }

    /// Holds a slip of the first part for each of these users, as a process does that dies before it commits.
    pub async fn hold(&self, users: RangeInclusive<u32>) {
        let grabbers: Vec<_> = users.map(|number| Grabber { user: user(number), passphrase: None }).collect();
        self.hot.grab(self.part(), &grabbers).await.unwrap();
        self.count();
    }

    /// The answers of these users, who ask at once, and how long the last of them waited.
    pub async fn ask(
        &self,
        process: &Process,
        users: RangeInclusive<u32>,
    ) -> (Vec<Result<GrabOutcome, Failure>>, Duration) {
        let (begun, id, mut asking) = (Instant::now(), self.terms.id, JoinSet::new());
        for number in users {
            let process = Arc::clone(process);
            asking.spawn(async move { process.grab(id, &user(number), None, &Voucher::Operator).await });
        }
        (asking.join_all().await, begun.elapsed())
    }

    /// The answer of one user.
    pub async fn ask_one(&self, process: &Process, number: u32) -> Result<GrabOutcome, Failure> {
        self.ask(process, number..=number).await.0.remove(0)
    }

    /// Calls of Redis, reads and transactions of the ledger since the last call of this.
    pub fn count(&self) -> (u64, u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.hot.server().calls), take(&self.table.0.reads), take(&self.table.0.transactions))
    }
}

pub fn user(number: u32) -> UserId {
    format!("u{number}").parse().unwrap()
}
