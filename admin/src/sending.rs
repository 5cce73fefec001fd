//! What the operator decided about sending.

use serde_json::{Value, json};
use shared::domain::SendingDecision;

use crate::deployment::{Failed, Table};
use crate::text;
use crate::{Exit, Outcome};

/// The most decisions that are listed.
const LISTED_MAX: u32 = 100;

/// Lists the decisions, the newest first.
pub async fn run(table: &Table, as_json: bool) -> Result<Outcome, Failed> {
    let decisions = table.ledger().sending_decisions(LISTED_MAX).await?;
    let is_paused = decisions.first().is_some_and(|decision| decision.paused);
    let shown = |SendingDecision { paused, reason, at, by, .. }: &SendingDecision| json!({"at": at.to_string(), "paused": paused, "reason": reason, "by": by});
    let rows: Vec<Value> = decisions.iter().map(shown).collect();
    let words = || {
        if rows.is_empty() { "sending was never paused".to_owned() } else { text::table(&rows, "at paused reason by") }
    };
    Ok(Outcome::new(as_json, &rows, words, if is_paused { Exit::Wrong } else { Exit::Good }))
}
