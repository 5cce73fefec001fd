use std::ops::Range;
use std::sync::Arc;

use futures::future::try_join_all;

use super::Failure;
use crate::batching::{Cache, SingleFlight, cache};
use crate::domain::{Amount, Amounts, PacketId, PartId, Terms};
use crate::ledger::{Ledger, Packet};
use crate::ports::Table;

/// The terms and amounts of packets, which never change. They are read from the ledger, and cached in the process within a bound
/// of bytes.
pub struct Packets<T> {
    ledger: Arc<Ledger<T>>,
    terms: Arc<Cache<PacketId, Arc<Terms>>>,
    amounts: Arc<Cache<PartId, Arc<Amounts>>>,
    terms_reads: SingleFlight<PacketId, Result<Option<Arc<Terms>>, Failure>>,
    amounts_reads: SingleFlight<PartId, Result<Arc<Amounts>, Failure>>,
}

const TERMS_BYTES_MAX: u64 = 4 << 20;
const AMOUNTS_BYTES_MAX: u64 = 8 << 20;
/// About the bytes of the terms of a packet without recipients, and of the amounts of one with 100 slips.
const TERMS_BYTES: u64 = 512;
const AMOUNTS_BYTES: u64 = 256;

impl<T: Table> Packets<T> {
    /// The packets of `ledger`. Nothing is cached yet.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self {
            ledger,
            terms: Arc::new(cache(TERMS_BYTES_MAX, TERMS_BYTES, terms_bytes)),
            amounts: Arc::new(cache(AMOUNTS_BYTES_MAX, AMOUNTS_BYTES, |amounts| amounts.as_bytes().len() + 64)),
            terms_reads: SingleFlight::default(),
            amounts_reads: SingleFlight::default(),
        }
    }

    /// A packet's terms; `None` if there is no such packet.
    pub async fn terms(&self, id: PacketId) -> Result<Option<Arc<Terms>>, Failure> {
        match self.terms.get(&id) {
            Some(terms) => Ok(Some(terms)),
            // The future of the read is boxed, because it is large and every grab would carry it.
            None => Box::pin(self.read_terms(id)).await,
        }
    }

    /// Caches the terms of a packet that the caller has read by itself.
    pub fn remember(&self, packet: Packet) {
        self.terms.insert(packet.terms.id, Arc::new(packet.terms));
    }

    async fn read_terms(&self, id: PacketId) -> Result<Option<Arc<Terms>>, Failure> {
        let (ledger, cache) = (Arc::clone(&self.ledger), Arc::clone(&self.terms));
        let read = move || async move {
            // The caller may have missed a read that ended after it looked in the cache.
            if let Some(terms) = cache.get(&id) {
                return Ok(Some(terms));
            }
            let Some(packet) = ledger.packet(id).await? else { return Ok(None) };
            let terms = Arc::new(packet.terms);
            cache.insert(id, Arc::clone(&terms));
            Ok(Some(terms))
        };
        match self.terms_reads.run(id, read).await.unwrap_or_else(|| Err(panicked()))? {
            Some(terms) => Ok(Some(terms)),
            // The read that this call has joined may have begun before the packet was there.
            None => Ok(self.ledger.packet(id).await?.map(|packet| Arc::new(packet.terms))),
        }
    }

    /// What is in a slip of `part`, as the ledger recorded it; `None` if the part has no such slip.
    pub async fn amount(&self, part: PartId, terms: &Terms, slip: u32) -> Result<Option<Amount>, Failure> {
        let slips = part.slips(terms.count);
        if !slips.contains(&slip) {
            return Ok(None);
        }
        Ok(self.amounts(part).await?.get((slip - slips.start) as usize))
    }

    /// The amounts of a part that exists.
    pub async fn amounts(&self, part: PartId) -> Result<Arc<Amounts>, Failure> {
        match self.amounts.get(&part) {
            Some(amounts) => Ok(amounts),
            None => Box::pin(self.read_amounts(part)).await,
        }
    }

    /// The amounts of all parts.
    pub async fn all_amounts(&self, terms: &Terms) -> Result<PacketAmounts, Failure> {
        let read = async |part: PartId| Ok::<_, Failure>((part.slips(terms.count), self.amounts(part).await?));
        Ok(PacketAmounts(try_join_all(terms.id.parts().map(read)).await?))
    }

    async fn read_amounts(&self, part: PartId) -> Result<Arc<Amounts>, Failure> {
        let (ledger, cache) = (Arc::clone(&self.ledger), Arc::clone(&self.amounts));
        let read = move || async move {
            // The caller may have missed a read, as with the terms.
            if let Some(amounts) = cache.get(&part) {
                return Ok(amounts);
            }
            let amounts = Arc::new(ledger.amounts(part).await?);
            cache.insert(part, Arc::clone(&amounts));
            Ok(amounts)
        };
        self.amounts_reads.run(part, read).await.unwrap_or_else(|| Err(panicked()))
    }
}

