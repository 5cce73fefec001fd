use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

/// Work that is done once for all who ask for it at the same time: whoever comes while it is under way shares its result.
pub struct Flights<K, V> {
    under_way: Arc<Mutex<HashMap<K, Flight<V>>>>,
}

type Flight<V> = Shared<BoxFuture<'static, Option<V>>>;

impl<K, V> Flights<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// With nothing under way.
    pub fn new() -> Self {
        Self { under_way: Arc::default() }
    }

    /// The result of the work for `key`, started by `work` unless it is under way. It runs in a task of its own, so that a
    /// caller who is dropped doesn't take it from the others. `None`: the work panicked.
    pub async fn join<F>(&self, key: K, work: impl FnOnce() -> F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let flight = {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(flight) = under_way.get(&key) {
                flight.clone()
            } else {
                let task = tokio::spawn(work());
                let (all, done) = (Arc::clone(&self.under_way), key.clone());
                let landing = async move {
                    let result = task.await.ok();
                    all.lock().unwrap_or_else(PoisonError::into_inner).remove(&done);
                    result
                };
                // Landing is driven by a task too: the entry goes even if every caller is dropped.
                let landing = tokio::spawn(landing);
                let flight = async move { landing.await.ok().flatten() }.boxed().shared();
                under_way.insert(key, flight.clone());
                flight
            }
        };
        flight.await
    }
}
