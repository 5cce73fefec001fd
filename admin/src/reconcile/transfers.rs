//! The file of transfers: CSV with a header, one transfer a row.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use jiff::civil::Date;
use shared::domain::{DayZone, MovementKind, RequestKey, Timestamp, UserId};

use crate::deployment::{Failed, in_file};
use crate::journal::{Summary, unmarked};

/// The columns, in any order. Others are left out.
const COLUMNS: [&str; 6] = ["id", "kind", "user", "amount", "currency", "time"];

/// Characters of a text that a report shows.
const SHOWN_MAX: usize = 100;

/// A row that is a transfer.
#[derive(Debug)]
pub struct Transfer {
    pub id: RequestKey,
    pub kind: MovementKind,
    pub user: UserId,
    /// Minor units.
    pub amount: u64,
    pub currency: String,
    /// Milliseconds since the epoch.
    pub at: u64,
}

/// A row that is no transfer to compare.
#[derive(Debug)]
pub enum Unusable {
    /// It can't be parsed.
    Malformed {
        /// What was expected.
        expected: String,
        /// What there is instead.
        found: String,
    },
    /// It is of a kind that is not compared.
    Kind(String),
}

/// Reads a file of transfers of these kinds, row by row, each with its number and its id. As in a spreadsheet the header is row 1.
pub fn each(
    path: &Path,
    kinds: &[MovementKind],
    dates: &Dates,
    mut take: impl FnMut(u64, &str, Result<Transfer, Unusable>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let unreadable = |error: csv::Error| in_file(path)(error.into());
    let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_path(path).map_err(unreadable)?;
    let header = reader.headers().map_err(unreadable)?.clone();
    let place = |name: &str| {
        let missing = || Failed::Unverifiable(format!("{}: there is no column {name}", path.display()));
        header.iter().position(|column| column == name).ok_or_else(missing)
    };
    let mut places = [0; COLUMNS.len()];
    for (found, name) in places.iter_mut().zip(COLUMNS) {
        *found = place(name)?;
    }
    let mut row = StringRecord::new();
    for number in 2.. {
        let read = match reader.read_record(&mut row) {
            Ok(false) => return Ok(()),
            Ok(true) if row.len() == header.len() => transfer(&row, places, kinds, dates),
            Ok(true) => {
                let found = shown(&row.iter().collect::<Vec<_>>().join(","));
                let found = format!("{} fields: {found}", row.len());
                Err(Unusable::Malformed { expected: format!("{} fields, as in the header", header.len()), found })
            }
            Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
                row.clear();
                Err(Unusable::Malformed { expected: "a text in UTF-8".to_owned(), found: "other bytes".to_owned() })
            }
            Err(error) => return Err(unreadable(error)),
        };
        let id = if row.len() == header.len() { row.get(places[0]).unwrap_or_default() } else { "" };
        let id = unmarked(id).unwrap_or(id);
        take(number, id, read)?;
    }
    Ok(())
}

/// A text of the file as a report shows it: on one line, and not too long.
pub fn shown(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).take(SHOWN_MAX).collect()
}

fn transfer(
    row: &StringRecord,
    places: [usize; COLUMNS.len()],
    kinds: &[MovementKind],
    dates: &Dates,
) -> Result<Transfer, Unusable> {
    let [id, kind, user, amount, currency, time] = places.map(|place| row.get(place).unwrap_or_default());
    // No id begins with an apostrophe, but a user's may. So the id tells whether both are marked, as in the journal's CSV.
    let (id, user) = unmarked(id).map_or((id, user), |id| (id, unmarked(user).unwrap_or(user)));
    let malformed = |name: &str, expected: &str| {
        let value = COLUMNS.iter().zip(places).find(|(column, _)| **column == name).and_then(|(_, at)| row.get(at));
        let found = format!("{name}: {}", shown(value.unwrap_or_default()));
        Unusable::Malformed { expected: format!("{name}: {expected}"), found }
    };
    let named = kinds.iter().find(|one| one.name() == kind);
    let is_currency = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    Ok(Transfer {
        id: id.parse().map_err(|_| malformed("id", "1 to 64 of A-Z a-z 0-9 _ -"))?,
        kind: *named.ok_or_else(|| Unusable::Kind(shown(kind)))?,
        user: user.parse().map_err(|_| malformed("user", "a user id"))?,
        // Signs, separators and decimal points are no minor units.
        amount: match amount.parse::<u64>() {
            Ok(units) if units > 0 && units.to_string() == amount => units,
            _ => return Err(malformed("amount", "minor units, 1 or more, digits only")),
        },
        currency: if is_currency {
            currency.to_owned()
        } else {
            return Err(malformed("currency", "three capital letters"));
        },
        at: dates.moment(time).ok_or_else(|| malformed("time", "RFC 3339, or a day such as 2026-11-23"))?,
    })
}

/// What a date without a time means.
pub struct Dates {
    pub zone: DayZone,
    /// The journal's day, and its first moment, in milliseconds since the epoch.
    pub day: Date,
    pub start: u64,
}

impl Dates {
    /// Those of the journal with this summary.
    pub fn of(summary: &Summary) -> Result<Self, Failed> {
        let Summary { day, zone, .. } = summary;
        let unknown = || Failed::Unverifiable(format!("{day} in {zone} is no day of a journal"));
        let (zone, day) = zone.parse().ok().zip(day.parse().ok()).ok_or_else(unknown)?;
        Ok(Self { zone, day, start: summary.span()?.start })
    }

    /// Milliseconds since the epoch of a time in RFC 3339, or of the start of a day.
    pub fn moment(&self, text: &str) -> Option<u64> {
        if let Ok(at) = text.parse::<Timestamp>() {
            return Some(at.ms());
        }
        // The journal of a day may begin elsewhere than the day.
        let date = text.parse().ok()?;
        if date == self.day { Some(self.start) } else { Some(self.zone.day(date)?.start.ms()) }
    }
}
