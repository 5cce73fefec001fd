//! A demonstration rush inside this process: one packet, and many users who grab it at once. Each request takes the
//! same way as one from outside, from the event on. JSON lines report the progress.
//!
//! The sender and the users are new each time, so the deposits must equal the sum of their wallets. The last line adds
//! up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::channel::Sender;
use hyper::body::Bytes;
use jiff::Timestamp;
use lambda_http::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::http::{Code, whole};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::event::{self, Origin};
use super::{Invoke, routes};

/// The most users of a rush.
const USERS_MAX: u32 = 5_000;
/// The most slips of a rush.
const SLIPS_MAX: u32 = 1_000;
/// The longest time within which the users of a rush arrive.
const OVER_MS_MAX: u32 = 30_000;
/// How often progress is reported.
const TICK: Duration = Duration::from_millis(100);
/// Grabs that are answered within this many milliseconds of each other are counted together.
const SLOT_MS: u64 = 20;
/// How often a user asks again after the answer to retry later.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// The upper ends of the latency buckets. From this one on there are four per doubling, so the bars are as fine at a
/// millisecond as at a second.
const FIRST_BUCKET_US: u64 = 256;
const DOUBLINGS: u32 = 20;
const BUCKETS_PER_DOUBLING: u64 = 4;

/// A rush's packet and users.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    #[serde(deserialize_with = "whole")]
    users: u32,
    #[serde(deserialize_with = "whole")]
    count: u32,
    #[serde(deserialize_with = "whole")]
    total_amount: u64,
    /// The time within which the users arrive; 0 lets them all arrive at once.
    #[serde(default, deserialize_with = "whole")]
    over_ms: u32,
}

impl Race {
    /// The rush that a body asks for; `None` if the body is invalid or asks for too much.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let race: Self = serde_json::from_slice(body).ok()?;
        let fits = (1..=USERS_MAX).contains(&race.users) && (1..=SLIPS_MAX).contains(&race.count);
        (fits && race.total_amount > 0 && race.over_ms <= OVER_MS_MAX).then_some(race)
    }
}

/// Why a rush ends early.
#[derive(Debug, thiserror::Error)]
pub enum RaceError {
    /// A step was refused.
    #[error("{step} was answered with {status}")]
    Refused {
        /// The step.
        step: &'static str,
        /// The answer's status.
        status: StatusCode,
    },
    /// The client has disconnected.
    #[error("the client has disconnected")]
    Unwatched,
    /// Settle could not run.
    #[error(transparent)]
    Settle(#[from] super::Failed),
}

/// The result of a user's grab.
struct Grab {
    took: Duration,
    /// The amount; 0 for a loser; `None` without an answer.
    amount: Option<u64>,
}

/// The rush so far.
#[derive(Default)]
struct Score {
    took_us: Vec<u64>,
    per_slot: Vec<u32>,
    /// Grabs that got a slip.
    amounts: Vec<u64>,
    lost: u32,
    failed: u32,
}

impl Score {
    fn add(&mut self, grab: &Grab, elapsed: Duration) {
        self.took_us.push(micros(grab.took));
        let slot = usize::try_from(micros(elapsed) / 1_000 / SLOT_MS).unwrap_or_default();
        if self.per_slot.len() <= slot {
            self.per_slot.resize(slot + 1, 0);
        }
        self.per_slot[slot] += 1;
        match grab.amount {
            Some(0) => self.lost += 1,
            Some(amount) => self.amounts.push(amount),
            None => self.failed += 1,
        }
    }

    fn tick(&self, elapsed: Duration) -> Value {
        json!({
            "type": "tick",
            "elapsed_ms": micros(elapsed) / 1_000,
            "answered": self.took_us.len(),
            "grabbed": self.amounts.len(),
            "lost": self.lost,
            "failed": self.failed,
            "slot_ms": SLOT_MS,
            "per_slot": self.per_slot,
            "latency": self.latency(),
            "amounts": self.amounts,
        })
    }

