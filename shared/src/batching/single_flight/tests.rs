use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

use super::*;

/// Work that counts how often it began, and ends when it may.
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
async fn requests_share_the_call_in_flight() {
    let flights = SingleFlight::<u32, u32>::default();
    let (work, gate) = (Arc::<Work>::default(), Arc::new(Semaphore::new(0)));
    let ask = || {
        let (work, gate) = (Arc::clone(&work), Arc::clone(&gate));
        flights.run(7, move || work.run(gate))
    };
    let both = (ask(), ask());
    gate.add_permits(1);
    assert_eq!((both.0.await, both.1.await), (Some(1), Some(1)));
    gate.add_permits(1);
    assert_eq!(ask().await, Some(2), "the first call is over");
    assert!(lock(&flights.in_flight).is_empty());
}

#[tokio::test]
async fn a_duty_answers_those_who_wait_or_tells_that_the_call_was_lost() {
    let flights = SingleFlight::<u32, u32>::default();
    for result in [Some(3), None] {
        let (first, duty) = flights.enter(7);
        let (second, none) = flights.enter(7);
        assert!(none.is_none(), "one call is in flight");
        let duty = duty.unwrap();
        assert_eq!(*duty.key(), 7);
        match result {
            Some(result) => duty.resolve(result),
            None => drop(duty),
        }
        assert_eq!((first.result().await, second.result().await), (result, result));
    }
}

#[test]
fn a_runtime_that_shuts_down_answers_with_a_loss_and_blocks_nobody() {
    let flights = SingleFlight::<u32, u32>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _context = handle.enter();
    // A task of a runtime that is gone is dropped while it is spawned.
    let lost = flights.run(7, async || 1);
    assert_eq!(futures::FutureExt::now_or_never(lost), Some(None));
    assert!(lock(&flights.in_flight).is_empty());
}

#[tokio::test]
async fn late_requests_share_the_next_call() {
    let flights = Arc::new(FreshSingleFlight::<u32, u32>::default());
    let (work, gate) = (Arc::<Work>::default(), Arc::new(Semaphore::new(0)));
    let ask = || {
        let (work, gate) = (Arc::clone(&work), Arc::clone(&gate));
        flights.run(7, move || work.run(gate))
    };
    let first = ask();
    work.has_begun.notified().await;
    let late: Vec<_> = (0..100).map(|_| ask()).collect();
    yield_now().await;
    assert_eq!(work.begun.load(Ordering::SeqCst), 1, "one at a time");
    gate.add_permits(2);
    assert_eq!(first.await, Some(1));
    for late in late {
        assert_eq!(late.await, Some(2));
    }
}

#[tokio::test]
async fn only_those_who_share_a_panicked_call_are_answered_with_a_loss() {
    let flights = FreshSingleFlight::<u32, u32>::default();
    assert_eq!(flights.run(7, || async { panic!("by the test") }).await, None);
    assert_eq!(flights.run(7, || async { 3 }).await, Some(3));
}

#[tokio::test]
async fn a_call_goes_on_without_its_first_caller() {
    let flights = FreshSingleFlight::<u32, u32>::default();
    let (work, gate) = (Arc::<Work>::default(), Arc::new(Semaphore::new(0)));
    let ask = || {
        let (work, gate) = (Arc::clone(&work), Arc::clone(&gate));
        flights.run(7, move || work.run(gate))
    };
    drop(ask());
    work.has_begun.notified().await;
    gate.add_permits(2);
    assert_eq!(ask().await, Some(2));
}
