use std::hash::Hash;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use futures::future::BoxFuture;
use tokio::sync::SetOnce;

use super::batcher::{Batcher, Caller};
use crate::lock;

/// Where the result of a call appears. Thousands may wait for it, each at the cost of an entry in a list. They are answered in
/// the order in which they came, so that a simulation can be repeated.
pub struct Flight<V>(
    /// `None`: the call was lost in a panic or a shutdown.
    SetOnce<Option<V>>,
);

impl<V> Flight<V> {
    /// Starts a call in a task of its own: a caller that is dropped does not take it from the others.
    pub fn begin(work: impl Future<Output = V> + Send + 'static) -> Arc<Self>
    where
        V: Send + Sync + 'static,
    {
        let answer = Answer::new();
        let flight = Arc::clone(&answer.flight);
        tokio::spawn(async move { answer.give(work.await) });
        flight
    }

    /// The result, if the call has ended; `None` in its place: the call was lost.
    pub fn ended(&self) -> Option<&Option<V>> {
        self.0.get()
    }
}

impl<V: Clone> Flight<V> {
    /// The result; `None` if the call was lost.
    pub async fn result(self: Arc<Self>) -> Option<V> {
        self.0.wait().await.clone()
    }
}

/// The duty to give a call its result. If it is dropped without one, it answers that the call was lost.
struct Answer<V> {
    flight: Arc<Flight<V>>,
    result: Option<V>,
}

impl<V> Answer<V> {
    fn new() -> Self {
        Self { flight: Arc::new(Flight(SetOnce::new())), result: None }
    }

    fn give(mut self, result: V) {
        self.result = Some(result);
    }
}

impl<V> Drop for Answer<V> {
    fn drop(&mut self) {
        // Nobody else sets it.
        let _ = self.flight.0.set(self.result.take());
    }
}

type InFlight<K, V> = Arc<Mutex<HashMap<K, Arc<Flight<V>>>>>;

/// One call for all who ask the same at the same time: a request that finds the call in flight shares its result.
pub struct SingleFlight<K: Eq + Hash, V> {
    in_flight: InFlight<K, V>,
}

/// The duty to give a call of a [`SingleFlight`] its result. Once it ends, requests for its key start a new call.
pub struct Duty<K: Eq + Hash, V> {
    in_flight: InFlight<K, V>,
    key: K,
    answer: Answer<V>,
}

impl<K: Eq + Hash, V> Duty<K, V> {
    /// The key of the call.
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// Answers all who wait.
    pub fn resolve(mut self, result: V) {
        self.answer.result = Some(result);
    }
}

impl<K: Eq + Hash, V> Drop for Duty<K, V> {
    fn drop(&mut self) {
        // This comes before the answer, which is dropped after this function.
        lock(&self.in_flight).remove(&self.key);
    }
}

impl<K: Eq + Hash, V> Default for SingleFlight<K, V> {
    /// Nothing is in flight yet.
    fn default() -> Self {
        Self { in_flight: Arc::default() }
    }
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The call for `key`; and the duty to answer it, if none was in flight.
    pub fn enter(&self, key: K) -> (Arc<Flight<V>>, Option<Duty<K, V>>) {
        let mut in_flight = lock(&self.in_flight);
        if let Some(flight) = in_flight.get(&key) {
            return (Arc::clone(flight), None);
        }
        let answer = Answer::new();
        let flight = Arc::clone(&answer.flight);
        in_flight.insert(key.clone(), Arc::clone(&flight));
        (flight, Some(Duty { in_flight: Arc::clone(&self.in_flight), key, answer }))
    }

    /// The result of the call for `key`, which `work` makes unless one is in flight. The call runs in a task of its own: a
    /// caller that is dropped does not take it from the others. `None`: the call was lost.
    pub fn run<F, W>(&self, key: K, work: W) -> impl Future<Output = Option<V>> + use<K, V, F, W>
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let (flight, duty) = self.enter(key);
        if let Some(duty) = duty {
            let work = work();
            // The lock is released by now: a runtime that shuts down drops the task here, and with it the duty, which locks.
            tokio::spawn(async move { duty.resolve(work.await) });
        }
        flight.result()
    }
}

/// Like [`SingleFlight`], but nobody receives the result of a call that began before they asked: requests that find a call in
/// flight share the next one. So at most one call is in flight for a key, and one waits to begin.
pub struct FreshSingleFlight<K, V>(Arc<Batcher<Fresh<K, V>>>)
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static;

/// The batches of a [`FreshSingleFlight`]: a batch is one call, with all who wait for it.
struct Fresh<K, V>(std::marker::PhantomData<fn(K) -> V>);

struct Call<V> {
    answer: Answer<V>,
    work: Box<dyn FnOnce() -> BoxFuture<'static, V> + Send>,
}

impl<K, V> Caller for Fresh<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    type Key = K;
    type Queue = Option<Call<V>>;
    type Batch = Option<Call<V>>;
    type Report = ();

    fn in_flight_max(&self) -> usize {
        1
    }

    fn waiting(queue: &Self::Queue) -> usize {
        usize::from(queue.is_some())
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.take()
    }

    async fn call(&self, _key: &K, batch: Self::Batch) {
        if let Some(Call { answer, work }) = batch {
            answer.give(work().await);
        }
    }
}

impl<K, V> Default for FreshSingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Nothing is in flight yet.
    fn default() -> Self {
        Self(Arc::new(Batcher::new(Fresh(std::marker::PhantomData))))
    }
}

impl<K, V> FreshSingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The result of a call for `key` that begins after this: `work`, unless another one already waits to begin. `None`: the
    /// call was lost.
    pub fn run<F, W>(&self, key: K, work: W) -> impl Future<Output = Option<V>> + use<K, V, F, W>
    where
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = V> + Send + 'static,
    {
        let flight = self.0.submit(key, |next| {
            let call = next.get_or_insert_with(|| Call { answer: Answer::new(), work: Box::new(|| Box::pin(work())) });
            Arc::clone(&call.answer.flight)
        });
        flight.result()
    }
}

#[cfg(test)]
mod tests;
