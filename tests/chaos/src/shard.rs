//! A shard: a `DynamoDB`, a Redis, workers and users of its own. Several shards run side by side.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::Status;
use local::dynamodb::DynamoDb;
use local::options::Ack;
use tests::audit_table;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clients::Clients;
use crate::crowd::{CLOSED_EXPIRES_IN, People};
use crate::fleet::{Fleet, Mode, Stores};
use crate::hot::{Cluster, Hot, Single};
use crate::proxies::DynamoProxy;
use crate::report::{Group, Tally};
use tests::book::Book;
use tests::dice::Dice;

/// A new crowd starts while fewer clients than this wait for an answer: as much load as the machine bears.
const WAITING_MOST: usize = 24;
/// The time between two crowds, in milliseconds.
const CROWD_EVERY_MS: std::ops::Range<u32> = 20..300;
/// After one in this many crowds a user overspends, and another one deposits money.
const TILL: u32 = 10;
/// The time between two harms to Redis, in milliseconds.
const PEACE_MS: std::ops::Range<u32> = 100..900;
/// The time between two runs of settle, in milliseconds.
const SETTLE_EVERY_MS: std::ops::Range<u32> = 50..400;
/// This soon after the last fault the outbox must be empty and every expired packet settled.
const FINISHED_WITHIN: Duration = Duration::from_mins(3);
const TABLE: &str = "hongbao";

/// A shard's composition.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Whether its Redis is a cluster.
    pub cluster: bool,
    /// The acknowledgement mode of its packets.
    pub ack: Ack,
    /// Whether its Redis loses acknowledged data.
    pub forgetful: bool,
    /// Number of worker processes.
    pub workers: usize,
}

/// The shards of a run.
pub const KINDS: [Kind; 4] = [
    Kind { name: "single", cluster: false, ack: Ack::Ledger, forgetful: true, workers: 3 },
    Kind { name: "cluster", cluster: true, ack: Ack::Ledger, forgetful: true, workers: 3 },
    Kind { name: "redis-acks", cluster: false, ack: Ack::Redis, forgetful: true, workers: 3 },
    Kind { name: "durable", cluster: false, ack: Ack::Redis, forgetful: false, workers: 3 },
];

/// A running shard.
#[derive(Debug)]
pub struct Shard {
    kind: Kind,
    dynamodb: DynamoDb,
    proxy: DynamoProxy,
    hot: Hot,
    fleet: Fleet,
    people: Arc<People>,
    tally: Arc<Tally>,
    load: Load,
}

/// Settings that all shards of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The seed of all randomness.
    pub seed: u64,
    /// Concurrent crowds of a shard.
    pub crowds: usize,
}

impl Shard {
    /// Starts everything, without faults.
    pub async fn start(
        kind: Kind,
        load: Load,
        tally: &Arc<Tally>,
        logs: &Path,
        mode: &watch::Receiver<Mode>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let seed = load.seed;
        let dice = |what: &str| Dice::new(seed, &format!("{} {what}", kind.name));
        let dynamodb = DynamoDb::start(None).await?;
        let port = dynamodb.url().rsplit(':').next().unwrap_or_default().parse()?;
        let proxy = DynamoProxy::start(port, dice("dynamodb"), Arc::clone(tally)).await?;
        let hot = if kind.cluster {
            Hot::Cluster(Cluster::start(kind.name, seed, tally).await?)
        } else {
            Hot::Single(Single::start(kind.name, seed, Arc::clone(tally)).await?)
        };
        let stores = Stores { redis_url: hot.url(), cluster: kind.cluster, dynamodb_url: proxy.url(), ack: kind.ack };
        let log = logs.join(format!("{}.log", kind.name));
        let fleet = Fleet::start(kind.name, kind.workers, seed, &stores, tally, &log, mode)?;
        let clients = Clients::new(fleet.doors().to_vec(), dice("clients"), Arc::clone(tally))?;
        fleet.ready().await;
        let book = Book::new(kind.ack == Ack::Redis);
        let people = Arc::new(People::new(kind.name.to_owned(), clients, book, Arc::clone(tally), dice("people")));
        people.fund().await;
        Ok(Self { kind, dynamodb, proxy, hot, fleet, people, tally: Arc::clone(tally), load })
    }

    /// Lets everything fail until `end`, then stops the faults and finishes all work.
    pub async fn run(&mut self, end: Instant) {
        self.set_faulty(true);
        let people = Arc::clone(&self.people);
        let dice = |what: &str| Dice::new(self.load.seed, &format!("{} {what}", self.kind.name));
        let crowds = tokio::spawn(crowds(Arc::clone(&people), dice("crowds"), self.load.crowds, end));
        let (stop, stopped) = watch::channel(false);
        let settling = tokio::spawn(settle_often(Arc::clone(&people), dice("settle"), stopped));
        self.harm_often(&dice("harm"), end).await;
        self.set_faulty(false);
        crowds.await.expect("the crowds");
        stop.send_replace(true);
        settling.await.expect("the settling");
    }

