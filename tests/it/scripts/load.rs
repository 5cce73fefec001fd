use super::*;
use shared::domain::Refusal;

#[tokio::test]
async fn a_part_is_loaded_once() {
    on_both(async |rig| {
        let packet = Packet::of(5);
        rig.load(&packet, &[]).await;
        let state = rig.state(packet.part).await;
        let terms = [
            (fields::ACK_MODE, "ledger".to_owned()),
            (fields::SLIP_COUNT, "5".to_owned()),
            (fields::KNOWN_COUNT, "0".to_owned()),
            (fields::EXPIRES_AT, packet.terms.expires_at.ms().to_string()),
        ];
        assert_eq!(state.terms, terms.map(|(field, value)| (field.to_owned(), value)).into());
        assert_eq!(state.free, [0, 1, 2, 3, 4]);
        assert!(state.claims.is_empty() && state.held.is_empty() && state.decided.is_empty() && !state.is_pending);

        rig.hold(&packet, "ann").await;
        let state = rig.state(packet.part).await;
        // A late loader changes nothing, whatever it knows.
        rig.load(&packet, &[]).await;
        rig.load(&packet, &[won(0, "bob"), refunded(1)]).await;
        assert_eq!(rig.state(packet.part).await, state);
    })
    .await;
}

#[tokio::test]
async fn decided_slips_are_not_free() {
    on_both(async |rig| {
        let packet = Packet::in_parts(2, 12);
        // The last two decisions are in the other part: one tells Eve's slip, the other tells this part nothing.
        let decisions = [won(1, "}"), refunded(3), won(4, "h0:1"), won(9, "eve"), refunded(10)];
        rig.load(&packet, &decisions).await;
        let state = rig.state(packet.part).await;
        assert_eq!(
            (state.free, state.decided, &*state.terms[fields::KNOWN_COUNT]),
            (vec![0, 2, 5], [1, 3, 4].into(), "3")
        );
        for (slip, user) in [(1, "}"), (4, "h0:1"), (9, "eve")] {
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Confirmed(claim_of(slip)));
        }
    })
    .await;
}

#[tokio::test]
async fn decisions_name_any_user() {
    on_both(async |rig| {
        let packet = Packet::of(20);
        let mut decisions: Vec<Decision> = (0..).zip(ODD_USERS).map(|(slip, user)| won(slip, user)).collect();
        decisions.push(refunded(15));
        rig.load(&packet, &decisions).await;
        let state = rig.state(packet.part).await;
        assert_eq!(state.claims.keys().map(String::as_str).collect::<BTreeSet<_>>(), ODD_USERS.into());
        assert_eq!(state.decided.len(), ODD_USERS.len() + 1);
        for (slip, user) in (0..).zip(ODD_USERS) {
            assert_eq!(rig.grab(&packet, user).await, GrabAnswer::Confirmed(claim_of(slip)));
        }
    })
    .await;
}

#[tokio::test]
async fn the_other_parts_of_a_packet_have_their_own_slips() {
    on_both(async |rig| {
        let packet = Packet::in_parts(3, 10);
        let mut all = Vec::new();
        for part in packet.terms.id.parts() {
            let packet = Packet { part, ..packet.clone() };
            rig.load(&packet, &[won(4, "ann"), won(9, "bob")]).await;
            all.push(rig.state(part).await);
        }
        let free: Vec<&[u32]> = all.iter().map(|state| &*state.free).collect();
        assert_eq!(free, [&[0, 1, 2][..], &[3, 5], &[6, 7, 8]]);
        let decisions: Vec<Vec<u32>> = all.iter().map(|state| state.decided.iter().copied().collect()).collect();
        assert_eq!(decisions, [vec![], vec![1], vec![3]]);
    })
    .await;
}

