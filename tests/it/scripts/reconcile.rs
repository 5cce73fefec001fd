//! Reconciles, and the outbox.

use shared::domain::{PARTITIONS, Partition, Refusal};

use super::*;

/// What reconciles make of a part. A packet is `parts/slips/part`. The steps are holds `+user`, holds that only a faulty store shows
/// `user:slip`, and decisions `slip=user`, or `slip=-` for a refund; `done` names all holds so far as settled. Then come the free
/// slips, the users with their hold or claim, and the places of the known decisions.
const CASES: &str = "
a claim is confirmed                    | 1/3/0  |           | +ann +bob; 0=ann                          | 2       | ann:g0 bob:h1         | 0
odd users                               | 1/4/0  |           | +{x} +h0:1 +3; 0={x}; 1=h0:1 2=3          | 3       | 3:g2 h0:1:g1 {x}:g0   | 0 1 2
the last decision                       | 1/3/0  | 2=ann     | 0=-; 1=bob; 0=- 1=bob 2=ann               |         | ann:g2 bob:g1         | 0 1 2
no decision                             | 1/3/0  |           | +ann;                                     | 1 2     | ann:h0                |
another user's slip                     | 1/3/0  |           | +ann; 0=bob done                          | 1 2     | bob:g0                | 0
the other user gets another slip        | 1/3/0  |           | +ann; 0=bob done; +ann;                   | 2       | ann:h1 bob:g0         | 0
a hold that nobody names stays          | 1/3/0  |           | +ann; 0=bob                               | 1 2     | ann:h0 bob:g0         | 0
slips that a rollback freed             | 1/12/0 |           | 1=ann 10=-                                | 0 2 3 4 5 6 7 8 9 11 | ann:g1   | 1 10
a winner's hold of another slip         | 1/3/0  | 2=-       | +ann +bob; 1=ann done                     | 0       | ann:g1                | 1 2
a winner's slip is in another part      | 2/4/0  |           | +ann; 3=ann 2=-                           | 1 0     | ann:g3                |
a slip that is decided is not freed     | 2/4/0  |           | +ann; 0=bob 3=ann                         | 1       | ann:g3 bob:g0         | 0
the same in two steps                   | 2/4/0  |           | +ann; 3=ann; 0=bob                        | 1       | ann:g3 bob:g0         | 0
nor one whose hold outlived it          | 2/4/0  | 0=bob     | eve:0; 2=eve                              | 1       | bob:g0 eve:g2         | 0
the same in the part between            | 3/12/1 | 4=eve     | ann:4; 9=ann                              | 5 6 7   | ann:g9 eve:g4         | 0
the same in the last part               | 3/12/2 | 8=eve 9=bob | ann:8; 2=ann                            | 10 11   | ann:g2 bob:g9 eve:g8  | 0 1
a refund                                | 1/3/0  |           | +ann; 0=- 1=- done                        | 2       |                       | 0 1
an old hold is settled, a newer is not  | 1/4/0  |           | +} +bob +eve; 0=zoe 1=bob done; +}; 0=zoe done |     | bob:g1 eve:h2 zoe:g0 }:h3 | 0 1
a hold of a slip with a known decision  | 1/3/0  | 0=bob     | ann:0; 0=bob done                         | 1 2     | bob:g0                | 0
a second hold of a slip                 | 1/3/0  |           | +ann bob:0; 0=ann done                    | 1 2     | ann:g0                | 0
a hold of the slip before the part's    | 3/12/1 |           | ann:3 bob:3; 3=ann 11=bob                 | 4 5 6 7 | ann:g3 bob:g11        |
a hold of the slip after the part's     | 3/12/1 |           | ann:8 bob:8; 8=ann 11=bob                 | 4 5 6 7 | ann:g8 bob:g11        |
";

fn decision_of(word: &str) -> Decision {
    let (slip, user) = word.split_once('=').unwrap();
    let slip = slip.parse().unwrap();
    if user == "-" { refunded(slip) } else { won(slip, user) }
}

/// Loads a part as the first columns of a case say.
async fn load(rig: &Rig, of: &str, decisions: &str) -> Packet {
    let of: Vec<u32> = of.split('/').map(|number| number.parse().unwrap()).collect();
    let packet = Packet::in_parts(of[0], of[1]);
    let packet = Packet { part: PartId { index: of[2], ..packet.part }, ..packet };
    let decisions: Vec<Decision> = decisions.split_whitespace().map(decision_of).collect();
    rig.load(&packet, &decisions).await;
    packet
}

