//! Compares the journal of a day with a file of transfers, and names each difference.
//!
//! Both sides are sorted by id on disk and read once, so that the memory does not grow with them.

mod difference;
mod matching;
mod transfers;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;
use shared::domain::{MovementKind, Timestamp};

use self::difference::{Difference, Differences, Kind};
use self::matching::{Found, Matching, Side};
use self::transfers::{Dates, Transfer, Unusable, shown};
use crate::deployment::{Failed, in_file};
use crate::journal::{self, KINDS, Line, Movements, Problem, Problems, Sum, Summary, Verdict};
use crate::options::Reconcile;
use crate::sort::Sorter;
use crate::text::columns;
use crate::{Exit, Outcome};

const MOVEMENTS_BYTES: usize = 64 << 20;

/// The result of a comparison.
#[derive(Serialize)]
struct Report {
    day: String,
    /// Whether the journal was final.
    #[serde(rename = "final")]
    is_final: bool,
    /// How the journal's state compared with its movements.
    state: Verdict,
    kinds: Vec<&'static str>,
    ledger: Movements,
    transfers: Movements,
    #[serde(flatten)]
    differences: Differences,
}

/// Compares a journal with transfers.
pub fn run(options: &Reconcile, json: bool) -> Result<Outcome, Failed> {
    let summary = journal::read_summary(&options.journal)?;
    let span = summary.span()?;
    let folder = tempfile::Builder::new().prefix(".reconcile-").tempdir_in(&options.journal);
    let folder = folder.map_err(in_file(&options.journal))?;
    let mut sorter = Sorter::new(folder.path(), MOVEMENTS_BYTES);
    let mut differences = Differences::new(options.output.as_deref())?;
    let ledger = read_journal(options, &summary, &mut sorter)?;
    let transfers = read_transfers(options, &summary, &mut sorter, &mut differences)?;

    let mut matching = Matching::new(span, differences);
    let mut movements = sorter.finish().map_err(in_file(folder.path()))?;
    while let Some(record) = movements.advance().map_err(in_file(folder.path()))? {
        let found =
            Found::read(record).ok_or_else(|| Failed::Unverifiable("a sorted movement is damaged".to_owned()))?;
        matching.take(found)?;
    }
    if let Some(problems) = problems_of(&summary) {
        matching.differences.add(problems)?;
    }
    for kind in KINDS.into_iter().filter(|kind| options.kinds.contains(kind)) {
        if ledger[kind] != transfers[kind] {
            matching.differences.add(Difference {
                kind: Kind::SumDiffers,
                subject: format!("{} in {}", kind.name(), summary.currency),
                ledger: ledger[kind].to_string(),
                transfers: transfers[kind].to_string(),
                row: None,
            })?;
        }
    }
    let differences = matching.end()?;
    let exit = if differences.difference_count == 0 { Exit::Good } else { Exit::Wrong };
    let kinds = options.kinds.iter().map(|kind| kind.name()).collect();
    let (is_final, state) = (summary.is_final, summary.state.verdict);
    let report = Report { day: summary.day, is_final, state, kinds, ledger, transfers, differences };
    Ok(Outcome::new(json, &report, || in_words(&report, &options.kinds), exit))
}

/// Problems that the journal's own checks found. Equal transfers do not make such books right.
fn problems_of(summary: &Summary) -> Option<Difference> {
    let Problems { problem_count, problems } = &summary.problems;
    let first = problems.first().map(|problem| {
        let Problem { kind, subject, expected, found } = problem;
        format!(", the first: {} {subject}, expected {expected}, found {found}", kind.name())
    });
    (*problem_count > 0).then(|| Difference {
        kind: Kind::JournalProblems,
        subject: format!("the journal of {}", summary.day),
        ledger: format!("{problem_count}{}", first.unwrap_or_default()),
        transfers: "not compared".to_owned(),
        row: None,
    })
}

