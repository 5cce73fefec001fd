//! Redis loses everything in the middle of a rush, twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use local::dynamodb::DynamoDb;
use redis::cmd;
use shared::redis::test_server::{TestServer, poll};
use tests::book::GrabAnswer;

use crate::users::{Asked, Users, Wish, wishes};
use crate::{Fleet, Size, books, settle_all};

const PROCESSES: usize = 3;
const SENDERS: usize = 16;
/// Nothing expires meanwhile.
const EXPIRES_IN_S: u64 = 3_600;
/// Sends at the same time.
const SENDS_AT_ONCE: usize = 16;
const TABLE: &str = "hongbao";
/// The goal for 99 packets of a hundred: a loss adds less than this to the wait for a good answer.
const ADDED_MAX: Duration = Duration::from_secs(1);

/// The first good answer of each packet since a loss.
struct Recovery {
    lost: Instant,
    first: Mutex<HashMap<String, Duration>>,
}

impl Recovery {
    fn note(&self, packet: &str, asked: &Asked) {
        let is_good = matches!(asked.answer, GrabAnswer::Grabbed(_) | GrabAnswer::SoldOut | GrabAnswer::Expired);
        // The answer to an older request may be from before the loss.
        if is_good && asked.begun >= self.lost {
            let took = asked.ended - self.lost;
            let mut first = self.first.lock().unwrap();
            first.entry(packet.to_owned()).and_modify(|first| *first = took.min(*first)).or_insert(took);
        }
    }
}

/// What happens to Redis.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It loses nothing. This shows how long the machine takes to answer for every packet.
    Nothing,
    Flush,
    Kill,
}

/// Returns what is wrong.
pub async fn run(size: Size) -> Vec<String> {
    let (packets, slips, grabbers) = if size.short { (100, 3, 5) } else { (1_000, 10, 15) };
    println!("\nRedis is lost in a rush on {packets} packets of {slips} slips, with {grabbers} users for each");
    let dynamodb = DynamoDb::start(None).await.unwrap();
    let mut redis = TestServer::start(&[]).await;
    let fleet = Fleet::start(PROCESSES, &redis, &dynamodb, TABLE);
    let users = Users::of(&fleet.urls());
    let ids = send(&users, packets, slips).await;

    let wishes = wishes(&ids, grabbers, "u", size.seed);
    let (answered, recovery) = (AtomicUsize::new(0), Mutex::new(None));
    let each = |(packet, _): &Wish, asked: &Asked| {
        answered.fetch_add(1, Ordering::SeqCst);
        let recovery: Option<Arc<Recovery>> = recovery.lock().unwrap().clone();
        if let Some(recovery) = recovery {
            recovery.note(packet, asked);
        }
    };
    let losses = async {
        let mut waits = Vec::new();
        for (number, event) in [Event::Nothing, Event::Flush, Event::Kill].into_iter().enumerate() {
            let enough = wishes.len() * (number + 1) / 4;
            poll("the rush", async || (answered.load(Ordering::SeqCst) >= enough).then_some(())).await;
            waits.push((event, ask_everywhere(event, &mut redis, &users, &ids, &recovery).await));
        }
        let (_, usual) = waits.remove(0);
        let is_slow = |(_, wait): &(Event, Duration)| *wait > usual + ADDED_MAX;
        let slow = waits.into_iter().filter(is_slow);
        slow.map(|(event, wait)| format!("{event:?}: p99 is {wait:.1?}, and {usual:.1?} with nothing lost"))
            .collect::<Vec<_>>()
    };
    let ((), slow) = tokio::join!(users.rush(&wishes, each), losses);
    let again = users.ask_again().await;
    settle_all(&fleet.urls()[0]).await;
    let mut violations = users.violations();
    if !size.short {
        violations.extend(slow);
    }
    match books(&dynamodb.url(), TABLE).await {
        Err(wrong) => violations.extend(wrong),
        Ok(books) => {
            let checked = users.book().compare(&books);
            println!(
                "{} promises were kept, {again} of them repeated; {} times \"no\" was true; {} claims of users without an answer",
                checked.promises_kept, checked.denials_true, checked.late_claims
            );
            violations.extend(checked.violations);
        }
    }
    violations
}

async fn send(users: &Users, packets: usize, slips: u32) -> Vec<String> {
    for sender in 0..SENDERS {
        users.fund(&format!("s{sender}")).await;
    }
    let send = |number: usize| async move {
        let sender = format!("s{}", number % SENDERS);
        users.send(&sender, &number.to_string(), slips, EXPIRES_IN_S).await.expect("a packet")
    };
    stream::iter(0..packets).map(send).buffer_unordered(SENDS_AT_ONCE).collect().await
}

/// After `event`, waits until every packet has had a good answer. Returns the 99th percentile of these waits.
async fn ask_everywhere(
    event: Event,
    redis: &mut TestServer,
    users: &Users,
    packets: &[String],
    recovery: &Mutex<Option<Arc<Recovery>>>,
) -> Duration {
    match event {
        Event::Nothing => {}
        Event::Flush => redis.command::<()>(&cmd("FLUSHALL")).await,
        Event::Kill => redis.kill(),
    }
    let was_killed = matches!(event, Event::Kill);
    let lost = Arc::new(Recovery { lost: Instant::now(), first: Mutex::default() });
    *recovery.lock().unwrap() = Some(Arc::clone(&lost));
    let back = async {
        if was_killed {
            redis.restart().await;
        }
        lost.lost.elapsed()
    };
    // A packet that nobody else asks for now is asked for by somebody new.
    let probe = |packet: &String| {
        let (lost, packet) = (Arc::clone(&lost), packet.clone());
        async move { lost.note(&packet, &users.probe(&packet, &format!("prober-{event:?}")).await) }
    };
    let (away, _) = tokio::join!(back, futures::future::join_all(packets.iter().map(probe)));
    let mut times: Vec<Duration> = lost.first.lock().unwrap().values().copied().collect();
    times.sort_unstable();
    if times.len() < packets.len() {
        users.violated(format!("{event:?}: {} packets had no good answer", packets.len() - times.len()));
    }
    let at = |percent: usize| {
        let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(place).copied().unwrap_or(Duration::MAX)
    };
    let away = if was_killed { format!(", away for {away:.0?}") } else { String::new() };
    println!(
        "{event:?}{away}: first good answer over {} packets p50 {} ms, p99 {} ms, longest {} ms",
        times.len(),
        at(50).as_millis(),
        at(99).as_millis(),
        at(100).as_millis()
    );
    at(99)
}
