//! A part keeps the first certain "no", so that later losers need no other field.

use shared::domain::Refusal;

use super::*;

/// The mark by which later losers need no other field.
async fn mark(rig: &Rig, packet: &Packet) -> Option<String> {
    rig.run(["HGET", &packet.keys().part, fields::OPEN_UNTIL]).await
}

fn sold_out_mark(packet: &Packet) -> String {
    sold_out_until(packet.terms.expires_at.ms(), &packet.terms.count.to_string())
}

#[tokio::test]
async fn a_certain_no_is_written_down_for_later_losers() {
    on_both(async |rig| {
        for packet in [Packet::of(1), Packet::of(1).acknowledged_by_redis()] {
            rig.load(&packet, &[]).await;
            let hold = rig.hold(&packet, "ann").await;
            if packet.terms.ack == AckMode::Ledger {
                assert_eq!(rig.grab(&packet, "bob").await, PERHAPS_SOLD_OUT);
                assert_ne!(mark(&rig, &packet).await, Some(sold_out_mark(&packet)), "the last decision may still come");
                rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
            }
            assert_eq!(rig.grab(&packet, "bob").await, SOLD_OUT);
            let state = rig.state(packet.part).await;
            assert_eq!(mark(&rig, &packet).await, Some(sold_out_mark(&packet)));
            let everyone = ["bob", "eve"].map(grabber);
            for each in [&everyone[..1], &everyone] {
                assert_eq!(rig.grab_all(&packet, each).await, vec![SOLD_OUT; each.len()]);
            }
            let anns = match packet.terms.ack {
                AckMode::Ledger => GrabAnswer::Confirmed(claim_of(0)),
                AckMode::Redis => GrabAnswer::Held { slip: 0, at: hold.at, fresh: false },
            };
            assert_eq!(rig.grab(&packet, "ann").await, anns);
            assert_eq!(rig.state(packet.part).await, state);
            rig.let_expire(&packet.keys(), 1).await;
            assert_eq!(rig.grab(&packet, "bob").await, EXPIRED);
            assert_eq!(rig.grab(&packet, "ann").await, anns);
            // Without these fields a grab that reads more fails.
            let () =
                rig.run(["HDEL", &packet.keys().part, fields::EXPIRES_AT, fields::NEXT_FREE, fields::RANGE_END]).await;
            assert_eq!(rig.grab(&packet, "bob").await, EXPIRED);
        }
    })
    .await;
}

#[tokio::test]
async fn a_certain_no_of_a_guarded_or_expired_part_is_not_written_down() {
    on_both(async |rig| {
        let guarded = Packet::of(1).acknowledged_by_redis().for_recipients(&["ann", "bob"]);
        rig.load(&guarded, &[]).await;
        rig.hold(&guarded, "ann").await;
        assert_eq!(rig.grab(&guarded, "bob").await, SOLD_OUT);
        assert_eq!(mark(&rig, &guarded).await, None);
        assert_eq!(rig.grab(&guarded, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));

        let expired = Packet::of(2).acknowledged_by_redis();
        rig.load(&expired, &[]).await;
        rig.expire(expired.part).await;
        assert_eq!(rig.grab(&expired, "bob").await, EXPIRED);
        assert_eq!(mark(&rig, &expired).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_slip_that_comes_back_ends_the_certain_no() {
    on_both(async |rig| {
        let packet = Packet::of(2).acknowledged_by_redis();
        rig.load(&packet, &[]).await;
        let first = rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);
        // The ledger gave her another slip than the one that is held for her, which nobody has then.
        rig.reconcile(&packet, &[won(1, "ann")], &[first]).await;
        assert_eq!(rig.hold(&packet, "eve").await.slip, 0);
        let state = rig.state(packet.part).await;
        assert!(state.is_pending);
        assert_eq!(rig.grab(&packet, "fay").await, SOLD_OUT);
        assert_eq!(rig.state(packet.part).await, state);
    })
    .await;
}

#[tokio::test]
async fn a_grab_from_a_part_that_said_no_puts_it_into_its_queue() {
    on_both(async |rig| {
        let packet = Packet::of(1).acknowledged_by_redis();
        rig.load(&packet, &[won(0, "ann")]).await;
        assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);
        assert_eq!(
            (mark(&rig, &packet).await, rig.state(packet.part).await.is_pending),
            (Some(sold_out_mark(&packet)), false)
        );
        // Nothing in the engine does that. But a hold outside the queue would never come to the ledger.
        let () = rig.run(["HSET", &packet.keys().part, fields::OTHER_RANGES, "0:1;"]).await;
        let both = [grabber("bob"), grabber("eve")];
        let found = rig.grab_all(&packet, &both).await;
        assert!(matches!(found[0], GrabAnswer::Held { slip: 0, fresh: true, .. }), "{found:?}");
        assert_eq!(found[1], SOLD_OUT);
        assert!(rig.state(packet.part).await.is_pending);
    })
    .await;
}

#[tokio::test]
async fn a_slip_that_comes_back_to_a_part_with_a_wrong_count_of_holds_is_not_held_outside_the_queue() {
    on_both(async |rig| {
        let packet = Packet::of(2).acknowledged_by_redis();
        rig.load(&packet, &[]).await;
        let anns = rig.hold(&packet, "ann").await;
        let bobs = rig.hold(&packet, "bob").await;
        let () = rig.run(["HINCRBY", &packet.keys().part, fields::HOLD_BASE, "1"]).await;
        // With the wrong count the part leaves its queue, although it holds Ann's slip.
        rig.store.reconcile(packet.part, 2, &[won(1, "bob")], &[bobs]).await.unwrap();
        assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);
        rig.store.reconcile(packet.part, 2, &[won(9, "ann")], &[anns]).await.unwrap();
        rig.hold(&packet, "fay").await;
        let queue: Option<f64> = rig.run(["ZSCORE", &packet.keys().pending, &packet.keys().name]).await;
        assert!(queue.is_some(), "settle would not find the hold");
    })
    .await;
}

#[tokio::test]
async fn a_final_part_says_a_certain_no_also_if_its_count_of_holds_is_wrong() {
    on_both(async |rig| {
        let packet = Packet::of(1);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["HINCRBY", &packet.keys().part, fields::HOLD_BASE, "-1"]).await;
        let reconciled = rig.store.reconcile(packet.part, 1, &[won(0, "ann")], &[]).await.unwrap();
        assert_eq!(reconciled, Reconciled::Final);
        assert!(mark(&rig, &packet).await.is_some(), "the grab takes the fast path");
        // Otherwise losers would wait for the last decision, which is known, until their requests end.
        assert_eq!(rig.grab(&packet, "bob").await, SOLD_OUT);
    })
    .await;
}
