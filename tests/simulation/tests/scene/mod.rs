//! Settle over stores in memory, with a table that can be slow, and a clock that a test sets.

#![allow(dead_code, reason = "each file of tests uses some of it")]

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shared::domain::{AckMode, Amount, Intervention, Limits, MAX_MOVEMENT, Split, Terms, Timestamp, UserId};
use shared::ledger::{Ledger, keys};
use shared::memory::{MemoryHot, MemoryTable};
use shared::ports::{
    Batch, Clock, GrabAnswer, Grabber, HotStore, Item, Key, Query, System, Table, TableError, TransactError, Write,
};
use shared::service::{NewPacket, Report, SendOutcome, SendPacket, SendPolicy, Settle, Stores, Wallets};
use tokio::time::{Instant, sleep};

/// How long a transaction of a slow table takes, and a query of one that reads slowly.
pub const SLOW: Duration = Duration::from_secs(1);
/// How long packets are open.
pub const OPEN: Duration = Duration::from_hours(1);

/// A table that can be made slow.
#[derive(Default)]
struct SlowTable {
    table: MemoryTable,
    is_slow: Arc<AtomicBool>,
    reads_slowly: Arc<AtomicBool>,
    /// Transactions on this user's wallet have no answer.
    stuck: Arc<Mutex<Option<UserId>>>,
    transactions: Arc<AtomicU64>,
}

impl Table for SlowTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        if self.reads_slowly.load(Ordering::Relaxed) {
            sleep(SLOW).await;
        }
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
        self.transactions.fetch_add(1, Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) {
            sleep(SLOW).await;
        }
        let stuck = self.stuck.lock().unwrap().as_ref().map(keys::wallet);
        if writes.iter().any(|write| matches!(write, Write::Add { key, .. } if Some(key) == stuck.as_ref())) {
            pending::<()>().await;
        }
        self.table.transact(writes, token).await
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

/// The use cases over one table and one hot store.
pub struct Scene {
    ledger: Arc<Ledger<SlowTable>>,
    hot: Arc<MemoryHot>,
    send: SendPacket<SlowTable, MemoryHot>,
    settle: Settle<SlowTable, MemoryHot>,
    clock: Arc<SetClock>,
    is_slow: Arc<AtomicBool>,
    reads_slowly: Arc<AtomicBool>,
    stuck: Arc<Mutex<Option<UserId>>>,
    transactions: Arc<AtomicU64>,
    packets: AtomicU64,
}

impl Scene {
    /// Empty stores, except for two senders with this balance each.
    pub async fn new(ack: AckMode, balance: u64) -> Self {
        let table = SlowTable::default();
        let (is_slow, reads_slowly) = (Arc::clone(&table.is_slow), Arc::clone(&table.reads_slowly));
        let (stuck, transactions) = (Arc::clone(&table.stuck), Arc::clone(&table.transactions));
        let clock = Arc::new(SetClock(AtomicU64::new(System.now().ms())));
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let ledger = Arc::new(Ledger::new(table, Arc::new(System)));
        let hot = Arc::new(MemoryHot::in_memory(now()));
        let stores = Stores::new(Arc::clone(&ledger), Arc::clone(&hot), now(), Arc::new(System));
        let policy = SendPolicy { currency: "CNY".to_owned(), ack, limits: Limits::default(), daily_limit: None };
        let send = SendPacket::new(stores.clone(), policy);
        let wallets = Wallets::new(Arc::clone(&ledger), now(), "CNY".to_owned(), MAX_MOVEMENT);
        for user in [sender(), other_sender()] {
            wallets.deposit(&user, &"d".parse().unwrap(), Amount::new(balance), None).await.unwrap();
        }
        let settle = Settle::new(stores, Duration::ZERO);
        let packets = AtomicU64::new(0);
        Self { ledger, hot, send, settle, clock, is_slow, reads_slowly, stuck, transactions, packets }
    }

    /// Sends a packet of `count` slips of one minor unit each.
    pub async fn send(&self, count: u32) -> Arc<Terms> {
        self.send_by(sender(), count).await
    }

    /// The same, by this sender.
    pub async fn send_by(&self, sender: UserId, count: u32) -> Arc<Terms> {
        let packet = NewPacket {
            sender,
            split: Split::Equal,
            total: Amount::new(count.into()),
            count,
            greeting: String::new(),
            starts_at: None,
            expires_in: OPEN,
            passphrase: None,
            recipients: None,
            labels: shared::domain::Labels::default(),
        };
        let key = format!("k{}", self.packets.fetch_add(1, Ordering::Relaxed));
        match self.send.send(packet, &key.parse().unwrap()).await.unwrap() {
            SendOutcome::Sent(terms) => terms,
            other => panic!("not sent: {other:?}"),
        }
    }

    /// Holds a slip in each part of a packet, each for a user of its own, the first one for [`winner`]. Commits nothing.
    pub async fn hold(&self, terms: &Terms) {
        for part in terms.id.parts() {
            self.hot.load(part, terms, false, &[]).await.unwrap();
            let grabber = Grabber { user: format!("winner{}", part.index).parse().unwrap(), passphrase: None };
            let found = self.hot.grab(part, &[grabber]).await.unwrap().unwrap();
            assert!(matches!(found[..], [GrabAnswer::Held { .. }]), "{found:?}");
        }
    }

    /// Closes a packet in the ledger. Settle tells the hot store.
    pub async fn close(&self, terms: &Terms) {
        let closing = Intervention { reason: "a test".parse().unwrap(), at: self.clock.now(), by: None };
        assert!(self.ledger.close(terms, &closing).await.unwrap());
    }

    /// Parks all holds of a packet.
    pub async fn park(&self, terms: &Terms) {
        for part in terms.id.parts() {
            for held in self.hot.outbox(part, Duration::ZERO).await.unwrap() {
                self.hot.park(part, &held.hold, "by the test").await.unwrap();
            }
        }
    }

    /// From now on every transaction takes [`SLOW`].
    pub fn slow_down(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// From now on no transaction on this user's wallet has an answer.
    pub fn stick(&self, user: UserId) {
        *self.stuck.lock().unwrap() = Some(user);
    }

    /// From now on all have an answer.
    pub fn unstick(&self) {
        *self.stuck.lock().unwrap() = None;
    }

    /// From now on every query takes [`SLOW`].
    pub fn read_slowly(&self) {
        self.reads_slowly.store(true, Ordering::Relaxed);
    }

    /// Lets time pass, on the clocks of the process and of the hot store.
    pub fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// A run of settle.
    pub async fn settle(&self, time: Duration) -> Report {
        self.settle.run(0..=255, Instant::now() + time).await.unwrap()
    }

    /// Transactions so far.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// How many slips of a packet are decided, and whether it is settled.
    pub async fn decided(&self, terms: &Terms) -> (usize, bool) {
        let decisions = self.ledger.decisions(terms.id, 0..terms.count).await.unwrap();
        (decisions.len(), self.ledger.packet(terms.id).await.unwrap().unwrap().settled.is_some())
    }
}

fn sender() -> UserId {
    "sender".parse().unwrap()
}

/// Another sender.
pub fn other_sender() -> UserId {
    "other".parse().unwrap()
}

/// Whose slip [`Scene::hold`] holds in the first part of a packet.
pub fn winner() -> UserId {
    "winner0".parse().unwrap()
}
