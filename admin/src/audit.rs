use std::time::Duration;

use ::audit::{Auditor, Imbalance, Progress, Report};
use shared::ports::{Clock, System};
use tokio::time::Instant;

use crate::deployment::{Deployed, Failed, Table};
use crate::options::{Audit, Deployment};
use crate::text::columns;
use crate::{Exit, Outcome};

/// How long an audit may take: longer than any table needs, so that only its end or a failure ends it.
const TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// How an audit with a deadline ended.
pub enum Done {
    /// All is audited.
    Finished(Outcome),
    /// The deadline came first; this is where it continues.
    Interrupted(Progress),
}

/// Audits the ledger, however long that takes.
pub async fn to_the_end(deployment: &Deployment, options: &Audit, json: bool) -> Result<Outcome, Failed> {
    let begun = begin(options)?;
    let table = Table::of(deployment).await;
    table.announce();
    let done = Auditor::new(table.client, table.name).run(begun, Instant::now() + TIMEOUT).await;
    let done = done.map_err(|error| Failed::from(error).in_table(&table.place))?;
    Ok(outcome(&done, json))
}

/// Audits the ledger until `deadline`, from the beginning or from where an earlier call ended.
pub async fn until(
    deadline: Instant,
    deployed: &Deployed,
    options: &Audit,
    resume: Option<Progress>,
    json: bool,
) -> Result<Done, Failed> {
    let progress = match resume {
        Some(progress) => progress.checked()?,
        None => begin(options)?,
    };
    let run = deployed.auditor.run(progress, deadline).await;
    let progress = run.map_err(|error| Failed::from(error).in_table(&deployed.place))?;
    Ok(if progress.is_done() { Done::Finished(outcome(&progress, json)) } else { Done::Interrupted(progress) })
}

fn begin(options: &Audit) -> Result<Progress, Failed> {
    Ok(match options.since {
        Some(since) => Progress::since(System.now().before(since).ms(), options.segments)?,
        None => Progress::full(options.segments)?,
    })
}

fn outcome(done: &Progress, json: bool) -> Outcome {
    let report = done.report();
    let exit = match (report.imbalance_count, report.unjudged_count) {
        (0, 0) => Exit::Good,
        (0, _) => Exit::Unfinished,
        _ => Exit::Wrong,
    };
    Outcome::new(json, report, || in_words(report), exit)
}

fn in_words(report: &Report) -> String {
    let Report { figures, imbalance_count, imbalances, unjudged_count, unjudged } = report;
    let rows = [
        ("packets", format!("{}, with {} slips", figures.packets, figures.slips)),
        ("wallets", format!("{}, with {} movements", figures.wallets, figures.movements)),
        ("money", format!("{} came in, {} went out", figures.deposited, figures.withdrawn)),
        ("", format!("{} in wallets, {} in slips without an owner", figures.in_wallets, figures.in_slips)),
    ];
    let mut paragraphs = vec![columns(&[], rows.map(|(name, value)| vec![name.to_owned(), value]))];
    if *imbalance_count > 0 {
        paragraphs.push(match imbalances.len() as u64 {
            listed if listed < *imbalance_count => format!("imbalances: {imbalance_count}, among them {listed}:"),
            _ => format!("imbalances: {imbalance_count}"),
        });
        paragraphs.extend(imbalances.iter().map(|Imbalance { kind, key, expected, found }| {
            format!("{}  {key}\n  expected  {expected}\n  found     {found}", kind.name())
        }));
    }
    if *unjudged_count > 0 {
        let some = unjudged.join("\n  ");
        paragraphs.push(format!("not judged, because they kept changing: {unjudged_count}\n  {some}"));
    }
    if report.is_balanced() {
        paragraphs.push("balanced".to_owned());
    }
    paragraphs.join("\n\n")
}
