//! Webhooks at a steady rate: each grab wins, so each is an event.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Caller, Client, SendRequest, Split};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::stack::Stack;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SLIPS: u32 = 100_000;
const TICK: Duration = Duration::from_millis(10);
/// How long the last events may take.
const ARRIVED_WITHIN: Duration = Duration::from_mins(1);
/// The goal for the time between a winner's answer and the event's arrival, for 99 of 100.
const P99_MOST: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct Options {
    /// The grabs per second
    #[arg(long, default_value_t = 1_000)]
    per_second: u64,
    /// The time, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// When each user was answered, and when their event arrived first.
#[derive(Default)]
struct Times {
    answered: Mutex<HashMap<String, Instant>>,
    arrived: Mutex<HashMap<String, Instant>>,
    deliveries: AtomicU64,
}

/// Receives webhooks, and returns the URL for them.
async fn receive(times: Arc<Times>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let times = Arc::clone(&times);
            let service = service_fn(move |request: Request<Incoming>| {
                let times = Arc::clone(&times);
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    if let Some(user) = body["data"]["user_id"].as_str() {
                        times.deliveries.fetch_add(1, Ordering::Relaxed);
                        times.arrived.lock().unwrap().entry(user.to_owned()).or_insert_with(Instant::now);
                    }
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    url
}

/// Returns whether the goal is reached.
pub async fn run(options: &Options) -> bool {
    let times = Arc::new(Times::default());
    let url = receive(Arc::clone(&times)).await;
    let stack = Stack::start_with(&["--webhook-url", &url, "--webhook-secret", SECRET]);
    let http = reqwest::Client::builder().timeout(Duration::from_mins(1)).build().unwrap();
    let operator = Client::new(http, &stack.url, Caller::Nobody);
    operator.deposit("sender", "funds", u64::from(SLIPS)).await.unwrap();
    let packet = SendRequest::new(Split::Equal, u64::from(SLIPS), SLIPS);
    let packet =
        operator.by(Caller::Local("sender".to_owned())).send("packet", &packet).await.unwrap().packet.packet_id;

    let begun = Instant::now();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut came, mut grabs) = (0, JoinSet::new());
    while begun.elapsed() < Duration::from_secs(options.seconds) {
        tick.tick().await;
        let due = options.per_second * u64::try_from(begun.elapsed().as_millis()).unwrap() / 1_000;
        for number in came..due.min(u64::from(SLIPS)) {
            let user = format!("u{number}");
            let (caller, packet, times) =
                (operator.by(Caller::Local(user.clone())), packet.clone(), Arc::clone(&times));
            grabs.spawn(async move {
                match caller.grab(&packet, None).await {
                    Ok(_) => drop(times.answered.lock().unwrap().insert(user, Instant::now())),
                    Err(error) => eprintln!("not answered: {}", shared::error_chain(&error)),
                }
            });
        }
        came = due;
    }
    grabs.join_all().await;
    let answered = times.answered.lock().unwrap().clone();
    let grabbed_within = begun.elapsed();
    // A grab that was refused may have its event too, so that their numbers say nothing.
    let have_arrived = || {
        let arrived = times.arrived.lock().unwrap();
        answered.keys().all(|user| arrived.contains_key(user))
    };
    while !have_arrived() && begun.elapsed() < grabbed_within + ARRIVED_WITHIN {
        tokio::time::sleep(TICK).await;
    }
    let arrived_within = begun.elapsed();

    let arrived = times.arrived.lock().unwrap().clone();
    let mut waits: Vec<Duration> = answered
        .iter()
        .filter_map(|(user, answered)| Some(arrived.get(user)?.saturating_duration_since(*answered)))
        .collect();
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let missing = answered.len() - waits.len();
    println!(
        "{} grabs in {grabbed_within:.1?}, their events in {arrived_within:.1?}; missing: {missing}",
        answered.len()
    );
    println!("deliveries: {}", times.deliveries.load(Ordering::Relaxed));
    println!("from a winner's answer to the event: p50 {:.1?}, p99 {:.1?}, most {:.1?}", at(50), at(99), at(100));
    assert_eq!(missing, 0, "events are missing");
    let reached = at(99) < P99_MOST;
    println!("goal, p99 below {P99_MOST:?}: {}", if reached { "reached" } else { "missed" });
    reached
}
