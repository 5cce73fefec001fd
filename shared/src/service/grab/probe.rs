use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::exhausted::ExhaustedParts;
use crate::batching::{Batcher, Caller};
use crate::domain::{PartId, UserId};
use crate::ports::{Ask, GrabAnswer, Grabber, HotStore, HotStoreError, PartSnapshot, ProbeResult, SnapshotResult};
use crate::service::Failure;

/// The most users in one call. More would gain nothing, and keep Redis busy for longer.
const BATCH_MAX: usize = 64;

/// The most calls of a lane in flight, so that some are written and others read while Redis executes one.
const IN_FLIGHT_MAX: usize = 6;

/// From this many waiting requests on, one snapshot answers all who wait for an exhausted part. It reads the whole part, so for
/// fewer requests, which fit into one call of [`BATCH_MAX`], that call is cheaper.
pub const BULK_MIN: usize = BATCH_MAX;

/// Probes parts for users. Requests of a lane that arrive while calls for it are in flight share the next call, whatever
/// packets they are for. Requests for a part that turns out to be final need no call.
pub struct Prober<H: HotStore>(Arc<Batcher<Probing<H>>>);

type Outcome = Result<ProbeResult, Failure>;

struct Probing<H> {
    hot: Arc<H>,
    exhausted: Arc<ExhaustedParts<H>>,
    bulk_min: usize,
}

/// A probe of one part.
struct Request {
    grabber: Grabber,
    answer: oneshot::Sender<Outcome>,
}

/// The equal requests of one user.
type Waiters = Vec<oneshot::Sender<Outcome>>;

/// What one call asks, and who waits for which of its answers.
#[derive(Default)]
struct Batch {
    asks: Vec<Ask>,
    /// The waiters of each user of each part.
    waiters: Vec<Vec<Waiters>>,
    /// All requests for a part that seems to be exhausted. If there are any, the batch has no others.
    bulk: Option<Bulk>,
    /// Requests for parts that are final by now.
    final_parts: Vec<(Arc<PartSnapshot>, VecDeque<Request>)>,
}

/// A part, and the bulk waiters for it.
type Bulk = (PartId, VecDeque<Request>);

/// What a call has shown of its lane.
#[derive(Default)]
struct Seen {
    /// The hot store does not answer.
    failure: Option<Failure>,
    /// The parts that had no slip for at least one user.
    had_nothing: Vec<PartId>,
    /// The bulk waiters that each need a probe after all.
    one_by_one: Option<Bulk>,
}

/// The waiting requests of a lane, by part. The more users a part has in a call, the less each costs.
#[derive(Default)]
struct Queue {
    parts: HashMap<PartId, PartQueue>,
    /// The parts with waiting requests, the next one first.
    order: VecDeque<PartId>,
    len: usize,
}

#[derive(Default)]
struct PartQueue {
    requests: VecDeque<Request>,
    snapshot: Snapshot,
}

/// Whether one snapshot of a part answers all requests that wait for it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Snapshot {
    /// No recent probe found the part empty.
    #[default]
    TooEarly,
    /// One snapshot may answer all.
    Due,
    /// A snapshot could not answer them: each user needs a probe.
    InVain,
}

impl<H: HotStore> Prober<H> {
    /// Probes the parts in `hot`, except those that are known to be `exhausted`. Requests are bulk waiters from `bulk_min` on.
    pub fn new(hot: Arc<H>, exhausted: Arc<ExhaustedParts<H>>, bulk_min: usize) -> Self {
        Self(Arc::new(Batcher::new(Probing { hot, exhausted, bulk_min })))
    }

    /// What `part` has for `grabber`. The request is queued once this returns. The future only waits, so it is small.
    pub fn probe(&self, part: PartId, grabber: Grabber) -> impl Future<Output = Outcome> + use<H> {
        let (answer, answered) = oneshot::channel();
        let lane = self.0.caller().hot.lane(part.partition());
        self.0.submit(lane, |queue| queue.push(part, Request { grabber, answer }));
        answered.map(|answer| answer.unwrap_or_else(|_| Err(Failure::unavailable("the call of this probe was lost"))))
    }
}

impl<H: HotStore> Caller for Probing<H> {
    /// A call for fewer requests would cost more than the shorter wait is worth. If only a full batch were worth a call, Redis
    /// would idle while the others travel.
    const WORTH_A_CALL: usize = 5;

    type Key = u32;
    type Queue = Queue;
    type Batch = Batch;
    type Seen = Seen;