/// The users of a part, each with their hold or claim as the cases write it.
fn users_of(state: &State) -> String {
    let shown = |(user, value): (&String, &String)| format!("{user}:{}", value.split(':').next().unwrap());
    state.claims.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// The slips in a column.
fn slips_in(column: &str) -> Vec<u32> {
    column.split_whitespace().map(|slip| slip.parse().unwrap()).collect()
}

/// A hold that only a faulty store shows.
async fn forge(rig: &Rig, packet: &Packet, user: &str, slip: u32) -> Hold {
    let () = rig.run(["HSET", &packet.keys().part, user, &format!("h{slip}:7")]).await;
    let () = rig.run(["HINCRBY", &packet.keys().part, fields::HELD_COUNT, "1"]).await;
    Hold { slip, user: id(user), at: Timestamp::from_ms(7) }
}

/// What is left of a part in which a hold was released: the free slips, and the users. The columns are those of [`CASES`].
const RELEASES: &str = "
the slip is free again                  | 1/3/0  |           | +ann +bob     | ann 0 | 2 0   | bob:h1
the last one of a full part             | 1/2/0  |           | +ann +bob     | bob 1 | 1     | ann:h0
a hold of another slip stays            | 1/3/0  |           | +ann          | ann 1 | 1 2   | ann:h0
a user without a hold                   | 1/3/0  |           | +ann          | bob 0 | 1 2   | ann:h0
a claim stays                           | 1/3/0  | 0=ann     |               | ann 0 | 1 2   | ann:g0
a slip with a decision is not free      | 1/3/0  | 0=bob     | ann:0         | ann 0 | 1 2   | bob:g0
a slip of a later part                  | 3/12/1 |           | +ann          | ann 4 | 5 6 7 4 |
";

#[tokio::test]
async fn a_released_hold_frees_its_slip() {
    on_both(async |rig| {
        for case in RELEASES.trim().lines() {
            let columns: Vec<&str> = case.split('|').map(str::trim).collect();
            let [name, of, loaded, steps, released, free, users] = columns[..] else { panic!("{case}") };
            let packet = load(&rig, of, loaded).await;
            for word in steps.split_whitespace() {
                if let Some((user, slip)) = word.split_once(':') {
                    forge(&rig, &packet, user, slip.parse().unwrap()).await;
                } else {
                    rig.hold(&packet, &word[1..]).await;
                }
            }
            let (user, slip) = released.split_once(' ').unwrap();
            let hold = Hold { slip: slip.parse().unwrap(), user: id(user), at: Timestamp::from_ms(7) };
            for _ in 0..2 {
                rig.store.release(packet.part, packet.terms.count, &hold).await.unwrap();
                let state = rig.state(packet.part).await;
                assert_eq!((users_of(&state), state.free), (users.to_owned(), slips_in(free)), "{name}");
                assert_eq!(state.is_pending, users.contains(":h"), "{name}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_release_after_the_expiry_frees_nothing() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        let hold = rig.hold(&packet, "ann").await;
        rig.expire(packet.part).await;
        rig.store.release(packet.part, packet.terms.count, &hold).await.unwrap();
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.claims.len(), state.is_pending), (vec![], 0, false));
    })
    .await;
}

#[tokio::test]
async fn a_reconcile_leaves_what_the_decisions_say() {
    on_both(async |rig| {
        for case in CASES.trim().lines() {
            let columns: Vec<&str> = case.split('|').map(str::trim).collect();
            let [name, of, loaded, steps, free, users, known] = columns[..] else { panic!("{case}") };
            let packet = load(&rig, of, loaded).await;
            let (mut holds, mut reconciled) = (Vec::new(), Reconciled::Loaded);
            for step in steps.split(';') {
                let mut decisions = Vec::new();
                let is_reconcile = step.contains('=') || step.trim().is_empty();
                for word in step.split_whitespace() {
                    if let Some(user) = word.strip_prefix('+') {
                        holds.push(rig.hold(&packet, user).await);
                    } else if is_reconcile && word != "done" {
                        decisions.push(decision_of(word));
                    } else if let Some((user, slip)) = word.split_once(':') {
                        holds.push(forge(&rig, &packet, user, slip.parse().unwrap()).await);
                    }
                }
                if is_reconcile {
                    let settled = if step.contains("done") { &holds[..] } else { &[] };
                    reconciled = rig.reconcile(&packet, &decisions, settled).await;
                }
            }
            let state = rig.state(packet.part).await;
            assert_eq!(state.decided.iter().copied().collect::<Vec<_>>(), slips_in(known), "{name}");
            assert_eq!((users_of(&state), state.free), (users.to_owned(), slips_in(free)), "{name}");
            assert_eq!(state.terms[fields::KNOWN_COUNT], state.decided.len().to_string(), "{name}");
            assert_eq!(state.is_pending, !state.held.is_empty(), "{name}");
            let is_final = state.decided.len() == packet.part.slips(packet.terms.count).len();
            assert_eq!(reconciled == Reconciled::Final, is_final, "{name}");
            for (user, value) in state.claims.iter().filter(|(_, value)| value.starts_with('g')) {
                let slip = value[1..].split(':').next().unwrap().parse().unwrap();
                assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Confirmed(claim_of(slip)), "{name}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_part_of_which_a_slip_went_back_stays_over() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.reconcile(&packet, &[refunded(1)], &[]).await;
        assert_eq!(rig.reconcile(&packet, &[won(0, "ann")], &[]).await, Reconciled::Final);
        let went_back = GrabAnswer::WentBack { expires_at: packet.terms.expires_at, certain: true };
        assert_eq!(rig.grab(&packet, "eve").await, went_back);
    })
    .await;
}

/// Without the bitmap only this call knows that the slip of ann's hold is bob's.
#[tokio::test]
async fn a_slip_that_the_same_call_decides_is_not_free() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["DEL", &packet.keys().known]).await;
        rig.reconcile(&packet, &[won(0, "bob"), won(1, "ann")], &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [2]);
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
        assert_eq!(rig.grab(&packet, "zoe").await, NO_LIST);
        assert_eq!(rig.reconcile(&packet, &[won(2, "eve")], &[]).await, Reconciled::Loaded);
        assert_eq!(rig.grab(&packet, "zoe").await, NO_LIST);
        rig.load(&packet, &[won(0, "ann"), won(1, "bob")]).await;
        assert_eq!(rig.grab(&packet, "zoe").await, SOLD_OUT);
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
async fn a_tidied_part_has_the_right_number_of_holds_and_leaves_the_queue_without_any() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let keys = packet.keys();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        for wrong in ["1", "-2"] {
            let () = rig.run(["HINCRBY", &keys.part, fields::HELD_COUNT, wrong]).await;
            rig.store.tidy(packet.part).await.unwrap();
            let state = rig.state(packet.part).await;
            assert!(state.held.len() == 1 && state.is_pending, "{state:?}");
        }
        let () = rig.run(["HDEL", &keys.part, "ann"]).await;
        rig.store.tidy(packet.part).await.unwrap();
        assert!(!rig.state(packet.part).await.is_pending);
        assert!(rig.run::<i64, _>(["PTTL", &keys.part]).await > 0, "it is forgotten in time");
        // A part that is not loaded leaves the queue too.
        rig.hold(&packet, "bob").await;
        rig.forget(packet.part).await;
        rig.store.tidy(packet.part).await.unwrap();
        assert!(rig.state(packet.part).await.is_empty());
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
            let GrabAnswer::Held { slip, left, .. } = found else { panic!("{found:?}") };
            holds.push(Hold { slip, user: grabber.user, at: packet.terms.expires_at.before(left) });
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

#[tokio::test]
async fn nothing_is_put_back_after_the_expiry() {
    on_both(async |rig| {
        let packet = Packet::of(6);
        rig.load(&packet, &[refunded(2)]).await;
        rig.hold(&packet, "ann").await;
        rig.expire(packet.part).await;
        rig.reconcile(&packet, &[won(9, "ann")], &[]).await;
        let state = rig.state(packet.part).await;
        assert!(state.free.is_empty() && state.held.is_empty() && !state.is_pending, "{state:?}");
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
            assert!(rig.run::<i64, _>(["PTTL", &keys.part]).await > 0, "it is kept for ever");
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
async fn the_state_of_a_part_has_each_decision_and_counts_the_holds() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 20);
        assert_eq!(rig.store.part_state(packet.part).await.unwrap(), None, "it is not loaded");
        rig.load(&packet, &[]).await;
        for user in ["ann", "bob", "cat"] {
            rig.hold(&packet, user).await;
        }
        let shown = async || {
            let state = rig.part_state(&packet).await;
            (state.known_places().collect::<Vec<_>>(), state.held_count)
        };
        assert_eq!(shown().await, (vec![], 3));
        rig.reconcile(&packet, &[won(0, "ann"), refunded(9)], &[]).await;
        assert_eq!(shown().await, (vec![0, 9], 2));
        // A hold becomes free, since its user owns a slip of the other part.
        rig.reconcile(&packet, &[won(12, "bob")], &[]).await;
        assert_eq!(shown().await, (vec![0, 9], 1));
        let () = rig.run(["DEL", &packet.keys().known]).await;
        // The bitmap is lost, so views read the ledger, also after the next decision.
        assert_eq!(rig.store.part_state(packet.part).await.unwrap(), None);
        rig.reconcile(&packet, &[won(2, "cat")], &[]).await;
        assert_eq!(rig.store.part_state(packet.part).await.unwrap(), None);
        assert!(matches!(rig.grab(&packet, "cat").await, GrabAnswer::Confirmed(_)));
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
        assert_eq!(rig.grab(&packet, "ann").await, NO_LIST, "the ledger has her claim");
        rig.load(&packet, &[won(0, "ann"), won(1, "bob")]).await;
        assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(0)));
    })
    .await;
}

