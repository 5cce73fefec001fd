//! Reads of users' own claim items. Those that wait at the same time share a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::batching::{Batcher, Caller};
use crate::domain::{Claim, PacketId, UserId};
use crate::ledger::{Ledger, Place};
use crate::ports::Table;
use crate::service::Failure;

/// The most items of one request.
const BATCH_MAX: usize = 100;
/// The most requests in flight. Further users wait, and share the next ones.
const IN_FLIGHT_MAX: usize = 4;
/// The pauses before users are read again for whom the table was too busy. After the last one they have no answer.
const PAUSES_MS: [u64; 4] = [20, 40, 80, 160];

/// Reads users' own claims from the ledger.
pub struct OwnClaims<T: Table>(Arc<Batcher<Reader<T>>>);

struct Reader<T>(Arc<Ledger<T>>);

/// A user who waits for their claim of a packet.
struct Waiting {
    place: Place,
    answer: oneshot::Sender<Result<Option<Claim>, Failure>>,
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
        queue.drain(..queue.len().min(BATCH_MAX)).collect()
    }

    /// Users for whom the table is too busy keep no other ones waiting: they are read again beside the next requests. Each of them has a
    /// request of their own, so what a process admits bounds how many they are.
    async fn call(&self, (): &(), batch: Self::Batch) {
        let mut left = self.answer(batch).await;
        if left.is_empty() {
            return;
        }
        let again = Self(Arc::clone(&self.0));
        tokio::spawn(async move {
            for pause in PAUSES_MS {
                sleep(Duration::from_millis(pause)).await;
                left = again.answer(left).await;
            }
            for waiting in left {
                waiting.told(Err(Failure::unavailable("the table is too busy for a claim")));
            }
        });
    }
}

impl<T: Table> Reader<T> {
    /// Reads the claims of users once. Returns those for whom the table was too busy.
    async fn answer(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        if batch.is_empty() {
            return batch;
        }
        // No request names an item twice.
        let places: HashSet<Place> = batch.iter().map(|waiting| waiting.place.clone()).collect();
        let found = match self.0.claims_at(&places).await {
            Ok(found) => found,
            Err(error) => {
                let failure = Failure::from(error);
                for waiting in batch {
                    waiting.told(Err(failure.clone()));
                }
                return Vec::new();
            }
        };
        let found: HashMap<Place, _> =
            found.into_iter().map(|(place, claim)| (place, claim.map_err(Failure::from))).collect();
        let mut left = Vec::new();
        for waiting in batch {
            match found.get(&waiting.place) {
                Some(claim) => waiting.told(claim.clone()),
                None => left.push(waiting),
            }
        }
        left
    }
}

impl Waiting {
    fn told(self, claim: Result<Option<Claim>, Failure>) {
        // Nobody may be waiting any more.
        let _ = self.answer.send(claim);
    }
}

impl<T: Table> OwnClaims<T> {
    /// Reads from `ledger`.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self(Arc::new(Batcher::new(Reader(ledger))))
    }

    /// A user's claim of a packet, if they have one, by a read that begins after this call.
    ///
    /// # Errors
    /// The ledger did not answer.
    pub async fn claim_of(&self, user: &UserId, id: PacketId) -> Result<Option<Claim>, Failure> {
        let (answer, read) = oneshot::channel();
        self.0.submit((), |queue| queue.push(Waiting { place: (user.clone(), id), answer }));
        read.await.unwrap_or_else(|_| Err(Failure::defect("reading a claim was lost")))
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
            ledger.claim(&terms, &user(n), &claim(n)).await.unwrap();
        }
        let own = OwnClaims::new(Arc::clone(&ledger));
        // Each asks twice at the same time, and half of them have none.
        let users: Vec<UserId> = (0..600).chain(0..600).map(user).collect();
        let found = join_all(users.iter().map(|user| own.claim_of(user, terms.id))).await;
        let expected = (0..600).chain(0..600).map(|n| (n < 300).then(|| claim(n)));
        assert!(found.into_iter().map(Result::unwrap).eq(expected));
    }

    /// 9. A table that is too busy for one user, or has an item of theirs that reads as nothing, delays no other one.
    #[tokio::test(start_paused = true)]
    async fn a_fault_of_one_user_is_not_that_of_others() {
        let table = SdkTable::new(Throttled::default().client(), "t".to_owned());
        let own = OwnClaims::new(Arc::new(Ledger::new(table, Arc::new(System))));
        let (begun, id) = (Instant::now(), Terms::sample().id);
        let ask = async |user: &str| (own.claim_of(&user.parse().unwrap(), id).await, begun.elapsed());
        let (ann, busy, broken, bob) = tokio::join!(ask("ann"), ask("busy"), ask("broken"), ask("bob"));
        assert!(matches!([ann, bob], [(Ok(None), Duration::ZERO), (Ok(None), Duration::ZERO)]));
        assert!(matches!(broken, (Err(Failure::Defect(_)), Duration::ZERO)), "{broken:?}");
        assert!(matches!(busy.0, Err(Failure::Unavailable(_))), "{busy:?}");
        assert_eq!(busy.1, Duration::from_millis(PAUSES_MS.iter().sum()));
    }
}
