use ::audit::{Item, Name, Own, Reader, Segment};
use serde::Serialize;
use shared::domain::Timestamp;
use shared::ledger::{Ledger, keys};
use shared::ports::{Key, Table};

use crate::deployment::Failed;
use crate::options::Timeline;
use crate::{Exit, Outcome};

/// What a run found.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Deposits, refunds and withdrawals.
    movements: u64,
    /// Those that no timeline had. They are in their users' timelines now.
    entered: u64,
}

/// Puts the deposits, refunds and withdrawals that a version without timelines wrote into their users' timelines. It can be repeated.
pub async fn run<T: Table>(
    reader: &Reader,
    ledger: &Ledger<T>,
    options: &Timeline,
    json: bool,
) -> Result<Outcome, Failed> {
    let of = i32::try_from(options.segments).unwrap_or(i32::MAX);
    let segments = (0..of).map(|index| segment(reader, ledger, Segment { index, of }));
    let mut found = Found::default();
    for segment in futures::future::try_join_all(segments).await? {
        found.movements += segment.movements;
        found.entered += segment.entered;
    }
    let words = || format!("{} movements, {} of them entered in a timeline", found.movements, found.entered);
    Ok(Outcome::new(json, &found, words, Exit::Good))
}

async fn segment<T: Table>(reader: &Reader, ledger: &Ledger<T>, segment: Segment) -> Result<Found, Failed> {
    let mut found = Found::default();
    let mut last = None;
    loop {
        let page =
            reader.scan_items(segment, &[keys::PK, keys::SK, "at"], last.as_ref()).await.map_err(Failed::Timeline)?;
        let movements: Vec<(Key, Timestamp)> = page.items.iter().filter_map(movement).collect();
        let copies = movements.iter().map(|(key, at)| keys::in_timeline(key, *at)).collect();
        let there = reader.batch_get(copies).await.map_err(Failed::Timeline)?;
        found.movements += movements.len() as u64;
        for (key, at) in movements {
            if !there.contains_key(&keys::in_timeline(&key, at)) && ledger.enter_in_timeline(&key, at).await? {
                found.entered += 1;
            }
        }
        last = page.next;
        if last.is_none() {
            return Ok(found);
        }
    }
}

/// The key and the time of a movement that belongs into a timeline.
fn movement(item: &Item) -> Option<(Key, Timestamp)> {
    let text = |name: &str| item.get(name)?.as_s().ok().cloned();
    let key = Key { pk: text(keys::PK)?, sk: text(keys::SK)? };
    let Name::Of(_, Own::Deposit | Own::Refund(..) | Own::Withdrawal) = Name::of(&key)? else { return None };
    let at = item.get("at")?.as_n().ok()?.parse().ok()?;
    Some((key, Timestamp::from_ms(at)))
}
