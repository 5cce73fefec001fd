//! The file of transfers: CSV with a header, one transfer a row.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use jiff::civil::Date;
use rusqlite::{Connection, params};
use shared::domain::{DayZone, MovementKind, RequestKey, Timestamp, UserId};

use super::add_difference;
use crate::deployment::{Failed, in_file};
use crate::journal::{Summary, unmarked};

/// The columns, in any order. Others are left out.
const COLUMNS: [&str; 6] = ["id", "kind", "user", "amount", "currency", "time"];

/// Characters of a text that a report shows.
const SHOWN_MAX: usize = 100;

const ADD: &str = "INSERT INTO transfer (row, id, kind, user, amount, currency, time) VALUES (?, ?, ?, ?, ?, ?, ?)";

/// A row that can be compared.
struct Transfer {
    id: RequestKey,
    kind: MovementKind,
    user: UserId,
    /// Minor units, as the database takes them.
    amount: i64,
    at: Timestamp,
}

/// Why a row can't be compared: the kind of difference, what was expected, and what there is.
struct Unusable(&'static str, String, String);

/// Reads a file of transfers of these kinds into `database`: a row that can't be compared is a difference. As in a spreadsheet the
/// header is row 1.
pub fn read(path: &Path, kinds: &[MovementKind], dates: &Dates, database: &Connection) -> Result<(), Failed> {
    let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_path(path).map_err(in_file(path))?;
    let header = reader.headers().map_err(in_file(path))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (found, name) in places.iter_mut().zip(COLUMNS) {
        let missing = || Failed::Unverifiable(format!("{}: there is no column {name}", path.display()));
        *found = header.iter().position(|column| column == name).ok_or_else(missing)?;
    }
    let malformed = |expected, found| Err(Unusable("malformed-row", expected, found));
    let mut row = StringRecord::new();
    for number in 2_u64.. {
        let is_text = match reader.read_record(&mut row) {
            Ok(false) => break,
            Ok(true) => true,
            Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => false,
            Err(error) => return Err(in_file(path)(error)),
        };
        // A row of another length may have its id elsewhere.
        let is_whole = is_text && row.len() == header.len();
        let cells = places.map(|place| row.get(place).filter(|_| is_whole).unwrap_or_default());
        let read = if is_whole {
            transfer(cells, kinds, dates)
        } else if is_text {
            let found = shown(&row.iter().collect::<Vec<_>>().join(","));
            malformed(format!("{} fields, as in the header", header.len()), format!("{} fields: {found}", row.len()))
        } else {
            malformed("a text in UTF-8".to_owned(), "other bytes".to_owned())
        };
        match read {
            Ok(Transfer { id, kind, user, amount, at }) => {
                let mut add = database.prepare_cached(ADD)?;
                add.execute(params![
                    number,
                    id.as_str(),
                    kind.name(),
                    user.as_str(),
                    amount,
                    cells[4],
                    at.to_string()
                ])?;
            }
            Err(Unusable(kind, expected, found)) => {
                let id = unmarked(cells[0]).unwrap_or(cells[0]);
                let id = if id.is_empty() { String::new() } else { format!(", id {}", shown(id)) };
                add_difference(database, kind, &format!("row {number}{id}"), &expected, &found, Some(number))?;
            }
        }
    }
    Ok(())
}

/// A text of the file as a report shows it: on one line, and not too long.
fn shown(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).take(SHOWN_MAX).collect()
}

fn transfer(cells: [&str; COLUMNS.len()], kinds: &[MovementKind], dates: &Dates) -> Result<Transfer, Unusable> {
    let malformed = |column: usize, expected: &str| {
        let name = COLUMNS[column];
        Unusable("malformed-row", format!("{name}: {expected}"), format!("{name}: {}", shown(cells[column])))
    };
    let [id, kind, user, amount, currency, time] = cells;
    // No id begins with an apostrophe, but a user's may. So the id tells whether both are marked, as in the journal's CSV.
    let (id, user) = unmarked(id).map_or((id, user), |id| (id, unmarked(user).unwrap_or(user)));
    let id = id.parse().map_err(|_| malformed(0, "1 to 64 of A-Z a-z 0-9 _ -"))?;
    let kind = kinds.iter().find(|one| one.name() == kind).ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        Unusable("unknown-kind", names.join(" or "), shown(kind))
    })?;
    let user = user.parse().map_err(|_| malformed(2, "a user id"))?;
    // Signs, separators and decimal points are no minor units.
    let units = amount.parse::<i64>().ok().filter(|units| *units > 0 && units.to_string() == amount);
    let amount = units.ok_or_else(|| malformed(3, "minor units, 1 or more, digits only"))?;
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(malformed(4, "three capital letters"));
    }
    let at = dates.moment(time).ok_or_else(|| malformed(5, "RFC 3339, or a day such as 2026-11-23"))?;
    Ok(Transfer { id, kind: *kind, user, amount, at })
}

/// What a date without a time means.
pub struct Dates {
    pub zone: DayZone,
    /// The journal's day, and its first moment.
    pub day: Date,
    pub start: Timestamp,
}

impl Dates {
    /// Those of the journal with this summary.
    pub fn of(summary: &Summary) -> Result<Self, Failed> {
        let Summary { day, zone, from, .. } = summary;
        let unknown = || Failed::Unverifiable(format!("{day} in {zone} from {from} is no day of a journal"));
        let dates = (zone.parse().ok()).zip(day.parse().ok()).zip(from.parse().ok());
        dates.map(|((zone, day), start)| Self { zone, day, start }).ok_or_else(unknown)
    }

    /// A time in RFC 3339, or the start of a day.
    pub fn moment(&self, text: &str) -> Option<Timestamp> {
        if let Ok(at) = text.parse() {
            return Some(at);
        }
        // The journal of a day may begin elsewhere than the day.
        let date = text.parse().ok()?;
        if date == self.day { Some(self.start) } else { Some(self.zone.day(date)?.start) }
    }
}
