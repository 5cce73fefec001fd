//! The end of a packet: what views show of it, and what they read from then on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_packet_without_an_open_slip_is_read_no_more() {
    let scene = Scene::new(10, |slips| slips).await;
    assert_eq!(scene.view(&scene.terms.sender).await.status, Status::SoldOut);
    assert!(scene.queries() > 0);
    scene.asked();
    assert_eq!(scene.view(&scene.terms.sender).await.status, Status::SoldOut);
    tokio::time::advance(Duration::from_hours(24)).await;
    assert_eq!(scene.view(&scene.terms.sender).await.status, Status::Settled);
    assert_eq!((scene.queries(), scene.asked()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn of_a_large_packet_that_is_settled_the_sums_are_read() {
    let scene = Scene::new(3_000, |slips| slips / 2).await;
    tokio::time::advance(Duration::from_hours(24)).await;
    let sums = Summary { claimed_count: 7, ..Summary::default() };
    scene.ledger.mark_settled(&scene.terms, &sums, scene.clock.now()).await.unwrap();
    let shown = scene.view(&scene.terms.sender).await;
    assert_eq!((shown.status, shown.summary), (Status::Settled, sums));
    assert_eq!((scene.queries(), scene.asked()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_status_follows_from_the_end_the_claims_and_the_start() {
    let scene = Scene::new(10, |_| 0).await;
    let status = |claimed_count, is_decided, end| {
        let summary = Summary { claimed_count, ..Summary::default() };
        scene.view.status(&scene.terms, &summary, is_decided, end)
    };
    assert_eq!([status(0, false, End::Ahead), status(9, false, End::Ahead)], [Status::Open; 2]);
    assert_eq!([status(10, false, End::Ahead), status(10, true, End::Ahead)], [Status::SoldOut; 2]);
    assert_eq!([status(9, false, End::Expired), status(9, false, End::Closed)], [Status::Expired, Status::Closed]);
    assert_eq!([status(9, true, End::Expired), status(10, true, End::Closed)], [Status::Settled; 2]);

    let starts_at = scene.clock.now().after(Duration::from_millis(1));
    let starting = Terms { guard: Guard { starts_at: Some(starts_at), ..Guard::default() }, ..scene.terms.clone() };
    let status = |claimed_count| {
        let summary = Summary { claimed_count, ..Summary::default() };
        scene.view.status(&starting, &summary, false, End::Ahead)
    };
    assert_eq!([status(0), status(1)], [Status::Scheduled, Status::Open], "a claim shows that it has begun");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(status(0), Status::Open);
}
