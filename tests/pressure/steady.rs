//! Sends and refunds for a long time. Nothing may grow that slows them down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Caller, Client, SendRequest, Split};
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tests::audit_table;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::stack::Stack;

const SENDERS: u64 = 64;
const FUNDS: u64 = 1_000_000_000;
/// How long a packet can be grabbed, in seconds. Nobody grabs, so all of it goes back.
const EXPIRES_IN_S: u64 = 2;
/// What was sent to measure the capacity is refunded before, and refunds of the steady rate have begun after this time.
const WARM_UP: Duration = Duration::from_secs(15);
/// Sends in flight while the capacity is measured.
const CLOSED_LOOP: usize = 16;
const CAPACITY_WITHIN: Duration = Duration::from_secs(10);
/// By default the rate is the capacity over this: a refund costs more than a send, and there is room for other load of the
/// machine.
const SHARE: u64 = 10;
const SETTLE_EVERY: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(10);
/// How far a minute's rate may be off the mean, in percent.
const OFF_MOST: f64 = 10.0;
/// How long the rest may take in the end.
const SETTLED_WITHIN: Duration = Duration::from_mins(5);

#[derive(clap::Args)]
pub struct Options {
    /// The duration
    #[arg(long, default_value_t = 20)]
    minutes: u64,
    /// The sends per second; by default a tenth of what the system can serve
    #[arg(long)]
    per_second: Option<u64>,
}

/// What was done in one minute.
#[derive(Clone, Debug, Default)]
struct Minute {
    sends: u64,
    refunds: u64,
    failed: u64,
    times: Vec<Duration>,
}

/// Sends, and counts them by the minute.
struct Senders {
    operator: Client,
    url: String,
    next: AtomicU64,
    sent: AtomicU64,
    minutes: Mutex<Option<(Instant, Vec<Minute>)>>,
}

impl Senders {
    async fn open(url: &str) -> Arc<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_mins(1)).build().unwrap();
        let operator = Client::new(http, url, Caller::Nobody);
        for sender in 0..SENDERS {
            operator.deposit(&format!("s{sender}"), "funds", FUNDS).await.unwrap();
        }
        let (next, sent, minutes) = Default::default();
        Arc::new(Self { operator, url: url.to_owned(), next, sent, minutes })
    }

    /// A packet of two slips is sent.
    async fn send(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sender = self.operator.by(Caller::Local(format!("s{}", number % SENDERS)));
        let packet = SendRequest { expires_in_s: Some(EXPIRES_IN_S), ..SendRequest::new(Split::Equal, 2, 2) };
        let begun = Instant::now();
        match sender.send(&number.to_string(), &packet).await {
            Ok(_) => {
                self.sent.fetch_add(1, Ordering::Relaxed);
                let took = begun.elapsed();
                self.count(|minute| {
                    minute.sends += 1;
                    minute.times.push(took);
                });
            }
            Err(error) => {
                eprintln!("not sent: {}", shared::error_chain(&error));
                self.count(|minute| minute.failed += 1);
            }
        }
    }

    /// Counts something that happens now, if the minutes are counted yet.
    fn count(&self, what: impl FnOnce(&mut Minute)) {
        if let Some((begun, minutes)) = &mut *self.minutes.lock().unwrap() {
            let minute = usize::try_from(begun.elapsed().as_secs() / 60).unwrap();
            if minutes.len() <= minute {
                minutes.resize(minute + 1, Minute::default());
            }
            what(&mut minutes[minute]);
        }
    }

    /// Sends per second with [`CLOSED_LOOP`] in flight.
    async fn capacity(&self) -> u64 {
        let (begun, first) = (Instant::now(), self.sent.load(Ordering::Relaxed));
        let turns = stream::repeat(()).take_while(|()| std::future::ready(begun.elapsed() < CAPACITY_WITHIN));
        turns.for_each_concurrent(CLOSED_LOOP, |()| self.send()).await;
        (self.sent.load(Ordering::Relaxed) - first) / CAPACITY_WITHIN.as_secs()
    }

    /// Sends at a rate, however many are in flight. Calls `every_minute` at the end of each counted minute.
    async fn arrive(self: &Arc<Self>, per_second: u64, time: Duration, mut every_minute: impl FnMut(usize)) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (begun, mut came, mut sending) = (Instant::now(), 0, JoinSet::new());
        while begun.elapsed() < time {
            tick.tick().await;
            let due = per_second * u64::try_from(begun.elapsed().as_millis()).unwrap() / 1_000;
            for _ in came..due {
                let senders = Arc::clone(self);
                sending.spawn(async move { senders.send().await });
            }
            came = due;
            while let Some(ended) = sending.try_join_next() {
                ended.unwrap();
            }
            every_minute(usize::try_from(begun.elapsed().as_secs() / 60).unwrap());
        }
        sending.join_all().await;
    }

    /// A run of settle. Returns how many expired packets are left.
    async fn settle(&self, http: &reqwest::Client) -> u64 {
        let run = http.post(format!("{}/_local/settle", self.url)).send().await.unwrap().error_for_status().unwrap();
        let report: Value = run.json().await.unwrap();
        let refunds = report["refunded_packets"].as_u64().unwrap();
        self.count(|minute| minute.refunds += refunds);
        report["due_left"].as_u64().unwrap()
    }

    /// Waits until all packets have expired, and runs settle until they are refunded.
    async fn refund_all(&self, http: &reqwest::Client) {
        tokio::time::sleep(Duration::from_secs(EXPIRES_IN_S + 1)).await;
        let begun = Instant::now();
        while self.settle(http).await > 0 {
            assert!(begun.elapsed() < SETTLED_WITHIN, "expired packets are left after {SETTLED_WITHIN:?}");
        }
    }
}

