//! Compares the journal of a day with a file of transfers, and names each difference. Both go into a database, which matches them.

mod transfers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};
use serde::Serialize;
use shared::domain::MovementKind;

use self::transfers::Dates;
use crate::deployment::{Failed, in_file};
use crate::journal::{self, KINDS, Movements, Problem, Problems, Sum, Summary, Verdict};
use crate::options::Reconcile;
use crate::scratch;
use crate::text::columns;
use crate::{Exit, Outcome};

/// Differences that are printed; further ones are only counted.
const LISTED_MAX: usize = 50;

const SCHEMA: &str = include_str!("schema.sql");
/// Matches transfers with entries and writes down the differences.
const MATCH: &str = include_str!("match.sql");
/// Adds a line of the journal.
const ADD_ENTRY: &str = "
    INSERT INTO entry (row, id, kind, user, amount, currency, time)
    VALUES (?1, ?2 ->> 'id', ?2 ->> 'kind', ?2 ->> 'user', ?2 ->> 'amount', ?2 ->> 'currency', ?2 ->> 'time')";

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

/// All differences: counted by kind, and the first ones.
#[derive(Debug, Default, Serialize)]
struct Differences {
    difference_count: u64,
    by_kind: BTreeMap<String, u64>,
    #[serde(rename = "differences")]
    listed: Vec<Difference>,
}

/// A difference.
#[derive(Debug, Serialize)]
struct Difference {
    kind: String,
    /// The movement, such as `deposit first of ann`, or what else differs.
    subject: String,
    /// What the journal says; of a repeated transfer, what it repeats.
    ledger: String,
    /// What the transfers say.
    transfers: String,
    /// The row of the transfer in its file.
    row: Option<u64>,
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
    database.execute("INSERT INTO day VALUES (?, ?)", [&summary.from, &summary.to])?;
    let ledger = read_journal(journal, &summary, kinds, &database)?;
    transfers::read(file, kinds, &dates, &database)?;
    let transfers = sums(&database, "transfer", &summary.currency)?;

    database.execute_batch(MATCH)?;
    if let Some((ledger, subject)) = problems_of(&summary) {
        // Equal transfers do not make such books right.
        add_difference(&database, "journal-problems", &subject, &ledger, "not compared", None)?;
    }
    for kind in KINDS.into_iter().filter(|kind| ledger.of(kind) != transfers.of(kind)) {
        let [ledger, transfers] = [&ledger, &transfers].map(|sums| sums.of(kind).to_string());
        let subject = format!("{kind} in {}", summary.currency);
        add_difference(&database, "sum-differs", &subject, &ledger, &transfers, None)?;
    }
    let differences = differences(&database, output)?;
    let exit = if differences.difference_count == 0 { Exit::Good } else { Exit::Wrong };
    let (is_final, state, names) =
        (summary.is_final, summary.state.verdict, kinds.iter().map(|kind| kind.name()).collect());
    let report = Report { day: summary.day, is_final, state, kinds: names, ledger, transfers, differences };
    Ok(Outcome::new(json, &report, || in_words(&report), exit))
}

/// Problems that the journal's own checks found, and where.
fn problems_of(summary: &Summary) -> Option<(String, String)> {
    let Problems { problem_count, problems } = &summary.problems;
    let first = problems.first().map(|problem| {
        let Problem { kind, subject, expected, found } = problem;
        format!(", the first: {kind} {subject}, expected {expected}, found {found}")
    });
    let found = format!("{problem_count}{}", first.unwrap_or_default());
    (*problem_count > 0).then(|| (found, format!("the journal of {}", summary.day)))
}

