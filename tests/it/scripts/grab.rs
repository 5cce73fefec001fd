//! Grabs, also of parts that start later, and of parts that the operator closes.

use shared::domain::Refusal;
use shared::ports::PartGrabs;

use super::*;

const fn ask(packet: &Packet, grabbers: Vec<Grabber>) -> PartGrabs {
    PartGrabs { part: packet.part, grabbers }
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
            assert_eq!(rig.grab(&packet, user).await, packet.held(&hold));
            assert_eq!(rig.state(packet.part).await, state);
            assert_eq!(state.held[&slip], OutboxEntry { hold, parked: None });
            assert!(state.is_pending);
        }
        let state = rig.state(packet.part).await;
        assert_eq!(state.claims.len(), ODD_USERS.len());
        assert_eq!(state.free, (11..20).collect::<Vec<u32>>());
        let held = rig.store.outbox(packet.part).await.unwrap();
        let users: BTreeSet<&str> = held.iter().map(|held| held.hold.user.as_str()).collect();
        assert_eq!(users, ODD_USERS.into());
    })
    .await;
}

#[tokio::test]
async fn no_slip_is_certain_once_every_decision_is_known_or_with_redis_word() {
    use AckMode::{Ledger, Redis};
    on_both(async |rig| {
        let [one, two, three] = [won(0, "ann"), won(1, "bob"), refunded(2)];
        let expires_at = now().after(AN_HOUR);
        let [perhaps_back, went_back] = [false, true].map(|certain| GrabAnswer::WentBack { expires_at, certain });
        for (ack, count, decisions, expected) in [
            (Ledger, 2, vec![], PERHAPS_SOLD_OUT),
            (Ledger, 2, vec![one.clone()], PERHAPS_SOLD_OUT),
            (Ledger, 2, vec![one.clone(), two.clone()], SOLD_OUT),
            // Here a slip is free until the expiry.
            (Ledger, 3, vec![one.clone(), two.clone()], NO_LIST),
            (Ledger, 3, vec![one.clone(), three.clone()], perhaps_back),
            (Ledger, 3, vec![one, two, three], went_back),
            (Redis, 2, vec![], SOLD_OUT),
            (Redis, 3, vec![], GrabAnswer::NoList { certain: true }),
        ] {
            let mut packet = Packet::of(count);
            packet.terms.ack = ack;
            packet.terms.expires_at = expires_at;
            rig.load(&packet, &[]).await;
            let ann = rig.hold(&packet, "ann").await;
            rig.hold(&packet, "bob").await;
            rig.reconcile(&packet, &decisions, &[]).await;
            let case = format!("{ack:?}, {decisions:?} of {count}");
            let () = rig.run(["PEXPIREAT", &packet.keys().free, "1"]).await;
            let state = rig.state(packet.part).await;
            assert_eq!(rig.grab(&packet, "eve").await, expected, "{case}");
            let two = rig.grab_all(&packet, &["eve", "fay"].map(grabber)).await;
            assert_eq!(two, [expected.clone(), expected], "{case}");
            if decisions.is_empty() {
                assert_eq!(rig.grab(&packet, "ann").await, packet.held(&ann), "{case}");
            }
            // All that losers change is that the part has a word.
            let mut after = rig.state(packet.part).await;
            if !state.terms.contains_key(fields::WORD) {
                after.terms.remove(fields::WORD);
            }
            assert_eq!(after, state, "{case}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_word_of_a_full_part_is_taken_back_with_a_slip() {
    on_both(async |rig| {
        for ack in [AckMode::Ledger, AckMode::Redis] {
            for how in ["release", "reconcile", "tidy"] {
                let mut packet = Packet::of(2);
                packet.terms.ack = ack;
                rig.load(&packet, &[]).await;
                let ann = rig.hold(&packet, "ann").await;
                rig.hold(&packet, "bob").await;
                let full = GrabAnswer::SoldOut { certain: ack == AckMode::Redis };
                for _ in 0..2 {
                    assert_eq!(rig.grab(&packet, "eve").await, full, "{ack:?}");
                }
                let word = async || rig.state(packet.part).await.terms.get(fields::WORD).cloned();
                if how == "release" {
                    // A claim takes no slip back.
                    rig.reconcile(&packet, &[won(1, "bob")], &[]).await;
                    assert!(word().await.is_some(), "{ack:?}");
                }
                match how {
                    "release" => rig.store.release(packet.part, 2, &ann).await.unwrap(),
                    // Bob has ann's slip by the ledger's word, so the one that was held for bob is free.
                    "reconcile" => drop(rig.reconcile(&packet, &[won(0, "bob")], &[ann]).await),
                    _ => {
                        let () = rig.run(["HDEL", &packet.keys().part, "ann"]).await;
                        rig.store.tidy(packet.part).await.unwrap();
                    }
                }
                assert_eq!(word().await, None, "{ack:?}, {how}");
                // A list that Redis loses is missed, and made anew.
                let () = rig.run(["DEL", &packet.keys().free]).await;
                let no_list = GrabAnswer::NoList { certain: ack == AckMode::Redis };
                assert_eq!(rig.grab(&packet, "eve").await, no_list, "{ack:?}, {how}");
            }
        }
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
        let () = rig.run(["PEXPIRE", &tries, "1"]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(rig.grab_as(&packet, &wrong).await, WRONG);
        assert_eq!(rig.state(packet.part).await.tries, [("}".to_owned(), "1".to_owned())].into());
        assert!(matches!(rig.grab_as(&packet, &right).await, GrabAnswer::Held { fresh: true, .. }));
    })
    .await;
}

#[tokio::test]
async fn the_minute_of_guesses_is_a_minute_from_the_first_on() {
    on_both(async |rig| {
        let packet = Packet::of(5).with_passphrase("open");
        let tries = packet.keys().tries;
        rig.load(&packet, &[]).await;
        let left = async || rig.run::<i64, _>(["PTTL", &tries]).await;
        rig.grab_as(&packet, &packet.saying("ann", "guess")).await;
        assert!((30_000..=60_000).contains(&left().await));
        let () = rig.run(["PEXPIRE", &tries, "20000"]).await;
        rig.grab_as(&packet, &packet.saying("bob", "guess")).await;
        assert!(left().await <= 20_000, "a later guess does not begin the minute anew");
        // A fault can't block anybody for ever.
        for count in ["1", "10"] {
            let () = rig.run(["HSET", &tries, "ann", count]).await;
            let () = rig.run(["PERSIST", &tries]).await;
            rig.grab_as(&packet, &packet.saying("ann", "guess")).await;
            assert!((30_000..=60_000).contains(&left().await));
        }
        // A user who must wait receives how long, down to the last millisecond.
        let () = rig.run(["PEXPIRE", &tries, &NEAR_MS.to_string()]).await;
        loop {
            match rig.grab_as(&packet, &packet.saying("ann", "open")).await {
                GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms }) => assert!(retry_after_ms > 0),
                GrabAnswer::Held { .. } => break,
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
            let () = rig.run(["PEXPIRE", &packet.keys().free, &NEAR_MS.to_string()]).await;
            for user in 0.. {
                let mut user = packet.saying(&format!("user-{user}"), "open");
                user.passphrase = user.passphrase.filter(|_| packet.terms.guard.passphrase.is_some());
                match rig.grab_as(&packet, &user).await {
                    GrabAnswer::Held { left, .. } => assert!(left > Duration::ZERO),
                    GrabAnswer::NoList { .. } => break,
                    PERHAPS_SOLD_OUT => panic!("too few slips"),
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
        assert_eq!(rig.run::<u32, _>(["HLEN", &packet.keys().tries]).await, 640);
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
                GrabAnswer::Held { slip, left, .. } => GrabAnswer::Held { slip, left, fresh: false },
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
async fn a_slip_that_comes_back_is_taken_last() {
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
        let GrabAnswer::Held { slip: 1, left, fresh: true } = held else { panic!("{held:?}") };
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
            grabber("eve"),
        ];
        let found = rig.grab_all(&packet, &batch).await;
        assert_eq!(found[7], GrabAnswer::Refused(Refusal::WrongPassphrase), "a missing passphrase is no guess");
        assert_eq!(found[0], GrabAnswer::Refused(Refusal::NotARecipient));
        assert_eq!(found[1], GrabAnswer::Refused(Refusal::WrongPassphrase));
        assert!(matches!(found[2], GrabAnswer::Held { slip: 2, fresh: true, .. }), "{:?}", found[2]);
        assert_eq!(found[3], GrabAnswer::Held { slip: 1, left, fresh: false });
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
        assert!(rig.store.grab_each(&[]).await.unwrap().is_empty());
        let packets = neighbours(&Packet::of(2), 4);
        let [large, absent, other, small] = &packets[..] else { unreachable!() };
        rig.load(large, &[won(0, "ann")]).await;
        rig.load(other, &[]).await;
        rig.load(small, &[won(0, "bob"), won(1, "cy")]).await;
        let asks = vec![
            ask(large, ["ann", "bob", "cy"].map(grabber).to_vec()),
            ask(absent, vec![grabber("ann")]),
            ask(other, vec![grabber("bob")]),
            ask(small, vec![grabber("ann"), grabber("bob")]),
        ];
        let found = rig.store.grab_each(&asks).await.unwrap();
        let none = GrabAnswer::SoldOut { certain: false };
        let held =
            |found: &GrabAnswer, wanted: u32| matches!(found, GrabAnswer::Held { slip, fresh: true, .. } if *slip == wanted);
        let first = found[0].as_ref().unwrap();
        assert!(first[0] == GrabAnswer::Confirmed(claim_of(0)) && held(&first[1], 1) && first[2] == none, "{first:?}");
        assert_eq!(found[1], None);
        assert!(held(&found[2].as_ref().unwrap()[0], 0), "{found:?}");
        let certain = GrabAnswer::SoldOut { certain: true };
        assert_eq!(found[3], Some(vec![certain, GrabAnswer::Confirmed(claim_of(0))]));
        // Each part has only its own data, and single calls give the same answers as the shared one.
        assert_eq!(rig.state(large.part).await.held.keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(rig.state(other.part).await.held.keys().copied().collect::<Vec<_>>(), [0]);
        assert!(rig.state(large.part).await.is_pending && !rig.state(small.part).await.is_pending);
        assert!(rig.state(absent.part).await.is_empty());
        let again = rig.store.grab_each(&asks).await.unwrap();
        for (PartGrabs { part, grabbers }, found) in asks.iter().zip(again) {
            assert_eq!(rig.store.grab(*part, grabbers).await.unwrap(), found, "{part}");
        }
    })
    .await;
}

#[tokio::test]
async fn guarded_parts_share_a_call_of_their_own() {
    on_both(async |rig| {
        let packets = neighbours(&Packet::of(2), 3).into_iter().map(|packet| packet.with_passphrase("open"));
        let packets: Vec<Packet> = packets.collect();
        let [one, absent, other] = &packets[..] else { unreachable!() };
        assert_eq!(rig.store.lane(one.part), rig.store.lane(other.part));
        assert_ne!(rig.store.lane(one.part), rig.store.lane(Packet::of(2).part));
        rig.load(one, &[]).await;
        rig.load(other, &[]).await;
        let asks = vec![
            ask(one, vec![grabber("ann"), one.saying("bob", "open"), one.saying("cy", "no")]),
            ask(absent, vec![absent.saying("ann", "open")]),
            ask(other, vec![other.saying("cy", "open"), other.saying("ann", "open")]),
        ];
        let found = rig.store.grab_each(&asks).await.unwrap();
        let wrong = GrabAnswer::Refused(Refusal::WrongPassphrase);
        let [Some(first), None, Some(third)] = &found[..] else { panic!("{found:?}") };
        assert!(first[0] == wrong && matches!(first[1], GrabAnswer::Held { slip: 0, .. }) && first[2] == wrong);
        assert!(third.iter().all(|answer| matches!(answer, GrabAnswer::Held { fresh: true, .. })), "{third:?}");
    })
    .await;
}

#[tokio::test]
async fn a_corrupt_part_fails_the_call_and_keeps_earlier_holds() {
    on_both(async |rig| {
        let packets = neighbours(&Packet::of(2), 2);
        let [good, spoilt] = &packets[..] else { unreachable!() };
        rig.load(good, &[]).await;
        rig.hold(good, "bob").await;
        let () = rig.run(["SET", &spoilt.keys().part, "not a hash"]).await;
        let asks = [ask(good, vec![grabber("ann")]), ask(spoilt, vec![grabber("ann")])];
        let error = rig.store.grab_each(&asks).await.unwrap_err();
        assert!(matches!(error, HotStoreError::Impossible(_)), "{error:?}");
        // The hold from before the fault remains: Ann receives it when she asks again.
        assert!(matches!(rig.grab(good, "ann").await, GrabAnswer::Held { slip: 1, fresh: false, .. }));
    })
    .await;
}

const AHEAD: Duration = Duration::from_hours(1);

/// Grabs until the answer is not "not started".
async fn after_the_start(rig: &Rig, packet: &Packet, grabber: &Grabber) -> GrabAnswer {
    loop {
        match rig.grab_as(packet, grabber).await {
            GrabAnswer::NotStarted { starts_at, left } => {
                assert_eq!(Some(starts_at), packet.terms.guard.starts_at);
                assert!(left > Duration::ZERO, "the script answered at the start itself");
            }
            other => return other,
        }
    }
}

#[tokio::test]
async fn nobody_gets_a_slip_before_the_start() {
    on_both(async |rig| {
        let starts_at = now().after(AHEAD);
        let packet = Packet::of(3).starting_at(starts_at);
        rig.load(&packet, &[won(2, "winner")]).await;
        let state = rig.state(packet.part).await;
        for user in ODD_USERS {
            let found = rig.grab(&packet, user).await;
            let GrabAnswer::NotStarted { starts_at: shown, left } = found else { panic!("{found:?}") };
            assert_eq!(shown, starts_at);
            assert!(left <= AHEAD && left > AHEAD / 2, "{left:?}");
        }
        assert_eq!(rig.grab(&packet, "winner").await, GrabAnswer::Confirmed(claim_of(2)), "a claim answers for ever");
        assert_eq!(rig.state(packet.part).await, state, "early users change nothing");
    })
    .await;
}

#[tokio::test]
async fn the_start_is_checked_after_the_recipients_and_before_the_passphrase() {
    on_both(async |rig| {
        let packet = Packet::of(3).for_recipients(&["ann", "bob"]).with_passphrase("open");
        let packet = packet.starting_at(now().after(AHEAD));
        rig.load(&packet, &[]).await;
        let refused = GrabAnswer::Refused(Refusal::NotARecipient);
        assert_eq!(rig.grab_as(&packet, &packet.saying("eve", "open")).await, refused);
        for said in ["open", "guess"] {
            for _ in 0..12 {
                let found = rig.grab_as(&packet, &packet.saying("ann", said)).await;
                assert!(matches!(found, GrabAnswer::NotStarted { .. }), "{found:?}");
            }
        }
        assert!(rig.state(packet.part).await.tries.is_empty(), "no guess counts before the start");
    })
    .await;
}

#[tokio::test]
async fn from_the_start_on_grabs_go_on_as_if_there_were_none() {
    on_both(async |rig| {
        let soon = || now().after(Duration::from_millis(200));
        let plain = Packet::of(3).starting_at(soon());
        rig.load(&plain, &[]).await;
        let held = after_the_start(&rig, &plain, &grabber("ann")).await;
        let GrabAnswer::Held { left, fresh: true, .. } = held else { panic!("{held:?}") };
        let at = plain.terms.expires_at.before(left);
        assert!(at >= plain.terms.guard.starts_at.unwrap(), "held at {at}");
        assert!(matches!(rig.grab(&plain, "bob").await, GrabAnswer::Held { slip: 1, fresh: true, .. }));

        let guarded = Packet::of(3).for_recipients(&["ann", "bob"]).with_passphrase("open").starting_at(soon());
        rig.load(&guarded, &[]).await;
        let held = after_the_start(&rig, &guarded, &guarded.saying("ann", "open")).await;
        assert!(matches!(held, GrabAnswer::Held { fresh: true, .. }), "{held:?}");
        assert_eq!(rig.grab(&guarded, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));
        assert_eq!(rig.grab(&guarded, "bob").await, GrabAnswer::Refused(Refusal::WrongPassphrase));
        let bob = rig.grab_as(&guarded, &guarded.saying("bob", "open")).await;
        assert!(matches!(bob, GrabAnswer::Held { fresh: true, .. }), "{bob:?}");
    })
    .await;
}

const DOUBT: GrabAnswer = GrabAnswer::Closed { certain: false };
const CERTAIN: GrabAnswer = GrabAnswer::Closed { certain: true };

#[tokio::test]
async fn a_closed_part_gives_out_nothing_and_keeps_what_it_holds() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        assert!(!rig.store.close(packet.part).await.unwrap(), "it is not loaded");
        rig.load(&packet, &[won(3, "winner")]).await;
        let hold = rig.hold(&packet, "ann").await;
        let open = rig.part_state(&packet).await;
        for _ in 0..2 {
            assert!(rig.store.close(packet.part).await.unwrap());
        }
        for user in ODD_USERS.into_iter().filter(|user| *user != "ann") {
            assert_eq!(rig.grab(&packet, user).await, DOUBT, "{user}");
        }
        assert_eq!(rig.grab(&packet, "winner").await, GrabAnswer::Confirmed(claim_of(3)));
        assert_eq!(rig.grab(&packet, "ann").await, packet.held(&hold));
        let closed = rig.part_state(&packet).await;
        assert!(closed.is_closed && !open.is_closed);
        assert_eq!((open.held_count, closed.held_count), (1, 1));

        // Its slips are decided as those of any other part.
        let mine = Claim { slip: hold.slip, amount: Amount::new(7), at: hold.at }.decision(&hold.user);
        let all = [mine, refunded(1), refunded(2)];
        assert_eq!(rig.reconcile(&packet, &all, &[hold]).await, Reconciled::Final);
        assert_eq!(rig.grab(&packet, "bob").await, CERTAIN);
        let state = rig.state(packet.part).await;
        assert!(state.free.is_empty() && state.held.is_empty() && !state.is_pending);

        // With Redis' word, and in a part that was sold out before, it is certain at once.
        let (promised, sold_out) = (Packet::of(3).acknowledged_by_redis(), Packet::of(1));
        rig.load(&promised, &[]).await;
        rig.load(&sold_out, &[won(0, "ann")]).await;
        assert_eq!(rig.grab(&sold_out, "eve").await, SOLD_OUT);
        for packet in [promised, sold_out] {
            assert!(rig.store.close(packet.part).await.unwrap());
            assert_eq!(rig.grab(&packet, "eve").await, CERTAIN);
        }
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
            // The list of before the close may come back with an older memory, alone.
            let list = &packet.keys().free;
            let () = rig.run(["RPUSH", list, "0"]).await;
            let () = rig.run(["PEXPIREAT", list, &packet.terms.expires_at.ms().to_string()]).await;
            assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));
            for said in ["open", "guess"] {
                assert_eq!(rig.grab_as(&packet, &packet.saying("ann", said)).await, DOUBT);
            }
            assert!(rig.state(packet.part).await.tries.is_empty(), "no guess counts after the close");
        }
    })
    .await;
}
