//! The journal of a day: every movement as an entry of double-entry bookkeeping, with what the accounts held before and
//! after the day.
//!
//! A movement belongs to the day of its own time, which users and the operator's API see too. The time of a claim is that
//! of its grab. So a claim that is persisted after midnight changes the day before. Movements are never changed or deleted:
//! once no hold of a day is left, its journal is the same whenever it is written.
//!
//! Days are those of the deployment's zone. If that was changed, the first day after it overlaps the day before or leaves a gap. So a
//! journal begins where the one before it ended: no movement is in two of them, and none is left out.

mod book;
mod export;
mod sums;
mod tally;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::audit::Only;
use futures::TryStreamExt;
use jiff::civil::Date;
use serde_json::json;
use shared::domain::{DayZone, Timestamp};
use shared::ports::{Clock, System};

pub use book::{LINES, Summary, WITHDRAWALS, read_summary};
pub use sums::{KINDS, Movements, Sum};

use self::book::{Balance, Read, State};
use self::export::Export;
use self::sums::Classes;
use self::tally::{BEFORE, EVER, Problems, Span, Tally, UNTIL_END, WITHIN};
use crate::deployment::{Failed, SEGMENTS, Table};
use crate::options::{Deployment, Journal};
use crate::text::{columns, fields, table};
use crate::{Exit, Outcome};

/// How long after its end a day counts as over. Until then settle persists the day's last holds. `DynamoDB` brings the changes
/// of a transaction to an export one after the other.
const SETTLING: Duration = Duration::from_mins(10);
/// For how long before a reading the state can still differ from the movements.
const MOVING: Duration = Duration::from_mins(1);

/// What has to be equal before the day and in it: a name, movements, and the items that repeat them.
const COPIES: [(&str, &str, &str); 7] = [
    ("packets sent", "sent", "packet"),
    ("slips claimed", "claim", "slip of a user"),
    ("slips refunded", "refunded slip", "slip of nobody"),
    ("deposits in timelines", "deposit", "DEPOSIT"),
    ("refunds in timelines", "refund", "REFUND"),
    ("returns in timelines", "return", "RETURN"),
    ("withdrawals in timelines", "withdrawal that was made", "WITHDRAW"),
];

/// The time of a day's journal that follows `previous`.
fn span(zone: &DayZone, date: Date, previous: Option<Span>) -> Result<Span, Failed> {
    let day = zone.day(date).ok_or_else(|| Failed::Refused(format!("{date} is no day of this ledger")))?;
    let start = previous.map_or(day.start.ms(), |previous| previous.end);
    // A zone far to the east of the one before may have a day that ended before its journal begins. That one is empty.
    Ok(Span { start, end: day.end.ms().max(start) })
}

/// Writes the journal of a day.
pub async fn run(deployment: &Deployment, options: &Journal, json: bool) -> Result<Outcome, Failed> {
    let previous = options.previous.as_deref().map(read_summary).transpose()?;
    if let Some(previous) = &previous {
        is_of_the_day_before(previous, options)?;
    }
    let day = span(&options.day_zone, options.day, previous.as_ref().map(Summary::span).transpose()?)?;
    let path = options.output.clone().unwrap_or_else(|| PathBuf::from(format!("journal-{}", options.day)));
    let export = options.export.as_deref().map(Export::open).transpose()?;
    let at = export.as_ref().map_or_else(|| System.now(), |export| export.at);
    let over = Timestamp::from_ms(day.end).after(SETTLING);
    if at < over && !options.unfinished {
        return Err(Failed::Refused(format!("{} is not over before {over}; the data is of {at}", options.day)));
    }
    // The books of a day are not overwritten.
    if path.exists() {
        return Err(Failed::Refused(format!("{} exists already", path.display())));
    }
    let mut tally = Tally::new(day, &options.currency)?;
    let source = if let Some(export) = export {
        export.read(&mut tally)?;
        export.arn
    } else {
        read_table(Table::of(deployment).await?, &mut tally).await?
    };
    let read = Read { source, at: at.to_string(), items: tally.items };
    let is_moving = tally.newest > at.before(MOVING).ms();
    let mut summary = summary(options, day, read, at >= over, is_moving, &mut tally)?;
    if let Some(previous) = previous {
        follows(&mut summary, &previous);
    }
    book::write(&path, &tally.movements, &summary)?;
    let exit = match (summary.problems.problem_count, summary.is_final) {
        (0, _) => Exit::Good,
        (_, true) => Exit::Wrong,
        // While the day goes on, its sums may just have moved.
        (_, false) => Exit::Unfinished,
    };
    Ok(Outcome::new(json, &summary, || in_words(&summary, &path), exit))
}

