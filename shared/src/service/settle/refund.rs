//! Refunds of expired and of closed packets. Packets of one part come first. Larger ones follow in portions, so that no packet keeps others
//! waiting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Run, Settle, Tally};
use crate::domain::{
    AckMode, Amount, Decision, Hold, Owner, PacketId, PartId, Partition, Summary, Terms, Timestamp, UserId,
};
use crate::ledger::{Due, REFUND_SLIPS_MAX, RefundOutcome, due_shard};
use crate::lock;
use crate::ports::{HotStore, HotStoreError, Table};
use crate::service::Failure;

/// Large packets (of more than one part) that get a portion at once, while a due shard may still have packets of one part.
const LARGE_BESIDE_SMALL: usize = 1;
/// The same, once no packet of one part is left.
const LARGE_AT_ONCE: usize = 4;
/// Due packets in one page of the index.
const DUE_PAGE: u32 = 100;
/// The most due packets of a shard that a run deals with: more than it can settle.
const DUE_MAX: usize = 10_000;

/// A due packet that is not settled yet, and how far this run has come with it.
struct Unsettled {
    id: PacketId,
    /// Whether its item was read in this run.
    is_begun: bool,
    /// Who sent it, once that was read.
    sender: Option<UserId>,
    /// Whether it lets others go first, if a store did not answer for another packet of its sender.
    gives_way: bool,
    /// Whether winners are answered on the hot store's word. Then nothing is refunded before the hot store knows of a close and was
    /// drained; else that only spares winners a race with the refund.
    has_promises: bool,
    /// Indexes of the parts of a closed packet that are still to be closed, before they are drained.
    to_close: Range<u32>,
    /// Indexes of the parts that still have to be drained, before anything is refunded.
    to_drain: Range<u32>,
    /// Indexes of the parts whose undecided slips still have to be refunded.
    to_refund: Range<u32>,
    /// Slips of parked holds, which must not be refunded.
    withheld: BTreeSet<u32>,
    /// The decisions of a packet of one part, if they were read and nothing was left to refund.
    decisions: Option<BTreeMap<u32, Decision>>,
    tally: Tally,
}

impl Unsettled {
    fn new(due: Due) -> Self {
        let Due { id, expired_at } = due;
        let tally = Tally { due_left: 1, oldest_expiry: expired_at, ..Tally::default() };
        let (to_close, to_drain, to_refund, withheld) = (0..0, 0..0, 0..id.part_count(), BTreeSet::new());
        Self {
            id,
            is_begun: false,
            sender: None,
            gives_way: false,
            has_promises: false,
            to_close,
            to_drain,
            to_refund,
            withheld,
            decisions: None,
            tally,
        }
    }

    /// It is settled, so nothing of it is left.
    fn settled(&mut self) {
        (self.tally.due_left, self.tally.oldest_expiry) = (0, None);
    }
}

/// Whether a packet has another portion in this run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Portion {
    Last,
    More,
    /// It has had none, and lets others go first.
    Later,
}

impl<T: Table, H: HotStore> Settle<T, H> {
    /// Settles the due packets of a run, all due shards at once. A packet of one part (up to 1,000 slips) waits only for others of
    /// its kind and shard. Large ones get portions beside them, each one of its parts at a time.
    pub(super) async fn refund_due(&self, run: &Run) -> Result<Tally, Failure> {
        let shards = due_shard(Partition::wrapping(*run.partitions.start()))
            ..=due_shard(Partition::wrapping(*run.partitions.end()));
        // It holds at most as many ids as the shards' lists may have.
        let (large, found) = unbounded_channel();
        let walk = async move {
            let shards = shards.map(async |shard| {
                let small = self.find_due(shard, run, &large).await?;
                Ok::<_, Failure>(self.refund_small(small, run).await)
            });
            join_all(shards).await
        };
        let (tallies, mut all) = tokio::join!(walk, self.refund_large(found, run));
        for tally in tallies {
            all += tally?;
        }
        Ok(all)
    }

