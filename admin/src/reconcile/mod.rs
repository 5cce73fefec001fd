//! Compares the journal of a day with a file of transfers, and names each difference. Both go into a database, which matches them.

mod transfers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde_json::Value;
use shared::domain::MovementKind;

use self::transfers::Dates;
use crate::deployment::{Failed, in_file};
use crate::journal::{self, KINDS, Movements, Sum, Summary};
use crate::options::Reconcile;
use crate::scratch;
use crate::text::{columns, fields, table};
use crate::{Exit, Outcome};

/// Differences that are printed; further ones are only counted.
const LISTED_MAX: usize = 50;

const SCHEMA: &str = include_str!("schema.sql");
/// Matches transfers with entries and writes down the differences.
const MATCH: &str = include_str!("match.sql");
/// Adds a line of the journal.
const ADD_ENTRY: &str = "
    INSERT INTO entry (id, kind, user, amount, currency, time)
    SELECT ?1 ->> 'id', ?1 ->> 'kind', ?1 ->> 'user', ?1 ->> 'amount', ?1 ->> 'currency', ?1 ->> 'time'";
/// Adds a withdrawal in two steps.
const ADD_WITHDRAWAL: &str = "
    INSERT INTO withdrawal
    SELECT ?1 ->> 'id', ?1 ->> 'user', ?1 ->> 'amount', ?1 ->> 'status', ?1 ->> 'time', ?1 ->> 'ended', ?1 ->> 'posted'";
/// Adds a difference: its kind; its subject, such as `deposit first of ann`; what the journal says, or what a transfer repeats; what the
/// transfers say. Last comes the row of the transfer in its file.
const ADD_DIFFERENCE: &str = "INSERT INTO difference VALUES (?, ?, ?, ?, ?)";
/// The differences in order, as JSON.
const DIFFERENCES: &str = "
    SELECT json_object('kind', kind, 'subject', subject, 'ledger', ledger, 'transfers', transfers, 'row', row)
    FROM difference ORDER BY rowid";
/// An amount in two halves: no number of rows makes such a sum overflow.
const SUMS: &str = "SELECT kind, count(*), sum(amount >> 32), sum(amount & 0xffffffff)";

/// The result of a comparison.
#[derive(Serialize)]
struct Report {
    day: String,
    /// Whether the journal was final.
    #[serde(rename = "final")]
    is_final: bool,
    /// How the journal's state compared with its movements.
    state: String,
    ledger: Movements,
    transfers: Movements,
    #[serde(flatten)]
    differences: Differences,
}

/// All differences: counted by kind, and the first ones.
#[derive(Debug, Default, Serialize)]
struct Differences {
    difference_count: u64,
    by_kind: BTreeMap<String, u64>,
    #[serde(rename = "differences")]
    listed: Vec<Value>,
}

/// Compares a journal with transfers.
pub fn run(options: &Reconcile, json: bool) -> Result<Outcome, Failed> {
    let Reconcile { journal, transfers: file, kinds, output } = options;
    let summary = journal::read_summary(journal)?;
    let dates = Dates::of(&summary)?;
    let output = match output {
        Some(path) => Some((path, File::create_new(path).map_err(in_file(path))?)),
        None => None,
    };
    let database = scratch::database(SCHEMA)?;
    database.execute("INSERT INTO day VALUES (?, ?, ?)", [&summary.from, &summary.to, &summary.currency])?;
    let ledger = read_journal(journal, &summary, kinds, &database)?;
    transfers::read(file, kinds, &dates, &database)?;
    let transfers = sums(&database, "transfer", &summary.currency)?;

    database.execute_batch(MATCH)?;
    // Equal transfers do not make books with problems right.
    if let Some(first) = summary.problems.problems.first() {
        let (count, subject) = (summary.problems.problem_count, format!("the journal of {}", summary.day));
        let ledger = format!(
            "{count}, the first: {} {}, expected {}, found {}",
            first.kind, first.subject, first.expected, first.found
        );
        database.execute(ADD_DIFFERENCE, params!["journal-problems", subject, ledger, "not compared", None::<u64>])?;
    }
    for kind in KINDS.into_iter().filter(|kind| ledger.of(kind) != transfers.of(kind)) {
        let [ledger, transfers] = [&ledger, &transfers].map(|sums| sums.of(kind).to_string());
        let subject = format!("{kind} in {}", summary.currency);
        database.execute(ADD_DIFFERENCE, params!["sum-differs", subject, ledger, transfers, None::<u64>])?;
    }
    let differences = differences(&database, output)?;
    let exit = if differences.difference_count == 0 { Exit::Good } else { Exit::Wrong };
    let Summary { day, is_final, state, .. } = summary;
    let report = Report { day, is_final, state: state.verdict, ledger, transfers, differences };
    Ok(Outcome::new(json, &report, || in_words(&report), exit))
}

