//! Whether an overload outlives its cause. Clients that retry could keep a service busy that would be well without them.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Caller, Client, GrabResult, SendRequest, Split, Transport};
use futures::stream::{self, StreamExt};
use http::header::RETRY_AFTER;
use http::{Request, Response};
use hyper::body::Bytes;
use tests::program::{Program, beside};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Every user gets a slip: so many winners no run has.
const PACKETS: u64 = 20;
const SLIPS: u32 = 100_000;
/// Requests in flight while the capacity is measured.
const CLOSED_LOOP: usize = 64;
const WARM_UP: Duration = Duration::from_secs(3);
const CAPACITY_WITHIN: Duration = Duration::from_secs(10);
/// The load right after the overload, in percent of the capacity.
const NORMAL: u64 = 95;
/// The goal: this soon after the overload...
const WITHIN: Duration = Duration::from_secs(5);
/// ...this much of the capacity is served again, in percent.
const SERVED: u64 = 90;
const TICK: Duration = Duration::from_millis(10);
/// The most requests that this process has in flight. Each needs a connection, and so a file. Another request fails at once, as
/// one that finds no free port.
const IN_FLIGHT_MAX: usize = 8_192;
/// A client's time-out of one try.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, clap::Args)]
pub struct Options {
    /// The overload, as a multiple of the measured capacity
    #[arg(long, default_value_t = 10)]
    times: u64,
    /// The duration of the overload, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Counts {
    /// Users who got their slip.
    served: AtomicU64,
    /// Users who gave up.
    gave_up: AtomicU64,
    /// Requests that were answered 429 or 503.
    refused: AtomicU64,
    /// Requests without an answer: not sent for want of a connection, or timed out.
    unanswered: AtomicU64,
}

/// Counts what happens to the requests of the clients that use it.
#[derive(Clone)]
struct Counted {
    http: reqwest::Client,
    counts: Arc<Counts>,
    room: Arc<Semaphore>,
}

impl Transport for Counted {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn StdError + Send + Sync>> {
        let Ok(_place) = self.room.try_acquire() else {
            self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
            return Err("too many requests of this process are in flight".into());
        };
        let answer = self.http.exchange(request).await;
        match &answer {
            Ok(response) if matches!(response.status().as_u16(), 429 | 503) => {
                assert!(response.headers().contains_key(RETRY_AFTER), "a refusal without Retry-After");
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            Ok(response) => assert!(response.status().is_success(), "a request was answered {}", response.status()),
            Err(_) => drop(self.counts.unanswered.fetch_add(1, Ordering::Relaxed)),
        }
        answer
    }
}

/// Users who come one after another, each for a slip.
struct Users {
    /// With the retries that it has by default.
    client: Client<Counted>,
    counts: Arc<Counts>,
    packets: Vec<String>,
    next: AtomicU64,
}

impl Users {
    /// Sends packets for the users of the stack at `url`.
    async fn open(url: &str) -> Arc<Self> {
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).build().unwrap();
        let (counts, room) = (Arc::<Counts>::default(), Arc::new(Semaphore::new(IN_FLIGHT_MAX)));
        let counted = Counted { http, counts: Arc::clone(&counts), room };
        let client = Client::new(counted, url, Caller::Nobody);
        client.deposit("sender", "d", u64::from(SLIPS) * PACKETS).await.unwrap();
        let sender = client.by(Caller::Local("sender".to_owned()));
        let packet = SendRequest::new(Split::Equal, SLIPS.into(), SLIPS);
        let mut packets = Vec::new();
        for key in 0..PACKETS {
            packets.push(sender.send(&key.to_string(), &packet).await.unwrap().packet.packet_id);
        }
        Arc::new(Self { client, counts, packets, next: AtomicU64::new(0) })
    }

    /// A new user grabs, with retries.
    async fn grab(&self) {
        let user = self.next.fetch_add(1, Ordering::Relaxed);
        let packet = &self.packets[usize::try_from(user % PACKETS).unwrap()];
        match self.client.by(Caller::Local(format!("u{user}"))).grab(packet, None).await {
            Ok(GrabResult::Grabbed { .. }) => self.counts.served.fetch_add(1, Ordering::Relaxed),
            Ok(other) => panic!("a slip is left for everybody: {other:?}"),
            Err(_) => self.counts.gave_up.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Users who are served in a second with [`CLOSED_LOOP`] requests in flight.
    async fn capacity(&self, time: Duration) -> u64 {
        let (begun, first) = (Instant::now(), self.counts.served.load(Ordering::Relaxed));
        let turns = stream::repeat(()).take_while(|()| std::future::ready(begun.elapsed() < time));
        turns.for_each_concurrent(CLOSED_LOOP, |()| self.grab()).await;
        let served = self.counts.served.load(Ordering::Relaxed) - first;
        served * 1_000 / u64::try_from(begun.elapsed().as_millis()).unwrap()
    }

    /// Users come at a rate, however many still wait.
    async fn arrive(self: &Arc<Self>, per_second: u64, time: Duration, waiting: &mut JoinSet<()>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (begun, mut came) = (Instant::now(), 0);
        while begun.elapsed() < time {
            tick.tick().await;
            let due = per_second * u64::try_from(begun.elapsed().as_millis()).unwrap() / 1_000;
            for _ in came..due {
                let users = Arc::clone(self);
                waiting.spawn(async move { users.grab().await });
            }
            came = due;
            while let Some(ended) = waiting.try_join_next() {
                ended.unwrap();
            }
        }
    }
}

/// Returns what is wrong.
pub async fn run(options: &Options) -> Vec<String> {
    // A process of its own, so that its memory is not mixed with that of the client: without files, and without runs of settle.
    let local = Program::start(beside("hongbao").args(["dev", "--port", "0", "--ephemeral", "--settle-every", "0s"]));
    let local = local.unwrap_or_else(|status| panic!("the local stack ended: {status}"));
    let users = Users::open(&local.url).await;
    users.capacity(WARM_UP).await;
    let capacity = users.capacity(CAPACITY_WITHIN).await;
    println!("capacity with {CLOSED_LOOP} requests in flight: {capacity} grabs/s");

    let mut waiting = JoinSet::new();
    users.arrive(capacity * options.times, Duration::from_secs(options.seconds), &mut waiting).await;
    println!(
        "after {} times the capacity: {:?}; the stack takes {} MB",
        options.times,
        users.counts,
        local.resident_mb()
    );
    users.arrive(capacity * NORMAL / 100, WITHIN, &mut waiting).await;
    // Those who still wait go on retrying.
    let after = users.capacity(CAPACITY_WITHIN).await;
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
    let served =
        format!("{after} grabs/s from {WITHIN:?} after the overload on, of {capacity} before; the goal is {SERVED} %");
    println!("{served}");
    if after * 100 >= capacity * SERVED { Vec::new() } else { vec![served] }
}
