//! Loads, the slots of keys, and a Redis that refuses to write for a while: a call is refused as a whole, before it changes anything.

use std::fmt::Write;

use shared::domain::Refusal;
use shared::ports::HotStoreError;

use super::*;

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
        let () = rig.run(["HSET", &keys.part, fields::SLIP_COUNT, "9", fields::WORD, "c1"]).await;
        let () = rig.run(["HSET", &keys.part, "ann", "g1:1:1"]).await;
        let () = rig.run(["RPUSH", &keys.free, "3", "7"]).await;
        let () = rig.run(["SETBIT", &keys.known, "2", "1"]).await;
        rig.load(&packet, &[refunded(0)]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.free, state.decided, state.claims.len()), (vec![1, 2, 3], [0].into(), 0));
        assert_eq!((&*state.terms[fields::SLIP_COUNT], state.terms.get(fields::WORD)), ("4", None));
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
        guarded.part.packet = Packet::of(100_000).terms.id.with_guard();
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
        let free_until = i64::try_from(expires.ms()).unwrap();
        assert_eq!((expiry(&keys.part).await, expiry(&keys.free).await), (forgotten, free_until));
        for user in ["ann", "bob"] {
            rig.hold(&packet, user).await;
        }
        assert_eq!(
            (expiry(&keys.part).await, expiry(&keys.pending).await, expiry(&keys.free).await),
            (-1, -1, free_until)
        );
        rig.reconcile(&packet, &[won(0, "ann")], &[]).await;
        assert_eq!(expiry(&keys.part).await, -1);
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

/// It says what the loader knows, and is forgotten with the part.
#[tokio::test]
async fn a_load_makes_a_lost_bitmap_anew() {
    on_both(async |rig| {
        for has_holds in [false, true] {
            let packet = Packet::of(4);
            let keys = packet.keys();
            rig.load(&packet, &[refunded(1)]).await;
            if has_holds {
                rig.hold(&packet, "ann").await;
            }
            let before = rig.state(packet.part).await;
            let () = rig.run(["DEL", &keys.known]).await;
            rig.load(&packet, &[refunded(1), won(3, "bob")]).await;
            let state = rig.state(packet.part).await;
            assert_eq!((state.decided, &*state.terms[fields::KNOWN_COUNT]), ([1, 3].into(), "2"));
            let free: Vec<u32> = before.free.into_iter().filter(|slip| *slip != 3).collect();
            assert_eq!((state.free, state.held), (free, before.held), "all else stays");
            let forgotten = i64::try_from(packet.terms.expires_at.after(AN_HOUR).ms()).unwrap();
            assert_eq!(rig.run::<i64, _>(["PEXPIRETIME", &keys.known]).await, forgotten);
        }
    })
    .await;
}

/// The loader has read the ledger before Cat's claim.
#[tokio::test]
async fn a_load_makes_a_lost_list_anew() {
    on_both(async |rig| {
        for is_bitmap_lost in [false, true] {
            let packet = Packet::of(6);
            let keys = packet.keys();
            rig.load(&packet, &[refunded(1)]).await;
            for user in ["ann", "bob", "cat"] {
                rig.hold(&packet, user).await;
            }
            rig.reconcile(&packet, &[won(3, "cat")], &[]).await;
            // A list without an expiry gives nobody a slip.
            let spoil = if is_bitmap_lost { "DEL" } else { "PERSIST" };
            let () = rig.run([spoil, &keys.free]).await;
            assert_eq!(rig.grab(&packet, "eve").await, NO_LIST);
            if is_bitmap_lost {
                let () = rig.run(["DEL", &keys.known]).await;
            }
            // Slip 2, which Bob holds, is somebody else's. Nothing of Ann's changes.
            rig.load(&packet, &[refunded(1), won(2, "zoe")]).await;
            let state = rig.state(packet.part).await;
            assert_eq!((state.free, state.decided), (vec![4, 5], [1, 2, 3].into()), "{is_bitmap_lost}");
            assert_eq!((state.held.into_keys().collect::<Vec<_>>(), state.is_pending), (vec![0], true));
            assert!(matches!(rig.grab(&packet, "zoe").await, GrabAnswer::Confirmed(_)));
            assert_eq!(rig.hold(&packet, "eve").await.slip, 4);
        }
        // A closed part has no list, whatever the loader knows.
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        assert!(rig.store.close(packet.part).await.unwrap());
        let () = rig.run(["DEL", &packet.keys().known]).await;
        rig.load(&packet, &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [0; 0]);
        assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::Closed { certain: false });
    })
    .await;
}

