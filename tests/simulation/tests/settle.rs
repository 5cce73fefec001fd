//! Settle over stores in memory, with a table that can be slow, a clock that a test sets, and tokio's paused time. A backlog that one
//! run can't finish is counted, and neither many slips nor many packets of others keep a packet waiting.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shared::domain::{
    AckMode, Amount, DayZone, Intervention, Labels, Limits, MAX_MOVEMENT, Split, Terms, Timestamp, UserId,
};
use shared::ledger::{Ledger, keys};
use shared::memory::{MemoryHot, MemoryTable};
use shared::ports::{
    Batch, Clock, GrabAnswer, Grabber, HotStore, Item, Key, Query, System, Table, TableError, TransactError, Write,
};
use shared::redis::PartKeys;
use shared::service::{NewPacket, RunReport, SendOutcome, SendPacket, SendPolicy, Settle, Stores, Wallets};
use tokio::join;
use tokio::time::{Instant, sleep};

/// How long a transaction of a slow table takes, and a query of one that reads slowly.
const SLOW: Duration = Duration::from_secs(1);
/// How long packets are open.
const OPEN: Duration = Duration::from_hours(1);

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
struct Scene {
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
    async fn new(ack: AckMode, balance: u64) -> Self {
        let table = SlowTable::default();
        let (is_slow, reads_slowly) = (Arc::clone(&table.is_slow), Arc::clone(&table.reads_slowly));
        let (stuck, transactions) = (Arc::clone(&table.stuck), Arc::clone(&table.transactions));
        let clock = Arc::new(SetClock(AtomicU64::new(System.now().ms())));
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let ledger = Arc::new(Ledger::new(table, Arc::new(System)));
        let hot = Arc::new(MemoryHot::in_memory(now()));
        let stores = Stores::new(Arc::clone(&ledger), Arc::clone(&hot), now(), Arc::new(System));
        let policy = SendPolicy {
            currency: "CNY".to_owned(),
            ack,
            limits: Limits::default(),
            daily_max: None,
            day_zone: DayZone::UTC,
        };
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
    async fn send(&self, count: u32) -> Arc<Terms> {
        self.send_by(sender(), count).await
    }

    /// The same, by this sender.
    async fn send_by(&self, sender: UserId, count: u32) -> Arc<Terms> {
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
            wants_ticket: false,
            limit: None,
            labels: Labels::default(),
        };
        let key = format!("k{}", self.packets.fetch_add(1, Ordering::Relaxed));
        match self.send.send(packet, &key.parse().unwrap()).await.unwrap() {
            SendOutcome::Sent(terms) => terms,
            other => panic!("not sent: {other:?}"),
        }
    }

    /// Holds a slip in each part of a packet, each for a user of its own, the first one for [`winner`]. Commits nothing.
    async fn hold(&self, terms: &Terms) {
        for part in terms.id.parts() {
            self.hot.load(part, terms, false, &[]).await.unwrap();
            let grabber = Grabber { user: format!("winner{}", part.index).parse().unwrap(), passphrase: None };
            let found = self.hot.grab(part, &[grabber]).await.unwrap().unwrap();
            assert!(matches!(found[..], [GrabAnswer::Held { .. }]), "{found:?}");
        }
    }

    /// Closes a packet in the ledger. Settle tells the hot store.
    async fn close(&self, terms: &Terms) {
        let closing = Intervention { reason: "a test".parse().unwrap(), at: self.clock.now(), by: None };
        assert!(self.ledger.close(terms, &closing).await.unwrap());
    }

    /// Parks all holds of a packet.
    async fn park(&self, terms: &Terms) {
        for part in terms.id.parts() {
            for held in self.hot.outbox(part).await.unwrap() {
                self.hot.park(part, &held.hold, "by the test").await.unwrap();
            }
        }
    }

