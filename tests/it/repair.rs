//! A Redis that forgot data, was rolled back, or holds wrong data: answers stay right, and the ledger does not change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::cmd;
use shared::domain::{PACKET_ID_RANDOM_BYTES, PacketId, PartId, Terms, Timestamp, UserId};
use shared::redis::PartKeys;
use shared::service::{Failure, GrabOutcome};
use tests::hot::hold_only;
use tests::{Process, Promises, World, audit, packet, user, users};
use tokio::task::JoinHandle;

/// A packet of `count` slips in one part.
struct Scene {
    world: World,
    process: Arc<Process>,
    terms: Arc<Terms>,
    part: PartId,
    promises: Promises,
}

impl Scene {
    /// A packet with one claim each for `u0` to `u<owners - 1>`.
    async fn new(count: u32, owners: usize) -> Self {
        let world = World::single().await;
        let process = world.process();
        let terms = process.send_funded(packet(&user("sender"), u64::from(count) * 100, count)).await;
        let part = terms.id.parts().next().unwrap();
        let scene = Self { world, process, terms, part, promises: Promises::default() };
        for user in users("u", owners) {
            scene.wins(&user).await;
        }
        scene
    }

    async fn grab(&self, user: &UserId) -> Result<GrabOutcome, Failure> {
        self.promises.grab(&self.process, self.terms.id, user).await
    }

    /// Grabs, and returns the slip.
    async fn wins(&self, user: &UserId) -> u32 {
        match self.grab(user).await.unwrap() {
            GrabOutcome::Grabbed { claim, .. } => claim.slip,
            other => panic!("{user}: {other:?}"),
        }
    }

