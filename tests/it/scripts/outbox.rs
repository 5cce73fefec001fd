use shared::domain::{PARTITIONS, Partition};

use super::*;

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
                    let outbox = rig.store.outbox(packet.part, Duration::ZERO).await.unwrap();
                    assert_eq!(outbox.len(), 1);
                    assert_eq!((&outbox[0].hold, outbox[0].parked.as_deref()), (&hold, Some(reason)));
                }
            }
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Held { slip, at: hold.at, fresh: false });
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
async fn a_parked_hold_is_freed_or_removed_like_any_other() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 6);
        rig.load(&packet, &[]).await;
        for user in ["ann", "bob"] {
            let hold = rig.hold(&packet, user).await;
            rig.store.park(packet.part, &hold, "a reason").await.unwrap();
        }
        rig.reconcile(&packet, &[won(5, "ann"), won(1, "eve")], &[]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.held.len(), state.is_pending), (vec![2, 0], 0, false));
        assert!(!state.claims.contains_key("bob"));
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
        let () = rig.run(["HSET", &keys.part, "ann", "h0:7"]).await;
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
        let held = rig.store.outbox(first.part, Duration::ZERO).await.unwrap();
        assert_eq!(held.iter().map(|held| held.hold.slip).collect::<Vec<_>>(), [0, 1]);
        assert!(held[0].hold.at < old.at);

        // Invalid entries do no harm.
        let () = rig.run(["ZADD", &keys.pending, "1", "not a part"]).await;
        let () = rig.run(["HSET", &keys.part, "x", "not a hold"]).await;
        assert_eq!(pending().await, before);
        assert_eq!(rig.store.outbox(first.part, Duration::ZERO).await.unwrap(), held);
        let () = rig.run(["ZREM", &keys.pending, "not a part"]).await;

        let elsewhere = Partition::wrapping(partition.index() + PARTITIONS / 2);
        assert!(!rig.store.pending_parts(elsewhere).await.unwrap().contains(&first.part));
    })
    .await;
}

#[tokio::test]
async fn the_outbox_shows_holds_from_an_age_on() {
    on_both(async |rig| {
        let packet = Packet::of(5);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let of_age = async |packet: &Packet, least_age| -> Vec<String> {
            let held = rig.store.outbox(packet.part, least_age).await.unwrap();
            held.into_iter().map(|held| held.hold.user.to_string()).collect()
        };
        for least_age in [AN_HOUR, Duration::from_mins(1)] {
            assert_eq!(of_age(&packet, least_age).await, [""; 0], "{least_age:?}");
        }
        assert_eq!(of_age(&packet, Duration::ZERO).await, ["ann"]);
        // Two hours old, and of a server whose clock is two hours ahead.
        let two_hours = 2 * AN_HOUR;
        for (slip, user, at) in [(1, "bob", now().before(two_hours)), (2, "cy", now().after(two_hours))] {
            rig.hold(&packet, user).await;
            let () = rig.run(["HSET", &packet.keys().part, user, &format!("h{slip}:{}", at.ms())]).await;
        }
        assert_eq!(of_age(&packet, AN_HOUR).await, ["bob", "cy"]);
        assert_eq!(of_age(&packet, Duration::ZERO).await, ["bob", "ann", "cy"]);
        // Only settle commits the holds of such a packet.
        let packet = Packet::of(5).acknowledged_by_redis();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        assert_eq!(of_age(&packet, AN_HOUR).await, ["ann"]);
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
        let outbox = rig.store.outbox(packet.part, Duration::ZERO).await.unwrap();
        assert_eq!(outbox.len(), 2);
        assert_eq!(rig.report(&packet).await.held_count, 2);
        // Reads the state, whose number of holds must be that of the terms.
        rig.reconcile(&packet, &[], &[]).await;
        // Bob's hold, and no field of the terms, gives way to Eve's claim.
        rig.reconcile(&packet, &[won(1, "eve")], &[]).await;
        assert_eq!(rig.state(packet.part).await.claims.keys().collect::<Vec<_>>(), ["ann", "eve"]);
    })
    .await;
}

#[tokio::test]
async fn a_hold_of_the_same_millisecond_is_young_unless_nobody_else_commits_it() {
    on_both(async |rig| {
        for (is_redis_mode, least_age, is_shown) in
            [(false, AN_HOUR, false), (false, Duration::ZERO, true), (true, AN_HOUR, true)]
        {
            loop {
                let packet = Packet::of(1);
                let packet = if is_redis_mode { packet.acknowledged_by_redis() } else { packet };
                rig.load(&packet, &[]).await;
                let before = rig.time(packet.part).await;
                rig.hold(&packet, "ann").await;
                let outbox = rig.store.outbox(packet.part, least_age).await.unwrap();
                if rig.time(packet.part).await == before {
                    assert_eq!(!outbox.is_empty(), is_shown, "{is_redis_mode} {least_age:?}");
                    break;
                }
            }
        }
    })
    .await;
}

/// The store drops what is no hold, and logs it as a fault. So this asks the script itself.
#[tokio::test]
async fn the_outbox_has_neither_claims_nor_terms() {
    let script = fields::embed(include_str!("../../../shared/src/redis/lua/outbox.lua"));
    on_both(async |rig| {
        let packet = Packet::of(3);
        rig.load(&packet, &[won(2, "cy")]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["HSET", &packet.keys().part, fields::PASSPHRASE, "h1:7"]).await;
        let found: Vec<String> = rig.run(["EVAL", &script, "1", &packet.keys().part, "0"]).await;
        assert_eq!((found.len(), found[0].as_str()), (2, "ann"));
    })
    .await;
}

#[tokio::test]
async fn reports_tell_the_servers_time() {
    on_both(async |rig| {
        let packet = Packet::of(1);
        rig.load(&packet, &[won(0, "ann")]).await;
        let before = rig.time(packet.part).await;
        let now = rig.report(&packet).await.now.ms();
        let times = before..=rig.time(packet.part).await;
        assert!(times.contains(&now), "{now} is not in {times:?}");
    })
    .await;
}
