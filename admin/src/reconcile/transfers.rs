//! The file of transfers: CSV with a header, one transfer a row.

use std::borrow::Cow;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, Trim};
use jiff::civil::Date;
use rusqlite::{Connection, params};
use shared::domain::{DayZone, MAX_BALANCE, MovementKind, RequestKey, Timestamp, UserId};
use shared::service::text_of_cell;

use super::ADD_DIFFERENCE;
use crate::deployment::{Failed, in_file};
use crate::journal::Summary;

/// The columns, in any order. Others are left out.
const COLUMNS: [&str; 6] = ["id", "kind", "user", "amount", "currency", "time"];

/// Characters of a text that a report shows.
const SHOWN_MAX: usize = 100;

const ADD: &str = "INSERT INTO transfer (row, id, kind, user, amount, currency, time) VALUES (?, ?, ?, ?, ?, ?, ?)";

/// A row that can be compared. The amount is in minor units.
type Transfer = (RequestKey, MovementKind, UserId, u64, Timestamp);

/// Why a row can't be compared: the kind of difference, what was expected, and what there is.
struct Unusable(&'static str, String, String);

/// Reads a file of transfers of these kinds into `database`: a row that can't be compared is a difference. As in a spreadsheet the
/// header is row 1.
pub fn read(path: &Path, kinds: &[MovementKind], dates: &Dates, database: &Connection) -> Result<(), Failed> {
    let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_path(path).map_err(in_file(path))?;
    let header = reader.headers().map_err(in_file(path))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (found, name) in places.iter_mut().zip(COLUMNS) {
        let missing = || Failed::Refused(format!("{}: there is no column {name}", path.display()));
        *found = header.iter().position(|column| column == name).ok_or_else(missing)?;
    }
    let mut row = ByteRecord::new();
    for number in 2_u64.. {
        if !reader.read_byte_record(&mut row).map_err(in_file(path))? {
            break;
        }
        // Other bytes than UTF-8 become a character that no field may have.
        let texts: Vec<Cow<str>> = row.iter().map(String::from_utf8_lossy).collect();
        // A row of another length may have its id elsewhere.
        let is_whole = texts.len() == header.len();
        let cells = places.map(|place| texts.get(place).filter(|_| is_whole).map_or("", |text| text));
        // A journal has them too. They move money within this ledger, and no transfer is one.
        if ["reserve", "release"].contains(&cells[1]) {
            continue;
        }
        let read = if is_whole {
            transfer(cells, kinds, dates)
        } else {
            let found = format!("{} fields: {}", texts.len(), shown(&texts.join(",")));
            Err(Unusable("malformed-row", format!("{} fields, as in the header", header.len()), found))
        };
        match read {
            Ok((id, kind, user, amount, at)) => {
                let mut add = database.prepare_cached(ADD)?;
                let (id, user, at) = (id.as_str(), user.as_str(), at.to_string());
                add.execute(params![number, id, kind.name(), user, amount, cells[4], at])?;
            }
            Err(Unusable(kind, expected, found)) => {
                let id = text_of_cell(cells[0]).unwrap_or_else(|| cells[0].to_owned());
                let id = if id.is_empty() { String::new() } else { format!(", id {}", shown(&id)) };
                let mut add = database.prepare_cached(ADD_DIFFERENCE)?;
                add.execute(params![kind, format!("row {number}{id}"), expected, found, number])?;
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
    let marked = text_of_cell(id).map(|id| (id, text_of_cell(user).unwrap_or_else(|| user.to_owned())));
    let (id, user) = marked.unwrap_or_else(|| (id.to_owned(), user.to_owned()));
    let id = id.parse().map_err(|_| malformed(0, "1 to 64 of A-Z a-z 0-9 _ -"))?;
    let kind = kinds.iter().find(|one| one.name() == kind).ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        Unusable("unknown-kind", names.join(" or "), shown(kind))
    })?;
    let user = user.parse().map_err(|_| malformed(2, "a user id"))?;
    // Signs, separators and decimal points are no minor units. Nobody has more than a wallet holds.
    let most = MAX_BALANCE.minor_units();
    let units = amount.parse().ok().filter(|units: &u64| (1..=most).contains(units) && units.to_string() == amount);
    let amount = units.ok_or_else(|| malformed(3, &format!("minor units, 1 to {most}, digits only")))?;
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(malformed(4, "three capital letters"));
    }
    let at = dates.moment(time).ok_or_else(|| malformed(5, "RFC 3339, or a day such as 2026-11-23"))?;
    Ok((id, *kind, user, amount, at))
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
        let unknown = || Failed::Refused(format!("{day} in {zone} from {from} is no day of a journal"));
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
