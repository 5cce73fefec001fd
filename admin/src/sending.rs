//! What the operator decided about sending.

use std::sync::Arc;

use serde_json::{Value, json};
use shared::domain::SendingDecision;
use shared::dynamodb::SdkTable;
use shared::ledger::Ledger;
use shared::ports::System;

use crate::deployment::{Failed, Table};
use crate::options::Deployment;
use crate::text::table;
use crate::{Exit, Outcome};

/// The most decisions that are listed.
const LISTED_MAX: u32 = 100;

/// Lists the decisions, the newest first.
pub async fn run(deployment: &Deployment, as_json: bool) -> Result<Outcome, Failed> {
    let of = Table::of(deployment).await;
    of.announce();
    let ledger = Ledger::new(SdkTable::new(of.client.clone(), of.name.clone()), Arc::new(System));
    let decisions =
        ledger.sending_decisions(LISTED_MAX).await.map_err(|error| Failed::from(error).in_table(&of.place))?;
    let is_paused = decisions.first().is_some_and(|decision: &SendingDecision| decision.paused);
    let shown = |SendingDecision { paused, reason, at, by }: &SendingDecision| json!({"at": at.to_string(), "paused": paused, "reason": reason, "by": by});
    let rows: Vec<Value> = decisions.iter().map(shown).collect();
    let text = || {
        if rows.is_empty() { "sending was never paused".to_owned() } else { table(&rows, "at paused reason by") }
    };
    Ok(Outcome::new(as_json, &rows, text, if is_paused { Exit::Wrong } else { Exit::Good }))
}
