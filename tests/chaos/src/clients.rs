//! Clients like real ones: they retry requests without an answer, at any live worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fleet::Door;
use tests::book::{GrabAnswer, GrabResult, Promise, now_ms};
use tests::dice::Dice;

/// A client's timeout for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// A client's pause before the first retry. It doubles each time, with jitter.
const PAUSE_FIRST_MS: u32 = 30;
/// A client gives up after this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// How long and how often clients try.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// The longest pause before a retry, in milliseconds.
    pub pause_most_ms: u32,
    /// The number of their concurrent requests.
    pub at_once: usize,
}

/// The clients of a shard.
#[derive(Debug)]
pub struct Clients {
    http: Client,
    workers: Vec<Arc<Door>>,
    dice: Dice,
    pause_most_ms: u32,
    waiting: AtomicUsize,
    permits: Semaphore,
}

/// The result of a send with all its retries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SendAnswer {
    /// The packet's id.
    Sent(String),
    /// The wallet's balance is too small.
    TooPoor,
    /// The packet's start was over when a try was judged.
    TooLate,
    /// No answer, after all retries.
    Nothing,
    /// An impossible answer.
    Wrong(String),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// The caller; empty for the operator.
    pub user: String,
    /// Its idempotency key, if it has one.
    pub key: Option<String>,
    /// Its body.
    pub body: Value,
}

/// An answer, and whether earlier attempts had none.
struct Answer {
    status: StatusCode,
    body: Value,
    had_unknown: bool,
}

impl Clients {
    /// Clients of `workers`.
    pub fn new(workers: Vec<Arc<Door>>, dice: Dice, manners: Manners) -> reqwest::Result<Self> {
        let http = Client::builder().timeout(ANSWER_WITHIN).connect_timeout(CONNECT_WITHIN).build()?;
        let (waiting, permits) = (AtomicUsize::new(0), Semaphore::new(manners.at_once));
        Ok(Self { http, workers, dice, pause_most_ms: manners.pause_most_ms, waiting, permits })
    }

    /// Number of clients that wait for an answer now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Grabs until there is an answer. `retried` is called for each attempt without one.
    pub async fn grab(&self, packet: &str, user: &str, passphrase: Option<&str>, retried: impl Fn()) -> GrabResult {
        let request = Request {
            method: Method::POST,
            path: format!("/packets/{packet}/grab"),
            user: user.to_owned(),
            key: None,
            body: passphrase.map_or_else(|| json!({}), |words| json!({"passphrase": words})),
        };
        let asked_at = now_ms();
        let Some(answer) = self.ask(&request, &retried).await else {
            return GrabResult { answer: GrabAnswer::Nothing, asked_at, had_unknown: true };
        };
        let grabbed = grab_answer(answer.status, &answer.body);
        GrabResult { answer: grabbed, asked_at, had_unknown: answer.had_unknown }
    }

    /// Sends a packet until there is an answer, with one key.
    pub async fn send(&self, sender: &str, key: &str, body: Value, retried: impl Fn()) -> SendAnswer {
        let request = Request {
            method: Method::POST,
            path: "/packets".to_owned(),
            user: sender.to_owned(),
            key: Some(key.to_owned()),
            body,
        };
        let Some(answer) = self.ask(&request, &retried).await else { return SendAnswer::Nothing };
        match (answer.status.as_u16(), answer.body["packet_id"].as_str()) {
            (200 | 201, Some(id)) => SendAnswer::Sent(id.to_owned()),
            (402, _) => SendAnswer::TooPoor,
            (400, _) if answer.body["errors"][0]["field"] == "starts_at" => SendAnswer::TooLate,
            (status, _) => SendAnswer::Wrong(format!("a send was answered {status} {}", answer.body)),
        }
    }

