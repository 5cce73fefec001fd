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
mod entry;
mod export;
mod fact;
mod table;
mod tally;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::audit::Reader;
use jiff::civil::Date;
use shared::domain::{DayZone, Timestamp};
use shared::ports::{Clock, System};

pub use book::{LINES, Summary, Verdict, read_summary, unmarked};
pub use entry::{KINDS, Line, Movements, Sum};
pub use tally::{Problem, Problems, Span};

use self::book::{Balance, Book, Read, State};
use self::entry::Classes;
#[cfg(test)]
use self::entry::EXTERNAL;
use self::export::Export;
use self::tally::{Period, ProblemKind, Tally};
use crate::deployment::{Failed, Table};
use crate::options::{Deployment, Journal};
use crate::sort::Sorter;
use crate::text::columns;
use crate::{Exit, Outcome};

/// How long after its end a day counts as over. Until then settle persists the day's last holds. `DynamoDB` brings the changes
/// of a transaction to an export one after the other.
const SETTLING: Duration = Duration::from_mins(10);
/// Memory for entries of a reader. An export has up to four readers.
const ENTRIES_BYTES: usize = 24 << 20;
/// For how long before a reading the state can still differ from the movements.
const MOVING: Duration = Duration::from_mins(1);

/// The time of a day's journal that follows `previous`.
fn span(zone: &DayZone, date: Date, previous: Option<Span>) -> Result<Span, Failed> {
    let day = zone.day(date).ok_or_else(|| Failed::Unverifiable(format!("{date} is no day of this ledger")))?;
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
    let is_final = at >= Timestamp::from_ms(day.end).after(SETTLING);
    if !is_final && !options.unfinished {
        let over = Timestamp::from_ms(day.end).after(SETTLING);
        let what = format!("{} is not over before {over}; the data is of {at}", options.day);
        return Err(Failed::Unverifiable(what));
    }
    let book = Book::new(&path)?;
    let tally = || Tally::new(day, &options.currency, book.draft(), ENTRIES_BYTES);
    let (tally, source) = if let Some(export) = export {
        (export.read(&tally, book.draft())?, export.arn)
    } else {
        let source = Table::of(deployment).await;
        source.announce();
        let reader = Reader::new(source.client, source.name.clone());
        let mut tally = tally();
        let read = table::read(&reader, options.segments, &mut tally, book.draft()).await;
        read.map_err(|failed| failed.in_table(&source.place))?;
        (tally, source.name)
    };
    if let Some(other) = tally.only_other_currency() {
        let currency = &options.currency;
        return Err(Failed::Unverifiable(format!("the packets are in {other}, not in {currency}: --currency {other}")));
    }
    let read = Read { source, at: at.to_string(), items: tally.items };
    let is_moving = tally.newest > at.before(MOVING).ms();
    let (entries, mut summary) = summary(options, day, read, is_final, is_moving, tally);
    if let Some(previous) = previous {
        follows(&mut summary, &previous);
    }
    if book.write_entries(entries, &options.currency)? != summary.entries {
        return Err(Failed::Unverifiable("the sorted entries differ from those that were read".to_owned()));
    }
    book.close(&summary)?;
    let exit = match (summary.problems.problem_count, is_final) {
        (0, _) => Exit::Good,
        (_, true) => Exit::Wrong,
        // While the day goes on, its sums may just have moved.
        (_, false) => Exit::Unfinished,
    };
    Ok(Outcome::new(json, &summary, || in_words(&summary, &path), exit))
}

/// Adds up a tally, and names what contradicts itself.
fn summary(
    options: &Journal,
    span: Span,
    read: Read,
    is_final: bool,
    is_moving: bool,
    tally: Tally,
) -> (Sorter, Summary) {
    let Tally { before, within, after, wallets, has_timelines, mut problems, entries, .. } = tally;
    for (when, period) in [("before the day", before), ("in the day", within)] {
        for (what, movements, copies) in period.differences(has_timelines) {
            problems.add(ProblemKind::Copies, format!("{what} {when}"), copies.to_string(), movements.to_string());
        }
    }
    let (opening, closing) = (Balance::of(before.movements), Balance::of(before.movements + within.movements));
    for (when, Balance { accounts, .. }) in [("opening", opening), ("closing", closing)] {
        for (class, balance) in [("wallets", accounts.wallets), ("packets", accounts.packets)] {
            if balance < 0 {
                problems.add(ProblemKind::Negative, format!("{class} at {when}"), "0 or more", balance.to_string());
            }
        }
    }
    let state = state(&[before, within, after], wallets, is_moving, &mut problems);
    let summary = Summary {
        day: options.day.to_string(),
        zone: options.day_zone.to_string(),
        from: Timestamp::from_ms(span.start).to_string(),
        to: Timestamp::from_ms(span.end).to_string(),
        currency: options.currency.clone(),
        is_final,
        read,
        opening,
        entries: within.movements,
        closing,
        state,
        problems,
    };
    (entries, summary)
}

