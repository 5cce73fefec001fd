use std::time::Duration;

use tokio::time::timeout;

use crate::domain::{PartId, Timestamp};
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// How long the last winner waits for the note. Settle makes it up.
const NOTE_MAX: Duration = Duration::from_secs(1);

/// Notes once in the ledger that a packet is sold out, when the hot store knows its last decision. The table's stream makes an event of it.
///
/// No claim writes an item that others write too, so none knows by itself that it is the last. What is not noted at once, settle notes after
/// the expiry.
pub struct SoldOut<T, H>(Stores<T, H>);

impl<T: Table, H: HotStore> SoldOut<T, H> {
    /// Notes packets of these stores.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self(stores)
    }

    /// A part became final, by a slip that was grabbed at `last`. Whatever becomes of the note, the winners have their slips.
    pub async fn part_is_final(&self, part: PartId, last: Timestamp) {
        match timeout(NOTE_MAX, self.note(part, last)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "settle will note whether it is sold out");
            }
            Err(_) => tracing::warn!(%part, "settle will note whether it is sold out: there was no time"),
        }
    }

    async fn note(&self, part: PartId, last: Timestamp) -> Result<(), Failure> {
        let Stores { ledger, hot, clock, .. } = &self.0;
        let Some(packet) = ledger.packet(part.packet).await? else { return Ok(()) };
        let terms = &packet.terms;
        // From then on a final part may have slips that went back.
        let is_over = packet.closed.is_some() || packet.settled.is_some() || clock.now() >= terms.expires_at;
        if is_over {
            return Ok(());
        }
        // The last part that becomes final finds all others so.
        for other in part.packet.parts().filter(|other| *other != part) {
            let slips = other.slips(terms.count).len();
            let known = hot.report(other).await?.map(|report| report.known_places().take(slips).count());
            if known != Some(slips) {
                return Ok(());
            }
        }
        Ok(ledger.note_sold_out(terms, last).await?)
    }
}
