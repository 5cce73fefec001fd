//! Settling: persists what the hot store still holds, and refunds what nobody grabbed. Replay and rebuild are the operator's.

mod outbox;
mod rebuild;
mod refund;
mod replay;

use std::collections::BTreeSet;
use std::ops::{AddAssign, RangeInclusive};
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout};

use self::outbox::Outboxes;
use crate::domain::{Timestamp, UserId};
use crate::ports::{Backlog, HotStore, Table};
use crate::service::close::Closer;
use crate::service::{Failure, Stores};

pub use self::rebuild::Rebuild;
pub use self::replay::{Replay, Replayed};

/// The most orders to close packets that a run looks at.
const ORDERS_A_RUN: u32 = 10;
/// How long a run carries them out.
const ORDERS_TIME: Duration = Duration::from_secs(10);

/// What a run of settle did, and what is left; or a piece of a run. The reports of pieces add up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct RunReport {
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
    /// Packets past expiry and grace, or closed, that are not settled.
    pub due_left: u64,
    /// For how many seconds the oldest of them has been past both, or closed. 0 if there is none; a closed one counts once it was read.
    pub oldest_due_s: u64,
    /// For how many seconds the oldest pending withdrawal has been pending, 0 if there is none. Pending parts do not count here. `null`: it
    /// is for another run to tell, or the ledger did not say.
    pub oldest_pending_s: Option<u64>,
}

impl RunReport {
    /// Nothing was done, and nothing is left.
    fn nothing() -> Self {
        Self { outbox_left: Some(0), oldest_outbox_ms: Some(0), ..Self::default() }
    }

    /// The same, with what is left in outboxes `now`.
    fn with_left(self, left: Backlog, now: Timestamp) -> Self {
        let age = left.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
        let oldest_outbox_ms = Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        Self { outbox_left: Some(left.holds), oldest_outbox_ms, ..self }
    }

    /// The same, where the hot store could not tell what is left in outboxes.
    fn with_unknown_left(self) -> Self {
        Self { outbox_left: None, oldest_outbox_ms: None, ..self }
    }
}

impl AddAssign for RunReport {
    fn add_assign(&mut self, other: Self) {
        self.persisted += other.persisted;
        self.parked += other.parked;
        self.refunded_packets += other.refunded_packets;
        self.refunded_slips += other.refunded_slips;
        self.refunded_amount += other.refunded_amount;
        self.outbox_left = self.outbox_left.zip(other.outbox_left).map(|(all, more)| all + more);
        self.oldest_outbox_ms = self.oldest_outbox_ms.zip(other.oldest_outbox_ms).map(|(all, more)| all.max(more));
        self.due_left += other.due_left;
        self.oldest_due_s = self.oldest_due_s.max(other.oldest_due_s);
        self.oldest_pending_s = self.oldest_pending_s.max(other.oldest_pending_s);
    }
}

/// The scheduled use case: brings to the ledger what the hot store still holds, and takes back what nobody grabbed.
///
/// It is safe to run twice at once and to end anywhere: each step is a transaction of the ledger that is done or not.
pub struct Settle<T, H> {
    stores: Stores<T, H>,
    outboxes: Outboxes<T, H>,
    closer: Closer<T, H>,
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
    /// Senders of packets for which a store did not answer in time.
    troubled: Mutex<BTreeSet<UserId>>,
}

impl Run {
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

impl<T: Table, H: HotStore> Settle<T, H> {
    /// Settles the packets in these stores. `grace` must be longer than a grab can last plus the difference of the clocks.
    pub fn new(stores: Stores<T, H>, grace: Duration) -> Self {
        Self { outboxes: Outboxes::new(stores.clone()), closer: Closer::new(stores.clone()), stores, grace }
    }

    /// The same, which persists holds from this age on. For tests that do not wait until holds are older.
    #[must_use]
    pub fn with_least_age(mut self, least_age: Duration) -> Self {
        self.outboxes.least_age = least_age;
        self
    }

