//! What waits for settle.

use futures::future::try_join_all;
use serde::Serialize;
use shared::domain::{PARTITIONS, PacketId, Partition, Timestamp};
use shared::ledger::{LedgerError, due_shard};

use crate::deployment::{Deployed, Failed};
use crate::parked::all_held;
use crate::text::fields;
use crate::{Exit, Outcome};

/// Entries of the index in one page, and pages of a shard that are counted: as many packets as a run of settle deals with.
const PAGE: u32 = 1_000;
const PAGES_MAX: usize = 10;
/// Closed packets that are read, and so many at once.
const CLOSED_MAX: usize = 1_000;
const PACKETS_PER_READ: usize = 100;

/// How much waits, and since when in seconds; `null`: nothing does.
#[derive(Debug, Serialize)]
struct Backlog {
    /// Holds that settle has not persisted yet, those that are parked too.
    holds: usize,
    oldest_hold_s: Option<u64>,
    /// Packets that are closed or expired, and not settled, and since when: of the closed ones, that of the first 1,000.
    due: usize,
    oldest_due_s: Option<u64>,
    /// The oldest pending withdrawal.
    oldest_pending_s: Option<u64>,
}

/// Counts what waits.
pub async fn run(deployed: &Deployed, json: bool) -> Result<Outcome, Failed> {
    let stores = &deployed.stores;
    let held = all_held(deployed).await?;
    let now = stores.clock.now();
    let shards = 0..=due_shard(Partition::wrapping(PARTITIONS - 1));
    let of_shard = async |shard| {
        let (mut all, mut last) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = stores.ledger.due(shard, now, last, PAGE).await?;
            last = page.last().copied();
            all.extend(page);
            if last.is_none() {
                break;
            }
        }
        Ok::<_, LedgerError>(all)
    };
    let due = try_join_all(shards.map(of_shard)).await?.concat();
    let mut over: Vec<Timestamp> = due.iter().filter_map(|due| due.expired_at).collect();
    // The index does not say when a packet was closed.
    let closed: Vec<PacketId> = due.iter().filter(|due| due.expired_at.is_none()).map(|due| due.id).collect();
    for ids in closed[..closed.len().min(CLOSED_MAX)].chunks(PACKETS_PER_READ) {
        let packets = stores.ledger.packets(ids).await?;
        let left = packets.into_iter().filter(|packet| packet.settled.is_none());
        over.extend(left.filter_map(|packet| packet.closed).map(|closed| closed.at));
    }
    let age = |since: Option<Timestamp>| since.map(|since| now.since(since).as_secs());
    let backlog = Backlog {
        holds: held.len(),
        oldest_hold_s: age(held.iter().map(|(_, entry)| entry.hold.at).min()),
        due: due.len(),
        oldest_due_s: age(over.iter().min().copied()),
        oldest_pending_s: age(stores.ledger.oldest_pending().await?),
    };
    let text = || fields(&backlog, "holds oldest_hold_s due oldest_due_s oldest_pending_s");
    Ok(Outcome::new(json, &backlog, text, Exit::Good))
}
