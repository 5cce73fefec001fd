//! Refunds of expired and of closed packets. In each due shard, those of one part come one after another. Those of several parts get
//! portions beside them, so that no packet keeps others waiting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Run, RunReport, Settle};
use crate::domain::{
    AckMode, Amount, Decision, Hold, Owner, PacketId, PartId, Partition, Summary, Terms, Timestamp, UserId,
};
use crate::ledger::{Due, REFUND_SLIPS_MAX, RefundOutcome, due_shard};
use crate::lock;
use crate::ports::{HotStore, HotStoreError, Table};
use crate::service::Failure;

/// Packets of several parts that get a portion at once, while a due shard may still have packets of one part.
const MULTI_PART_BESIDE: usize = 1;
/// The same, once no due shard has another packet of one part.
const MULTI_PART_AT_ONCE: usize = 4;
/// Due packets in one page of the index.
const DUE_PAGE: u32 = 100;
/// The most due packets of a shard that a run deals with: more than it can settle.
const DUE_MAX: usize = 10_000;

/// Decisions of slips of a packet, by slip.
type Decisions = BTreeMap<u32, Decision>;

/// A due packet that is not settled yet, and how far this run has come with it.
struct Unsettled {
    id: PacketId,
    /// What is to be done next; `None`: its item is to be read, which says where to begin.
    step: Option<Step>,
    /// Who sent it, once that was read.
    sender: Option<UserId>,
    /// Whether it lets others go first, if a store did not answer for another packet of its sender.
    gives_way: bool,
    /// Whether winners are answered on the hot store's word. If so, nothing is refunded before the hot store knows of a close and was
    /// drained. If not, both are done too, for a closed packet, but only to spare winners a race with the refund.
    is_ack_redis: bool,
    /// Whether the operator has closed it.
    is_closed: bool,
    /// Slips of parked holds, which must not be refunded.
    withheld: BTreeSet<u32>,
    report: RunReport,
}

/// What is to be done with a due packet. Each step but the last goes through its parts, by index.
enum Step {
    /// If it is closed, it is closed in the hot store too.
    Close(u32),
    /// If it is closed, or winners are answered on the hot store's word, the hot store's holds are persisted.
    Drain(u32),
    /// Undecided slips go back.
    Refund(u32),
    /// It is settled, if every slip has a decision. They are here if it has one part of which nothing was left to refund.
    End(Option<Decisions>),
}

/// What a part had left to refund.
enum PartRefund {
    /// Nothing. These are its decisions.
    Nothing(Decisions),
    /// Slips, which went back as far as there was time.
    Slips,
}

impl Unsettled {
    /// Nothing of it is left.
    fn note_settled(&mut self) {
        (self.report.due_left, self.report.oldest_due_s) = (0, 0);
    }

