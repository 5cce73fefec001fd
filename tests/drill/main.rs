//! Drills: what an operator does on a bad day, on real programs and stores. Each compares every answer with the ledger, and
//! runs the audit of `hongbao-admin`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic)]

mod loss;
mod outage;
mod overload;
mod restore;
mod users;

use std::process::{ExitCode, Output};

use clap::{Parser, Subcommand};
use local::dynamodb::DynamoDb;
use serde_json::Value;
use shared::redis::test_server::{TestServer, free_port, poll};
use tests::program::{Program, beside};
use tests::{Books, audit_table};

/// Drills for a bad day
#[derive(Parser)]
#[command(name = "drill")]
struct Options {
    /// Only one drill
    #[command(subcommand)]
    only: Option<Drill>,
    /// Repeats the choices of an earlier run
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Few packets, and no goal for the time: shows that nothing is lost
    #[arg(long, global = true)]
    short: bool,
}

#[derive(Clone, Copy, Subcommand)]
enum Drill {
    /// The table goes back to an earlier time
    Restore,
    /// Redis loses everything in the middle of a rush
    Loss,
    /// Processes of `hongbao serve`, Redis and `PostgreSQL` are killed in turn
    Outage(outage::Options),
    /// More load than the system can serve, for a while; only if it is named
    Overload(overload::Options),
}

/// How large a drill is.
#[derive(Clone, Copy)]
struct Size {
    /// The seed of its choices.
    seed: u64,
    /// Whether it is the short cut.
    short: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    shared::redis::install_crypto_provider();
    let Options { only, seed, short } = Options::parse();
    let size = Size { seed: seed.unwrap_or_else(|| rand::random::<u32>().into()), short };
    println!("drills with seed {}", size.seed);
    let mut violations = Vec::new();
    for drill in only
        .map_or_else(|| vec![Drill::Restore, Drill::Loss, Drill::Outage(outage::Options::default())], |only| vec![only])
    {
        violations.extend(match drill {
            Drill::Restore => restore::run(size).await,
            Drill::Loss => loss::run(size).await,
            Drill::Outage(options) => outage::run(size, options).await,
            Drill::Overload(options) => overload::run(&options).await,
        });
    }
    for violation in &violations {
        println!("VIOLATION: {violation}");
    }
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The exit status of an audit that says nothing about the table.
const UNFINISHED: i32 = 2;
const AUDITS_MAX: usize = 3;

/// Processes of `hongbao dev` behind fixed addresses. Settle runs only when it is called.
struct Fleet {
    ports: Vec<u16>,
    stores: [String; 2],
    programs: Vec<Program>,
}

impl Fleet {
    /// Starts `size` processes over `table`.
    fn start(size: usize, redis: &TestServer, dynamodb: &DynamoDb, table: &str) -> Self {
        let ports = (0..size).map(|_| free_port()).collect();
        let mut fleet = Self { ports, stores: [redis.url(), dynamodb.url()], programs: Vec::new() };
        fleet.restart(table);
        fleet
    }

    /// The addresses of the processes, which stay the same.
    fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect()
    }

    /// Ends all processes at once, in the middle of whatever they do.
    fn kill(&mut self) {
        self.programs.clear();
    }

    /// Starts new processes.
    fn restart(&mut self, table: &str) {
        self.kill();
        let [redis, dynamodb] = &self.stores;
        for port in &self.ports {
            let mut command = beside("hongbao");
            command.args(["dev", "--port", &port.to_string(), "--redis-url", redis, "--dynamodb-url", dynamodb]);
            command.args(["--table", table, "--settle-every", "0s"]).env("RUST_LOG", "error");
            let program = Program::start(&mut command);
            self.programs.push(program.unwrap_or_else(|status| panic!("a process ended at its start: {status}")));
        }
    }
}

/// A run of settle by the process at `url`.
async fn settle(url: &str) -> Value {
    let run = reqwest::Client::new().post(format!("{url}/_local/settle")).send().await.unwrap();
    run.error_for_status().expect("a run of settle").json().await.unwrap()
}

/// Runs settle as a schedule does, until nothing is left: on a busy machine a store may not answer in time. Returns the last
/// report.
async fn settle_all(url: &str) -> Value {
    poll("settle to leave nothing behind", async || {
        let report = settle(url).await;
        (report["outbox_left"] == 0 && report["due_left"] == 0).then_some(report)
    })
    .await
}

/// Runs `hongbao-admin audit`, again if it could not finish. Returns what is wrong.
fn admin_audit(dynamodb_url: &str, table: &str) -> Vec<String> {
    let audit = || {
        let mut audit = beside("hongbao-admin");
        audit.args(["--dynamodb-url", dynamodb_url, "--table", table, "audit"]).output().unwrap()
    };
    let finished = |said: &Output| said.status.code() != Some(UNFINISHED);
    let said = (1..AUDITS_MAX).map(|_| audit()).find(finished).unwrap_or_else(audit);
    if said.status.success() {
        return Vec::new();
    }
    let [text, errors] = [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    vec![format!("hongbao-admin audit: {}\n{text}{errors}", said.status)]
}

/// The content of a ledger that is in order; else what is wrong with it.
async fn books(dynamodb_url: &str, table: &'static str) -> Result<Books, Vec<String>> {
    let wrong = admin_audit(dynamodb_url, table);
    if wrong.is_empty() { Ok(audit_table(&shared::wiring::dynamodb_at(dynamodb_url), table).await) } else { Err(wrong) }
}
