//! The scripts on real servers. Each test body runs on one node and on a cluster of three.

mod grab;
mod load;
mod reconcile;
mod redis_model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use rand::RngExt;
use redis::{FromRedisValue, cmd};
use shared::domain::{
    AckMode, Amount, Claim, Decision, Guard, Hold, Owner, PacketId, PartId, Passphrase, PassphraseDigest,
    SPLIT_VERSION, Seed, Split, Terms, Timestamp, UserId, part_count,
};
use shared::ports::{GrabAnswer, Grabber, HotStore, HotStoreError, Loaded, OutboxEntry, PartState, Reconciled};
use shared::redis::test_server::{TestCluster, TestServer};
use shared::redis::{Call, Connection, PartKeys, RedisConfig, RedisStore, fields, holds};
use tokio::sync::Mutex;

/// User ids that a script could mistake for something else: its own values, numbers, patterns, hash tags.
const ODD_USERS: [&str; 11] =
    ["ann", "0", "3", "h0:1", "g1:2:3", "{x}", "}", "a\"b\\c", "a|b:c", "^(.*)$-+[", "~'`=;,<>&!@"];

/// How long the packets of these tests are open.
const AN_HOUR: Duration = Duration::from_hours(1);

/// `make mutants OF=lua` runs these tests hundreds of times, and sets this variable to a seed. Then they run on one node only, because a
/// cluster runs the same scripts, and random commands are drawn from the seed.
const SEED_VARIABLE: &str = "HONGBAO_TEST_SCRIPTS_SEED";

fn judging_seed() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok().map(|seed| seed.parse().unwrap())
}

/// Real servers, which stop with the last rig that uses them.
#[derive(Debug)]
enum Servers {
    One(TestServer),
    Cluster(TestCluster),
}

impl Servers {
    async fn one() -> Arc<Self> {
        Arc::new(Self::One(TestServer::start(&[]).await))
    }

    async fn cluster() -> Arc<Self> {
        Arc::new(Self::Cluster(TestCluster::start(3).await))
    }

    fn nodes(&self) -> &[TestServer] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }
}

/// The store under test, with direct access to its server.
#[derive(Debug)]
struct Rig {
    servers: Arc<Servers>,
    connection: Connection,
    store: RedisStore,
}

impl Rig {
    fn over(servers: Arc<Servers>) -> Self {
        let urls: Vec<String> = servers.nodes().iter().map(TestServer::url).collect();
        let mut config = RedisConfig::new(urls.join(","));
        config.cluster = matches!(*servers, Servers::Cluster(_));
        // A busy machine is no fault.
        config.connect_timeout = Duration::from_secs(10);
        config.response_timeout = Duration::from_secs(10);
        let connection = Connection::new(&config).unwrap();
        Self { servers, store: RedisStore::new(connection.clone()), connection }
    }

    /// On a server that all concurrent tests share; each test has its own packets.
    async fn on_one_node() -> Self {
        static SHARED: Mutex<Weak<Servers>> = Mutex::const_new(Weak::new());
        Self::over(shared(&SHARED, Servers::one).await)
    }

    /// On a cluster that all concurrent tests share.
    async fn in_a_cluster() -> Self {
        static SHARED: Mutex<Weak<Servers>> = Mutex::const_new(Weak::new());
        Self::over(shared(&SHARED, Servers::cluster).await)
    }

    /// Runs a command directly on the server.
    async fn run<T: FromRedisValue, const N: usize>(&self, words: [&str; N]) -> T {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        self.connection.run(&Call::from(command)).await.unwrap()
    }

    /// The state of a part, read from its keys.
    async fn state(&self, part: PartId) -> State {
        let keys = PartKeys::of(part);
        let (claims, free, tries, decided, pending) = futures::join!(
            self.run::<BTreeMap<String, String>, _>(["HGETALL", &keys.part]),
            self.run::<Vec<u32>, _>(["LRANGE", &keys.free, "0", "-1"]),
            self.run::<BTreeMap<String, String>, _>(["HGETALL", &keys.tries]),
            self.run::<Vec<u8>, _>(["GETRANGE", &keys.known, "0", "-1"]),
            self.run::<Option<f64>, _>(["ZSCORE", &keys.pending, &keys.name]),
        );
        let held: Vec<OutboxEntry> = holds(&claims).collect();
        let (mut terms, claims): (BTreeMap<String, String>, _) =
            claims.into_iter().partition(|(field, _)| field.starts_with(fields::PREFIX));
        let held_count = terms.remove(fields::HELD_COUNT).map_or(0, |count| count.parse::<i64>().unwrap());
        assert_eq!(Ok(held_count), i64::try_from(held.len()), "{part} holds {held:?}");
        terms.remove(fields::FORGET_AT);
        let free = free.into_iter().rev().collect();
        let bit = |place: &usize| decided[place / 8] >> (7 - place % 8) & 1 == 1;
        let decided = (0..decided.len() * 8).filter(bit).map(|place| u32::try_from(place).unwrap()).collect();
        let slips = held.iter().map(|held| (held.hold.slip, held.clone())).collect::<BTreeMap<_, _>>();
        assert_eq!(slips.len(), held.len(), "{part} holds a slip for two: {held:?}");
        State { terms, claims, tries, free, held: slips, decided, is_pending: pending.is_some() }
    }

