//! Clients as real ones are: they retry what had no answer, at whichever worker lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::fleet::Door;

/// How long a client waits for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// How long a client waits before it tries again the first time; twice as long each time, with jitter.
const PAUSE_FIRST_MS: u32 = 30;
/// For how long a client tries.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// How patient clients are.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// They wait no longer than so many milliseconds before they try again.
    pub pause_most_ms: u32,
    /// So many of their requests are under way at once.
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
    turns: Semaphore,
}

/// A user who got a slip was told this.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promise {
    /// The slip.
    pub slip: u64,
    /// What is in it.
    pub amount: u64,
    /// When he got it, in milliseconds since 1970.
    pub at: u64,
}

/// What a grab was answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// A slip is his.
    Grabbed(Promise),
    /// All slips are others'.
    SoldOut,
    /// The packet's time was over.
    Expired,
    /// The packet is not for him, or not with this passphrase.
    Refused,
    /// Nothing, however often he asked.
    Nothing,
    /// What can't be.
    Wrong(String),
}

/// A grab with all its retries.
#[derive(Debug)]
pub struct Told {
    /// The answer.
    pub said: Said,
    /// Whether an attempt before it had no answer: nobody knows what came of that one.
    pub had_unknown: bool,
}

/// How a send with all its retries ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SendAnswer {
    /// The packet's id.
    Sent(String),
    /// The wallet holds too little.
    TooPoor,
    /// No answer, however often it was asked.
    Nothing,
    /// What can't be.
    Wrong(String),
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// Who asks; empty for the operator.
    pub user: String,
    /// Its idempotency key, if it has one.
    pub key: Option<String>,
    /// Its body.
    pub body: Value,
}

/// An answer that is one, and the story of how it came.
struct Answer {
    status: StatusCode,
    body: Value,
    had_unknown: bool,
}

impl Clients {
    /// Clients of `workers`.
    pub fn new(workers: Vec<Arc<Door>>, dice: Dice, manners: Manners) -> reqwest::Result<Self> {
        let http = Client::builder().timeout(ANSWER_WITHIN).connect_timeout(CONNECT_WITHIN).build()?;
        let (waiting, turns) = (AtomicUsize::new(0), Semaphore::new(manners.at_once));
        Ok(Self { http, workers, dice, pause_most_ms: manners.pause_most_ms, waiting, turns })
    }

    /// How many of them wait for an answer now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Grabs until there is an answer. `retried` is called for each attempt without one.
    pub async fn grab(&self, packet: &str, user: &str, passphrase: Option<&str>, retried: impl Fn()) -> Told {
        let request = Request {
            method: Method::POST,
            path: format!("/packets/{packet}/grab"),
            user: user.to_owned(),
            key: None,
            body: passphrase.map_or_else(|| json!({}), |words| json!({"passphrase": words})),
        };
        let Some(answer) = self.ask(&request, &retried).await else {
            return Told { said: Said::Nothing, had_unknown: true };
        };
        let said = said(answer.status, &answer.body);
        Told { said, had_unknown: answer.had_unknown }
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
            (status, _) => SendAnswer::Wrong(format!("a send was answered {status} {}", answer.body)),
        }
    }

    /// Moves money from outside into a wallet. Returns what is wrong, if anything is.
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

    /// Lets any worker settle once. What became of it is asked of the ledger.
    pub async fn settle(&self) -> Option<Value> {
        let url = &self.worker()?.url;
        let answer = self.http.post(format!("{url}/_local/settle")).timeout(REQUEST_TIMEOUT).send().await.ok()?;
        let answer = answer.error_for_status().ok()?;
        answer.json().await.ok()
    }

    /// Any worker that lives, as far as is known.
    fn worker(&self) -> Option<&Door> {
        let open: Vec<&Arc<Door>> = self.workers.iter().filter(|door| door.is_open()).collect();
        self.dice.pick(&open).map(|door| &***door)
    }

    async fn ask(&self, request: &Request, retried: &impl Fn()) -> Option<Answer> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask_again_and_again(request, retried).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    async fn ask_again_and_again(&self, request: &Request, retried: &impl Fn()) -> Option<Answer> {
        let mut pause_ms = PAUSE_FIRST_MS;
        let give_up = Instant::now() + REQUEST_TIMEOUT;
        let mut had_unknown = false;
        while Instant::now() < give_up {
            let turn = self.turns.acquire().await.ok()?;
            if let Some((status, body)) = self.attempt(request).await {
                return Some(Answer { status, body, had_unknown });
            }
            drop(turn);
            // After a broken connection, a time-out or a 503 nothing is known.
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

fn said(status: StatusCode, body: &Value) -> Said {
    match (status.as_u16(), body["outcome"].as_str()) {
        (200, Some("grabbed")) => {
            promise(body).map_or_else(|| Said::Wrong(format!("a grab was answered {body}")), Said::Grabbed)
        }
        (200, Some("sold_out")) => Said::SoldOut,
        (200, Some("expired")) => Said::Expired,
        (403, _) => Said::Refused,
        _ => Said::Wrong(format!("a grab was answered {status} {body}")),
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
