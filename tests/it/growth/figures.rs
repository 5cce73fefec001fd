//! Counts what an action costs: at the ledger and in Redis.

use std::ops::Sub;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use redis::cmd;
use shared::domain::PartId;
use shared::ledger::keys::{DUE_AT, DUE_SHARD};
use shared::memory::MemoryTable;
use shared::ports::{Batch, Item, Key, Query, Table, TableError, TransactError, Write};
use shared::redis::{Call, Connection, PartKeys, RedisError, RedisStore, Server};
use tokio::runtime::Runtime;

/// A figure of an action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Figure {
    /// Calls to Redis.
    Calls,
    /// Redis commands that the scripts and other calls ran.
    Commands,
    /// Bytes to and from Redis.
    Moved,
    /// Read requests to the ledger.
    Reads,
    /// Read request units, doubled: an index read costs half a unit.
    ReadUnits,
    /// Transactions of the ledger.
    Transactions,
    /// Write request units.
    WriteUnits,
}

/// Every figure, with its name in the page.
pub const FIGURES: [(Figure, &str); 7] = [
    (Figure::Calls, "Redis calls"),
    (Figure::Commands, "Redis commands"),
    (Figure::Moved, "Redis bytes moved"),
    (Figure::Reads, "ledger reads"),
    (Figure::ReadUnits, "read units"),
    (Figure::Transactions, "transactions"),
    (Figure::WriteUnits, "write units"),
];

/// What an action cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures([u64; FIGURES.len()]);

impl Figures {
    /// One of them.
    pub const fn get(&self, figure: Figure) -> u64 {
        self.0[figure as usize]
    }

    /// The same with `figure` set.
    pub const fn with(mut self, figure: Figure, value: u64) -> Self {
        self.0[figure as usize] = value;
        self
    }
}

impl Sub for Figures {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n].checked_sub(before.0[n]).expect("a count never falls")))
    }
}

/// `DynamoDB`'s sizes: a read unit, a write unit, and a page of a query.
const READ_BYTES: u64 = 4_096;
const WRITE_BYTES: u64 = 1_024;
const PAGE_BYTES: u64 = 1 << 20;

/// What was asked of the ledger.
#[derive(Debug, Default)]
pub struct Ledgered {
    reads: AtomicU64,
    /// Halves of read units.
    half_units: AtomicU64,
    transactions: AtomicU64,
    write_units: AtomicU64,
    /// Whether it counts now. Preparations are not counted, which is much work for large packets.
    is_on: AtomicBool,
}

/// A table in memory that counts what `DynamoDB` would charge.
#[derive(Clone, Debug, Default)]
pub struct CountedTable {
    /// The table.
    pub table: Arc<MemoryTable>,
    counts: Arc<Ledgered>,
}

impl CountedTable {
    fn read(&self, requests: u64, half_units: u64) {
        self.counts.reads.fetch_add(requests, Ordering::SeqCst);
        self.counts.half_units.fetch_add(half_units, Ordering::SeqCst);
    }

    /// From now on it counts, or not.
    pub fn count(&self, is_on: bool) {
        self.counts.is_on.store(is_on, Ordering::SeqCst);
    }

    fn is_counted(&self) -> bool {
        self.counts.is_on.load(Ordering::SeqCst)
    }

    fn add_to(&self, figures: Figures) -> Figures {
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        figures
            .with(Figure::Reads, count(&self.counts.reads))
            .with(Figure::ReadUnits, count(&self.counts.half_units))
            .with(Figure::Transactions, count(&self.counts.transactions))
            .with(Figure::WriteUnits, count(&self.counts.write_units))
    }

    /// The bytes of the items whose partition key begins with one of `prefixes`.
    pub fn bytes_of(&self, prefixes: &[String]) -> u64 {
        let items = self.table.items();
        let ours = items.iter().filter(|(key, _)| prefixes.iter().any(|prefix| key.pk.starts_with(prefix.as_str())));
        ours.map(|(_, item)| size(item)).sum()
    }
}