    /// Durations of grabs, in whole microseconds.
    fn latency(&self) -> Value {
        let mut sorted = self.took_us.clone();
        sorted.sort_unstable();
        // The smallest latency that this share, in percent, does not exceed.
        let percentile = |share: usize| {
            let rank = (sorted.len() * share).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let most = percentile(100);
        let mut from = 0;
        let bounds = (0..DOUBLINGS).flat_map(|doubling| {
            let step = (FIRST_BUCKET_US / BUCKETS_PER_DOUBLING) << doubling;
            (0..BUCKETS_PER_DOUBLING).map(move |part| (BUCKETS_PER_DOUBLING + part) * step)
        });
        // Up to the first bucket that contains the longest.
        let needed = bounds.clone().position(|bound| bound >= most).map_or(usize::MAX, |last| last + 1);
        let buckets = bounds.take(needed).map(|up_to_us| {
            let end = sorted.partition_point(|took| *took <= up_to_us);
            let count = end - std::mem::replace(&mut from, end);
            json!({"up_to_us": up_to_us, "count": count})
        });
        let buckets: Vec<Value> = buckets.collect();
        let [p50, p90, p99] = [50, 90, 99].map(percentile);
        json!({"p50_us": p50, "p90_us": p90, "p99_us": p99, "max_us": most, "buckets": buckets})
    }
}

/// A rush whose packet is sent.
pub struct Ready<S> {
    caller: Caller<S>,
    sender: String,
    packet_id: String,
    race: Race,
}

/// Sends the rush's packet. The answer to a refused deposit or send is the error.
pub async fn send<S: Invoke>(stack: Arc<S>, address: SocketAddr, race: Race) -> Result<Ready<S>, Response<Body>> {
    let caller = Caller { stack, address };
    let sender = format!("rush-{:x}", Timestamp::now().as_millisecond());
    let deposit = format!("/wallets/{sender}/deposits/{sender}");
    let terms =
        json!({"split": "random", "total_amount": race.total_amount, "count": race.count, "greeting": "恭喜发财"});
    // The send comes first once, because a refused one must not leave a deposit behind. The empty wallet refuses a valid one.
    let without_money = caller.call("POST", "/packets", &sender, Some(&terms)).await;
    if without_money.status() != Code::InsufficientBalance.status() {
        return Err(without_money);
    }
    let deposited = caller.call("PUT", &deposit, &sender, Some(&json!({"amount": race.total_amount}))).await;
    if !deposited.status().is_success() {
        return Err(deposited);
    }
    let packet = caller.call("POST", "/packets", &sender, Some(&terms)).await;
    if !packet.status().is_success() {
        return Err(packet);
    }
    let packet_id = value(&packet)["packet_id"].as_str().unwrap_or_default().to_owned();
    Ok(Ready { caller, sender, packet_id, race })
}

impl<S: Invoke> Ready<S> {
    /// Runs the rush to its end, or until the client disconnects.
    pub async fn run(self, mut lines: Sender<Bytes>) {
        if let Err(error) = try_run(self, &mut lines).await {
            tracing::warn!(%error, "a rush ended early");
        }
    }
}

async fn try_run<S: Invoke>(ready: Ready<S>, lines: &mut Sender<Bytes>) -> Result<(), RaceError> {
    let Ready { caller, sender: name, packet_id, race } = ready;
    tell(lines, &json!({"type": "sent", "packet_id": packet_id})).await?;

    let begun = Instant::now();
    let (done, mut grabs) = mpsc::channel(1_024);
    for number in 1..=race.users {
        let (caller, done) = (caller.clone(), done.clone());
        let (path, user) = (format!("/packets/{packet_id}/grab"), format!("{name}-{number}"));
        let arrives = begun + arrival(number, race);
        tokio::spawn(async move {
            sleep_until(arrives).await;
            done.send(caller.grab(&path, &user).await).await
        });
    }
    drop(done);
    let mut score = Score::default();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            grab = grabs.recv() => match grab {
                Some(grab) => score.add(&grab, begun.elapsed()),
                None => break,
            },
            _ = ticks.tick() => tell(lines, &score.tick(begun.elapsed())).await?,
        }
    }
    tell(lines, &score.tick(begun.elapsed())).await?;
    let end = caller.end(&name, &packet_id, race.total_amount).await?;
    tell(lines, &end).await
}