    /// Checks that the fault is repaired: in the answers, in the ledger and in Redis.
    async fn is_mended(&self, claimed: usize) {
        let books = audit(&self.world).await;
        self.promises.are_kept(&books);
        assert_eq!(books.packet(self.terms.id).claimed(), claimed);
        self.world.outbox_is_empty().await;
        self.world.audit_hot(&self.terms, &books).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_is_repaired_by_the_first_refused_claim() {
    let scene = Scene::new(50, 10).await;
    let older = scene.world.snapshot().await;
    let all = users("u", 80);
    for user in &all[10..30] {
        scene.wins(user).await;
    }
    scene.world.restore(&older).await;
    let refused = scene.world.rig.refused();
    // This user's claim meets one slip that is taken. After it the part knows all decisions.
    scene.wins(&all[30]).await;
    assert_eq!(scene.world.rig.refused() - refused, 1);
    scene.is_mended(31).await;
    // Owners from before and after the rollback receive the same answers as before.
    for user in &all[..31] {
        scene.wins(user).await;
    }
    for user in &all[31..] {
        scene.grab(user).await.unwrap();
    }
    scene.is_mended(50).await;
    assert_eq!(scene.promises.count(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_ask_first_after_a_rollback() {
    let scene = Scene::new(50, 10).await;
    let older = scene.world.snapshot().await;
    let all = users("u", 80);
    for user in &all[10..30] {
        scene.wins(user).await;
    }
    scene.world.restore(&older).await;
    // Redis gives each of them another slip, often another user's.
    for user in all[..30].iter().rev() {
        scene.wins(user).await;
    }
    scene.is_mended(30).await;
    for user in &all {
        scene.grab(user).await.unwrap();
    }
    scene.is_mended(50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_after_the_end_brings_no_slip_back() {
    let scene = Scene::new(20, 5).await;
    let older = scene.world.snapshot().await;
    let all = users("u", 30);
    for user in &all[5..20] {
        scene.wins(user).await;
    }
    scene.world.restore(&older).await;
    // A process without caches: the caches of the other would hide the rollback.
    let other = scene.world.process();
    for user in all.iter().rev() {
        scene.promises.grab(&other, scene.terms.id, user).await.unwrap();
    }
    assert_eq!(scene.promises.count(), 20);
    scene.is_mended(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settle_repairs_the_outbox_after_a_rollback() {
    let scene = Scene::new(20, 0).await;
    let all = users("u", 8);
    hold_only(&scene.process, scene.part, &all).await;
    let older = scene.world.snapshot().await;
    assert_eq!(scene.process.settle().await.persisted, 8);
    scene.world.restore(&older).await;
    let transactions = scene.world.rig.transactions();
    let report = scene.process.settle().await;
    assert_eq!((report.persisted, report.parked, report.outbox_left), (0, 0, Some(0)));
    assert_eq!(scene.world.rig.transactions(), transactions, "existing decisions are only reconciled");
    for user in &all {
        scene.wins(user).await;
    }
    scene.is_mended(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_wiped() {
    let scene = Scene::new(20, 10).await;
    hold_only(&scene.process, scene.part, &users("h", 3)).await;
    scene.world.flush().await;
    for user in users("u", 10) {
        scene.wins(&user).await;
    }
    scene.is_mended(10).await;
    for user in users("v", 15) {
        scene.grab(&user).await.unwrap();
    }
    assert_eq!(scene.promises.count(), 20);
    scene.is_mended(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_grabs_after_a_rollback_read_the_part_once() {
    let scene = Scene::new(320, 0).await;
    let older = scene.world.snapshot().await;
    for user in users("u", 100) {
        scene.wins(&user).await;
    }
    scene.world.restore(&older).await;
    let queries = scene.world.rig.queries();
    let newcomers = users("v", 100);
    join_all(newcomers.iter().map(|user| scene.wins(user))).await;
    let queries = scene.world.rig.queries() - queries;
    // A read takes five queries, one per group of decisions: 500 queries if each of the hundred grabs read by itself.
    // On a busy machine some grabs come after the first read and need another.
    // the first read is over, and need another.
    println!("{queries} queries");
    assert!(queries <= 400, "{queries} queries");
    let repairs = scene.process.grab.meter().take().repairs;
    assert!((1..=80).contains(&repairs), "{repairs} repairs");
    scene.is_mended(200).await;
}

/// Redis is wiped and rolled back. The ledger's answers get lost, conflict, are throttled, or contain less than they
/// could. Runs of settle and grabs go on meanwhile.
/// settles and grabs go on all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_wrong_at_once() {
    let seed = u64::from(rand::random::<u32>());
    println!("seed {seed}");
    let world = Arc::new(World::single().await);
    let processes = [world.process(), world.process()];
    let mut sent = Vec::new();
    for _ in 0..20 {
        sent.push(processes[0].send_funded(packet(&user("sender"), 3_000, 30)).await);
    }
    let (sent, promises, all) = (Arc::new(sent), Arc::new(Promises::default()), users("u", 40));
    let over = Arc::new(AtomicBool::new(false));
    let grabbing: Vec<JoinHandle<()>> = all
        .iter()
        .enumerate()
        .map(|(n, user)| {
            let (process, promises, sent) = (Arc::clone(&processes[n % 2]), Arc::clone(&promises), Arc::clone(&sent));
            let (user, mut random) = (user.clone(), StdRng::seed_from_u64(seed + n as u64));
            let over = Arc::clone(&over);
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    // Answers from the process's cache never wait, and would keep other tasks from running.
                    tokio::task::yield_now().await;
                    let terms = &sent[random.random_range(0..sent.len())];
                    match promises.grab(&process, terms.id, &user).await {
                        Ok(_) | Err(Failure::Unavailable(_)) => {}
                        Err(defect) => panic!("{user}: {defect:?}, seed {seed}"),
                    }
                }
            })
        })
        .collect();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut older, mut settling) = (vec![world.snapshot().await], Vec::new());
    world.rig.misbehave(4);
    for _ in 0..100 {
        // Not faster than users grab; otherwise nothing would happen between two faults.
        let transactions = world.rig.transactions() + 10;
        let deadline = Instant::now() + Duration::from_millis(50);
        while world.rig.transactions() < transactions && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match random.random_range(0..8) {
            0 => world.flush().await,
            1 | 2 => world.restore(&older[random.random_range(0..older.len())]).await,
            3 => world.rig.lose_answers(random.random_range(2..6)),
            4 => {
                let process = Arc::clone(&processes[0]);
                settling.push(tokio::spawn(async move {
                    process.settle().await;
                }));
            }
            _ => older.push(world.snapshot().await),
        }
    }
    over.store(true, Ordering::SeqCst);
    world.rig.lose_answers(0);
    world.rig.misbehave(0);
    for joined in join_all(grabbing.into_iter().chain(settling)).await {
        joined.unwrap();
    }
    println!("{} promises, {} transactions", promises.count(), world.rig.transactions());

    // Without faults one run of settle finishes everything, and every slip is claimed.
    let report = processes[1].settle().await;
    assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "seed {seed}");
    promises.are_kept(&audit(&world).await);
    for terms in &*sent {
        for user in &all {
            promises.grab(&processes[1], terms.id, user).await.unwrap();
        }
    }
    let books = audit(&world).await;
    promises.are_kept(&books);
    assert!(books.packets.values().all(|packet| packet.claimed() == 30), "seed {seed}");
    world.outbox_is_empty().await;
    for terms in &*sent {
        world.audit_hot(terms, &books).await;
    }
}

/// The way in which the engine notices a wrong hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Notices {
    Grab,
    Settle,
}

const BOTH: [Notices; 2] = [Notices::Grab, Notices::Settle];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_of_another_users_slip_is_repaired() {
    for notices in BOTH {
        let scene = Scene::new(20, 5).await;
        let (owner, eve) = (user("u0"), user("eve"));
        let slip = scene.wins(&owner).await;
        scene.world.forget_decision(&scene.terms, scene.part, slip, Some(&owner)).await;
        scene.world.forge_hold(scene.part, slip, &eve).await;
        if notices == Notices::Settle {
            let report = scene.process.settle().await;
            assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "{notices:?}");
            scene.is_mended(5).await;
        }
        assert_ne!(scene.wins(&eve).await, slip, "{notices:?}");
        assert_eq!(scene.wins(&owner).await, slip, "{notices:?}");
        scene.is_mended(6).await;
    }
}

/// No sequence of calls leads here: the part knows the slip's owner, and holds the slip for another user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_contradicts_a_known_decision_is_repaired() {
    for notices in BOTH {
        let scene = Scene::new(20, 5).await;
        let (owner, eve) = (user("u0"), user("eve"));
        let slip = scene.wins(&owner).await;
        scene.world.forge_hold(scene.part, slip, &eve).await;
        if notices == Notices::Settle {
            let report = scene.process.settle().await;
            assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "{notices:?}");
            scene.is_mended(5).await;
        }
        assert_ne!(scene.wins(&eve).await, slip, "{notices:?}");
        assert_eq!(scene.wins(&owner).await, slip, "{notices:?}");
        scene.is_mended(6).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_slip_held_for_a_winner_is_freed() {
    for notices in BOTH {
        let scene = Scene::new(20, 5).await;
        let owner = user("u0");
        let slip = scene.wins(&owner).await;
        let free = scene.world.hot_part(&scene.terms, scene.part).await.free[3];
        scene.world.forge_hold(scene.part, free, &owner).await;
        if notices == Notices::Settle {
            let report = scene.process.settle().await;
            assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "{notices:?}");
        }
        assert_eq!(scene.wins(&owner).await, slip, "{notices:?}");
        scene.is_mended(5).await;
        assert!(scene.world.hot_part(&scene.terms, scene.part).await.free.contains(&free), "it is free again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_of_a_refunded_slip_is_repaired() {
    for notices in BOTH {
        let scene = Scene::new(20, 5).await;
        let free = scene.world.hot_part(&scene.terms, scene.part).await.free[3];
        let late = scene.world.process();
        late.clock.set_ahead(Duration::from_hours(2));
        assert_eq!(late.settle().await.refunded_slips, 15);
        let eve = user("eve");
        scene.world.forget_decision(&scene.terms, scene.part, free, None).await;
        scene.world.forge_hold(scene.part, free, &eve).await;
        if notices == Notices::Settle {
            let report = scene.process.settle().await;
            assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "{notices:?}");
        }
        assert_eq!(scene.grab(&eve).await.unwrap(), GrabOutcome::SoldOut, "{notices:?}");
        scene.is_mended(5).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_of_a_slip_that_does_not_exist_is_parked() {
    let scene = Scene::new(20, 5).await;
    let (owner, eve) = (user("u0"), user("eve"));
    scene.world.forge_hold(scene.part, 20, &eve).await;
    scene.world.forge_hold(scene.part, 99, &owner).await;
    let answer = scene.grab(&eve).await;
    assert!(matches!(answer, Err(Failure::Defect(_))), "{answer:?}");
    // A user with a claim receives it even so.
    scene.wins(&owner).await;
    let others = hold_only(&scene.process, scene.part, &users("h", 3)).await;
    assert!(others.iter().all(|(slip, _)| *slip < 20), "{others:?}");
    for persisted in [3, 0] {
        let report = scene.process.settle().await;
        assert_eq!((report.persisted, report.parked, report.outbox_left), (persisted, 1, Some(1)));
    }
    for user in users("v", 20) {
        scene.grab(&user).await.unwrap();
    }
    let books = audit(&scene.world).await;
    scene.promises.are_kept(&books);
    assert_eq!((books.packet(scene.terms.id).claimed(), scene.promises.count() + 3), (20, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_cannot_be_persisted_is_parked_and_blocks_no_others() {
    let scene = Scene::new(20, 0).await;
    // A packet that does not exist, in the same partition and earlier in its queue.
    let last = u8::try_from(scene.terms.id.partition().index()).unwrap();
    let ghost = PacketId::new(Timestamp::from_ms(1), 1, [0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    assert_eq!(ghost.partition(), scene.terms.id.partition());
    let ghost = ghost.parts().next().unwrap();
    scene.world.forge_hold(ghost, 3, &user("eve")).await;
    let keys = PartKeys::of(ghost);
    let () = scene.world.redis(cmd("ZADD").arg(&keys.pending).arg(1).arg(&keys.name)).await;
    hold_only(&scene.process, scene.part, &users("u", 3)).await;
    for persisted in [3, 0, 0] {
        let report = scene.process.settle().await;
        assert_eq!((report.persisted, report.parked, report.outbox_left), (persisted, 1, Some(1)));
    }
    let parked: String = scene.world.redis(cmd("HGET").arg(&keys.part).arg("eve")).await;
    assert!(parked.starts_with("h3:") && parked.ends_with(":no such packet"), "{parked}");
    for user in users("u", 3) {
        scene.wins(&user).await;
    }
    let books = audit(&scene.world).await;
    scene.promises.are_kept(&books);
    assert_eq!(books.packet(scene.terms.id).claimed(), 3);
}

#[tokio::test]
async fn a_place_in_the_queue_without_a_hold_goes() {
    let world = World::single().await;
    let ghost = PacketId::new(Timestamp::from_ms(1), 1, [0; PACKET_ID_RANDOM_BYTES]);
    let keys = PartKeys::of(ghost.parts().next().unwrap());
    let () = world.redis(cmd("ZADD").arg(&keys.pending).arg(1).arg(&keys.name)).await;
    let report = world.process().settle().await;
    assert_eq!((report.parked, report.outbox_left), (0, Some(0)));
    world.outbox_is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_hold_is_removed_once_its_slip_is_decided() {
    let scene = Scene::new(20, 0).await;
    let owner = user("u0");
    let keys = PartKeys::of(scene.part);
    let (slip, at) = hold_only(&scene.process, scene.part, std::slice::from_ref(&owner)).await[0];
    let parked = format!("h{slip}:{at}:no luck");
    let () = scene.world.redis(cmd("HSET").arg(&keys.part).arg(owner.as_str()).arg(parked)).await;
    let parked = scene.world.snapshot().await;
    let report = scene.process.settle().await;
    assert_eq!((report.persisted, report.parked, report.outbox_left), (0, 1, Some(1)), "nothing is decided yet");
    // The user grabs again and wins another slip, but Redis is not reconciled.
    assert_eq!(scene.wins(&owner).await, slip);
    scene.world.restore(&parked).await;
    let report = scene.process.settle().await;
    assert_eq!((report.persisted, report.parked, report.outbox_left), (0, 0, Some(0)));
    scene.wins(&owner).await;
    scene.is_mended(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_in_another_part_is_the_answer() {
    let world = World::cluster(3).await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 250_000, 2_500)).await;
    let promises = Promises::default();
    for (name, held_in) in [("ann", 0), ("bob", 2)] {
        let name = user(name);
        let order: Vec<PartId> = PartId::probe_order(terms.id, &name).collect();
        assert_eq!(order.len(), 3);
        // The user's claim is in the second part of their probe order.
        let (slip, at) = hold_only(&process, order[1], std::slice::from_ref(&name)).await[0];
        process.settle().await;
        hold_only(&process, order[held_in], std::slice::from_ref(&name)).await;
        // A wrong hold in an earlier part is found by the grab itself; one in a later part by settle.
        for _ in 0..2 {
            let answer = promises.grab(&process, terms.id, &name).await.unwrap();
            let GrabOutcome::Grabbed { claim, replayed: true } = answer else { panic!("{answer:?}") };
            assert_eq!((claim.slip, claim.at.ms()), (slip, at));
        }
        if held_in == 2 {
            let report = process.settle().await;
            assert_eq!((report.parked, report.outbox_left), (0, Some(0)));
        }
        world.outbox_is_empty().await;
    }
    let books = audit(&world).await;
    promises.are_kept(&books);
    assert_eq!(books.packet(terms.id).claimed(), 2);
    world.audit_hot(&terms, &books).await;
}
