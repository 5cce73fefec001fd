use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Failure;
use super::stores::Stores;
use crate::batching::SingleFlight;
use crate::domain::{Decision, Hold, PartId, Terms};
use crate::ports::{HotStore, Loaded, Table};

/// The load lease: how long a process may load a part before another one takes over. A load is a read of the ledger and a script.
/// Two loads at once do no harm. A process that died delays everybody until its lease is over.
const LEASE: Duration = Duration::from_millis(500);
/// How long other processes wait before they ask again.
const PAUSE: Duration = Duration::from_millis(20);
/// Parts of one packet that are loaded at once after a send.
const PARTS_AT_ONCE: usize = 16;

/// Loads parts from the ledger into the hot store.
pub struct Loader<T, H> {
    stores: Stores<T, H>,
    flights: SingleFlight<PartId, Result<Ensured, Failure>>,
    repairs: SingleFlight<PartId, Result<(), Failure>>,
}

/// What a part that was not loaded, or not whole, turned out to be.
#[derive(Clone, Debug)]
pub enum Ensured {
    /// It may be loaded now, or another process loads it: ask again.
    AskAgain,
    /// It is expired, and not loaded again: the ledger answers for it.
    Expired(Arc<Terms>),
    /// There is no such packet.
    NotFound,
}

impl<T: Table, H: HotStore> Loader<T, H> {
    /// A loader from the ledger into the hot store of `stores`.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self { stores, flights: SingleFlight::default(), repairs: SingleFlight::default() }
    }

    /// Loads a part that the hot store does not have, or of which it has lost a key. One caller of all processes loads it, while the others
    /// wait.
    pub async fn ensure(self: &Arc<Self>, part: PartId) -> Result<Ensured, Failure> {
        let this = Arc::clone(self);
        let work = move || async move { this.ensure_alone(part).await };
        let ensured = self.flights.run(part, work).await;
        match ensured.unwrap_or_else(|| Err(Failure::defect("loading a part panicked")))? {
            // The load that this call has joined may have looked before the packet was there.
            Ensured::NotFound if self.stores.ledger.packet(part.packet).await?.is_some() => Ok(Ensured::AskAgain),
            ensured => Ok(ensured),
        }
    }

    async fn ensure_alone(&self, part: PartId) -> Result<Ensured, Failure> {
        let Some(terms) = self.stores.packets.terms(part.packet).await? else { return Ok(Ensured::NotFound) };
        if self.stores.clock.now() >= terms.expires_at {
            return Ok(Ensured::Expired(terms));
        }
        // This process's clock may be slow. The state of a loaded part has the hot store's time, and to read it needs no lease.
        if self.stores.hot.part_state(part).await?.is_some_and(|state| state.now >= terms.expires_at) {
            return Ok(Ensured::Expired(terms));
        }
        crash_point!("load.before_lease");
        if !self.stores.hot.acquire_load_lease(part, LEASE).await? {
            tokio::time::sleep(self.stores.entropy.jitter(PAUSE)).await;
            return Ok(Ensured::AskAgain);
        }
        crash_point!("load.after_lease");
        let loaded = self.load(part, &terms).await;
        crash_point!("load.after_load");
        // The lease ends by itself. If it can't be released, others wait a moment longer, but this grab still has its answer.
        if let Err(error) = self.stores.hot.release_load_lease(part).await {
            tracing::warn!(%part, error = crate::error_chain(&error), "the lease of a load was left to run out");
        }
        crash_point!("load.after_release");
        Ok(match loaded? {
            Loaded::Yes => Ensured::AskAgain,
            Loaded::Expired => Ensured::Expired(terms),
        })
    }

    async fn load(&self, part: PartId, terms: &Terms) -> Result<Loaded, Failure> {
        // Read now, never from a cache: a close that is not seen here finds the part loaded, or loads it closed before this load can.
        let packet = self.stores.ledger.packet(terms.id).await?;
        let is_closed = packet.is_some_and(|packet| packet.closed.is_some());
        let decisions = self.stores.ledger.decisions(terms.id, part.slips(terms.count)).await?;
        crash_point!("load.after_decisions");
        Ok(self.stores.hot.load(part, terms, is_closed, &decisions).await?)
    }

    /// Loads all parts of a packet that was just sent and thus has no decisions.
    pub async fn load_new(&self, terms: &Terms) -> Result<(), Failure> {
        stream::iter(terms.id.parts())
            .map(|part| async move { self.stores.hot.load(part, terms, false, &[]).await })
            .buffer_unordered(PARTS_AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        Ok(())
    }

    /// Repairs a part: applies all of its slip decisions, and the close if there was one, after a claim found a decision that the part did
    /// not know. That is a sign of a rollback. One read costs less than a failed transaction for each such slip, and serves all who find one at that time.
    ///
    /// `met` are the decisions that were found, and `resolved` is the hold of that claim.
    pub async fn repair(
        self: &Arc<Self>,
        part: PartId,
        terms: &Arc<Terms>,
        met: &[Decision],
        resolved: Hold,
    ) -> Result<(), Failure> {
        // The read that this call joins may have begun before the decisions in `met` were written.
        crash_point!("repair.before_reconcile");
        self.stores.hot.reconcile(part, terms.count, met, &[resolved]).await?;
        crash_point!("repair.after_reconcile");
        let (this, terms) = (Arc::clone(self), Arc::clone(terms));
        let work = move || async move { this.repair_alone(part, &terms).await };
        self.repairs.run(part, work).await.unwrap_or_else(|| Err(Failure::defect("repairing a part panicked")))
    }

    async fn repair_alone(&self, part: PartId, terms: &Terms) -> Result<(), Failure> {
        tracing::warn!(%part, "the hot store did not know of a slip's decision: repairing the part");
        self.stores.meter.repaired();
        let decisions = self.stores.ledger.decisions(terms.id, part.slips(terms.count)).await?;
        crash_point!("repair.after_decisions");
        self.stores.hot.reconcile(part, terms.count, &decisions, &[]).await?;
        let packet = self.stores.ledger.packet(terms.id).await?;
        if packet.is_some_and(|packet| packet.closed.is_some()) {
            self.stores.hot.close(part).await?;
        }
        crash_point!("repair.after_all");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
