use std::time::Duration;

use ::audit::{Auditor, Imbalance, Progress, Report};
use shared::ports::{Clock, System};
use tokio::time::Instant;

use crate::deployment::{Failed, dynamodb};
use crate::options::{Audit, Deployment};
use crate::text::columns;
use crate::{Exit, Outcome};

/// How long an audit may take: longer than any table needs, so that only its end or a failure ends it.
const TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// Audits the ledger.
pub async fn run(deployment: &Deployment, options: &Audit) -> Result<Outcome, Failed> {
    let auditor = Auditor::new(dynamodb(deployment).await, deployment.table.clone());
    let progress = match options.since {
        Some(since) => Progress::since(System.now().before(since).ms(), options.segments)?,
        None => Progress::full(options.segments)?,
    };
    let done = auditor.run(progress, Instant::now() + TIMEOUT).await?;
    let report = done.report();
    let exit = match (report.imbalance_count, report.unjudged_count) {
        (0, 0) => Exit::Good,
        (0, _) => Exit::Unfinished,
        _ => Exit::Wrong,
    };
    Ok(Outcome::new(deployment.json, report, || in_words(report), exit))
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