/// Reads all items of the table, and returns its name.
async fn read_table(table: Table, tally: &mut Tally) -> Result<String, Failed> {
    table.announce();
    let source = table.source();
    let mut pages = source.all(SEGMENTS.into(), Only::Whole);
    while let Some(items) = pages.try_next().await.map_err(|error| Failed::from(error).in_table(&table.place))? {
        items.iter().try_for_each(|item| tally.enter(item))?;
    }
    Ok(table.name)
}

/// Adds up a tally, and names what contradicts itself.
fn summary(
    options: &Journal,
    span: Span,
    read: Read,
    is_final: bool,
    is_moving: bool,
    tally: &mut Tally,
) -> Result<Summary, Failed> {
    let mut problems = std::mem::take(&mut tally.problems);
    for (when, name) in [(BEFORE, "before the day"), (WITHIN, "in the day")] {
        for (what, movements, copies) in COPIES {
            let (movements, copies) = (tally.of(when.clone(), movements), tally.of(when.clone(), copies));
            if movements != copies {
                problems.add("copies", &format!("{what} {name}"), &copies, &movements);
            }
        }
    }
    let [opening, closing] = [BEFORE, UNTIL_END].map(|when| Balance::of(tally.movements(when)));
    for (when, Balance { accounts, .. }) in [("opening", &opening), ("closing", &closing)] {
        for (class, balance) in
            [("wallets", accounts.wallets), ("pending", accounts.pending), ("packets", accounts.packets)]
        {
            if balance < 0 {
                problems.add("negative", &format!("{class} at {when}"), &"0 or more", &balance);
            }
        }
    }
    Ok(Summary {
        day: options.day.to_string(),
        zone: options.day_zone.to_string(),
        from: Timestamp::from_ms(span.start).to_string(),
        to: Timestamp::from_ms(span.end).to_string(),
        currency: options.currency.clone(),
        is_final,
        read,
        opening,
        entries: tally.movements(WITHIN),
        closing,
        withdrawals: tally.withdrawals()?,
        state: state(tally, is_moving, &mut problems),
        problems,
    })
}

/// Compares the wallets, and the undecided slips, with all movements.
fn state(tally: &Tally, is_moving: bool, problems: &mut Problems) -> State {
    let movements = Classes::of(&tally.movements(EVER));
    let [packets, claimed, refunded] =
        ["packet", "slip of a user", "slip of nobody"].map(|what| tally.of(EVER, what).amount);
    let (wallets, pending, packets) = (tally.wallets, tally.pending, packets - claimed - refunded);
    let is_equal = (wallets, pending, packets) == (movements.wallets, movements.pending, movements.packets);
    let verdict = if is_equal {
        "equal"
    } else if is_moving {
        "moving"
    } else {
        "differs"
    };
    if verdict == "differs" {
        for (what, found, expected) in [
            ("wallets", wallets, movements.wallets),
            ("pending", pending, movements.pending),
            ("packets", packets, movements.packets),
        ] {
            if found != expected {
                problems.add("state", &what, &expected, &found);
            }
        }
    }
    State { verdict: verdict.to_owned(), wallets, pending, packets, movements }
}

/// Refuses a journal that can't be the one before: of another day, or of another currency.
fn is_of_the_day_before(previous: &Summary, options: &Journal) -> Result<(), Failed> {
    let Summary { day, currency, .. } = previous;
    let next = day.parse::<Date>().and_then(Date::tomorrow).ok();
    if next == Some(options.day) && *currency == options.currency {
        return Ok(());
    }
    let wanted = format!("of the day before {} in {}", options.day, options.currency);
    Err(Failed::Refused(format!("--previous is the journal of {day} in {currency}, not {wanted}")))
}

/// Checks that a day begins as the day before ended.
fn follows(summary: &mut Summary, previous: &Summary) {
    for kind in KINDS {
        let [expected, found] = [&previous.closing, &summary.opening].map(|balance| balance.movements.of(kind));
        if expected != found {
            summary.problems.add("previous", &format!("{kind} before the day"), &expected, &found);
        }
    }
}

fn in_words(summary: &Summary, path: &Path) -> String {
    let Summary { opening, entries, closing, problems, .. } = summary;
    let sums = KINDS.map(|kind| {
        let sums = [&opening.movements, entries, &closing.movements].map(|movements| movements.of(kind).to_string());
        [vec![kind.to_owned()], sums.to_vec()].concat()
    });
    let balances =
        json!({"opening": opening.accounts, "closing": closing.accounts, "problem_count": problems.problem_count});
    let mut paragraphs = vec![
        fields(summary, "day final from to zone currency read state"),
        columns(&["", "opening", "entries", "closing"], sums),
        fields(&balances, "opening closing problem_count"),
    ];
    if problems.problem_count > 0 {
        paragraphs.push(table(&problems.problems, "kind subject expected found"));
    }
    paragraphs.push(format!("written to {}", path.display()));
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