/// What is in the slips of a packet, unless it is empty.
#[derive(Default)]
pub struct PacketAmounts(Vec<(Range<u32>, Arc<Amounts>)>);

impl PacketAmounts {
    /// What is in a slip, if it exists.
    pub fn get(&self, slip: u32) -> Option<Amount> {
        let (slips, amounts) = self.0.iter().find(|(slips, _)| slips.contains(&slip))?;
        amounts.get((slip - slips.start) as usize)
    }
}

fn panicked() -> Failure {
    Failure::defect("reading the ledger panicked")
}

fn terms_bytes(terms: &Arc<Terms>) -> usize {
    let recipients = terms.guard.recipients.iter().flatten();
    512 + recipients.map(|user| user.as_str().len() + 32).sum::<usize>() + terms.labels.bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::{Guard, UserId};
    use crate::ledger::keys;
    use crate::memory::MemoryTable;
    use crate::ports::System;

    /// A ledger with a packet.
    async fn ledger() -> (Arc<Ledger<MemoryTable>>, Terms) {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let terms = Terms::sample();
        ledger.send_funded(&terms).await;
        (ledger, terms)
    }

    #[tokio::test]
    async fn a_packet_that_a_caller_has_read_is_not_read_again() {
        let (ledger, terms) = ledger().await;
        let packets = Packets::new(Arc::clone(&ledger));
        packets.remember(ledger.packet(terms.id).await.unwrap().unwrap());
        ledger.table().remove(&keys::packet(terms.id));
        assert!(packets.terms(terms.id).await.unwrap().is_some());
    }

    #[test]
    fn terms_weigh_what_they_take_in_memory() {
        let plain = Terms::sample();
        let invited: BTreeSet<UserId> = (10..20).map(|n| format!("user-{n}").parse().unwrap()).collect();
        let guard = Guard { recipients: Some(invited), ..Guard::default() };
        let (alone, guarded) = (plain.labels.bytes() + 512, Terms { guard, ..plain.clone() });
        assert_eq!(terms_bytes(&Arc::new(plain)), alone);
        assert_eq!(terms_bytes(&Arc::new(guarded)), alone + 10 * (7 + 32));
    }

    #[tokio::test]
    async fn a_caller_that_just_missed_a_read_does_not_read_again() {
        let (ledger, terms) = ledger().await;
        let (id, packets) = (terms.id, Packets::new(Arc::clone(&ledger)));
        let part = PartId { packet: id, index: 0 };
        for is_in_the_ledger in [true, false] {
            // This begins after the look into the cache.
            assert!(packets.read_terms(id).await.unwrap().is_some(), "in the ledger: {is_in_the_ledger}");
            assert_eq!(packets.read_amounts(part).await.unwrap().get(0), Some(Amount::new(333)));
            ledger.table().remove(&keys::packet(id));
            ledger.table().remove(&keys::amounts(part));
        }
    }
}
