//! A packet, and a process that views it. The clock is that of tokio, paused; the table counts, and partitions of the hot store fail.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::domain::{AckMode, Amount, Hold, PartId, Timestamp, part_count};
use crate::lock;
use crate::memory::{MemoryServer, MemoryTable};
use crate::ports::{Batch, Clock, GrabAnswer, Grabber, Item, Key, Query, System, TableError, TransactError, Write};
use crate::redis::{Call, RedisError, RedisStore, Server, partition_of};
use crate::service::view::*;

pub const SLIP_AMOUNT: u64 = 100;

pub struct PausedClock(pub Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_795_181_400_000).after(self.0.elapsed())
    }
}

/// A table that counts its reads.
#[derive(Default)]
pub struct Counted {
    pub table: MemoryTable,
    pub gets: AtomicU64,
    pub queries: AtomicU64,
}

/// A handle on a [`Counted`].
pub struct Counting(pub Arc<Counted>);

impl Table for Counting {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.gets.fetch_add(1, Ordering::SeqCst);
        self.0.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.0.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.queries.fetch_add(1, Ordering::SeqCst);
        self.0.table.query(query).await
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        self.0.table.due(shard, until_ms, after, limit).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.table.transact(writes, token).await
    }
}

/// A server of which some partitions refuse calls, and others leave them without an answer.
#[derive(Debug)]
pub struct Shards {
    memory: Arc<MemoryServer>,
    pub mute: Mutex<BTreeSet<u32>>,
    pub hanging: Mutex<BTreeSet<u32>>,
    pub asked: AtomicU64,
}

impl Shards {
    /// A store over this server, all of whose partitions answer.
    fn over(memory: &Arc<MemoryServer>) -> Arc<RedisStore<Self>> {
        let (mute, hanging, asked) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Arc::new(RedisStore::new(Self { memory: Arc::clone(memory), mute, hanging, asked }))
    }
}

impl Server for Shards {
    async fn run(&self, call: &Call) -> Result<Value, RedisError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (keys, _) = call.keys_and_arguments();
        let partition = partition_of(keys[0]).index();
        if lock(&self.mute).contains(&partition) {
            return Err(RedisError::in_memory(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        }
        if lock(&self.hanging).contains(&partition) {
            std::future::pending::<()>().await;
        }
        self.memory.run(call).await
    }

    fn is_cluster(&self) -> bool {
        false
    }
}

pub type View = ViewPackets<Counting, RedisStore<Shards>>;

/// A packet, and a process that views it.
pub struct Scene {
    pub terms: Terms,
    pub table: Arc<Counted>,
    pub memory: Arc<MemoryServer>,
    /// What other processes see of it.
    pub hot: Arc<RedisStore<Shards>>,
    /// What views see of it.
    pub shards: Arc<RedisStore<Shards>>,
    pub ledger: Arc<Ledger<Counting>>,
    pub view: View,
    pub clock: Arc<PausedClock>,
    pub users: u32,
    /// Claims that the ledger has.
    pub claimed: u32,
}

impl Scene {
    /// A packet of `count` slips, of which the first `claimed` of each part are claimed.
    pub async fn new(count: u32, claimed: impl Fn(u32) -> u32) -> Self {
        Self::acknowledged_by(AckMode::Ledger, count, claimed).await
    }

    /// The same, whose winners are answered on the word of a store.
    pub async fn acknowledged_by(ack: AckMode, count: u32, claimed: impl Fn(u32) -> u32) -> Self {
        let clock = Arc::new(PausedClock(Instant::now()));
        let table = Arc::new(Counted::default());
        let ledger = Arc::new(Ledger::new(Counting(Arc::clone(&table)), Arc::new(System)));
        let memory = Arc::new(MemoryServer::new(Arc::<PausedClock>::clone(&clock)));
        let (hot, shards) = (Shards::over(&memory), Shards::over(&memory));
        let now = clock.now();
        let terms = Terms {
            id: PacketId::new(now, part_count(count), [1; 10]),
            count,
            total: Amount::new(u64::from(count) * SLIP_AMOUNT),
            created_at: now,
            expires_at: now.after(Duration::from_hours(24)),
            ack,
            ..Terms::sample()
        };
        ledger.send_funded(&terms).await;
        let view = process(&ledger, &shards, &clock);
        let mut scene = Self { terms, table, memory, hot, shards, ledger, view, clock, users: 0, claimed: 0 };
        for part in scene.terms.id.parts() {
            let slips = part.slips(count);
            let taken = slips.start..slips.start + claimed(u32::try_from(slips.len()).unwrap());
            let mut decisions = Vec::new();
            for slip in taken {
                let (user, claim) = (scene.next_user(), scene.claim(slip));
                decisions.push(claim.decision(&user));
                scene.commit(&user, &claim).await;
            }
            scene.hot.load(part, &scene.terms, false, &decisions).await.unwrap();
        }
        scene
    }

    /// Sends one more packet of one slip, in a partition of its own. The scene's packet has number 1.
    pub async fn send_another(&self, number: u8) {
        let random = [number; 10];
        let (id, total) = (PacketId::new(self.clock.now(), 1, random), Amount::new(SLIP_AMOUNT));
        self.ledger.send_funded(&Terms { id, total, count: 1, ..self.terms.clone() }).await;
    }

