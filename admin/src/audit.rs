use std::ops::ControlFlow;
use std::time::Duration;

use ::audit::{Auditor, Progress, Report};
use shared::ports::{Clock, System};
use tokio::time::Instant;

use crate::deployment::{Deployed, Failed, Table};
use crate::options::{Audit, Deployment};
use crate::text::{fields, table};
use crate::{Exit, Outcome};

/// How long an audit may take: longer than any table needs, so that only its end or a failure ends it.
const TIMEOUT: Duration = Duration::from_hours(24 * 365);
/// Segments of the table that are read at once.
const SEGMENTS: u32 = 8;
/// What a report says in any case.
const FIGURES: &str =
    "packets slips wallets movements deposited withdrawn in_wallets in_pending in_slips imbalance_count unjudged_count";

/// Audits the ledger, however long that takes.
pub async fn to_the_end(deployment: &Deployment, options: &Audit, json: bool) -> Result<Outcome, Failed> {
    let table = Table::of(deployment).await;
    table.announce();
    let done = Auditor::new(table.client, table.name).run(begin(options)?, Instant::now() + TIMEOUT).await;
    let done = done.map_err(|error| Failed::from(error).in_table(&table.place))?;
    Ok(outcome(done.report(), json))
}

/// Audits the ledger until `deadline`, from the beginning or from where an earlier call ended. If the deadline comes first, it returns
/// where the audit continues.
pub async fn until(
    deadline: Instant,
    deployed: &Deployed,
    options: &Audit,
    resume: Option<Progress>,
    json: bool,
) -> Result<ControlFlow<Outcome, Progress>, Failed> {
    let progress = match resume {
        Some(progress) => progress.checked()?,
        None => begin(options)?,
    };
    let run = deployed.auditor.run(progress, deadline).await;
    let progress = run.map_err(|error| Failed::from(error).in_table(&deployed.place))?;
    Ok(if progress.is_done() {
        ControlFlow::Break(outcome(progress.report(), json))
    } else {
        ControlFlow::Continue(progress)
    })
}

fn begin(options: &Audit) -> Result<Progress, Failed> {
    Ok(match options.since {
        Some(since) => Progress::since(System.now().before(since).ms(), SEGMENTS)?,
        None => Progress::full(SEGMENTS)?,
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
