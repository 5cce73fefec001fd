use std::ops::ControlFlow;

use ::audit::{Auditor, Progress, Report};
use shared::ports::{Clock, System};
use tokio::time::Instant;

use crate::deployment::{Failed, SEGMENTS};
use crate::options::Audit;
use crate::text::{fields, table};
use crate::{Exit, Outcome};

/// What a report says in any case.
const FIGURES: &str =
    "packets slips wallets movements deposited withdrawn in_wallets in_pending in_slips imbalance_count unjudged_count";

/// Audits the ledger until `deadline`, from the beginning or from where an earlier call ended. If the deadline comes first, it returns
/// where the audit continues.
pub async fn until(
    deadline: Instant,
    auditor: &Auditor,
    options: &Audit,
    resume: Option<Progress>,
    json: bool,
) -> Result<ControlFlow<Outcome, Progress>, Failed> {
    let progress = match (resume, options.since) {
        (Some(progress), _) => progress.checked()?,
        (None, Some(since)) => Progress::since(System.now().before(since).ms(), SEGMENTS.into())?,
        (None, None) => Progress::full(SEGMENTS.into())?,
    };
    let progress = auditor.run(progress, deadline).await?;
    Ok(if progress.is_done() {
        ControlFlow::Break(outcome(progress.report(), json))
    } else {
        ControlFlow::Continue(progress)
    })
}

fn outcome(report: &Report, json: bool) -> Outcome {
    let exit = match (report.imbalance_count, report.unjudged_count) {
        (0, 0) => Exit::Good,
        (0, _) => Exit::Unfinished,
        _ => Exit::Wrong,
    };
    Outcome::new(json, report, || in_words(report), exit)
}

fn in_words(report: &Report) -> String {
    let mut paragraphs = vec![fields(report, FIGURES)];
    if !report.imbalances.is_empty() {
        paragraphs.push(table(&report.imbalances, "kind key expected found"));
    }
    if !report.unjudged.is_empty() {
        paragraphs.push(format!("not judged, because they kept changing:\n{}", report.unjudged.join("\n")));
    }
    paragraphs.join("\n\n")
}
