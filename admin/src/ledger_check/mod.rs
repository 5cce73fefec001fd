//! Checks whether a table keeps what the ledger needs: what the port [`Table`](shared::ports::Table) promises. It knows only the port, so
//! any table can be given.
//!
//! The port deletes nothing. So the items stay, under partition keys that nothing else has.

mod probe;
mod rules;
#[cfg(test)]
mod tests;

use std::io::Write;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use shared::ledger::LedgerError;
use shared::ports::Table as Port;

use crate::deployment::{Failed, Table};
use crate::text::table;
use crate::{Exit, Outcome};
use probe::{Checked, End, Probe};

/// The most characters of what broke a rule.
const SEEN_MAX: usize = 1_000;

/// Checks the table that the command line names.
pub async fn run(table: &Table, json: bool) -> Result<Outcome, Failed> {
    let _ = writeln!(std::io::stderr(), "checking {}", table.place);
    check(&table.any, json).await
}

/// Tries each rule on `table`, which may be in use: no item of a ledger is read or changed.
pub async fn check<T: Port>(ledger: &T, json: bool) -> Result<Outcome, Failed> {
    let probe = Probe::new(ledger);
    // Without a pause and another try: a table that is missing or can't be reached is named at once.
    ledger.get(probe.key("STATE")).await.map_err(LedgerError::from)?;
    let rules: [(&str, BoxFuture<'_, Checked>); 7] = [
        ("creation", probe.creation().boxed()),
        ("claim-or-refund", probe.claim_or_refund().boxed()),
        ("bounds", probe.bounds().boxed()),
        ("repetition", probe.repetition().boxed()),
        ("read-after-write", probe.read_after_write().boxed()),
        ("queries", probe.queries().boxed()),
        ("all-or-nothing", probe.all_or_nothing().boxed()),
    ];
    let (mut exit, mut findings) = (Exit::Good, Vec::new());
    for (rule, tried) in rules {
        let (result, seen) = match tried.await {
            Ok(()) => ("ok", String::new()),
            Err(End::Broken(seen)) => ("BROKEN", seen.chars().take(SEEN_MAX).collect()),
            Err(End::Unanswered(why)) => ("unknown", why),
        };
        findings.push(json!({"rule": rule, "result": result, "seen": seen}));
        match result {
            "ok" => {}
            "BROKEN" => exit = Exit::Wrong,
            _ => {
                exit = if exit == Exit::Good { Exit::Unfinished } else { exit };
                // The next rules would only wait for the same.
                break;
            }
        }
    }
    let left = format!("{}…", probe.prefix);
    let words = || {
        let findings = table(&findings, "rule result seen");
        format!("{findings}\n\nitems under the partition keys {left} stay in the table, as nothing deletes any")
    };
    Ok(Outcome::new(json, &json!({"rules": findings, "left": left}), words, exit))
}
