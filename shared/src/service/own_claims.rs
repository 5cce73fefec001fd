//! Reads of users' own claim items. Those that wait at the same time share a request.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::batching::{Batcher, Caller};
use crate::domain::{Claim, PacketId, UserId};
use crate::ledger::Ledger;
use crate::ports::Table;
use crate::service::Failure;

/// The most items of one request.
const BATCH_MAX: usize = 100;
/// The most requests in flight. Further users wait, and share the next ones.
const IN_FLIGHT_MAX: usize = 4;

/// Reads users' own claims from the ledger.
pub struct OwnClaims<T: Table>(Arc<Batcher<Reader<T>>>);

struct Reader<T>(Arc<Ledger<T>>);

/// A user who waits for their claim of a packet.
struct Waiting {
    place: (UserId, PacketId),
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

    async fn call(&self, (): &(), batch: Self::Batch) {
        // No request names an item twice.
        let places: HashSet<_> = batch.iter().map(|waiting| waiting.place.clone()).collect();
        let found = self.0.claims_at(places).await.map_err(Failure::from);
        for Waiting { place, answer } in batch {
            // A caller who is gone needs no answer.
            let _ = answer.send(found.as_ref().map(|found| found.get(&place).cloned()).map_err(Failure::clone));
        }
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

    use super::*;
    use crate::domain::{Amount, Terms};
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
}
