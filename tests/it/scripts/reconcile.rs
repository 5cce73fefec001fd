use shared::domain::Refusal;

use super::*;

#[tokio::test]
async fn a_claim_is_confirmed() {
    on_both(async |rig| {
        let packet = Packet::of(20);
        rig.load(&packet, &[]).await;
        for (slip, user) in (0..).zip(ODD_USERS) {
            assert_eq!(rig.hold(&packet, user).await.slip, slip);
            assert_eq!(rig.reconcile(&packet, &[won(slip, user)], &[]).await, Reconciled::Loaded);
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Confirmed(claim_of(slip)));
            let state = rig.state(packet.part).await;
            assert!(state.held.is_empty() && !state.is_pending);
            assert_eq!(state.decided, (0..=slip).collect());
        }
    })
    .await;
}

#[tokio::test]
async fn a_part_is_pending_until_its_outbox_is_empty() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        assert!(rig.state(packet.part).await.is_pending);
        rig.reconcile(&packet, &[won(1, "bob")], &[]).await;
        assert!(!rig.state(packet.part).await.is_pending);
        // A part without holds leaves the queue even without decisions.
        let keys = packet.keys();
        let () = rig.run(["ZADD", &keys.pending, "1", &keys.name]).await;
        rig.reconcile(&packet, &[], &[]).await;
        assert!(!rig.state(packet.part).await.is_pending);
    })
    .await;
}

#[tokio::test]
async fn the_last_decision_makes_a_part_final() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        assert_eq!(rig.reconcile(&packet, &[], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.reconcile(&packet, &[won(2, "ann"), refunded(0)], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.reconcile(&packet, &[won(1, "bob")], &[]).await, Reconciled::Final);
        let late = [refunded(0), won(1, "bob"), won(2, "ann")];
        assert_eq!(rig.reconcile(&packet, &late, &[]).await, Reconciled::Final);
        assert_eq!(rig.state(packet.part).await.terms[fields::KNOWN_COUNT], "3");
    })
    .await;
}

#[tokio::test]
async fn a_part_that_lost_its_decisions_is_not_final_too_early() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.reconcile(&packet, &[won(0, "ann"), won(1, "bob")], &[]).await;
        let () = rig.run(["DEL", &packet.keys().known]).await;
        // The same decisions again: the third slip is still free.
        assert_eq!(rig.reconcile(&packet, &[won(0, "ann"), won(1, "bob")], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.hold(&packet, "eve").await.slip, 2);
        assert_eq!(rig.grab(&packet, "zoe").await, GrabAnswer::Nothing { expired: false, certain: false });
        assert_eq!(rig.reconcile(&packet, &[won(2, "eve")], &[]).await, Reconciled::Final);
    })
    .await;
}

#[tokio::test]
async fn a_decision_for_another_user_removes_the_hold_and_the_claim_that_it_contradicts() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.reconcile(&packet, &[won(0, "bob")], &[]).await;
        let state = rig.state(packet.part).await;
        assert!(state.held.is_empty() && !state.is_pending);
        assert!(!state.claims.contains_key("ann"));
        // Both continue: the owner has the slip, the other user gets another one.
        assert_eq!(rig.grab(&packet, "bob").await, GrabAnswer::Confirmed(claim_of(0)));
        assert_eq!(rig.hold(&packet, "ann").await.slip, 1);
    })
    .await;
}

#[tokio::test]
async fn a_decided_slip_that_a_rollback_freed_is_removed() {
    on_both(async |rig| {
        let packet = Packet::of(12);
        rig.load(&packet, &[]).await;
        // Ids that contain one another.
        rig.reconcile(&packet, &[won(1, "ann"), refunded(10)], &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [0, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
    })
    .await;
}

#[tokio::test]
async fn a_winners_hold_of_another_slip_is_freed() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[refunded(2)]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        assert!(rig.state(packet.part).await.free.is_empty(), "the last one was taken");
        // Ann owns the slip that Bob held; a rollback had forgotten it. So Ann's own hold becomes free, and Bob's next
        // grab takes it.
        assert_eq!(rig.reconcile(&packet, &[won(1, "ann")], &[]).await, Reconciled::Loaded);
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.held.len()), (vec![0], 0));
        assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(1)));
        assert_eq!(rig.hold(&packet, "bob").await.slip, 0);
    })
    .await;
}