/// Reads the journal's entries of these kinds, and its withdrawals in two steps, into `database`. Returns the sums of the entries.
fn read_journal(
    journal: &Path,
    summary: &Summary,
    kinds: &[MovementKind],
    database: &Connection,
) -> Result<Movements, Failed> {
    let [entries, withdrawals] = [journal::LINES, journal::WITHDRAWALS].map(|name| journal.join(name));
    read_lines(&entries, ADD_ENTRY, database)?;
    if sums(database, "entry", &summary.currency)? != summary.entries {
        return Err(damaged(&entries, "its sums are not those of its summary"));
    }
    for kind in KINDS.into_iter().filter(|kind| !kinds.iter().any(|one| one.name() == *kind)) {
        database.execute("DELETE FROM entry WHERE kind = ?", [kind])?;
    }
    let count = read_lines(&withdrawals, ADD_WITHDRAWAL, database)?;
    if count != summary.withdrawals {
        let why = format!("it has {count} lines, and its summary says {}", summary.withdrawals);
        return Err(damaged(&withdrawals, &why));
    }
    Ok(sums(database, "entry", &summary.currency)?)
}

/// Adds each line of a file. Returns how many there are.
fn read_lines(path: &Path, add: &str, database: &Connection) -> Result<u64, Failed> {
    let mut count = 0;
    for line in BufReader::new(File::open(path).map_err(in_file(path))?).lines() {
        count += 1;
        let added = database.prepare_cached(add)?.execute([line.map_err(in_file(path))?]);
        added.map_err(|error| damaged(path, &format!("line {count}: {error}")))?;
    }
    Ok(count)
}

fn damaged(path: &Path, why: &str) -> Failed {
    Failed::Refused(format!("{}: {why}", path.display()))
}

/// The sums of a table's movements in a currency.
fn sums(database: &Connection, table: &str, currency: &str) -> rusqlite::Result<Movements> {
    let mut statement = database.prepare(&format!("{SUMS} FROM {table} WHERE currency = ? GROUP BY kind"))?;
    let sum = |row: &Row| {
        let [high, low] = [row.get::<_, i64>(2)?, row.get(3)?].map(i128::from);
        Ok((row.get(0)?, Sum { count: row.get(1)?, amount: (high << 32) + low }))
    };
    let sums = statement.query_map([currency], sum)?.collect::<rusqlite::Result<BTreeMap<String, Sum>>>()?;
    Ok(Movements::new(|kind| sums.get(kind).copied().unwrap_or_default()))
}

/// The differences in order. All of them go to `output` as JSON lines.
fn differences(database: &Connection, output: Option<(&PathBuf, File)>) -> Result<Differences, Failed> {
    let mut all = Differences::default();
    let mut output = output.map(|(path, file)| (path, BufWriter::new(file)));
    let mut statement = database.prepare(DIFFERENCES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        if let Some((path, file)) = &mut output {
            writeln!(file, "{text}").map_err(in_file(path))?;
        }
        all.difference_count += 1;
        if all.listed.len() < LISTED_MAX {
            all.listed.push(serde_json::from_str(&text).unwrap_or_default());
        }
    }
    if let Some((path, mut file)) = output {
        file.flush().map_err(in_file(path))?;
    }
    let mut counts = database.prepare("SELECT kind, count(*) FROM difference GROUP BY kind")?;
    let counts = counts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    all.by_kind = counts.collect::<rusqlite::Result<_>>()?;
    Ok(all)
}

fn in_words(report: &Report) -> String {
    let Report { ledger, transfers, differences, .. } = report;
    let sums = KINDS.map(|kind| vec![kind.to_owned(), ledger.of(kind).to_string(), transfers.of(kind).to_string()]);
    let mut paragraphs =
        vec![fields(report, "day final state difference_count by_kind"), columns(&["", "ledger", "transfers"], sums)];
    if differences.difference_count > 0 {
        paragraphs.push(table(&differences.listed, "kind subject ledger transfers row"));
    }
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