    /// Closes what the operator has ordered to close, where the process that did it has died. The ledger comes first; what is closed there is
    /// due at once, and its parts are closed before its refund.
    async fn carry_out_orders(&self, now: Timestamp) {
        // Thousands of packets must leave time for the refunds. The next run closes the rest.
        let late = || Failure::unavailable("there was no time for all of them");
        let done = timeout(ORDERS_TIME, self.try_orders(now)).await.map_err(|_| late()).flatten();
        if let Err(failure) = done {
            tracing::warn!(error = crate::error_chain(&failure), "orders to close packets are not carried out yet");
        }
    }

    async fn try_orders(&self, now: Timestamp) -> Result<(), Failure> {
        let ledger = &self.stores.ledger;
        for order in ledger.close_orders(ORDERS_A_RUN).await? {
            for packet in ledger.packets_to_close(&order, now).await? {
                if packet.closed.is_none() && ledger.close(&packet.terms, &order.intervention).await? {
                    tracing::info!(packet_id = %packet.terms.id, "a packet was closed, as ordered");
                }
            }
            ledger.carried_out(&order).await?;
        }
        Ok(())
    }

    /// For how many seconds the oldest pending withdrawal has been pending; `None`: the ledger did not say.
    async fn oldest_pending_s(&self) -> Option<u64> {
        let oldest = self.stores.ledger.oldest_pending().await;
        if let Err(error) = &oldest {
            tracing::warn!(error = crate::error_chain(error), "the age of the oldest pending withdrawal is unknown");
        }
        oldest.ok().map(|oldest| oldest.map_or(0, |at| self.stores.clock.now().since(at).as_secs()))
    }

    /// Settles what lies in `partitions`, until `deadline`. The next run does the rest.
    pub async fn run(&self, partitions: RangeInclusive<u32>, deadline: Instant) -> Result<RunReport, Failure> {
        // Several runs may share the partitions. One of them does what is in none.
        let is_first = partitions.contains(&0);
        // A hot store that does not answer must leave time for the refunds, most of which do not need it.
        let half_time = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let mut visits = self.outboxes.visit_all(partitions.clone(), half_time).await;
        let now = self.stores.clock.now();
        if is_first {
            Box::pin(self.carry_out_orders(now)).await;
        }
        let run = Run { partitions, now, until: now.before(self.grace), deadline, troubled: Mutex::default() };
        let refunded = self.refund_due(&run).await;
        self.outboxes.go_on(&mut visits, deadline).await;
        self.outboxes.note_sold_out(deadline).await;
        let mut report = refunded?;
        for visit in visits.into_values() {
            report += visit.report;
        }
        if is_first {
            report.oldest_pending_s = self.oldest_pending_s().await;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_pieces_add_up() {
        let report = |n: u64| RunReport {
            persisted: n,
            parked: 2 * n,
            refunded_packets: 3 * n,
            refunded_slips: 4 * n,
            refunded_amount: 5 * n,
            outbox_left: Some(6 * n),
            oldest_outbox_ms: Some(7 * n),
            due_left: 8 * n,
            oldest_due_s: 9 * n,
            oldest_pending_s: None,
        };
        for (one, other) in [(10, 100), (100, 10)] {
            let mut all = report(one);
            all += report(other);
            assert_eq!(all, RunReport { oldest_outbox_ms: Some(700), oldest_due_s: 900, ..report(110) });
            all += report(0).with_unknown_left();
            assert_eq!((all.outbox_left, all.oldest_outbox_ms), (None, None), "the hot store could not tell");
        }
        let left = Backlog { holds: 3, oldest: Some(Timestamp::from_ms(90)) };
        let left = RunReport::nothing().with_left(left, Timestamp::from_ms(5_090));
        assert_eq!((left.outbox_left, left.oldest_outbox_ms), (Some(3), Some(5_000)));
    }
}