/// When a user arrives: most come early, as in a chat.
fn arrival(number: u32, race: Race) -> Duration {
    let square = |number| u64::from(number) * u64::from(number);
    Duration::from_micros(u64::from(race.over_ms) * 1_000 * square(number - 1) / square(race.users))
}

/// Calls the functions like the gateway.
struct Caller<S> {
    stack: Arc<S>,
    address: SocketAddr,
}

impl<S> Clone for Caller<S> {
    fn clone(&self) -> Self {
        Self { stack: Arc::clone(&self.stack), address: self.address }
    }
}

impl<S: Invoke> Caller<S> {
    async fn call(&self, method: &str, path: &str, user: &str, body: Option<&Value>) -> Response<Body> {
        // All parts were written here, so this is a valid request.
        let request = Request::builder().method(method).uri(path).header(event::USER_HEADER, user);
        let request = request.header("idempotency-key", user).body(()).unwrap_or_default();
        let (parts, ()) = request.into_parts();
        let body = body.map(Value::to_string).unwrap_or_default();
        let origin = Origin { server: self.address, base_path: "", request_id: user };
        let path = parts.uri.path().to_owned();
        let matched = routes::find(method, &path);
        let function = matched.function;
        let event = event::event(parts, &path, matched, body.as_bytes(), origin);
        self.stack.call(function, event::request(event, user)).await
    }

    /// The body of a successful answer.
    async fn ask(
        &self,
        step: &'static str,
        method: &str,
        path: &str,
        user: &str,
        body: Option<&Value>,
    ) -> Result<Value, RaceError> {
        let response = self.call(method, path, user, body).await;
        let status = response.status();
        if status.is_success() { Ok(value(&response)) } else { Err(RaceError::Refused { step, status }) }
    }

    async fn grab(&self, path: &str, user: &str) -> Grab {
        let begun = Instant::now();
        for _ in 0..TRIES_MAX {
            let response = self.call("POST", path, user, None).await;
            if response.status().is_success() {
                let amount = value(&response)["amount"].as_u64().unwrap_or_default();
                return Grab { took: begun.elapsed(), amount: Some(amount) };
            }
            sleep(TRY_AGAIN_AFTER).await;
        }
        Grab { took: begun.elapsed(), amount: None }
    }

    /// The users and their amounts.
    async fn winners(&self, sender: &str, packet_id: &str) -> Result<Vec<(String, u64)>, RaceError> {
        let mut winners = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/packets/{packet_id}/claims?limit=100{cursor}");
            let page = self.ask("the claims", "GET", &path, sender, None).await?;
            for claim in page["claims"].as_array().into_iter().flatten() {
                let user = claim["user_id"].as_str().unwrap_or_default();
                winners.push((user.to_owned(), claim["amount"].as_u64().unwrap_or_default()));
            }
            let Some(next) = page["next_cursor"].as_str() else { return Ok(winners) };
            cursor = format!("&cursor={next}");
        }
    }

    /// The sum of all wallets, to compare with the deposits.
    async fn end(&self, sender: &str, packet_id: &str, deposited: u64) -> Result<Value, RaceError> {
        // In `redis` mode the money arrives only after settle has run.
        self.stack.settle().await?;
        let packet = self.ask("the packet", "GET", &format!("/packets/{packet_id}"), sender, None).await?;
        // From the ledger, not from the answers: a user without an answer may have won too.
        let winners = self.winners(sender, packet_id).await?;
        let left = |name: &str| packet[name].as_u64().unwrap_or_default();
        let unclaimed = left("total_amount").saturating_sub(left("claimed_amount") + left("refunded_amount"));
        let mut in_wallets = 0;
        for user in std::iter::once(sender).chain(winners.iter().map(|(user, _)| user.as_str())) {
            let wallet = self.ask("a wallet", "GET", &format!("/wallets/{user}"), user, None).await?;
            in_wallets += wallet["balance"].as_u64().unwrap_or_default();
        }
        let amounts: Vec<u64> = winners.iter().map(|(_, amount)| *amount).collect();
        Ok(json!({
            "type": "end",
            "packet_id": packet_id,
            "currency": packet["currency"],
            "amounts": amounts,
            "books": {
                "deposited": deposited,
                "in_wallets": in_wallets,
                "wallets": winners.len() + 1,
                "unclaimed": unclaimed,
                "balanced": deposited == in_wallets + unclaimed,
            },
        }))
    }
}

