//! An evening of several rounds with one limit, over HTTP, on two processes that are killed while all users tap. `EVENING=full` makes it
//! as large as a company's.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use local::dynamodb::DynamoDb;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use shared::redis::test_server::{TestServer, free_port, poll};
use tests::program::Program;

use crate::programs::built;

/// The users who tap at once.
const AT_ONCE: usize = 200;

struct Size {
    rounds: usize,
    slips: u64,
    users: usize,
    /// How long both processes live, until one of them dies.
    life: Duration,
}

fn size() -> Size {
    if std::env::var("EVENING").is_ok_and(|size| size == "full") {
        Size { rounds: 5, slips: 2_000, users: 20_000, life: Duration::from_secs(8) }
    } else {
        Size { rounds: 5, slips: 100, users: 500, life: Duration::from_millis(150) }
    }
}

/// A process over stores that it shares with others.
struct Process {
    arguments: Vec<String>,
    url: String,
    program: Mutex<Option<Program>>,
}

impl Process {
    async fn start(ledger: &str, redis: &str) -> Self {
        let port = free_port();
        let port = port.to_string();
        let stores = ["--dynamodb-url", ledger, "--redis-url", redis, "--settle-every", "2s"];
        let arguments = ["dev", "--ephemeral", "--port", &port].into_iter().chain(stores).map(str::to_owned).collect();
        let process = Self { arguments, url: format!("http://127.0.0.1:{port}"), program: Mutex::new(None) };
        process.spawn().await;
        process
    }

    async fn spawn(&self) {
        let arguments = self.arguments.clone();
        let start = move || Program::start(Command::new(built("hongbao")).args(arguments).env("RUST_LOG", "off"));
        let program = tokio::task::spawn_blocking(start).await.unwrap().expect("it serves");
        *self.program.lock().unwrap() = Some(program);
    }

    /// Kills it, as a crash would, and starts it again.
    async fn crash(&self) {
        drop(self.program.lock().unwrap().take());
        self.spawn().await;
    }
}

struct Stack {
    client: Client,
    processes: [Process; 2],
    turn: AtomicUsize,
    tries: AtomicUsize,
}

impl Stack {
    /// Asks either process, again and again, until one answers. What was asked before may have been carried out.
    async fn ask(&self, user: &str, method: Method, path: &str, body: &Value) -> Response {
        loop {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let url = format!("{}{path}", self.processes[turn % 2].url);
            let request = self.client.request(method.clone(), url).header("x-user-id", user);
            let request = request.header("idempotency-key", key_of(body)).json(body);
            match request.send().await {
                Ok(answer) if answer.status().as_u16() < 429 => return answer,
                _ => {
                    self.tries.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20 + turn as u64 % 80)).await;
                }
            }
        }
    }

    async fn json(&self, user: &str, method: Method, path: &str, body: &Value) -> Value {
        loop {
            let answer = self.ask(user, method.clone(), path, body).await;
            let status = answer.status();
            // A process may die while its answer is on its way.
            let Ok(answer) = answer.json::<Value>().await else { continue };
            assert!(status.is_success(), "{path}: {answer}");
            return answer;
        }
    }
}

/// Repeats of a send have the same key. Other requests need none.
fn key_of(body: &Value) -> String {
    format!("round-{}", body["metadata"]["round"])
}

/// What a file says: each claim's user and amount.
fn claims(sheet: &str) -> Vec<(String, u64)> {
    let lines: Vec<&str> = sheet.trim_start_matches('\u{feff}').lines().collect();
    let (last, rows) = lines[1..].split_last().unwrap();
    let cell = |line: &str, column: usize| line.split(',').nth(column).unwrap().to_owned();
    let rows: Vec<(String, u64)> = rows.iter().map(|row| (cell(row, 3), cell(row, 4).parse().unwrap())).collect();
    let sum: u64 = rows.iter().map(|(_, amount)| amount).sum();
    assert_eq!((cell(last, 2), cell(last, 4)), (rows.len().to_string(), sum.to_string()), "the sums of the last line");
    rows
}

/// Checks that no user has more than the limit, that each answer `grabbed` is a claim, and that the totals are those of the claims.
fn judge(limit: &Value, won: &BTreeMap<String, BTreeSet<usize>>, file: &str, totals: &Value) {
    let mut by_user = BTreeMap::<String, (u64, u64)>::new();
    for (user, amount) in claims(file) {
        let (count, sum) = by_user.entry(user.trim_start_matches('\'').to_owned()).or_default();
        (*count, *sum) = (*count + 1, *sum + amount);
    }
    let most = |name: &str| limit[name].as_u64().unwrap_or(u64::MAX);
    for (user, (count, sum)) in &by_user {
        assert!(*count <= most("wins") && *sum <= most("amount"), "{user} has {count} slips of {sum}: {limit}");
    }
    let counts = |(user, rounds): (&String, &BTreeSet<usize>)| (user.clone(), rounds.len() as u64);
    let claimed: BTreeMap<String, u64> = by_user.iter().map(|(user, (count, _))| (user.clone(), *count)).collect();
    assert_eq!(won.iter().map(counts).collect::<BTreeMap<_, _>>(), claimed);
    let sum: u64 = by_user.values().map(|(_, sum)| sum).sum();
    assert_eq!((&totals["won_amount"], &totals["users"]), (&json!(sum), &json!(by_user.len())));
    let total = totals["total_amount"].as_u64().unwrap();
    assert_eq!((&totals["refunded_amount"], &totals["undecided_amount"]), (&json!(total - sum), &json!(0)));
}

