//! Real stores, and any number of processes over them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use local::dynamodb::DynamoDb;
use redis::{Cmd, FromRedisValue, cmd};
use shared::domain::{
    AckMode, Amount, DayZone, Limits, MAX_MOVEMENT, PacketId, Passphrase, PassphraseDigest, Split, Terms, Timestamp,
    UserId,
};
use shared::dynamodb::{SdkTable, create_table};
use shared::ledger::{DepositOutcome, Ledger};
use shared::ports::{Clock, System};
use shared::redis::test_server::{TestCluster, TestServer, poll};
use shared::redis::{Connection, RedisConfig, RedisStore};
use shared::service::{
    ClosePacket, Failure, GrabOutcome, GrabSlip, NewPacket, RunReport, SendOutcome, SendPacket, SendPolicy, Settle,
    Stores, ViewPackets, Voucher, Wallets,
};
use tokio::time::Instant;

use crate::rigged::{Rig, Rigged};

/// The stores' timeout for everything: test machines are busy, and no test here is about timeouts.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a run of settle may take.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(10);
const TABLE: &str = "hongbao";
const CURRENCY: &str = "CNY";

/// The user `name`.
pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// The users `<prefix>0` to `<prefix><count - 1>`.
pub fn users(prefix: &str, count: usize) -> Vec<UserId> {
    (0..count).map(|n| user(&format!("{prefix}{n}"))).collect()
}

/// A plain packet that does not expire during a test. Change what matters.
pub fn packet(sender: &UserId, total: u64, count: u32) -> NewPacket {
    NewPacket {
        sender: sender.clone(),
        split: Split::Random,
        total: Amount::new(total),
        count,
        greeting: "恭喜发财".to_owned(),
        starts_at: None,
        expires_in: Duration::from_hours(1),
        passphrase: None,
        recipients: None,
        wants_ticket: false,
        limit: None,
        labels: shared::domain::Labels::default(),
    }
}

/// The Redis servers of a world.
#[derive(Debug)]
pub enum Servers {
    /// One server.
    Single(TestServer),
    /// A cluster of masters.
    Cluster(TestCluster),
}

impl Servers {
    /// All servers.
    pub fn nodes(&self) -> &[TestServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }

    /// All servers, to kill or restart them.
    pub fn nodes_mut(&mut self) -> &mut [TestServer] {
        match self {
            Self::Single(server) => std::slice::from_mut(server),
            Self::Cluster(cluster) => &mut cluster.nodes,
        }
    }

    fn config(&self) -> RedisConfig {
        let mut config = match self {
            Self::Single(server) => RedisConfig::new(server.url()),
            Self::Cluster(cluster) => RedisConfig { cluster: true, ..RedisConfig::new(cluster.url()) },
        };
        config.connect_timeout = STORE_TIMEOUT;
        config.response_timeout = STORE_TIMEOUT;
        config
    }
}

/// A process's clock: the machine's, or one that is ahead of it.
#[derive(Debug, Default)]
pub struct SkewedClock {
    ahead_ms: AtomicU64,
}

impl SkewedClock {
    /// Sets how far it is ahead.
    pub fn set_ahead(&self, by: Duration) {
        self.ahead_ms.store(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        System.now().after(Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst)))
    }
}

/// A process's configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The acknowledgement mode of its packets.
    pub ack: AckMode,
    /// The most that a user may send on a day.
    pub daily_max: Option<Amount>,
}

/// The data of a Redis server at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<Vec<u8>>);

/// The stores.
pub struct World {
    /// Redis.
    pub redis: Servers,
    /// Counts and faults of all processes' tables.
    pub rig: Arc<Rig>,
    /// A client of the ledger's table, for the audit.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// A connection to Redis, for direct changes.
    connection: Connection,
    /// The server of [`Self::dynamodb`].
    server: DynamoDb,
}

impl World {
    /// A world with one Redis server.
    pub async fn single() -> Self {
        Self::single_with(&[]).await
    }

    /// A world with one Redis server that has these arguments.
    pub async fn single_with(args: &[&str]) -> Self {
        Self::over(Servers::Single(TestServer::start(args).await)).await
    }