/// Compares the wallets, and the undecided slips, with all movements.
fn state(periods: &[Period; 3], wallets: i128, is_moving: bool, problems: &mut Problems) -> State {
    let undecided = |period: &Period| {
        let copies = period.copies;
        copies.sent.amount - copies.claimed.amount - copies.refunded.amount
    };
    let movements = Classes::of(&periods.iter().map(|period| period.movements).sum());
    let packets = periods.iter().map(undecided).sum();
    let mut verdict = Verdict::Equal;
    for (what, found, expected) in [("wallets", wallets, movements.wallets), ("packets", packets, movements.packets)] {
        if found == expected {
            continue;
        }
        verdict = if is_moving { Verdict::Moving } else { Verdict::Differs };
        if !is_moving {
            problems.add(ProblemKind::State, what, expected.to_string(), found.to_string());
        }
    }
    State { verdict, wallets, packets, movements }
}

/// Refuses a journal that can't be the one before: of another day, or of another currency.
fn is_of_the_day_before(previous: &Summary, options: &Journal) -> Result<(), Failed> {
    let next = previous.day.parse::<Date>().and_then(Date::tomorrow);
    if next.ok() != Some(options.day) {
        let what = format!("--previous is the journal of {}, not of the day before {}", previous.day, options.day);
        return Err(Failed::Unverifiable(what));
    }
    if previous.currency != options.currency {
        let what = format!("--previous is a journal in {}, not in {}", previous.currency, options.currency);
        return Err(Failed::Unverifiable(what));
    }
    Ok(())
}

/// Checks that a day begins as the day before ended.
fn follows(summary: &mut Summary, previous: &Summary) {
    let problems = &mut summary.problems;
    let mut check = |what: &str, expected: String, found: String| {
        if expected != found {
            problems.add(ProblemKind::Previous, what, expected, found);
        }
    };
    for kind in KINDS {
        let [expected, found] = [previous.closing, summary.opening].map(|balance| balance.movements[kind].to_string());
        check(&format!("{} before the day", kind.name()), expected, found);
    }
}

/// What to say of a journal that does not begin with its day.
fn begins_elsewhere(summary: &Summary) -> Option<String> {
    let zone: DayZone = summary.zone.parse().ok()?;
    let start = zone.day(summary.day.parse().ok()?)?.start.to_string();
    (start != summary.from).then(|| {
        format!("the day began at {start}, but this journal begins where the one before it ended: the zone of days was changed")
    })
}

fn in_words(summary: &Summary, path: &Path) -> String {
    let Summary { day, zone, from, to, currency, is_final, read, opening, entries, closing, state, problems } = summary;
    let about = [
        ("day", format!("{day}, {}", if *is_final { "final" } else { "not final" })),
        ("time", format!("{from} to {to}, {zone}")),
        ("read", format!("{} items of {} at {}", read.items, read.source, read.at)),
        ("currency", currency.clone()),
    ];
    let balance = |name: &str, Classes { external, wallets, packets }: Classes| {
        [name.to_owned(), String::new(), external.to_string(), wallets.to_string(), packets.to_string()].to_vec()
    };
    let of_kind = |kind| {
        let mut alone = Movements::default();
        alone[kind] = entries[kind];
        let mut row = balance(kind.name(), Classes::of(&alone));
        row[1] = entries[kind].count.to_string();
        row
    };
    let rows = std::iter::once(balance("opening", opening.accounts))
        .chain(KINDS.map(of_kind))
        .chain([balance("closing", closing.accounts)]);
    let mut paragraphs = vec![columns(&[], about.map(|(name, value)| vec![name.to_owned(), value]))];
    paragraphs.extend(begins_elsewhere(summary));
    paragraphs.extend([
        columns(&["", "entries", "external", "wallets", "packets"], rows),
        match state.verdict {
            Verdict::Equal => "the wallets and the undecided slips equal the movements",
            Verdict::Moving => "money moved during the read, so wallets and undecided slips were not compared",
            Verdict::Differs => "the wallets or the undecided slips differ from the movements",
        }
        .to_owned(),
    ]);
    let Problems { problem_count, problems } = problems;
    if *problem_count > 0 {
        paragraphs.push(match problems.len() as u64 {
            listed if listed < *problem_count => format!("problems: {problem_count}, among them {listed}:"),
            _ => format!("problems: {problem_count}"),
        });
        paragraphs.extend(problems.iter().map(|problem| {
            let (kind, subject) = (problem.kind.name(), &problem.subject);
            format!("{kind}  {subject}\n  expected  {}\n  found     {}", problem.expected, problem.found)
        }));
    }
    paragraphs.push(format!("written to {}", path.display()));
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
