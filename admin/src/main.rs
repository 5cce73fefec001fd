//! The operator's tool. It audits the ledger, shows a packet in both stores, and verifies its split. It replays parked holds and
//! rebuilds packets in Redis. It writes and reconciles the accounts of a day.
//!
//! Exits with 0 if all is well, with 1 if something is wrong, and with 2 if it could not do its work.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod audit;
mod deployment;
mod hot;
mod journal;
mod options;
mod packet;
mod parked;
mod rebuild;
mod reconcile;
mod sort;
mod text;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::deployment::{Deployed, Failed};
use crate::options::{Command, Options};

/// A command's output and exit code.
pub struct Outcome {
    text: String,
    exit: Exit,
}

/// The program's exit codes.
#[derive(Clone, Copy)]
pub enum Exit {
    /// All is well.
    Good = 0,
    /// Something is wrong.
    Wrong = 1,
    /// The command could not do its work.
    Unfinished = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    // Commands print their results. Warnings of libraries appear only on request.
    shared::log_to_stderr("off");
    shared::redis::install_crypto_provider();
    match run(options).await {
        Ok(Outcome { text, exit }) => match writeln!(std::io::stdout(), "{text}") {
            Ok(()) => exit.into(),
            Err(_) => Exit::Unfinished.into(),
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", shared::error_chain(&error));
            Exit::Unfinished.into()
        }
    }
}

async fn run(Options { deployment, command }: Options) -> Result<Outcome, Failed> {
    let json = deployment.json;
    match command {
        Command::Audit(options) => audit::run(&deployment, &options).await,
        Command::Packet { id } => packet::run(&Deployed::connect(&deployment).await?, id, json).await,
        Command::Parked => parked::list(&Deployed::connect(&deployment).await?, json).await,
        Command::Replay(options) => parked::replay(&Deployed::connect(&deployment).await?, &options, json).await,
        Command::Verify(options) => verify::run(&options, json),
        Command::Journal(options) => journal::run(&deployment, &options).await,
        Command::Reconcile(options) => reconcile::run(&options, json),
        Command::Rebuild { id } => rebuild::run(&Deployed::connect(&deployment).await?, id, json).await,
    }
}

impl Outcome {
    /// `value` as JSON, or else `text`.
    fn new(json: bool, value: &impl serde::Serialize, text: impl FnOnce() -> String, exit: Exit) -> Self {
        // A value of these types always has a JSON form.
        let text = if json { serde_json::to_string_pretty(value).unwrap_or_default() } else { text() };
        Self { text, exit }
    }
}