#[tokio::test]
async fn a_slip_of_another_part_confirms_its_owner_here_too_and_frees_their_hold() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 4);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        assert_eq!(rig.reconcile(&packet, &[won(3, "ann"), refunded(2)], &[]).await, Reconciled::Loaded);
        let state = rig.state(packet.part).await;
        assert_eq!((state.free.clone(), state.held.len(), state.is_pending), (vec![1, 0], 0, false));
        assert_eq!(
            (state.decided.len(), &*state.terms[fields::KNOWN_COUNT]),
            (0, "0"),
            "it is no decision of this part"
        );
        assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(3)));
    })
    .await;
}

#[tokio::test]
async fn no_slip_is_freed_after_expiry() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 4);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.expire(packet.part).await;
        rig.reconcile(&packet, &[won(3, "ann")], &[]).await;
        let state = rig.state(packet.part).await;
        assert!(state.free.is_empty() && state.held.is_empty() && !state.is_pending);
    })
    .await;
}

#[tokio::test]
async fn a_decided_slip_is_not_freed() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 4);
        // Bob owns the slip that Ann held. In either order of the two decisions it does not become free.
        for decisions in [[won(0, "bob"), won(3, "ann")], [won(3, "ann"), won(0, "bob")]] {
            rig.forget(packet.part).await;
            rig.load(&packet, &[]).await;
            rig.hold(&packet, "ann").await;
            rig.reconcile(&packet, &decisions, &[]).await;
            let state = rig.state(packet.part).await;
            assert_eq!((state.free, state.held.len(), state.decided), (vec![1], 0, [0].into()));
        }
        // Nor if the hold outlived its decision, which only a faulty store shows.
        let keys = packet.keys();
        let () = rig.run(["HSET", &keys.part, "eve", "h0:7"]).await;
        let () = rig.run(["HINCRBY", &keys.part, fields::HELD_COUNT, "1"]).await;
        rig.reconcile(&packet, &[won(2, "eve")], &[]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.held.len()), (vec![1], 0));
    })
    .await;
}

#[tokio::test]
async fn a_refund_removes_the_hold_of_its_slip() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        assert_eq!(rig.reconcile(&packet, &[refunded(0), refunded(1)], &[]).await, Reconciled::Loaded);
        let state = rig.state(packet.part).await;
        assert!(state.claims.is_empty() && state.held.is_empty() && !state.is_pending);
        assert_eq!((state.free, state.decided), (vec![2], [0, 1].into()));
    })
    .await;
}

#[tokio::test]
async fn a_part_that_is_not_loaded_reconciles_nothing_and_leaves_the_queue() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 12);
        rig.load(&packet, &[]).await;
        let hold = rig.hold(&packet, "ann").await;
        rig.forget(packet.part).await;
        assert!(rig.state(packet.part).await.is_pending);
        assert_eq!(rig.reconcile(&packet, &[won(0, "ann"), refunded(4)], &[hold]).await, Reconciled::NotLoaded);
        assert!(rig.state(packet.part).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn settling_an_old_hold_does_not_affect_a_newer_one() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        rig.load(&packet, &[]).await;
        let holds = [rig.hold(&packet, "}").await, rig.hold(&packet, "bob").await, rig.hold(&packet, "eve").await];
        // Three settled holds: one with another owner, one with its own user, one without a decision.
        rig.reconcile(&packet, &[won(0, "zoe"), won(1, "bob")], &holds).await;
        let state = rig.state(packet.part).await;
        assert_eq!(state.claims.keys().collect::<Vec<_>>(), ["bob", "eve", "zoe"]);
        assert_eq!(rig.grab(&packet, "bob").await, GrabAnswer::Confirmed(claim_of(1)));
        assert_eq!(rig.hold(&packet, "}").await.slip, 3);
        rig.reconcile(&packet, &[won(0, "zoe")], &holds).await;
        assert!(matches!(rig.grab(&packet, "}").await, GrabAnswer::Held { slip: 3, fresh: false, .. }));
    })
    .await;
}

