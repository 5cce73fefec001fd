//! `hongbao serve` while its processes, Redis and `PostgreSQL` are killed in turn, in the middle of a rush.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use audit::{Only, Source, key_of};
use client::Caller;
use futures::TryStreamExt;
use http_body_util::Full;
use hyper::Response;
use postgres_ledger::{Database, PostgresReader};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shared::events;
use shared::redis::Authorities;
use shared::redis::test_server::{TestServer, free_port};
use tests::audit_source;
use tests::postgres::Postgres;
use tests::relay::stand_in;
use tests::serving::{Place, Serving, tokens};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::Size;
use crate::users::{Users, wishes};

/// Packets that are sent at once, their slips, and the users who race for them.
const PACKETS: usize = 4;
const SLIPS: u32 = 12;
const GRABBERS: usize = 16;
/// Packets expire during the drill.
const EXPIRES_IN_S: u64 = 20;
const SENDERS: usize = 4;
/// How long what is left may take after the last kill: a lease, a hidden webhook, a refund.
const ENDS_WITHIN: Duration = Duration::from_mins(4);

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Options {
    /// Minutes of kills; by default two, or a third of one if the drill is short
    #[arg(long)]
    minutes: Option<u64>,
}

/// What is killed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Victim {
    Process(usize),
    Redis,
    Postgres,
}

/// Returns what is wrong.
pub async fn run(size: Size, Options { minutes }: Options) -> Vec<String> {
    let time = minutes
        .map_or(Duration::from_secs(if size.short { 20 } else { 120 }), |minutes| Duration::from_secs(minutes * 60));
    println!("\nProcesses of hongbao serve, Redis and PostgreSQL are killed in turn, for {time:?}");
    let arrived: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let ids = Arc::clone(&arrived);
    let address = stand_in(move |request| {
        ids.lock().unwrap().insert(request.headers()["webhook-id"].to_str().unwrap().to_owned());
        async { Response::new(Full::default()) }
    });
    let webhooks_at = format!("http://{}/", address.await);
    let redis = TestServer::start(&["--appendonly", "yes"]).await;
    let place = Place::with(Postgres::start(&[]), redis).telling(&webhooks_at);
    let addresses: Vec<String> = (0..2).map(|_| format!("127.0.0.1:{}", free_port())).collect();
    let serving: Vec<Serving> = addresses.iter().map(|address| place.serve_at(address)).collect();
    let operator = Caller::Token(place.key("drill", "money,read"));
    let urls: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
    let users = Users::known_by(&urls, &operator, |user| Caller::Token(tokens(user)));
    for sender in 0..SENDERS {
        users.fund(&format!("s{sender}")).await;
    }
    let (stopped, kills) = (AtomicBool::new(false), AtomicU64::new(0));
    let (place, serving) = {
        let rush = async {
            for round in 0.. {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                round_of(&users, round, size.seed).await;
            }
        };
        let outage = async {
            let fleet = kill_in_turn(place, serving, &addresses, time, size.seed, &kills).await;
            stopped.store(true, Ordering::SeqCst);
            fleet
        };
        tokio::join!(rush, outage).1
    };
    let again = users.ask_again().await;
    let mut violations = users.violations();
    if let Err(left) = at_rest(&place.postgres).await {
        violations.push(left);
    }
    let database = Database::new(&place.postgres.url(), &Authorities::System).unwrap();
    let reader = PostgresReader::new(database);
    let checked = users.book().compare(&audit_source(reader.clone()).await);
    violations.extend(checked.violations);
    let arrived = arrived.lock().unwrap().clone();
    let (events, missing) = missing(&reader, &arrived).await;
    violations.extend(missing);
    println!(
        "{} kills; {} promises were kept, {again} of them repeated; {} times \"no\" was true; {} claims of users without an answer; {events} events arrived",
        kills.load(Ordering::SeqCst),
        checked.promises_kept,
        checked.denials_true,
        checked.late_claims
    );
    drop(serving);
    violations
}

/// Some packets are sent, and users race for them.
async fn round_of(users: &Users, round: usize, seed: u64) {
    let sent = (0..PACKETS).map(|number| {
        let (sender, key) = (format!("s{}", number % SENDERS), format!("{round}-{number}"));
        async move { users.send(&sender, &key, SLIPS, EXPIRES_IN_S).await }
    });
    let packets: Vec<String> = futures::future::join_all(sent).await.into_iter().flatten().collect();
    users.rush(&wishes(&packets, GRABBERS, "u", seed.wrapping_add(round as u64)), |_, _| {}).await;
}

/// Kills, waits, starts again, waits, until the time is over.
async fn kill_in_turn(
    mut place: Place,
    mut serving: Vec<Serving>,
    addresses: &[String],
    time: Duration,
    seed: u64,
    kills: &AtomicU64,
) -> (Place, Vec<Serving>) {
    let (begun, mut dice) = (Instant::now(), StdRng::seed_from_u64(seed));
    let pause = |dice: &mut StdRng, most: u64| Duration::from_millis(dice.random_range(0..most));
    while begun.elapsed() < time {
        sleep(pause(&mut dice, 2_000)).await;
        let victims = [Victim::Process(0), Victim::Process(1), Victim::Redis, Victim::Postgres];
        let victim = victims[dice.random_range(0..victims.len())];
        kills.fetch_add(1, Ordering::SeqCst);
        match victim {
            Victim::Process(number) => drop(serving.remove(number)),
            Victim::Redis => place.redis.kill(),
            Victim::Postgres => place.postgres.kill(),
        }
        sleep(pause(&mut dice, 1_000)).await;
        match victim {
            Victim::Process(number) => {
                serving.insert(number, block_in_place(|| place.serve_at(&addresses[number])));
            }
            Victim::Redis => place.redis.restart().await,
            Victim::Postgres => block_in_place(|| place.postgres.restart()),
        }
    }
    (place, serving)
}

/// Waits until no packet is due and no event waits, or says what is left.
async fn at_rest(postgres: &Postgres) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let left = block_in_place(|| {
            postgres.psql(
                "SELECT (SELECT count(*) FROM hongbao.items WHERE due_shard IS NOT NULL) || ' packets, ' ||
                    (SELECT count(*) FROM hongbao.changes) || ' changes, ' || (SELECT count(*) FROM hongbao.webhooks) || ' webhooks'",
            )
        });
        let left = left.trim();
        if left == "0 packets, 0 changes, 0 webhooks" {
            return Ok(());
        }
        if begun.elapsed() > ENDS_WITHIN {
            return Err(format!("after {ENDS_WITHIN:?} there are still {left}"));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Counts the events of the ledger, and names those that did not arrive.
async fn missing(reader: &PostgresReader, received: &BTreeSet<String>) -> (usize, Vec<String>) {
    let (mut count, mut missing) = (0, Vec::new());
    let source: &dyn Source = reader;
    let mut pages = source.all(1, Only::Whole);
    while let Some(items) = pages.try_next().await.unwrap() {
        for item in items {
            let Some(key) = key_of(&item).filter(events::concerns) else { continue };
            for event in events::of_item(&key, &item, "CNY").unwrap() {
                count += 1;
                if !received.contains(&event.id()) {
                    missing.push(format!("the event {} did not arrive", event.id()));
                }
            }
        }
    }
    (count, missing)
}
