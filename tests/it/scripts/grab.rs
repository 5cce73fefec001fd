use shared::domain::Refusal;

use super::*;

#[tokio::test]
async fn a_part_that_is_not_loaded_has_no_answer_and_gets_no_key() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let everyone: Vec<Grabber> = ODD_USERS.map(grabber).into();
        for _ in 0..2 {
            assert_eq!(rig.store.grab(packet.part, &everyone).await.unwrap(), None);
        }
        assert!(rig.state(packet.part).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn each_user_id_gets_one_hold() {
    on_both(async |rig| {
        let packet = Packet::of(20);
        rig.load(&packet, &[]).await;
        let before = now();
        for (slip, user) in (0..).zip(ODD_USERS) {
            let hold = rig.hold(&packet, user).await;
            assert_eq!(hold.slip, slip);
            assert!(hold.at >= before && hold.at <= now(), "{hold:?}");
            let state = rig.state(packet.part).await;
            // A second execution gives the same answers and changes nothing.
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Held { slip, at: hold.at, fresh: false });
            assert_eq!(rig.state(packet.part).await, state);
            assert_eq!(state.held[&slip], OutboxEntry { hold, parked: None });
            assert!(state.is_pending);
        }
        let state = rig.state(packet.part).await;
        assert_eq!(state.claims.len(), ODD_USERS.len());
        assert_eq!(state.free, (11..20).collect::<Vec<u32>>());
        let held = rig.store.outbox(packet.part, Duration::ZERO).await.unwrap();
        let users: BTreeSet<&str> = held.iter().map(|held| held.hold.user.as_str()).collect();
        assert_eq!(users, ODD_USERS.into());
    })
    .await;
}

#[tokio::test]
async fn a_hold_has_the_time_of_redis_also_early_in_a_second() {
    let rig = Rig::on_one_node().await;
    let packet = Packet::of(20);
    rig.load(&packet, &[]).await;
    rig.hold(&packet, "ann").await;
    // Redis tells its time in seconds and microseconds, which have fewer than six digits then.
    for user in ["bob", "eve", "fay"] {
        let late = rig.time(packet.part).await % 1000;
        tokio::time::sleep(Duration::from_millis(1005 - late)).await;
        let before = rig.time(packet.part).await;
        let held = rig.hold(&packet, user).await.at.ms();
        assert!((before..=rig.time(packet.part).await).contains(&held), "{before}: {held}");
    }
}

#[tokio::test]
async fn a_confirmed_claim_answers_for_ever() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 4).with_passphrase("open");
        rig.load(&packet, &[won(0, "ann")]).await;
        // Slip 3 is in the other part.
        rig.reconcile(&packet, &[won(3, "0")], &[]).await;
        let everybody_has_his = async || {
            // Also without the passphrase, which a winner need not repeat.
            assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(0)));
            assert_eq!(rig.grab(&packet, "0").await, GrabAnswer::Confirmed(claim_of(3)));
        };
        everybody_has_his().await;
        rig.expire(packet.part).await;
        everybody_has_his().await;
    })
    .await;
}

#[tokio::test]
async fn no_slip_is_certain_once_every_decision_is_known() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        assert_eq!(rig.grab(&packet, "eve").await, PERHAPS_SOLD_OUT);
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        assert_eq!(rig.grab(&packet, "eve").await, PERHAPS_SOLD_OUT);
        rig.reconcile(&packet, &[won(1, "bob")], &[]).await;
        for _ in 0..2 {
            assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);
        }
        rig.expire(packet.part).await;
        assert_eq!(rig.grab(&packet, "eve").await, EXPIRED);
    })
    .await;
}

#[tokio::test]
async fn after_expiry_no_slip_is_given_and_nothing_is_certain_before_the_last_decision() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[]).await;
        let hold = rig.hold(&packet, "ann").await;
        // Also while the list exists: Redis' clock and the expiry of its keys may differ.
        rig.let_expire(&packet.keys(), 1).await;
        let state = rig.state(packet.part).await;
        assert_eq!(rig.grab(&packet, "eve").await, PERHAPS_EXPIRED);
        assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Held { slip: 0, at: hold.at, fresh: false });
        assert_eq!(rig.state(packet.part).await, state);
        rig.reconcile(&packet, &[won(0, "ann"), refunded(1)], &[]).await;
        assert_eq!(rig.grab(&packet, "eve").await, PERHAPS_EXPIRED);
        rig.reconcile(&packet, &[refunded(2)], &[]).await;
        assert_eq!(rig.grab(&packet, "eve").await, EXPIRED);
    })
    .await;
}

