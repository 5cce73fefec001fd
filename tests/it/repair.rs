//! A Redis that forgot data, was rolled back, or holds wrong data: answers stay right, and the ledger does not change.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::cmd;
use shared::domain::{PacketId, PartId, Terms, Timestamp, UserId};
use shared::redis::PartKeys;
use shared::service::{Failure, GrabOutcome};
use tests::hot::hold_only;
use tests::{Process, Promises, World, audit, packet, user, users};

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

/// Its packet was closed and settled after the state that Redis went back to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repaired_part_knows_the_close_too() {
    let scene = Scene::new(5, 1).await;
    let older = scene.world.snapshot().await;
    let closed = scene.process.close.close(scene.terms.id, "a test".parse().unwrap(), None).await.unwrap();
    assert!(closed.unwrap().closed_at.is_some());
    assert_eq!(scene.process.settle().await.refunded_slips, 4);
    scene.world.restore(&older).await;
    for name in ["ann", "bob"] {
        assert!(matches!(scene.grab(&user(name)).await, Ok(GrabOutcome::Closed)), "{name}");
    }
    assert_eq!(scene.wins(&user("u0")).await, 0);
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

/// A wrong hold, in a packet of which five slips of twenty are claimed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    /// Redis has forgotten the slip's decision, and holds the slip for another user.
    OwnedByAnother,
    /// Redis knows the slip's owner, and holds the slip for another user. No sequence of calls leads here.
    Contradictory,
    /// The user owns another slip.
    Second,
    /// The slip was refunded, which Redis has forgotten.
    Refunded,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_hold_is_repaired_by_its_users_grab_or_by_settle() {
    use Wrong::{Contradictory, OwnedByAnother, Refunded, Second};
    for wrong in [OwnedByAnother, Contradictory, Second, Refunded] {
        for by_settle in [false, true] {
            let case = format!("{wrong:?}, by settle: {by_settle}");
            let scene = Scene::new(20, 5).await;
            let (world, terms, part) = (&scene.world, &scene.terms, scene.part);
            let (owner, eve) = (user("u0"), user("eve"));
            let slip = scene.wins(&owner).await;
            let free = world.hot_part(terms, part).await.free[3];
            let (held, holder) = match wrong {
                OwnedByAnother | Contradictory => (slip, &eve),
                Second => (free, &owner),
                Refunded => (free, &eve),
            };
            if wrong == OwnedByAnother {
                world.forget_decision(terms, part, slip, Some(&owner)).await;
            } else if wrong == Refunded {
                let late = world.process();
                late.clock.set_ahead(Duration::from_hours(2));
                assert_eq!(late.settle().await.refunded_slips, 15);
                world.forget_decision(terms, part, free, None).await;
            }
            world.forge_hold(part, held, holder).await;
            if by_settle {
                let report = scene.process.settle().await;
                assert_eq!((report.parked, report.outbox_left), (0, Some(0)), "{case}");
                scene.is_mended(5).await;
            }
            match wrong {
                OwnedByAnother | Contradictory => assert_ne!(scene.wins(&eve).await, slip, "{case}"),
                Second => assert_eq!(scene.wins(&owner).await, slip, "{case}"),
                Refunded => assert_eq!(scene.grab(&eve).await.unwrap(), GrabOutcome::SoldOut, "{case}"),
            }
            assert_eq!(scene.wins(&owner).await, slip, "{case}");
            scene.is_mended(if matches!(wrong, OwnedByAnother | Contradictory) { 6 } else { 5 }).await;
            if wrong == Second {
                assert!(world.hot_part(terms, part).await.free.contains(&free), "it is free again");
            }
        }
    }
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
