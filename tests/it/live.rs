//! Views during a rush. They come from the hot store, are never older than their request, and never wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use redis::cmd;
use shared::domain::{Claim, PartId, Status, Terms, UserId};
use shared::redis::{PartKeys, fields};
use shared::service::{Asker, ClaimsAsked, ClaimsView, GrabOutcome, Order, PacketView};
use tests::{Process, Setup, World, audit, packet, user, users};

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
}

async fn view(process: &Process, terms: &Terms, viewer: &UserId) -> PacketView {
    process.view.packet(terms.id, viewer, &Asker::Operator).await.unwrap()
}

async fn claims(process: &Process, terms: &Terms) -> Vec<(UserId, Claim)> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..10_000 {
        let asked = ClaimsAsked { order: Order::Slip, cursor: after, limit: 100 };
        let ClaimsView { claims, .. } =
            process.view.claims(terms.id, Some(&terms.sender), &Asker::Operator, &asked).await.unwrap();
        all.extend(claims.rows.into_iter().map(|row| (row.user, row.claim)));
        after = claims.next;
        if after.is_none() {
            return all;
        }
    }
    panic!("the claims of {} have no end", terms.id);
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
    assert!(shown.closed_at.is_some() && shown.status == Status::Closed, "{shown:?}");
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
    assert!(shown.closed_at.is_some() && shown.is_decided && shown.is_settled);

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