#[tokio::test]
async fn an_expired_part_is_not_loaded() {
    on_both(async |rig| {
        let mut packet = Packet::of(5);
        packet.terms.expires_at = now();
        for _ in 0..2 {
            let loaded = rig.store.load(packet.part, &packet.terms, false, &[won(0, "ann")]).await.unwrap();
            assert_eq!(loaded, Loaded::Expired);
        }
        assert!(rig.state(packet.part).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_load_replaces_what_an_earlier_load_left() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        let keys = packet.keys();
        let () = rig
            .run([
                "HSET",
                &keys.part,
                fields::SLIP_COUNT,
                "9",
                fields::CLOSED,
                "1",
                fields::OTHER_RANGES,
                "3:4;",
                "ann",
                "g1:1:1",
            ])
            .await;
        let () = rig.run(["SETBIT", &keys.known, "2", "1"]).await;
        rig.load(&packet, &[refunded(0)]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.decided, state.claims.len()), (vec![1, 2, 3], [0].into(), 0));
        assert_eq!((&*state.terms[fields::SLIP_COUNT], state.terms.get(fields::CLOSED)), ("4", None));
    })
    .await;
}

#[tokio::test]
async fn a_guard_is_loaded_with_its_part() {
    on_both(async |rig| {
        let packet = Packet::of(4).for_recipients(&["ann", "{x}"]).with_passphrase("open");
        rig.load(&packet, &[]).await;
        let digest = packet.terms.guard.passphrase.unwrap().0;
        let digest: String = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect();
        let state = rig.state(packet.part).await;
        assert_eq!((&*state.terms[fields::RECIPIENTS], &state.terms[fields::PASSPHRASE]), ("1", &digest));
        let recipients: Vec<&str> =
            state.terms.keys().filter_map(|field| field.strip_prefix(fields::RECIPIENT)).collect();
        assert_eq!(recipients, ["ann", "{x}"]);

        let nobody = Packet::of(4).for_recipients(&[]);
        rig.load(&nobody, &[]).await;
        assert_eq!(rig.grab(&nobody, "ann").await, GrabAnswer::Refused(Refusal::NotARecipient));
    })
    .await;
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).unwrap()
}

/// The largest possible part with the longest user ids: the limit for a call and a script.
#[tokio::test]
async fn the_largest_part_loads_with_all_its_decisions() {
    on_both(async |rig| {
        let mut packet = Packet::of(100_000);
        packet.part = packet.terms.id.parts().max_by_key(|part| part.slips(100_000).len()).unwrap();
        let slips = packet.part.slips(100_000);
        assert_eq!(slips.len(), 6_250);
        let user = |slip: u32| format!("{slip:u>128}");
        let decisions: Vec<Decision> = slips.clone().map(|slip| won(slip, &user(slip))).collect();
        rig.load(&packet, &decisions).await;
        let claims = rig.state(packet.part).await.claims;
        assert_eq!(claims.len(), 6_250);
        for slip in [slips.start, slips.end - 1] {
            assert_eq!(rig.grab(&packet, &user(slip)).await, GrabAnswer::Confirmed(claim_of(slip)));
        }
        assert_eq!(rig.grab(&packet, "eve").await, SOLD_OUT);

        // Also with as many recipients as possible.
        let users: Vec<String> = (0..500).map(user).collect();
        let mut guarded = packet.for_recipients(&users.iter().map(String::as_str).collect::<Vec<_>>());
        guarded.part.packet = Packet::of(100_000).terms.id;
        guarded.terms.id = guarded.part.packet;
        rig.load(&guarded, &decisions).await;
        assert_eq!(
            rig.state(guarded.part).await.terms.keys().filter(|field| field.starts_with(fields::RECIPIENT)).count(),
            500
        );
    })
    .await;
}

