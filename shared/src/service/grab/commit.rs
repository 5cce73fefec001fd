use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::batching::{Batcher, Caller, Duty, SingleFlight};
use crate::domain::{Claim, PacketId, Terms, TraceId, UserId};
use crate::ledger::{CLAIMS_MAX, ClaimOutcome, Ledger, LedgerError};
use crate::ports::{Table, current_trace};
use crate::service::Failure;
use crate::timeouts;

/// The most transactions of a packet in flight that are not late. Each costs the process work and a round trip, however few claims it has.
/// So later claims wait and go together.
pub const TRANSACTIONS_MAX: usize = 8;
/// A transaction that takes longer is late. Most take some ten milliseconds.
const LATE: Duration = Duration::from_millis(100);

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
    /// The trace of the request that began it.
    trace: Option<TraceId>,
    duty: Duty<Wanted, Outcome>,
}

struct Committing<T> {
    ledger: Arc<Ledger<T>>,
    transactions_max: usize,
    /// When the newest transaction began that was not late. A late one that began earlier is stuck on an item: the ledger itself is not slow.
    in_time: watch::Sender<Instant>,
}

impl<T: Table> Caller for Committing<T> {
    type Key = PacketId;
    type Queue = Vec<Request>;
    type Batch = Vec<Request>;
    type Report = ();

    fn in_flight_max(&self) -> usize {
        self.transactions_max
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.drain(..queue.len().min(CLAIMS_MAX)).collect()
    }

    /// A transaction that is late does not count as in flight: the next claims go on without it.
    async fn call(&self, _packet: &PacketId, batch: Self::Batch) {
        let begun = Instant::now();
        let mut in_time = self.in_time.subscribe();
        let stuck = async move {
            sleep(LATE).await;
            let _ = in_time.wait_for(|last| *last > begun).await;
        };
        let committed = tokio::spawn(commit(Arc::clone(&self.ledger), batch, stuck));
        if timeout(LATE, committed).await.is_ok() {
            self.in_time.send_if_modified(|last| {
                let is_later = begun > *last;
                *last = begun.max(*last);
                is_later
            });
        }
    }
}

/// Commits these claims of a packet, and answers each as soon as its outcome is known: others of them may take seconds.
async fn commit<T: Table>(ledger: Arc<Ledger<T>>, batch: Vec<Request>, stuck: impl Future<Output = ()> + Send) {
    let Some(Request { terms, .. }) = batch.first() else { return };
    let terms = Arc::clone(terms);
    let claim = |request: &Request| {
        let (_, user, claim) = request.duty.key();
        (user.clone(), claim.clone())
    };
    let claims: Vec<(UserId, Claim)> = batch.iter().map(claim).collect();
    let traces: Vec<Option<TraceId>> = batch.iter().map(|request| request.trace).collect();
    let mut duties: Vec<_> = batch.into_iter().map(|request| Some(request.duty)).collect();
    let answer = |place: usize, outcome: Result<ClaimOutcome, LedgerError>| {
        if let Some(duty) = duties.get_mut(place).and_then(Option::take) {
            duty.resolve(outcome.map_err(Failure::from));
        }
    };
    ledger.claim_each(Instant::now() + timeouts::CLAIM, &terms, &claims, |place| traces[place], stuck, answer).await;
}

impl<T: Table> Committer<T> {
    /// A committer of claims to `ledger`, with at most `transactions_max` transactions of a packet in flight.
    pub fn new(ledger: Arc<Ledger<T>>, transactions_max: usize) -> Self {
        Self {
            batches: Arc::new(Batcher::new(Committing {
                ledger,
                transactions_max,
                in_time: watch::Sender::new(Instant::now()),
            })),
            claims: SingleFlight::default(),
        }
    }

    /// Gives `claim` to `user`, as [`Ledger::claim`] does, and waits for at most [`timeouts::CLAIM`]. Even then the claim stays in
    /// its queue and is committed; a caller that asks again shares the outcome.
    pub async fn claim(&self, terms: &Arc<Terms>, user: UserId, claim: Claim) -> Outcome {
        let (flight, duty) = self.claims.enter((terms.id, user, claim));
        if let Some(duty) = duty {
            let request = Request { terms: Arc::clone(terms), trace: current_trace(), duty };
            self.batches.submit(terms.id, |queue| queue.push(request));
        }
        match timeout(timeouts::CLAIM, flight.result()).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(Failure::unavailable("the transaction of this claim was lost")),
            Err(_) => Err(Failure::unavailable("the ledger is too busy to take this claim soon")),
        }
    }
}

#[cfg(test)]
mod tests;
