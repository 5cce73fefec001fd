//! Clients like real ones: they retry requests without an answer, at any live worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Caller, Client, Error, Retries};
use serde_json::Value;
use tests::dice::Dice;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fleet::Door;
use crate::report::Tally;

/// A client's timeout for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// A client's pause before the first retry. It doubles each time, with jitter, up to the longest.
const PAUSE_FIRST_MS: u32 = 30;
const PAUSE_MOST_MS: u32 = 2_000;
/// A client gives up after this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Concurrent requests of a shard's clients.
const AT_ONCE: usize = 32;

/// The clients of a shard.
#[derive(Debug)]
pub struct Clients {
    http: reqwest::Client,
    workers: Vec<Arc<Door>>,
    dice: Dice,
    tally: Arc<Tally>,
    waiting: AtomicUsize,
    permits: Semaphore,
}

/// What came of a request.
pub struct Outcome<V> {
    /// The answer; `None`: none, after all retries.
    pub answer: Option<Result<V, Error>>,
    /// Whether an attempt had no answer, so that its outcome is unknown.
    pub had_unknown: bool,
}

impl Clients {
    /// Clients of `workers`.
    pub fn new(workers: Vec<Arc<Door>>, dice: Dice, tally: Arc<Tally>) -> reqwest::Result<Self> {
        let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).connect_timeout(CONNECT_WITHIN).build()?;
        Ok(Self { http, workers, dice, tally, waiting: AtomicUsize::new(0), permits: Semaphore::new(AT_ONCE) })
    }

    /// Number of clients that wait for an answer now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Makes a request until there is an answer. `attempt` makes it once.
    pub async fn ask<V, F>(&self, caller: Caller, attempt: impl Fn(Client) -> F) -> Outcome<V>
    where
        F: Future<Output = Result<V, Error>>,
    {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let give_up = Instant::now() + REQUEST_TIMEOUT;
        let (mut pause_ms, mut had_unknown) = (PAUSE_FIRST_MS, false);
        let mut answer = None;
        while answer.is_none() && Instant::now() < give_up {
            answer = self.ask_once(&caller, &attempt).await;
            if answer.is_none() {
                // After a broken connection, a timeout or a 503 the outcome is unknown.
                had_unknown = true;
                self.tally.retried();
                tokio::time::sleep(self.dice.time(pause_ms / 2..pause_ms)).await;
                pause_ms = (pause_ms * 2).min(PAUSE_MOST_MS);
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Outcome { answer, had_unknown }
    }

    async fn ask_once<V, F>(&self, caller: &Caller, attempt: &impl Fn(Client) -> F) -> Option<Result<V, Error>>
    where
        F: Future<Output = Result<V, Error>>,
    {
        let _permit = self.permits.acquire().await.ok()?;
        let worker = self.worker()?;
        // This module tries again by itself, at another worker.
        let client = Client::new(self.http.clone(), &worker.url, caller.clone()).retrying(Retries::NONE);
        let answer = attempt(client).await;
        if matches!(&answer, Err(Error::Unreachable(_))) {
            return None;
        }
        worker.answered();
        let is_passing = matches!(&answer, Err(Error::Problem(problem)) if problem.code.is_passing());
        (!is_passing).then_some(answer)
    }

    /// Lets any worker run settle once. The test reads the outcome from the ledger.
    pub async fn settle(&self) -> Option<Value> {
        let url = &self.worker()?.url;
        let answer = self.http.post(format!("{url}/_local/settle")).timeout(REQUEST_TIMEOUT).send().await.ok()?;
        let answer = answer.error_for_status().ok()?;
        answer.json().await.ok()
    }

    /// Any worker that seems to be alive.
    fn worker(&self) -> Option<&Door> {
        let open: Vec<&Arc<Door>> = self.workers.iter().filter(|door| door.is_open()).collect();
        self.dice.pick(&open).map(|door| &***door)
    }
}
