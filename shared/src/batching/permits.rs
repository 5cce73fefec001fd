use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long a request of a burst waits for a permit.
const BURST_TIMEOUT: Duration = Duration::from_secs(6);
/// A queue that has not been empty for this long is overload, not a burst: requests arrive faster than they are served.
const BURST_MAX: Duration = Duration::from_secs(2);
/// How long a request waits under overload.
const OVERLOAD_TIMEOUT: Duration = Duration::from_millis(250);

/// There was no permit in time.
#[derive(Debug, thiserror::Error)]
#[error("no permit within {0:?}: requests arrive faster than they are served")]
pub struct Overloaded(Duration);

/// The right to one request in flight, until it is dropped.
pub type Permit = OwnedSemaphorePermit;

/// Bounds the requests in flight. Requests are served in the order in which they came. Under lasting overload they are rejected
/// early.
///
/// A burst is served to its end. Under overload a new request waits for a short time only, so that served requests are served
/// in time. That is "controlled delay" as in Ben Maurer, *Fail at Scale*, ACM Queue 13 (2015).
#[derive(Debug)]
pub struct Permits {
    free: Arc<Semaphore>,
    burst_timeout: Duration,
    /// When a request last found the queue empty.
    was_empty_at: Mutex<Instant>,
}

impl Permits {
    /// A limiter that allows at most `in_flight_max` requests in flight.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Self {
        Self::with_timeout(in_flight_max, BURST_TIMEOUT)
    }

    /// The same, but no request waits for longer than `timeout`.
    #[must_use]
    pub fn with_timeout(in_flight_max: usize, timeout: Duration) -> Self {
        let free = Arc::new(Semaphore::new(in_flight_max));
        Self { free, burst_timeout: timeout, was_empty_at: Mutex::new(Instant::now()) }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// There was no permit in time.
    pub async fn acquire(&self) -> Result<Permit, Overloaded> {
        let most = {
            let mut was_empty_at = crate::lock(&self.was_empty_at);
            // The semaphore serves its queue in order: a permit that is free at once means that the queue is empty.
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                *was_empty_at = Instant::now();
                return Ok(permit);
            }
            let is_burst = was_empty_at.elapsed() < BURST_MAX;
            if is_burst { self.burst_timeout } else { self.burst_timeout.min(OVERLOAD_TIMEOUT) }
        };
        let permit = timeout(most, Arc::clone(&self.free).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or(Overloaded(most))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const SERVICE: Duration = Duration::from_millis(10);

    /// The time that each request waited.
    #[derive(Debug, Default)]
    struct Waited {
        served: Vec<Duration>,
        refused: Vec<Duration>,
    }

    /// Serves requests with ten permits, each for 10 ms, so at most 1,000 a second. `arrivals` says when each request comes.
    async fn run(limiter: &Arc<Permits>, arrivals: impl Iterator<Item = Duration>) -> Waited {
        let mut all = JoinSet::new();
        for arrival in arrivals {
            let limiter = Arc::clone(limiter);
            all.spawn(async move {
                sleep(arrival).await;
                let came = Instant::now();
                let permit = limiter.acquire().await;
                let waited = came.elapsed();
                let served = permit.is_ok();
                if served {
                    sleep(SERVICE).await;
                }
                drop(permit);
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
        let waited = run(&Arc::new(Permits::new(10)), steady(5_000, 0, 1)).await;
        assert_eq!((waited.served.len(), waited.refused.len()), (5_000, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn under_lasting_overload_answers_come_soon_and_no_permit_is_wasted() {
        // Three times as much as can be served, for half a minute: longer than any request of the burst at its start waits.
        let limiter = Arc::new(Permits::new(10));
        let overload = run(&limiter, steady(3, 0, 30_000)).await;
        assert_eq!(overload.served.len() + overload.refused.len(), 90_000);
        assert!(overload.served.len() > 29_000, "permits were left unused: {}", overload.served.len());
        let late = overload.refused.iter().filter(|waited| **waited > OVERLOAD_TIMEOUT).count();
        assert!(late < 6_000, "{late} were rejected late");
        assert!(overload.refused.iter().chain(&overload.served).all(|waited| *waited <= BURST_TIMEOUT));
        // When the load falls, every request is served at once again.
        let after = run(&limiter, steady(1, 100, 1_000)).await;
        assert_eq!(after.refused.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_is_mute_refuses_soon() {
        let limiter = Arc::new(Permits::new(10));
        let held: Vec<_> = futures::future::try_join_all((0..10).map(|_| limiter.acquire())).await.unwrap();
        sleep(BURST_MAX).await;
        let came = Instant::now();
        assert!(limiter.acquire().await.is_err());
        assert_eq!(came.elapsed(), OVERLOAD_TIMEOUT);
        drop(held);
        assert!(limiter.acquire().await.is_ok());
    }
}