#[tokio::test]
async fn a_part_is_forgotten_in_time_but_not_while_it_has_holds() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        let keys = packet.keys();
        let expires = packet.terms.expires_at;
        let forgotten = i64::try_from(expires.after(AN_HOUR).ms()).unwrap();
        let expiry = async |key| rig.run::<i64, _>(["PEXPIRETIME", key]).await;
        rig.load(&packet, &[refunded(1)]).await;
        assert_eq!((expiry(&keys.part).await, expiry(&keys.known).await), (forgotten, forgotten));
        for user in ["ann", "bob"] {
            rig.hold(&packet, user).await;
        }
        assert_eq!((expiry(&keys.part).await, expiry(&keys.pending).await, expiry(&keys.known).await), (-1, -1, -1));
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        assert_eq!((expiry(&keys.part).await, expiry(&keys.known).await), (-1, -1));
        rig.reconcile(&packet, &[won(2, "bob")], &[]).await;
        assert_eq!((expiry(&keys.part).await, expiry(&keys.known).await), (forgotten, forgotten));
        // A hold again, until long after expiry; then the part is forgotten together with the hold.
        rig.hold(&packet, "eve").await;
        rig.expire(packet.part).await;
        let () = rig.run(["HSET", &keys.part, fields::FORGET_AT, "2"]).await;
        let () = rig.run(["DEL", &keys.known]).await;
        assert_eq!(expiry(&keys.part).await, -1);
        rig.store.reconcile(packet.part, 4, &[won(3, "eve")], &[]).await.unwrap();
        assert!(rig.state(packet.part).await.is_empty());
    })
    .await;
}

/// As after a load that Redis interrupted, because its memory was full.
#[tokio::test]
async fn a_part_without_an_expiry_is_not_loaded_for_any_call() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let keys = packet.keys();
        rig.load(&packet, &[won(1, "ann")]).await;
        for _ in 0..2 {
            let () = rig.run(["HDEL", &keys.part, fields::EXPIRES_AT]).await;
            let grabbers = [grabber("ann"), grabber("bob")];
            assert_eq!(rig.store.grab(packet.part, &grabbers[..1]).await.unwrap(), None);
            assert_eq!(rig.store.grab(packet.part, &grabbers).await.unwrap(), None);
            assert_eq!(rig.store.report(packet.part).await.unwrap(), None);
            assert!(!rig.store.close(packet.part).await.unwrap());
            let () = rig.run(["ZADD", &keys.pending, "1", &keys.name]).await;
            let reconciled = rig.store.reconcile(packet.part, 3, &[won(0, "bob")], &[]).await.unwrap();
            assert_eq!(reconciled, Reconciled::NotLoaded);
            assert_eq!(rig.run::<Option<f64>, _>(["ZSCORE", &keys.pending, &keys.name]).await, None);
            assert_eq!(rig.run::<Option<String>, _>(["HGET", &keys.part, "bob"]).await, None);
            rig.load(&packet, &[won(1, "ann")]).await;
            assert_eq!(rig.grab(&packet, "ann").await, GrabAnswer::Confirmed(claim_of(1)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_part_counts_each_decision_of_its_own_slips_once() {
    on_both(async |rig| {
        let packet = Packet::in_parts(3, 12);
        let part = packet.terms.id.parts().nth(1).unwrap();
        assert_eq!(part.slips(12), 4..8);
        let packet = Packet { part, ..packet };
        // The slips on both sides of its ends, one of them twice.
        rig.load(&packet, &[won(3, "ann"), won(4, "bob"), won(4, "bob"), won(7, "cy"), won(8, "dan")]).await;
        let state = rig.state(part).await;
        assert_eq!((state.free, state.decided, &*state.terms[fields::KNOWN_COUNT]), (vec![5, 6], [0, 3].into(), "2"));
        assert_eq!(state.claims.len(), 4);
        assert_eq!(rig.run::<u32, _>(["STRLEN", &packet.keys().known]).await, 1, "a bit for each slip, and one more");
    })
    .await;
}

#[tokio::test]
async fn a_part_without_decisions_is_forgotten_in_time() {
    on_both(async |rig| {
        let packet = Packet::of(4);
        let keys = packet.keys();
        rig.load(&packet, &[]).await;
        let forgotten = i64::try_from(packet.terms.expires_at.after(AN_HOUR).ms()).unwrap();
        for key in [&keys.part, &keys.known] {
            assert_eq!(rig.run::<i64, _>(["PEXPIRETIME", key]).await, forgotten, "{key}");
        }
    })
    .await;
}