    /// Lets a part expire, as if an hour had passed: Redis deletes its list.
    async fn expire(&self, part: PartId) {
        let keys = PartKeys::of(part);
        let () = self.run(["PEXPIREAT", &keys.free, "1"]).await;
        if self.run(["EXISTS", &keys.part]).await {
            let () = self.run(["HSET", &keys.part, fields::EXPIRES_AT, "1"]).await;
        }
    }

    /// Loses all of a part except its place in the queue.
    async fn forget(&self, part: PartId) {
        let keys = PartKeys::of(part);
        let () = self.run(["DEL", &keys.part, &keys.free, &keys.known, &keys.tries]).await;
    }

    async fn load(&self, packet: &Packet, decisions: &[Decision]) {
        assert_eq!(self.store.load(packet.part, &packet.terms, false, decisions).await.unwrap(), Loaded::Yes);
    }

    /// A part's answer to one user without a passphrase.
    async fn grab(&self, packet: &Packet, user: &str) -> GrabAnswer {
        self.grab_as(packet, &grabber(user)).await
    }

    /// The answers to several users in one call.
    async fn grab_all(&self, packet: &Packet, grabbers: &[Grabber]) -> Vec<GrabAnswer> {
        self.store.grab(packet.part, grabbers).await.unwrap().expect("a loaded part")
    }

    async fn grab_as(&self, packet: &Packet, grabber: &Grabber) -> GrabAnswer {
        self.grab_all(packet, std::slice::from_ref(grabber)).await.remove(0)
    }

    /// Takes a slip for a user, and returns the hold.
    async fn hold(&self, packet: &Packet, user: &str) -> Hold {
        match self.grab(packet, user).await {
            GrabAnswer::Held { slip, left, fresh: true } => {
                Hold { slip, user: id(user), at: packet.terms.expires_at.before(left) }
            }
            other => panic!("{user}: {other:?}"),
        }
    }

    /// The state of a loaded part.
    async fn part_state(&self, packet: &Packet) -> PartState {
        self.store.part_state(packet.part).await.unwrap().expect("a loaded part")
    }

    /// Reconciles a part twice, and checks that the second time changes nothing.
    async fn reconcile(&self, packet: &Packet, decisions: &[Decision], resolved: &[Hold]) -> Reconciled {
        let reconcile =
            async || self.store.reconcile(packet.part, packet.terms.count, decisions, resolved).await.unwrap();
        let reconciled = reconcile().await;
        let state = self.state(packet.part).await;
        assert_eq!(reconcile().await, reconciled);
        assert_eq!(self.state(packet.part).await, state, "reconciled twice");
        reconciled
    }
}

async fn shared(slot: &Mutex<Weak<Servers>>, start: impl AsyncFnOnce() -> Arc<Servers>) -> Arc<Servers> {
    let mut slot = slot.lock().await;
    if let Some(servers) = slot.upgrade() {
        return servers;
    }
    let servers = start().await;
    *slot = Arc::downgrade(&servers);
    servers
}

/// Runs a test body on one node and on a cluster.
async fn on_both(body: impl AsyncFn(Rig)) {
    body(Rig::on_one_node().await).await;
    if judging_seed().is_none() {
        body(Rig::in_a_cluster().await).await;
    }
}

/// A part's keys, decoded.
#[derive(Clone, Debug, Eq, PartialEq)]
struct State {
    /// The fields of `claims` that belong to no user.
    terms: BTreeMap<String, String>,
    claims: BTreeMap<String, String>,
    /// Wrong passphrases by user, and when their minute ends.
    tries: BTreeMap<String, String>,
    free: Vec<u32>,
    /// Holds by slip.
    held: BTreeMap<u32, OutboxEntry>,
    /// Known decisions, as positions within the part.
    decided: BTreeSet<u32>,
    is_pending: bool,
}

