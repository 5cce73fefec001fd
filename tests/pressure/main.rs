//! Runs under more load than the system can serve. They print figures, and fail if anything was lost; they assert no
//! speed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog;
mod overload;
mod stack;

use clap::Parser;

/// More load than the system can serve, and backlogs
#[derive(Parser)]
#[command(name = "pressure")]
enum Run {
    /// Settle persists a large outbox
    Backlog(backlog::Options),
    /// More winners arrive than claims can be committed
    Overload(overload::Options),
}

#[tokio::main]
async fn main() {
    shared::redis::install_crypto_provider();
    match Run::parse() {
        Run::Backlog(options) => backlog::run(&options).await,
        Run::Overload(options) => overload::run(&options).await,
    }
}