/// Reads the journal's entries of these kinds into `database`. Returns their sums.
fn read_journal(
    journal: &Path,
    summary: &Summary,
    kinds: &[MovementKind],
    database: &Connection,
) -> Result<Movements, Failed> {
    let path = journal.join(journal::LINES);
    let damaged = |why: String| Failed::Unverifiable(format!("{}: {why}", path.display()));
    let lines = BufReader::new(File::open(&path).map_err(in_file(&path))?).lines();
    for (line, number) in lines.zip(1_u64..) {
        let mut add = database.prepare_cached(ADD_ENTRY)?;
        add.execute(params![number, line.map_err(in_file(&path))?])
            .map_err(|error| damaged(format!("line {number}: {error}")))?;
    }
    if sums(database, "entry", &summary.currency)? != summary.entries {
        return Err(damaged("its sums are not those of its summary".to_owned()));
    }
    for kind in MovementKind::ALL.into_iter().filter(|kind| !kinds.contains(kind)) {
        database.execute("DELETE FROM entry WHERE kind = ?", [kind.name()])?;
    }
    Ok(sums(database, "entry", &summary.currency)?)
}

/// The sums of a table's movements in a currency.
fn sums(database: &Connection, table: &str, currency: &str) -> rusqlite::Result<Movements> {
    let mut statement = database
        .prepare(&format!("SELECT kind, count(*), sum(amount) FROM {table} WHERE currency = ? GROUP BY kind"))?;
    let sum = |row: &Row| Ok((row.get(0)?, Sum { count: row.get(1)?, amount: row.get::<_, i64>(2)?.into() }));
    let sums = statement.query_map([currency], sum)?.collect::<rusqlite::Result<BTreeMap<String, Sum>>>()?;
    Ok(Movements::new(|kind| sums.get(kind).copied().unwrap_or_default()))
}

fn add_difference(
    database: &Connection,
    kind: &str,
    subject: &str,
    ledger: &str,
    transfers: &str,
    row: Option<u64>,
) -> rusqlite::Result<()> {
    let mut add = database.prepare_cached("INSERT INTO difference VALUES (?, ?, ?, ?, ?)")?;
    add.execute(params![kind, subject, ledger, transfers, row]).map(drop)
}

/// The differences in order. All of them go to `output` as JSON lines.
fn differences(database: &Connection, output: Option<(&PathBuf, File)>) -> Result<Differences, Failed> {
    let mut all = Differences::default();
    let mut output = output.map(|(path, file)| (path, BufWriter::new(file)));
    let mut statement =
        database.prepare("SELECT kind, subject, ledger, transfers, row FROM difference ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let difference = Difference {
            kind: row.get(0)?,
            subject: row.get(1)?,
            ledger: row.get(2)?,
            transfers: row.get(3)?,
            row: row.get(4)?,
        };
        if let Some((path, file)) = &mut output {
            let text = serde_json::to_string(&difference).unwrap_or_default();
            writeln!(file, "{text}").map_err(in_file(path))?;
        }
        all.difference_count += 1;
        *all.by_kind.entry(difference.kind.clone()).or_default() += 1;
        if all.listed.len() < LISTED_MAX {
            all.listed.push(difference);
        }
    }
    if let Some((path, mut file)) = output {
        file.flush().map_err(in_file(path))?;
    }
    Ok(all)
}

fn in_words(report: &Report) -> String {
    let Report { day, is_final, state, kinds, ledger, transfers, differences } = report;
    let kinds = KINDS.into_iter().filter(|kind| kinds.contains(kind));
    let sums = kinds.map(|kind| vec![kind.to_owned(), ledger.of(kind).to_string(), transfers.of(kind).to_string()]);
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
        format!("{kind}  {subject}\n  ledger     {ledger}\n  transfers  {transfers}{row}")
    }));
    let counts = by_kind.iter().map(|(kind, count)| vec![kind.clone(), count.to_string()]);
    paragraphs.push(columns(&[], counts));
    paragraphs.push(match listed.len() as u64 {
        some if some < *difference_count => format!("{difference_count} differences, {some} of them listed"),
        _ => format!("{difference_count} differences"),
    });
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
