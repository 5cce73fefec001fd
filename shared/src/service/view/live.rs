use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::evidence::{Decisions, Evidence, PacketSnapshot, Report, has_forgotten, needs_amounts};
use crate::batching::{Cache, FreshSingleFlight, cache};
use crate::domain::{AckMode, Amounts, PacketId, PartId, Terms};
use crate::ports::{HotStore, HotStoreError, Table, ViewResult};
use crate::service::{Failure, Stores};

/// How long a process believes the hot store before it compares a packet with the ledger again. A claim that the hot store lost
/// in a rollback may be missing for that long.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The time after which a hot store that did not answer is asked again. Meanwhile the ledger answers.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Parts of one packet that are read at once.
const PARTS_AT_ONCE: usize = 16;
/// A settled packet with more slips than this is neither cached with its claims nor read as a whole: its item has the sums.
const KEPT_SLIPS_MAX: u32 = 2_000;
/// The bytes of the cache of packets that change, and of the cache of packets that do not change any more.
const BYTES_MAX: u64 = 16 << 20;
/// The bytes of a packet of some 100 slips.
const PACKET_BYTES: u64 = 16 << 10;

/// What a process has seen of a packet with undecided slips.
#[derive(Debug, Default)]
struct Seen {
    /// Decisions that were read from the ledger.
    decisions: Decisions,
    reports: Vec<Report>,
    /// When all decisions were read last. It is also `None` after the hot store contradicted them.
    checked: Option<Instant>,
}

/// Packet snapshots from the hot store while a packet changes, for any number of readers.
///
/// A snapshot of a packet that changes is never older than the request for it: readers receive the result of a read that began
/// after they asked.
pub struct Live<T, H> {
    stores: Stores<T, H>,
    flights: FreshSingleFlight<PacketId, Result<Arc<PacketSnapshot>, Failure>>,
    seen: Cache<PacketId, Arc<Seen>>,
    decided: Cache<PacketId, Arc<PacketSnapshot>>,
    /// The time since when the hot store does not answer.
    mute_since: Mutex<Option<Instant>>,
}