    /// A world with a Redis cluster of `size` masters.
    pub async fn cluster(size: usize) -> Self {
        Self::over(Servers::Cluster(TestCluster::start(size).await)).await
    }

    async fn over(redis: Servers) -> Self {
        let server = DynamoDb::start(None).await.unwrap();
        let dynamodb = shared::wiring::dynamodb_at(&server.url());
        create_table(&dynamodb, TABLE).await.unwrap();
        let connection = Connection::new(&redis.config()).unwrap();
        Self { redis, rig: Arc::default(), dynamodb, connection, server }
    }

    /// The ledger's endpoint.
    pub fn dynamodb_url(&self) -> String {
        self.server.url()
    }

    /// The ledger's table.
    pub const fn table(&self) -> &'static str {
        TABLE
    }

    /// A process with caches and connections of its own.
    pub fn process(&self) -> Arc<Process> {
        self.process_with(Setup::default())
    }

    /// A process with this configuration, with caches and connections of its own.
    pub fn process_with(&self, setup: Setup) -> Arc<Process> {
        let table = Rigged::new(SdkTable::new(self.dynamodb.clone(), TABLE.to_owned()), Arc::clone(&self.rig));
        let ledger = Arc::new(Ledger::new(table, Arc::new(System)));
        let hot = Arc::new(RedisStore::new(Connection::new(&self.redis.config()).unwrap()));
        let clock = Arc::new(SkewedClock::default());
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let stores = Stores::new(Arc::clone(&ledger), Arc::clone(&hot), now(), Arc::new(System));
        let (currency, limits) = (CURRENCY.to_owned(), Limits::default());
        let (daily_max, day_zone) = (setup.daily_max, DayZone::DEFAULT.parse().unwrap());
        let policy = SendPolicy { currency, ack: setup.ack, limits, daily_max, day_zone };
        let send = SendPacket::new(stores.clone(), policy);
        let grab = GrabSlip::new(stores.clone(), CURRENCY.to_owned());
        let view = ViewPackets::new(stores.clone());
        let close = ClosePacket::new(stores.clone(), CURRENCY.to_owned());
        let settle = Settle::new(stores, Duration::ZERO).with_least_age(Duration::ZERO);
        let wallets = Wallets::new(Arc::clone(&ledger), now(), CURRENCY.to_owned(), MAX_MOVEMENT);
        Arc::new(Process { send, grab, close, settle, view, wallets, hot, clock })
    }

    /// The machine's time, which is also Redis' time here.
    pub fn now_ms(&self) -> u64 {
        System.now().ms()
    }

    /// Runs a command on the server that has its key.
    pub async fn redis<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.connection.run(&command.clone().into()).await.unwrap()
    }

    /// Redis loses everything.
    pub async fn flush(&self) {
        for node in self.redis.nodes() {
            let () = node.command(&cmd("FLUSHALL")).await;
        }
    }

    /// The names of all keys in Redis.
    pub async fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for node in self.redis.nodes() {
            keys.extend(node.command::<Vec<String>>(cmd("KEYS").arg("*")).await);
        }
        keys
    }

    /// All data of a single Redis server at one moment, in Redis' own format, for a rollback.
    pub async fn snapshot(&self) -> Snapshot {
        const DUMP: &str = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
            for _, part in ipairs({key, redis.call('DUMP', key), string.format('%d', redis.call('PEXPIRETIME', key))}) do \
            all[#all + 1] = part end end return all";
        Snapshot(self.redis(cmd("EVAL").arg(DUMP).arg(0)).await)
    }

    /// Takes a single Redis server back to an older state, all at once.
    pub async fn restore(&self, snapshot: &Snapshot) {
        const RESTORE: &str = "redis.call('FLUSHALL') for i = 1, #ARGV, 3 do \
            local expires = math.max(0, tonumber(ARGV[i + 2])) \
            redis.call('RESTORE', ARGV[i], string.format('%d', expires), ARGV[i + 1], 'ABSTTL') end";
        let mut eval = cmd("EVAL");
        eval.arg(RESTORE).arg(0);
        for part in &snapshot.0 {
            eval.arg(part.as_slice());
        }
        let () = self.redis(&eval).await;
    }

    /// Waits until a packet has expired.
    pub async fn expired(&self, terms: &Terms) {
        poll("the packet to expire", async || (self.now_ms() >= terms.expires_at.ms()).then_some(())).await;
    }

    /// # Panics
    /// If Redis has a hold left.
    pub async fn outbox_is_empty(&self) {
        let left = self.outbox().await;
        assert!(left.is_empty(), "the outbox is not empty: {left:?}");
    }

    /// Waits until Redis has no hold left. A process that runs on reconciles after its answers.
    pub async fn outbox_empties(&self) {
        poll("the outbox to be empty", async || self.outbox().await.is_empty().then_some(())).await;
    }

    /// The keys in Redis with a non-empty outbox.
    async fn outbox(&self) -> Vec<String> {
        let mut left = Vec::new();
        for key in self.keys().await {
            let holds = if key.contains(":part:") {
                let claims: BTreeMap<String, String> = self.redis(cmd("HGETALL").arg(&key)).await;
                !crate::hot::outbox(&claims).is_empty()
            } else {
                key.contains("pending")
            };
            if holds {
                left.push(key);
            }
        }
        left
    }
}

