//! Users, whose every answer is kept in a book.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Caller, Client, Error, Retries, SendRequest, Split};
use futures::stream::{self, StreamExt};
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use tests::book::{Book, GrabAnswer, GrabResult, now_ms};

/// A client's time-out of one try.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A user gives up after this time.
const PATIENCE: Duration = Duration::from_mins(1);
/// The wait for a service that does not say how long to wait.
const PAUSE: Duration = Duration::from_millis(100);
/// The wait of those who measure when answers are good again.
const PROBE_EVERY: Duration = Duration::from_millis(25);
/// Users who ask at the same time.
const AT_ONCE: usize = 64;
/// Each sender's money at the start.
pub const FUNDS: u64 = 1_000_000_000;

/// A grab: a packet and a user.
pub type Wish = (String, String);

/// An answer, and the try that it answers.
pub struct Asked {
    /// The answer.
    pub answer: GrabAnswer,
    /// When that try began.
    pub begun: Instant,
    /// When it was answered.
    pub ended: Instant,
}

/// The users of some processes.
pub struct Users {
    /// One client for each process, as the operator.
    clients: Vec<Client>,
    /// Who a user is.
    caller: fn(&str) -> Caller,
    next: AtomicUsize,
    /// All answers.
    pub book: Mutex<Arc<Book>>,
    /// What was wrong with answers.
    violations: Mutex<Vec<String>>,
    /// Nobody tries again.
    given_up: AtomicBool,
}

impl Users {
    /// Users of the processes at `urls`.
    pub fn of(urls: &[String]) -> Self {
        Self::known_by(urls, &Caller::Nobody, |user| Caller::Local(user.to_owned()))
    }

    /// Users of processes that know them, and the operator, in other ways.
    pub fn known_by(urls: &[String], operator: &Caller, caller: fn(&str) -> Caller) -> Self {
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).build().unwrap();
        // This module tries again by itself, because the book wants to know of each try.
        let client = |url: &String| Client::new(http.clone(), url, operator.clone()).retrying(Retries::NONE);
        Self {
            clients: urls.iter().map(client).collect(),
            caller,
            next: AtomicUsize::new(0),
            book: Mutex::new(Arc::new(Book::new(false))),
            violations: Mutex::default(),
            given_up: AtomicBool::new(false),
        }
    }

    /// The book of all answers.
    pub fn book(&self) -> Arc<Book> {
        Arc::clone(&self.book.lock().unwrap())
    }

    /// Nobody tries again, or everybody does.
    pub fn give_up(&self, given_up: bool) {
        self.given_up.store(given_up, Ordering::SeqCst);
    }

    /// Something is wrong.
    pub fn violated(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    /// All that was wrong so far.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    /// Pays a sender's money in.
    pub async fn fund(&self, sender: &str) {
        self.tried(async || self.any().deposit(sender, "funds", FUNDS).await).await.unwrap().unwrap();
    }

    /// Sends a packet of so many slips. Returns its id, or nothing after the last try.
    pub async fn send(&self, sender: &str, key: &str, slips: u32, expires_in_s: u64) -> Option<String> {
        let packet = SendRequest::new(Split::Random, u64::from(slips) * 100, slips);
        let packet = SendRequest { expires_in_s: Some(expires_in_s), ..packet };
        match self.tried(async || self.any().by((self.caller)(sender)).send(key, &packet).await).await {
            Some(Ok(sent)) => {
                self.book().sent(&sent.packet.packet_id, sender, 0);
                Some(sent.packet.packet_id)
            }
            Some(Err(error)) => panic!("{sender} could not send: {error}"),
            None => {
                self.book().perhaps_sent();
                None
            }
        }
    }

    /// A user grabs, and tries again as the service asks.
    pub async fn grab(&self, (packet, user): &Wish) -> Asked {
        self.grab_waiting(packet, user, None).await
    }

    /// A user grabs, and tries again soon, whatever the service asks.
    pub async fn probe(&self, packet: &str, user: &str) -> Asked {
        self.grab_waiting(packet, user, Some(PROBE_EVERY)).await
    }

    async fn grab_waiting(&self, packet: &str, user: &str, pause: Option<Duration>) -> Asked {
        let (came, asked_at, mut had_unknown) = (Instant::now(), now_ms(), false);
        loop {
            let begun = Instant::now();
            let answer = self.any().by((self.caller)(user)).grab(packet, None).await;
            let ended = Instant::now();
            let answer = match waits(&answer) {
                None => answer.into(),
                Some(wait) if came.elapsed() < PATIENCE && !self.given_up.load(Ordering::SeqCst) => {
                    had_unknown = true;
                    tokio::time::sleep(pause.unwrap_or(wait)).await;
                    continue;
                }
                Some(_) => {
                    had_unknown = true;
                    GrabAnswer::Nothing
                }
            };
            let result = GrabResult { answer: answer.clone(), asked_at, had_unknown };
            if let Err(what) = self.book().enter(packet, user, true, result) {
                self.violated(what);
            }
            return Asked { answer, begun, ended };
        }
    }

    /// Everybody in `wishes` grabs, in this order, some at the same time. `each` sees every answer.
    pub async fn rush(&self, wishes: &[Wish], each: impl Fn(&Wish, &Asked)) {
        let each = &each;
        let grab = |wish| async move { each(wish, &self.grab(wish).await) };
        stream::iter(wishes).for_each_concurrent(AT_ONCE, grab).await;
    }

    /// Everybody with a promise asks again. The book notices an answer that differs. Returns how many asked.
    pub async fn ask_again(&self) -> usize {
        let promised = self.book().promised();
        self.rush(&promised, |_, _| {}).await;
        promised.len()
    }

    /// A try, as often as it takes; nothing after the last one.
    async fn tried<T>(&self, mut attempt: impl AsyncFnMut() -> Result<T, Error>) -> Option<Result<T, Error>> {
        let came = Instant::now();
        loop {
            let answer = attempt().await;
            match waits(&answer) {
                None => return Some(answer),
                Some(_) if came.elapsed() > PATIENCE || self.given_up.load(Ordering::SeqCst) => return None,
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// A client of any process, in turn.
    fn any(&self) -> &Client {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }
}

/// How long to wait before the next try; `None` if this answer is the last.
fn waits<T>(answer: &Result<T, Error>) -> Option<Duration> {
    match answer {
        // No `Retry-After` is an answer that should not be.
        Err(Error::Problem(problem)) if problem.code.is_passing() => problem.retry_after,
        Err(Error::Unreachable(_)) => Some(PAUSE),
        _ => None,
    }
}

/// `users` users for each packet, in an order that the seed gives.
pub fn wishes(packets: &[String], users: usize, name: &str, seed: u64) -> Vec<Wish> {
    let of = |packet: &String| (0..users).map(|user| (packet.clone(), format!("{name}{user}"))).collect::<Vec<_>>();
    let mut wishes: Vec<Wish> = packets.iter().flat_map(of).collect();
    wishes.shuffle(&mut StdRng::seed_from_u64(seed));
    wishes
}