impl<T: Table, H: HotStore> Live<T, H> {
    /// Reads from these stores. Nothing is cached yet.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self {
            stores,
            flights: FreshSingleFlight::default(),
            seen: cache(BYTES_MAX, PACKET_BYTES, seen_bytes),
            decided: cache(BYTES_MAX, PACKET_BYTES, decided_bytes),
            mute_since: Mutex::default(),
        }
    }

    /// The stores that it reads from.
    pub const fn stores(&self) -> &Stores<T, H> {
        &self.stores
    }

    /// A snapshot of the packet with these terms.
    pub async fn snapshot(self: &Arc<Self>, terms: &Arc<Terms>) -> Result<Arc<PacketSnapshot>, Failure> {
        if let Some(snapshot) = self.decided.get(&terms.id) {
            return Ok(snapshot);
        }
        let (this, of) = (Arc::clone(self), Arc::clone(terms));
        let read = move || async move { this.read(&of).await };
        self.flights.run(terms.id, read).await.unwrap_or_else(|| Err(Failure::defect("reading a packet was lost")))
    }

    async fn read(&self, terms: &Terms) -> Result<Arc<PacketSnapshot>, Failure> {
        // A request may have joined this read before an earlier one saw the end.
        if let Some(snapshot) = self.decided.get(&terms.id) {
            return Ok(snapshot);
        }
        // This comes before all reads, so that a packet shown as over was read after its end.
        let is_past = self.stores.clock.now() >= terms.expires_at;
        let seen = self.seen.get(&terms.id).unwrap_or_default();
        let reports = self.reports(terms, &seen).await;
        let amounts = self.amounts(terms, &reports, &seen.decisions).await?;
        let mut evidence = Evidence::new(terms, &reports, amounts, seen.decisions.clone());
        let is_fresh = |at: &Instant| at.elapsed() < CHECK_INTERVAL && !has_forgotten(&seen.reports, &reports);
        let mut checked = seen.checked.filter(is_fresh);

        if checked.is_some() {
            let doubtful = evidence.doubtful();
            evidence.add(self.stores.ledger.decisions(terms.id, doubtful).await?);
        }
        if checked.is_none() || evidence.needs_ledger(is_past) {
            if is_past && let Some(snapshot) = self.settled_and_large(terms).await? {
                return Ok(snapshot);
            }
            evidence.add(self.stores.ledger.decisions(terms.id, 0..terms.count).await?);
            checked = evidence.go_by_ledger().then(Instant::now);
            if checked.is_none() {
                tracing::error!(packet = %terms.id, "the hot store reports a claim that the ledger does not have");
            }
        }

        let (snapshot, decisions) = evidence.snapshot(is_past);
        let snapshot = Arc::new(snapshot);
        if snapshot.is_decided {
            self.seen.remove(&terms.id);
            self.decided.insert(terms.id, Arc::clone(&snapshot));
        } else {
            self.seen.insert(terms.id, Arc::new(Seen { decisions, reports, checked }));
        }
        Ok(snapshot)
    }

    /// The report of each part. All are `None` if the hot store does not answer.
    async fn reports(&self, terms: &Terms, seen: &Seen) -> Vec<Report> {
        let none = vec![None; terms.id.part_count() as usize];
        let mute_since = *crate::lock(&self.mute_since);
        // Only the hot store knows the promises that were made on its word, so such a packet is always asked for.
        if terms.ack == AckMode::Ledger && mute_since.is_some_and(|since| since.elapsed() < RETRY_INTERVAL) {
            return none;
        }
        let views = stream::iter(terms.id.parts().enumerate()).map(|(place, part)| {
            let before = seen.reports.get(place).cloned().flatten();
            async move {
                let version = before.as_ref().map(|before| &*before.version);
                Ok(match self.stores.hot.view(part, version).await? {
                    ViewResult::NotLoaded => None,
                    ViewResult::Unchanged => before,
                    ViewResult::Changed(view) => Some(Arc::new(view)),
                })
            }
        });
        let reports: Result<Vec<_>, HotStoreError> = views.buffered(PARTS_AT_ONCE).try_collect().await;
        let is_mute = matches!(reports, Err(HotStoreError::Unavailable(_)));
        *crate::lock(&self.mute_since) = is_mute.then(Instant::now);
        reports.unwrap_or_else(|error| {
            let error = crate::error_chain(&error);
            tracing::warn!(packet = %terms.id, error, "the ledger answers in place of the hot store");
            none
        })
    }

    /// The recorded amounts that confirm what the parts report.
    async fn amounts(
        &self,
        terms: &Terms,
        reports: &[Report],
        known: &Decisions,
    ) -> Result<BTreeMap<PartId, Arc<Amounts>>, Failure> {
        let mut amounts = BTreeMap::new();
        for (part, report) in terms.id.parts().zip(reports) {
            if report.as_ref().is_some_and(|view| needs_amounts(terms, part, view, known)) {
                amounts.insert(part, self.stores.packets.amounts(part).await?);
            }
        }
        Ok(amounts)
    }

    /// A packet whose decisions are too many to be read for its sums, if its own item has these.
    async fn settled_and_large(&self, terms: &Terms) -> Result<Option<Arc<PacketSnapshot>>, Failure> {
        if terms.count <= KEPT_SLIPS_MAX {
            return Ok(None);
        }
        let packet = self.stores.ledger.packet(terms.id).await?;
        let Some(summary) = packet.and_then(|packet| packet.settled) else { return Ok(None) };
        let snapshot = Arc::new(PacketSnapshot { claims: None, summary, is_decided: true, is_past: true });
        self.decided.insert(terms.id, Arc::clone(&snapshot));
        Ok(Some(snapshot))
    }
}

fn seen_bytes(seen: &Arc<Seen>) -> usize {
    let reports = seen.reports.iter().flatten().map(|view| view.claims.len() + view.holds.len());
    bytes(seen.decisions.len() + reports.sum::<usize>())
}

fn decided_bytes(snapshot: &Arc<PacketSnapshot>) -> usize {
    bytes(snapshot.claims.as_ref().map_or(0, Vec::len))
}

/// About the bytes that so many decisions or claims take.
const fn bytes(rows: usize) -> usize {
    512 + rows * 128
}
