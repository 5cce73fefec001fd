//! Settling: persists what the hot store still holds, and refunds what nobody grabbed. Replay and rebuild are the operator's.

mod outbox;
mod rebuild;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde::Serialize;
use tokio::time::Instant;

use self::outbox::{Emptied, Outboxes};
use crate::domain::Summary;
use crate::domain::{AckMode, Amount, Decision, PacketId, PartId, Partition, Terms, Timestamp};
use crate::ledger::{Due, REFUND_SLIPS_MAX, RefundOutcome, due_shard};
use crate::ports::Table;
use crate::ports::{Backlog, HotStore};
use crate::service::Failure;
use crate::service::Stores;

pub use self::rebuild::Rebuild;
pub use self::replay::{Replay, Replayed};

/// Shards of due packets that are worked on at once; the packets of one shard come one after another.
const SHARDS_AT_ONCE: usize = 4;
/// Due packets that are read at once.
const DUE_PAGE: u32 = 100;
/// Where counting what is left ends: the number is for an alarm, not for the books.
const DUE_LEFT_MAX: u64 = 10_000;

/// What a run of settle did, and what is left.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Holds that came to the ledger after the run had looked there for them: each by its own commit, or by one under way
    /// beside it.
    pub persisted: u64,
    /// Holds that can't be, and wait for an operator, of those that the run came to.
    pub parked: u64,
    /// Packets of which slips went back.
    pub refunded_packets: u64,
    /// Slips that went back.
    pub refunded_slips: u64,
    /// What was in them, in minor units.
    pub refunded_amount: u64,
    /// Holds left in the outbox, those parked too; `null`: the hot store could not tell for all partitions.
    pub outbox_left: Option<u64>,
    /// The age of the oldest of them in milliseconds, 0 if there is none; `null` as above.
    pub oldest_outbox_ms: Option<u64>,
    /// Packets past expiry and grace that are not settled.
    pub due_left: u64,
}

impl Report {
    fn add_outboxes<'a>(&mut self, emptied: impl Iterator<Item = &'a Emptied>, now: Timestamp) {
        let mut all = Some(Backlog::default());
        for partition in emptied {
            self.persisted += partition.persisted;
            self.parked += partition.parked;
            all = all.zip(partition.left).map(|(all, left)| Backlog {
                holds: all.holds + left.holds,
                oldest: all.oldest.into_iter().chain(left.oldest).min(),
            });
        }
        let age = |left: Backlog| left.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
        self.outbox_left = all.map(|left| left.holds);
        self.oldest_outbox_ms = all.map(|left| u64::try_from(age(left).as_millis()).unwrap_or(u64::MAX));
    }
}

/// The scheduled use case: brings to the ledger what the hot store still holds, and takes back what nobody grabbed.
///
/// It is safe to run twice at once and to end anywhere: each step is a transaction of the ledger that is done or not.
pub struct Settle<T, H> {
    stores: Stores<T, H>,
    outboxes: Outboxes<T, H>,
    grace: Duration,
}

/// The bounds of one run.
struct Run {
    partitions: RangeInclusive<u32>,
    /// When it looked at the clock; refunds are booked under this time.
    now: Timestamp,
    /// Packets that expired at or before this are due.
    until: Timestamp,
    deadline: Instant,
}

impl Run {
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// What became of the due packets of a shard.
#[derive(Debug, Default)]
struct Shard {
    refunded_packets: u64,
    refunded_slips: u64,
    refunded_amount: u64,
    left: u64,
}

impl Shard {
    fn add(&mut self, id: PacketId, result: Result<Returned, Failure>) {
        match result {
            Ok(returned) => {
                self.refunded_packets += u64::from(returned.slips > 0);
                self.refunded_slips += returned.slips;
                self.refunded_amount += returned.amount;
                self.left += u64::from(!returned.settled);
            }
            Err(failure) => {
                tracing::error!(packet = %id, error = crate::error_chain(&failure), "not settled");
                self.left += 1;
            }
        }
    }
}

/// What became of a due packet.
#[derive(Debug, Default)]
struct Returned {
    slips: u64,
    amount: u64,
    settled: bool,
}

impl<T: Table, H: HotStore> Settle<T, H> {
    /// Over the two stores. `grace`: how long after its expiry a packet's refund waits; longer than a grab can last plus
    /// the difference of the clocks.
    pub fn new(stores: Stores<T, H>, grace: Duration) -> Self {
        Self { outboxes: Outboxes::new(stores.clone()), stores, grace }
    }