/// No sequence of calls leads there, but such a state must not last.
#[tokio::test]
async fn a_hold_that_contradicts_a_known_decision_is_removed_by_a_reconcile() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[won(0, "bob")]).await;
        let keys = packet.keys();
        let () = rig.run(["HSET", &keys.part, "ann", "h0:7"]).await;
        let () = rig.run(["HINCRBY", &keys.part, fields::HELD_COUNT, "1"]).await;
        let hold = Hold { slip: 0, user: id("ann"), at: Timestamp::from_ms(7) };
        rig.reconcile(&packet, &[won(0, "bob")], &[hold]).await;
        let state = rig.state(packet.part).await;
        assert!(state.held.is_empty() && !state.claims.contains_key("ann"), "{state:?}");
    })
    .await;
}

#[tokio::test]
async fn a_call_without_decisions_counts_the_holds_anew() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let keys = packet.keys();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        for wrong in ["1", "-2"] {
            let () = rig.run(["HINCRBY", &keys.part, fields::HELD_COUNT, wrong]).await;
            rig.reconcile(&packet, &[], &[]).await;
            let state = rig.state(packet.part).await;
            assert!(state.held.len() == 1 && state.is_pending, "{state:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn any_order_and_any_batches_lead_to_the_same_state() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 10);
        // Ann owns the slip that she held; Bob the one that Eve held; Eve one elsewhere; Zoe a free one; one is
        // refunded.
        let decisions = [won(0, "ann"), won(2, "bob"), won(7, "eve"), won(4, "zoe"), refunded(3)];
        let mut ends = BTreeSet::new();
        for first in 0..decisions.len() {
            for stride in 1..decisions.len() {
                for batch in [1, 2, decisions.len()] {
                    rig.forget(packet.part).await;
                    rig.load(&packet, &[]).await;
                    for user in ["ann", "bob", "eve"] {
                        rig.hold(&packet, user).await;
                    }
                    let order: Vec<Decision> = (0..decisions.len())
                        .map(|i| decisions[(first + i * stride) % decisions.len()].clone())
                        .collect();
                    for decisions in order.chunks(batch) {
                        rig.reconcile(&packet, decisions, &[]).await;
                    }
                    // Late, after all others.
                    rig.reconcile(&packet, &order[..1], &[]).await;
                    ends.insert(format!("{:?}", rig.state(packet.part).await.sorted()));
                }
            }
        }
        assert_eq!(ends.len(), 1, "{ends:#?}");
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.held.len(), state.is_pending), (vec![1], 0, false));
    })
    .await;
}

#[tokio::test]
async fn more_decisions_than_fit_in_one_call_are_all_reconciled() {
    on_both(async |rig| {
        let packet = Packet::of(1_000);
        rig.load(&packet, &[]).await;
        let decisions: Vec<Decision> = (0..1_000).rev().map(|slip| won(slip, &format!("user-{slip}"))).collect();
        assert_eq!(rig.reconcile(&packet, &decisions, &[]).await, Reconciled::Final);
        let state = rig.state(packet.part).await;
        assert_eq!((state.decided.len(), state.claims.len(), state.free.len()), (1_000, 1_000, 0));
    })
    .await;
}

