//! A backlog that one run of settle can't finish: the run uses all of its time and reports the rest. Time is tokio's
//! paused clock.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use shared::domain::AckMode;

mod scene;

use scene::{OPEN, SLOW, Scene, winner};

/// Partitions that settle processes at once; each waits for one transaction.
const AT_ONCE: u64 = 16;
const PACKETS: u64 = 200;

/// [`PACKETS`] packets, each with one held slip. From now on every transaction is slow.
async fn backlog() -> Scene {
    let scene = Scene::new(AckMode::Redis, PACKETS).await;
    for _ in 0..PACKETS {
        let terms = scene.send(1).await;
        scene.hold(&terms).await;
    }
    scene.slow_down();
    scene
}

#[tokio::test(start_paused = true)]
async fn a_run_uses_all_of_its_time_and_counts_the_rest() {
    let backlog = backlog().await;
    let report = backlog.settle(6 * SLOW).await;
    // Half of the time would suffice for 3 rounds.
    assert!(report.persisted > 3 * AT_ONCE, "{report:?}");
    assert_eq!(report.outbox_left, Some(PACKETS - report.persisted), "{report:?}");
    assert!(report.oldest_outbox_ms.is_some(), "{report:?}");

    let rest = backlog.settle(Duration::from_mins(5)).await;
    assert_eq!((rest.persisted, rest.outbox_left), (PACKETS - report.persisted, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_run_without_time_counts_all() {
    let backlog = backlog().await;
    let report = backlog.settle(Duration::ZERO).await;
    assert_eq!((report.persisted, report.outbox_left), (0, Some(PACKETS)));
}

#[tokio::test(start_paused = true)]
async fn young_holds_are_left_to_their_winners() {
    let scene = Scene::new(AckMode::Ledger, 20).await;
    for _ in 0..2 {
        let terms = scene.send(10).await;
        scene.hold(&terms).await;
    }
    let before = scene.transactions();
    for _ in 0..2 {
        scene.pass(Duration::from_millis(2_499));
        let report = scene.settle(Duration::from_mins(1)).await;
        assert_eq!((report.persisted, report.outbox_left), (0, Some(2)), "{report:?}");
        assert!(report.oldest_outbox_ms > Some(2_000), "{report:?}");
    }
    assert_eq!(scene.transactions(), before);
    scene.pass(Duration::from_millis(2));
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.persisted, report.outbox_left, report.oldest_outbox_ms), (2, Some(0), Some(0)), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_promise_that_is_not_in_the_ledger_yet_keeps_its_slip() {
    let scene = Scene::new(AckMode::Redis, 10).await;
    let terms = scene.send(10).await;
    scene.hold(&terms).await;
    scene.pass(OPEN);
    // The winner's wallet does not answer; the sender's does.
    scene.stick(winner());
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.refunded_slips, report.due_left, report.outbox_left), (0, 1, Some(1)), "{report:?}");
    scene.unstick();
    let report = scene.settle(Duration::from_mins(1)).await;
    assert_eq!((report.persisted, report.refunded_slips, report.due_left), (1, 9, 0), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_parked_promise_keeps_its_slip_and_no_other() {
    let scene = Scene::new(AckMode::Redis, 10).await;
    let terms = scene.send(10).await;
    scene.hold(&terms).await;
    scene.park(&terms).await;
    scene.pass(OPEN);
    for refunded in [9, 0] {
        let report = scene.settle(Duration::from_mins(1)).await;
        assert_eq!((report.refunded_slips, report.due_left, report.parked), (refunded, 1, 1), "{report:?}");
    }
    assert_eq!(scene.decided(&terms).await, (9, false));
}
