//! A shard: a `DynamoDB`, a Redis, workers and people of its own. Several run side by side.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use local::dynamodb::DynamoDb;
use local::options::Ack;
use tests::audit_table;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use crate::book::Book;
use crate::clients::{Clients, Manners};
use crate::crowd::People;
use crate::dice::Dice;
use crate::dynamo_proxy::DynamoProxy;
use crate::fleet::{Fleet, Mode};
use crate::hot::{Cluster, Hot, Single};
use crate::tally::Tally;
use crate::worker::Stores;

/// A new crowd comes while fewer clients than this wait for an answer: as much load as the machine bears, and no more.
const WAITING_MOST: usize = 24;
/// How long until the next crowd comes, in milliseconds.
const CROWD_EVERY_MS: std::ops::Range<u32> = 20..300;
/// One of so many crowds is followed by a visit to the till.
const TILL: u32 = 10;
/// How long Redis is left alone between two harms, in milliseconds.
const PEACE_MS: std::ops::Range<u32> = 100..900;
/// How long until settle runs again, in milliseconds.
const SETTLE_EVERY_MS: std::ops::Range<u32> = 50..400;
/// Slips and time of the packets that recovery is measured with.
const PROBE_SLIPS: u32 = 90;
const PROBE_EXPIRES_IN: Duration = Duration::from_secs(15);
/// Users who come when Redis is back, one after the other: the first good answer to any of them counts.
const PROBES: u64 = 40;
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// What people are like, and those who only want to know whether Redis is back: these don't wait longer than a moment.
const CROWD: Manners = Manners { pause_most_ms: 2_000, at_once: 32 };
const PROBERS: Manners = Manners { pause_most_ms: 100, at_once: 1_000 };
/// Within this time after the last fault the outbox is empty and what has expired is settled.
const AT_REST_WITHIN: Duration = Duration::from_mins(3);
const TABLE: &str = "hongbao";

/// What a shard is made of.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Whether its Redis is a cluster.
    pub cluster: bool,
    /// What its packets' grabs wait for.
    pub ack: Ack,
    /// Whether its Redis loses what it acknowledged.
    pub forgetful: bool,
    /// Its processes.
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

/// What a run's shards have in common.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What all chance follows from.
    pub seed: u64,
    /// Crowds of a shard at once.
    pub crowds: usize,
}

/// What recovery is measured with.
struct Probe {
    people: Arc<People>,
    packet: Option<(String, Instant)>,
    slips_left: u64,
    next_user: Arc<AtomicU64>,
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
        let address = dynamodb.url().trim_start_matches("http://").parse()?;
        let proxy = DynamoProxy::start(address, dice("dynamodb"), Arc::clone(tally)).await?;
        let hot = if kind.cluster {
            Hot::Cluster(Cluster::start(kind.name, seed, tally).await?)
        } else {
            Hot::Single(Single::start(kind.name, seed, Arc::clone(tally)).await?)
        };
        let stores = Stores { redis_url: hot.url(), cluster: kind.cluster, dynamodb_url: proxy.url(), ack: kind.ack };
        let log = logs.join(format!("{}.log", kind.name));
        let fleet = Fleet::start(kind.name, kind.workers, seed, &stores, tally, &log, mode)?;
        let clients = [("clients", CROWD), ("probers", PROBERS)]
            .map(|(what, manners)| Clients::new(fleet.doors().to_vec(), dice(what), manners));
        let [clients, probers] = clients;
        fleet.ready().await;
        let book = Book::new(kind.ack == Ack::Redis);
        let people =
            Arc::new(People::new(kind.name.to_owned(), [clients?, probers?], book, Arc::clone(tally), dice("people")));
        people.fund().await;
        Ok(Self { kind, dynamodb, proxy, hot, fleet, people, tally: Arc::clone(tally), load })
    }

    /// Lets things fail until `end`, then brings everything to rest.
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

    /// Brings everything to rest, and holds what was said against what is.
    pub async fn check(&self) {
        sleep(PROBE_EXPIRES_IN).await;
        if let Err(left) = self.rest().await {
            self.violated(&format!("not at rest within {AT_REST_WITHIN:?}: {left}"));
        }
        let client = shared::wiring::dynamodb_at(&self.dynamodb.url());
        // The audit panics at what it finds.
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
        self.tally.update(|report| {
            report.packets += books.packets.len() as u64;
            report.slips_refunded += books.packets.values().map(|packet| packet.refunded() as u64).sum::<u64>();
            report.promises_kept += checked.promises_kept;
            report.denials_true += checked.denials_true;
            report.late_claims += checked.late_claims;
            report.promises_lost_with_redis += checked.promises_lost_with_redis;
        });
    }

    /// Ends everything, after [`Mode::Stop`].
    pub async fn stop(self) -> std::io::Result<()> {
        self.fleet.ended().await?;
        self.dynamodb.stop().await;
        Ok(())
    }

    /// Settles until nothing is left to do; else says what is.
    async fn rest(&self) -> Result<(), String> {
        let give_up = Instant::now() + AT_REST_WITHIN;
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
        let mut probe = Probe::new(Arc::clone(&self.people));
        probe.prepare().await;
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
                self.tally.redis_lost(harm.name());
                if let Some(after) = probe.recovery().await {
                    self.tally.recovered(harm.name(), after);
                }
            } else {
                self.tally.redis_harmed(harm.name());
            }
            probe.prepare().await;
        }
    }

    fn violated(&self, what: &str) {
        self.tally.violated(format!("{}: {what}", self.kind.name));
    }
}

/// Lets crowds come until `end`, and waits until the last of their members has his answer.
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

/// Settle is called as a schedule would, but more often, and now and then twice at once.
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

impl Probe {
    fn new(people: Arc<People>) -> Self {
        Self { people, packet: None, slips_left: 0, next_user: Arc::default() }
    }

    /// Sees to it that there is a packet to grab from.
    async fn prepare(&mut self) {
        let lasts = |until: Instant| until > Instant::now() + PROBE_EXPIRES_IN / 2;
        if self.slips_left < PROBES || self.packet.as_ref().is_none_or(|(_, until)| !lasts(*until)) {
            let until = Instant::now() + PROBE_EXPIRES_IN;
            let sent = self.people.probe_packet(PROBE_SLIPS, PROBE_EXPIRES_IN).await;
            self.packet = sent.map(|id| (id, until));
            self.slips_left = PROBE_SLIPS.into();
        }
    }

    /// How long it takes until one of those who ask from now on has a good answer.
    async fn recovery(&mut self) -> Option<Duration> {
        let (id, _) = self.packet.as_ref()?;
        let started = Instant::now();
        let mut asking = JoinSet::new();
        let mut come = interval(PROBE_EVERY);
        let mut first = None;
        loop {
            tokio::select! {
                _ = come.tick(), if first.is_none() && self.slips_left > 0 => {
                    self.slips_left -= 1;
                    let (people, id) = (Arc::clone(&self.people), id.clone());
                    let user = format!("p{}", self.next_user.fetch_add(1, Ordering::Relaxed));
                    asking.spawn(async move { people.probe(&id, &user).await.then(|| started.elapsed()) });
                }
                Some(answer) = asking.join_next() => first = first.or(answer.expect("a probe")),
                // All who came have been answered.
                else => break,
            }
        }
        // Without any it took at least as long as they asked.
        Some(first.unwrap_or_else(|| started.elapsed()))
    }
}
