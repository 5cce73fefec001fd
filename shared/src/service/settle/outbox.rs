use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::{Instant, timeout};

use crate::domain::{Claim, Decision, Hold, PartId, Partition, Terms, Timestamp, UserId};
use crate::ledger::{CLAIMS_MAX, LedgerError};
use crate::ports::Table;
use crate::ports::{Backlog, HotStore, OutboxEntry};
use crate::service::Failure;
use crate::service::Stores;

/// Partitions whose outboxes are emptied at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// Transactions of one part's claims at once.
const TRANSACTIONS_AT_ONCE: usize = 4;
/// How long what was not reached is counted for. A run ends so much later than it was to.
const COUNTING: Duration = Duration::from_secs(1);

/// Brings to the ledger what the hot store still holds.
pub(super) struct Outboxes<T, H> {
    stores: Stores<T, H>,
}

/// What became of a partition's outboxes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Emptied {
    /// Holds that came to the ledger.
    pub persisted: u64,
    /// Holds that were seen to be parked.
    pub parked: u64,
    /// What is left; `None`: the hot store could not tell.
    pub left: Option<Backlog>,
    /// Whether time was up before the end was reached.
    out_of_time: bool,
}

/// What became of a part's outbox.
#[derive(Debug, Default)]
pub(super) struct Drained {
    persisted: u64,
    /// Holds that the next run will try again.
    pub waiting: u64,
    /// Slips whose holds are parked.
    pub parked: Vec<u32>,
    /// When the oldest that is left was made.
    oldest: Option<Timestamp>,
}

impl Drained {
    fn new(persisted: u64, left: &[OutboxEntry]) -> Self {
        let parked: Vec<u32> = left.iter().filter(|held| held.parked.is_some()).map(|held| held.hold.slip).collect();
        let waiting = (left.len() - parked.len()) as u64;
        Self { persisted, waiting, parked, oldest: left.iter().map(|held| held.hold.at).min() }
    }
}

/// What became of one hold.
#[derive(Debug, Default)]
struct Persisted {
    /// Whether it has come to the ledger since this run looked there.
    booked: bool,
    /// What the ledger has shown of it.
    decisions: Vec<Decision>,
}

