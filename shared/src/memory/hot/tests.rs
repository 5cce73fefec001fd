//! What the tests of the scripts, which it is compared with, do not reach: they can't set the clock of Redis.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::domain::{Amount, Claim, Guard, PassphraseDigest, Refusal, UserId};
use crate::memory::Entry;

#[derive(Default)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_795_181_400_000 + self.0.load(Ordering::Relaxed))
    }
}

/// A part, and a clock that a test sets.
struct Scene {
    clock: Arc<SetClock>,
    hot: MemoryHot,
    part: PartId,
    terms: Terms,
}

impl Scene {
    async fn new(count: u32, guard: Guard) -> Self {
        let clock = Arc::<SetClock>::default();
        let expires_at = clock.now().after(Duration::from_hours(1));
        let terms = Terms { count, expires_at, guard, ..Terms::sample() };
        let (hot, part) = (MemoryHot::new(Arc::<SetClock>::clone(&clock)), PartId { packet: terms.id, index: 0 });
        hot.load(part, &terms, false, &[]).await.unwrap();
        Self { clock, hot, part, terms }
    }

    fn pass(&self, milliseconds: u64) {
        self.clock.0.fetch_add(milliseconds, Ordering::Relaxed);
    }

    fn claim(&self, slip: u32) -> Claim {
        Claim { slip, amount: Amount::new(1), at: self.clock.now() }
    }

    async fn slip(&self, name: &str) -> Option<u32> {
        if let GrabAnswer::Held { slip, .. } = self.grab(name, None).await { Some(slip) } else { None }
    }

    async fn snapshot(&self) -> SnapshotResult {
        HotStore::snapshot(&self.hot, self.part, false).await.unwrap()
    }

    async fn reconcile(&self, decisions: &[Decision]) {
        self.hot.reconcile(self.part, self.terms.count, decisions, &[]).await.unwrap();
    }

    async fn grab(&self, name: &str, passphrase: Option<PassphraseDigest>) -> GrabAnswer {
        let grabber = Grabber { user: user(name), passphrase };
        self.hot.grab(self.part, &[grabber]).await.unwrap().unwrap().remove(0)
    }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

#[tokio::test]
async fn a_guesser_waits_for_the_end_of_the_minute() {
    let right = PassphraseDigest([1; 32]);
    let scene = Scene::new(10, Guard { passphrase: Some(right), ..Guard::default() }).await;
    let guess = async |name| scene.grab(name, Some(PassphraseDigest([2; 32]))).await;
    let wrong = GrabAnswer::Refused(Refusal::WrongPassphrase);
    for _ in 0..10 {
        assert_eq!(guess("eve").await, wrong);
        scene.pass(1_000);
    }
    let too_many = |retry_after_ms| GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms });
    assert_eq!(scene.grab("eve", Some(right)).await, too_many(50_000));
    assert_eq!((guess("ann").await, scene.grab("eve", None).await), (wrong.clone(), wrong.clone()));
    // The counts outlive the part.
    scene.hot.tamper(scene.part, |part| part.terms = None);
    scene.hot.load(scene.part, &scene.terms, false, &[]).await.unwrap();
    scene.pass(49_999);
    assert_eq!(guess("eve").await, too_many(1));
    scene.pass(1);
    assert_eq!(guess("eve").await, wrong);
}

#[tokio::test]
async fn help_that_is_not_due_says_how_long_to_wait() {
    let scene = Scene::new(1, Guard::default()).await;
    let (second, least) = (Duration::from_secs(1), Duration::from_millis(100));
    let help = async || scene.hot.help(scene.part, least, 10, second).await.unwrap();
    scene.grab("ann", None).await;
    scene.pass(30);
    assert!(matches!(help().await, Help::Wait(left) if left == Duration::from_millis(70)), "the hold is too young");
    scene.pass(70);
    assert!(matches!(help().await, Help::Acquired { holds, .. } if holds.len() == 1));
    scene.pass(200);
    assert!(matches!(help().await, Help::Wait(left) if left == Duration::from_millis(800)), "another one helps");
    scene.hot.end_help(scene.part, Some((Doubt::Blocked, second))).await.unwrap();
    scene.pass(300);
    let answer = help().await;
    assert!(matches!(answer, Help::InVain(Doubt::Blocked, left) if left == Duration::from_millis(700)), "{answer:?}");
}

