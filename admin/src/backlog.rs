//! What waits for settle.

use std::time::Duration;

use serde::Serialize;
use shared::domain::PARTITIONS;
use shared::service::{RunReport, Settle};
use tokio::time::Instant;

use crate::deployment::{Deployed, Failed};
use crate::{Exit, Outcome};

/// What a run of settle would find. The names are those of its report, which explains them.
#[derive(Debug, Serialize)]
struct Backlog {
    outbox_left: Option<u64>,
    oldest_outbox_ms: Option<u64>,
    due_left: u64,
    oldest_due_s: u64,
    oldest_pending_s: Option<u64>,
}

/// Counts what waits. It changes nothing.
pub async fn run(deployed: &Deployed, json: bool) -> Result<Outcome, Failed> {
    let settle = Settle::new(deployed.stores.clone(), deployed.settle_grace);
    // A run without time only counts.
    let report = settle.run(0..=PARTITIONS - 1, Instant::now()).await?;
    let RunReport { outbox_left, oldest_outbox_ms, due_left, oldest_due_s, oldest_pending_s, .. } = report;
    let backlog = Backlog { outbox_left, oldest_outbox_ms, due_left, oldest_due_s, oldest_pending_s };
    let oldest = |age: Duration| format!("the oldest for {age:?}");
    let text = || {
        let holds = outbox_left.zip(oldest_outbox_ms).map_or_else(
            || "Redis does not say".to_owned(),
            |(holds, ms)| format!("{holds}, {}", oldest(Duration::from_millis(ms))),
        );
        let due = format!("{due_left}, {}", oldest(Duration::from_secs(oldest_due_s)));
        let pending = oldest_pending_s
            .map_or_else(|| "the ledger does not say".to_owned(), |seconds| oldest(Duration::from_secs(seconds)));
        format!("holds that wait: {holds}\npackets that are due: {due}\npending withdrawals: {pending}")
    };
    Ok(Outcome::new(json, &backlog, text, Exit::Good))
}