async fn evening(limit: &Value, split: &str) {
    let size = size();
    let (ledger, redis) = (DynamoDb::start(None).await.unwrap(), TestServer::start(&[]).await);
    let processes =
        [Process::start(&ledger.url(), &redis.url()).await, Process::start(&ledger.url(), &redis.url()).await];
    let client = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let stack = Arc::new(Stack { client, processes, turn: AtomicUsize::new(0), tries: AtomicUsize::new(0) });
    let money = json!({"amount": 100 * size.slips * size.rounds as u64});
    stack.json("", Method::PUT, "/wallets/acme/deposits/evening", &money).await;

    let is_over = Arc::new(AtomicBool::new(false));
    let (victims, over, life) = (Arc::clone(&stack), Arc::clone(&is_over), size.life);
    let killing = tokio::spawn(async move {
        let mut kills = 0;
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(life).await;
            victims.processes[kills % 2].crash().await;
            kills += 1;
        }
        kills
    });
    let mut rounds = Vec::new();
    let mut won = BTreeMap::<String, BTreeSet<usize>>::new();
    let mut outcomes = BTreeMap::<String, usize>::new();
    for round in 0..size.rounds {
        let packet = json!({
            "split": split, "total_amount": 100 * size.slips, "count": size.slips, "reference": "evening",
            "metadata": {"round": round.to_string()}, "limit": limit, "expires_in_s": 3_600,
        });
        let sent = stack.json("acme", Method::POST, "/packets", &packet).await;
        let path = format!("/packets/{}/grab", sent["packet_id"].as_str().unwrap());
        rounds.push(sent);
        let taps = (0..size.users).map(|user| {
            let (stack, path) = (&stack, &path);
            async move {
                let user = format!("u{user}");
                let answer = stack.json(&user, Method::POST, path, &json!({})).await;
                (user, answer["outcome"].as_str().unwrap().to_owned())
            }
        });
        for (user, outcome) in stream::iter(taps).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            if outcome == "grabbed" {
                won.entry(user).or_default().insert(round);
            }
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let kills = killing.await.unwrap();
    println!("{outcomes:?}; {kills} kills, {} requests without an answer", stack.tries.load(Ordering::Relaxed));
    assert!(kills > 1 && outcomes["grabbed"] > 0 && outcomes["limit_reached"] > 0, "{kills} kills, {outcomes:?}");

    let close = "/operator/references/evening/close?sender_id=acme";
    stack.json("", Method::POST, close, &json!({"reason": "over"})).await;
    let path = "/operator/references/evening?sender_id=acme";
    let totals = poll("settled", async || {
        let totals = stack.json("", Method::GET, path, &Value::Null).await;
        let is_settled = |packet: &Value| packet["status"] == "settled";
        totals["packets"].as_array().unwrap().iter().all(is_settled).then_some(totals)
    })
    .await;
    let mut sheets = BTreeSet::new();
    for process in stack.processes.iter().cycle().take(4) {
        let sheet = stack.client.get(format!("{}/operator/claims?sender_id=acme&reference=evening", process.url));
        let sheet = sheet.header("accept", "text/csv").send().await.unwrap();
        assert_eq!(sheet.headers()["content-disposition"], r#"attachment; filename="claims-evening.csv""#);
        sheets.insert(sheet.text().await.unwrap());
    }
    assert_eq!(sheets.len(), 1, "each file is the same");
    let folder = tempfile::tempdir().unwrap();
    let admin = |arguments: &[&str]| {
        let mut command = Command::new(built("hongbao-admin"));
        let output = command.args(["--dynamodb-url", &ledger.url(), "--table", "hongbao"]).args(arguments);
        let output =
            output.current_dir(folder.path()).env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local");
        let output = output.env("AWS_REGION", "local").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    admin(&["report", "--sender", "acme", "--reference", "evening"]);
    let file = std::fs::read_to_string(folder.path().join("claims-evening.csv")).unwrap();
    assert!(sheets.contains(&file), "the command writes the same file");

    judge(limit, &won, &file, &totals);
    let audit: Value = serde_json::from_str(&admin(&["--json", "audit"])).unwrap();
    assert_eq!(audit["imbalance_count"], 0, "{audit}");
    ledger.stop().await;
}

#[tokio::test]
async fn nobody_wins_three_times_while_processes_die() {
    evening(&json!({"key": "evening", "wins": 2}), "equal").await;
}

#[tokio::test]
async fn nobody_wins_too_much_while_processes_die() {
    evening(&json!({"key": "evening", "wins": 3, "amount": 220}), "random").await;
}