    /// From now on every transaction takes [`SLOW`].
    fn slow_down(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// From now on no transaction on this user's wallet has an answer.
    fn stick(&self, user: UserId) {
        *self.stuck.lock().unwrap() = Some(user);
    }

    /// From now on all have an answer.
    fn unstick(&self) {
        *self.stuck.lock().unwrap() = None;
    }

    /// From now on every query takes [`SLOW`].
    fn read_slowly(&self) {
        self.reads_slowly.store(true, Ordering::Relaxed);
    }

    /// Lets time pass, on the clocks of the process and of the hot store.
    fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// A run of settle.
    async fn settle(&self, time: Duration) -> RunReport {
        self.settle.run(0..=255, Instant::now() + time).await.unwrap()
    }

    /// Transactions so far.
    fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// How many slips of a packet are decided, and whether it is settled.
    async fn decided(&self, terms: &Terms) -> (usize, bool) {
        let decisions = self.ledger.decisions(terms.id, 0..terms.count).await.unwrap();
        (decisions.len(), self.ledger.packet(terms.id).await.unwrap().unwrap().settled.is_some())
    }
}

fn sender() -> UserId {
    "sender".parse().unwrap()
}

/// Another sender.
fn other_sender() -> UserId {
    "other".parse().unwrap()
}

/// Whose slip [`Scene::hold`] holds in the first part of a packet.
fn winner() -> UserId {
    "winner0".parse().unwrap()
}

/// Partitions that settle processes at once; each waits for one transaction.
const AT_ONCE: u64 = 16;
const PACKETS: u64 = 200;

#[tokio::test(start_paused = true)]
async fn a_run_uses_all_of_its_time_and_counts_the_rest() {
    let backlog = Scene::new(AckMode::Redis, PACKETS).await;
    for _ in 0..PACKETS {
        let terms = backlog.send(1).await;
        backlog.hold(&terms).await;
    }
    backlog.slow_down();
    let report = backlog.settle(6 * SLOW).await;
    // Half of the time would suffice for 3 rounds.
    assert!(report.persisted > 3 * AT_ONCE, "{report:?}");
    assert_eq!(report.outbox_left, Some(PACKETS - report.persisted), "{report:?}");
    assert!(report.oldest_outbox_ms.is_some(), "{report:?}");

    let rest = backlog.settle(Duration::from_mins(5)).await;
    assert_eq!((rest.persisted, rest.outbox_left), (PACKETS - report.persisted, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn young_holds_are_left_to_their_winners() {
    let scene = Scene::new(AckMode::Ledger, 20).await;
    for _ in 0..2 {
        let terms = scene.send(10).await;
        scene.hold(&terms).await;
    }
    let before = scene.transactions();
    for _ in 0..2 {
        scene.pass(Duration::from_millis(2_499));
        let report = scene.settle(Duration::from_mins(1)).await;
        assert_eq!((report.persisted, report.outbox_left), (0, Some(2)), "{report:?}");
        assert!(report.oldest_outbox_ms > Some(2_000), "{report:?}");
    }
    assert_eq!(scene.transactions(), before);
    scene.pass(Duration::from_millis(2));
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.persisted, report.outbox_left, report.oldest_outbox_ms), (2, Some(0), Some(0)), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_promise_that_is_not_in_the_ledger_yet_keeps_its_slip() {
    let scene = Scene::new(AckMode::Redis, 10).await;
    let terms = scene.send(10).await;
    scene.hold(&terms).await;
    scene.pass(OPEN);
    // The winner's wallet does not answer; the sender's does.
    scene.stick(winner());
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.refunded_slips, report.due_left, report.outbox_left), (0, 1, Some(1)), "{report:?}");
    scene.unstick();
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.persisted, report.refunded_slips, report.due_left), (1, 9, 0), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_parked_promise_keeps_its_slip_and_no_other() {
    let scene = Scene::new(AckMode::Redis, 10).await;
    let terms = scene.send(10).await;
    scene.hold(&terms).await;
    scene.park(&terms).await;
    scene.pass(OPEN);
    for refunded in [9, 0] {
        let report = scene.settle(Duration::from_mins(1)).await;
        assert_eq!((report.refunded_slips, report.due_left, report.parked), (refunded, 1, 1), "{report:?}");
    }
    assert_eq!(scene.decided(&terms).await, (9, false));
}

/// No grab puts a part that holds something into the queue again. So settle does not look for these holds before the packet is due.
#[tokio::test(start_paused = true)]
async fn a_hold_whose_part_lost_its_place_in_the_queue_is_found_once_its_packet_is_due() {
    for ack in [AckMode::Ledger, AckMode::Redis] {
        let scene = Scene::new(ack, 10).await;
        let terms = scene.send(10).await;
        scene.hold(&terms).await;
        let part = terms.id.parts().next().unwrap();
        scene.hot.server().command(&["DEL", &PartKeys::of(part).pending]).unwrap();
        scene.pass(OPEN / 2);
        scene.hot.grab(part, &[Grabber { user: other_sender(), passphrase: None }]).await.unwrap();
        assert_eq!(scene.settle(Duration::from_mins(1)).await.outbox_left, Some(0), "nobody knows of them");
        scene.pass(OPEN / 2);
        let report = scene.settle(Duration::from_mins(1)).await;
        // A promise becomes a claim. A hold that nobody was promised goes back.
        let refunded = if ack == AckMode::Redis { 8 } else { 10 };
        assert_eq!((report.refunded_slips, report.due_left), (refunded, 0), "{report:?}");
        for user in [winner(), other_sender()] {
            let claim = scene.ledger.claim_of(&user, terms.id).await.unwrap();
            assert_eq!(claim.is_some(), ack == AckMode::Redis, "{user}");
        }
        assert!(scene.hot.outbox(part).await.unwrap().is_empty());
    }
}

/// The time of one run: transactions take a second each here, so it is short of what these packets need.
const RUN: Duration = Duration::from_secs(45);
const LARGE: u32 = 100_000;
/// The slips of a large packet's portion at most: one of its 16 parts.
const PORTION: usize = 6_250;

#[tokio::test(start_paused = true)]
async fn large_packets_do_not_keep_a_small_one_waiting() {
    let scene = Scene::new(AckMode::Ledger, 10 * u64::from(LARGE) + 16 * 10).await;
    let mut large = Vec::new();
    for _ in 0..10 {
        large.push(scene.send(LARGE).await);
    }
    // They expire last. One has its due shard for itself or shares it with a large packet.
    scene.pass(Duration::from_secs(1));
    let mut small = Vec::new();
    for _ in 0..16 {
        small.push(scene.send(10).await);
    }
    scene.pass(OPEN);
    scene.slow_down();
    scene.settle(RUN).await;
    for terms in &small {
        assert_eq!(scene.decided(terms).await, (10, true), "one run is enough");
    }
    // The large ones go round, the earliest first.
    let mut decided = Vec::new();
    for terms in &large {
        decided.push(scene.decided(terms).await.0);
    }
    // A packet whose shard is read late may have its first portion while others have their second.
    assert!(
        decided.iter().all(|slips| *slips <= 2 * PORTION),
        "a packet had three portions before others had one: {decided:?}"
    );
    assert!(decided.iter().filter(|slips| **slips > 0).count() >= 4, "{decided:?}");
    // The next run goes on.
    let report = scene.settle(RUN).await;
    assert_eq!((report.refunded_slips > 0, report.due_left), (true, 10), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn small_packets_do_not_keep_a_large_one_waiting() {
    let scene = Scene::new(AckMode::Ledger, 1_000 * 10 + 2_000).await;
    // More than a run can settle, and all of them expire first.
    for _ in 0..1_000 {
        scene.send(10).await;
    }
    scene.pass(Duration::from_secs(1));
    let large = scene.send(2_000).await;
    scene.pass(OPEN);
    scene.slow_down();
    let report = scene.settle(RUN).await;
    assert!(report.due_left > 500, "{report:?}");
    // 2,000 slips are 24 refunds, which take 24 seconds of the run.
    assert_eq!(scene.decided(&large).await, (2_000, true));
}

#[tokio::test(start_paused = true)]
async fn each_run_comes_further_with_many_large_packets() {
    const PACKETS: u64 = 40;
    const SLIPS: u32 = 8_000;
    let scene = Scene::new(AckMode::Ledger, PACKETS * u64::from(SLIPS)).await;
    for _ in 0..PACKETS {
        scene.send(SLIPS).await;
    }
    scene.pass(OPEN);
    scene.read_slowly();
    // To read 8 parts takes 8 seconds. So a run can't read all parts of all packets.
    let mut left = PACKETS;
    for _ in 0..100 {
        let report = scene.settle(RUN).await;
        assert!(report.refunded_slips > 0 || report.due_left < left, "a run without progress: {report:?}");
        left = report.due_left;
        if left == 0 {
            return;
        }
    }
    panic!("{left} packets are left");
}

#[tokio::test(start_paused = true)]
async fn a_sender_whose_refunds_have_no_answer_keeps_nobody_waiting() {
    let scene = Scene::new(AckMode::Ledger, 10_000).await;
    // They expire first, several in each due shard.
    for _ in 0..200 {
        scene.send_by(other_sender(), 10).await;
    }
    scene.pass(Duration::from_secs(1));
    let mut packets = Vec::new();
    for _ in 0..32 {
        packets.push(scene.send(10).await);
    }
    scene.pass(OPEN);
    scene.stick(other_sender());
    let report = scene.settle(RUN).await;
    assert_eq!(report.due_left, 200, "{report:?}");
    for terms in &packets {
        assert_eq!(scene.decided(terms).await, (10, true), "one run is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn closed_packets_with_holds_take_turns() {
    const PACKETS: u64 = 8;
    const PARTS: u32 = 8;
    let scene = Scene::new(AckMode::Ledger, PACKETS * 8_000).await;
    let mut packets = Vec::new();
    for _ in 0..PACKETS {
        let terms = scene.send(8_000).await;
        assert_eq!(terms.id.part_count(), PARTS);
        // The holds are too young for the part of the run that only persists.
        scene.hold(&terms).await;
        scene.close(&terms).await;
        packets.push(terms);
    }
    scene.slow_down();
    scene.settle(SLOW * PARTS).await;
    for terms in &packets {
        assert!(scene.decided(terms).await.0 > 0, "a packet waited until others had had all of theirs");
    }
}

/// A damaged part can't be closed before the refund. By the end it is mended.
#[tokio::test(start_paused = true)]
async fn a_part_that_could_not_be_closed_is_closed_with_the_refund() {
    let scene = Scene::new(AckMode::Ledger, 10).await;
    let terms = scene.send(10).await;
    let part = terms.id.parts().next().unwrap();
    scene.hot.load(part, &terms, false, &[]).await.unwrap();
    scene.close(&terms).await;
    let (server, key) = (scene.hot.server(), PartKeys::of(part).part);
    let whole = server.snapshot();
    server.command(&["DEL", &key]).unwrap();
    server.command(&["RPUSH", &key, "damage"]).unwrap();
    scene.slow_down();
    let mend = async {
        sleep(SLOW / 2).await;
        server.restore(&whole);
    };
    join!(scene.settle(SLOW * 10), mend);
    assert_eq!(scene.decided(&terms).await, (10, true));
    let late = Grabber { user: winner(), passphrase: None };
    let found = scene.hot.grab(part, &[late]).await.unwrap().unwrap();
    assert_eq!(found, [GrabAnswer::Closed { certain: true }]);
}