/// Reads the journal's entries. Returns the sums of those that are compared.
fn read_journal(options: &Reconcile, summary: &Summary, sorter: &mut Sorter) -> Result<Movements, Failed> {
    let path = options.journal.join(journal::LINES);
    let damaged = |line: u64, why: &dyn std::fmt::Display| {
        Failed::Unverifiable(format!("{}: line {line}: {why}", path.display()))
    };
    let mut lines = BufReader::new(File::open(&path).map_err(in_file(&path))?);
    let (mut text, mut record, mut all, mut number) = (String::new(), Vec::new(), Movements::default(), 0);
    loop {
        text.clear();
        number += 1;
        if lines.read_line(&mut text).map_err(in_file(&path))? == 0 {
            break;
        }
        let line: Line = serde_json::from_str(&text).map_err(|error| damaged(number, &error))?;
        let kind = MovementKind::ALL.into_iter().find(|kind| kind.name() == line.kind);
        let kind = kind.ok_or_else(|| damaged(number, &"an unknown kind"))?;
        let time = line.time.parse::<Timestamp>().map_err(|()| damaged(number, &"a time that is not RFC 3339"))?;
        all[kind] += Sum::new(1, line.amount);
        if options.kinds.contains(&kind) {
            let found = Found {
                id: line.id.into_owned(),
                kind,
                user: line.user.into_owned(),
                side: Side::Ledger,
                amount: line.amount,
                currency: line.currency.into_owned(),
                at: time.ms(),
                row: number,
            };
            found.write(&mut record);
            sorter.push(&record).map_err(in_file(&path))?;
        }
    }
    if all != summary.entries {
        return Err(Failed::Unverifiable(format!("{}: its sums are not those of its summary", path.display())));
    }
    Ok(compared(&all, &options.kinds))
}

/// Reads the transfers. Returns the sums of those in the journal's currency.
fn read_transfers(
    options: &Reconcile,
    summary: &Summary,
    sorter: &mut Sorter,
    differences: &mut Differences,
) -> Result<Movements, Failed> {
    let (mut record, mut all) = (Vec::new(), Movements::default());
    let folder: &Path = &options.journal;
    let dates = Dates::of(summary)?;
    transfers::each(&options.transfers, &options.kinds, &dates, |row, id, transfer| {
        let (kind, expected, found) = match transfer {
            Ok(Transfer { id, kind, user, amount, currency, at }) => {
                if currency == summary.currency {
                    all[kind] += Sum::new(1, amount);
                }
                let (id, user) = (id.to_string(), user.to_string());
                Found { id, kind, user, side: Side::Transfers, amount, currency, at, row }.write(&mut record);
                return sorter.push(&record).map_err(in_file(folder));
            }
            Err(Unusable::Malformed { expected, found }) => (Kind::MalformedRow, expected, found),
            Err(Unusable::Kind(found)) => {
                let names: Vec<&str> = options.kinds.iter().map(|kind| kind.name()).collect();
                (Kind::NotCompared, names.join(" or "), found)
            }
        };
        let subject = if id.is_empty() { format!("row {row}") } else { format!("row {row}, id {}", shown(id)) };
        differences.add(Difference { kind, subject, ledger: expected, transfers: found, row: Some(row) })
    })?;
    Ok(all)
}

fn compared(all: &Movements, kinds: &[MovementKind]) -> Movements {
    let mut compared = Movements::default();
    for kind in kinds {
        compared[*kind] = all[*kind];
    }
    compared
}

fn in_words(report: &Report, kinds: &[MovementKind]) -> String {
    let Report { day, is_final, state, ledger, transfers, differences, .. } = report;
    let sums = kinds.iter().map(|kind| {
        let name = kind.name().to_owned();
        vec![name, ledger[*kind].to_string(), transfers[*kind].to_string()]
    });
    let mut about = format!("day {day}, {}", if *is_final { "final" } else { "not final" });
    if *state == Verdict::Moving {
        about += "\nmoney moved while the journal was read, so its wallets and undecided slips are not checked";
    }
    let mut paragraphs = vec![about, columns(&["", "ledger", "transfers"], sums)];
    let Differences { difference_count, by_kind, listed, .. } = differences;
    if *difference_count == 0 {
        paragraphs.push("no differences".to_owned());
        return paragraphs.join("\n\n");
    }
    paragraphs.extend(listed.iter().map(|difference| {
        let Difference { kind, subject, ledger, transfers, row } = difference;
        let row = row.map_or_else(String::new, |row| format!("  (row {row})"));
        format!("{}  {subject}\n  ledger     {ledger}\n  transfers  {transfers}{row}", kind.name())
    }));
    let counts = by_kind.iter().map(|(kind, count)| vec![kind.name().to_owned(), count.to_string()]);
    paragraphs.push(columns(&[], counts));
    paragraphs.push(match listed.len() as u64 {
        some if some < *difference_count => format!("{difference_count} differences, {some} of them listed"),
        _ => format!("{difference_count} differences"),
    });
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