    /// Goes on with this step of the next part, or with `then` after the last one.
    fn go_on(&mut self, index: u32, step: fn(u32) -> Step, then: Step) {
        self.step = Some(if index + 1 < self.id.part_count() { step(index + 1) } else { then });
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
    /// its kind and shard. Those of several parts get portions beside them, each one of its parts at a time.
    pub(super) async fn refund_due(&self, run: &Run) -> Result<RunReport, Failure> {
        let shards = due_shard(Partition::wrapping(*run.partitions.start()))
            ..=due_shard(Partition::wrapping(*run.partitions.end()));
        // It holds at most as many ids as the shards' lists may have.
        let (multi_part, found) = unbounded_channel();
        let walk = async move {
            let shards = shards.map(async |shard| {
                let single_part = self.find_due(shard, run, &multi_part).await?;
                Ok::<_, Failure>(self.refund_single_part(single_part, run).await)
            });
            join_all(shards).await
        };
        let (shards, mut all) = tokio::join!(walk, self.refund_multi_part(found, run));
        for report in shards {
            all += report?;
        }
        Ok(all)
    }

    /// The due packets of one part in a due shard: closed ones first, then expired ones, the earliest first. Hands over
    /// those of several parts. It reads the index to its end before a packet of one part is refunded, so that no such packet delays them.
    async fn find_due(&self, shard: u32, run: &Run, multi_part: &UnboundedSender<Due>) -> Result<Vec<Due>, Failure> {
        let (mut single_part, mut found, mut last) = (Vec::new(), 0, None);
        while found < DUE_MAX {
            let page = self.stores.ledger.due(shard, run.until, last, DUE_PAGE).await?;
            let Some(&end) = page.last() else { break };
            last = Some(end);
            for due in page.iter().filter(|due| run.partitions.contains(&due.id.partition().index())) {
                found += 1;
                if due.id.part_count() == 1 {
                    single_part.push(*due);
                } else {
                    // It is received: the other end waits until the last of these is gone.
                    let _ = multi_part.send(*due);
                }
            }
        }
        Ok(single_part)
    }

    /// Settles packets of one part, one after another. A packet that fails does not stop the next; those of the same sender come
    /// last, because each may take as long as the one that failed. Past the deadline the others are only counted.
    async fn refund_single_part(&self, packets: Vec<Due>, run: &Run) -> RunReport {
        let (mut all, mut last) = (RunReport::nothing(), Vec::new());
        for due in packets {
            let mut packet = Unsettled { gives_way: true, ..self.unsettled(due, run) };
            if self.portions(&mut packet, run).await {
                all += packet.report;
            } else {
                last.push(due);
            }
        }
        for due in last {
            let mut packet = self.unsettled(due, run);
            self.portions(&mut packet, run).await;
            all += packet.report;
        }
        all
    }

    /// A packet that the index shows as due.
    fn unsettled(&self, due: Due, run: &Run) -> Unsettled {
        let due_s = |expired_at: Timestamp| run.now.since(expired_at.after(self.grace)).as_secs();
        let oldest_due_s = due.expired_at.map_or(0, due_s);
        let report = RunReport { due_left: 1, oldest_due_s, ..RunReport::nothing() };
        Unsettled {
            id: due.id,
            step: None,
            sender: None,
            gives_way: false,
            is_ack_redis: false,
            is_closed: false,
            withheld: BTreeSet::new(),
            report,
        }
    }

    /// Goes on with a packet to its end in this run. Returns false if it has had no portion, and lets others go first.
    async fn portions(&self, packet: &mut Unsettled, run: &Run) -> bool {
        loop {
            match self.portion(packet, run).await {
                Portion::More => {}
                Portion::Last => return true,
                Portion::Later => return false,
            }
        }
    }

    /// Settles the packets of several parts that are `found`. After a portion, a packet waits until all others have had one.
    async fn refund_multi_part(&self, mut found: UnboundedReceiver<Due>, run: &Run) -> RunReport {
        let (mut waiting, mut portions, mut at_once) = (VecDeque::new(), FuturesUnordered::new(), MULTI_PART_BESIDE);
        let mut all = RunReport::nothing();
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
                    Portion::Last | Portion::Later => all += packet.report,
                    Portion::More => waiting.push_back(packet),
                },
                due = found.recv(), if at_once == MULTI_PART_BESIDE => match due {
                    Some(due) => waiting.push_back(self.unsettled(due, run)),
                    None => at_once = MULTI_PART_AT_ONCE,
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
        let mut had_work = false;
        while !had_work {
            if run.is_over() {
                return Ok(Portion::Last);
            }
            let step = match packet.step.take() {
                Some(step) => step,
                None => match self.first_step(packet, run).await? {
                    ControlFlow::Continue(step) => step,
                    ControlFlow::Break(portion) => return Ok(portion),
                },
            };
            let terms = self.stores.packets.terms(id).await?;
            let terms = terms.ok_or_else(|| Failure::defect(format!("{id}: it existed a moment ago")))?;
            let part = |index| PartId { packet: id, index };
            match step {
                Step::Close(index) => {
                    let is_told = self.close(packet.is_ack_redis, &terms, part(index)).await?;
                    if is_told {
                        packet.go_on(index, Step::Close, Step::Drain(0));
                    } else {
                        packet.step = Some(Step::Refund(0));
                    }
                }
                Step::Drain(index) => {
                    had_work = self.drain(packet, part(index), run).await?;
                    packet.go_on(index, Step::Drain, Step::Refund(0));
                }
                Step::Refund(index) => {
                    crash_point!("refund.after_drain");
                    let known = match self.refund_part(packet, &terms, part(index), run).await? {
                        PartRefund::Nothing(decisions) => Some(decisions),
                        PartRefund::Slips => None,
                    };
                    had_work = known.is_none();
                    packet.go_on(index, Step::Refund, Step::End(known.filter(|_| id.part_count() == 1)));
                }
                Step::End(known) => {
                    self.end(packet, &terms, known).await?;
                    return Ok(Portion::Last);
                }
            }
        }
        Ok(Portion::More)
    }

    /// Reads a packet's item, and says where to begin; or what it has instead of a portion, if it is not to be settled now.
    async fn first_step(&self, packet: &mut Unsettled, run: &Run) -> Result<ControlFlow<Portion, Step>, Failure> {
        let id = packet.id;
        let found = self.stores.ledger.packet(id).await?;
        let found = found.ok_or_else(|| Failure::defect(format!("{id}: due, but it does not exist")))?;
        if found.settled.is_some() {
            // The index is a little behind.
            packet.note_settled();
            return Ok(ControlFlow::Break(Portion::Last));
        }
        match &found.closed {
            Some(closing) => packet.report.oldest_due_s = run.now.since(closing.at).as_secs(),
            None if found.terms.expires_at > run.until => {
                return Err(Failure::defect(format!("{id}: due before its time")));
            }
            None => {}
        }
        if packet.gives_way && lock(&run.troubled).contains(&found.terms.sender) {
            return Ok(ControlFlow::Break(Portion::Later));
        }
        packet.sender = Some(found.terms.sender.clone());
        packet.is_ack_redis = found.terms.ack == AckMode::Redis;
        packet.is_closed = found.closed.is_some();
        let step = match found.closed {
            Some(_) => Step::Close(0),
            None if packet.is_ack_redis => Step::Drain(0),
            None => Step::Refund(0),
        };
        self.stores.packets.remember(found);
        Ok(ControlFlow::Continue(step))
    }

    /// Tells the hot store that a packet is closed: from then on a part gives out no slip. Returns whether the part knows. Unless
    /// winners are answered on its word, the refund goes on even if it does not answer, because the ledger decides each slip.
    async fn close(&self, is_ack_redis: bool, terms: &Terms, part: PartId) -> Result<bool, Failure> {
        crash_point!("refund.before_close");
        match self.closer.close_part(part, terms).await {
            Err(failure) if !is_ack_redis => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "refunded without telling the hot store");
                Ok(false)
            }
            told => told.map(|()| true),
        }
    }

    /// Persists what the hot store holds of a part, however young it is: after the expiry or the close nobody gets a hold any more.
    /// Notes the slips of parked holds that are promises. Returns whether it persisted something.
    async fn drain(&self, packet: &mut Unsettled, part: PartId, run: &Run) -> Result<bool, Failure> {
        let visit = match self.outboxes.persist_part(part, Duration::ZERO, run.deadline).await {
            Err(failure) if !packet.is_ack_redis => {
                tracing::warn!(%part, error = crate::error_chain(&failure), "refunded without draining");
                return Ok(false);
            }
            visit => visit?,
        };
        if packet.is_ack_redis {
            if visit.waiting > 0 {
                return Err(Failure::unavailable("slips of a packet that is over are still to be persisted"));
            }
            packet.withheld.extend(visit.parked);
        }
        Ok(visit.report.persisted > 0)
    }

    /// Refunds what nobody grabbed of a part, as far as there is time.
    async fn refund_part(
        &self,
        packet: &mut Unsettled,
        terms: &Terms,
        part: PartId,
        run: &Run,
    ) -> Result<PartRefund, Failure> {
        let slips = part.slips(terms.count);
        let mut decisions = self.decisions(terms, slips.clone()).await?;
        let free: Vec<u32> =
            slips.filter(|slip| !decisions.contains_key(slip) && !packet.withheld.contains(slip)).collect();
        for chunk in free.chunks(REFUND_SLIPS_MAX) {
            if run.is_over() {
                break;
            }
            self.refund_chunk(terms, chunk, run.now, &mut decisions, &mut packet.report).await?;
        }
        Ok(if free.is_empty() { PartRefund::Nothing(decisions) } else { PartRefund::Slips })
    }

    /// Settles a packet if every slip has a decision. Only a read proves that; a count does not.
    async fn end(&self, packet: &mut Unsettled, terms: &Terms, known: Option<Decisions>) -> Result<(), Failure> {
        let decisions = match known {
            Some(decisions) => decisions,
            None => self.decisions(terms, 0..terms.count).await?,
        };
        if decisions.len() == terms.count as usize {
            let decisions: Vec<Decision> = decisions.into_values().collect();
            self.make_up_sold_out(terms, &decisions).await?;
            crash_point!("mark_settled.before");
            self.stores.ledger.mark_settled(terms, &Summary::of(&decisions), self.stores.clock.now()).await?;
            crash_point!("mark_settled.after");
            packet.note_settled();
            self.reconcile(packet.is_closed, terms, &decisions).await;
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

    /// The decisions of some slips of a packet.
    async fn decisions(&self, terms: &Terms, slips: Range<u32>) -> Result<Decisions, Failure> {
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
        decisions: &mut Decisions,
        report: &mut RunReport,
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
                    report.refunded_packets = 1;
                    report.refunded_slips += refunded.len() as u64;
                    report.refunded_amount +=
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

    /// Applies the decisions of a settled part. Whatever is still held there gives way to them. A part that does not know of a close is closed
    /// now, because nobody returns to a settled packet.
    async fn reconcile_part(
        &self,
        is_closed: bool,
        part: PartId,
        terms: &Terms,
        decisions: &[Decision],
    ) -> Result<(), HotStoreError> {
        if is_closed {
            self.stores.hot.close(part).await?;
        }
        let holds: Vec<Hold> = self.stores.hot.outbox(part).await?.into_iter().map(|entry| entry.hold).collect();
        self.stores.hot.reconcile(part, terms.count, decisions, &holds).await.map(drop)
    }

    /// Applies the decisions of a settled packet to the hot store, which then answers without the ledger. If the hot store cannot
    /// be reached, grabs are answered from the ledger.
    async fn reconcile(&self, is_closed: bool, terms: &Terms, decisions: &[Decision]) {
        for part in terms.id.parts() {
            let slips = part.slips(terms.count);
            let decisions: Vec<Decision> =
                decisions.iter().filter(|decision| slips.contains(&decision.slip)).cloned().collect();
            if let Err(error) = self.reconcile_part(is_closed, part, terms, &decisions).await {
                tracing::warn!(%part, error = crate::error_chain(&error), "a settled packet was not reconciled");
                return;
            }
            crash_point!("mark_settled.after_reconcile_part");
        }
    }
}
