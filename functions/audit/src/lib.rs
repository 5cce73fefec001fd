//! The daily function that audits the ledger.
//!
//! # After a deadline
//!
//! A run that ends early answers with `next`, the event of the run that goes on. On AWS the answers of successful runs go
//! to an event bus, and a rule there sends `next` back to the function. A checkpoint in the table would need a role that
//! may write, and a self-invocation another client; thus the function may read the table, and nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod event;
mod metric;

use audit::{Auditor, ReadError, Report};
use serde::Serialize;
use tokio::time::Instant;

pub use event::{Event, EventError};
pub use metric::metric;

/// What the function answers: the audit so far, and the event that goes on with it where it is not done.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was looked at, and what is wrong.
    #[serde(flatten)]
    pub report: Report,
    /// What to send to the function next; `null`: all is audited.
    pub next: Option<Event>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The event asks for what can't be.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The table could not be read.
    #[error("the audit ended early")]
    Read(#[from] ReadError),
}

/// Audits what the event asks for, until `deadline`. `now_ms` is the time in milliseconds since the epoch.
pub async fn handle(auditor: &Auditor, event: Event, now_ms: u64, deadline: Instant) -> Result<Answer, AuditError> {
    let progress = auditor.run(event.progress(now_ms)?, deadline).await?;
    let report = progress.report().clone();
    let (figures, wrong, undecided) = (report.figures, report.imbalance_count, report.undecided_count);
    let done = progress.is_done();
    tracing::info!(?figures, wrong, undecided, done, "audited");
    Ok(Answer { report, next: (!done).then(|| Event::resume(progress)) })
}
