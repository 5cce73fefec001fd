//! Settling: persists what the hot store still holds, and refunds what nobody grabbed. Replay and rebuild are the operator's.

mod outbox;
mod rebuild;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, RangeInclusive};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde::Serialize;
use tokio::time::Instant;

use self::outbox::Outboxes;
use crate::domain::{AckMode, Amount, Decision, PacketId, PartId, Partition, Summary, Terms, Timestamp};
use crate::ledger::{REFUND_SLIPS_MAX, RefundOutcome, due_shard};
use crate::ports::{Backlog, HotStore, Table};
use crate::service::{Failure, Stores};

pub use self::rebuild::Rebuild;
pub use self::replay::{Replay, Replayed};

/// Due shards that are worked on at once. The packets of one shard come one after another.
const SHARDS_AT_ONCE: usize = 4;
/// Due packets in one page of the index.
const DUE_PAGE: u32 = 100;
/// Counting what is left stops here: the number is for an alarm, not for accounts.
const DUE_LEFT_MAX: u64 = 10_000;

/// What a run of settle did, and what is left.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Holds whose claim was not in the ledger when the run looked, and now is. The run or a concurrent grab committed it.
    pub persisted: u64,
    /// Parked holds that the run met.
    pub parked: u64,
    /// Packets whose undecided slips went back.
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
    /// The report of a run that did `tally` and ends `now`.
    fn new(tally: Tally, now: Timestamp) -> Self {
        let age = |left: Backlog| left.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
        Self {
            persisted: tally.persisted,
            parked: tally.parked,
            refunded_packets: tally.refunded_packets,
            refunded_slips: tally.refunded_slips,
            refunded_amount: tally.refunded_amount,
            outbox_left: tally.left.map(|left| left.holds),
            oldest_outbox_ms: tally.left.map(|left| u64::try_from(age(left).as_millis()).unwrap_or(u64::MAX)),
            due_left: tally.due_left,
        }
    }
}

/// What a piece of a run did, and what it left. The fields mean what those of [`Report`] mean; tallies of pieces add up.
#[derive(Clone, Copy, Debug)]
struct Tally {
    persisted: u64,
    parked: u64,
    refunded_packets: u64,
    refunded_slips: u64,
    refunded_amount: u64,
    due_left: u64,
    /// What is left in outboxes; `None`: the hot store could not tell.
    left: Option<Backlog>,
}

