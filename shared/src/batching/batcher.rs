use std::hash::Hash;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;

use crate::lock;

/// What a [`Batcher`] collects, and the call that it makes for it.
pub trait Caller: Send + Sync + 'static {
    /// The number of waiting requests that starts another call beside those in flight. Fewer wait until the last of these ends.
    const WORTH_A_CALL: usize = 1;

    /// What requests must share to go into one call.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The requests that wait for a key. If this is dropped, they receive no answer.
    type Queue: Default + Send;
    /// The requests of one call.
    type Batch: Send;
    /// What a call shows about the requests that still wait.
    type Report: Send;

    /// The most calls in flight for one key.
    fn in_flight_max(&self) -> usize;

    /// The number of requests in a queue.
    fn waiting(queue: &Self::Queue) -> usize;

    /// Takes the requests of the next call out of a queue that is not empty.
    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch;

    /// Makes a call and answers its requests.
    fn call(&self, key: &Self::Key, batch: Self::Batch) -> impl Future<Output = Self::Report> + Send;

    /// Changes the queue after a call, before the next one of its key.
    fn after_call(&self, _queue: &mut Self::Queue, _report: Self::Report) {}
}

/// Collects the requests that arrive while a call for their key is in flight, and sends them in the next one. It has no timer: a
/// lone request goes at once.
///
/// A call runs in a task of its own: a caller that is dropped does not take it from those who share it. If a call is lost in a
/// panic or a shutdown, its requests are dropped unanswered. So are those that wait, unless another call is in flight, which
/// serves them.
pub struct Batcher<C: Caller> {
    caller: C,
    lanes: Mutex<Lanes<C>>,
}

/// The keys with a call in flight.
type Lanes<C> = HashMap<<C as Caller>::Key, Lane<<C as Caller>::Queue>>;

#[derive(Default)]
struct Lane<Q> {
    in_flight: usize,
    queue: Q,
}

impl<C: Caller> Batcher<C> {
    /// A batcher that makes the calls of `caller`. Nothing is in flight yet.
    pub fn new(caller: C) -> Self {
        Self { caller, lanes: Mutex::default() }
    }

    /// What makes the calls.
    pub const fn caller(&self) -> &C {
        &self.caller
    }

    /// Adds a request for `key` with `push`, and starts a call if one is due. Returns what `push` does: the way to the answer.
    pub fn submit<A>(self: &Arc<Self>, key: C::Key, push: impl FnOnce(&mut C::Queue) -> A) -> A {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry(key.clone()).or_default();
        let answer = push(&mut lane.queue);
        let waiting = C::waiting(&lane.queue);
        let is_full = lane.in_flight >= self.caller.in_flight_max();
        let is_due = lane.in_flight == 0 || !is_full && waiting >= C::WORTH_A_CALL;
        if is_due {
            let batch = self.caller.next_batch(&mut lane.queue);
            lane.in_flight += 1;
            drop(lanes);
            let call = Calls { batcher: Arc::clone(self), key, ended: false };
            // The lock is released by now: a runtime that shuts down drops the task here, and the drop locks.
            tokio::spawn(call.run(batch));
        }
        answer
    }

    /// The number of keys with a call in flight.
    #[cfg(test)]
    pub(crate) fn keys_in_flight(&self) -> usize {
        lock(&self.lanes).len()
    }
}

/// Calls for a key, one after the other, as long as requests wait. They count as one in flight.
struct Calls<C: Caller> {
    batcher: Arc<Batcher<C>>,
    key: C::Key,
    ended: bool,
}

impl<C: Caller> Calls<C> {
    async fn run(mut self, mut batch: C::Batch) {
        loop {
            let report = self.batcher.caller.call(&self.key, batch).await;
            match self.next(report) {
                Some(next) => batch = next,
                None => return,
            }
        }
    }

    /// The next batch. `None` if these calls are over: no request waits, or so few that the other calls will serve them.
    fn next(&mut self, report: C::Report) -> Option<C::Batch> {
        let (caller, mut lanes) = (&self.batcher.caller, lock(&self.batcher.lanes));
        let lane = lanes.get_mut(&self.key)?;
        caller.after_call(&mut lane.queue, report);
        let waiting = C::waiting(&lane.queue);
        if waiting > 0 && (lane.in_flight == 1 || waiting >= C::WORTH_A_CALL) {
            return Some(caller.next_batch(&mut lane.queue));
        }
        // This needs the lock of the decision: a request that comes in between would wait for a call for ever.
        self.ended = true;
        leave::<C>(&mut lanes, &self.key);
        None
    }
}

impl<C: Caller> Drop for Calls<C> {
    fn drop(&mut self) {
        if !self.ended {
            let lost = leave::<C>(&mut lock(&self.batcher.lanes), &self.key);
            // The lock is released by now: requests that are dropped may run code of their own.
            drop(lost);
        }
    }
}

/// Ends one of the calls in flight for a key. Returns the lane if that was the last one.
fn leave<C: Caller>(lanes: &mut Lanes<C>, key: &C::Key) -> Option<Lane<C::Queue>> {
    let lane = lanes.get_mut(key)?;
    lane.in_flight -= 1;
    if lane.in_flight > 0 { None } else { lanes.remove(key) }
}

#[cfg(test)]
mod tests;
