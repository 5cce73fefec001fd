use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use foldhash::HashMap;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, SetOnce};

use crate::lock;

/// Work that is done once for all who ask for it at the same time: whoever comes while it is under way shares its result.
pub struct Flights<K: Eq + Hash, V> {
    under_way: Arc<Mutex<HashMap<K, Arc<Flight<V>>>>>,
}

/// Where the result of work shows once it is there. Thousands may wait for it, each at the cost of an entry in a list; they
/// hear of it in the order in which they came, so that a simulation can be repeated.
pub struct Flight<V>(
    /// `None`: the work panicked.
    SetOnce<Option<V>>,
);

impl<V: Clone> Flight<V> {
    /// Which is not under way yet, and what is to end it.
    fn new() -> (Arc<Self>, Landing<V>) {
        let flight = Arc::new(Self(SetOnce::new()));
        (Arc::clone(&flight), Landing { flight, result: None })
    }

    /// Its result, once it is there.
    pub async fn landed(self: Arc<Self>) -> Option<V> {
        self.0.wait().await.clone()
    }
}

/// The end of a flight: dropped, it tells those who wait the result, or that there is none.
struct Landing<V> {
    flight: Arc<Flight<V>>,
    result: Option<V>,
}

impl<V> Drop for Landing<V> {
    fn drop(&mut self) {
        // It is the only one who sets it.
        let _ = self.flight.0.set(self.result.take());
    }
}

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
        self.flight(key, work).landed().await
    }

    /// The same, for whoever waits in little room: work is under way once this returns.
    pub fn flight<F>(&self, key: K, work: impl FnOnce() -> F) -> Arc<Flight<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut under_way = lock(&self.under_way);
        if let Some(flight) = under_way.get(&key) {
            return Arc::clone(flight);
        }
        let (flight, landing) = Flight::new();
        under_way.insert(key.clone(), Arc::clone(&flight));
        let entry = Entry { under_way: Arc::clone(&self.under_way), key, landing };
        let work = work();
        tokio::spawn(async move {
            let result = work.await;
            entry.end(result);
        });
        flight
    }
}

/// A flight among those under way. Dropped, also by a panic, it is taken out of them, and then ended.
struct Entry<K: Eq + Hash, V> {
    under_way: Arc<Mutex<HashMap<K, Arc<Flight<V>>>>>,
    key: K,
    landing: Landing<V>,
}

impl<K: Eq + Hash, V> Entry<K, V> {
    fn end(mut self, result: V) {
        self.landing.result = Some(result);
    }
}

impl<K: Eq + Hash, V> Drop for Entry<K, V> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.key);
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
    boarding: Option<Arc<Flight<V>>>,
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
                Arc::clone(flight)
            } else {
                let (turn, runways) = (Arc::clone(&runway.turn), Arc::clone(&self.runways));
                let (flight, landing) = Flight::new();
                tokio::spawn(async move {
                    let turn = turn.lock_owned().await;
                    // From here on something may happen that this work has not seen.
                    if let Some(runway) = lock(&runways).get_mut(&key) {
                        runway.boarding = None;
                    }
                    let in_use = InUse { runways, key, _turn: turn, landing };
                    let result = work().await;
                    in_use.end(result);
                });
                runway.boarding = Some(Arc::clone(&flight));
                flight
            }
        };
        flight.landed().await
    }
}

/// A runway in use. Dropped, also by a panic, it is taken away if nobody waits for it, then given to the next, and its flight
/// ended.
struct InUse<K: Eq + Hash, V> {
    runways: Arc<Mutex<HashMap<K, Runway<V>>>>,
    key: K,
    _turn: OwnedMutexGuard<()>,
    landing: Landing<V>,
}

impl<K: Eq + Hash, V> InUse<K, V> {
    fn end(mut self, result: V) {
        self.landing.result = Some(result);
    }
}

impl<K: Eq + Hash, V> Drop for InUse<K, V> {
    fn drop(&mut self) {
        let mut runways = lock(&self.runways);
        if runways.get(&self.key).is_some_and(|runway| runway.boarding.is_none()) {
            runways.remove(&self.key);
        }
    }
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