impl State {
    /// Whether the part has no key at all.
    fn is_empty(&self) -> bool {
        let Self { terms, claims, tries, free, held, decided, is_pending } = self;
        let is_forgotten = terms.is_empty() && claims.is_empty() && tries.is_empty();
        is_forgotten && free.is_empty() && held.is_empty() && decided.is_empty() && !is_pending
    }
}

/// A packet, and the part under test.
#[derive(Clone, Debug)]
struct Packet {
    part: PartId,
    terms: Terms,
}

impl Packet {
    /// A packet of `count` slips, in as many parts as the rule says.
    fn of(count: u32) -> Self {
        Self::in_parts(part_count(count), count)
    }

    /// A packet of `count` slips in this many parts.
    fn in_parts(parts: u32, count: u32) -> Self {
        let now = now();
        let id = PacketId::new(now, parts, rand::rng().random());
        let terms = Terms {
            id,
            sender: self::id("sender"),
            split: Split::Equal,
            split_version: SPLIT_VERSION,
            seed: Seed([0; 32]),
            currency: "CNY".to_owned(),
            total: Amount::new(u64::from(count) * 100),
            count,
            cap: Amount::new(20_000),
            greeting: String::new(),
            created_at: now,
            expires_at: now.after(AN_HOUR),
            ack: AckMode::Ledger,
            guard: Guard::default(),
            limit: None,
            labels: shared::domain::Labels::default(),
        };
        Self { part: PartId { packet: id, index: 0 }, terms }
    }

    fn acknowledged_by_redis(mut self) -> Self {
        self.terms.ack = AckMode::Redis;
        self
    }

    fn for_recipients(mut self, users: &[&str]) -> Self {
        self.terms.guard.recipients = Some(users.iter().map(|user| id(user)).collect());
        self.guarded()
    }

    fn with_passphrase(self, passphrase: &str) -> Self {
        let mut guarded = self.guarded();
        guarded.terms.guard.passphrase = Some(digest(guarded.terms.id, passphrase));
        guarded
    }

    fn starting_at(mut self, starts_at: Timestamp) -> Self {
        self.terms.guard.starts_at = Some(starts_at);
        self.guarded()
    }

    fn guarded(mut self) -> Self {
        self.terms.id = self.terms.id.with_guard();
        self.part.packet = self.terms.id;
        self
    }

    /// `user` with this passphrase.
    fn saying(&self, user: &str, passphrase: &str) -> Grabber {
        Grabber { user: id(user), passphrase: Some(digest(self.terms.id, passphrase)) }
    }

    /// The answer to a user who asks again, for whom this slip is held.
    fn held(&self, hold: &Hold) -> GrabAnswer {
        GrabAnswer::Held { slip: hold.slip, left: self.terms.expires_at.since(hold.at), fresh: false }
    }

    fn keys(&self) -> PartKeys {
        PartKeys::of(self.part)
    }
}

/// Packets of one partition: their ids differ only in time.
fn neighbours(first: &Packet, count: u64) -> Vec<Packet> {
    let random = rand::rng().random();
    (0..count)
        .map(|n| {
            let mut packet = first.clone();
            packet.terms.id = PacketId::new(now().after(Duration::from_millis(n)), 1, random);
            packet.part = PartId { packet: packet.terms.id, index: 0 };
            packet
        })
        .collect()
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_ms(u64::try_from(since_epoch.as_millis()).unwrap())
}

fn id(user: &str) -> UserId {
    user.parse().unwrap()
}

fn digest(packet: PacketId, passphrase: &str) -> PassphraseDigest {
    PassphraseDigest::new(packet, &Passphrase::new(passphrase))
}

fn grabber(user: &str) -> Grabber {
    Grabber { user: id(user), passphrase: None }
}

/// A claimed decision of `slip`. Each slip has its own amount and time.
fn claim_of(slip: u32) -> Claim {
    let at = Timestamp::from_ms(1_700_000_000_000 + u64::from(slip));
    Claim { slip, amount: Amount::new(100 + u64::from(slip)), at }
}

fn won(slip: u32, user: &str) -> Decision {
    claim_of(slip).decision(&id(user))
}

fn refunded(slip: u32) -> Decision {
    Decision { owner: Owner::Refunded, ..won(slip, "nobody") }
}

const SOLD_OUT: GrabAnswer = GrabAnswer::SoldOut { certain: true };
const PERHAPS_SOLD_OUT: GrabAnswer = GrabAnswer::SoldOut { certain: false };
const NO_LIST: GrabAnswer = GrabAnswer::NoList { certain: false };
