//! Runs under more load than the system can serve, and under load for long. They print figures, and fail if anything was
//! lost. Those with a goal also fail if they miss it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic)]
#![allow(clippy::cast_precision_loss)] // Figures for people.

mod backlog;
mod metastable;
mod overload;
mod stack;
mod steady;
mod views;
mod webhooks;

use std::process::ExitCode;

use clap::Parser;

/// More load than the system can serve, backlogs, and load for long
#[derive(Parser)]
#[command(name = "pressure")]
enum Run {
    /// Settle persists a large outbox
    Backlog(backlog::Options),
    /// More winners arrive than claims can be committed
    Overload(overload::Options),
    /// After an overload by clients that retry, the capacity is there again without an operator
    Metastable(metastable::Options),
    /// Sends and refunds go on at the same rate
    Steady(steady::Options),
    /// Views of a large packet while it is grabbed
    Views,
    /// Each winner's event arrives within a second
    Webhooks(webhooks::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    shared::redis::install_crypto_provider();
    let reached = match Run::parse() {
        Run::Backlog(options) => {
            backlog::run(&options).await;
            true
        }
        Run::Overload(options) => {
            overload::run(&options).await;
            true
        }
        Run::Metastable(options) => metastable::run(&options).await,
        Run::Steady(options) => steady::run(&options).await,
        Run::Views => {
            views::run().await;
            true
        }
        Run::Webhooks(options) => webhooks::run(&options).await,
    };
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
