//! A crowd: a user sends a packet, many users grab it, and some of them ask again later. Some packets start later; the operator
//! closes others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Caller, Error, ProblemCode, SendRequest, Sent, Split, Status};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tests::book::{Book, GrabAnswer, GrabResult, now_ms};
use tests::dice::Dice;
use tokio::time::{Instant, sleep_until};

use crate::clients::{Clients, Outcome};
use crate::report::{Group, Tally};

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
    pub fn new(name: String, clients: Clients, book: Book, tally: Arc<Tally>, dice: Dice) -> Self {
        Self { name, clients, book, tally, dice, next_key: AtomicU64::new(0) }
    }

    /// Deposits the senders' money.
    pub async fn fund(&self) {
        for sender in 0..SENDERS {
            self.deposit(&format!("s{sender}"), "start", FUNDS).await;
        }
    }

    async fn deposit(&self, user: &str, id: &str, amount: u64) {
        let deposit = |client: client::Client| async move { client.deposit(user, id, amount).await };
        if let Some(Err(wrong)) = self.clients.ask(Caller::Nobody, deposit).await.answer {
            self.violated(&format!("a deposit was answered {wrong:?}"));
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
    pub async fn close(&self, id: &str) -> Option<Status> {
        self.book.closing(id);
        let close = |client: client::Client| async move { client.close_packet(id, "chaos").await };
        match self.clients.ask(Caller::Nobody, close).await.answer {
            None => {
                self.answered("close: no answer");
                None
            }
            Some(Ok(packet)) if matches!(packet.status, Status::Closed | Status::Settled) => {
                self.book.closed(id);
                self.answered("close: closed");
                Some(packet.status)
            }
            Some(wrong) => {
                self.violated(&format!("{id}: a close was answered {wrong:?}"));
                None
            }
        }
    }

    /// One user sends more than their balance, and another one deposits money.
    pub async fn till(&self) {
        let key = self.key();
        match self.send_once(POOR, &key, &SendRequest::new(Split::Equal, 20_000, 1)).await.answer {
            Some(Err(Error::Problem(problem))) if problem.code == ProblemCode::InsufficientBalance => {
                self.answered("send: too poor");
            }
            None => self.book.perhaps_sent(),
            Some(other) => self.violated(&format!("{POOR} has nothing, and a send was answered {other:?}")),
        }
        self.deposit(&format!("u{}", self.dice.number(0..USERS)), &key, 1).await;
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

    /// Sends with one key. Some senders repeat the request after the first answer.
    async fn send(&self, plan: &Plan) -> Option<String> {
        let total = u64::from(plan.count) * u64::from(self.dice.number(1..200));
        let split = if self.dice.happens(1, 4) { Split::Equal } else { Split::Random };
        let mut packet = SendRequest::new(split, total, plan.count);
        packet.expires_in_s = Some(plan.expires_in.as_secs());
        match plan.guard {
            Guard::None => {}
            Guard::Passphrase => packet.passphrase = Some(PASSPHRASE.to_owned()),
            Guard::Recipients => {
                let admitted = plan.grabbers.iter().filter(|(_, admitted)| *admitted);
                packet.recipients = Some(admitted.map(|(user, _)| user.clone()).collect());
            }
        }
        // In milliseconds since 1970; 0: at once.
        let starts_at = plan.starts_in.map_or(0, |ahead| now_ms() + u64::try_from(ahead.as_millis()).unwrap_or(0));
        if starts_at > 0 {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(starts_at.try_into().unwrap_or(0));
            packet.starts_at = Some(format!("{at:.3}"));
        }
        let (sender, key) = (format!("s{}", self.dice.number(0..SENDERS)), self.key());
        let is_about_start = |error: &Error| matches!(error, Error::Problem(problem) if problem.errors.iter().any(|error| error.field == "starts_at"));
        let id = match self.send_once(&sender, &key, &packet).await.answer {
            Some(Ok(sent)) => sent.packet.packet_id,
            None => {
                self.book.perhaps_sent();
                self.answered("send: no answer");
                return None;
            }
            Some(Err(error)) if is_about_start(&error) && starts_at > 0 && now_ms() >= starts_at => {
                self.book.perhaps_sent();
                self.answered("send: too late for its start");
                return None;
            }
            Some(Err(error)) => {
                self.violated(&format!("{sender} has money, and a send was answered {error:?}"));
                return None;
            }
        };
        self.book.sent(&id, &sender, starts_at);
        self.answered("send: sent");
        if self.dice.happens(1, 5)
            && let Some(again) = self.send_once(&sender, &key, &packet).await.answer
            && again.as_ref().ok().is_none_or(|again| again.packet.packet_id != id)
        {
            self.violated(&format!("{sender}'s key {key} sent {id}, and then {again:?}"));
        }
        Some(id)
    }

    async fn send_once(&self, sender: &str, key: &str, packet: &SendRequest) -> Outcome<Sent> {
        let send = |client: client::Client| async move { client.send(key, packet).await };
        self.clients.ask(Caller::Local(sender.to_owned()), send).await
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

    /// A grab with its retries.
    async fn grab(&self, id: &str, user: &str, admitted: bool, words: Option<&str>) {
        let asked_at = now_ms();
        let grab = |client: client::Client| async move { client.grab(id, words).await };
        let Outcome { answer, had_unknown } = self.clients.ask(Caller::Local(user.to_owned()), grab).await;
        let answer = answer.map_or(GrabAnswer::Nothing, GrabAnswer::from);
        self.answered(match answer {
            GrabAnswer::Grabbed(_) => "grab: grabbed",
            GrabAnswer::SoldOut => "grab: sold out",
            GrabAnswer::Expired => "grab: expired",
            GrabAnswer::NotStarted => "grab: not started",
            GrabAnswer::Closed => "grab: closed",
            GrabAnswer::Refused => "grab: refused",
            GrabAnswer::Nothing => "grab: no answer",
            GrabAnswer::Wrong(_) => "grab: wrong",
        });
        if let Err(wrong) = self.book.enter(id, user, admitted, GrabResult { answer, asked_at, had_unknown }) {
            self.violated(&wrong);
        }
    }

    fn answered(&self, what: &str) {
        self.tally.count(Group::Answer, what);
    }

    fn violated(&self, what: &str) {
        self.tally.violated(format!("{}: {what}", self.name));
    }

    fn key(&self) -> String {
        format!("{}-{}", self.name, self.next_key.fetch_add(1, Ordering::Relaxed))
    }
}
