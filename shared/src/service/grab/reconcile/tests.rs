use std::sync::atomic::Ordering;

use futures::future::join_all;

use super::*;
use crate::domain::{Amount, Claim};
use crate::ports::{Grabber, System};
use crate::service::grab::help::tests::scene::{Scene, SlowHot, user};

/// A packet whose slips are all held, and a process with their claims.
struct Claimed {
    scene: Scene,
    reconciler: Reconciler<SlowHot>,
    holds: Vec<Hold>,
}

impl Claimed {
    async fn new(count: u32) -> Self {
        let scene = Scene::of(count).await;
        let grabbers: Vec<Grabber> = (0..count).map(|n| Grabber { user: user(n), passphrase: None }).collect();
        scene.hot.hot.grab(scene.part(), &grabbers).await.unwrap();
        let held = scene.hot.hot.outbox(scene.part(), std::time::Duration::ZERO).await.unwrap();
        let exhausted = Arc::new(ExhaustedParts::new(Arc::clone(&scene.hot), Arc::new(System)));
        let reconciler = Reconciler::new(Arc::clone(&scene.hot), exhausted);
        Self { scene, reconciler, holds: held.into_iter().map(|held| held.hold).collect() }
    }

    /// Reconciles all claims at once. Returns how many calls that took.
    async fn reconcile(&self) -> u64 {
        self.scene.count();
        let done = self.holds.iter().map(|hold| {
            let claim = Claim { slip: hold.slip, amount: Amount::new(1), at: hold.at };
            let decisions = vec![claim.decision(&hold.user)];
            self.reconciler.reconcile(self.scene.part(), self.scene.terms.count, decisions, hold.clone())
        });
        join_all(done).await;
        self.scene.count().0
    }
}

#[tokio::test(start_paused = true)]
async fn grabs_that_wait_for_a_call_share_the_next_one() {
    let claimed = Claimed::new(2 + u32::try_from(BATCH_MAX).unwrap()).await;
    assert_eq!(claimed.reconcile().await, 3, "the first one by itself, a full call, and the rest");
    assert!(!claimed.scene.hot.hot.is_pending(claimed.scene.part()), "no hold is left");
}

#[tokio::test(start_paused = true)]
async fn a_hot_store_that_cannot_be_reached_is_called_once() {
    let claimed = Claimed::new(3).await;
    claimed.scene.hot.is_gone.store(true, Ordering::Relaxed);
    assert_eq!(claimed.reconcile().await, 1, "the others are left to settle");
    claimed.scene.hot.is_gone.store(false, Ordering::Relaxed);
    assert_eq!(claimed.reconcile().await, 2, "later ones try again");
}
