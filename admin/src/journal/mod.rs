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
mod item;
mod sums;
mod tally;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::audit::{Reader, Segment};
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::civil::Date;
use shared::domain::{DayZone, Timestamp};
use shared::ports::{Clock, System};

pub use book::{LINES, Summary, Verdict, read_summary, unmarked};
pub use sums::{KINDS, Movements, Sum};
pub use tally::{Problem, Problems};

use self::book::{Balance, Book, Read, State};
use self::export::Export;
use self::item::{ATTRIBUTES, exported};
use self::sums::Classes;
use self::tally::{Span, Tally, When};
use crate::deployment::{Failed, Table};
use crate::options::{Deployment, Journal};
use crate::text::columns;
use crate::{Exit, Outcome};

/// How long after its end a day counts as over. Until then settle persists the day's last holds. `DynamoDB` brings the changes
/// of a transaction to an export one after the other.
const SETTLING: Duration = Duration::from_mins(10);
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
    let mut tally = Tally::new(day, &options.currency)?;
    let source = if let Some(export) = export {
        export.read(&mut tally)?;
        export.arn
    } else {
        let source = Table::of(deployment).await;
        source.announce();
        let reader = Reader::new(source.client, source.name.clone());
        let read = read_table(&reader, options.segments, &mut tally).await;
        read.map_err(|failed| failed.in_table(&source.place))?;
        source.name
    };
    if let Some(other) = tally.only_other_currency() {
        let currency = &options.currency;
        return Err(Failed::Unverifiable(format!("the packets are in {other}, not in {currency}: --currency {other}")));
    }
    let read = Read { source, at: at.to_string(), items: tally.items };
    let is_moving = tally.newest > at.before(MOVING).ms();
    let mut summary = summary(options, day, read, is_final, is_moving, &mut tally);
    if let Some(previous) = previous {
        follows(&mut summary, &previous);
    }
    book.write_entries(&tally.movements, &options.currency)?;
    book.close(&summary)?;
    let exit = match (summary.problems.problem_count, is_final) {
        (0, _) => Exit::Good,
        (_, true) => Exit::Wrong,
        // While the day goes on, its sums may just have moved.
        (_, false) => Exit::Unfinished,
    };
    Ok(Outcome::new(json, &summary, || in_words(&summary, &path), exit))
}

/// Reads all items of the table, `segments` pages at once.
async fn read_table(reader: &Reader, segments: u32, tally: &mut Tally) -> Result<(), Failed> {
    let of = i32::try_from(segments).unwrap_or(i32::MAX);
    let pages = |index| {
        let segment = Segment { index, of };
        // `Some` while there is a page after this key.
        stream::try_unfold(Some(None), move |place| async move {
            let Some(last) = place else { return Ok(None) };
            let page = reader.scan_items(segment, &ATTRIBUTES, last.as_ref()).await?;
            Ok(Some((page.items, page.next.map(Some))))
        })
    };
    let mut pages = stream::iter(0..of).map(|index| Box::pin(pages(index))).flatten_unordered(segments as usize);
    while let Some(items) = pages.try_next().await.map_err(Failed::Journal)? {
        items.into_iter().try_for_each(|item| tally.enter(&exported(item)))?;
    }
    Ok(())
}

/// Adds up a tally, and names what contradicts itself.
fn summary(options: &Journal, span: Span, read: Read, is_final: bool, is_moving: bool, tally: &mut Tally) -> Summary {
    let mut problems = std::mem::take(&mut tally.problems);
    for (when, name) in [(When::Before, "before the day"), (When::Within, "in the day")] {
        for (what, movements, copies) in tally.differences(when) {
            problems.add("copies", &format!("{what} {name}"), &copies, &movements);
        }
    }
    let opening = Balance::of(tally.movements(&[When::Before]));
    let closing = Balance::of(tally.movements(&[When::Before, When::Within]));
    for (when, Balance { accounts, .. }) in [("opening", &opening), ("closing", &closing)] {
        for (class, balance) in [("wallets", accounts.wallets), ("packets", accounts.packets)] {
            if balance < 0 {
                problems.add("negative", &format!("{class} at {when}"), &"0 or more", &balance);
            }
        }
    }
    Summary {
        day: options.day.to_string(),
        zone: options.day_zone.to_string(),
        from: Timestamp::from_ms(span.start).to_string(),
        to: Timestamp::from_ms(span.end).to_string(),
        currency: options.currency.clone(),
        is_final,
        read,
        opening,
        entries: tally.movements(&[When::Within]),
        closing,
        state: state(tally, is_moving, &mut problems),
        problems,
    }
}

/// Compares the wallets, and the undecided slips, with all movements.
fn state(tally: &Tally, is_moving: bool, problems: &mut Problems) -> State {
    let movements = Classes::of(&tally.movements(&When::ALL));
    let (wallets, packets, mut verdict) = (tally.wallets, tally.undecided(), Verdict::Equal);
    for (what, found, expected) in [("wallets", wallets, movements.wallets), ("packets", packets, movements.packets)] {
        if found == expected {
            continue;
        }
        verdict = if is_moving { Verdict::Moving } else { Verdict::Differs };
        if !is_moving {
            problems.add("state", &what, &expected, &found);
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
    for kind in KINDS {
        let [expected, found] = [&previous.closing, &summary.opening].map(|balance| balance.movements.of(kind));
        if expected != found {
            summary.problems.add("previous", &format!("{kind} before the day"), &expected, &found);
        }
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
        let sum = entries.of(kind);
        let alone = Movements::new(|one| if one == kind { sum } else { Sum::default() });
        let mut row = balance(kind, Classes::of(&alone));
        row[1] = sum.count.to_string();
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
            let Problem { kind, subject, expected, found } = problem;
            format!("{kind}  {subject}\n  expected  {expected}\n  found     {found}")
        }));
    }
    paragraphs.push(format!("written to {}", path.display()));
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests;