    /// Deposits money into a wallet. Returns what is wrong, if anything.
    pub async fn deposit(&self, user: &str, id: &str, amount: u64, retried: impl Fn()) -> Result<(), String> {
        let request = Request {
            method: Method::PUT,
            path: format!("/wallets/{user}/deposits/{id}"),
            user: String::new(),
            key: None,
            body: json!({"amount": amount}),
        };
        match self.ask(&request, &retried).await {
            None => Ok(()),
            Some(answer) if answer.status.is_success() => Ok(()),
            Some(answer) => Err(format!("a deposit was answered {} {}", answer.status, answer.body)),
        }
    }

    /// Closes a packet for the operator. Returns the packet's status, unless there was no answer, or what is wrong.
    pub async fn close(&self, packet: &str, retried: impl Fn()) -> Result<Option<String>, String> {
        let request = Request {
            method: Method::POST,
            path: format!("/operator/packets/{packet}/close"),
            user: String::new(),
            key: None,
            body: json!({"reason": "chaos"}),
        };
        let Some(answer) = self.ask(&request, &retried).await else { return Ok(None) };
        match (answer.status.as_u16(), answer.body["status"].as_str()) {
            (200, Some(status @ ("closed" | "settled"))) => Ok(Some(status.to_owned())),
            (status, _) => Err(format!("{packet}: a close was answered {status} {}", answer.body)),
        }
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

    async fn ask(&self, request: &Request, retried: &impl Fn()) -> Option<Answer> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask_with_retries(request, retried).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    async fn ask_with_retries(&self, request: &Request, retried: &impl Fn()) -> Option<Answer> {
        let mut pause_ms = PAUSE_FIRST_MS;
        let give_up = Instant::now() + REQUEST_TIMEOUT;
        let mut had_unknown = false;
        while Instant::now() < give_up {
            let permit = self.permits.acquire().await.ok()?;
            if let Some((status, body)) = self.attempt(request).await {
                return Some(Answer { status, body, had_unknown });
            }
            drop(permit);
            // After a broken connection, a timeout or a 503 the outcome is unknown.
            had_unknown = true;
            retried();
            tokio::time::sleep(self.dice.time(pause_ms / 2..pause_ms)).await;
            pause_ms = (pause_ms * 2).min(self.pause_most_ms);
        }
        None
    }

    async fn attempt(&self, request: &Request) -> Option<(StatusCode, Value)> {
        let worker = self.worker()?;
        let mut attempt = self.http.request(request.method.clone(), format!("{}{}", worker.url, request.path));
        if !request.user.is_empty() {
            attempt = attempt.header("x-user-id", &request.user);
        }
        if let Some(key) = &request.key {
            attempt = attempt.header("idempotency-key", key);
        }
        let answer = attempt.json(&request.body).send().await.ok()?;
        let status = answer.status();
        worker.answered();
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        Some((status, answer.json().await.ok()?))
    }
}

fn grab_answer(status: StatusCode, body: &Value) -> GrabAnswer {
    match (status.as_u16(), body["outcome"].as_str()) {
        (200, Some("grabbed")) => {
            promise(body).map_or_else(|| GrabAnswer::Wrong(format!("a grab was answered {body}")), GrabAnswer::Grabbed)
        }
        (200, Some("sold_out")) => GrabAnswer::SoldOut,
        (200, Some("expired")) => GrabAnswer::Expired,
        (200, Some("not_started")) => GrabAnswer::NotStarted,
        (200, Some("closed")) => GrabAnswer::Closed,
        (403, _) => GrabAnswer::Refused,
        _ => GrabAnswer::Wrong(format!("a grab was answered {status} {body}")),
    }
}

fn promise(body: &Value) -> Option<Promise> {
    let at: Timestamp = body["grabbed_at"].as_str()?.parse().ok()?;
    Some(Promise {
        slip: body["slip"].as_u64()?,
        amount: body["amount"].as_u64()?,
        at: u64::try_from(at.as_millisecond()).ok()?,
    })
}