/// A full part whose hash has lost a user, and whose bitmap is lost.
#[tokio::test]
async fn a_load_that_finds_a_slip_free_again_takes_the_word_of_a_full_part_back() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        let keys = packet.keys();
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        assert_eq!(rig.grab(&packet, "eve").await, GrabAnswer::SoldOut { certain: false });
        let () = rig.run(["HDEL", &keys.part, "ann"]).await;
        let () = rig.run(["DEL", &keys.known]).await;
        rig.load(&packet, &[]).await;
        assert_eq!(rig.state(packet.part).await.free, [0]);
        let () = rig.run(["DEL", &keys.free]).await;
        assert_eq!(rig.grab(&packet, "eve").await, NO_LIST, "the slip is not taken, it is lost");
    })
    .await;
}

/// A loader that has read the ledger long ago comes after the hash has gone back.
#[tokio::test]
async fn a_load_knows_no_more_than_its_decisions_and_the_claims_of_the_hash() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[won(0, "ann"), won(1, "bob")]).await;
        let () = rig.run(["HDEL", &packet.keys().part, "ann", fields::WORD]).await;
        rig.load(&packet, &[]).await;
        assert_eq!(rig.hold(&packet, "eve").await.slip, 0, "the ledger refuses it, and the part is repaired");
        assert_eq!(rig.grab(&packet, "ann").await, PERHAPS_SOLD_OUT);
    })
    .await;
}

#[tokio::test]
async fn a_part_whose_slips_went_back_is_loaded_as_over() {
    on_both(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[won(0, "ann"), refunded(1)]).await;
        let went_back = GrabAnswer::WentBack { expires_at: packet.terms.expires_at, certain: true };
        assert_eq!(rig.grab(&packet, "eve").await, went_back);
    })
    .await;
}

#[tokio::test]
async fn a_damaged_list_refuses_a_grab_as_a_whole() {
    on_both_unshared(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        let () = rig.run(["SET", &packet.keys().free, "not a list", "PX", "100000"]).await;
        let before = rig.dump().await;
        for users in [&["eve"][..], &["eve", "bob"]] {
            let grabbers: Vec<Grabber> = users.iter().map(|user| grabber(user)).collect();
            let result = rig.store.grab(packet.part, &grabbers).await;
            assert!(matches!(&result, Err(HotStoreError::Impossible(_))), "{result:?}");
            assert_eq!(rig.dump().await, before);
        }
        // The first hold would have put this part into the queue.
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        let () = rig.run(["SET", &packet.keys().free, "not a list", "PX", "100000"]).await;
        assert!(matches!(rig.store.grab(packet.part, &[grabber("eve")]).await, Err(HotStoreError::Impossible(_))));
        rig.store.tidy(packet.part).await.unwrap();
        let () = rig.run(["DEL", &packet.keys().free]).await;
        let state = rig.state(packet.part).await;
        assert_eq!((state.held.len(), state.is_pending), (0, false));
    })
    .await;
}

