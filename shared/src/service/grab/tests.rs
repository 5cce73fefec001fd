//! Grabs over stores in memory that take their time. The clock stands still except for that.

use std::sync::atomic::Ordering;

use super::help::tests::scene::{LEDGER, REDIS, Scene, user};
use super::*;
use crate::ledger::Ledger;
use crate::memory::{MemoryHot, MemoryTable};
use crate::ports::{Clock, Entropy, System};

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000)
    }
}

/// Entropy that has all bits set: whatever is drawn is the most.
struct Ones;

impl Entropy for Ones {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(u8::MAX);
    }
}

/// Stores without a packet.
fn stores() -> Stores<MemoryTable, MemoryHot> {
    let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
    Stores::new(ledger, Arc::new(MemoryHot::new(Arc::new(Still))), Arc::new(Still), Arc::new(Ones))
}

#[test]
fn a_waiting_grab_takes_little_room() {
    // In a rush ten thousand wait, and the processor's caches hold a few megabytes.
    let grab = GrabSlip::new(stores(), "CNY".to_owned());
    let terms = Terms::sample();
    let bytes = size_of_val(&grab.grab(terms.id, &terms.sender, None));
    assert!(bytes <= 384, "a grab that waits takes {bytes} bytes");
}

#[test]
fn it_counts_with_the_meter_of_its_stores() {
    let (stores, meter) = (stores(), Arc::<Meter>::default());
    let grab = GrabSlip::new(stores.metered(Arc::clone(&meter)), "CNY".to_owned());
    assert!(Arc::ptr_eq(grab.meter(), &meter));
    assert_eq!(grab.currency(), "CNY");
}

#[tokio::test]
async fn a_user_before_the_start_receives_a_time_within_the_spread_after_it() {
    const AHEAD: Duration = Duration::from_hours(1);
    const SPREAD: Duration = Duration::from_mins(1);
    let (stores, starts_at) = (stores(), Still.now().after(AHEAD));
    let mut terms = Terms { expires_at: starts_at.after(AHEAD), ..Terms::sample() };
    terms.guard.starts_at = Some(starts_at);
    let part = PartId { packet: terms.id, index: 0 };
    stores.hot.load(part, &terms, false, &[]).await.unwrap();
    let grab = GrabSlip::new(stores, "CNY".to_owned()).with_start_spread(SPREAD);
    let outcome = grab.grab(terms.id, &user(1), None).await.unwrap();
    assert_eq!(outcome, GrabOutcome::NotStarted { starts_at, retry_after: AHEAD + SPREAD });
}

#[tokio::test(start_paused = true)]
async fn a_process_that_runs_on_answers_a_winner_before_the_hot_store_knows() {
    let mut waits = Vec::new();
    for runs_on in [false, true] {
        let scene = Scene::of(1).await;
        scene.hold().await;
        let grab = scene.grab().await;
        let process = Arc::new(if runs_on { grab.running_on() } else { grab });
        let (answers, waited) = scene.ask(&process, 0..=0).await;
        assert!(matches!(&answers[..], [Ok(GrabOutcome::Grabbed { .. })]), "{answers:?}");
        assert_eq!(scene.hot.hot.is_pending(scene.part()), runs_on, "whether settle would find the hold");
        waits.push(waited);
    }
    assert_eq!(waits[0], waits[1] + REDIS);
    assert!(waits[1] <= LEDGER + REDIS * 2, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn claims_that_find_enough_transactions_in_flight_go_together() {
    for (transactions_max, transactions) in [(1, 2), (2, 3), (TRANSACTIONS_MAX, 4)] {
        let scene = Scene::of(4).await;
        let process = Arc::new(scene.grab().await.with_transactions(transactions_max));
        let (answers, _) = scene.ask(&process, 1..=4).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(GrabOutcome::Grabbed { .. }))), "{answers:?}");
        assert_eq!(scene.count().1, transactions, "at most {transactions_max} in flight");
    }
}

#[tokio::test(start_paused = true)]
async fn bulk_waiters_are_answered_by_one_snapshot() {
    for (bulk_min, snapshots) in [(2, 1), (BULK_MIN, 0)] {
        let scene = Scene::of(1).await;
        scene.hold().await;
        let process = Arc::new(scene.grab().await.with_bulk_min(bulk_min));
        scene.ask(&process, 1..=20).await;
        assert_eq!(scene.hot.snapshots.load(Ordering::Relaxed), snapshots, "from {bulk_min} requests on");
    }
}