    fn in_flight_max(&self) -> usize {
        IN_FLIGHT_MAX
    }

    fn waiting(queue: &Queue) -> usize {
        queue.len
    }

    fn next_batch(&self, queue: &mut Queue) -> Batch {
        queue.next_batch(self.bulk_min, |part| self.exhausted.final_part(part))
    }

    async fn call(&self, _lane: &u32, batch: Batch) -> Seen {
        for (snapshot, requests) in batch.final_parts {
            send_from(&snapshot, requests);
        }
        match batch.bulk {
            Some((part, requests)) => self.answer_in_bulk(part, requests).await,
            None => self.answer_each(batch.asks, batch.waiters).await,
        }
    }

    fn absorb(&self, queue: &mut Queue, seen: Seen) {
        queue.absorb(seen);
    }
}

impl<H: HotStore> Probing<H> {
    /// Probes the parts of a batch for its users.
    async fn answer_each(&self, asks: Vec<Ask>, waiters: Vec<Vec<Waiters>>) -> Seen {
        let mut seen = Seen::default();
        if asks.is_empty() {
            return seen;
        }
        crash_point!("grab.before_script");
        let result = self.hot.grab_each(&asks).await;
        crash_point!("grab.after_script");
        match result {
            Ok(answers) => {
                for (((part, _), waiters), answers) in asks.into_iter().zip(waiters).zip(answers) {
                    if answers.iter().flatten().any(|answer| matches!(answer, GrabAnswer::Nothing { .. })) {
                        seen.had_nothing.push(part);
                    }
                    send(waiters, Ok(answers));
                }
            }
            // A part with damaged keys must not fail the others, so each is probed by itself. Some may be probed twice.
            Err(HotStoreError::Impossible(_)) if asks.len() > 1 => {
                for ((part, grabbers), waiters) in asks.into_iter().zip(waiters) {
                    send(waiters, self.hot.grab(part, &grabbers).await.map_err(Failure::from));
                }
            }
            Err(error) => {
                // A damaged part says nothing of the lane's other parts, which may wait for the next call.
                let concerns_all = matches!(error, HotStoreError::Unavailable(_));
                let failure = Failure::from(error);
                for waiters in waiters {
                    send(waiters, Err(failure.clone()));
                }
                seen.failure = concerns_all.then_some(failure);
            }
        }
        seen
    }

    /// Answers all who wait for a part that seems to be exhausted. They asked before the part is read, so each answer is one that
    /// a probe might have found.
    async fn answer_in_bulk(&self, part: PartId, requests: VecDeque<Request>) -> Seen {
        let mut seen = Seen::default();
        let asked = Instant::now();
        match self.hot.snapshot(part, false).await {
            Ok(SnapshotResult::Exhausted(snapshot)) => {
                // This comes first, so that later requests need not wait behind all of these.
                let snapshot = Arc::new(snapshot);
                self.exhausted.remember(part, asked, Arc::clone(&snapshot));
                send_from(&snapshot, requests);
                // The requests that have come meanwhile may be bulk waiters again.
                seen.had_nothing.push(part);
            }
            // Each user is probed, so that an error reaches only the users whose entry is damaged.
            Ok(_) | Err(HotStoreError::Impossible(_)) => seen.one_by_one = Some((part, requests)),
            Err(error @ HotStoreError::Unavailable(_)) => {
                let failure = Failure::from(error);
                for request in requests {
                    let _ = request.answer.send(Err(failure.clone()));
                }
                seen.failure = Some(failure);
            }
        }
        seen
    }
}

/// Answers requests for an exhausted part.
fn send_from(snapshot: &PartSnapshot, requests: VecDeque<Request>) {
    for Request { grabber, answer } in requests {
        let _ = answer.send(Ok(ProbeResult::Answer(snapshot.answer_for(&grabber.user))));
    }
}

/// Sends the users of one part their answers. Of a user's equal requests, only the first has made a fresh hold.
fn send(waiters: Vec<Waiters>, answers: Result<Option<Vec<GrabAnswer>>, Failure>) {
    let outcomes: Vec<Outcome> = match answers {
        Ok(Some(answers)) => answers.into_iter().map(|answer| Ok(ProbeResult::Answer(answer))).collect(),
        Ok(None) => vec![Ok(ProbeResult::NotLoaded); waiters.len()],
        Err(failure) => vec![Err(failure); waiters.len()],
    };
    for (waiters, mut outcome) in waiters.into_iter().zip(outcomes) {
        for waiter in waiters {
            // A caller who is gone needs no answer. Settle persists what is held for them.
            let _ = waiter.send(outcome.clone());
            if let Ok(ProbeResult::Answer(GrabAnswer::Held { fresh, .. })) = &mut outcome {
                *fresh = false;
            }
        }
    }
}

