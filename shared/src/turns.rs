//! Who comes first is served first, and who comes to more than can be served is sent away soon.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long a request of a burst waits for its turn.
const PATIENCE: Duration = Duration::from_secs(6);
/// A queue that has not been empty for this long is no burst: more comes in than goes out.
const BURST: Duration = Duration::from_secs(2);
/// How long a request waits that comes to such a queue.
const PATIENCE_OVERLOADED: Duration = Duration::from_millis(250);

/// More was asked for than can be done in time.
#[derive(Debug, thiserror::Error)]
#[error("no turn within {0:?}: more is asked for than is answered")]
pub struct Overloaded(Duration);

/// A turn, which ends when it is dropped.
pub type Turn = OwnedSemaphorePermit;

/// Turns for requests, of which a bounded number is under way at once; the others wait in line, but not for ever.
///
/// A burst is served to its end. Under lasting overload whoever comes new is sent away soon, so that those who are served
/// are served in time: "controlled delay", as in Ben Maurer, *Fail at Scale*, ACM Queue 13 (2015).
#[derive(Debug)]
pub struct Turns {
    permits: Arc<Semaphore>,
    patience: Duration,
    /// When somebody last found nobody waiting.
    was_empty_at: Mutex<Instant>,
}

impl Turns {
    /// For `at_once` requests at once.
    #[must_use]
    pub fn new(at_once: usize) -> Self {
        Self::with_patience(at_once, PATIENCE)
    }

    /// The same, but nobody waits for longer than `patience`.
    #[must_use]
    pub fn with_patience(at_once: usize, patience: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(at_once)), patience, was_empty_at: Mutex::new(Instant::now()) }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// There was none in time.
    pub async fn take(&self) -> Result<Turn, Overloaded> {
        let patience = {
            let mut was_empty_at = crate::lock(&self.was_empty_at);
            // Turns go to those who wait, in order: one that is to be had at once means that nobody does.
            if let Ok(turn) = Arc::clone(&self.permits).try_acquire_owned() {
                *was_empty_at = Instant::now();
                return Ok(turn);
            }
            if was_empty_at.elapsed() < BURST { self.patience } else { self.patience.min(PATIENCE_OVERLOADED) }
        };
        let turn = timeout(patience, Arc::clone(&self.permits).acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or(Overloaded(patience))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const SERVICE: Duration = Duration::from_millis(10);

    /// How long each of those who were served and of those who were sent away had waited.
    #[derive(Debug, Default)]
    struct Waited {
        served: Vec<Duration>,
        refused: Vec<Duration>,
    }

    /// Ten turns at once, each 10 ms long: 1,000 requests a second can be served. `arrivals` tells when each comes.
    async fn run(turns: &Arc<Turns>, arrivals: impl Iterator<Item = Duration>) -> Waited {
        let mut all = JoinSet::new();
        for arrival in arrivals {
            let turns = Arc::clone(turns);
            all.spawn(async move {
                sleep(arrival).await;
                let came = Instant::now();
                let turn = turns.take().await;
                let waited = came.elapsed();
                let served = turn.is_ok();
                if served {
                    sleep(SERVICE).await;
                }
                drop(turn);
                (served, waited)
            });
        }
        let mut waited = Waited::default();
        while let Some(one) = all.join_next().await {
            let (served, time) = one.unwrap();
            if served { waited.served.push(time) } else { waited.refused.push(time) }
        }
        waited
    }

    /// `per_ms` requests in each millisecond of a time.
    fn steady(per_ms: u64, from_ms: u64, to_ms: u64) -> impl Iterator<Item = Duration> {
        (from_ms..to_ms).flat_map(move |ms| (0..per_ms).map(move |_| Duration::from_millis(ms)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_served_to_its_end() {
        let waited = run(&Arc::new(Turns::new(10)), steady(5_000, 0, 1)).await;
        assert_eq!((waited.served.len(), waited.refused.len()), (5_000, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn under_lasting_overload_answers_come_soon_and_no_turn_is_wasted() {
        // Three times as much as can be served, for half a minute, by the end of which nobody has patience left from the
        // time when it looked like a burst.
        let turns = Arc::new(Turns::new(10));
        let overload = run(&turns, steady(3, 0, 30_000)).await;
        assert_eq!(overload.served.len() + overload.refused.len(), 90_000);
        assert!(overload.served.len() > 29_000, "turns were left unused: {}", overload.served.len());
        let late = overload.refused.iter().filter(|waited| **waited > PATIENCE_OVERLOADED).count();
        assert!(late < 6_000, "{late} were sent away late");
        assert!(overload.refused.iter().chain(&overload.served).all(|waited| *waited <= PATIENCE));
        // When the load falls everybody is served again, at once.
        let after = run(&turns, steady(1, 100, 1_000)).await;
        assert_eq!(after.refused.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_is_mute_refuses_soon() {
        let turns = Arc::new(Turns::new(10));
        let held: Vec<_> = futures::future::try_join_all((0..10).map(|_| turns.take())).await.unwrap();
        sleep(BURST).await;
        let came = Instant::now();
        assert!(turns.take().await.is_err());
        assert_eq!(came.elapsed(), PATIENCE_OVERLOADED);
        drop(held);
        assert!(turns.take().await.is_ok());
    }
}
