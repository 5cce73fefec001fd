//! The operator's commands: audit the ledger, show a packet in both stores, verify its split, replay parked holds, rebuild packets in
//! Redis. Some write and reconcile the accounts of a day, some look after the receiver of webhooks, one plans a rush, one checks a table. `hongbao-admin` runs them where the stores can be reached, and the function `operate` runs them inside the private network.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod any_table;
mod audit;
mod deployment;
mod hot;
mod journal;
mod key;
mod ledger_check;
mod options;
mod packet;
mod parked;
mod planning;
mod rebuild;
mod reconcile;
mod remote;
mod report;
mod scratch;
mod sending;
mod story;
#[cfg(test)]
mod tests;
mod text;
mod verify;
mod webhooks;
mod who;

use std::time::Duration;

use ::audit::Auditor;
use shared::domain::Signer;
use tokio::time::Instant;

use deployment::Table;
use options::Command;

pub use deployment::{Deployed, Failed, aws_config};
pub use options::{Asked, Deployment, Options, Right};
pub use remote::{Answer, Event, Request, operate};
pub use text::for_terminal;

/// A command's output and exit code.
#[derive(Debug)]
pub struct Outcome {
    /// What it prints.
    pub text: String,
    /// How it ended.
    pub exit: Exit,
}

/// The program's exit codes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// All is well.
    Good = 0,
    /// Something is wrong.
    Wrong = 1,
    /// The command could not do its work.
    Unfinished = 2,
}

/// How long an audit may take here: longer than any table needs, so that only its end or a failure ends it.
const AUDIT_MAX: Duration = Duration::from_hours(24 * 365);

/// Runs a command with the stores at hand. A repair is in the name of `by`.
pub async fn run(deployment: &Deployment, asked: Asked, by: Option<Signer>) -> Result<Outcome, Failed> {
    let Asked { json, command } = asked;
    match command {
        Command::Verify(options) => verify::run(&options, json),
        Command::Journal(options) => journal::run(deployment, &options, json).await,
        Command::Reconcile(options) => reconcile::run(&options, json),
        Command::Plan(options) => planning::run(&options, json),
        Command::Packet { .. } | Command::Parked | Command::Replay(_) | Command::Rebuild { .. } => {
            run_in(&Deployed::connect(deployment).await?, command, json, by).await
        }
        command => {
            let table = Table::of(deployment).await?;
            run_on(&table, command, json).await.map_err(|failed| failed.in_table(&table.place))
        }
    }
}

/// Runs a command that asks the ledger only.
async fn run_on(table: &Table, command: Command, json: bool) -> Result<Outcome, Failed> {
    match command {
        Command::Audit(options) => {
            table.announce();
            let (deadline, auditor) = (Instant::now() + AUDIT_MAX, Auditor::over(table.source()));
            let done = audit::until(deadline, &auditor, &options, None, json).await?;
            done.break_value().ok_or_else(|| Failed::Refused("the audit takes more than a year".to_owned()))
        }
        Command::Story(options) => story::run(table, &options, json).await,
        Command::Sending => sending::run(table, json).await,
        Command::Report(options) => report::run(table, &options, json).await,
        Command::Who(options) => who::run(table, &options, json).await,
        Command::Key { command } => key::run(table, command, json).await,
        Command::Webhooks(options) => webhooks::run(table, options, json).await,
        Command::LedgerCheck => ledger_check::run(table, json).await,
        _ => Err(Failed::Refused("this command does not ask the ledger only".to_owned())),
    }
}

/// Runs a command that asks both stores.
async fn run_in(deployed: &Deployed, command: Command, json: bool, by: Option<Signer>) -> Result<Outcome, Failed> {
    let done = match command {
        Command::Packet { id } => packet::run(deployed, id, json).await,
        Command::Parked => parked::list(deployed, json).await,
        Command::Replay(options) => parked::replay(deployed, &options, by, json).await,
        Command::Rebuild { id } => rebuild::run(deployed, id, json).await,
        _ => Err(Failed::Refused("this command asks no Redis".to_owned())),
    };
    done.map_err(|failed| failed.in_table(&deployed.place))
}

impl Outcome {
    /// `value` as JSON, or else `text`.
    fn new(json: bool, value: &impl serde::Serialize, text: impl FnOnce() -> String, exit: Exit) -> Self {
        // A value of these types always has a JSON form.
        let text = if json { serde_json::to_string_pretty(value).unwrap_or_default() } else { text() };
        Self { text, exit }
    }
}