impl<T: Table, H: HotStore> Outboxes<T, H> {
    /// Over the two stores.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self { stores }
    }

    /// Empties the outboxes of `partitions`, until `deadline`.
    pub async fn empty(&self, partitions: impl Iterator<Item = u32>, deadline: Instant) -> BTreeMap<u32, Emptied> {
        stream::iter(partitions)
            .map(async |index| (index, self.empty_partition(Partition::wrapping(index), deadline).await))
            .buffer_unordered(PARTITIONS_AT_ONCE)
            .collect()
            .await
    }

    /// Goes on, until `deadline`, where time was up; what is not reached then either is counted.
    pub async fn go_on(&self, emptied: &mut BTreeMap<u32, Emptied>, deadline: Instant) {
        let cut_short = |emptied: &BTreeMap<u32, Emptied>| -> Vec<u32> {
            emptied.iter().filter(|(_, partition)| partition.out_of_time).map(|(index, _)| *index).collect()
        };
        for (index, more) in self.empty(cut_short(emptied).into_iter(), deadline).await {
            let before = emptied.remove(&index).unwrap_or_default();
            emptied.insert(index, before.and_then(more));
        }
        let counts = stream::iter(cut_short(emptied))
            .map(async |index| (index, self.stores.hot.backlog(Partition::wrapping(index)).await))
            .buffer_unordered(PARTITIONS_AT_ONCE)
            .for_each(|(index, count)| {
                match count {
                    Ok(left) => {
                        emptied.entry(index).and_modify(|partition| partition.left = Some(left));
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

    /// Every part on its own: one that can't be emptied is not in the way of the others, nor of any refund.
    async fn empty_partition(&self, partition: Partition, deadline: Instant) -> Emptied {
        let out_of_time = Emptied { out_of_time: true, ..Emptied::default() };
        if Instant::now() >= deadline {
            return out_of_time;
        }
        let parts = match self.stores.hot.pending_parts(partition).await {
            Ok(parts) => parts,
            Err(error) => {
                tracing::error!(?partition, error = crate::error_chain(&error), "outboxes were not found");
                return Emptied::default();
            }
        };
        let mut emptied = Emptied { left: Some(Backlog::default()), ..Emptied::default() };
        for part in parts {
            crash_point!("settle.after_pending");
            match self.drain(part, deadline).await {
                Ok(drained) => emptied.add(&drained),
                Err(failure) => {
                    tracing::error!(%part, error = crate::error_chain(&failure), "an outbox was not emptied");
                    emptied.left = None;
                }
            }
            if Instant::now() >= deadline {
                // Perhaps in the middle of this part; what is left of the others is not known either.
                return Emptied { persisted: emptied.persisted, parked: emptied.parked, ..out_of_time };
            }
        }
        emptied
    }

    /// Brings what a part holds to the ledger. What is decided already is only reconciled: a read costs less than a failed
    /// transaction. A parked hold is not tried again, but goes like any other once the ledger has decided it.
    pub async fn drain(&self, part: PartId, deadline: Instant) -> Result<Drained, Failure> {
        let held = self.stores.hot.outbox(part).await?;
        if held.is_empty() {
            // Nothing is held: the part's place in the queue is all that is left to tidy.
            self.stores.hot.reconcile(part, 0, &[], &[]).await?;
            return Ok(Drained::default());
        }
        crash_point!("settle.after_outbox");
        if Instant::now() >= deadline {
            return Ok(Drained::new(0, &held));
        }
        let mut open: Vec<Hold> =
            held.iter().filter(|held| held.parked.is_none()).map(|held| held.hold.clone()).collect();
        let Some(terms) = self.stores.packets.terms(part.packet).await? else {
            for hold in &open {
                self.park(part, hold, "no such packet").await?;
            }
            return Ok(Drained::new(0, &self.stores.hot.outbox(part).await?));
        };
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
                    tracing::error!(%part, error = crate::error_chain(&failure), "a hold was not persisted");
                }
            }
        }
        crash_point!("settle.before_reconcile");
        self.stores.hot.reconcile(part, terms.count, &decisions, &holds).await?;
        crash_point!("settle.after_reconcile");
        Ok(Drained::new(persisted, &self.stores.hot.outbox(part).await?))
    }

    /// The claim that a hold is to become; none if there is no such slip: then it is parked.
    async fn wanted(&self, part: PartId, terms: &Terms, hold: &Hold) -> Result<Option<Claim>, Failure> {
        let amount = self.stores.packets.amount(part, terms, hold.slip).await?;
        if amount.is_none() {
            self.park(part, hold, "no such slip").await?;
        }
        Ok(amount.map(|amount| Claim { slip: hold.slip, amount, at: hold.at }))
    }

    /// Brings claims to the ledger, save those that it calls impossible, whose holds are parked; none if time is up.
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
        let outcomes = self.stores.ledger.claim_each(terms, &claims).await;
        crash_point!("settle.after_claim");
        let mut results = Vec::with_capacity(claims.len());
        for ((user, claim), outcome) in claims.into_iter().zip(outcomes) {
            results.push(match outcome {
                Ok(outcome) => {
                    Ok(Persisted { booked: outcome.books(&claim), decisions: outcome.decisions(&user, &claim) })
                }
                Err(error @ LedgerError::Impossible(_)) => {
                    let hold = Hold { slip: claim.slip, user, at: claim.at };
                    self.park(part, &hold, &error.to_string()).await.map(|()| Persisted::default())
                }
                Err(error) => Err(error.into()),
            });
        }
        results
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Result<(), Failure> {
        tracing::error!(%part, slip = hold.slip, reason, "a hold is parked: it can't be persisted");
        Ok(self.stores.hot.park(part, hold, reason).await?)
    }
}

impl Emptied {
    /// Both of two visits, one after the other.
    fn and_then(self, more: Self) -> Self {
        // Seen twice they count once, and what was seen stays so where there was no time to look again.
        let parked = self.parked.max(more.parked);
        Self { persisted: self.persisted + more.persisted, parked, ..more }
    }

    fn add(&mut self, drained: &Drained) {
        let parked = drained.parked.len() as u64;
        self.persisted += drained.persisted;
        self.parked += parked;
        if let Some(left) = &mut self.left {
            let oldest = left.oldest.into_iter().chain(drained.oldest).min();
            *left = Backlog { holds: left.holds + drained.waiting + parked, oldest };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_to_be_parked_stays_so_and_counts_once() {
        let first = || Emptied { persisted: 2, parked: 1, left: None, out_of_time: true };
        let without_time = first().and_then(Emptied { out_of_time: true, ..Emptied::default() });
        assert_eq!((without_time.persisted, without_time.parked, without_time.out_of_time), (2, 1, true));
        let left = Some(Backlog { holds: 1, oldest: None });
        let seen_again = first().and_then(Emptied { persisted: 3, parked: 1, left, out_of_time: false });
        assert_eq!((seen_again.persisted, seen_again.parked, seen_again.left), (5, 1, left));
    }
}
