use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::{Instant, timeout};

use super::RunReport;
use crate::domain::{AckMode, Claim, Decision, Hold, Owner, PartId, Partition, Terms, UserId};
use crate::ledger::{CLAIMS_MAX, ClaimOutcome, ClaimRefusal, LedgerError};
use crate::lock;
use crate::ports::{Backlog, HotStore, OutboxEntry, Reconciled, Table};
use crate::service::sold_out::SoldOutNotes;
use crate::service::{Failure, Stores};
use crate::timeouts;

/// Partitions that are visited at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// Transactions of one part's claims at once.
const TRANSACTIONS_AT_ONCE: usize = 4;
/// How long a run counts the holds that it did not reach. A run may end this much after its deadline.
const COUNTING: Duration = Duration::from_secs(1);

/// The least age of the holds that a run persists. A grab commits its hold in milliseconds, so an older one was probably left
/// behind. For a younger one, settle would race with the winner: both write the same items, and each makes the other's
/// transaction fail.
const LEAST_AGE: Duration = Duration::from_secs(5);

/// Brings to the ledger what the hot store still holds.
pub(super) struct Outboxes<T, H> {
    stores: Stores<T, H>,
    sold_out: SoldOutNotes<T, H>,
    /// Parts that this run made final.
    finals: Mutex<Vec<PartId>>,
    /// See [`LEAST_AGE`].
    pub least_age: Duration,
}

/// The result of one or two visits to a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub report: RunReport,
    /// Whether time was up before the end was reached.
    out_of_time: bool,
}

/// A part after its holds were persisted, as far as that was due and went well.
#[derive(Debug)]
pub(super) struct PartVisit {
    pub report: RunReport,
    /// Slips whose holds are parked.
    pub parked: Vec<u32>,
    /// Holds that are left for the next run.
    pub waiting: usize,
}

/// What became of one hold.
#[derive(Debug, Default)]
struct Persisted {
    /// Whether its claim has come to the ledger since this run looked there.
    booked: bool,
    /// The decisions that the ledger has shown.
    decisions: Vec<Decision>,
}

impl<T: Table, H: HotStore> Outboxes<T, H> {
    /// The outboxes of these stores.
    pub fn new(stores: Stores<T, H>) -> Self {
        let (sold_out, finals) = (SoldOutNotes::new(stores.clone()), Mutex::default());
        Self { stores, sold_out, finals, least_age: LEAST_AGE }
    }

    /// Persists the holds of `partitions`, until `deadline`.
    pub async fn visit_all(&self, partitions: impl Iterator<Item = u32>, deadline: Instant) -> BTreeMap<u32, Visit> {
        stream::iter(partitions)
            .map(async |index| (index, self.visit(Partition::wrapping(index), deadline).await))
            .buffer_unordered(PARTITIONS_AT_ONCE)
            .collect()
            .await
    }

    /// Goes on, until `deadline`, with the partitions where time was up. Holds that it does not reach either are counted.
    pub async fn go_on(&self, visits: &mut BTreeMap<u32, Visit>, deadline: Instant) {
        let cut_short = |visits: &BTreeMap<u32, Visit>| -> Vec<u32> {
            visits.iter().filter(|(_, visit)| visit.out_of_time).map(|(index, _)| *index).collect()
        };
        for (index, more) in self.visit_all(cut_short(visits).into_iter(), deadline).await {
            visits.entry(index).and_modify(|visit| *visit = visit.and_then(more));
        }
        let counts = stream::iter(cut_short(visits))
            .map(async |index| (index, self.stores.hot.backlog(Partition::wrapping(index)).await))
            .buffer_unordered(PARTITIONS_AT_ONCE)
            .for_each(|(index, count)| {
                match count {
                    Ok(left) => {
                        visits.entry(index).and_modify(|visit| {
                            visit.report = visit.report.with_left(left, self.stores.clock.now());
                        });
                    }
                    Err(error) => {
                        tracing::error!(index, error = crate::error_chain(&error), "outboxes were not counted");
                    }
                }
                std::future::ready(())
            });
        if timeout(COUNTING, counts).await.is_err() {
            tracing::error!("not all outboxes could be counted in time");
        }
    }

    /// Notes, until `deadline`, which packets this run found sold out. Holds come first, and what is left is noted when it is settled.
    pub async fn note_sold_out(&self, deadline: Instant) {
        let finals = std::mem::take(&mut *lock(&self.finals));
        let note = async |part| {
            if Instant::now() < deadline
                && let Err(failure) = self.sold_out.note(part, None).await
            {
                tracing::warn!(%part, error = crate::error_chain(&failure), "not noted yet whether it is sold out");
            }
        };
        stream::iter(finals).for_each_concurrent(PARTITIONS_AT_ONCE, note).await;
    }

