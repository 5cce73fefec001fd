//! A Redis that refuses to write for a while: a call is refused as a whole, before it changes anything.

use std::fmt::Write;

use shared::ports::HotStoreError;

use super::*;

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
        // A slip that was put back makes another range the first.
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

/// As with `maxclients` of a Redis that too many functions use.
#[tokio::test]
async fn a_server_with_too_many_clients_is_unavailable() {
    let rig = Rig::over(Servers::one().await);
    let packet = Packet::of(1);
    let node = &rig.servers.nodes()[0];
    let _another = tokio::net::TcpStream::connect(("127.0.0.1", node.port())).await.unwrap();
    let () = node.command(cmd("CONFIG").arg("SET").arg("maxclients").arg(1)).await;
    let result = rig.store.grab(packet.part, &[grabber("ann")]).await;
    assert!(matches!(&result, Err(HotStoreError::Unavailable(_))), "{result:?}");
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
        let hold = Hold { slip: 0, user: id("ann"), at: now() };
        rig.refuses("a reason", async || rig.store.park(part, &hold, "a reason").await).await;
        rig.refuses("a lease", async || rig.store.acquire_load_lease(part, AN_HOUR).await).await;

        // Calls that only read, or free memory, work.
        assert!(matches!(take("ann").await, GrabAnswer::Held { slip: 0, fresh: false, .. }));
        assert_eq!(take("eve").await, GrabAnswer::Confirmed(claim_of(5)));
        for _ in 0..2 {
            assert_eq!(rig.grab(&sold_out, "zoe").await, SOLD_OUT);
        }
        assert_eq!(rig.report(&packet).await.held_count, 2);
        let hold = rig.store.outbox(waiting.part, Duration::ZERO).await.unwrap().remove(0).hold;
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
