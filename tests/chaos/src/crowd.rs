//! A crowd: a user sends a packet, many users grab it, and some of them ask again later. Some packets start later; the operator
//! closes others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::clients::{Clients, SendAnswer};
use crate::tally::Tally;
use tests::book::{Book, GrabAnswer, now_ms};
use tests::dice::Dice;

/// Users of a shard who grab.
const USERS: u32 = 3_000;
/// Users who send.
const SENDERS: u32 = 8;
/// Each sender's money at the start, in minor units.
const FUNDS: u64 = 1_000_000_000_000;
/// A user without money.
const POOR: &str = "poor";
const PASSPHRASE: &str = "芝麻开门";
/// How long a packet is open, in seconds.
const EXPIRES_IN_S: std::ops::Range<u32> = 2..6;
/// One packet in this many starts later.
const SCHEDULED: u32 = 5;
const STARTS_IN_MS: std::ops::Range<u32> = 300..1_500;
/// The operator closes one packet in this many.
const CLOSED: u32 = 6;
/// The lifetime of such a packet: when the faults stop, the last ones are far from their expiry.
pub const CLOSED_EXPIRES_IN: Duration = Duration::from_secs(30);
/// How long after the close users still come.
const CLOSED_LASTS: Duration = Duration::from_secs(1);
/// One in this many grabbers of a packet with a guard is not admitted.
const OUTSIDERS: u32 = 20;

/// The users of a shard.
#[derive(Debug)]
pub struct People {
    name: String,
    /// Their clients.
    pub clients: Clients,
    /// The clients of users who wait until Redis is back.
    probers: Clients,
    /// Their answers.
    pub book: Book,
    tally: Arc<Tally>,
    dice: Dice,
    next_key: AtomicU64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Guard {
    None,
    Passphrase,
    Recipients,
}

struct Plan {
    count: u32,
    /// None: at once.
    starts_in: Option<Duration>,
    /// When the operator closes it, after the start.
    closes_in: Option<Duration>,
    /// After the start.
    expires_in: Duration,
    guard: Guard,
    /// Users, and whether the guard admits them.
    grabbers: Vec<(String, bool)>,
}

impl People {
    /// The users of the shard `name`.
    #[must_use]
    pub fn new(name: String, [clients, probers]: [Clients; 2], book: Book, tally: Arc<Tally>, dice: Dice) -> Self {
        Self { name, clients, probers, book, tally, dice, next_key: AtomicU64::new(0) }
    }

    /// Deposits the senders' money.
    pub async fn fund(&self) {
        for sender in 0..SENDERS {
            let funded = self.clients.deposit(&format!("s{sender}"), "start", FUNDS, || self.tally.retried()).await;
            funded.expect("the senders' money, before anything fails");
        }
    }

    /// One packet, from its send to the last answer.
    pub async fn crowd(&self) {
        let plan = self.plan();
        let started = Instant::now() + plan.starts_in.unwrap_or_default();
        let Some(id) = self.send(&plan).await else { return };
        let started = started.max(Instant::now());
        let grabbers =
            plan.grabbers.iter().map(|(user, admitted)| self.grab_and_ask_again(&id, user, *admitted, &plan, started));
        let close = async {
            if let Some(closes_in) = plan.closes_in {
                sleep_until(started + closes_in).await;
                self.close(&id).await;
            }
        };
        tokio::join!(join_all(grabbers), close);
    }

    /// The operator closes a packet. Returns its status, if there was a good answer.
    pub async fn close(&self, id: &str) -> Option<String> {
        self.book.closing(id);
        match self.clients.close(id, || self.tally.retried()).await {
            Ok(Some(status)) => {
                self.book.closed(id);
                self.tally.answered("close: closed");
                Some(status)
            }
            Ok(None) => {
                self.tally.answered("close: no answer");
                None
            }
            Err(wrong) => {
                self.tally.violated(format!("{}: {wrong}", self.name));
                None
            }
        }
    }

