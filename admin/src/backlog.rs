//! What waits for settle.

use futures::future::try_join_all;
use serde::Serialize;
use shared::domain::{PARTITIONS, PacketId, Partition, Timestamp};
use shared::ledger::due_shard;

use crate::deployment::{Deployed, Failed};
use crate::parked::all_held;
use crate::text::fields;
use crate::{Exit, Outcome};

/// Due packets of a shard that are counted, and packets that are read at once.
const DUE_MAX: u32 = 1_000;
const PACKETS_PER_READ: usize = 100;

/// How much waits, and since when in seconds; `null`: nothing does.
#[derive(Debug, Serialize)]
struct Backlog {
    /// Holds that settle has not persisted yet, those that are parked too.
    holds: usize,
    oldest_hold_s: Option<u64>,
    /// Packets that are closed or expired, and not settled. At most 1,000 of each of the 16 shards are counted.
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
    let due = try_join_all(shards.map(|shard| stores.ledger.due(shard, now, None, DUE_MAX))).await?.concat();
    let mut over: Vec<Timestamp> = due.iter().filter_map(|due| due.expired_at).collect();
    // The index does not say when a packet was closed.
    let closed: Vec<PacketId> = due.iter().filter(|due| due.expired_at.is_none()).map(|due| due.id).collect();
    for ids in closed.chunks(PACKETS_PER_READ) {
        let packets = stores.ledger.packets(ids).await?;
        let left = packets.into_iter().filter(|packet| packet.settled.is_none());
        over.extend(left.filter_map(|packet| packet.closed).map(|closed| closed.at));
    }
    let age = |since: Option<Timestamp>| since.map(|since| now.since(since).as_secs());
    let backlog = Backlog {
        holds: held.len(),
        oldest_hold_s: age(held.iter().map(|(_, entry)| entry.hold.at).min()),
        due: over.len(),
        oldest_due_s: age(over.iter().min().copied()),
        oldest_pending_s: age(stores.ledger.oldest_pending().await?),
    };
    let text = || fields(&backlog, "holds oldest_hold_s due oldest_due_s oldest_pending_s");
    Ok(Outcome::new(json, &backlog, text, Exit::Good))
}