/// The units of a consistent read of so many bytes, doubled.
fn half_units(bytes: u64) -> u64 {
    2 * bytes.div_ceil(READ_BYTES).max(1)
}

/// An item's size by `DynamoDB`'s rules: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>.
pub fn size(item: &Item) -> u64 {
    item.inner().iter().map(|(name, value)| name.len() as u64 + value_size(value)).sum()
}

fn value_size(value: &serde_dynamo::AttributeValue) -> u64 {
    use serde_dynamo::AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    let number = |digits: &String| digits.len().div_ceil(2) as u64 + 1;
    match value {
        S(text) => text.len() as u64,
        N(digits) => number(digits),
        B(bytes) => bytes.len() as u64,
        Bool(_) | Null(_) => 1,
        L(list) => 3 + list.iter().map(|value| 1 + value_size(value)).sum::<u64>(),
        M(map) => 3 + map.iter().map(|(name, value)| 1 + name.len() as u64 + value_size(value)).sum::<u64>(),
        Ss(texts) => texts.iter().map(|text| text.len() as u64).sum(),
        Ns(numbers) => numbers.iter().map(number).sum(),
        Bs(all) => all.iter().map(|bytes| bytes.len() as u64).sum(),
    }
}

/// The entry of an item in the index, if it has one.
fn entry(item: Option<&Item>) -> Option<(&serde_dynamo::AttributeValue, &serde_dynamo::AttributeValue)> {
    let item = item?;
    Some((item.get(DUE_SHARD)?, item.get(DUE_AT)?))
}

fn key_of(write: &Write) -> &Key {
    match write {
        Write::PutNew { key, .. } | Write::Add { key, .. } | Write::Change { key, .. } => key,
    }
}

impl Table for CountedTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        let item = self.table.get(key).await?;
        self.read(1, half_units(item.as_ref().map_or(0, size)));
        Ok(item)
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        let asked = keys.len() as u64;
        let batch = self.table.batch_get(keys).await?;
        // A key without an item costs a unit too.
        let found: u64 = batch.items.iter().map(|item| half_units(size(item))).sum();
        self.read(1, found + (asked - batch.items.len() as u64) * half_units(0));
        Ok(batch)
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        let items = self.table.query(query).await?;
        let bytes = items.iter().map(size).sum::<u64>();
        self.read(bytes.div_ceil(PAGE_BYTES).max(1), half_units(bytes));
        Ok(items)
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        let items = self.table.due(shard, until_ms, after, limit).await?;
        // An index is read eventually consistent, at half the price.
        self.read(1, half_units(items.iter().map(size).sum()) / 2);
        Ok(items)
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        if !self.is_counted() {
            return self.table.transact(writes, token).await;
        }
        let before: Vec<Option<Item>> = writes.iter().map(|write| self.table.read(key_of(write))).collect();
        let answer = self.table.transact(writes, token).await;
        let mut units = 0;
        for (write, before) in writes.iter().zip(&before) {
            let after = self.table.read(key_of(write));
            let bytes = before.as_ref().map_or(0, size).max(after.as_ref().map_or(0, size));
            units += 2 * bytes.div_ceil(WRITE_BYTES).max(1);
            // The index is written apart from the transaction, an entry at a time.
            let (old, new) = (entry(before.as_ref()), entry(after.as_ref()));
            if old != new {
                units += u64::from(old.is_some()) + u64::from(new.is_some());
            }
        }
        self.counts.transactions.fetch_add(1, Ordering::SeqCst);
        self.counts.write_units.fetch_add(units, Ordering::SeqCst);
        answer
    }
}

/// Reads the counters of a Redis server.
pub struct RedisCounters {
    connection: redis::Connection,
    /// Bytes that reading the counters itself has moved.
    own_bytes: u64,
}

/// What reading the counters sends.
const INFO: &[u8] = b"*2\r\n$4\r\nINFO\r\n$10\r\neverything\r\n";
/// Commands that connections and this module run.
const NOT_COUNTED: [&str; 5] = ["info", "hello", "client", "memory", "keys"];