/// Of a hash that was lost, a grab leaves nothing.
#[tokio::test]
async fn a_part_without_an_expiry_is_not_loaded_for_any_call() {
    on_both(async |rig| {
        let packet = Packet::of(3);
        let keys = packet.keys();
        rig.load(&packet, &[won(1, "ann")]).await;
        for _ in 0..2 {
            let () = rig.run(["HDEL", &keys.part, fields::EXPIRES_AT]).await;
            let grabbers = [grabber("bob"), grabber("cat")];
            assert_eq!(rig.store.grab(packet.part, &grabbers[..1]).await.unwrap(), None);
            let () = rig.run(["HDEL", &keys.part, fields::EXPIRES_AT]).await;
            assert_eq!(rig.store.grab(packet.part, &grabbers).await.unwrap(), None);
            let () = rig.run(["HDEL", &keys.part, fields::EXPIRES_AT]).await;
            assert_eq!(rig.store.part_state(packet.part).await.unwrap(), None);
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

async fn slot(rig: &Rig, key: &str) -> u32 {
    rig.run(["CLUSTER", "KEYSLOT", key]).await
}

#[tokio::test]
async fn all_keys_of_a_part_have_one_slot() {
    let rig = Rig::in_a_cluster().await;
    for count in [1, 1_001, 100_000] {
        for part in Packet::of(count).terms.id.parts() {
            let PartKeys { name: _, part: hash, free, known, pending, tries, loading } = PartKeys::of(part);
            let mut slots = BTreeSet::new();
            for key in [hash, free, known, pending, tries, loading] {
                slots.insert(slot(&rig, &key).await);
            }
            assert_eq!(slots.len(), 1, "{part}");
        }
    }
}

/// Rigs with servers of their own, whose memory a test may fill.
async fn on_both_unshared(body: impl AsyncFn(Rig)) {
    body(Rig::over(Servers::one().await)).await;
    if judging_seed().is_none() {
        body(Rig::over(Servers::cluster().await)).await;
    }
}

impl Rig {
    /// Sets or removes the memory limit.
    async fn fill(&self, full: bool) {
        for node in self.servers.nodes() {
            let () = node.command(cmd("CONFIG").arg("SET").arg("maxmemory").arg(u8::from(full))).await;
        }
    }

    /// All keys of all nodes with their values and expiries, as text.
    async fn dump(&self) -> String {
        let mut dump = String::new();
        for node in self.servers.nodes() {
            let mut keys: Vec<String> = node.command(cmd("KEYS").arg("*")).await;
            keys.sort();
            for key in keys {
                let kind: String = node.command(cmd("TYPE").arg(&key)).await;
                let expiry: i64 = node.command(cmd("PEXPIRETIME").arg(&key)).await;
                let read = match &*kind {
                    "string" => cmd("GET").arg(&key).clone(),
                    "hash" => cmd("HGETALL").arg(&key).clone(),
                    "list" => cmd("LRANGE").arg(&key).arg(0).arg(-1).clone(),
                    "zset" => cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").clone(),
                    other => panic!("{key} has type {other}"),
                };
                let value: redis::Value = node.command(&read).await;
                if kind == "hash" {
                    // Redis changes its order when it moves it in memory.
                    let fields: BTreeMap<String, String> = redis::from_redis_value(value).unwrap();
                    writeln!(dump, "{key} {expiry} {fields:?}").unwrap();
                } else {
                    writeln!(dump, "{key} {expiry} {value:?}").unwrap();
                }
            }
        }
        dump
    }

    /// Makes `call` while memory is full: it fails as temporary, and changes nothing.
    async fn refuses<T: std::fmt::Debug>(&self, what: &str, call: impl AsyncFnOnce() -> Result<T, HotStoreError>) {
        let before = self.dump().await;
        let result = call().await;
        assert!(matches!(&result, Err(HotStoreError::Unavailable(_))), "{what}: {result:?}");
        assert_eq!(self.dump().await, before, "{what}");
    }
}

/// As with a durable Redis whose replicas are gone.
#[tokio::test]
async fn without_replicas_a_grab_is_refused_as_a_whole() {
    on_both_unshared(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        let set = async |replicas: u8| {
            for node in rig.servers.nodes() {
                let () = node.command(cmd("CONFIG").arg("SET").arg("min-replicas-to-write").arg(replicas)).await;
            }
        };
        set(1).await;
        rig.refuses("grab", async || rig.store.grab(packet.part, &[grabber("ann")]).await).await;
        set(0).await;
        rig.hold(&packet, "ann").await;
    })
    .await;
}

#[tokio::test]
async fn a_damaged_queue_refuses_a_grab_as_a_whole() {
    on_both_unshared(async |rig| {
        let packet = Packet::of(2);
        rig.load(&packet, &[]).await;
        rig.hold(&packet, "ann").await;
        rig.hold(&packet, "bob").await;
        rig.reconcile(&packet, &[won(9, "ann"), won(1, "bob")], &[]).await;
        let () = rig.run(["SET", &packet.keys().pending, "not a queue"]).await;
        let before = rig.dump().await;
        let result = rig.store.grab(packet.part, &[grabber("eve")]).await;
        assert!(matches!(&result, Err(HotStoreError::Impossible(_))), "{result:?}");
        assert_eq!(rig.dump().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_full_memory_refuses_writes_as_a_whole() {
    on_both_unshared(async |rig| {
        let packet = Packet::in_parts(2, 12).with_passphrase("open");
        let part = packet.part;
        rig.load(&packet, &[won(5, "eve")]).await;
        let take = async |user: &str| rig.grab_as(&packet, &packet.saying(user, "open")).await;
        take("ann").await;
        take("bob").await;
        let unloaded = Packet::of(3);
        // What an earlier load left.
        let () = rig.run(["HSET", &unloaded.keys().part, fields::SLIP_COUNT, "9", "ann", "g1:1:1"]).await;
        let () = rig.run(["SETBIT", &unloaded.keys().known, "2", "1"]).await;
        let waiting = Packet::of(3);
        rig.load(&waiting, &[]).await;
        rig.hold(&waiting, "zoe").await;
        let sold_out = Packet::of(1);
        rig.load(&sold_out, &[won(0, "ann")]).await;

        rig.fill(true).await;
        let reconcile = async |packet: &Packet, decisions: &[Decision], decided: &[Hold]| {
            rig.store.reconcile(packet.part, packet.terms.count, decisions, decided).await
        };
        let taker = [packet.saying("zoe", "open")];
        rig.refuses("a slip", async || rig.store.grab(part, &taker).await).await;
        rig.refuses("a wrong passphrase", async || rig.store.grab(part, &[packet.saying("zoe", "no")]).await).await;
        let mixed = [packet.saying("eve", ""), packet.saying("ann", ""), packet.saying("}", "no"), taker[0].clone()];
        rig.refuses("a batch", async || rig.store.grab(part, &mixed).await).await;
        let decisions = [won(1, "ann")];
        rig.refuses("a load", async || rig.store.load(unloaded.part, &unloaded.terms, false, &decisions).await).await;
        rig.refuses("a lease", async || rig.store.acquire_load_lease(part, AN_HOUR).await).await;

        // Calls that only read, or free memory, work.
        assert!(matches!(take("ann").await, GrabAnswer::Held { slip: 0, fresh: false, .. }));
        assert_eq!(take("eve").await, GrabAnswer::Confirmed(claim_of(5)));
        for _ in 0..2 {
            assert_eq!(rig.grab(&sold_out, "zoe").await, SOLD_OUT);
        }
        assert_eq!(rig.part_state(&packet).await.held_count, 2);
        let first = rig.store.outbox(part).await.unwrap().remove(0).hold;
        rig.store.park(part, &first, "a reason").await.unwrap();
        let hold = rig.store.outbox(waiting.part).await.unwrap().remove(0).hold;
        assert_eq!(reconcile(&waiting, &[won(0, "zoe")], &[hold]).await.unwrap(), Reconciled::Loaded);
        assert!(!rig.state(waiting.part).await.is_pending);
        // Reconciles: a claim, a slip that becomes free, a refund, and a decision that a rollback had lost.
        assert_eq!(reconcile(&packet, &[won(9, "ann"), won(1, "bob")], &[]).await.unwrap(), Reconciled::Loaded);
        let state = rig.state(part).await;
        assert_eq!((state.free, state.held.len()), (vec![2, 3, 4, 0], 0));
        assert_eq!(reconcile(&packet, &[refunded(3), won(4, "fay")], &[]).await.unwrap(), Reconciled::Loaded);
        let state = rig.state(part).await;
        assert_eq!((state.free, state.decided.into_iter().collect::<Vec<_>>()), (vec![2, 0], vec![1, 3, 4, 5]));
        assert!(rig.store.close(waiting.part).await.unwrap());

        rig.fill(false).await;
        assert!(matches!(take("zoe").await, GrabAnswer::Held { slip: 2, fresh: true, .. }));
        rig.load(&unloaded, &[won(1, "ann")]).await;
    })
    .await;
}