/// One process: the use cases, with caches of their own.
pub struct Process {
    /// Sends packets.
    pub send: SendPacket<Rigged, RedisStore>,
    /// Grabs slips.
    pub grab: GrabSlip<Rigged, RedisStore>,
    /// Closes packets.
    pub close: ClosePacket<Rigged, RedisStore>,
    /// Settles packets.
    pub settle: Settle<Rigged, RedisStore>,
    /// Reads packets, claims and histories.
    pub view: ViewPackets<Rigged, RedisStore>,
    /// Deposits and withdraws.
    pub wallets: Wallets<Rigged>,
    /// The hot store that they use.
    pub hot: Arc<RedisStore>,
    /// The process's clock.
    pub clock: Arc<SkewedClock>,
}

/// A new key of a send, or a new id of a deposit.
fn fresh_key<K: FromStr<Err: Debug>>() -> K {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed)).parse().unwrap()
}

impl Process {
    /// Deposits money.
    pub async fn fund(&self, user: &UserId, amount: u64) {
        let outcome = self.wallets.deposit(user, &fresh_key(), Amount::new(amount), None).await.unwrap();
        assert_eq!(outcome, DepositOutcome::Moved);
    }

    /// Sends a packet after a deposit of its total.
    pub async fn send_funded(&self, packet: NewPacket) -> Arc<Terms> {
        self.fund(&packet.sender, packet.total.minor_units()).await;
        self.send(packet).await
    }

    /// Sends a packet from a wallet that is already funded.
    pub async fn send(&self, packet: NewPacket) -> Arc<Terms> {
        match self.send.send(packet, &fresh_key()).await.unwrap() {
            SendOutcome::Sent(terms) => terms,
            other => panic!("not sent: {other:?}"),
        }
    }

    /// Grabs without a passphrase.
    pub async fn grab(&self, id: PacketId, user: &UserId) -> Result<GrabOutcome, Failure> {
        self.grab.grab(id, user, None, &Voucher::Operator).await
    }

    /// Grabs with a passphrase.
    pub async fn grab_saying(&self, id: PacketId, user: &UserId, words: &str) -> Result<GrabOutcome, Failure> {
        let passphrase = PassphraseDigest::new(id, &Passphrase::new(words));
        self.grab.grab(id, user, Some(passphrase), &Voucher::Operator).await
    }

    /// A run of settle of all partitions.
    pub async fn settle(&self) -> RunReport {
        self.settle_range(0..=255).await
    }

    /// Counts what there is to settle, by a run without time for work. On a slow machine it may have no time to count
    /// either.
    pub async fn count(&self) -> RunReport {
        poll("a count", async || {
            let report = self.settle.run(0..=255, Instant::now()).await.unwrap();
            report.outbox_left.is_some().then_some(report)
        })
        .await
    }

    /// A run of settle of some partitions.
    pub async fn settle_range(&self, partitions: RangeInclusive<u32>) -> RunReport {
        self.settle.run(partitions, Instant::now() + SETTLE_TIMEOUT).await.unwrap()
    }
}
