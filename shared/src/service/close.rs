//! Closing a packet: the operator ends it before its expiry.
//!
//! The ledger comes first, then the hot store. Every loader reads the packet from the ledger first. So from then on a part is loaded
//! closed, or was loaded before and gets the flag now. A close that dies between the two is finished by settle.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::view::{PacketView, ViewPackets};
use super::{CampaignReports, Failure, SelectionTotals, Stores};
use crate::domain::{
    Intervention, OperatorReason, PacketId, PartId, Reference, Selection, Signer, Terms, Timestamp, UserId,
};
use crate::ledger::{CloseOrder, Packet};
use crate::ports::{HotStore, Loaded, Table};

/// Packets that are closed at once, of those with a reference.
const PACKETS_AT_ONCE: usize = 8;
/// Parts that are closed at once.
const PARTS_AT_ONCE: usize = 16;
/// How often a part is loaded that is lost again and again.
const TRIES: u32 = 4;

/// The operator's use case of closing a packet.
pub struct ClosePacket<T: Table, H> {
    stores: Stores<T, H>,
    closer: Closer<T, H>,
    view: ViewPackets<T, H>,
    reports: CampaignReports<T>,
    currency: String,
}

impl<T: Table, H: HotStore> ClosePacket<T, H> {
    /// Closes packets in these stores. All money is in `currency` (ISO 4217).
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        let (closer, view) = (Closer::new(stores.clone()), ViewPackets::new(stores.clone()));
        let reports = CampaignReports::new(Arc::clone(&stores.ledger));
        Self { stores, closer, view, reports, currency }
    }

    /// The currency of every packet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.stores.clock.now()
    }

    /// Closes a packet in the name of `by`, and returns it as the operator sees it; `None`: there is no such packet. A closed packet
    /// keeps its first reason. A settled one stays as it is.
    ///
    /// Once this has returned, the hot store gives out no slip of the packet any more. Slips and holds of before stay. The rest
    /// goes back with the next run of settle.
    ///
    /// # Errors
    /// A store did not answer. The packet may be closed already; the same request does the rest.
    pub async fn close(
        &self,
        id: PacketId,
        reason: OperatorReason,
        by: Option<&Signer>,
    ) -> Result<Option<PacketView>, Failure> {
        let Some(mut packet) = self.stores.ledger.packet(id).await? else { return Ok(None) };
        if packet.settled.is_none() && packet.closed.is_none() {
            let closing = Intervention { reason, at: self.stores.clock.now(), by: by.cloned() };
            crash_point!("close.before_ledger");
            if self.stores.ledger.close(&packet.terms, &closing).await? {
                tracing::info!(packet_id = %id, "a packet was closed");
            }
            crash_point!("close.after_ledger");
            let found = self.stores.ledger.packet(id).await?;
            packet = found.ok_or_else(|| Failure::defect(format!("{id}: it existed a moment ago")))?;
        }
        // Also of a settled one: settle goes on without a hot store that does not answer.
        if packet.closed.is_some() {
            self.closer.close_all(&packet.terms).await?;
            crash_point!("close.after_parts");
        }
        self.stores.packets.remember(packet);
        self.view.any_packet(id).await
    }
}

impl<T: Table, H: HotStore> ClosePacket<T, H> {
    /// Closes all packets of `sender` with `reference` that are open or scheduled, the oldest first, and returns what became of the money of
    /// all that have it.
    ///
    /// # Errors
    /// A store did not answer. Some packets may be closed already; settle closes the others, or the same request does.
    pub async fn close_all(
        &self,
        sender: &UserId,
        reference: &Reference,
        reason: OperatorReason,
        by: Option<&Signer>,
    ) -> Result<SelectionTotals, Failure> {
        let intervention = Intervention { reason, at: self.now(), by: by.cloned() };
        let order = CloseOrder { sender: sender.clone(), reference: reference.clone(), intervention };
        let packets = self.stores.ledger.packets_to_close(&order, self.now()).await?;
        let is_new = packets.iter().any(|packet| packet.closed.is_none());
        if is_new {
            self.stores.ledger.order_close(&order).await?;
        }
        let close = |packet: Packet| self.close(packet.terms.id, order.intervention.reason.clone(), by);
        stream::iter(packets).map(close).buffer_unordered(PACKETS_AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
        if is_new {
            self.stores.ledger.carried_out(&order).await?;
        }
        let of = Selection { sender: sender.clone(), reference: Some(reference.clone()), limit_key: None };
        self.reports.totals(&of).await
    }
}

/// Tells the hot store that a packet is closed.
pub(super) struct Closer<T, H> {
    stores: Stores<T, H>,
}

impl<T: Table, H: HotStore> Closer<T, H> {
    /// Tells the hot store of `stores`.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self { stores }
    }

    /// Closes all parts of a packet that is closed in the ledger.
    async fn close_all(&self, terms: &Terms) -> Result<(), Failure> {
        stream::iter(terms.id.parts())
            .map(|part| self.close_part(part, terms))
            .buffer_unordered(PARTS_AT_ONCE)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    /// Closes a part of a packet that is closed in the ledger. A part that is not loaded is loaded as closed, so that a loader that
    /// stalled since before the close finds it there. An expired part is not loaded again, by anybody.
    pub async fn close_part(&self, part: PartId, terms: &Terms) -> Result<(), Failure> {
        for _ in 0..TRIES {
            crash_point!("close.before_part");
            if self.stores.hot.close(part).await? {
                return Ok(());
            }
            let decisions = self.stores.ledger.decisions(terms.id, part.slips(terms.count)).await?;
            crash_point!("close.before_load");
            // Somebody may load the part first, as open. So it is closed once more.
            if self.stores.hot.load(part, terms, true, &decisions).await? == Loaded::Expired {
                return Ok(());
            }
        }
        Err(Failure::unavailable("the hot store loses a part again and again"))
    }
}

#[cfg(test)]
mod tests;