    /// Persists the holds of each part by itself: a part that fails stops neither the others nor any refund.
    async fn visit(&self, partition: Partition, deadline: Instant) -> Visit {
        let unknown = RunReport::nothing().with_unknown_left();
        if Instant::now() >= deadline {
            return Visit { report: unknown, out_of_time: true };
        }
        let parts = match self.stores.hot.pending_parts(partition).await {
            Ok(parts) => parts,
            Err(error) => {
                tracing::error!(?partition, error = crate::error_chain(&error), "outboxes were not found");
                return Visit { report: unknown, out_of_time: false };
            }
        };
        let mut report = RunReport::nothing();
        for part in parts {
            crash_point!("settle.after_pending");
            report += match self.persist_part(part, self.least_age, deadline).await {
                Ok(visit) => visit.report,
                Err(failure) => {
                    tracing::error!(%part, error = crate::error_chain(&failure), "an outbox was not emptied");
                    unknown
                }
            };
            if Instant::now() >= deadline {
                // Time may be up in the middle of this part, and the holds of the others are not counted.
                return Visit { report: report.with_unknown_left(), out_of_time: true };
            }
        }
        Visit { report, out_of_time: false }
    }

    /// Persists the holds of a part that are at least `least_age` old. A slip with a decision is only reconciled: a read costs less
    /// than a failed transaction. A parked hold is not tried again, but it ends like any other once its slip has a decision.
    pub async fn persist_part(
        &self,
        part: PartId,
        least_age: Duration,
        deadline: Instant,
    ) -> Result<PartVisit, Failure> {
        let mut held = self.stores.hot.outbox(part).await?;
        crash_point!("settle.after_outbox");
        if held.is_empty() {
            // Only the part's place in the queue is left.
            self.stores.hot.tidy(part).await?;
        }
        if held.is_empty() || Instant::now() >= deadline {
            return Ok(self.part_visit(0, &held));
        }
        let Some(terms) = self.stores.packets.terms(part.packet).await? else {
            for held in held.iter().filter(|held| held.parked.is_none()) {
                self.park(part, &held.hold, "no such packet").await?;
            }
            return Ok(self.part_visit(0, &self.stores.hot.outbox(part).await?));
        };
        // No grab commits the holds of a packet that is answered on the hot store's word, so there is nobody to wait for.
        if terms.ack == AckMode::Ledger && least_age > Duration::ZERO {
            let now = self.stores.hot.part_state(part).await?.map(|state| state.now);
            // A hold from the future is one of another server, before a failover: its age is unknown.
            let is_young = |at| now.is_some_and(|now| at <= now && now.since(at) < least_age);
            held.retain(|held| !is_young(held.hold.at));
        }
        if held.is_empty() {
            return Ok(self.part_visit(0, &self.stores.hot.outbox(part).await?));
        }
        let mut open: Vec<Hold> =
            held.iter().filter(|held| held.parked.is_none()).map(|held| held.hold.clone()).collect();
        let holds: Vec<Hold> = held.into_iter().map(|held| held.hold).collect();
        let mut decisions = self.stores.ledger.decisions(part.packet, holds.iter().map(|hold| hold.slip)).await?;
        crash_point!("settle.after_decisions");
        let decided: BTreeSet<u32> = decisions.iter().map(|decision| decision.slip).collect();
        open.retain(|hold| !decided.contains(&hold.slip));
        let (mut claims, mut results) = (Vec::with_capacity(open.len()), Vec::new());
        for hold in open {
            match self.wanted(part, &terms, &hold).await {
                Ok(claim) => claims.extend(claim.map(|claim| (hold.user, claim))),
                Err(failure) => results.push(Err(failure)),
            }
        }
        let chunks: Vec<Vec<_>> = claims.chunks(CLAIMS_MAX).map(<[_]>::to_vec).collect();
        let persisted: Vec<Vec<_>> = stream::iter(chunks)
            .map(|claims| self.persist(part, &terms, claims, deadline))
            .buffer_unordered(TRANSACTIONS_AT_ONCE)
            .collect()
            .await;
        results.extend(persisted.into_iter().flatten());
        let mut persisted = 0;
        for result in results {
            match result {
                Ok(done) => {
                    persisted += u64::from(done.booked);
                    decisions.extend(done.decisions);
                }
                Err(failure) => {
                    let (packet_id, slip) = (part.packet, failure.held_slip());
                    tracing::error!(%packet_id, slip, error = crate::error_chain(&failure), "a hold was not persisted");
                }
            }
        }
        if decisions.iter().any(|decision| decision.owner == Owner::Refunded) {
            // The hot store went back to before a refund. It receives all decisions of the part, or it would give out
            // further refunded slips.
            decisions.extend(self.stores.ledger.decisions(part.packet, part.slips(terms.count)).await?);
        }
        crash_point!("settle.before_reconcile");
        let reconciled = self.stores.hot.reconcile(part, terms.count, &decisions, &holds).await?;
        crash_point!("settle.after_reconcile");
        if let Reconciled::Final = reconciled {
            lock(&self.finals).push(part);
        }
        Ok(self.part_visit(persisted, &self.stores.hot.outbox(part).await?))
    }