    /// The due packets of one part in a due shard: closed ones first, then expired ones, the earliest first. Hands over the large ones. It
    /// reads the index to its end before anything is refunded, so that small packets keep no large one waiting.
    async fn find_due(&self, shard: u32, run: &Run, large: &UnboundedSender<Due>) -> Result<Vec<Due>, Failure> {
        let (mut small, mut found, mut last) = (Vec::new(), 0, None);
        while found < DUE_MAX {
            let page = self.stores.ledger.due(shard, run.until, last, DUE_PAGE).await?;
            let Some(&end) = page.last() else { break };
            last = Some(end);
            for due in page.iter().filter(|due| run.partitions.contains(&due.id.partition().index())) {
                found += 1;
                if due.id.part_count() == 1 || large.send(*due).is_err() {
                    small.push(*due);
                }
            }
        }
        Ok(small)
    }

    /// Settles packets of one part, one after another. A packet that fails does not stop the next; those of the same sender come
    /// last, because each may take as long as the one that failed. Past the deadline the others are only counted.
    async fn refund_small(&self, packets: Vec<Due>, run: &Run) -> Tally {
        let (mut all, mut last) = (Tally::default(), Vec::new());
        for due in packets {
            let mut packet = Unsettled { gives_way: true, ..Unsettled::new(due) };
            match self.portions(&mut packet, run).await {
                Portion::Later => last.push(due),
                Portion::Last | Portion::More => all += packet.tally,
            }
        }
        for due in last {
            let mut packet = Unsettled::new(due);
            self.portions(&mut packet, run).await;
            all += packet.tally;
        }
        all
    }

    /// Goes on with a packet to its end in this run.
    async fn portions(&self, packet: &mut Unsettled, run: &Run) -> Portion {
        loop {
            match self.portion(packet, run).await {
                Portion::More => {}
                end => return end,
            }
        }
    }

    /// Settles the large packets that are `found`. After a portion, a packet waits until all others have had one.
    async fn refund_large(&self, mut found: UnboundedReceiver<Due>, run: &Run) -> Tally {
        let (mut waiting, mut portions, mut at_once) = (VecDeque::new(), FuturesUnordered::new(), LARGE_BESIDE_SMALL);
        let mut all = Tally::default();
        loop {
            while portions.len() < at_once
                && let Some(mut packet) = waiting.pop_front()
            {
                portions.push(async move {
                    let portion = self.portion(&mut packet, run).await;
                    (portion, packet)
                });
            }
            tokio::select! {
                // The simulation needs the same order every time.
                biased;
                Some((portion, packet)) = portions.next() => match portion {
                    Portion::Last | Portion::Later => all += packet.tally,
                    Portion::More => waiting.push_back(packet),
                },
                due = found.recv(), if at_once == LARGE_BESIDE_SMALL => match due {
                    Some(due) => waiting.push_back(Unsettled::new(due)),
                    None => at_once = LARGE_AT_ONCE,
                },
                else => return all,
            }
        }
    }

    /// Goes on with a packet, until something of a part was persisted or refunded, or until the end. A packet that fails has no
    /// other portion in this run.
    async fn portion(&self, packet: &mut Unsettled, run: &Run) -> Portion {
        match self.try_portion(packet, run).await {
            Ok(portion) => portion,
            Err(failure) => {
                tracing::error!(packet = %packet.id, error = crate::error_chain(&failure), "not settled");
                if let (Failure::Unavailable(_), Some(sender)) = (failure, packet.sender.take()) {
                    lock(&run.troubled).insert(sender);
                }
                Portion::Last
            }
        }
    }

    /// Parts with nothing to do make no portion. Else a run with many packets could spend its time on parts that earlier runs have
    /// refunded, and come no further than they did.
    async fn try_portion(&self, packet: &mut Unsettled, run: &Run) -> Result<Portion, Failure> {
        let id = packet.id;
        let mut has_written = false;
        while !has_written {
            if run.is_over() {
                return Ok(Portion::Last);
            }
            if !packet.is_begun
                && let Some(end) = self.begin(packet, run).await?
            {
                return Ok(end);
            }
            let terms = self.stores.packets.terms(id).await?;
            let terms = terms.ok_or_else(|| Failure::defect(format!("{id}: it existed a moment ago")))?;
            if let Some(index) = packet.to_close.next() {
                self.close(packet, &terms, PartId { packet: id, index }).await?;
            } else if let Some(index) = packet.to_drain.next() {
                has_written = self.drain(packet, PartId { packet: id, index }, run).await?;
            } else if let Some(index) = packet.to_refund.next() {
                crash_point!("refund.after_drain");
                has_written = self.refund_part(packet, &terms, PartId { packet: id, index }, run).await?;
            } else {
                self.end(packet, &terms).await?;
                return Ok(Portion::Last);
            }
        }
        Ok(Portion::More)
    }

