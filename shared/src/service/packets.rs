use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Failure;
use crate::batching::{Cache, SingleFlight, cache};
use crate::domain::{Amount, Amounts, PacketId, PartId, Terms, Timestamp};
use crate::ledger::{Ledger, Packet};
use crate::ports::Table;

/// The terms and amounts of packets, which never change. They are read from the ledger, and cached in the process within a bound
/// of bytes.
pub struct Packets<T> {
    ledger: Arc<Ledger<T>>,
    terms: Arc<Cache<PacketId, Arc<Terms>>>,
    amounts: Arc<Cache<PartId, Arc<Amounts>>>,
    /// Whether and when a packet was closed, and when that was read.
    closed: Arc<Cache<PacketId, (Instant, Option<Timestamp>)>>,
    terms_reads: SingleFlight<PacketId, Result<Option<Arc<Terms>>, Failure>>,
    amounts_reads: SingleFlight<PartId, Result<Arc<Amounts>, Failure>>,
}

const TERMS_BYTES_MAX: u64 = 4 << 20;
const AMOUNTS_BYTES_MAX: u64 = 8 << 20;
/// The most packets of which a process remembers whether they are closed.
const CLOSED_MAX: u64 = 10_000;
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
            closed: Arc::new(cache(CLOSED_MAX, 1, |_| 1)),
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

    /// Caches the terms of a packet that the caller has read by itself, and whether it is closed.
    pub fn remember(&self, packet: Packet) {
        self.note_closed(packet.terms.id, packet.closed.as_ref().map(|closing| closing.at));
        self.terms.insert(packet.terms.id, Arc::new(packet.terms));
    }

    /// When a packet was closed, as the caller has just read or written it; `None`: it is not closed.
    pub fn note_closed(&self, id: PacketId, closed_at: Option<Timestamp>) {
        note_closed(&self.closed, id, Instant::now(), closed_at);
    }

    /// When a packet was closed; `None`: it was not, as of a read that began at most `max_age` ago. A close is final.
    pub async fn closed(&self, id: PacketId, max_age: Duration) -> Result<Option<Timestamp>, Failure> {
        match self.closed.get(&id) {
            Some((_, Some(closed_at))) => Ok(Some(closed_at)),
            Some((read, None)) if read.elapsed() < max_age => Ok(None),
            _ => {
                let asked = Instant::now();
                let closing = self.ledger.packet(id).await?.and_then(|packet| packet.closed);
                let closed_at = closing.map(|closing| closing.at);
                note_closed(&self.closed, id, asked, closed_at);
                Ok(closed_at)
            }
        }
    }

    /// Whether this process knows that a packet is closed.
    pub fn is_known_closed(&self, id: PacketId) -> bool {
        self.closed.get(&id).is_some_and(|(_, closed_at)| closed_at.is_some())
    }

    async fn read_terms(&self, id: PacketId) -> Result<Option<Arc<Terms>>, Failure> {
        let (ledger, cache, closed) = (Arc::clone(&self.ledger), Arc::clone(&self.terms), Arc::clone(&self.closed));
        let read = move || async move {
            // The caller may have missed a read that ended after it looked in the cache.
            if let Some(terms) = cache.get(&id) {
                return Ok(Some(terms));
            }
            let asked = Instant::now();
            let Some(packet) = ledger.packet(id).await? else { return Ok(None) };
            note_closed(&closed, id, asked, packet.closed.map(|closing| closing.at));
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

/// Remembers whether a packet is closed, unless a later close is known.
fn note_closed(
    known: &Cache<PacketId, (Instant, Option<Timestamp>)>,
    id: PacketId,
    asked: Instant,
    closed_at: Option<Timestamp>,
) {
    if closed_at.is_some() || known.get(&id).is_none_or(|(_, closed_at)| closed_at.is_none()) {
        known.insert(id, (asked, closed_at));
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
    use crate::domain::{Guard, IdempotencyKey, Intervention, UserId};
    use crate::ledger::{SendOutcome, SendRequest, keys};
    use crate::memory::MemoryTable;
    use crate::ports::System;

    /// A ledger with a packet.
    async fn ledger() -> (Arc<Ledger<MemoryTable>>, Terms) {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let terms = Terms::sample();
        let amounts = [Amounts::pack(&[300, 20, 680]).unwrap()];
        let key: IdempotencyKey = "k".parse().unwrap();
        ledger.deposit(&terms.sender, &"d".parse().unwrap(), terms.total, None, terms.created_at).await.unwrap();
        let request =
            SendRequest { terms: &terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_limit: None };
        assert_eq!(ledger.send(&request).await.unwrap(), SendOutcome::Sent);
        (ledger, terms)
    }

    #[tokio::test(start_paused = true)]
    async fn that_a_packet_is_closed_is_read_again_in_time_and_stays() {
        let (ledger, terms) = ledger().await;
        let (packets, id, second) = (Packets::new(Arc::clone(&ledger)), terms.id, Duration::from_secs(1));
        packets.note_closed(id, None);
        let reason = "for a reason".parse().unwrap();
        assert!(ledger.close(&terms, &Intervention { reason, at: terms.created_at, by: None }).await.unwrap());
        tokio::time::advance(second / 2).await;
        assert_eq!(packets.closed(id, second).await.unwrap(), None, "what was noted is not old");
        assert!(!packets.is_known_closed(id));
        tokio::time::advance(second / 2).await;
        assert_eq!(packets.closed(id, second).await.unwrap(), Some(terms.created_at));
        assert!(packets.is_known_closed(id));
        packets.note_closed(id, None);
        ledger.table().remove(&keys::packet(id));
        tokio::time::advance(second).await;
        assert_eq!(packets.closed(id, second).await.unwrap(), Some(terms.created_at), "a close is final");
    }

    #[tokio::test]
    async fn a_packet_that_a_caller_has_read_is_not_read_again() {
        let (ledger, terms) = ledger().await;
        let packets = Packets::new(Arc::clone(&ledger));
        packets.remember(ledger.packet(terms.id).await.unwrap().unwrap());
        ledger.table().remove(&keys::packet(terms.id));
        assert!(packets.terms(terms.id).await.unwrap().is_some());
        assert_eq!(packets.closed(terms.id, Duration::from_mins(1)).await.unwrap(), None);
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
            assert_eq!(packets.read_amounts(part).await.unwrap().get(0), Some(Amount::new(300)));
            ledger.table().remove(&keys::packet(id));
            ledger.table().remove(&keys::amounts(part));
        }
    }
}