    /// One user sends more than their balance, and another one deposits money.
    pub async fn till(&self) {
        let key = self.key();
        let body = json!({"split": "equal", "total_amount": 20_000, "count": 1});
        match self.clients.send(POOR, &key, body, || self.tally.retried()).await {
            SendAnswer::TooPoor => self.tally.answered("send: too poor"),
            SendAnswer::Nothing => self.book.perhaps_sent(),
            other => self.tally.violated(format!("{POOR} has nothing, and a send was answered {other:?}")),
        }
        let user = format!("u{}", self.dice.number(0..USERS));
        if let Err(wrong) = self.clients.deposit(&user, &key, 1, || self.tally.retried()).await {
            self.tally.violated(wrong);
        }
    }

    fn plan(&self) -> Plan {
        let dice = &self.dice;
        let count = match dice.number(0..40) {
            0 => dice.number(1_001..1_500),
            1..9 => dice.number(40..150),
            _ => dice.number(1..40),
        };
        let guard = match dice.number(0..10) {
            0 => Guard::Passphrase,
            1 => Guard::Recipients,
            _ => Guard::None,
        };
        let first = dice.number(0..USERS);
        let grabbers = (count.min(120) * 3 / 2 + dice.number(5..60)).min(180);
        let grabber = |n| {
            let admitted = guard == Guard::None || n == 0 || !dice.happens(1, OUTSIDERS);
            (format!("u{}", (first + n) % USERS), admitted)
        };
        let grabbers = (0..grabbers).map(grabber).collect();
        let starts_in = dice.happens(1, SCHEDULED).then(|| dice.time(STARTS_IN_MS));
        let closes_in = dice.happens(1, CLOSED).then(|| dice.time(0..2_000));
        let expires_in = Duration::from_secs(dice.number(EXPIRES_IN_S).into());
        let expires_in = if closes_in.is_some() { CLOSED_EXPIRES_IN } else { expires_in };
        Plan { count, starts_in, closes_in, expires_in, guard, grabbers }
    }

    async fn send(&self, plan: &Plan) -> Option<String> {
        let total = u64::from(plan.count) * u64::from(self.dice.number(1..200));
        let split = if self.dice.happens(1, 4) { "equal" } else { "random" };
        let mut body = json!({"split": split, "total_amount": total, "count": plan.count, "expires_in_s": plan.expires_in.as_secs()});
        match plan.guard {
            Guard::None => {}
            Guard::Passphrase => body["passphrase"] = json!(PASSPHRASE),
            Guard::Recipients => {
                let admitted = plan.grabbers.iter().filter(|(_, admitted)| *admitted);
                body["recipients"] = admitted.map(|(user, _)| user.as_str()).collect();
            }
        }
        let starts_at = plan.starts_in.map_or(0, |ahead| now_ms() + u64::try_from(ahead.as_millis()).unwrap_or(0));
        self.send_once_or_twice(body, starts_at).await
    }

    /// Sends with one key. Some senders repeat the request after the first answer. `starts_at` is in milliseconds since 1970; 0: at once.
    async fn send_once_or_twice(&self, mut body: serde_json::Value, starts_at: u64) -> Option<String> {
        if starts_at > 0 {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(starts_at.try_into().unwrap_or(0));
            body["starts_at"] = json!(format!("{at:.3}"));
        }
        let (sender, key) = (format!("s{}", self.dice.number(0..SENDERS)), self.key());
        let retried = || self.tally.retried();
        let id = match self.clients.send(&sender, &key, body.clone(), retried).await {
            SendAnswer::Sent(id) => id,
            SendAnswer::Nothing => {
                self.book.perhaps_sent();
                self.tally.answered("send: no answer");
                return None;
            }
            SendAnswer::TooLate if starts_at > 0 && now_ms() >= starts_at => {
                self.book.perhaps_sent();
                self.tally.answered("send: too late for its start");
                return None;
            }
            other => {
                self.tally.violated(format!("{sender} has money, and a send was answered {other:?}"));
                return None;
            }
        };
        self.book.sent(&id, &sender, starts_at);
        self.tally.answered("send: sent");
        if self.dice.happens(1, 5) {
            let again = self.clients.send(&sender, &key, body, retried).await;
            if again != SendAnswer::Nothing && again != SendAnswer::Sent(id.clone()) {
                self.tally.violated(format!("{sender}'s key {key} sent {id}, and then {again:?}"));
            }
        }
        Some(id)
    }