#[tokio::test]
async fn in_redis_mode_no_slip_is_certain() {
    on_both(async |rig| {
        let packet = Packet::of(2).acknowledged_by_redis();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);
        rig.expire(packet.part).await;
        assert_eq!(rig.grab(&packet, "eve").await, EXPIRED);
    })
    .await;
}

#[tokio::test]
async fn only_recipients_get_a_slip() {
    on_both(async |rig| {
        let packet = Packet::of(20).for_recipients(&ODD_USERS[1..]).with_passphrase("open");
        rig.load(&packet, &[]).await;
        let state = rig.state(packet.part).await;
        // The user id is checked before the passphrase.
        for said in ["open", "wrong"] {
            assert_eq!(
                rig.grab_as(&packet, &packet.saying("ann", said)).await,
                GrabAnswer::Refused(Refusal::NotARecipient)
            );
        }
        assert_eq!(rig.state(packet.part).await, state);
        for user in &ODD_USERS[1..] {
            let found = rig.grab_as(&packet, &packet.saying(user, "open")).await;
            assert!(matches!(found, GrabAnswer::Held { fresh: true, .. }), "{user}: {found:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn ten_wrong_passphrases_block_a_user_for_a_minute() {
    const WRONG: GrabAnswer = GrabAnswer::Refused(Refusal::WrongPassphrase);
    on_both(async |rig| {
        let packet = Packet::of(5).with_passphrase("芝麻开门");
        rig.load(&packet, &[]).await;
        let (right, wrong) = (packet.saying("}", "芝麻开门"), packet.saying("}", "芝麻"));
        for _ in 0..10 {
            assert_eq!(rig.grab_as(&packet, &wrong).await, WRONG);
            assert_eq!(rig.grab(&packet, "}").await, WRONG, "a missing passphrase is refused, but it is no guess");
        }
        for said in [&wrong, &right] {
            let found = rig.grab_as(&packet, said).await;
            let GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms }) = found else { panic!("{found:?}") };
            assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
        }
        // The block applies to one user.
        rig.grab_as(&packet, &packet.saying("ann", "芝麻开门")).await;
        assert_eq!(rig.state(packet.part).await.held.len(), 1);

        // After a minute the user may try again.
        let tries = packet.keys().tries;
        let end_the_minute = async || {
            let past = now().before(Duration::from_mins(1)).ms().to_string();
            let () = rig.run(["HSET", &tries, fields::TRIES_END, &past]).await;
        };
        end_the_minute().await;
        assert_eq!(rig.grab_as(&packet, &wrong).await, WRONG);
        let counted = rig.state(packet.part).await.tries;
        assert_eq!(counted["}"], "1");
        let end: u64 = counted[fields::TRIES_END].parse().unwrap();
        assert!(Timestamp::from_ms(end).since(now()) > Duration::from_secs(30), "{end}");
        end_the_minute().await;
        assert!(matches!(rig.grab_as(&packet, &right).await, GrabAnswer::Held { fresh: true, .. }));
    })
    .await;
}

#[tokio::test]
async fn a_missing_passphrase_beside_others_is_no_guess() {
    on_both(async |rig| {
        let packet = Packet::of(5).with_passphrase("open");
        rig.load(&packet, &[]).await;
        let batch = [packet.saying("ann", "open"), grabber("bob"), packet.saying("cy", "guess")];
        let found = rig.grab_all(&packet, &batch).await;
        let wrong = GrabAnswer::Refused(Refusal::WrongPassphrase);
        assert!(matches!(found[0], GrabAnswer::Held { slip: 0, fresh: true, .. }), "{found:?}");
        assert_eq!(found[1..], [wrong.clone(), wrong]);
        let tries = rig.state(packet.part).await.tries;
        let counted: Vec<&str> = tries.keys().map(String::as_str).filter(|user| *user != fields::TRIES_END).collect();
        assert_eq!(counted, ["cy"]);
    })
    .await;
}

#[tokio::test]
async fn the_minute_of_guesses_is_a_minute() {
    on_both(async |rig| {
        let end = loop {
            let packet = Packet::of(5).with_passphrase("open");
            rig.load(&packet, &[]).await;
            let before = rig.time(packet.part).await;
            rig.grab_as(&packet, &packet.saying("ann", "guess")).await;
            // All within one millisecond.
            if rig.time(packet.part).await == before {
                let end: u64 = rig.run(["HGET", &packet.keys().tries, fields::TRIES_END]).await;
                break end - before;
            }
        };
        assert_eq!(end, 60_000);
        // A user who must wait receives how long, down to the last millisecond.
        let packet = Packet::of(5).with_passphrase("open");
        rig.load(&packet, &[]).await;
        let end = rig.time(packet.part).await + NEAR_MS;
        let () = rig.run(["HSET", &packet.keys().tries, fields::TRIES_END, &end.to_string(), "ann", "10"]).await;
        loop {
            match rig.grab_as(&packet, &packet.saying("ann", "open")).await {
                GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms }) => assert!(retry_after_ms > 0),
                GrabAnswer::Held { at, .. } => break assert!(at.ms() >= end, "{at:?}, not {end}"),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

/// Far enough for a few calls, near enough to wait for.
const NEAR_MS: u64 = 30;

#[tokio::test]
async fn no_slip_is_held_from_the_millisecond_of_the_expiry_on() {
    on_both(async |rig| {
        for packet in [Packet::of(1_000), Packet::of(1_000).with_passphrase("open")] {
            rig.load(&packet, &[]).await;
            rig.grab_as(&packet, &packet.saying("first", "open")).await;
            let expiry = rig.time(packet.part).await + NEAR_MS;
            rig.let_expire(&packet.keys(), expiry).await;
            for user in 0.. {
                let mut user = packet.saying(&format!("user-{user}"), "open");
                user.passphrase = user.passphrase.filter(|_| packet.terms.guard.passphrase.is_some());
                match rig.grab_as(&packet, &user).await {
                    GrabAnswer::Held { at, .. } => assert!(at.ms() < expiry, "{at:?}, expired at {expiry}"),
                    GrabAnswer::Nothing { expired: true, .. } => break,
                    GrabAnswer::Nothing { expired: false, .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn guesses_leave_no_trace_in_a_part_and_are_forgotten_after_a_minute() {
    on_both(async |rig| {
        let packet = Packet::of(5).with_passphrase("open");
        rig.load(&packet, &[]).await;
        let before: BTreeMap<String, String> = rig.run(["HGETALL", &packet.keys().part]).await;
        for batch in 0..10 {
            let guesses: Vec<Grabber> = (0..64).map(|n| packet.saying(&format!("u{batch}-{n}"), "guess")).collect();
            let found = rig.grab_all(&packet, &guesses).await;
            assert!(found.iter().all(|found| *found == GrabAnswer::Refused(Refusal::WrongPassphrase)), "{found:?}");
        }
        assert_eq!(rig.run::<BTreeMap<String, String>, _>(["HGETALL", &packet.keys().part]).await, before);
        // All of them have one end, however late the last guess came.
        let tries = packet.keys().tries;
        assert_eq!(rig.run::<u32, _>(["HLEN", &tries]).await, 641);
        let end: u64 = rig.run(["HGET", &tries, fields::TRIES_END]).await;
        assert_eq!(rig.run::<u64, _>(["PEXPIRETIME", &tries]).await, end - 1);
        assert!(Timestamp::from_ms(end).since(now()) <= Duration::from_mins(1));
    })
    .await;
}

#[tokio::test]
async fn a_batch_takes_free_slips_in_its_order() {
    on_both(async |rig| {
        let packet = Packet::of(40);
        rig.load(&packet, &[]).await;
        let users: Vec<Grabber> = (0..64).map(|n| grabber(&format!("user-{n}"))).collect();
        let first = rig.grab_all(&packet, &users).await;
        for (slip, found) in (0..40).zip(&first) {
            assert!(matches!(found, GrabAnswer::Held { slip: held, fresh: true, .. } if *held == slip), "{found:?}");
        }
        assert!(first[40..].iter().all(|found| *found == PERHAPS_SOLD_OUT));
        let state = rig.state(packet.part).await;
        for (first, second) in first.iter().zip(rig.grab_all(&packet, &users).await) {
            let expected = match *first {
                GrabAnswer::Held { slip, at, .. } => GrabAnswer::Held { slip, at, fresh: false },
                _ => PERHAPS_SOLD_OUT,
            };
            assert_eq!(second, expected);
        }
        assert_eq!(rig.state(packet.part).await, state);
        assert_eq!((state.held.len(), state.free.len()), (40, 0));
    })
    .await;
}

#[tokio::test]
async fn grabs_continue_with_the_next_range_of_free_slips() {
    on_both(async |rig| {
        let packet = Packet::of(9);
        rig.load(&packet, &[refunded(1), refunded(4), refunded(5)]).await;
        let take = async |users: &[&str]| {
            let users: Vec<Grabber> = users.iter().map(|user| grabber(user)).collect();
            let slip = |found| if let GrabAnswer::Held { slip, fresh: true, .. } = found { Some(slip) } else { None };
            let slips: Vec<Option<u32>> = rig.grab_all(&packet, &users).await.into_iter().map(slip).collect();
            // Reading the state also checks its invariants.
            (slips, rig.state(packet.part).await.free)
        };
        assert_eq!(take(&["ann"]).await, (vec![Some(0)], vec![2, 3, 6, 7, 8]));
        assert_eq!(take(&["bob", "cat", "dan"]).await, (vec![Some(2), Some(3), Some(6)], vec![7, 8]));
        assert_eq!(take(&["eve"]).await, (vec![Some(7)], vec![8]));
        // Ann's hold becomes free since she has another slip. It comes after the slips that were never taken.
        rig.reconcile(&packet, &[won(6, "ann")], &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [8, 0]);
        assert_eq!(take(&["fay", "gus", "hal"]).await, (vec![Some(8), Some(0), None], vec![]));
    })
    .await;
}

#[tokio::test]
async fn each_user_of_a_mixed_batch_gets_their_own_answer() {
    on_both(async |rig| {
        let packet = Packet::of(3).for_recipients(&["ann", "bob", "3", "eve", "}", "g1:2:3"]).with_passphrase("open");
        rig.load(&packet, &[won(0, "ann")]).await;
        let held = rig.grab_as(&packet, &packet.saying("bob", "open")).await;
        let GrabAnswer::Held { slip: 1, at, fresh: true } = held else { panic!("{held:?}") };
        for _ in 0..10 {
            rig.grab_as(&packet, &packet.saying("3", "wrong")).await;
        }
        let batch = [
            packet.saying("zoe", "open"),
            packet.saying("eve", "wrong"),
            packet.saying("}", "open"),
            packet.saying("bob", "wrong"),
            packet.saying("3", "open"),
            packet.saying("g1:2:3", "open"),
            grabber("ann"),
        ];
        let found = rig.grab_all(&packet, &batch).await;
        assert_eq!(found[0], GrabAnswer::Refused(Refusal::NotARecipient));
        assert_eq!(found[1], GrabAnswer::Refused(Refusal::WrongPassphrase));
        assert!(matches!(found[2], GrabAnswer::Held { slip: 2, fresh: true, .. }), "{:?}", found[2]);
        assert_eq!(found[3], GrabAnswer::Held { slip: 1, at, fresh: false });
        assert!(matches!(found[4], GrabAnswer::Refused(Refusal::TooManyTries { .. })), "{:?}", found[4]);
        assert_eq!(found[5], PERHAPS_SOLD_OUT);
        assert_eq!(found[6], GrabAnswer::Confirmed(claim_of(0)));
        assert_eq!(rig.state(packet.part).await.tries["eve"], "1");
    })
    .await;
}

#[tokio::test]
async fn one_call_serves_several_packets_of_a_partition() {
    on_both(async |rig| {
        let packets = neighbours(&Packet::of(2), 4);
        let [large, absent, guarded, small] = &packets[..] else { unreachable!() };
        let guarded = guarded.clone().with_passphrase("open");
        rig.load(large, &[won(0, "ann")]).await;
        rig.load(&guarded, &[]).await;
        rig.load(small, &[won(0, "bob"), won(1, "cy")]).await;
        let asks = vec![
            (large.part, ["ann", "bob", "cy"].map(grabber).to_vec()),
            (absent.part, vec![grabber("ann")]),
            (guarded.part, vec![grabber("ann"), guarded.saying("bob", "open"), guarded.saying("cy", "no")]),
            (small.part, vec![grabber("ann"), grabber("bob")]),
        ];
        let found = rig.store.grab_each(&asks).await.unwrap();
        let none = GrabAnswer::Nothing { expired: false, certain: false };
        let held =
            |found: &GrabAnswer, wanted: u32| matches!(found, GrabAnswer::Held { slip, fresh: true, .. } if *slip == wanted);
        let first = found[0].as_ref().unwrap();
        assert!(first[0] == GrabAnswer::Confirmed(claim_of(0)) && held(&first[1], 1) && first[2] == none, "{first:?}");
        assert_eq!(found[1], None);
        let third = found[2].as_ref().unwrap();
        let wrong = GrabAnswer::Refused(Refusal::WrongPassphrase);
        assert!(third[0] == wrong && held(&third[1], 0) && third[2] == wrong, "{third:?}");
        let certain = GrabAnswer::Nothing { expired: false, certain: true };
        assert_eq!(found[3], Some(vec![certain, GrabAnswer::Confirmed(claim_of(0))]));
        // Each part has only its own data, and single calls give the same answers as the shared one.
        assert_eq!(rig.state(large.part).await.held.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(rig.state(guarded.part).await.held.keys().copied().collect::<Vec<_>>(), [0]);
        assert!(rig.state(large.part).await.is_pending && !rig.state(small.part).await.is_pending);
        assert!(rig.state(absent.part).await.is_empty());
        let again = rig.store.grab_each(&asks).await.unwrap();
        for ((part, grabbers), found) in asks.iter().zip(again) {
            assert_eq!(rig.store.grab(*part, grabbers).await.unwrap(), found, "{part}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_part_that_answers_at_once_does_not_hide_the_others_of_its_call() {
    on_both(async |rig| {
        let packets = neighbours(&Packet::of(2), 4);
        let [queued, other, absent, unqueued] = &packets[..] else { unreachable!() };
        for packet in [queued, other, unqueued] {
            rig.load(packet, &[]).await;
        }
        let mut held = Vec::new();
        for packet in [queued, other] {
            let at = rig.hold(packet, "ann").await.at;
            held.push(Some(vec![GrabAnswer::Held { slip: 0, at, fresh: false }]));
        }
        let ask = |packet: &Packet, user| (packet.part, vec![grabber(user)]);
        let [queued_ann, other_ann, absent_ann] = [queued, other, absent].map(|packet| ask(packet, "ann"));
        for (asks, expected) in [
            (vec![queued_ann.clone(), absent_ann.clone()], vec![held[0].clone(), None]),
            (vec![absent_ann.clone(), queued_ann.clone()], vec![None, held[0].clone()]),
            (vec![queued_ann.clone(), absent_ann, other_ann.clone()], vec![held[0].clone(), None, held[1].clone()]),
            (vec![queued_ann, other_ann], held.clone()),
        ] {
            assert_eq!(rig.store.grab_each(&asks).await.unwrap(), expected);
        }
        let found = rig.store.grab_each(&[ask(unqueued, "bob"), ask(queued, "bob")]).await.unwrap();
        for (found, expected) in found.iter().zip([0, 1]) {
            let is_fresh =
                matches!(found.as_deref(), Some([GrabAnswer::Held { slip, fresh: true, .. }]) if *slip == expected);
            assert!(is_fresh, "{found:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_batch_makes_no_call() {
    let rig = Rig::on_one_node().await;
    assert!(rig.store.grab_each(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_corrupt_part_fails_the_call_and_keeps_earlier_holds() {
    on_both(async |rig| {
        let packets = neighbours(&Packet::of(2), 2);
        let [good, spoilt] = &packets[..] else { unreachable!() };
        rig.load(good, &[]).await;
        rig.hold(good, "bob").await;
        let () = rig.run(["SET", &spoilt.keys().part, "not a hash"]).await;
        let asks = [(good.part, vec![grabber("ann")]), (spoilt.part, vec![grabber("ann")])];
        let error = rig.store.grab_each(&asks).await.unwrap_err();
        assert!(matches!(error, HotStoreError::Impossible(_)), "{error:?}");
        // The hold from before the fault remains: Ann receives it when she asks again.
        assert!(matches!(rig.grab(good, "ann").await, GrabAnswer::Held { slip: 1, fresh: false, .. }));
    })
    .await;
}
