use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::batching::{Batcher, Caller, Promise, SingleFlight};
use crate::domain::{Claim, PacketId, Terms, UserId};
use crate::ledger::{CLAIMS_MAX, ClaimOutcome, Ledger};
use crate::ports::Table;
use crate::service::Failure;

/// The most transactions of a packet in flight. Each costs the process work and a round trip, however few claims it has. So later
/// claims wait and go together.
pub const TRANSACTIONS_MAX: usize = 8;

/// How long a caller waits at most: longer than a transaction is tried. Even then the claim stays in its queue and is committed; a
/// caller that asks again shares the outcome.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);

/// Commits claims to the ledger: each at once while few transactions of its packet are in flight, else with others that wait.
/// Callers that ask for the same claim, as a user with two devices does, share its outcome.
pub struct Committer<T: Table> {
    batches: Arc<Batcher<Committing<T>>>,
    claims: SingleFlight<Wanted, Outcome>,
}

type Outcome = Result<ClaimOutcome, Failure>;

/// A claim of a packet, and the user who is to have it.
type Wanted = (PacketId, UserId, Claim);

/// A claim that waits for its transaction.
struct Request {
    terms: Arc<Terms>,
    promise: Promise<Wanted, Outcome>,
}

struct Committing<T> {
    ledger: Arc<Ledger<T>>,
    transactions_max: usize,
}

impl<T: Table> Caller for Committing<T> {
    type Key = PacketId;
    type Queue = Vec<Request>;
    type Batch = Vec<Request>;
    type Seen = ();

    fn in_flight_max(&self) -> usize {
        self.transactions_max
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.drain(..queue.len().min(CLAIMS_MAX)).collect()
    }

    async fn call(&self, _packet: &PacketId, batch: Self::Batch) {
        if let [Request { terms, .. }, _, ..] = &*batch {
            let claim = |request: &Request| {
                let (_, user, claim) = request.promise.key();
                (user.clone(), claim.clone())
            };
            let claims: Vec<(UserId, Claim)> = batch.iter().map(claim).collect();
            if self.ledger.claim_together(terms, &claims).await {
                for request in batch {
                    request.promise.resolve(Ok(ClaimOutcome::Committed));
                }
                return;
            }
        }
        let each = batch.into_iter().map(async |Request { terms, promise }| {
            let (_, user, claim) = promise.key();
            let outcome = self.ledger.claim(&terms, user, claim).await;
            // Each is answered at once, because others of them may take seconds.
            promise.resolve(outcome.map_err(Failure::from));
        });
        join_all(each).await;
    }
}

impl<T: Table> Committer<T> {
    /// A committer of claims to `ledger`, with at most `transactions_max` transactions of a packet in flight.
    pub fn new(ledger: Arc<Ledger<T>>, transactions_max: usize) -> Self {
        Self {
            batches: Arc::new(Batcher::new(Committing { ledger, transactions_max })),
            claims: SingleFlight::default(),
        }
    }

    /// Gives `claim` to `user`, as [`Ledger::claim`] does. If several callers ask for the same claim at the same time, one of
    /// them is answered that it committed. The others are answered what a second transaction would have found.
    pub async fn claim(&self, terms: &Arc<Terms>, user: UserId, claim: Claim) -> Outcome {
        let (flight, promise) = self.claims.enter((terms.id, user, claim.clone()));
        let is_first = promise.is_some();
        if let Some(promise) = promise {
            let request = Request { terms: Arc::clone(terms), promise };
            self.batches.submit(terms.id, |queue| queue.push(request));
        }
        match timeout(CLAIM_TIMEOUT, flight.result()).await {
            Ok(Some(Ok(ClaimOutcome::Committed))) if !is_first => Ok(ClaimOutcome::Already { claim, foreign: None }),
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(Failure::unavailable("the transaction of this claim was lost")),
            Err(_) => Err(Failure::unavailable("the ledger is too busy to take this claim soon")),
        }
    }
}

#[cfg(test)]
mod tests;
