use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::oneshot;

use crate::batching::{Batcher, Caller};
use crate::domain::{Claim, PacketId, UserId};
use crate::ledger::{CLAIMS_READ_MAX, Ledger};
use crate::ports::Table;
use crate::service::Failure;

/// The most reads in flight. Others wait and go together.
const IN_FLIGHT_MAX: usize = 4;

/// Reads users' own claim items. Those that wait at the same time share a read.
pub struct ClaimReader<T: Table>(Arc<Batcher<Reading<T>>>);

struct Reading<T>(Arc<Ledger<T>>);

type Outcome = Result<Option<Claim>, Failure>;

/// A user and a packet of which they may have a slip.
struct Request {
    user: UserId,
    packet: PacketId,
    answer: oneshot::Sender<Outcome>,
}

impl<T: Table> ClaimReader<T> {
    /// Reads from `ledger`.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self(Arc::new(Batcher::new(Reading(ledger))))
    }

    /// The claim of `user` in `packet`, by a strongly consistent read.
    pub fn claim_of(&self, user: UserId, packet: PacketId) -> impl Future<Output = Outcome> + use<T> {
        let (answer, answered) = oneshot::channel();
        self.0.submit((), |queue| queue.push(Request { user, packet, answer }));
        answered.map(|answer| answer.unwrap_or_else(|_| Err(Failure::unavailable("the read of this claim was lost"))))
    }
}

impl<T: Table> Caller for Reading<T> {
    type Key = ();
    type Queue = Vec<Request>;
    type Batch = Vec<Request>;
    type Report = ();

    fn in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.drain(..queue.len().min(CLAIMS_READ_MAX)).collect()
    }

    async fn call(&self, (): &(), batch: Self::Batch) {
        let (wanted, answers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|request| ((request.user, request.packet), request.answer)).unzip();
        let outcomes = match self.0.claims_of_each(&wanted).await.map_err(Failure::from) {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(failure) => vec![Err(failure); answers.len()],
        };
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // A caller who is gone needs no answer.
            let _ = answer.send(outcome);
        }
    }
}