fn value(response: &Response<Body>) -> Value {
    serde_json::from_slice(response.body()).unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

async fn tell(lines: &mut Sender<Bytes>, event: &Value) -> Result<(), RaceError> {
    lines.send_data(format!("{event}\n").into()).await.map_err(|_| RaceError::Unwatched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_is_bounded() {
        assert!(Race::parse(br#"{"users":5000,"count":1000,"total_amount":1000}"#).is_some());
        assert!(Race::parse(br#"{"users":5e3,"count":1.0,"total_amount":1000.00,"over_ms":0.0}"#).is_some());
        for bad in [
            r#"{"users":5001,"count":1,"total_amount":1}"#,
            r#"{"users":0,"count":1,"total_amount":1}"#,
            r#"{"users":1,"count":1001,"total_amount":1}"#,
            r#"{"users":1,"count":0,"total_amount":1}"#,
            r#"{"users":1,"count":1,"total_amount":0}"#,
            r#"{"users":1,"count":1,"total_amount":1,"over_ms":30001}"#,
            r#"{"users":1,"count":1,"total_amount":1,"x":1}"#,
            "",
        ] {
            assert!(Race::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn users_arrive_within_the_time_given() {
        let race = Race { users: 100, count: 1, total_amount: 1, over_ms: 4_000 };
        assert_eq!(arrival(1, race), Duration::ZERO);
        assert!((1..100).all(|number| arrival(number, race) < arrival(number + 1, race)));
        assert!(arrival(100, race) < Duration::from_secs(4));
        assert_eq!(arrival(100, Race { over_ms: 0, ..race }), Duration::ZERO);
    }

    #[test]
    fn percentiles_and_buckets_count_every_grab_once() {
        let mut score = Score::default();
        for ms in 1..=100 {
            let grab = Grab { took: Duration::from_millis(ms), amount: Some(ms % 2) };
            score.add(&grab, Duration::from_millis(ms * 3));
        }
        let latency = score.latency();
        let [p50, p90, p99, max] = ["p50_us", "p90_us", "p99_us", "max_us"].map(|name| latency[name].as_u64().unwrap());
        assert_eq!((p50, p90, p99, max), (50_000, 90_000, 99_000, 100_000));
        let buckets = latency["buckets"].as_array().unwrap();
        let of = |name: &str| buckets.iter().map(|bucket| bucket[name].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(of("count").iter().sum::<u64>(), 100);
        assert!(
            of("up_to_us").is_sorted_by(|one, next| one < next) && of("count").last() > Some(&0),
            "none beyond the longest"
        );
        assert_eq!(score.per_slot.iter().sum::<u32>(), 100);
        assert_eq!((score.amounts, score.lost, score.failed), (vec![1; 50], 50, 0));
    }

    #[test]
    fn no_grabs_have_no_latency() {
        assert_eq!(Score::default().tick(Duration::ZERO)["latency"]["max_us"], 0);
    }
}