/// The list goes back alone: the bitmap knows of its slips' decisions.
#[tokio::test]
async fn a_list_that_was_rolled_back_alone_loses_what_is_decided() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        rig.load(&packet, &[]).await;
        let decisions = [won(0, "ann"), won(1, "bob")];
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        rig.reconcile(&packet, &decisions, &[]).await;
        let () = rig.run(["RPUSH", &packet.keys().free, "1", "0"]).await;
        rig.reconcile(&packet, &decisions, &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [2, 3]);
    })
    .await;
}

/// First the hash goes back, and later the bitmap.
#[tokio::test]
async fn a_decision_that_comes_again_is_no_news() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let keys = packet.keys();
        rig.load(&packet, &[won(1, "bob"), won(2, "cat")]).await;
        let () = rig.run(["HDEL", &keys.part, "cat"]).await;
        let () = rig.run(["HSET", &keys.part, fields::KNOWN_COUNT, "1"]).await;
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        let () = rig.run(["SETBIT", &keys.known, "0", "0"]).await;
        assert_eq!(rig.reconcile(&packet, &[won(0, "ann")], &[]).await, Reconciled::Loaded);
    })
    .await;
}

#[tokio::test]
async fn a_parked_hold_remains_the_users() {
    on_both(async |rig| {
        let packet = Packet::of(15);
        rig.load(&packet, &[]).await;
        for (slip, user) in (0..).zip(ODD_USERS) {
            let hold = rig.hold(&packet, user).await;
            for reason in ["no such slip: {}", "another\nreason"] {
                for _ in 0..2 {
                    rig.store.park(packet.part, &hold, reason).await.unwrap();
                    let outbox = rig.store.outbox(packet.part).await.unwrap();
                    assert_eq!(outbox.len(), 1);
                    assert_eq!((&outbox[0].hold, outbox[0].parked.as_deref()), (&hold, Some(reason)));
                }
            }
            assert_eq!(rig.grab(&packet, user).await, packet.held(&hold));
            rig.reconcile(&packet, &[won(slip, user)], &[]).await;
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Confirmed(claim_of(slip)));
            assert!(!rig.state(packet.part).await.is_pending);
            // Too late: the hold to park is gone.
            rig.store.park(packet.part, &hold, "late").await.unwrap();
            assert!(rig.state(packet.part).await.held.is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn only_the_named_hold_is_parked() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        let hold = rig.hold(&packet, "ann").await;
        let state = rig.state(packet.part).await;
        // Ids that contain one another, and a pattern that would match.
        for user in ["an", "annn", ".nn", "%"].iter().filter_map(|user| user.parse().ok()) {
            rig.store.park(packet.part, &Hold { user, ..hold.clone() }, "a reason").await.unwrap();
        }
        rig.store.park(packet.part, &Hold { slip: 1, ..hold }, "a reason").await.unwrap();
        assert_eq!(rig.state(packet.part).await, state);
    })
    .await;
}

#[tokio::test]
async fn the_outbox_is_read_oldest_first() {
    on_both(async |rig| {
        // Two packets of one partition, which packets of other tests may share.
        let first = Packet::of(3);
        let second = loop {
            let packet = Packet::of(3);
            if packet.part.partition() == first.part.partition() {
                break packet;
            }
        };
        for packet in [&second, &first] {
            rig.load(packet, &[]).await;
        }
        let old = rig.hold(&first, "ann").await;
        rig.hold(&second, "ann").await;
        // Makes the older one older still: both may be of the same millisecond.
        let keys = first.keys();
        let () = rig.run(["ZADD", &keys.pending, "7", &keys.name]).await;
        let left = first.terms.expires_at.ms() - 7;
        let () = rig.run(["HSET", &keys.part, "ann", &format!("h0:{left}")]).await;
        rig.hold(&first, "bob").await;
        let partition = first.part.partition();
        // The server is shared; parts of other tests come and go.
        let pending = async || {
            let all = rig.store.pending_parts(partition).await.unwrap();
            all.into_iter().filter(|part| [first.part, second.part].contains(part)).collect::<Vec<_>>()
        };
        let before = pending().await;
        let place = |part| before.iter().position(|pending| *pending == part).unwrap();
        assert!(place(first.part) < place(second.part), "{before:?}");
        assert_eq!(rig.run::<u64, _>(["ZSCORE", &keys.pending, &keys.name]).await, 7, "the oldest hold counts");
        let held = rig.store.outbox(first.part).await.unwrap();
        assert_eq!(held.iter().map(|held| held.hold.slip).collect::<Vec<_>>(), [0, 1]);
        assert!(held[0].hold.at < old.at);

        // Invalid entries do no harm.
        let () = rig.run(["ZADD", &keys.pending, "1", "not a part"]).await;
        let () = rig.run(["HSET", &keys.part, "x", "not a hold"]).await;
        assert_eq!(pending().await, before);
        assert_eq!(rig.store.outbox(first.part).await.unwrap(), held);
        let () = rig.run(["ZREM", &keys.pending, "not a part"]).await;

        let elsewhere = Partition::wrapping(partition.index() + PARTITIONS / 2);
        assert!(!rig.store.pending_parts(elsewhere).await.unwrap().contains(&first.part));
    })
    .await;
}

#[tokio::test]
async fn one_process_has_the_load_lease_until_it_releases_it() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let acquire = async || rig.store.acquire_load_lease(packet.part, AN_HOUR).await.unwrap();
        assert_eq!((acquire().await, acquire().await), (true, false));
        let left: u64 = rig.run(["PTTL", &packet.keys().loading]).await;
        assert!(left > 0 && left <= u64::try_from(AN_HOUR.as_millis()).unwrap());
        for _ in 0..2 {
            rig.store.release_load_lease(packet.part).await.unwrap();
        }
        assert_eq!((acquire().await, acquire().await), (true, false));
    })
    .await;
}