impl Default for Tally {
    fn default() -> Self {
        let (persisted, parked, due_left) = (0, 0, 0);
        let (refunded_packets, refunded_slips, refunded_amount) = (0, 0, 0);
        let left = Some(Backlog::default());
        Self { persisted, parked, refunded_packets, refunded_slips, refunded_amount, due_left, left }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.persisted += other.persisted;
        self.parked += other.parked;
        self.refunded_packets += other.refunded_packets;
        self.refunded_slips += other.refunded_slips;
        self.refunded_amount += other.refunded_amount;
        self.due_left += other.due_left;
        self.left = self.left.zip(other.left).map(|(all, more)| Backlog {
            holds: all.holds + more.holds,
            oldest: all.oldest.into_iter().chain(more.oldest).min(),
        });
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

impl<T: Table, H: HotStore> Settle<T, H> {
    /// Settles the packets in these stores. `grace` must be longer than a grab can last plus the difference of the clocks.
    pub fn new(stores: Stores<T, H>, grace: Duration) -> Self {
        Self { outboxes: Outboxes::new(stores.clone()), stores, grace }
    }

    /// Settles what lies in `partitions`, until `deadline`. The next run does the rest.
    pub async fn run(&self, partitions: RangeInclusive<u32>, deadline: Instant) -> Result<Report, Failure> {
        // A hot store that does not answer must leave time for the refunds, most of which do not need it.
        let half_time = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let mut visits = self.outboxes.empty(partitions.clone(), half_time).await;
        let now = self.stores.clock.now();
        let run = Run { partitions, now, until: now.before(self.grace), deadline };
        let refunded = self.refund_due(&run).await;
        self.outboxes.go_on(&mut visits, deadline).await;
        let mut tally = refunded?;
        for visit in visits.into_values() {
            tally += visit.tally;
        }
        Ok(Report::new(tally, self.stores.clock.now()))
    }

    async fn refund_due(&self, run: &Run) -> Result<Tally, Failure> {
        let shards = due_shard(Partition::wrapping(*run.partitions.start()))
            ..=due_shard(Partition::wrapping(*run.partitions.end()));
        let tallies: Vec<Result<Tally, Failure>> = stream::iter(shards)
            .map(|shard| self.refund_shard(shard, run))
            .buffer_unordered(SHARDS_AT_ONCE)
            .collect()
            .await;
        let mut all = Tally::default();
        for tally in tallies {
            all += tally?;
        }
        Ok(all)
    }

    /// Settles the due packets of a due shard, one after another. A packet that fails does not stop the next. Past the deadline
    /// the others are only counted.
    async fn refund_shard(&self, shard: u32, run: &Run) -> Result<Tally, Failure> {
        let (mut all, mut last) = (Tally::default(), None);
        loop {
            let page = self.stores.ledger.due(shard, run.until, last, DUE_PAGE).await?;
            let Some(&end) = page.last() else { return Ok(all) };
            last = Some(end);
            for due in page.iter().filter(|due| run.partitions.contains(&due.id.partition().index())) {
                let left = Tally { due_left: 1, ..Tally::default() };
                all += if run.is_over() {
                    left
                } else {
                    self.settle_packet(due.id, run).await.unwrap_or_else(|failure| {
                        tracing::error!(packet = %due.id, error = crate::error_chain(&failure), "not settled");
                        left
                    })
                };
            }
            if run.is_over() && all.due_left >= DUE_LEFT_MAX {
                return Ok(all);
            }
        }
    }

    /// Refunds what nobody grabbed of a packet past its grace, and settles it once every slip has a decision.
    async fn settle_packet(&self, id: PacketId, run: &Run) -> Result<Tally, Failure> {
        let packet = self.stores.ledger.packet(id).await?;
        let packet = packet.ok_or_else(|| Failure::defect(format!("{id}: due, but it does not exist")))?;
        if packet.settled.is_some() {
            // The index is a little behind.
            return Ok(Tally::default());
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

        let mut decisions = self.decisions(&terms).await?;
        let free: Vec<u32> =
            (0..terms.count).filter(|slip| !decisions.contains_key(slip) && !withheld.contains(slip)).collect();
        let mut tally = Tally { due_left: 1, ..Tally::default() };
        for chunk in free.chunks(REFUND_SLIPS_MAX) {
            if run.is_over() {
                return Ok(tally);
            }
            self.refund_chunk(&terms, chunk, run.now, &mut decisions, &mut tally).await?;
        }
        if tally.refunded_packets > 0 {
            // Only a read proves that every slip is decided; a count does not.
            decisions = self.decisions(&terms).await?;
        }
        if decisions.len() == terms.count as usize {
            let decisions: Vec<Decision> = decisions.into_values().collect();
            crash_point!("mark_settled.before");
            self.stores.ledger.mark_settled(&terms, &Summary::of(&decisions)).await?;
            crash_point!("mark_settled.after");
            tally.due_left = 0;
            self.reconcile(&terms, &decisions).await;
            crash_point!("mark_settled.after_reconcile");
        }
        Ok(tally)
    }

    /// All slip decisions of a packet, by slip.
    async fn decisions(&self, terms: &Terms) -> Result<BTreeMap<u32, Decision>, Failure> {
        let decisions = self.stores.ledger.decisions(terms.id, 0..terms.count).await?;
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

    /// Persists what the hot store acknowledged for a packet, before anything is refunded. Returns the slips of parked holds,
    /// which must not be refunded.
    async fn drain_packet(&self, terms: &Terms, deadline: Instant) -> Result<BTreeSet<u32>, Failure> {
        let mut parked = BTreeSet::new();
        for part in terms.id.parts() {
            let drained = self.outboxes.drain(part, deadline).await?;
            if drained.waiting() > 0 {
                return Err(Failure::unavailable("slips of an expired packet are still to be persisted"));
            }
            parked.extend(drained.parked);
        }
        Ok(parked)
    }

    /// Applies the decisions of a settled packet to the hot store, which then answers without the ledger. If the hot store cannot
    /// be reached, grabs are answered from the ledger.
    async fn reconcile(&self, terms: &Terms, decisions: &[Decision]) {
        for part in terms.id.parts() {
            let slips = part.slips(terms.count);
            let decisions: Vec<Decision> =
                decisions.iter().filter(|decision| slips.contains(&decision.slip)).cloned().collect();
            if let Err(error) = self.stores.hot.reconcile(part, terms.count, &decisions, &[]).await {
                tracing::warn!(%part, error = crate::error_chain(&error), "a settled packet was not reconciled");
                return;
            }
            crash_point!("mark_settled.after_reconcile_part");
        }
    }
}