/// As many as the largest part has. Each call asserts that it has no more arguments than a serverless Redis takes.
#[tokio::test]
async fn an_outbox_with_thousands_of_holds_is_reconciled() {
    let rig = Rig::on_one_node().await;
    let packet = Packet::in_parts(1, 6_250);
    rig.load(&packet, &[]).await;
    let users: Vec<String> = (0..6_250).map(|n| format!("user-{n}")).collect();
    let mut holds = Vec::new();
    for some in users.chunks(64) {
        let grabbers: Vec<_> = some.iter().map(|user| grabber(user)).collect();
        for (found, grabber) in rig.store.grab(packet.part, &grabbers).await.unwrap().unwrap().into_iter().zip(grabbers)
        {
            let GrabAnswer::Held { slip, at, .. } = found else { panic!("{found:?}") };
            holds.push(Hold { slip, user: grabber.user, at });
        }
    }
    // The ledger gave each tenth slip to somebody else.
    let owner =
        |hold: &Hold| if hold.slip.is_multiple_of(10) { format!("other-{}", hold.slip) } else { hold.user.to_string() };
    let decisions: Vec<Decision> = holds.iter().map(|hold| won(hold.slip, &owner(hold))).collect();
    assert_eq!(rig.reconcile(&packet, &decisions, &holds).await, Reconciled::Final);
    let state = rig.state(packet.part).await;
    assert_eq!((state.held.len(), state.claims.len(), state.is_pending), (0, 6_250, false));
    assert!(state.claims.contains_key("other-10") && !state.claims.contains_key(holds[10].user.as_str()));
}

/// Takes slips until there are none, and returns them.
async fn take_all(rig: &Rig, packet: &Packet) -> Vec<u32> {
    let mut slips = Vec::new();
    for user in 0..=packet.terms.count {
        match rig.grab(packet, &format!("user-{user}")).await {
            GrabAnswer::Held { slip, fresh: true, .. } => slips.push(slip),
            GrabAnswer::Nothing { .. } => return slips,
            other => panic!("{other:?}"),
        }
    }
    panic!("more slips than the packet has: {slips:?}")
}

#[tokio::test]
async fn a_decided_slip_is_taken_out_of_the_ranges_that_were_put_back() {
    on_both(async |rig| {
        for takes in 0..5 {
            for decided in 0..6 {
                let packet = Packet::in_parts(2, 12);
                rig.load(&packet, &[]).await;
                // These have slips of the other part, so theirs become free, each as a range of its own.
                for (user, other) in [("ann", 6), ("bob", 7), ("cy", 8)] {
                    rig.hold(&packet, user).await;
                    rig.reconcile(&packet, &[won(other, user)], &[]).await;
                }
                let free = [3, 4, 5, 0, 1, 2];
                assert_eq!(rig.state(packet.part).await.free, free);
                for (slip, user) in free.iter().take(takes).zip(ODD_USERS.iter().skip(1)) {
                    assert_eq!(rig.hold(&packet, user).await.slip, *slip);
                }
                rig.reconcile(&packet, &[refunded(decided)], &[]).await;
                let left: Vec<u32> = free.into_iter().skip(takes).filter(|slip| *slip != decided).collect();
                let left = sorted(&left);
                assert_eq!(rig.state(packet.part).await.sorted().free, left, "{decided} after {takes}");
                assert_eq!(sorted(&take_all(&rig, &packet).await), left, "{decided} after {takes}");
            }
        }
    })
    .await;
}

fn sorted(slips: &[u32]) -> Vec<u32> {
    let mut slips = slips.to_vec();
    slips.sort_unstable();
    slips
}

