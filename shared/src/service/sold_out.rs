use std::time::Duration;

use tokio::time::timeout;

use crate::domain::{PartId, Timestamp};
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// How long the last winner waits for the note. Else settle writes it.
const NOTE_MAX: Duration = Duration::from_millis(200);

/// Notes once in the ledger that a packet is sold out, when the hot store knows its last decision. The table's stream makes an event of it.
///
/// No claim writes an item that others write too, so none knows by itself that it is the last. What is not noted at once, settle notes after
/// the expiry.
pub struct SoldOutNotes<T, H>(Stores<T, H>);

impl<T: Table, H: HotStore> SoldOutNotes<T, H> {
    /// Notes packets of these stores.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self(stores)
    }

    /// A grab made a part final, by a slip that was grabbed at `last`. Whatever becomes of the note, the winners have their slips.
    pub async fn note_soon(&self, part: PartId, last: Timestamp) {
        match timeout(NOTE_MAX, self.note(part, Some(last))).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "settle will note whether it is sold out");
            }
            Err(_) => tracing::warn!(%part, "settle will note whether it is sold out: there was no time"),
        }
    }

    /// Notes that the packet of a part that became final is sold out, if it is. Without the time of its last grab, the ledger tells it.
    pub async fn note(&self, part: PartId, last: Option<Timestamp>) -> Result<(), Failure> {
        let Stores { ledger, hot, packets, clock, .. } = &self.0;
        let Some(terms) = packets.terms(part.packet).await? else { return Ok(()) };
        if clock.now() >= terms.expires_at {
            return Ok(());
        }
        // The last part that becomes final finds all others so.
        for other in part.packet.parts().filter(|other| *other != part) {
            let slips = other.slips(terms.count).len();
            let known = hot.part_state(other).await?.map(|state| state.known_places().take(slips).count());
            if known != Some(slips) {
                return Ok(());
            }
        }
        let last = match last {
            Some(last) => Some(last),
            None => ledger.decisions(terms.id, 0..terms.count).await?.iter().map(|decision| decision.at).max(),
        };
        // This is read last. After a close or the expiry a final part may have slips that went back.
        let Some(packet) = ledger.packet(terms.id).await? else { return Ok(()) };
        let is_over = packet.closed.is_some() || packet.settled.is_some() || clock.now() >= terms.expires_at;
        match last {
            Some(last) if !is_over => Ok(ledger.note_sold_out(&terms, last).await?),
            _ => Ok(()),
        }
    }
}
