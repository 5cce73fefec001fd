//! The end of a packet: what views show of it, and what they read from then on.

use super::*;

#[tokio::test(start_paused = true)]
async fn of_a_packet_without_an_open_slip_only_its_end_is_read() {
    let scene = Scene::new(10, |slips| slips).await;
    assert_eq!(scene.view(&scene.terms.sender).await.status, Status::SoldOut);
    scene.forget_counts();
    for pause in [Duration::ZERO, Duration::from_hours(24)] {
        tokio::time::advance(pause).await;
        let shown = scene.view(&scene.terms.sender).await;
        assert_eq!((shown.status, shown.is_settled), (Status::SoldOut, false), "until settle has been there");
        assert_eq!((scene.queries(), scene.gets(), scene.asked()), (0, 1, 0), "its own item");
    }
    scene.settle().await;
    for gets in [1, 0] {
        scene.forget_counts();
        let shown = scene.view(&scene.terms.sender).await;
        assert_eq!((shown.status, shown.is_settled), (Status::Settled, true));
        assert_eq!((scene.queries(), scene.gets(), scene.asked()), (0, gets, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sold_out_packet_shows_its_seed_and_best_also_after_a_part_was_lost() {
    for count in [2_000, 2_001] {
        let scene = Scene::new(count, |slips| slips).await;
        let lost = PartKeys::of(scene.part(1)).known;
        scene.memory.command(&["DEL", &lost]).unwrap();
        let shown = scene.view(&scene.terms.sender).await;
        assert_eq!((shown.status, shown.is_decided, shown.summary.best.is_some()), (Status::SoldOut, true, true));
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_settled_packet_the_sums_are_read() {
    let scene = Scene::new(3_000, |slips| slips / 2).await;
    tokio::time::advance(Duration::from_hours(24)).await;
    let sums = Summary { claimed_count: 7, ..Summary::default() };
    scene.ledger.mark_settled(&scene.terms, &sums, scene.clock.now()).await.unwrap();
    let shown = scene.view(&scene.terms.sender).await;
    assert_eq!((shown.status, shown.summary, shown.is_settled), (Status::Settled, sums, true));
    assert_eq!(scene.queries(), 0);
}

#[tokio::test(start_paused = true)]
async fn once_a_packet_is_over_refunds_are_not_taken_for_claims() {
    for count in [100, 3_000] {
        let scene = Scene::new(count, |_| 10).await;
        let claimed = scene.claimed_count().await;
        tokio::time::advance(Duration::from_hours(24)).await;
        assert_eq!(scene.view(&scene.terms.sender).await.status, Status::Expired);
        // Settle has refunded the last slips of each part, and no more yet.
        for part in scene.terms.id.parts() {
            let last = part.slips(count).end - 5..part.slips(count).end;
            let slips: Vec<(u32, Amount)> = last.map(|slip| (slip, Amount::new(SLIP_AMOUNT))).collect();
            scene.ledger.refund(&scene.terms, &slips, scene.clock.now()).await.unwrap();
            let refunded = scene.ledger.decisions(scene.terms.id, slips.iter().map(|(slip, _)| *slip)).await.unwrap();
            scene.hot.reconcile(part, count, &refunded, &[]).await.unwrap();
        }
        let shown = scene.view(&scene.terms.sender).await;
        let refunded = 5 * scene.terms.id.part_count();
        assert_eq!((shown.summary.claimed_count, shown.summary.refunded_count), (claimed, refunded), "{count}");
        assert_eq!((shown.status, shown.is_decided), (Status::Expired, false));
    }
}