impl RedisCounters {
    /// Those of the server at `url`.
    pub fn new(url: &str) -> Self {
        let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        Self { connection, own_bytes: 0 }
    }

    /// Adds Redis' figures. `plain` is how many calls were no scripts.
    fn add_to(&mut self, figures: Figures, plain: u64) -> Figures {
        let info: String = cmd("INFO").arg("everything").query(&mut self.connection).unwrap();
        self.own_bytes += INFO.len() as u64;
        let number = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap();
        let moved = number("total_net_input_bytes:") + number("total_net_output_bytes:") - self.own_bytes;
        // The answer counts from the next time on.
        self.own_bytes += format!("${}\r\n", info.len()).len() as u64 + info.len() as u64 + 2;
        let (mut scripts, mut commands) = (0, 0);
        for line in info.lines() {
            let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) else {
                continue;
            };
            let calls: u64 = rest.split(',').next().unwrap().parse().unwrap();
            if name == "evalsha" {
                scripts += calls;
            } else if !NOT_COUNTED.contains(&name.split('|').next().unwrap()) {
                commands += calls;
            }
        }
        figures.with(Figure::Calls, scripts + plain).with(Figure::Commands, commands).with(Figure::Moved, moved)
    }

    /// Empties the server. It keeps its scripts.
    pub fn flush(&mut self) {
        cmd("FLUSHALL").exec(&mut self.connection).unwrap();
    }

    /// How many slips of a part are free.
    pub fn free_slips(&mut self, part: PartId) -> usize {
        cmd("LLEN").arg(PartKeys::of(part).free).query(&mut self.connection).unwrap()
    }

    /// The bytes of Redis' memory that all its keys take.
    pub fn memory(&mut self) -> u64 {
        const SUM: &str = "local sum = 0 for _, key in ipairs(redis.call('KEYS', '*')) do \
            sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end return sum";
        cmd("EVAL").arg(SUM).arg(0).query(&mut self.connection).unwrap()
    }
}

/// All counters of a place.
pub struct Counters {
    /// Redis' counters.
    pub redis: Mutex<RedisCounters>,
    /// Calls to Redis that are no scripts.
    pub plain: Arc<AtomicU64>,
    /// The ledger.
    pub table: CountedTable,
}

impl Counters {
    /// Everything that was counted so far.
    pub fn read(&self) -> Figures {
        let figures = self.table.add_to(Figures::default());
        self.redis.lock().unwrap().add_to(figures, self.plain.load(Ordering::SeqCst))
    }
}

/// Where the time of Redis' clients goes on.
static REAL_TIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// Does `work` in real time. The caller's clock stands still meanwhile: tokio does not move a paused clock on while a
/// blocking task runs. So no timeout depends on the machine, and nor does a pause between two polls.
pub async fn in_real_time<F, V>(work: impl FnOnce() -> F + Send + 'static) -> V
where
    F: Future<Output = V>,
    V: Send + 'static,
{
    tokio::task::spawn_blocking(move || REAL_TIME.block_on(work())).await.unwrap()
}

/// A real Redis, and the count of calls to it that are no scripts.
#[derive(Clone, Debug)]
pub struct SteadyServer {
    connection: Connection,
    /// Calls of plain commands.
    plain: Arc<AtomicU64>,
}

/// See [`SteadyServer`].
pub type Steady = RedisStore<SteadyServer>;

impl SteadyServer {
    /// Over this connection. Counts in `plain`.
    pub const fn new(connection: Connection, plain: Arc<AtomicU64>) -> Self {
        Self { connection, plain }
    }
}

impl Server for SteadyServer {
    async fn run(&self, call: &Call) -> Result<redis::Value, RedisError> {
        if call.source().is_none() {
            self.plain.fetch_add(1, Ordering::SeqCst);
        }
        let (connection, call) = (self.connection.clone(), call.clone());
        in_real_time(move || async move { connection.run(&call).await }).await
    }

    fn is_cluster(&self) -> bool {
        self.connection.is_cluster()
    }
}
