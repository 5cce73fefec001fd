//! The daily function that audits the ledger.
//!
//! # After a deadline
//!
//! A run that ends early answers with `next`, the event of the run that continues it. On AWS the answers of successful
//! runs go to an event bus, where a rule sends `next` back to the function. A checkpoint in the table would need a role
//! that may write; a self-invocation would need another client. This way the function may only read the table.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod event;
mod metric;

use audit::{Auditor, ReadError, Report};
use serde::Serialize;
use tokio::time::Instant;

pub use event::{Event, EventError};
pub use metric::metric;

/// The function's answer: the audit so far, and the event that continues it if it is not done.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The coverage and the imbalances.
    #[serde(flatten)]
    pub report: Report,
    /// The next event for the function; `null`: the audit is done.
    pub next: Option<Event>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The event is invalid.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The table could not be read.
    #[error("the audit ended early")]
    Read(#[from] ReadError),
}

/// Runs the audit of the event until `deadline`. `now_ms` is the time in milliseconds since the epoch.
pub async fn handle(auditor: &Auditor, event: Event, now_ms: u64, deadline: Instant) -> Result<Answer, AuditError> {
    let progress = auditor.run(event.progress(now_ms)?, deadline).await?;
    let report = progress.report().clone();
    let (figures, wrong, unjudged) = (report.figures, report.imbalance_count, report.unjudged_count);
    let done = progress.is_done();
    tracing::info!(?figures, wrong, unjudged, done, "audited");
    Ok(Answer { report, next: (!done).then(|| Event::resume(progress)) })
}
