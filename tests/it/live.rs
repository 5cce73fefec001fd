//! Views during a rush. They come from the hot store, are never older than their request, and never wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::cmd;
use shared::domain::{AckMode, Claim, PartId, Terms, UserId};
use shared::redis::test_server::poll;
use shared::redis::{PartKeys, fields};
use shared::service::{ClaimsAsked, ClaimsView, GrabOutcome, Order, PacketView, Status, Viewed};
use tests::hot::hold_only;
use tests::{Process, Setup, World, audit, packet, user, users};

/// After this time a process reads again what may have changed: groups of slips, and whether a packet is closed.
const LIFE: Duration = Duration::from_secs(1);

/// A packet in one part, a process that sends and grabs, and a process that only views.
struct Scene {
    world: World,
    grabs: Arc<Process>,
    reader: Arc<Process>,
    terms: Arc<Terms>,
    part: PartId,
}

impl Scene {
    async fn new(count: u32) -> Self {
        Self::with(count, Setup::default(), Duration::from_hours(1)).await
    }

    async fn with(count: u32, setup: Setup, expires_in: Duration) -> Self {
        let world = World::single().await;
        let (grabs, reader) = (world.process_with(setup), world.process());
        let sent = packet(&user("sender"), u64::from(count) * 100, count);
        let terms = grabs.send_funded(shared::service::NewPacket { expires_in, ..sent }).await;
        let part = terms.id.parts().next().unwrap();
        Self { world, grabs, reader, terms, part }
    }

    async fn grab(&self, user: &UserId) -> Claim {
        match self.grabs.grab(self.terms.id, user).await.unwrap() {
            GrabOutcome::Grabbed { claim, .. } => claim,
            other => panic!("{user}: {other:?}"),
        }
    }

    async fn grab_all(&self, users: &[UserId]) -> Vec<Claim> {
        join_all(users.iter().map(|user| self.grab(user))).await
    }

    async fn view(&self, viewer: &str) -> PacketView {
        view(&self.reader, &self.terms, &user(viewer)).await
    }

    async fn claims(&self) -> Vec<(UserId, Claim)> {
        claims(&self.reader, &self.terms).await
    }

    /// Reads of the ledger so far: single items, and queries.
    fn reads(&self) -> (u64, u64) {
        (self.world.rig.gets(), self.world.rig.queries())
    }

    /// Views the packet and its claims `readers` times at once. Returns the number of ledger reads.
    async fn rush_of_readers(&self, readers: usize, claimed: u32) -> (u64, u64) {
        let before = self.reads();
        let views = (0..readers).map(|n| {
            let (reader, terms) = (Arc::clone(&self.reader), Arc::clone(&self.terms));
            tokio::spawn(async move {
                let view = view(&reader, &terms, &user(&format!("reader{n}"))).await;
                assert_eq!(view.summary.claimed_count, claimed);
                assert_eq!(claims(&reader, &terms).await.len(), claimed as usize);
            })
        });
        for viewed in join_all(views.collect::<Vec<_>>()).await {
            viewed.unwrap();
        }
        let after = self.reads();
        (after.0 - before.0, after.1 - before.1)
    }
}

async fn view(process: &Process, terms: &Terms, viewer: &UserId) -> PacketView {
    match process.view.packet(terms.id, viewer).await.unwrap() {
        Viewed::Shown(view) => view,
        other => panic!("{other:?}"),
    }
}

async fn claims(process: &Process, terms: &Terms) -> Vec<(UserId, Claim)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let asked = ClaimsAsked { order: Order::Slip, cursor: after, limit: 100 };
        let page = process.view.claims(terms.id, &terms.sender, &asked).await.unwrap();
        let Viewed::Shown(ClaimsView { claims, .. }) = page else { panic!("{page:?}") };
        all.extend(claims.rows.into_iter().map(|row| (row.user, row.claim)));
        after = claims.next;
        if after.is_none() {
            return all;
        }
    }
}