    /// Settles what lies in `partitions`, until `deadline`; what is not done by then the next run does.
    pub async fn run(&self, partitions: RangeInclusive<u32>, deadline: Instant) -> Result<Report, Failure> {
        let mut report = Report::default();
        // A hot store that does not answer must leave time for the refunds, most of which don't need it.
        let half_time = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let mut emptied = self.outboxes.empty(partitions.clone(), half_time).await;
        let now = self.stores.clock.now();
        let run = Run { partitions, now, until: now.before(self.grace), deadline };
        let refunded = self.refund_due(&run, &mut report).await;
        self.outboxes.go_on(&mut emptied, deadline).await;
        refunded?;
        report.add_outboxes(emptied.values(), self.stores.clock.now());
        Ok(report)
    }

    async fn refund_due(&self, run: &Run, report: &mut Report) -> Result<(), Failure> {
        let shards = due_shard(Partition::wrapping(*run.partitions.start()))
            ..=due_shard(Partition::wrapping(*run.partitions.end()));
        let outcomes: Vec<Result<Shard, Failure>> = stream::iter(shards)
            .map(|shard| self.refund_shard(shard, run))
            .buffer_unordered(SHARDS_AT_ONCE)
            .collect()
            .await;
        for outcome in outcomes {
            let outcome = outcome?;
            report.refunded_packets += outcome.refunded_packets;
            report.refunded_slips += outcome.refunded_slips;
            report.refunded_amount += outcome.refunded_amount;
            report.due_left += outcome.left;
        }
        Ok(())
    }

    /// Settles the due packets of a shard, one after another. One that fails is not in the way of the next; past the
    /// deadline the rest is only counted.
    async fn refund_shard(&self, shard: u32, run: &Run) -> Result<Shard, Failure> {
        let mut outcome = Shard::default();
        let mut last: Option<Due> = None;
        loop {
            let page = self.stores.ledger.due(shard, run.until, last, DUE_PAGE).await?;
            let Some(&end) = page.last() else { return Ok(outcome) };
            last = Some(end);
            for due in page.iter().filter(|due| run.partitions.contains(&due.id.partition().index())) {
                if run.is_over() {
                    outcome.left += 1;
                } else {
                    let result = self.settle_packet(due.id, run).await;
                    outcome.add(due.id, result);
                }
            }
            if run.is_over() && outcome.left >= DUE_LEFT_MAX {
                return Ok(outcome);
            }
        }
    }

    /// Refunds what nobody grabbed of a packet past its grace, and settles it once every slip is seen to be decided.
    async fn settle_packet(&self, id: PacketId, run: &Run) -> Result<Returned, Failure> {
        let packet = self.stores.ledger.packet(id).await?;
        let packet = packet.ok_or_else(|| Failure::defect(format!("{id}: due, but not there")))?;
        if packet.settled.is_some() {
            // The index is a little behind.
            return Ok(Returned { settled: true, ..Returned::default() });
        }
        let terms = packet.terms;
        if terms.expires_at > run.until {
            return Err(Failure::defect(format!("{id}: due before its time")));
        }
        let withheld = match terms.ack {
            AckMode::Ledger => BTreeSet::new(),
            AckMode::Redis => self.drain_packet(&terms, run.deadline).await?,
        };
        crash_point!("refund.after_drain");

        let decisions = self.stores.ledger.decisions(id, 0..terms.count).await?;
        let mut decisions: BTreeMap<u32, Decision> =
            decisions.into_iter().map(|decision| (decision.slip, decision)).collect();
        let mut returned = Returned::default();
        let free: Vec<u32> =
            (0..terms.count).filter(|slip| !decisions.contains_key(slip) && !withheld.contains(slip)).collect();
        for chunk in free.chunks(REFUND_SLIPS_MAX) {
            if run.is_over() {
                return Ok(returned);
            }
            self.refund_chunk(&terms, chunk, run.now, &mut decisions, &mut returned).await?;
        }
        if returned.slips > 0 {
            // What is settled is what a read shows, not what was counted.
            let seen = self.stores.ledger.decisions(id, 0..terms.count).await?;
            decisions = seen.into_iter().map(|decision| (decision.slip, decision)).collect();
        }
        if decisions.len() == terms.count as usize {
            let decisions: Vec<Decision> = decisions.into_values().collect();
            crash_point!("mark_settled.before");
            self.stores.ledger.mark_settled(&terms, &Summary::of(&decisions)).await?;
            crash_point!("mark_settled.after");
            returned.settled = true;
            self.tell(&terms, &decisions).await;
            crash_point!("mark_settled.after_reconcile");
        }
        Ok(returned)
    }

