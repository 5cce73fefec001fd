//! The folder of a day's journal: its entries as JSON lines and as CSV, and its summary.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use shared::domain::Timestamp;

use super::sums::{Classes, Movements};
use super::tally::{Problems, Span};
use crate::deployment::{Failed, in_file};

/// The entries as JSON lines.
pub const LINES: &str = "journal.jsonl";
const SHEET: &str = "journal.csv";
const SUMMARY: &str = "summary.json";
/// The withdrawals in two steps that were pending at the end of the day, or have ended in the thirty days before it, as JSON lines.
pub const WITHDRAWALS: &str = "withdrawals.jsonl";
const BUFFER_BYTES: usize = 256 * 1024;

/// What a day's journal adds up to.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Summary {
    pub day: String,
    /// The time zone of the day.
    pub zone: String,
    /// The first moment, and the moment after the last one, where the next journal begins.
    pub from: String,
    pub to: String,
    pub currency: String,
    /// Whether the day was over, and its last holds had time to be persisted.
    #[serde(rename = "final")]
    pub is_final: bool,
    pub read: Read,
    /// The sums before the day.
    pub opening: Balance,
    /// The day's own movements.
    pub entries: Movements,
    /// The sums at the end of the day: opening and entries together.
    pub closing: Balance,
    /// How many withdrawals in two steps are beside the entries.
    #[serde(default)]
    pub withdrawals: u64,
    pub state: State,
    #[serde(flatten)]
    pub problems: Problems,
}

/// What was read.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Read {
    /// The table's name, or the export's ARN.
    pub source: String,
    /// When, or the moment whose data the export has.
    pub at: String,
    pub items: u64,
}

/// Sums of all movements up to a moment.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Balance {
    pub accounts: Classes,
    pub movements: Movements,
}

impl Balance {
    /// The balance after these movements.
    pub fn of(movements: Movements) -> Self {
        Self { accounts: Classes::of(&movements), movements }
    }
}

/// The wallets and the undecided slips as they were read, beside the sums of all movements, later ones too.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct State {
    /// `equal`, `differs`, or `moving`: they differ, but money moved when they were read, so that means nothing.
    pub verdict: String,
    pub wallets: i128,
    #[serde(default)]
    pub pending: i128,
    pub packets: i128,
    /// What all movements sum up to.
    pub movements: Classes,
}

/// Writes a day's movements in order, as entries, and their summary. The folder gets its name once everything is in it.
pub fn write(path: &Path, movements: &Connection, summary: &Summary) -> Result<(), Failed> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new().prefix(".journal-").tempdir_in(parent).map_err(in_file(parent))?;
    let draft = folder.path();
    let file = |name| File::create(draft.join(name)).map_err(in_file(draft));
    let mut lines = BufWriter::with_capacity(BUFFER_BYTES, file(LINES)?);
    // By RFC 4180.
    let mut sheet = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(file(SHEET)?);
    sheet.write_record(HEADER).map_err(in_file(draft))?;
    let mut statement = movements.prepare(ENTRIES)?;
    let mut rows = statement.query([&*summary.currency, MARK])?;
    while let Some(row) = rows.next()? {
        let cell = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        writeln!(lines, "{}", cell(0)?).map_err(in_file(draft))?;
        for column in 1..=HEADER.len() {
            sheet.write_field(cell(column)?).map_err(in_file(draft))?;
        }
        sheet.write_record(None::<&[u8]>).map_err(in_file(draft))?;
    }
    let mut withdrawals = BufWriter::with_capacity(BUFFER_BYTES, file(WITHDRAWALS)?);
    let mut statement = movements.prepare(PENDING)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        writeln!(withdrawals, "{line}").map_err(in_file(draft))?;
    }
    let withdrawals = withdrawals.into_inner().map_err(|error| in_file(draft)(error.into_error()))?;
    let lines = lines.into_inner().map_err(in_file(draft))?;
    let sheet = sheet.into_inner().map_err(|error| in_file(draft)(error.into_error()))?;
    let mut sums = file(SUMMARY)?;
    writeln!(sums, "{}", serde_json::to_string_pretty(summary).unwrap_or_default()).map_err(in_file(draft))?;
    for file in [lines, sheet, withdrawals, sums] {
        file.sync_all().map_err(in_file(draft))?;
    }
    std::fs::rename(draft, path).map_err(in_file(path))?;
    // Under its new name it is no temporary folder any more.
    let _ = folder.keep();
    Ok(())
}

/// These withdrawals in order, as JSON.
const PENDING: &str = "
    SELECT json_object('id', id, 'user', user, 'amount', amount, 'status', status, 'time', time, 'ended', ended,
        'posted', posted)
    FROM withdrawal ORDER BY time, user, id";

/// The columns of the CSV file.
const HEADER: [&str; 9] = ["time", "kind", "user", "id", "packet", "debit", "credit", "amount", "currency"];

/// The movements as entries, in order: as JSON, then the cells of the CSV file. There a mark precedes each id. The name of an account
/// begins with its class, so it is no formula and no number. A mark follows each semicolon, at which a spreadsheet may split a line.
const ENTRIES: &str = "
    SELECT json_object('time', time, 'kind', kind, 'user', user, 'id', id, 'packet', packet, 'debit', debit, 'credit', credit,
            'amount', amount, 'currency', ?1),
        time, kind, ?2 || replace(user, ';', ';' || ?2), ?2 || id, ifnull(?2 || packet, ''),
        replace(debit, ';', ';' || ?2), replace(credit, ';', ';' || ?2), CAST(amount AS TEXT), ?1
    FROM (
        SELECT *,
            CASE kind
                WHEN 'deposit' THEN 'external'
                WHEN 'claim' THEN 'packet:' || packet
                WHEN 'refund' THEN 'packet:' || packet
                WHEN 'release' THEN 'pending:' || user
                ELSE 'wallet:' || user
            END AS debit,
            CASE kind
                WHEN 'withdrawal' THEN 'external'
                WHEN 'sent' THEN 'packet:' || packet
                WHEN 'reserve' THEN 'pending:' || user
                ELSE 'wallet:' || user
            END AS credit
        FROM movement
    )
    ORDER BY time, kind, user, id";

/// What precedes each id in a file for spreadsheets. They would compute the id `=1+1`, and round one of 19 digits.
const MARK: &str = "'";

/// Reads the summary of the journal in `folder`.
pub fn read_summary(folder: &Path) -> Result<Summary, Failed> {
    let path = folder.join(SUMMARY);
    let text = std::fs::read(&path).map_err(in_file(&path))?;
    serde_json::from_slice(&text).map_err(in_file(&path))
}

impl Summary {
    /// The time of its entries.
    pub fn span(&self) -> Result<Span, Failed> {
        let ms = |text: &str| text.parse().map(Timestamp::ms);
        let span = ms(&self.from).and_then(|start| Ok(Span { start, end: ms(&self.to)? }));
        span.map_err(|()| Failed::Refused(format!("{} to {} is no time of a journal", self.from, self.to)))
    }
}
