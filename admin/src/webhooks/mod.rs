//! The receiver of webhooks and its queues: their state, and deliveries that are made again.

mod deliver;
mod queue;
mod replay;
mod status;

use shared::ports::{Clock, System};

use crate::deployment::{Failed, ledger};
use crate::options::{Deployment, Webhooks, WebhooksCommand};
use crate::{Exit, Outcome};

/// Runs a command on webhooks.
pub async fn run(
    deployment: &Deployment,
    Webhooks { queues, command }: Webhooks,
    json: bool,
) -> Result<Outcome, Failed> {
    match command {
        None => status::run(deployment, &queues, json).await,
        Some(WebhooksCommand::Enable) => enable(deployment, json).await,
        Some(WebhooksCommand::Replay) => replay::run(&queues, json).await,
        Some(WebhooksCommand::Deliver(asked)) => deliver::run(deployment, &queues, &asked, json).await,
    }
}

/// Lets the receiver be called again.
async fn enable(deployment: &Deployment, json: bool) -> Result<Outcome, Failed> {
    let (ledger, place) = ledger(deployment).await;
    let at = System.now();
    ledger.enable_receiver(at).await.map_err(|error| Failed::from(error).in_table(&place))?;
    let value = serde_json::json!({"enabled_at": at.to_string()});
    let words = "the receiver is enabled; events that wait follow within an hour and a quarter";
    Ok(Outcome::new(json, &value, || words.to_owned(), Exit::Good))
}