    /// Refunds the slips of a chunk that have no decision; `at` is the time it is booked under. One that turns out to be
    /// decided is taken out, and the rest is tried again.
    async fn refund_chunk(
        &self,
        terms: &Terms,
        chunk: &[u32],
        at: Timestamp,
        decisions: &mut BTreeMap<u32, Decision>,
        returned: &mut Returned,
    ) -> Result<(), Failure> {
        let mut slips: Vec<(u32, Amount)> = Vec::with_capacity(chunk.len());
        for &slip in chunk {
            let part = PartId::of_slip(terms.id, terms.count, slip);
            let amount = match part {
                Some(part) => self.stores.packets.amount(part, terms, slip).await?,
                None => None,
            };
            slips.push((slip, amount.ok_or_else(|| Failure::defect(format!("{}: no slip {slip}", terms.id)))?));
        }
        loop {
            crash_point!("refund.before_chunk");
            let outcome = self.stores.ledger.refund(terms, &slips, at).await?;
            crash_point!("refund.after_chunk");
            match outcome {
                RefundOutcome::Refunded(refunded) => {
                    returned.slips += refunded.len() as u64;
                    returned.amount += refunded.iter().map(|decision| decision.amount).sum::<Amount>().minor_units();
                    decisions.extend(refunded.into_iter().map(|decision| (decision.slip, decision)));
                    return Ok(());
                }
                RefundOutcome::AlreadyDecided(seen) => {
                    slips.retain(|(slip, _)| seen.iter().all(|decision| decision.slip != *slip));
                    decisions.extend(seen.into_iter().map(|decision| (decision.slip, decision)));
                    if slips.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What the hot store acknowledged for a packet is persisted before anything is refunded. Returns the slips that are
    /// parked, which the refund must leave alone.
    async fn drain_packet(&self, terms: &Terms, deadline: Instant) -> Result<BTreeSet<u32>, Failure> {
        let mut parked = BTreeSet::new();
        for part in terms.id.parts() {
            let drained = self.outboxes.drain(part, deadline).await?;
            if drained.waiting > 0 {
                return Err(Failure::unavailable("slips of an expired packet are still to be persisted"));
            }
            parked.extend(drained.parked);
        }
        Ok(parked)
    }

    /// Tells the hot store how a packet ended, so that it answers for it without the ledger. If it can't be told, the
    /// ledger answers.
    async fn tell(&self, terms: &Terms, decisions: &[Decision]) {
        for part in terms.id.parts() {
            let slips = part.slips(terms.count);
            let decisions: Vec<Decision> =
                decisions.iter().filter(|decision| slips.contains(&decision.slip)).cloned().collect();
            if let Err(error) = self.stores.hot.reconcile(part, terms.count, &decisions, &[]).await {
                tracing::warn!(%part, error = crate::error_chain(&error), "the hot store was not told of a settlement");
                return;
            }
            crash_point!("mark_settled.after_reconcile_part");
        }
    }
}