/// Returns whether the goal is reached.
pub async fn run(options: &Options) -> bool {
    let stack = Stack::start();
    let senders = Senders::open(&stack.url).await;
    let http = reqwest::Client::builder().timeout(Duration::from_mins(2)).build().unwrap();
    let per_second = if let Some(rate) = options.per_second {
        rate
    } else {
        let capacity = senders.capacity().await;
        println!("with {CLOSED_LOOP} sends in flight: {capacity} sends/s");
        (capacity / SHARE).max(1)
    };
    senders.refund_all(&http).await;
    let over = Arc::new(AtomicBool::new(false));
    let settling = tokio::spawn(settle_often(Arc::clone(&senders), http.clone(), Arc::clone(&over)));
    senders.arrive(per_second, WARM_UP, |_| {}).await;
    *senders.minutes.lock().unwrap() = Some((Instant::now(), Vec::new()));
    println!("{per_second} sends/s; each packet is refunded {EXPIRES_IN_S} s later");
    println!(
        "{:>6} {:>9} {:>9} {:>7} {:>8} {:>8} {:>7}",
        "minute", "sends/s", "refunds/s", "failed", "p50 ms", "p99 ms", "MB"
    );
    let mut printed = 0;
    let time = Duration::from_mins(options.minutes);
    senders
        .arrive(per_second, time, |minute| {
            while printed < minute {
                print(printed, &senders, &stack);
                printed += 1;
            }
        })
        .await;
    let minutes = senders.minutes.lock().unwrap().take().unwrap().1;
    over.store(true, Ordering::Relaxed);
    settling.await.unwrap();

    nothing_is_lost(&senders, &stack, &http).await;
    let whole = &minutes[..minutes.len().min(usize::try_from(options.minutes).unwrap())];
    let sends = spread("sends", whole, |minute| minute.sends);
    let refunds = spread("refunds", whole, |minute| minute.refunds);
    let reached = sends <= OFF_MOST && refunds <= OFF_MOST;
    println!("goal, at most {OFF_MOST} % off the mean: {}", if reached { "reached" } else { "missed" });
    reached
}

async fn settle_often(senders: Arc<Senders>, http: reqwest::Client, over: Arc<AtomicBool>) {
    let mut tick = interval(SETTLE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !over.load(Ordering::Relaxed) {
        tick.tick().await;
        senders.settle(&http).await;
    }
}

fn print(number: usize, senders: &Senders, stack: &Stack) {
    let minutes = senders.minutes.lock().unwrap();
    let mut minute = minutes.as_ref().and_then(|(_, all)| all.get(number)).cloned().unwrap_or_default();
    drop(minutes);
    minute.times.sort_unstable();
    let at = |percent: usize| {
        let place = minute.times.len().saturating_sub(1) * percent / 100;
        minute.times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    };
    println!(
        "{:>6} {:>9.1} {:>9.1} {:>7} {:>8.1} {:>8.1} {:>7}",
        number + 1,
        minute.sends as f64 / 60.0,
        minute.refunds as f64 / 60.0,
        minute.failed,
        at(50),
        at(99),
        stack.resident_mb()
    );
}

/// Prints the mean of the minutes' rates, and returns how far the furthest is off, in percent.
fn spread(what: &str, minutes: &[Minute], count: fn(&Minute) -> u64) -> f64 {
    let counts: Vec<f64> = minutes.iter().map(|minute| count(minute) as f64).collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let off = counts.iter().map(|count| (count / mean - 1.0).abs() * 100.0).fold(0.0, f64::max);
    println!("{what}: {:.1} a second, the furthest minute is {off:.1} % off", mean / 60.0);
    // Without a single one the mean is zero and nothing is a number.
    if off.is_finite() && mean > 0.0 { off } else { f64::INFINITY }
}

/// # Panics
/// If a packet is not refunded, or a sender has less or more money than at the beginning.
async fn nothing_is_lost(senders: &Senders, stack: &Stack, http: &reqwest::Client) {
    senders.refund_all(http).await;
    for sender in 0..SENDERS {
        let wallet = senders.operator.wallet_of(&format!("s{sender}")).await.unwrap();
        assert_eq!(wallet.balance, FUNDS, "{} after all refunds", wallet.user_id);
    }
    let books = audit_table(&shared::wiring::dynamodb_at(&stack.dynamodb_url), "hongbao").await;
    assert!(books.packets.values().all(|packet| packet.settled && packet.undecided() == 0));
    println!("{} packets were sent, all are refunded, and the audit is clean", books.packets.len());
}
