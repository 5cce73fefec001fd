use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Mutex as Turn;

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

/// Like [`Flights`], but nobody gets a result of work that began before he asked: whoever comes while it is under way shares
/// the next one. So at most one is under way for a key and one about to begin, however many ask.
pub struct FreshFlights<K, V> {
    runways: Arc<Mutex<HashMap<K, Runway<V>>>>,
}

struct Runway<V> {
    turn: Arc<Turn<()>>,
    /// The flight that has not begun yet.
    boarding: Option<Flight<V>>,
}

impl<K, V> FreshFlights<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// With nothing under way.
    pub fn new() -> Self {
        Self { runways: Arc::default() }
    }

    /// The result of work for `key` that begins after this call: by `work`, unless there is one already that has yet to
    /// begin. It runs in a task of its own. `None`: the work panicked.
    pub async fn join<F>(&self, key: K, work: impl FnOnce() -> F + Send + 'static) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let flight = {
            let mut runways = lock(&self.runways);
            let runway = runways.entry(key.clone()).or_insert_with(|| Runway { turn: Arc::default(), boarding: None });
            if let Some(flight) = &runway.boarding {
                flight.clone()
            } else {
                let (turn, runways) = (Arc::clone(&runway.turn), Arc::clone(&self.runways));
                let task = tokio::spawn(async move {
                    let turn = turn.lock_owned().await;
                    // From here on something may happen that this work has not seen.
                    if let Some(runway) = lock(&runways).get_mut(&key) {
                        runway.boarding = None;
                    }
                    let landing = Landing { runways, key };
                    let result = work().await;
                    drop(landing);
                    drop(turn);
                    result
                });
                let flight = async move { task.await.ok() }.boxed().shared();
                runway.boarding = Some(flight.clone());
                flight
            }
        };
        flight.await
    }
}

/// Takes away the runway that nobody waits for, also after a panic.
struct Landing<K: Eq + Hash, V> {
    runways: Arc<Mutex<HashMap<K, Runway<V>>>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        let mut runways = lock(&self.runways);
        if runways.get(&self.key).is_some_and(|runway| runway.boarding.is_none()) {
            runways.remove(&self.key);
        }
    }
}

fn lock<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::{Notify, Semaphore};
    use tokio::task::yield_now;

    use super::*;

    /// Work that counts how often it began, and ends when it is let.
    #[derive(Default)]
    struct Work {
        begun: AtomicU32,
        has_begun: Notify,
    }

    impl Work {
        async fn run(self: Arc<Self>, gate: Arc<Semaphore>) -> u32 {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            self.has_begun.notify_one();
            gate.acquire().await.unwrap().forget();
            number
        }
    }

    #[tokio::test]
    async fn who_comes_late_gets_the_next_result_and_shares_it() {
        let flights = Arc::new(FreshFlights::<u32, u32>::new());
        let (work, gate) = (Arc::<Work>::default(), Arc::new(Semaphore::new(0)));
        let ask = || {
            let (flights, work, gate) = (Arc::clone(&flights), Arc::clone(&work), Arc::clone(&gate));
            tokio::spawn(async move { flights.join(7, move || work.run(gate)).await })
        };
        let first = ask();
        work.has_begun.notified().await;
        let late: Vec<_> = (0..100).map(|_| ask()).collect();
        while lock(&flights.runways)[&7].boarding.is_none() {
            yield_now().await;
        }
        assert_eq!(work.begun.load(Ordering::SeqCst), 1, "one at a time");
        gate.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(1));
        for late in late {
            assert_eq!(late.await.unwrap(), Some(2));
        }
        assert!(lock(&flights.runways).is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_told_to_those_who_share_it_alone() {
        let flights = FreshFlights::<u32, u32>::new();
        let broken = flights.join(7, || async { panic!("by the test") }).await;
        assert_eq!(broken, None);
        assert!(lock(&flights.runways).is_empty());
        assert_eq!(flights.join(7, || async { 3 }).await, Some(3));
    }

    #[tokio::test]
    async fn work_goes_on_without_who_began_it() {
        let flights = Arc::new(FreshFlights::<u32, u32>::new());
        let (work, gate) = (Arc::<Work>::default(), Arc::new(Semaphore::new(0)));
        let first = tokio::spawn({
            let (flights, work, gate) = (Arc::clone(&flights), Arc::clone(&work), Arc::clone(&gate));
            async move { flights.join(7, move || work.run(gate)).await }
        });
        work.has_begun.notified().await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        gate.add_permits(2);
        assert_eq!(flights.join(7, move || work.run(gate)).await, Some(2));
    }
}