#[tokio::test]
async fn a_hold_that_contradicts_a_known_decision_goes_when_it_is_resolved() {
    let scene = Scene::new(10, Guard::default()).await;
    let claim = Claim { slip: 0, amount: Amount::new(1), at: scene.clock.now() };
    let decisions = [claim.decision(&user("bob"))];
    scene.hot.reconcile(scene.part, 10, &decisions, &[]).await.unwrap();
    let hold = Hold { slip: 0, user: user("eve"), at: claim.at };
    scene.hot.tamper(scene.part, |part| {
        part.claims.insert(user("eve"), Entry::Held { slip: 0, at: claim.at, parked: None });
    });
    scene.hot.reconcile(scene.part, 10, &decisions, &[]).await.unwrap();
    assert_eq!(scene.hot.outbox(scene.part, Duration::ZERO).await.unwrap().len(), 1, "nobody has resolved it");
    scene.hot.reconcile(scene.part, 10, &decisions, &[hold]).await.unwrap();
    assert_eq!(scene.hot.outbox(scene.part, Duration::ZERO).await.unwrap().len(), 0);
    assert_eq!(scene.grab("bob", None).await, GrabAnswer::Confirmed(claim));
}

#[tokio::test]
async fn a_decision_takes_its_slip_out_of_the_free_ones() {
    let scene = Scene::new(3, Guard::default()).await;
    let claim = scene.claim(1);
    scene.reconcile(&[claim.decision(&user("bob"))]).await;
    assert_eq!(scene.slip("ann").await, Some(0));
    assert_eq!(scene.slip("eve").await, Some(2));
    assert_eq!(scene.grab("bob", None).await, GrabAnswer::Confirmed(claim));
}

#[tokio::test]
async fn a_user_whose_claim_is_of_another_slip_gives_back_the_one_they_hold() {
    let scene = Scene::new(3, Guard::default()).await;
    assert_eq!(scene.slip("ann").await, Some(0));
    let claim = scene.claim(2);
    scene.reconcile(&[claim.decision(&user("ann"))]).await;
    assert_eq!(scene.grab("ann", None).await, GrabAnswer::Confirmed(claim));
    assert_eq!((scene.slip("bob").await, scene.slip("eve").await), (Some(1), Some(0)));
    assert!(matches!(scene.grab("joe", None).await, GrabAnswer::Nothing { expired: false, certain: false }));
}

#[tokio::test]
async fn a_slip_that_another_user_has_by_decision_is_not_given_back() {
    let scene = Scene::new(3, Guard::default()).await;
    assert_eq!(scene.slip("ann").await, Some(0));
    // Bob's decision takes the hold from Ann; a damaged part may still show it.
    scene.reconcile(&[scene.claim(0).decision(&user("bob"))]).await;
    scene.hot.tamper(scene.part, |part| {
        part.claims.insert(user("ann"), Entry::Held { slip: 0, at: scene.clock.now(), parked: None });
    });
    scene.reconcile(&[scene.claim(2).decision(&user("ann"))]).await;
    assert_eq!(scene.slip("eve").await, Some(1));
    assert!(matches!(scene.grab("joe", None).await, GrabAnswer::Nothing { .. }));
}

#[tokio::test]
async fn from_the_expiry_on_no_slip_is_given_back() {
    let scene = Scene::new(3, Guard::default()).await;
    assert_eq!(scene.slip("ann").await, Some(0));
    scene.pass(3_600_000);
    scene.reconcile(&[scene.claim(2).decision(&user("ann"))]).await;
    assert_eq!(scene.hot.part(scene.part).free, [1]);
}

#[tokio::test]
async fn a_hold_of_another_parts_slip_is_not_given_back() {
    let scene = Scene::new(3, Guard::default()).await;
    scene.hot.tamper(scene.part, |part| {
        part.claims.insert(user("ann"), Entry::Held { slip: 3, at: scene.clock.now(), parked: None });
    });
    scene.reconcile(&[scene.claim(2).decision(&user("ann"))]).await;
    assert_eq!(scene.hot.part(scene.part).free, [0, 1]);
}

#[tokio::test]
async fn a_part_with_free_slips_has_a_snapshot_from_its_expiry_on() {
    let scene = Scene::new(3, Guard::default()).await;
    scene.pass(3_599_999);
    assert_eq!(scene.snapshot().await, SnapshotResult::GrabNeeded);
    scene.pass(1);
    assert!(matches!(scene.snapshot().await, SnapshotResult::Exhausted(_)));
}
