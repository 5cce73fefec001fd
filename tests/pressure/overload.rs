//! More winners than the table can take. Each grab is by a new user on a packet of 100,000 slips, so each has a claim to
//! commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Caller, Client, Error, Retries, SendRequest, Split};
use futures::stream::{self, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use crate::stack::Stack;

const SLIPS: u32 = 100_000;
/// Requests in flight while the capacity is measured.
const CLOSED_LOOP: usize = 64;
const TICK: Duration = Duration::from_millis(10);
/// The most requests that this process has in flight. A connection that was begun for one may stay idle while the next begins another, and the
/// stack takes 10,000. Further arrivals are not sent.
const UNDER_WAY_MAX: usize = 4_096;

#[derive(clap::Args)]
pub struct Options {
    /// The load, as a multiple of the measured capacity
    #[arg(long, default_value_t = 3)]
    times: u64,
    /// The time under load, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// Sends grabs, each by a new user.
struct Crowd {
    operator: Client,
    packets: Vec<String>,
    next: AtomicU64,
}

/// An answer and its latency.
struct Answer {
    /// The HTTP status; 0 if no answer came, which the log explains.
    status: u16,
    retry_after: bool,
    took: Duration,
}

pub async fn run(options: &Options) {
    let stack = Stack::start();
    let crowd = Arc::new(Crowd::open(&stack.url, 10).await);

    let capacity = crowd.capacity(Duration::from_secs(5)).await;
    println!("capacity with {CLOSED_LOOP} requests in flight: {capacity} grabs/s, {} MB", stack.resident_mb());
    let overload = capacity * options.times;
    let seconds = Duration::from_secs(options.seconds);
    let answers = crowd.arrive(overload, seconds, &stack).await;
    report(&format!("{overload} grabs/s for {seconds:?}"), &answers);
    println!("memory at the end: {} MB", stack.resident_mb());
    assert!(answers.iter().all(|answer| answer.status != 0), "grabs without an answer");
    assert!(answers.iter().all(|answer| answer.status != 500), "server errors");
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.retry_after), "refusals without Retry-After");

    let calm = (capacity / 4).max(1);
    for second in 1..=5 {
        let answers = crowd.arrive(calm, Duration::from_secs(1), &stack).await;
        report(&format!("second {second} afterwards, {calm} grabs/s"), &answers);
    }
}

impl Crowd {
    /// Sends `packets` packets to grab from.
    async fn open(url: &str, packets: usize) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_mins(1)).build().unwrap();
        // Without retries: each request is measured by itself.
        let operator = Client::new(http, url, Caller::Nobody).retrying(Retries::NONE);
        operator.deposit("sender", "d", 1_000_000_000).await.unwrap();
        let sender = operator.by(Caller::Local("sender".to_owned()));
        let packet = SendRequest::new(Split::Equal, SLIPS.into(), SLIPS);
        let mut ids = Vec::new();
        for key in 0..packets {
            ids.push(sender.send(&key.to_string(), &packet).await.unwrap().packet.packet_id);
        }
        Self { operator, packets: ids, next: AtomicU64::new(0) }
    }

    /// A new user grabs.
    async fn grab(&self) -> Answer {
        let user = self.next.fetch_add(1, Ordering::Relaxed);
        let packet = &self.packets[usize::try_from(user).unwrap() % self.packets.len()];
        let client = self.operator.by(Caller::Local(format!("u{user}")));
        let begun = Instant::now();
        let (status, retry_after) = match client.grab(packet, None).await {
            Ok(_) => (200, false),
            Err(Error::Problem(problem)) => (problem.status, problem.retry_after.is_some()),
            Err(error) => {
                eprintln!("no answer: {}", shared::error_chain(&error));
                (0, false)
            }
        };
        Answer { status, retry_after, took: begun.elapsed() }
    }

    /// Grabs per second that are served with [`CLOSED_LOOP`] requests in flight.
    async fn capacity(&self, time: Duration) -> u64 {
        let end = Instant::now() + time;
        let grabs = stream::repeat(()).take_while(|()| std::future::ready(Instant::now() < end)).map(|()| self.grab());
        let served = grabs.buffer_unordered(CLOSED_LOOP).filter(|answer| std::future::ready(answer.status == 200));
        u64::try_from(served.count().await).unwrap() / time.as_secs()
    }

    /// Grabs arrive at a rate, regardless of how many still wait for their answers.
    async fn arrive(self: &Arc<Self>, per_second: u64, time: Duration, stack: &Stack) -> Vec<Answer> {
        let (answered, mut answers) = mpsc::unbounded_channel();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        let (begun, mut sent, mut unsent, mut most_mb) = (Instant::now(), 0, 0, 0);
        while begun.elapsed() < time {
            tick.tick().await;
            let due = per_second * u64::try_from(begun.elapsed().as_millis()).unwrap() / 1_000;
            for _ in sent..due {
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                    unsent += 1;
                    continue;
                };
                let (crowd, answered) = (Arc::clone(self), answered.clone());
                tokio::spawn(async move {
                    let _ = answered.send(crowd.grab().await);
                    drop(place);
                });
            }
            if sent / per_second != due / per_second {
                most_mb = most_mb.max(stack.resident_mb());
            }
            sent = due;
        }
        drop(answered);
        let mut all = Vec::new();
        while let Some(answer) = answers.recv().await {
            all.push(answer);
        }
        if most_mb > 0 {
            println!("the stack took up to {most_mb} MB");
        }
        if unsent > 0 {
            println!("{unsent} grabs were not sent, because {UNDER_WAY_MAX} were in flight");
        }
        all
    }
}

fn report(what: &str, answers: &[Answer]) {
    println!("{what}: {} answers", answers.len());
    let mut by_status: BTreeMap<u16, Vec<Duration>> = BTreeMap::new();
    for answer in answers {
        by_status.entry(answer.status).or_default().push(answer.took);
    }
    for (status, mut times) in by_status {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("  {status}: {:>7}  p50 {:.0?}  p99 {:.0?}  most {:.0?}", times.len(), at(50), at(99), at(100));
    }
}