    /// A part of whose holds so many were persisted, and these are left.
    fn part_visit(&self, persisted: u64, left: &[OutboxEntry]) -> PartVisit {
        let parked: Vec<u32> =
            left.iter().filter(|entry| entry.parked.is_some()).map(|entry| entry.hold.slip).collect();
        let backlog = Backlog { holds: left.len() as u64, oldest: left.iter().map(|entry| entry.hold.at).min() };
        let report = RunReport { persisted, parked: parked.len() as u64, ..RunReport::nothing() };
        let report = report.with_left(backlog, self.stores.clock.now());
        PartVisit { report, waiting: left.len() - parked.len(), parked }
    }

    /// The claim that a hold is to become. If there is no such slip, there is none, and the hold is parked.
    async fn wanted(&self, part: PartId, terms: &Terms, hold: &Hold) -> Result<Option<Claim>, Failure> {
        let amount = self.stores.packets.amount(part, terms, hold.slip).await?;
        if amount.is_none() {
            self.park(part, hold, "no such slip").await?;
        }
        Ok(amount.map(|amount| Claim { slip: hold.slip, amount, at: hold.at }))
    }

    /// Commits claims to the ledger, but none if time is up. It parks the hold of a claim that the ledger calls impossible.
    async fn persist(
        &self,
        part: PartId,
        terms: &Terms,
        claims: Vec<(UserId, Claim)>,
        deadline: Instant,
    ) -> Vec<Result<Persisted, Failure>> {
        if Instant::now() >= deadline {
            return Vec::new();
        }
        crash_point!("settle.before_claim");
        let mut outcomes = Vec::with_capacity(claims.len());
        self.stores
            .ledger
            .claim_each(
                Instant::now() + timeouts::TRANSACTION,
                terms,
                &claims,
                |_| None,
                pending(),
                |place, outcome| {
                    outcomes.push((place, outcome));
                },
            )
            .await;
        crash_point!("settle.after_claim");
        let mut results = Vec::with_capacity(claims.len());
        for (place, outcome) in outcomes {
            let (user, claim) = claims[place].clone();
            results.push(match outcome {
                Ok(ClaimOutcome::Refused(why)) => {
                    let (packet_id, slip) = (part.packet, claim.slip);
                    let hold = Hold { slip, user, at: claim.at };
                    let why = match why {
                        ClaimRefusal::Suspended => "its user is suspended",
                        ClaimRefusal::LimitReached => "its user has won as much as the packet's limit allows",
                    };
                    tracing::info!(%packet_id, slip, why, "a hold is void: its user may not have the slip");
                    let released = self.stores.hot.release(part, terms.count, &hold).await;
                    released.map(|()| Persisted::default()).map_err(|error| Failure::from(error).holding(slip))
                }
                Ok(outcome) => {
                    let (booked, decisions) = (outcome.is_in_ledger(&claim), outcome.decisions(&user, &claim));
                    let (packet_id, slip) = (part.packet, claim.slip);
                    if booked {
                        tracing::info!(%packet_id, slip, "a hold was persisted");
                    } else {
                        tracing::info!(%packet_id, slip, "a hold is void: its user or its slip has another claim");
                    }
                    Ok(Persisted { booked, decisions })
                }
                Err(error @ LedgerError::Impossible(_)) => {
                    let hold = Hold { slip: claim.slip, user, at: claim.at };
                    self.park(part, &hold, &error.to_string()).await.map(|()| Persisted::default())
                }
                Err(error) => Err(Failure::from(error).holding(claim.slip)),
            });
        }
        results
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Result<(), Failure> {
        let packet_id = part.packet;
        tracing::error!(%packet_id, %part, slip = hold.slip, reason, "a hold is parked: it can't be persisted");
        Ok(self.stores.hot.park(part, hold, reason).await?)
    }
}

impl Visit {
    /// The result of this visit and a later one.
    fn and_then(self, more: Self) -> Self {
        // A parked hold that both saw counts once. It also counts if the later visit had no time to look again.
        let parked = self.report.parked.max(more.report.parked);
        let persisted = self.report.persisted + more.report.persisted;
        Self { report: RunReport { persisted, parked, ..more.report }, ..more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_hold_that_was_seen_twice_counts_once() {
        let visit = |persisted, parked, outbox_left, out_of_time| Visit {
            report: RunReport { persisted, parked, outbox_left, ..RunReport::default() },
            out_of_time,
        };
        let first = || visit(2, 1, None, true);
        let without_time = first().and_then(visit(0, 0, None, true));
        assert_eq!((without_time.report.persisted, without_time.report.parked, without_time.out_of_time), (2, 1, true));
        let again = first().and_then(visit(3, 1, Some(1), false)).report;
        assert_eq!((again.persisted, again.parked, again.outbox_left), (5, 1, Some(1)));
    }
}
