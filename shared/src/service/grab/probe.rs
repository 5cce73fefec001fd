use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use futures::FutureExt;
use tokio::sync::oneshot;

use crate::batching::{Batcher, Caller};
use crate::domain::{PartId, UserId};
use crate::ports::{GrabAnswer, Grabber, HotStore, HotStoreError, PartAnswers, PartGrabs};
use crate::service::Failure;

/// The most users in one call. More would gain nothing, and keep Redis busy for longer.
const BATCH_MAX: usize = 64;

/// The most calls of a lane in flight, so that some are written and others read while Redis executes one.
const IN_FLIGHT_MAX: usize = 6;

/// Probes parts for users. Requests of a lane that arrive while calls for it are in flight share the next call, whatever packets they are
/// for.
pub struct Prober<H: HotStore>(Arc<Batcher<Probing<H>>>);

/// What the hot store has for a user; `None`: the part is not loaded.
type Outcome = Result<Option<GrabAnswer>, Failure>;

struct Probing<H>(Arc<H>);

/// A probe of one part.
struct Request {
    part: PartId,
    grabber: Grabber,
    answer: oneshot::Sender<Outcome>,
}

/// The equal requests of one user.
type Waiters = Vec<oneshot::Sender<Outcome>>;

/// The grabs of one call, and who waits for which of its answers.
#[derive(Default)]
struct Batch {
    grabs: Vec<PartGrabs>,
    /// The waiters of each user of each part.
    waiters: Vec<Vec<Waiters>>,
}

impl<H: HotStore> Prober<H> {
    /// Probes the parts in `hot`.
    pub fn new(hot: Arc<H>) -> Self {
        Self(Arc::new(Batcher::new(Probing(hot))))
    }

    /// What `part` has for `grabber`. The request is queued once this returns. The future only waits, so it is small.
    pub fn probe(&self, part: PartId, grabber: Grabber) -> impl Future<Output = Outcome> + use<H> {
        let (answer, answered) = oneshot::channel();
        let lane = self.0.caller().0.lane(part);
        self.0.submit(lane, |queue| queue.push_back(Request { part, grabber, answer }));
        answered.map(|answer| answer.unwrap_or_else(|_| Err(Failure::unavailable("the call of this probe was lost"))))
    }
}

impl<H: HotStore> Caller for Probing<H> {
    /// Fewer wait for the call in flight: they would cost Redis more apart than their wait is worth. In `make bench ARGS="--only A"`, 24 made
    /// 1.5 times the grabs of 5.
    const WORTH_A_CALL: usize = 24;

    type Key = u32;
    type Queue = VecDeque<Request>;
    type Batch = Batch;
    /// A failure that the requests which wait would receive too, only later.
    type Report = Option<Failure>;

    fn in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Batch {
        next_batch(queue)
    }

    async fn call(&self, _lane: &u32, batch: Batch) -> Option<Failure> {
        crash_point!("grab.before_script");
        let result = self.0.grab_each(&batch.grabs).await;
        crash_point!("grab.after_script");
        match result {
            Ok(answers) => {
                for (waiters, answers) in batch.waiters.into_iter().zip(answers) {
                    send(waiters, Ok(answers));
                }
                None
            }
            // A part with damaged keys must not fail the others, so each is probed by itself. Some may be probed twice.
            Err(HotStoreError::Impossible(_)) if batch.grabs.len() > 1 => {
                for (part_grabs, waiters) in batch.grabs.into_iter().zip(batch.waiters) {
                    send(waiters, self.0.grab(part_grabs.part, &part_grabs.grabbers).await.map_err(Failure::from));
                }
                None
            }
            Err(error) => {
                // A damaged part says nothing of the lane's other parts, which may wait for the next call.
                let concerns_all = matches!(error, HotStoreError::Unavailable(_));
                let failure = Failure::from(error);
                for waiters in batch.waiters {
                    send(waiters, Err(failure.clone()));
                }
                concerns_all.then_some(failure)
            }
        }
    }

    fn after_call(&self, queue: &mut Self::Queue, failure: Option<Failure>) {
        let Some(failure) = failure else { return };
        for request in queue.drain(..) {
            let _ = request.answer.send(Err(failure.clone()));
        }
    }
}

/// Takes the requests of up to [`BATCH_MAX`] users, in their order. A user's equal requests for a part go together. With another
/// passphrase the same user asks another question, so the part comes again.
fn next_batch(queue: &mut VecDeque<Request>) -> Batch {
    let most = BATCH_MAX.min(queue.len());
    let mut batch = Batch::default();
    // The last place of each part, and the place of each user there.
    let mut places = HashMap::<PartId, usize>::with_capacity(most);
    let mut users = HashMap::<(usize, UserId), usize>::with_capacity(most);
    while users.len() < BATCH_MAX {
        let Some(Request { part, grabber, answer }) = queue.pop_front() else { break };
        let mut place = *places.entry(part).or_insert_with(|| batch.open(part));
        let same = users.get(&(place, grabber.user.clone())).copied();
        if let Some(user) = same {
            if batch.grabs[place].grabbers[user] == grabber {
                batch.waiters[place][user].push(answer);
                continue;
            }
            place = batch.open(part);
            places.insert(part, place);
        }
        let grabbers = &mut batch.grabs[place].grabbers;
        users.insert((place, grabber.user.clone()), grabbers.len());
        grabbers.push(grabber);
        batch.waiters[place].push(vec![answer]);
    }
    batch
}

impl Batch {
    /// Adds a part without users. Returns its place.
    fn open(&mut self, part: PartId) -> usize {
        self.grabs.push(PartGrabs { part, grabbers: Vec::new() });
        self.waiters.push(Vec::new());
        self.grabs.len() - 1
    }
}

/// Sends the users of one part their answers. Of a user's equal requests, only the first has made a fresh hold.
fn send(waiters: Vec<Waiters>, answers: Result<PartAnswers, Failure>) {
    let outcomes: Vec<Outcome> = match answers {
        Ok(Some(answers)) => answers.into_iter().map(|answer| Ok(Some(answer))).collect(),
        Ok(None) => vec![Ok(None); waiters.len()],
        Err(failure) => vec![Err(failure); waiters.len()],
    };
    for (waiters, mut outcome) in waiters.into_iter().zip(outcomes) {
        for waiter in waiters {
            // A caller who is gone needs no answer. Settle persists what is held for them.
            let _ = waiter.send(outcome.clone());
            if let Ok(Some(GrabAnswer::Held { fresh, .. })) = &mut outcome {
                *fresh = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
