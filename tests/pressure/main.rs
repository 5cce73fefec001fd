//! Runs under more load than the system can serve. They print figures, and fail if anything was lost or a goal is missed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog;
mod overload;
mod views;

use std::process::ExitCode;

use clap::Parser;
use tests::program::{Program, beside};

/// More load than the system can serve, and what it leaves behind
#[derive(Parser)]
#[command(name = "pressure")]
enum Run {
    /// Settle persists a large outbox
    Backlog(backlog::Options),
    /// After an overload by clients that retry, the capacity is there again without an operator
    Overload(overload::Options),
    /// Views of a large packet while it is grabbed
    Views,
}

/// Starts the program `local` of this program's folder, so that its memory is not mixed with that of the client: without files, and
/// without runs of settle of its own.
fn start_local() -> Program {
    let program = Program::start(beside("local").args(["--port", "0", "--ephemeral", "--settle-every", "0s"]));
    program.unwrap_or_else(|status| panic!("the local stack ended: {status}"))
}

#[tokio::main]
async fn main() -> ExitCode {
    shared::redis::install_crypto_provider();
    let reached = match Run::parse() {
        Run::Backlog(options) => Box::pin(backlog::run(&options)).await,
        Run::Overload(options) => overload::run(&options).await,
        Run::Views => views::run().await,
    };
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
