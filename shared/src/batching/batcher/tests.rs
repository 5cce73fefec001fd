use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::*;

/// Calls that answer with the number of requests in their batch, once a permit lets them. The request 13 panics.
struct Counting {
    in_flight_max: usize,
    gate: Semaphore,
}

type Request = (u32, oneshot::Sender<usize>);

const BATCH_MAX: usize = 10;

impl Caller for Counting {
    const WORTH_A_CALL: usize = 3;

    type Key = &'static str;
    type Queue = Vec<Request>;
    type Batch = Vec<Request>;
    /// Whether the requests that wait are to be dropped.
    type Report = bool;

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.drain(..queue.len().min(BATCH_MAX)).collect()
    }

    async fn call(&self, _key: &&'static str, batch: Self::Batch) -> bool {
        self.gate.acquire().await.unwrap().forget();
        assert!(batch.iter().all(|(number, _)| *number != 13), "by the test");
        let (size, fails) = (batch.len(), batch.iter().any(|(number, _)| *number == 99));
        for (_, answer) in batch {
            let _ = answer.send(size);
        }
        fails
    }

    fn after_call(&self, queue: &mut Self::Queue, fails: bool) {
        if fails {
            queue.clear();
        }
    }
}

fn batcher(in_flight_max: usize) -> Arc<Batcher<Counting>> {
    Arc::new(Batcher::new(Counting { in_flight_max, gate: Semaphore::new(0) }))
}

fn submit(batcher: &Arc<Batcher<Counting>>, key: &'static str, number: u32) -> oneshot::Receiver<usize> {
    let (answer, answered) = oneshot::channel();
    batcher.submit(key, |queue| queue.push((number, answer)));
    answered
}

fn open(batcher: &Batcher<Counting>, calls: usize) {
    batcher.caller().gate.add_permits(calls);
}

#[tokio::test]
async fn a_lone_request_goes_at_once_and_those_that_come_meanwhile_share_the_next_call() {
    let batcher = batcher(1);
    let first = submit(&batcher, "a", 0);
    let later: Vec<_> = (1..5).map(|number| submit(&batcher, "a", number)).collect();
    let other = submit(&batcher, "b", 0);
    open(&batcher, 3);
    assert_eq!(first.await, Ok(1));
    for answer in later {
        assert_eq!(answer.await, Ok(4));
    }
    assert_eq!(other.await, Ok(1), "another key has calls of its own");
}

#[tokio::test]
async fn a_batch_is_bounded_and_the_rest_goes_into_the_next() {
    let batcher = batcher(1);
    let all: Vec<_> = (100..=125).map(|number| submit(&batcher, "a", number)).collect();
    open(&batcher, 4);
    let mut sizes = Vec::new();
    for answer in all {
        sizes.push(answer.await.unwrap());
    }
    let expected: Vec<usize> =
        [(1, 1), (10, 10), (10, 10), (5, 5)].into_iter().flat_map(|(n, size)| vec![size; n]).collect();
    assert_eq!(sizes, expected);
}

#[tokio::test]
async fn another_call_goes_once_enough_wait_for_it_but_not_more_than_the_most() {
    let batcher = batcher(2);
    let first = submit(&batcher, "a", 0);
    let next: Vec<_> = (1..4).map(|number| submit(&batcher, "a", number)).collect();
    let last: Vec<_> = (4..9).map(|number| submit(&batcher, "a", number)).collect();
    assert_eq!(lock(&batcher.lanes)["a"].in_flight, 2);
    assert_eq!(lock(&batcher.lanes)["a"].queue.len(), 5, "two calls are the most");
    open(&batcher, 3);
    assert_eq!(first.await, Ok(1));
    for answer in next {
        assert_eq!(answer.await, Ok(3));
    }
    for answer in last {
        assert_eq!(answer.await, Ok(5));
    }
}

#[tokio::test]
async fn a_call_that_ends_beside_another_one_is_followed_by_one_for_enough_requests() {
    for (waiting, in_flight, left) in [(2, 1, 2), (3, 2, 0)] {
        let batcher = batcher(2);
        let first = submit(&batcher, "a", 0);
        let _beside: Vec<_> = (1..4).map(|number| submit(&batcher, "a", number)).collect();
        let _waiting: Vec<_> = (0..waiting).map(|number| submit(&batcher, "a", 4 + number)).collect();
        open(&batcher, 1);
        assert_eq!(first.await, Ok(1));
        let lanes = lock(&batcher.lanes);
        assert_eq!((lanes["a"].in_flight, lanes["a"].queue.len()), (in_flight, left), "{waiting} wait");
    }
}

/// Waits until nothing is in flight.
async fn settle(batcher: &Batcher<Counting>) {
    let idle = async {
        while batcher.keys_in_flight() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), idle).await.expect("every call ends");
}

#[tokio::test]
async fn what_a_call_tells_reaches_those_who_wait() {
    let batcher = batcher(1);
    let first = submit(&batcher, "a", 99);
    let waiting = submit(&batcher, "a", 1);
    open(&batcher, 10);
    assert_eq!(first.await, Ok(1));
    assert!(waiting.await.is_err(), "it was dropped");
    assert_eq!(submit(&batcher, "a", 2).await, Ok(1));
}

#[tokio::test]
async fn a_panic_of_the_last_call_ends_its_key_and_the_next_request_starts_anew() {
    let batcher = batcher(1);
    let lost = submit(&batcher, "a", 13);
    let waiting = submit(&batcher, "a", 1);
    open(&batcher, 10);
    assert!(lost.await.is_err() && waiting.await.is_err());
    assert_eq!(submit(&batcher, "a", 2).await, Ok(1));
    settle(&batcher).await;
}

#[tokio::test]
async fn a_panic_leaves_other_calls_of_its_key_as_they_are() {
    let batcher = batcher(2);
    let lost = submit(&batcher, "a", 13);
    let others: Vec<_> = (1..4).map(|number| submit(&batcher, "a", number)).collect();
    let waiting: Vec<_> = (4..6).map(|number| submit(&batcher, "a", number)).collect();
    open(&batcher, 1);
    assert!(lost.await.is_err());
    assert_eq!(lock(&batcher.lanes)["a"].in_flight, 1, "the count is right");
    open(&batcher, 2);
    for answer in others {
        assert_eq!(answer.await, Ok(3));
    }
    for answer in waiting {
        assert_eq!(answer.await, Ok(2), "the other call takes them along");
    }
    settle(&batcher).await;
}

#[test]
fn a_runtime_that_shuts_down_answers_with_a_loss_and_blocks_nobody() {
    let batcher = batcher(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let in_flight = {
        let _context = handle.enter();
        submit(&batcher, "a", 0)
    };
    drop(runtime);
    assert!(in_flight.blocking_recv().is_err());
    // A task of a runtime that is gone is dropped while it is spawned.
    let _context = handle.enter();
    assert!(submit(&batcher, "a", 1).blocking_recv().is_err());
    assert_eq!(batcher.keys_in_flight(), 0);
}