    /// Reads a packet. Returns what it has instead of a portion, if it is not to be settled now.
    async fn begin(&self, packet: &mut Unsettled, run: &Run) -> Result<Option<Portion>, Failure> {
        let id = packet.id;
        let found = self.stores.ledger.packet(id).await?;
        let found = found.ok_or_else(|| Failure::defect(format!("{id}: due, but it does not exist")))?;
        if found.settled.is_some() {
            // The index is a little behind.
            packet.settled();
            return Ok(Some(Portion::Last));
        }
        match &found.closed {
            Some(closing) => {
                packet.tally.oldest_expiry = Some(closing.at.before(self.grace));
                packet.to_close = 0..id.part_count();
            }
            None if found.terms.expires_at > run.until => {
                return Err(Failure::defect(format!("{id}: due before its time")));
            }
            None => {}
        }
        if packet.gives_way && lock(&run.troubled).contains(&found.terms.sender) {
            return Ok(Some(Portion::Later));
        }
        packet.sender = Some(found.terms.sender.clone());
        packet.has_promises = found.terms.ack == AckMode::Redis;
        if packet.has_promises || found.closed.is_some() {
            packet.to_drain = 0..id.part_count();
        }
        self.stores.packets.remember(found);
        packet.is_begun = true;
        Ok(None)
    }