    async fn grab_and_ask_again(&self, id: &str, user: &str, admitted: bool, plan: &Plan, started: Instant) {
        let words = (plan.guard == Guard::Passphrase).then_some(if admitted { PASSPHRASE } else { "wrong" });
        if plan.starts_in.is_some() {
            // Some users come too early.
            if self.dice.happens(1, 4) {
                self.grab(id, user, admitted, words).await;
            }
            sleep_until(started).await;
        }
        // Nobody waits for the expiry of a packet that the operator closes.
        let lasts = plan.closes_in.map_or(plan.expires_in, |closes_in| closes_in + CLOSED_LASTS);
        let window = u32::try_from(lasts.as_millis()).unwrap_or(u32::MAX);
        // Most users come at once, the others at any time.
        let late = if self.dice.happens(2, 3) { window / 4 } else { window };
        tokio::time::sleep(self.dice.time(0..late)).await;
        self.grab(id, user, admitted, words).await;
        if self.dice.happens(1, 3) {
            tokio::time::sleep(self.dice.time(0..2_000)).await;
            self.grab(id, user, admitted, words).await;
        }
        if self.dice.happens(1, 8) {
            sleep_until(started + lasts + self.dice.time(0..2_500)).await;
            self.grab(id, user, admitted, words).await;
        }
    }

    /// A grab with its retries. Returns whether it had a good answer.
    async fn grab(&self, id: &str, user: &str, admitted: bool, words: Option<&str>) -> bool {
        self.grab_by(&self.clients, id, user, admitted, words).await
    }

    /// The grab of a user who waits until Redis is back. Returns whether it had a good answer.
    pub async fn probe(&self, id: &str, user: &str) -> bool {
        self.grab_by(&self.probers, id, user, true, None).await
    }

    async fn grab_by(&self, clients: &Clients, id: &str, user: &str, admitted: bool, words: Option<&str>) -> bool {
        let result = clients.grab(id, user, words, || self.tally.retried()).await;
        let (kind, good) = match result.answer {
            GrabAnswer::Grabbed(_) => ("grab: grabbed", true),
            GrabAnswer::SoldOut => ("grab: sold out", true),
            GrabAnswer::Expired => ("grab: expired", true),
            GrabAnswer::NotStarted => ("grab: not started", true),
            GrabAnswer::Closed => ("grab: closed", true),
            GrabAnswer::Refused => ("grab: refused", true),
            GrabAnswer::Nothing => ("grab: no answer", false),
            GrabAnswer::Wrong(_) => ("grab: wrong", false),
        };
        self.tally.answered(kind);
        if let Err(wrong) = self.book.enter(id, user, admitted, result) {
            self.tally.violated(format!("{}: {wrong}", self.name));
        }
        good
    }

    /// A packet that exists before Redis loses data. Its first grab afterwards ends the recovery.
    pub async fn probe_packet(&self, count: u32, expires_in: Duration) -> Option<String> {
        let body =
            json!({"split": "equal", "total_amount": count, "count": count, "expires_in_s": expires_in.as_secs()});
        self.send_once_or_twice(body, 0).await
    }

    fn key(&self) -> String {
        format!("{}-{}", self.name, self.next_key.fetch_add(1, Ordering::Relaxed))
    }
}