impl Queue {
    fn push(&mut self, part: PartId, request: Request) {
        let of_part = self.parts.entry(part).or_default();
        if of_part.requests.is_empty() {
            self.order.push_back(part);
        }
        of_part.requests.push_back(request);
        self.len += 1;
    }

    /// Takes the requests of up to [`BATCH_MAX`] users. A user's equal requests for a part go together. If requests for a part are
    /// left, the part goes to the end of the queue.
    ///
    /// Or takes all requests for one part, if there are at least `bulk_min` and a snapshot may answer them.
    fn next_batch(&mut self, bulk_min: usize, final_part: impl Fn(PartId) -> Option<Arc<PartSnapshot>>) -> Batch {
        let mut batch = Batch::default();
        let mut room = BATCH_MAX;
        // This visits each part once: requests that are left do not go into the same call.
        for _ in 0..self.order.len() {
            if room == 0 {
                break;
            }
            let Some(part) = self.order.pop_front() else { break };
            let Entry::Occupied(mut of_part) = self.parts.entry(part) else { continue };
            let waiting = of_part.get().requests.len();
            if let Some(known) = final_part(part) {
                batch.final_parts.push((known, of_part.remove().requests));
                self.len -= waiting;
                continue;
            }
            if of_part.get().snapshot == Snapshot::Due && waiting >= bulk_min {
                if batch.asks.is_empty() {
                    batch.bulk = Some((part, of_part.remove().requests));
                    self.len -= waiting;
                } else {
                    self.order.push_front(part);
                }
                break;
            }
            let (grabbers, waiters) = take_users(&mut of_part.get_mut().requests, room);
            self.len -= waiting - of_part.get().requests.len();
            room -= grabbers.len();
            batch.asks.push((part, grabbers));
            batch.waiters.push(waiters);
            if of_part.get().requests.is_empty() {
                of_part.remove();
            } else {
                self.order.push_back(part);
            }
        }
        batch
    }

    /// Takes in what a call has shown.
    fn absorb(&mut self, seen: Seen) {
        if let Some((part, mut requests)) = seen.one_by_one {
            self.len += requests.len();
            let of_part = self.parts.entry(part).or_default();
            if of_part.requests.is_empty() {
                self.order.push_back(part);
            }
            requests.append(&mut of_part.requests);
            *of_part = PartQueue { requests, snapshot: Snapshot::InVain };
        }
        for part in seen.had_nothing {
            if let Some(of_part) = self.parts.get_mut(&part).filter(|queue| queue.snapshot == Snapshot::TooEarly) {
                of_part.snapshot = Snapshot::Due;
            }
        }
        if let Some(failure) = seen.failure {
            // The waiting requests would receive the same, only later.
            for request in std::mem::take(self).parts.into_values().flat_map(|of_part| of_part.requests) {
                let _ = request.answer.send(Err(failure.clone()));
            }
        }
    }
}

/// Takes up to `room` users, at least one, from the front of a part's queue, each with the senders of their equal requests. It
/// reads no more of the queue than that: in a rush it is long.
fn take_users(queue: &mut VecDeque<Request>, room: usize) -> (Vec<Grabber>, Vec<Waiters>) {
    let most = room.min(queue.len());
    let (mut grabbers, mut waiters) = (Vec::<Grabber>::with_capacity(most), Vec::<Waiters>::with_capacity(most));
    let mut places = HashMap::<UserId, usize>::with_capacity(most);
    let mut others = Vec::new();
    while grabbers.len() + others.len() < room {
        let Some(Request { grabber, answer }) = queue.pop_front() else { break };
        match places.get(&grabber.user) {
            Some(&place) if grabbers[place] == grabber => waiters[place].push(answer),
            // The same user with another passphrase is another question.
            Some(_) => others.push(Request { grabber, answer }),
            None => {
                places.insert(grabber.user.clone(), grabbers.len());
                grabbers.push(grabber);
                waiters.push(vec![answer]);
            }
        }
    }
    for request in others.into_iter().rev() {
        queue.push_front(request);
    }
    (grabbers, waiters)
}

#[cfg(test)]
mod tests;