/// How often a process may have read them since then.
fn checks(since: Instant) -> u64 {
    1 + since.elapsed().as_secs() / LIFE.as_secs()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_readers_cost_the_ledger_no_more_than_one() {
    const GROUPS: u64 = 2;
    let scene = Scene::new(100).await;
    let winners = users("w", 41);
    let claims = scene.grab_all(&winners[..40]).await;
    let begun = Instant::now();
    let (gets, queries) = scene.rush_of_readers(10_000, 40).await;
    println!("20,000 views: {gets} reads, {queries} queries beside the viewers' claims, {:?}", begun.elapsed());
    // Every reader sees what happened since then.
    scene.grab(&winners[40]).await;
    let (more_gets, more) = scene.rush_of_readers(10_000, 41).await;
    let (gets, queries) = (gets + more_gets, queries + more);
    assert!(gets <= 2 + checks(begun), "{gets} reads: the terms, the amounts, and whether it is closed");
    // Once a second and after the last grab, and once more for readers that came during such a read.
    assert!(queries <= 2 * GROUPS * (1 + checks(begun)), "{queries} queries");
    for (user, claim) in winners.iter().zip(&claims) {
        let view = scene.view(user.as_str()).await;
        assert_eq!(view.mine.as_ref(), Some(claim), "{user}");
        assert_eq!((view.status, view.is_decided), (Status::Open, false));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_decided_packet_only_the_end_is_read_again() {
    let scene = Scene::new(100).await;
    let winners = users("w", 100);
    scene.view("zoe").await;
    let claims = scene.grab_all(&winners).await;
    let sold_out = scene.view("zoe").await;
    assert_eq!((sold_out.status, sold_out.is_decided, sold_out.mine), (Status::SoldOut, true, None));
    let best = claims.iter().max_by_key(|claim| (claim.amount, std::cmp::Reverse((claim.at, claim.slip)))).unwrap();
    assert_eq!(sold_out.summary.best.as_ref().map(|best| best.slip), Some(best.slip));
    // From Redis nothing is read: it has lost everything.
    scene.world.flush().await;
    let before = scene.reads();
    for (user, claim) in winners.iter().zip(&claims) {
        assert_eq!(scene.view(user.as_str()).await.mine.as_ref(), Some(claim));
    }
    assert_eq!(scene.claims().await.len(), 100);
    let after = scene.reads();
    assert_eq!((after.0 - before.0, after.1 - before.1), (100 + 1, 0), "whether it is closed, for each view");
}

/// The operator closes a packet through one process, and others are viewed through another one.
async fn close(process: &Process, terms: &Terms) {
    let closed = process.close.close(terms.id, "a test".parse().unwrap(), None).await.unwrap().unwrap();
    assert!(closed.closed_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_through_another_process_shows_at_once() {
    // A sold-out packet, of which the viewing process knows every decision.
    let scene = Scene::with(2, Setup::default(), Duration::from_secs(4)).await;
    scene.grab_all(&users("w", 2)).await;
    assert_eq!(scene.view("zoe").await.status, Status::SoldOut);
    close(&scene.grabs, &scene.terms).await;
    let shown = scene.view("zoe").await;
    assert!(shown.closed_at.is_some() && shown.status == Status::Settled, "{shown:?}");
    scene.world.expired(&scene.terms).await;
    assert_eq!(scene.view("zoe").await.closed_at, shown.closed_at, "also of one that expires meanwhile");

    // Closed and settled, and then Redis is wiped.
    let scene = Scene::new(10).await;
    scene.grab(&user("w")).await;
    assert_eq!(scene.view("zoe").await.status, Status::Open);
    close(&scene.grabs, &scene.terms).await;
    assert_eq!(scene.grabs.settle().await.refunded_slips, 9);
    scene.world.flush().await;
    let shown = scene.view("zoe").await;
    assert_eq!((shown.status, shown.summary.refunded_count), (Status::Settled, 9));
    assert!(shown.closed_at.is_some() && shown.is_decided && shown.is_final);

    // Closed and settled, as the first view of another process shows it.
    for count in [10, 2_100] {
        let scene = Scene::new(count).await;
        scene.grab(&user("w")).await;
        assert_eq!(scene.view("zoe").await.status, Status::Open);
        close(&scene.grabs, &scene.terms).await;
        assert_eq!(scene.view("zoe").await.status, Status::Closed);
        assert_eq!(scene.grabs.settle().await.refunded_slips, u64::from(count) - 1);
        let shown = scene.view("zoe").await;
        assert_eq!((shown.status, shown.summary.refunded_count), (Status::Settled, count - 1));
        assert!(shown.closed_at.is_some() && shown.is_decided);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_winner_sees_their_slip_at_once_and_claims_never_disappear() {
    let scene = Arc::new(Scene::new(150).await);
    let over = Arc::new(AtomicBool::new(false));
    let watchers: Vec<_> = (0..4)
        .map(|_| {
            let (scene, over) = (Arc::clone(&scene), Arc::clone(&over));
            tokio::spawn(async move {
                let mut last: BTreeMap<u32, UserId> = BTreeMap::new();
                while !over.load(Ordering::SeqCst) {
                    let view = scene.view("zoe").await;
                    assert_eq!(view.is_decided, view.summary.claimed_count == 150, "{view:?}");
                    let claims: BTreeMap<u32, UserId> =
                        scene.claims().await.into_iter().map(|(user, claim)| (claim.slip, user)).collect();
                    assert!(view.summary.claimed_count as usize <= claims.len());
                    assert!(last.iter().all(|(slip, user)| claims.get(slip) == Some(user)), "a claim is gone");
                    last = claims;
                    // A decided packet is answered without waiting.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let winners = users("w", 150);
    let views = winners.iter().map(|user| {
        let (scene, user) = (Arc::clone(&scene), user.clone());
        tokio::spawn(async move {
            let claim = scene.grab(&user).await;
            assert_eq!(scene.view(user.as_str()).await.mine, Some(claim.clone()), "{user}");
            assert!(scene.claims().await.contains(&(user, claim)));
        })
    });
    for viewed in join_all(views.collect::<Vec<_>>()).await {
        viewed.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for watcher in watchers {
        watcher.await.unwrap();
    }
    let books = audit(&scene.world).await;
    let shown = scene.claims().await;
    assert_eq!(shown.len(), 150);
    for (user, claim) in shown {
        let booked = (claim.slip, claim.amount.minor_units(), claim.at.ms());
        assert_eq!(books.packet(scene.terms.id).claims[user.as_str()], booked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_a_claim_only_if_the_ledger_has_it() {
    let scene = Scene::new(100).await;
    scene.view("zoe").await;
    let holders = users("h", 3);
    hold_only(&scene.grabs, scene.part, &holders).await;
    let view = scene.view("h0").await;
    assert_eq!((view.summary.claimed_count, view.mine), (0, None), "only held");
    // The claims are committed, but Redis is not reconciled.
    let before = scene.world.snapshot().await;
    assert_eq!(scene.grabs.settle().await.persisted, 3);
    scene.world.restore(&before).await;
    assert!(scene.view("h0").await.mine.is_some(), "a winner finds their slip at once");
    // Everybody sees the others after a second.
    poll("the other claims", async || (scene.view("zoe").await.summary.claimed_count == 3).then_some(())).await;
    assert_eq!(scene.claims().await.len(), 3);
    // A claim that was read once is known.
    let begun = Instant::now();
    let (gets, queries) = scene.rush_of_readers(100, 3).await;
    assert!(gets <= 1 + checks(begun) && queries <= 4 * checks(begun), "{gets} reads, {queries} queries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis_mode_a_hold_is_a_promise_but_does_not_end_the_packet() {
    let setup = Setup { ack: AckMode::Redis, ..Setup::default() };
    let scene = Scene::with(20, setup, Duration::from_hours(1)).await;
    let winners = users("w", 20);
    for user in &winners {
        let claim = scene.grab(user).await;
        assert_eq!(scene.view(user.as_str()).await.mine, Some(claim));
    }
    let promised = scene.view("zoe").await;
    assert_eq!((promised.status, promised.summary.claimed_count), (Status::SoldOut, 20));
    assert!(!promised.is_decided && promised.summary.best.is_none(), "the ledger has nothing yet");
    assert_eq!(scene.grabs.settle().await.persisted, 20);
    let over = scene.view("zoe").await;
    assert!(over.is_decided && over.summary.best.is_some());
    assert_eq!((over.status, over.summary.claimed_amount), (Status::SoldOut, scene.terms.total));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_the_ledger_answers() {
    let mut scene = Scene::new(100).await;
    let winners = users("w", 30);
    let claims = scene.grab_all(&winners).await;
    scene.view("zoe").await;
    scene.world.flush().await;
    // First the part is not loaded, then Redis is unreachable.
    for gone in [false, true] {
        if gone {
            scene.world.redis.nodes_mut()[0].kill();
        }
        for reader in [Arc::clone(&scene.reader), scene.world.process()] {
            let view = view(&reader, &scene.terms, &winners[7]).await;
            assert_eq!(view.mine.as_ref(), Some(&claims[7]), "gone: {gone}");
            assert_eq!(view.summary.claimed_count, 30);
        }
    }
    let begun = Instant::now();
    let (gets, queries) = scene.rush_of_readers(2_000, 30).await;
    println!("4,000 views without Redis: {gets} reads, {queries} queries, {:?}", begun.elapsed());
    // Concurrent readers share a read.
    assert!(gets < 2_000 && queries < 2_000, "{gets} reads, {queries} queries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_still_shown_after_a_rollback_of_redis() {
    let scene = Scene::new(100).await;
    let winners = users("w", 30);
    scene.grab_all(&winners[..10]).await;
    let older = scene.world.snapshot().await;
    let claims = scene.grab_all(&winners[10..]).await;
    assert_eq!(scene.view("zoe").await.summary.claimed_count, 30);
    scene.world.restore(&older).await;
    // One process has seen the claims, and another one reads a packet of this size from the ledger.
    for reader in [Arc::clone(&scene.reader), scene.world.process()] {
        for _ in 0..2 {
            let view = view(&reader, &scene.terms, &winners[10]).await;
            assert_eq!((view.summary.claimed_count, view.mine.as_ref()), (30, Some(&claims[0])));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_decides_neither_amounts_nor_the_end() {
    let scene = Scene::new(10).await;
    let claim = scene.grab(&user("w")).await;
    scene.view("w").await;
    let keys = PartKeys::of(scene.part);
    let other = (claim.slip + 1) % 10;
    let lies = [
        ("w", format!("g{}:999999:{}", claim.slip, claim.at.ms())),
        ("mallory", format!("g{}:{}:{}", claim.slip, claim.amount, claim.at.ms())),
        ("mallory", format!("g{other}:999999:7")),
        (fields::KNOWN_COUNT, "10".to_owned()),
    ];
    for (field, lie) in lies {
        let () = scene.world.redis(cmd("HSET").arg(&keys.part).arg(field).arg(&lie)).await;
        for viewer in ["w", "mallory"] {
            let view = scene.view(viewer).await;
            assert_eq!((view.mine.as_ref(), view.is_decided), (Some(&claim).filter(|_| viewer == "w"), false), "{lie}");
            assert_eq!((view.summary.claimed_count, view.summary.claimed_amount), (1, claim.amount), "{lie}");
        }
        assert_eq!(scene.claims().await, [(user("w"), claim.clone())], "{lie}");
    }
    // Redis says that all slips are gone. The ledger is asked, and knows better.
    let () = scene.world.redis(cmd("SET").arg(&keys.known).arg(&[0xff_u8, 0xff][..])).await;
    let view = scene.view("m1").await;
    assert!(!view.is_decided && view.mine.is_none() && view.status == Status::Open, "{view:?}");
    assert_eq!(scene.claims().await, [(user("w"), claim)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_packet_is_shown_from_the_ledger() {
    let scene = Scene::with(100, Setup::default(), Duration::from_secs(5)).await;
    let winners = users("w", 10);
    scene.grab_all(&winners).await;
    let open = scene.view("zoe").await;
    hold_only(&scene.grabs, scene.part, &users("late", 1)).await;
    scene.world.expired(&scene.terms).await;
    let expired = scene.view("w0").await;
    assert_eq!((open.is_decided, expired.is_decided, expired.status), (false, false, Status::Expired));
    assert_eq!(expired.summary.claimed_count, 10);
    // A grab before expiry is committed after it, and may be the luckiest.
    let late = scene.grab(&user("late0")).await;
    let seen = scene.view("late0").await;
    assert_eq!((seen.summary.claimed_count, seen.mine.as_ref()), (11, Some(&late)));
    assert_eq!((scene.claims().await.len(), &seen.summary.best), (11, &None), "a refund may still be on its way");
    // Until the packet is settled, its end is read for each view, and what may change once a second.
    let begun = Instant::now();
    let (_, queries) = scene.rush_of_readers(1_000, 11).await;
    assert!(queries <= 4 * checks(begun), "{queries} queries");

    let report = scene.grabs.settle().await;
    assert_eq!((report.refunded_packets, report.refunded_slips), (1, 89));
    let settled = scene.view("zoe").await;
    assert_eq!((settled.status, settled.summary.refunded_count), (Status::Settled, 89));
    let best = scene.claims().await.iter().map(|(_, claim)| claim.amount).max();
    assert_eq!(settled.summary.best.map(|best| best.amount), best);
    assert_eq!(scene.rush_of_readers(1_000, 11).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_packet_of_many_slips_is_not_read_as_a_whole() {
    let scene = Scene::with(2_100, Setup::default(), Duration::from_secs(5)).await;
    let claim = scene.grab(&user("w")).await;
    assert_eq!(scene.view("w").await.mine.as_ref(), Some(&claim));
    scene.world.expired(&scene.terms).await;
    assert_eq!(scene.grabs.settle().await.refunded_slips, 2_099);
    // Long after: Redis has forgotten the packet, and the process has never seen it.
    scene.world.flush().await;
    let reader = scene.world.process();
    let before = scene.reads();
    let view = view(&reader, &scene.terms, &user("w")).await;
    assert_eq!((view.status, view.mine.as_ref()), (Status::Settled, Some(&claim)));
    assert_eq!((view.summary.claimed_count, view.summary.refunded_count), (1, 2_099));
    let after = scene.reads();
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 0), "the terms and the sums");
    assert_eq!(claims(&reader, &scene.terms).await, [(user("w"), claim)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_in_parts_is_shown_whole_also_where_a_part_is_lost() {
    let world = World::cluster(3).await;
    let (grabs, reader) = (world.process(), world.process());
    let terms = grabs.send_funded(packet(&user("sender"), 300_000, 3_000)).await;
    assert_eq!(terms.id.part_count(), 3);
    let winners = users("w", 200);
    join_all(winners.iter().map(|user| grabs.grab(terms.id, user)))
        .await
        .into_iter()
        .for_each(|won| assert!(won.is_ok(), "{won:?}"));
    assert_eq!(view(&reader, &terms, &user("zoe")).await.summary.claimed_count, 200);
    let keys = PartKeys::of(terms.id.parts().nth(1).unwrap());
    let () = world.redis(cmd("DEL").arg(&keys.part).arg(&keys.known)).await;
    for reader in [reader, world.process()] {
        for _ in 0..2 {
            let view = view(&reader, &terms, &winners[3]).await;
            assert_eq!((view.summary.claimed_count, view.mine.is_some()), (200, true));
            assert_eq!(claims(&reader, &terms).await.len(), 200);
        }
    }
}
