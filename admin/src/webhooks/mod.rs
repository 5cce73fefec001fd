//! The receiver of webhooks and its queues: their state, and deliveries that are made again.

mod deliver;
mod queue;
mod replay;
mod status;

use shared::ports::{Clock, System};

use crate::deployment::{Failed, Table};
use crate::options::{Webhooks, WebhooksCommand};
use crate::{Exit, Outcome};

/// Runs a command on webhooks.
pub async fn run(table: &Table, Webhooks { queues, command }: Webhooks, json: bool) -> Result<Outcome, Failed> {
    match command {
        None => status::run(table, &queues, json).await,
        Some(WebhooksCommand::Enable) => enable(table, json).await,
        Some(WebhooksCommand::Replay) => replay::run(&queues, json).await,
        Some(WebhooksCommand::Deliver(asked)) => deliver::run(table, &queues, &asked, json).await,
    }
}

/// Lets the receiver be called again.
async fn enable(table: &Table, json: bool) -> Result<Outcome, Failed> {
    let at = System.now();
    table.ledger().enable_receiver(None, at).await?;
    let value = serde_json::json!({"enabled_at": at.to_string()});
    let words = "the receiver is enabled; events that wait follow within an hour and a quarter";
    Ok(Outcome::new(json, &value, || words.to_owned(), Exit::Good))
}