    /// Tells the hot store that a packet is closed: from then on a part gives out no slip. Without promises the refund goes on even
    /// if the hot store does not answer, because the ledger decides each slip.
    async fn close(&self, packet: &mut Unsettled, terms: &Terms, part: PartId) -> Result<(), Failure> {
        crash_point!("refund.before_close");
        match self.closer.close_part(part, terms).await {
            Err(failure) if !packet.has_promises => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "refunded without telling the hot store");
                (packet.to_close, packet.to_drain) = (0..0, 0..0);
                Ok(())
            }
            told => told,
        }
    }

    /// Persists what the hot store holds of a part, however young it is: after the expiry or the close nobody gets a hold any more.
    /// Notes the slips of parked holds that are promises. Returns whether it persisted something.
    async fn drain(&self, packet: &mut Unsettled, part: PartId, run: &Run) -> Result<bool, Failure> {
        let drained = match self.outboxes.drain(part, Duration::ZERO, run.deadline).await {
            Err(failure) if !packet.has_promises => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "refunded without draining");
                return Ok(false);
            }
            drained => drained?,
        };
        if packet.has_promises {
            if drained.waiting() > 0 {
                return Err(Failure::unavailable("slips of a packet that is over are still to be persisted"));
            }
            packet.withheld.extend(drained.parked);
        }
        Ok(drained.tally.persisted > 0)
    }

    /// Refunds what nobody grabbed of a part, as far as there is time. Returns whether there was something.
    async fn refund_part(
        &self,
        packet: &mut Unsettled,
        terms: &Terms,
        part: PartId,
        run: &Run,
    ) -> Result<bool, Failure> {
        let slips = part.slips(terms.count);
        let mut decisions = self.decisions(terms, slips.clone()).await?;
        let free: Vec<u32> =
            slips.filter(|slip| !decisions.contains_key(slip) && !packet.withheld.contains(slip)).collect();
        for chunk in free.chunks(REFUND_SLIPS_MAX) {
            if run.is_over() {
                break;
            }
            self.refund_chunk(terms, chunk, run.now, &mut decisions, &mut packet.tally).await?;
        }
        if free.is_empty() && terms.id.part_count() == 1 {
            packet.decisions = Some(decisions);
        }
        Ok(!free.is_empty())
    }

    /// Settles a packet if every slip has a decision. Only a read proves that; a count does not.
    async fn end(&self, packet: &mut Unsettled, terms: &Terms) -> Result<(), Failure> {
        let decisions = match packet.decisions.take() {
            Some(decisions) => decisions,
            None => self.decisions(terms, 0..terms.count).await?,
        };
        if decisions.len() == terms.count as usize {
            let decisions: Vec<Decision> = decisions.into_values().collect();
            self.make_up_sold_out(terms, &decisions).await?;
            crash_point!("mark_settled.before");
            self.stores.ledger.mark_settled(terms, &Summary::of(&decisions), self.stores.clock.now()).await?;
            crash_point!("mark_settled.after");
            packet.settled();
            self.reconcile(terms, &decisions).await;
            crash_point!("mark_settled.after_reconcile");
        }
        Ok(())
    }

    /// Notes that a packet is sold out, if no process did when it was.
    async fn make_up_sold_out(&self, terms: &Terms, decisions: &[Decision]) -> Result<(), Failure> {
        let is_sold_out = decisions.iter().all(|decision| decision.owner != Owner::Refunded);
        if let Some(last) = decisions.iter().map(|decision| decision.at).max().filter(|_| is_sold_out)
            && !self.stores.ledger.is_noted_sold_out(terms.id).await?
        {
            self.stores.ledger.note_sold_out(terms, last).await?;
        }
        Ok(())
    }

    /// The decisions of some slips of a packet, by slip.
    async fn decisions(&self, terms: &Terms, slips: Range<u32>) -> Result<BTreeMap<u32, Decision>, Failure> {
        let decisions = self.stores.ledger.decisions(terms.id, slips).await?;
        Ok(decisions.into_iter().map(|decision| (decision.slip, decision)).collect())
    }

    /// Refunds the slips of a chunk that have no decision, as of `at`. A slip that turns out to have one is taken out, and the
    /// rest is tried again.
    async fn refund_chunk(
        &self,
        terms: &Terms,
        chunk: &[u32],
        at: Timestamp,
        decisions: &mut BTreeMap<u32, Decision>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let mut slips: Vec<(u32, Amount)> = Vec::with_capacity(chunk.len());
        for &slip in chunk {
            let amount = match PartId::of_slip(terms.id, terms.count, slip) {
                Some(part) => self.stores.packets.amount(part, terms, slip).await?,
                None => None,
            };
            slips.push((slip, amount.ok_or_else(|| Failure::defect(format!("{}: no slip {slip}", terms.id)))?));
        }
        while !slips.is_empty() {
            crash_point!("refund.before_chunk");
            let outcome = self.stores.ledger.refund(terms, &slips, at).await?;
            crash_point!("refund.after_chunk");
            let seen = match outcome {
                RefundOutcome::Refunded(refunded) => {
                    tally.refunded_packets = 1;
                    tally.refunded_slips += refunded.len() as u64;
                    tally.refunded_amount +=
                        refunded.iter().map(|decision| decision.amount).sum::<Amount>().minor_units();
                    slips.clear();
                    refunded
                }
                RefundOutcome::AlreadyDecided(seen) => {
                    slips.retain(|(slip, _)| seen.iter().all(|decision| decision.slip != *slip));
                    seen
                }
            };
            decisions.extend(seen.into_iter().map(|decision| (decision.slip, decision)));
        }
        Ok(())
    }

    /// Applies the decisions of a settled part. Whatever is still held there gives way to them.
    async fn reconcile_part(&self, part: PartId, terms: &Terms, decisions: &[Decision]) -> Result<(), HotStoreError> {
        let holds: Vec<Hold> = self.stores.hot.outbox(part).await?.into_iter().map(|entry| entry.hold).collect();
        self.stores.hot.reconcile(part, terms.count, decisions, &holds).await.map(drop)
    }

    /// Applies the decisions of a settled packet to the hot store, which then answers without the ledger. If the hot store cannot
    /// be reached, grabs are answered from the ledger.
    async fn reconcile(&self, terms: &Terms, decisions: &[Decision]) {
        for part in terms.id.parts() {
            let slips = part.slips(terms.count);
            let decisions: Vec<Decision> =
                decisions.iter().filter(|decision| slips.contains(&decision.slip)).cloned().collect();
            if let Err(error) = self.reconcile_part(part, terms, &decisions).await {
                tracing::warn!(%part, error = crate::error_chain(&error), "a settled packet was not reconciled");
                return;
            }
            crash_point!("mark_settled.after_reconcile_part");
        }
    }
}
