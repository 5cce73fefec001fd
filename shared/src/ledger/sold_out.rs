//! That a packet is sold out: an item of its own, for the table's stream.

use serde::Serialize;

use super::{Ledger, LedgerError, items, keys};
use crate::domain::{Amount, PacketId, Reference, Terms, Timestamp, UserId};
use crate::ports::{Table, Write};

#[derive(Serialize)]
struct SoldOutItem<'a> {
    packet_id: PacketId,
    sender_id: &'a UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a Reference>,
    slip_count: u32,
    total_amount: Amount,
    currency: &'a str,
    sold_out_at: Timestamp,
    seconds: u64,
}

impl<T: Table> Ledger<T> {
    /// Notes that the last slip of a packet was grabbed at `at`, unless that is noted. Each of its slips must have a claim.
    pub async fn note_sold_out(&self, terms: &Terms, at: Timestamp) -> Result<(), LedgerError> {
        let began = terms.guard.starts_at.unwrap_or(terms.created_at);
        let item = items::write(&SoldOutItem {
            packet_id: terms.id,
            sender_id: &terms.sender,
            reference: terms.labels.reference.as_ref(),
            slip_count: terms.count,
            total_amount: terms.total,
            currency: &terms.currency,
            sold_out_at: at,
            // Nobody grabs in no time.
            seconds: u64::try_from(at.since(began).as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1),
        })?;
        self.commit(&[Write::PutNew { key: keys::sold_out(terms.id), item }]).await.map(drop)
    }

    /// Whether it is noted that a packet is sold out.
    pub async fn is_noted_sold_out(&self, id: PacketId) -> Result<bool, LedgerError> {
        Ok(self.table.get(keys::sold_out(id)).await?.is_some())
    }
}