#[tokio::test]
async fn a_decided_slip_is_taken_out_of_a_longer_range_behind_the_first() {
    on_both(async |rig| {
        for decided in 3..7 {
            let packet = Packet::of(8);
            rig.load(&packet, &[refunded(2), refunded(7)]).await;
            rig.reconcile(&packet, &[refunded(decided)], &[]).await;
            let expected: Vec<u32> = [0, 1, 3, 4, 5, 6].into_iter().filter(|slip| *slip != decided).collect();
            assert_eq!(rig.state(packet.part).await.sorted().free, expected);
            assert_eq!(sorted(&take_all(&rig, &packet).await), expected, "{decided}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_part_of_a_packet_keeps_its_decided_slips() {
    on_both(async |rig| {
        let packet = Packet::in_parts(3, 12);
        for part in packet.terms.id.parts() {
            let packet = Packet { part, ..packet.clone() };
            let (first, elsewhere) = (part.slips(12).start, (part.slips(12).end + 1) % 12);
            rig.load(&packet, &[]).await;
            assert_eq!(rig.hold(&packet, "ann").await.slip, first);
            assert_eq!(rig.hold(&packet, "bob").await.slip, first + 1);
            rig.reconcile(&packet, &[won(first, "eve"), won(first + 1, "bob")], &[]).await;
            // A hold that outlived its decision, which only a faulty store shows.
            let () = rig.run(["HSET", &packet.keys().part, "ann", &format!("h{first}:7")]).await;
            let () = rig.run(["HINCRBY", &packet.keys().part, fields::HELD_COUNT, "1"]).await;
            rig.reconcile(&packet, &[won(elsewhere, "ann")], &[]).await;
            let state = rig.state(part).await;
            assert_eq!((state.free, state.held.len()), (vec![first + 2, first + 3], 0), "{part}");
            assert_eq!(state.decided, [0, 1].into());
        }
    })
    .await;
}

/// Milliseconds before or after the expiry. Redis reads its clock a little later than the test.
const NEAR: Duration = Duration::from_millis(20);

#[tokio::test]
async fn free_slips_go_from_the_expiry_on_and_not_before() {
    on_both(async |rig| {
        for is_expired in [false, true] {
            let packet = Packet::of(6);
            let keys = packet.keys();
            rig.load(&packet, &[refunded(2)]).await;
            rig.hold(&packet, "ann").await;
            let at = if is_expired { now() } else { now().after(Duration::from_mins(1)) };
            rig.let_expire(&keys, at.ms()).await;
            rig.store.reconcile(packet.part, 6, &[refunded(4)], &[]).await.unwrap();
            let state = rig.state(packet.part).await;
            assert_eq!(state.free, if is_expired { vec![] } else { vec![1, 3, 5] }, "{is_expired}");
            // The same for a slip that a user gives back.
            rig.let_expire(&keys, now().before(NEAR).ms()).await;
            rig.store.reconcile(packet.part, 6, &[won(9, "ann")], &[]).await.unwrap();
            let state = rig.state(packet.part).await;
            assert!(state.free.is_empty() && state.held.is_empty() && !state.is_pending, "{state:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_guarded_part_is_forgotten_in_time_once_it_holds_nothing() {
    on_both(async |rig| {
        let packet = Packet::of(3).for_recipients(&["ann", "bob"]);
        let keys = packet.keys();
        let forgotten = i64::try_from(packet.terms.expires_at.after(AN_HOUR).ms()).unwrap();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let expiry = async |key| rig.run::<i64, _>(["PEXPIRETIME", key]).await;
        assert_eq!(expiry(&keys.part).await, -1);
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        assert_eq!((expiry(&keys.part).await, expiry(&keys.known).await), (forgotten, forgotten));
    })
    .await;
}

#[tokio::test]
async fn a_part_that_lost_its_place_in_the_queue_is_forgotten_in_time_once_it_holds_nothing() {
    on_both(async |rig| {
        for is_guarded in [false, true] {
            let packet = Packet::of(2).acknowledged_by_redis();
            let packet = if is_guarded { packet.for_recipients(&["ann", "bob"]) } else { packet };
            rig.load(&packet, &[]).await;
            rig.hold(&packet, "ann").await;
            rig.hold(&packet, "bob").await;
            let keys = packet.keys();
            let () = rig.run(["ZREM", &keys.pending, &keys.name]).await;
            rig.store.reconcile(packet.part, 2, &[won(0, "ann"), won(1, "bob")], &[]).await.unwrap();
            for key in [&keys.part, &keys.known] {
                assert!(rig.run::<i64, _>(["PTTL", key]).await > 0, "{key} is kept for ever");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_repair_of_a_guarded_part_keeps_its_guard() {
    on_both(async |rig| {
        let packet = Packet::of(6).for_recipients(&["ann", "bob"]);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        // A rollback had made this slip free again.
        rig.reconcile(&packet, &[won(3, "bob")], &[]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.held.len(), state.free), (1, vec![1, 2, 4, 5]));
        assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));
    })
    .await;
}

#[tokio::test]
async fn a_report_has_each_decision_and_counts_the_holds() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 20);
        assert_eq!(rig.store.report(packet.part).await.unwrap(), None, "it is not loaded");
        rig.load(&packet, &[]).await;
        for user in ["ann", "bob", "cat"] {
            rig.hold(&packet, user).await;
        }
        let shown = async || {
            let report = rig.report(&packet).await;
            (report.known_places().collect::<Vec<_>>(), report.held_count)
        };
        assert_eq!(shown().await, (vec![], 3));
        rig.reconcile(&packet, &[won(0, "ann"), refunded(9)], &[]).await;
        assert_eq!(shown().await, (vec![0, 9], 2));
        // A hold becomes free, since its user owns a slip of the other part.
        rig.reconcile(&packet, &[won(12, "bob")], &[]).await;
        assert_eq!(shown().await, (vec![0, 9], 1));
        let () = rig.run(["DEL", &packet.keys().known]).await;
        assert_eq!(rig.store.report(packet.part).await.unwrap(), None, "the bitmap is lost, so the ledger is asked");
    })
    .await;
}

/// Only a faulty store shows such a hold.
#[tokio::test]
async fn a_hold_of_another_parts_slip_is_no_decision_of_this_part_and_frees_nothing() {
    on_both(async |rig| {
        let packet = Packet::in_parts(3, 12);
        let part = packet.terms.id.parts().nth(1).unwrap();
        let packet = Packet { part, ..packet };
        for foreign in [3, 8] {
            rig.forget(part).await;
            rig.load(&packet, &[]).await;
            for user in ["ann", "bob"] {
                let () = rig.run(["HSET", &packet.keys().part, user, &format!("h{foreign}:7")]).await;
            }
            let () = rig.run(["HINCRBY", &packet.keys().part, fields::HELD_COUNT, "2"]).await;
            let decisions = [won(foreign, "ann"), won(11, "bob")];
            rig.store.reconcile(part, 12, &decisions, &[]).await.unwrap();
            let state = rig.state(part).await;
            assert_eq!((state.free, state.held.len(), state.decided.len()), (vec![4, 5, 6, 7], 0, 0), "{foreign}");
            assert_eq!(state.terms[fields::KNOWN_COUNT], "0");
        }
    })
    .await;
}

/// As after a failover that lost a write of the hash only.
#[tokio::test]
async fn a_hold_whose_decision_the_bitmap_has_already_is_confirmed() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["SETBIT", &packet.keys().known, "0", "1"]).await;
        assert_eq!(rig.reconcile(&packet, &[won(0, "ann")], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(0)));
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.held.len(), state.is_pending), (vec![1, 2], 0, false));
    })
    .await;
}

