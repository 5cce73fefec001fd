//! Parts of packets that the operator closes.

use shared::domain::Refusal;

use super::*;

const DOUBT: GrabAnswer = GrabAnswer::Closed { certain: false };
const CERTAIN: GrabAnswer = GrabAnswer::Closed { certain: true };

#[tokio::test]
async fn a_closed_part_gives_out_nothing_and_keeps_what_it_holds() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        assert!(!rig.store.close(packet.part).await.unwrap(), "it is not loaded");
        rig.load(&packet, &[won(3, "winner")]).await;
        let hold = rig.hold(&packet, "ann").await;
        let open = rig.report(&packet).await;
        for _ in 0..2 {
            assert!(rig.store.close(packet.part).await.unwrap());
        }
        for user in ODD_USERS.into_iter().filter(|user| *user != "ann") {
            assert_eq!(rig.grab(&packet, user).await, DOUBT, "{user}");
        }
        assert_eq!(rig.grab(&packet, "winner").await, GrabAnswer::Confirmed(claim_of(3)));
        let GrabAnswer::Held { slip, at, fresh: false } = rig.grab(&packet, "ann").await else { panic!("no hold") };
        assert_eq!((slip, at), (hold.slip, hold.at));
        let closed = rig.report(&packet).await;
        assert!(closed.is_closed && !open.is_closed);
        assert_eq!((open.held_count, closed.held_count), (1, 1));

        // Its slips are decided as those of any other part.
        let mine = Claim { slip: hold.slip, amount: Amount::new(7), at: hold.at }.decision(&hold.user);
        let all = [mine, refunded(1), refunded(2)];
        assert_eq!(rig.reconcile(&packet, &all, &[hold]).await, Reconciled::Final);
        assert_eq!(rig.grab(&packet, "bob").await, CERTAIN);
        let state = rig.state(packet.part).await;
        assert!(state.free.is_empty() && state.held.is_empty() && !state.is_pending);
    })
    .await;
}

#[tokio::test]
async fn a_part_of_a_closed_packet_is_loaded_closed_and_stays_so() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let load = async |is_closed| rig.store.load(packet.part, &packet.terms, is_closed, &[]).await.unwrap();
        assert_eq!(load(true).await, Loaded::Yes);
        // A loader that has stalled since before the close finds it there.
        assert_eq!(load(false).await, Loaded::Yes);
        assert_eq!(rig.grab(&packet, "ann").await, DOUBT);
    })
    .await;
}

#[tokio::test]
async fn recipients_are_checked_before_the_close_and_passphrases_and_starts_do_not_count() {
    on_both(async |rig| {
        let guarded = Packet::of(3).for_recipients(&["ann", "bob"]).with_passphrase("open");
        for is_loaded_closed in [false, true] {
            let packet = guarded.clone().starting_at(now().after(Duration::from_hours(1)));
            rig.forget(packet.part).await;
            let loaded = rig.store.load(packet.part, &packet.terms, is_loaded_closed, &[]).await.unwrap();
            assert_eq!(loaded, Loaded::Yes);
            assert!(rig.store.close(packet.part).await.unwrap());
            assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));
            for said in ["open", "guess"] {
                assert_eq!(rig.grab_as(&packet, &packet.saying("ann", said)).await, DOUBT);
            }
            assert!(rig.state(packet.part).await.tries.is_empty(), "no guess counts after the close");
        }
    })
    .await;
}

#[tokio::test]
async fn on_the_hot_stores_word_a_close_is_certain() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let packet = Packet { terms: Terms { ack: AckMode::Redis, ..packet.terms.clone() }, ..packet };
        rig.load(&packet, &[]).await;
        assert!(rig.store.close(packet.part).await.unwrap());
        assert_eq!(rig.grab(&packet, "ann").await, CERTAIN);
    })
    .await;
}

#[tokio::test]
async fn after_a_close_losers_of_a_part_that_was_sold_out_get_another_answer() {
    on_both(async |rig| {
        let packet = Packet::of(1);
        rig.load(&packet, &[won(0, "ann")]).await;
        for _ in 0..2 {
            assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::Nothing { expired: false, certain: true });
        }
        assert!(rig.store.close(packet.part).await.unwrap());
        assert_eq!(rig.grab(&packet, "eve").await, CERTAIN);
    })
    .await;
}