    /// Finishes all work, and checks all answers against the ledger.
    pub async fn check(&self) {
        let expired = Instant::now() + CLOSED_EXPIRES_IN;
        self.check_closes().await;
        sleep_until(expired).await;
        if let Err(left) = self.finish().await {
            self.violated(&format!("unfinished work after {FINISHED_WITHIN:?}: {left}"));
        }
        let client = shared::wiring::dynamodb_at(&self.dynamodb.url());
        // The audit panics at an imbalance.
        let audit = tokio::spawn(async move { audit_table(&client, TABLE).await });
        let books = match audit.await {
            Ok(books) => books,
            Err(error) => return self.violated(&format!("the audit found an imbalance: {error}")),
        };
        for (id, _) in books.packets.iter().filter(|(_, packet)| !packet.settled) {
            self.violated(&format!("{id} is not settled"));
        }
        let checked = self.people.book.compare(&books);
        for violation in &checked.violations {
            self.violated(violation);
        }
        let refunded = books.packets.values().map(|packet| packet.refunded() as u64).sum();
        for (what, count) in [
            ("packets", books.packets.len() as u64),
            ("slips refunded", refunded),
            ("promises kept", checked.promises_kept),
            ("true denials", checked.denials_true),
            ("claims by an attempt without an answer", checked.late_claims),
            ("promises in redis mode lost with Redis", checked.promises_lost_with_redis),
        ] {
            self.tally.add(Group::Ledger, what, count);
        }
    }

    /// Checks that each packet that the operator closed is settled, also before its expiry. Closes without an answer are repeated
    /// first, as an operator would.
    async fn check_closes(&self) {
        for (id, _) in self.people.book.closes().iter().filter(|(_, is_answered)| !is_answered) {
            self.people.close(id).await;
        }
        if let Err(left) = self.finish().await {
            self.violated(&format!("unfinished closes after {FINISHED_WITHIN:?}: {left}"));
        }
        for (id, _) in self.people.book.closes() {
            let status = self.people.close(&id).await;
            if status != Some(Status::Settled) {
                self.violated(&format!("{id} was closed, and is {status:?} after a run of settle"));
            }
        }
    }

    /// Ends everything, after [`Mode::Stop`].
    pub async fn stop(self) -> std::io::Result<()> {
        self.fleet.ended().await?;
        self.dynamodb.stop().await;
        Ok(())
    }

    /// Settles until no work is left. Returns the remaining work if it takes too long.
    async fn finish(&self) -> Result<(), String> {
        let give_up = Instant::now() + FINISHED_WITHIN;
        loop {
            let report = self.people.clients.settle().await;
            let outbox = self.hot.outbox().await;
            let is_done = report.as_ref().is_some_and(|report| report["outbox_left"] == 0 && report["due_left"] == 0);
            if is_done && outbox.is_empty() {
                return Ok(());
            }
            if Instant::now() >= give_up {
                return Err(format!("{outbox:?}, {report:?}"));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn set_faulty(&self, faulty: bool) {
        self.proxy.set_faulty(faulty);
        self.hot.set_faulty(faulty);
    }

    async fn harm_often(&mut self, dice: &Dice, end: Instant) {
        let harms = self.hot.harms(self.kind.forgetful);
        while Instant::now() < end {
            sleep(dice.time(PEACE_MS)).await;
            let harm = *dice.pick(&harms).expect("a harm");
            let book = &self.people.book;
            let begins = || {
                if harm.loses() {
                    book.loss_begins();
                }
            };
            self.hot.harm(harm, dice, begins).await;
            if harm.loses() {
                book.loss_ends();
            }
            let group = if harm.loses() { Group::RedisLoss } else { Group::RedisFault };
            self.tally.count(group, &format!("{harm:?}"));
        }
    }

    fn violated(&self, what: &str) {
        self.tally.violated(format!("{}: {what}", self.kind.name));
    }
}

/// Starts crowds until `end`, and waits for the last answers.
async fn crowds(people: Arc<People>, dice: Dice, most: usize, end: Instant) {
    let mut crowds = JoinSet::new();
    while Instant::now() < end {
        sleep(dice.time(CROWD_EVERY_MS)).await;
        while let Some(gone) = crowds.try_join_next() {
            gone.expect("a crowd");
        }
        if people.clients.waiting() < WAITING_MOST && crowds.len() < most {
            let (people, till) = (Arc::clone(&people), dice.happens(1, TILL));
            crowds.spawn(async move {
                people.crowd().await;
                if till {
                    people.till().await;
                }
            });
        }
    }
    while let Some(gone) = crowds.join_next().await {
        gone.expect("a crowd");
    }
}

/// Runs settle like a schedule, but more often, and now and then twice at once.
async fn settle_often(people: Arc<People>, dice: Dice, stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        sleep(dice.time(SETTLE_EVERY_MS)).await;
        if dice.happens(1, 5) {
            tokio::join!(people.clients.settle(), people.clients.settle());
        } else {
            people.clients.settle().await;
        }
    }
}
