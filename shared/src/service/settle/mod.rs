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
    /// Packets past expiry and grace, or closed, that are not settled.
    pub due_left: u64,
    /// For how many seconds the oldest of them has been past both, or closed. 0 if there is none; a closed one counts once it was read.
    pub oldest_due_s: u64,
    /// For how many seconds the oldest pending withdrawal has been pending, 0 if there is none; `null`: nobody asked, or the ledger did not
    /// say.
    pub oldest_pending_s: Option<u64>,
}

impl Report {
    /// The report of a run that did `tally` and ends `now`.
    fn new(tally: Tally, now: Timestamp, grace: Duration) -> Self {
        let due_for = |expiry: Timestamp| now.since(expiry.after(grace)).as_secs();
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
            oldest_due_s: tally.oldest_expiry.map_or(0, due_for),
            oldest_pending_s: None,
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
    /// When the oldest packet that is left expired.
    oldest_expiry: Option<Timestamp>,
    /// What is left in outboxes; `None`: the hot store could not tell.
    left: Option<Backlog>,
}

impl Default for Tally {
    fn default() -> Self {
        let (persisted, parked, due_left) = (0, 0, 0);
        let (refunded_packets, refunded_slips, refunded_amount) = (0, 0, 0);
        let (oldest_expiry, left) = (None, Some(Backlog::default()));
        Self { persisted, parked, refunded_packets, refunded_slips, refunded_amount, due_left, oldest_expiry, left }
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
        self.oldest_expiry = self.oldest_expiry.into_iter().chain(other.oldest_expiry).min();
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
    /// The same report, with the age of the oldest pending withdrawal.
    pub async fn with_pending(&self, report: Report) -> Report {
        let oldest = self.stores.ledger.oldest_pending().await;
        if let Err(error) = &oldest {
            tracing::warn!(error = crate::error_chain(error), "the age of the oldest pending withdrawal is unknown");
        }
        let now = self.stores.clock.now();
        let oldest_pending_s = oldest.ok().map(|oldest| oldest.map_or(0, |at| now.since(at).as_secs()));
        Report { oldest_pending_s, ..report }
    }

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

    /// Settles what lies in `partitions`, until `deadline`. The next run does the rest.
    pub async fn run(&self, partitions: RangeInclusive<u32>, deadline: Instant) -> Result<Report, Failure> {
        // A hot store that does not answer must leave time for the refunds, most of which do not need it.
        let half_time = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let mut visits = self.outboxes.empty(partitions.clone(), half_time).await;
        let now = self.stores.clock.now();
        if partitions.contains(&0) {
            Box::pin(self.carry_out_orders(now)).await;
        }
        let run = Run { partitions, now, until: now.before(self.grace), deadline, troubled: Mutex::default() };
        let refunded = self.refund_due(&run).await;
        self.outboxes.go_on(&mut visits, deadline).await;
        self.outboxes.note_sold_out(deadline).await;
        let mut tally = refunded?;
        for visit in visits.into_values() {
            tally += visit.tally;
        }
        Ok(Report::new(tally, self.stores.clock.now(), self.grace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_pieces_add_up() {
        let tally = |n: u64| Tally {
            persisted: n,
            parked: 2 * n,
            refunded_packets: 3 * n,
            refunded_slips: 4 * n,
            refunded_amount: 5 * n,
            due_left: 6 * n,
            oldest_expiry: Some(Timestamp::from_ms(7 * n)),
            left: Some(Backlog { holds: 8 * n, oldest: Some(Timestamp::from_ms(9 * n)) }),
        };
        let mut all = tally(10);
        all += tally(100);
        let report = Report::new(all, Timestamp::from_ms(5_090), Duration::from_secs(1));
        assert_eq!((report.persisted, report.parked, report.refunded_packets), (110, 220, 330));
        assert_eq!((report.refunded_slips, report.refunded_amount, report.due_left), (440, 550, 660));
        assert_eq!((report.outbox_left, report.oldest_outbox_ms, report.oldest_due_s), (Some(880), Some(5_000), 4));
        all += Tally { left: None, ..Tally::default() };
        let report = Report::new(all, Timestamp::from_ms(5_090), Duration::from_secs(1));
        assert_eq!((report.outbox_left, report.oldest_outbox_ms), (None, None), "the hot store could not tell");
    }
}
