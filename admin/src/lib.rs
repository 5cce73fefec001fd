//! The operator's commands: audit the ledger, show a packet in both stores, verify its split, replay parked holds, rebuild packets in
//! Redis. Some write and reconcile the accounts of a day, some look after the receiver of webhooks, one plans a rush, one checks a table. `hongbao-admin` runs them where the stores can be reached, and the function `operate` runs them inside the private network.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod any_table;
mod audit;
mod backlog;
#[cfg(feature = "console")]
mod console;
mod deployment;
mod hot;
mod journal;
mod key;
mod ledger_check;
mod options;
mod packet;
mod parked;
mod person;
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
mod tool;
mod verify;
mod via;
mod webhooks;
mod who;

use std::ffi::OsString;
use std::time::Duration;

use ::audit::Auditor;
use shared::domain::{Deed, DeedKind, Mandate, Signer, Timestamp};
use tokio::time::Instant;

use deployment::Table;
use options::{Command, Replay};

#[cfg(feature = "console")]
pub use console::run as serve_console;
pub use deployment::{Deployed, Failed, aws_config};
pub use options::{Asked, Deployment, Options, Queues, Right};
pub use remote::{Answer, Event, Request, operate};
pub use text::for_terminal;
pub use tool::Tool;

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

/// Runs a command by the functions of the stack `via`, or else with the stores at hand, in the name of who calls. `arguments` is the whole command
/// line. Returns the output and the exit code.
pub async fn run_as_caller(
    deployment: &Deployment,
    via: Option<&str>,
    asked: Asked,
    arguments: impl Iterator<Item = OsString>,
) -> Result<(String, u8), Failed> {
    if let Some(stack) = via {
        return via::run(stack, &asked, arguments).await;
    }
    // A deed on AWS names its caller, as one by the function does. Elsewhere nobody knows the callers.
    let is_named = deployment.is_on_aws() && asked.is_deed();
    let by = if is_named { Some(via::caller().await?) } else { None };
    let outcome = run(deployment, asked, by).await?;
    Ok((outcome.text, outcome.exit as u8))
}

/// Runs a command with the stores at hand. A deed is in the name of `by`.
pub async fn run(deployment: &Deployment, asked: Asked, by: Option<Signer>) -> Result<Outcome, Failed> {
    let Asked { json, command } = asked;
    match command {
        Command::Verify(options) => verify::run(&options, json),
        Command::Journal(options) => journal::run(deployment, &options, json).await,
        Command::Reconcile(options) => reconcile::run(&options, json),
        Command::Plan(options) => planning::run(&options, json),
        Command::Packet { .. } | Command::Parked | Command::Backlog | Command::Replay(_) | Command::Rebuild { .. } => {
            run_in(&Deployed::connect(deployment).await?, command, json, by).await
        }
        command => {
            let table = Table::of(deployment).await?;
            run_on(&table, command, json, by).await.map_err(|failed| failed.in_table(&table.place))
        }
    }
}

/// Runs a command that asks the ledger only.
async fn run_on(table: &Table, command: Command, json: bool, by: Option<Signer>) -> Result<Outcome, Failed> {
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
        Command::Person { command } => person::run(table, command, by, json).await,
        Command::Key { command } => key::run(table, command, json).await,
        Command::Webhooks(options) => webhooks::run(table, options, json).await,
        Command::LedgerCheck => ledger_check::run(table, json).await,
        _ => Err(Failed::Refused("this command does not ask the ledger only".to_owned())),
    }
}

/// Runs a command that asks both stores.
async fn run_in(deployed: &Deployed, command: Command, json: bool, by: Option<Signer>) -> Result<Outcome, Failed> {
    if let Some(deed) = repair(&command, by.as_ref(), deployed.stores.clock.now()) {
        deployed.stores.ledger.note_deed(&deed).await?;
    }
    let done = match command {
        Command::Packet { id } => packet::run(deployed, id, json).await,
        Command::Parked => parked::list(deployed, json).await,
        Command::Backlog => backlog::run(deployed, json).await,
        Command::Replay(options) => parked::replay(deployed, &options, by, json).await,
        Command::Rebuild { id, .. } => rebuild::run(deployed, id, json).await,
        _ => Err(Failed::Refused("this command asks no Redis".to_owned())),
    };
    done.map_err(|failed| failed.in_table(&deployed.place))
}

/// The deed that a repair is. It is written before the repair begins, since a repair has no transaction of its own.
fn repair(command: &Command, by: Option<&Signer>, at: Timestamp) -> Option<Deed> {
    let (kind, packet_id, reason) = match command {
        Command::Replay(Replay { packet, reason, .. }) => (DeedKind::Replay, *packet, reason),
        Command::Rebuild { id, reason } => (DeedKind::Rebuild, Some(*id), reason),
        _ => return None,
    };
    Some(Deed { packet_id, ..Deed::new(kind, Mandate { by, reason: reason.as_ref(), key: None }, at) })
}

impl Outcome {
    /// `value` as JSON, or else `text`.
    fn new(json: bool, value: &impl serde::Serialize, text: impl FnOnce() -> String, exit: Exit) -> Self {
        // A value of these types always has a JSON form.
        let text = if json { serde_json::to_string_pretty(value).unwrap_or_default() } else { text() };
        Self { text, exit }
    }
}