    /// A process that knows nothing yet.
    pub fn process(&self) -> View {
        process(&self.ledger, &self.shards, &self.clock)
    }

    pub fn next_user(&mut self) -> UserId {
        self.users += 1;
        // Twelve letters.
        format!("user{:08}", self.users).parse().unwrap()
    }

    pub fn claim(&self, slip: u32) -> Claim {
        Claim { slip, amount: Amount::new(SLIP_AMOUNT), at: self.clock.now() }
    }

    pub async fn commit(&mut self, user: &UserId, claim: &Claim) {
        let committed = self.ledger.claim(&self.terms, user, claim, None).await.unwrap();
        assert!(committed.is_in_ledger(claim), "{committed:?}");
        self.claimed += 1;
    }

    pub async fn hold(&mut self, part: PartId) -> Hold {
        let user = self.next_user();
        let grabbers = [Grabber { user: user.clone(), passphrase: None }];
        let answer = self.hot.grab(part, &grabbers).await.unwrap().unwrap().remove(0);
        let GrabAnswer::Held { slip, left, .. } = answer else { panic!("{answer:?}") };
        Hold { slip, user, at: self.terms.expires_at.before(left) }
    }

    pub async fn commit_hold(&mut self, hold: &Hold) -> Claim {
        let claim = Claim { at: hold.at, ..self.claim(hold.slip) };
        self.commit(&hold.user, &claim).await;
        claim
    }

    pub async fn reconcile(&self, part: PartId, hold: &Hold) {
        let decision = Claim { at: hold.at, ..self.claim(hold.slip) }.decision(&hold.user);
        let hold = std::slice::from_ref(hold);
        self.hot.reconcile(part, self.terms.count, &[decision], hold).await.unwrap();
    }

    /// Users win so many slips, spread over the parts.
    pub async fn wins(&mut self, count: u32) {
        for _ in 0..count {
            let part = self.part(self.users % self.terms.id.part_count());
            let hold = self.hold(part).await;
            self.commit_hold(&hold).await;
            self.reconcile(part, &hold).await;
        }
    }

    /// Refunds what is left, as settle does after the expiry. The hot store does not know yet.
    pub async fn settle(&self) {
        let all = async || self.ledger.decisions(self.terms.id, 0..self.terms.count).await.unwrap();
        let taken: BTreeSet<u32> = all().await.iter().map(|decision| decision.slip).collect();
        let left = (0..self.terms.count).filter(|slip| !taken.contains(slip));
        let left: Vec<(u32, Amount)> = left.map(|slip| (slip, Amount::new(SLIP_AMOUNT))).collect();
        for chunk in left.chunks(90) {
            self.ledger.refund(&self.terms, chunk, self.clock.now()).await.unwrap();
        }
        self.ledger.mark_settled(&self.terms, &Summary::of(all().await.iter()), self.clock.now()).await.unwrap();
    }

    pub fn part(&self, index: u32) -> PartId {
        PartId { packet: self.terms.id, index }
    }

    pub async fn view(&self, viewer: &UserId) -> PacketView {
        self.view.packet(self.terms.id, viewer, &Voucher::Operator).await.unwrap()
    }

    pub async fn claimed_count(&self) -> u32 {
        let view = self.view(&self.terms.sender).await;
        let summary = &view.summary;
        assert_eq!(summary.claimed_amount.minor_units(), u64::from(summary.claimed_count) * SLIP_AMOUNT);
        assert!(!view.is_decided);
        summary.claimed_count
    }

    pub fn queries(&self) -> u64 {
        self.table.queries.swap(0, Ordering::SeqCst)
    }

    pub fn gets(&self) -> u64 {
        self.table.gets.swap(0, Ordering::SeqCst)
    }

    /// Begins to count anew.
    pub fn forget_counts(&self) {
        let _ = (self.queries(), self.gets(), self.asked());
    }

    /// How often the hot store was asked since the last call of this.
    pub fn asked(&self) -> u64 {
        self.shards.server().asked.swap(0, Ordering::SeqCst)
    }

    pub fn mute(&self, partitions: impl IntoIterator<Item = u32>) {
        *lock(&self.shards.server().mute) = partitions.into_iter().collect();
    }
}

fn process(ledger: &Arc<Ledger<Counting>>, shards: &Arc<RedisStore<Shards>>, clock: &Arc<PausedClock>) -> View {
    let clock = Arc::<PausedClock>::clone(clock);
    ViewPackets::new(Stores::new(Arc::clone(ledger), Arc::clone(shards), clock, Arc::new(System)))
}

pub async fn page(view: &View, terms: &Terms, after: Option<u64>) -> Slice<ListedClaim, u64> {
    list(view, terms, Order::Slip, after).await.claims
}

pub async fn list(view: &View, terms: &Terms, order: Order, cursor: Option<u64>) -> ClaimsView {
    let asked = ClaimsAsked { order, cursor, limit: 100 };
    view.claims(terms.id, Some(&terms.sender), &Voucher::Operator, &asked).await.unwrap()
}
