//! Reads of users' own claim items. Those that wait at the same time share a request. None waits for the slow items of a few others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use crate::batching::{Batcher, Caller, FreshSingleFlight};
use crate::domain::{Claim, PacketId, UserId};
use crate::ledger::{ClaimKey, Ledger};
use crate::ports::Table;
use crate::service::Failure;

/// The most items of one request.
const BATCH_MAX: usize = 100;
/// The most requests in flight. Further users wait, and share the next ones.
const IN_FLIGHT_MAX: usize = 4;
/// A user without an answer after this time is read alone. The item of another user in their request may be slow, or the table too busy
/// for theirs. A request takes a few milliseconds.
const LATE: Duration = Duration::from_millis(100);
/// The most users who are read alone at once. If the whole table is slow, this is what it is asked in addition.
const ALONE_MAX: usize = 64;

type Answer = Result<Option<Claim>, Failure>;

/// Reads users' own claims from the ledger.
pub struct OwnClaims<T: Table> {
    /// A user has one read in flight, however often they ask.
    reads: FreshSingleFlight<ClaimKey, Answer>,
    together: Arc<Batcher<Reader<T>>>,
    alone: Arc<Semaphore>,
}

struct Reader<T>(Arc<Ledger<T>>);

/// A user who waits for their claim of a packet.
struct Waiting {
    key: ClaimKey,
    answer: oneshot::Sender<Answer>,
}

impl<T: Table> Caller for Reader<T> {
    type Key = ();
    type Queue = Vec<Waiting>;
    type Batch = Vec<Waiting>;
    type Report = ();

    fn in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.retain(|waiting| !waiting.answer.is_closed());
        queue.drain(..queue.len().min(BATCH_MAX)).collect()
    }

    /// Those for whom the table is too busy get no answer here: they are read alone.
    async fn call(&self, (): &(), batch: Self::Batch) {
        if batch.is_empty() {
            return;
        }
        let keys: HashSet<ClaimKey> = batch.iter().map(|waiting| waiting.key.clone()).collect();
        let mut found = match self.0.claims_at(&keys).await {
            Ok(found) => found.into_iter().map(|(key, claim)| (key, claim.map_err(Failure::from))).collect(),
            Err(error) => {
                let failure = Failure::from(error);
                keys.into_iter().map(|key| (key, Err(failure.clone()))).collect::<HashMap<_, _>>()
            }
        };
        for Waiting { key, answer } in batch {
            if let Some(claim) = found.remove(&key) {
                // Nobody may be waiting any more.
                let _ = answer.send(claim);
            }
        }
    }
}

impl<T: Table> OwnClaims<T> {
    /// Reads from `ledger`.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self {
            reads: FreshSingleFlight::default(),
            together: Arc::new(Batcher::new(Reader(ledger))),
            alone: Arc::new(Semaphore::new(ALONE_MAX)),
        }
    }

    /// A user's claim of a packet, if they have one, by a read that begins after this call.
    ///
    /// # Errors
    /// The ledger did not answer.
    pub async fn claim_of(&self, user: &UserId, id: PacketId) -> Answer {
        let (together, permits) = (Arc::clone(&self.together), Arc::clone(&self.alone));
        let key = (user.clone(), id);
        let of = key.clone();
        let read = move || async move {
            let (answer, read) = oneshot::channel();
            together.submit((), |queue| queue.push(Waiting { key: of.clone(), answer }));
            let alone = async {
                sleep(LATE).await;
                let _permit = permits.acquire().await;
                together.caller().0.claim_of(&of.0, of.1).await
            };
            tokio::select! {
                biased;
                Ok(Ok(claim)) = read => Ok(claim),
                claim = alone => Ok(claim?),
            }
        };
        self.reads.run(key, read).await.unwrap_or_else(|| Err(Failure::defect("reading a claim was lost")))
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::Instant;

    use super::*;
    use crate::domain::{Amount, Terms};
    use crate::dynamodb::SdkTable;
    use crate::dynamodb::throttled::Throttled;
    use crate::memory::MemoryTable;
    use crate::ports::System;

    #[tokio::test]
    async fn each_of_many_users_receives_their_own_claim() {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let terms = Terms::sample();
        let user = |n: u32| -> UserId { format!("u{n}").parse().unwrap() };
        let claim = |slip| Claim { slip, amount: Amount::new(7), at: terms.created_at };
        for n in 0..300 {
            ledger.claim(&terms, &user(n), &claim(n), None).await.unwrap();
        }
        let own = OwnClaims::new(Arc::clone(&ledger));
        // Each asks twice at the same time, and half of them have none.
        let users: Vec<UserId> = (0..600).chain(0..600).map(user).collect();
        let found = join_all(users.iter().map(|user| own.claim_of(user, terms.id))).await;
        let expected = (0..600).chain(0..600).map(|n| (n < 300).then(|| claim(n)));
        assert!(found.into_iter().map(Result::unwrap).eq(expected));
    }

    /// 9. A table that is too busy or slow for some users, or has an item of theirs that reads as nothing, delays no other one.
    #[tokio::test(start_paused = true)]
    async fn a_fault_of_some_users_is_not_that_of_others() {
        for slow in [1, 4, 16] {
            let table = SdkTable::new(Throttled::default().client(), "t".to_owned());
            let own = OwnClaims::new(Arc::new(Ledger::new(table, Arc::new(System))));
            let (own, id) = (&own, Terms::sample().id);
            let ask = async |user: String, at_ms: u64| {
                sleep(Duration::from_millis(at_ms)).await;
                let begun = Instant::now();
                let answer = own.claim_of(&user.parse().unwrap(), id).await;
                (user, answer, begun.elapsed())
            };
            // Each slow user taps twenty times a second.
            let taps = (0..40).flat_map(|tap| (0..slow).map(move |user| (format!("slow{user}"), tap * 50)));
            let taps = join_all(taps.map(|(user, at_ms)| ask(user, at_ms)));
            let others = join_all((0..2_000).map(|at_ms| ask(format!("bob{at_ms}"), at_ms)));
            let (taps, others, busy, broken) =
                tokio::join!(taps, others, ask("busy".to_owned(), 0), ask("broken".to_owned(), 0));
            assert!(taps.iter().all(|(_, answer, _)| matches!(answer, Err(Failure::Unavailable(_)))), "{slow}");
            assert!(matches!(broken.1, Err(Failure::Defect(_))), "{broken:?}");
            let late = others
                .iter()
                .chain([&busy])
                .find(|(_, answer, took)| !matches!(answer, Ok(None)) || *took > Duration::from_millis(300));
            assert!(late.is_none(), "{slow}: {late:?}");
        }
    }
}
