//! The daily function that holds the ledger against itself: every packet against its slips, every wallet against its
//! movements.
//!
//! It reads the table alone, and shares nothing with the code that writes it, save the names of the keys: a mistake that
//! both made would hide itself. Each part of it is for one question:
//!
//! - `scan` and `auditor`: what is to be looked at, in parallel segments, and where to go on after a deadline;
//! - `packet` and `wallet`: is this one in order?
//! - `confirm`: is what looks wrong really wrong, or did money move while it was read?
//!
//! # After a deadline
//!
//! A run that ends early answers with `next`, the event of the run that goes on. On AWS the answers of successful runs go
//! to an event bus, and a rule there sends `next` back to the function. A checkpoint in the table would need a role that
//! may write, and a self-invocation another client; thus the function may read the table, and nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod auditor;
mod confirm;
mod event;
mod item;
mod metric;
mod packet;
mod reader;
mod report;
mod scan;
mod wallet;

use serde::Serialize;
use tokio::time::Instant;

pub use auditor::Auditor;
pub use confirm::Patience;
pub use event::{Event, EventError, Progress};
pub use metric::metric;
pub use reader::ReadError;
pub use report::{Figures, Imbalance, Kind, Report};

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