/// Only a faulty store shows two holds of one slip.
#[tokio::test]
async fn a_second_hold_of_a_slip_gives_way_to_its_owners() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["HSET", &packet.keys().part, "bob", "h0:7"]).await;
        let () = rig.run(["HINCRBY", &packet.keys().part, fields::HELD_COUNT, "1"]).await;
        let hold = Hold { slip: 0, user: id("bob"), at: Timestamp::from_ms(7) };
        rig.store.reconcile(packet.part, 3, &[won(0, "ann")], &[hold]).await.unwrap();
        let state = rig.state(packet.part).await;
        assert_eq!(state.claims.keys().collect::<Vec<_>>(), ["ann"]);
        assert_eq!((state.free, state.is_pending), (vec![1, 2], false));
    })
    .await;
}

/// The bitmap knows of a decision whose claim is gone.
#[tokio::test]
async fn a_hash_that_was_rolled_back_alone_does_not_become_final() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        let keys = packet.keys();
        let () = rig.run(["HDEL", &keys.part, "ann"]).await;
        let () = rig.run(["HSET", &keys.part, fields::KNOWN_COUNT, "0"]).await;
        assert_eq!(rig.reconcile(&packet, &[won(1, "bob")], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.grab(&packet, "ann").await, PERHAPS_SOLD_OUT, "the ledger has her claim");
    })
    .await;
}