/// The terms have no such value today.
#[tokio::test]
async fn a_field_of_the_terms_is_never_taken_for_a_hold() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        for user in ["ann", "bob"] {
            rig.hold(&packet, user).await;
        }
        let () = rig.run(["HSET", &packet.keys().part, fields::PASSPHRASE, "h1:7"]).await;
        let outbox = rig.store.outbox(packet.part).await.unwrap();
        assert_eq!(outbox.len(), 2);
        assert_eq!(rig.part_state(&packet).await.held_count, 2);
        // Reads the state, whose number of holds must be that of the terms.
        rig.store.tidy(packet.part).await.unwrap();
        // Bob's hold, and no field of the terms, gives way to Eve's claim.
        let bob = outbox.into_iter().map(|entry| entry.hold).find(|hold| hold.slip == 1).unwrap();
        rig.reconcile(&packet, &[won(1, "eve")], &[bob]).await;
        assert_eq!(rig.state(packet.part).await.claims.keys().collect::<Vec<_>>(), ["ann", "eve"]);
    })
    .await;
}

#[tokio::test]
async fn the_state_of_a_part_has_the_servers_time() {
    on_both(async |rig| {
        let packet = Packet::of(1);
        rig.load(&packet, &[won(0, "ann")]).await;
        let before = now();
        let at = rig.part_state(&packet).await.now;
        assert!((before..=now()).contains(&at), "{at} is not after {before}");
    })
    .await;
}
