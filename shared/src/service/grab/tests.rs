//! Grabs over stores in memory that take their time. The clock stands still except for that.

pub mod scene;

use std::sync::atomic::Ordering;

use super::*;
use crate::domain::{AckMode, PassphraseDigest};
use crate::memory::Keyspace;
use crate::ports::Entropy;
use scene::{LEDGER, Process, REDIS, Scene, user};

/// A loser is answered within this time, whatever became of others' requests.
const LOSER_MAX: Duration = Duration::from_millis(300);

/// Entropy that has all bits set: whatever is drawn is the most.
struct Ones;

impl Entropy for Ones {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(u8::MAX);
    }
}

fn is_replay(answer: &Result<GrabOutcome, Failure>) -> bool {
    matches!(answer, Ok(GrabOutcome::Grabbed { replayed: true, .. }))
}

fn are_sold_out(answers: &[Result<GrabOutcome, Failure>]) -> bool {
    answers.iter().all(|answer| matches!(answer, Ok(GrabOutcome::SoldOut)))
}

#[tokio::test(start_paused = true)]
async fn a_waiting_grab_takes_little_room() {
    // In a rush ten thousand wait, and the processor's caches hold a few megabytes.
    let scene = Scene::of(1).await;
    let (process, loser) = (scene.process().await, user(1));
    let bytes = size_of_val(&process.grab(scene.terms.id, &loser, None, &Voucher::Operator));
    assert!(bytes <= 512, "a grab that waits takes {bytes} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_user_before_the_start_receives_a_time_within_the_spread_after_it() {
    const AHEAD: Duration = Duration::from_mins(10);
    const SPREAD: Duration = Duration::from_mins(1);
    let mut starts_at = None;
    let scene = Scene::with(1, |terms| {
        starts_at = Some(terms.id.created_at().after(AHEAD));
        terms.guard.starts_at = starts_at;
    })
    .await;
    let mut grab = scene.grab().await.with_start_spread(SPREAD);
    grab.stores.entropy = Arc::new(Ones);
    match scene.ask_one(&Arc::new(grab), 1).await {
        Ok(GrabOutcome::NotStarted { starts_at: told, retry_after }) => {
            assert_eq!(Some(told), starts_at);
            assert!(retry_after > SPREAD && retry_after <= AHEAD + SPREAD, "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_never_freezes_answers_a_winner_before_the_hot_store_knows() {
    for is_never_frozen in [false, true] {
        // The last winner of all would also note that the packet is sold out.
        let scene = Scene::of(2).await;
        let grab = scene.grab().await;
        let process = Arc::new(if is_never_frozen { grab.never_frozen() } else { grab });
        let (answers, waited) = scene.ask(&process, 0..=0).await;
        assert!(matches!(&answers[..], [Ok(GrabOutcome::Grabbed { replayed: false, .. })]), "{answers:?}");
        assert_eq!(waited, LEDGER + if is_never_frozen { REDIS } else { REDIS * 2 });
        assert_eq!(
            scene.hot.server().memory.is_pending(scene.part()),
            is_never_frozen,
            "whether settle would find the hold"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_clock_is_slow_loads_nothing_after_the_expiry() {
    let scene = Scene::of(2).await;
    let process = Arc::new(scene.grab_behind(Duration::from_mins(1)).await);
    sleep(scene.terms.expires_at.since(scene.terms.id.created_at())).await;
    let answer = scene.ask_one(&process, 1).await;
    assert!(matches!(answer, Ok(GrabOutcome::Expired)), "{answer:?}");
    let (calls, reads, _) = scene.count();
    assert_eq!((calls, reads), (4, 1), "two probes, each with a look at the part, and a read of the claim");
}

#[tokio::test(start_paused = true)]
async fn claims_that_find_enough_transactions_in_flight_go_together() {
    for (transactions_max, transactions) in [(1, 2), (2, 3), (TRANSACTIONS_MAX, 4)] {
        let scene = Scene::of(5).await;
        let process = Arc::new(scene.grab().await.with_transactions(transactions_max));
        let (answers, _) = scene.ask(&process, 1..=4).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(GrabOutcome::Grabbed { .. }))), "{answers:?}");
        assert_eq!(scene.count().2, transactions, "at most {transactions_max} in flight");
    }
}

#[tokio::test(start_paused = true)]
async fn losers_beside_a_hold_that_was_left_behind_wait_once_and_share_a_read() {
    let scene = Scene::of(1).await;
    let process = scene.process().await;
    scene.hold(0..=0).await;
    let (answers, waited) = scene.ask(&process, 1..=50).await;
    assert!(are_sold_out(&answers), "{answers:?}");
    assert!(waited >= DOUBT_PAUSE && waited <= LOSER_MAX, "{waited:?}");
    let (_, reads, transactions) = scene.count();
    assert!(reads <= 25, "{reads} reads for 50 losers");
    assert_eq!(transactions, 0, "nobody commits another user's hold");
    assert!(is_replay(&scene.ask_one(&process, 0).await), "its own user does");
    let calls = |process: Process| async move { scene.ask_one(&process, 60).await };
    assert!(are_sold_out(&[calls(process).await]));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_committed_meanwhile_ends_the_doubt() {
    let scene = Scene::of(1).await;
    let (winner, loser) = (scene.process().await, scene.process().await);
    let (won, (lost, waited)) = tokio::join!(scene.ask(&winner, 0..=0), async {
        sleep(REDIS).await;
        scene.ask(&loser, 1..=1).await
    });
    assert!(matches!(&won.0[..], [Ok(GrabOutcome::Grabbed { .. })]), "{won:?}");
    assert!(are_sold_out(&lost) && waited <= LOSER_MAX, "{lost:?}");
    assert_eq!(scene.count().1, 1, "the second probe was certain: only the winner reads, to note the sale");
}

#[tokio::test(start_paused = true)]
async fn a_user_whom_the_hot_store_has_forgotten_is_answered_from_their_claim() {
    let scene = Scene::of(1).await;
    let process = scene.process().await;
    assert!(matches!(scene.ask_one(&process, 0).await, Ok(GrabOutcome::Grabbed { .. })));
    scene.hot.server().memory.restore(&Keyspace::default());
    scene.hot.load(scene.part(), &scene.terms, false, &[]).await.unwrap();
    scene.hold(1..=1).await;
    assert!(is_replay(&scene.ask_one(&process, 0).await));
}

#[tokio::test(start_paused = true)]
async fn without_a_ledger_a_loser_in_doubt_is_asked_to_come_again() {
    let scene = Scene::of(1).await;
    let process = scene.process().await;
    scene.hold(0..=0).await;
    scene.table.0.is_gone.store(true, Ordering::Relaxed);
    let answer = scene.ask_one(&process, 1).await;
    assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_final_packet_of_several_parts_is_answered_from_claim_items() {
    let scene = Scene::with(5, |_| ()).await;
    let process = scene.process().await;
    scene.ask(&process, 0..=4).await;
    assert!(are_sold_out(&[scene.ask_one(&process, 10).await]));
    scene.hot.server().memory.restore(&Keyspace::default());
    scene.count();
    let (answers, _) = scene.ask(&process, 11..=60).await;
    assert!(are_sold_out(&answers), "{answers:?}");
    assert!(is_replay(&scene.ask_one(&process, 0).await));
    let (calls, reads, _) = scene.count();
    assert!(calls == 0 && reads <= 25, "{calls} calls of Redis, {reads} reads");

    scene.table.0.is_gone.store(true, Ordering::Relaxed);
    let answer = scene.ask_one(&process, 11).await;
    assert!(matches!(answer, Err(Failure::Unavailable(_))), "nobody else can tell: {answer:?}");
}

#[tokio::test(start_paused = true)]
async fn packets_are_not_remembered_whose_claims_may_come_later_or_that_refuse_users() {
    let redis = |terms: &mut Terms| terms.ack = AckMode::Redis;
    let recipients = |terms: &mut Terms| terms.guard.recipients = Some((0..11).map(user).collect());
    let passphrase = |terms: &mut Terms| terms.guard.passphrase = Some(PassphraseDigest([1; 32]));
    for change in [redis, recipients, passphrase] {
        let scene = Scene::with(5, change).await;
        let (process, open) = (scene.process().await, scene.terms.guard.passphrase);
        for number in 0..=10 {
            process.grab(scene.terms.id, &user(number), open, &Voucher::Operator).await.unwrap();
        }
        assert_eq!(process.final_packets.why(scene.terms.id, process.stores.clock.now()), None);
        let again = process.grab(scene.terms.id, &user(0), open, &Voucher::Operator).await;
        assert!(is_replay(&again), "{again:?}");
    }
}

#[test]
fn a_final_packet_is_remembered_for_a_while_and_not_beyond_the_expiry() {
    let (packets, minute) = (FinalPackets::new(), Duration::from_mins(1));
    let mut terms = Terms::sample();
    let (id, now, tick) = (terms.id, terms.created_at, Duration::from_millis(1));
    terms.expires_at = now.after(minute * 2);
    packets.remember(&terms, NoSlip::SoldOut, now);
    let known = Some(NoSlip::SoldOut);
    let times = [now, now.after(minute).before(tick), now.after(minute), now.before(tick)];
    assert_eq!(times.map(|at| packets.why(id, at)), [known, known, None, None], "the last: a clock that was set back");

    terms.expires_at = now.after(minute / 2);
    packets.remember(&terms, NoSlip::SoldOut, now);
    assert_eq!([terms.expires_at.before(tick), terms.expires_at].map(|at| packets.why(id, at)), [known, None]);
    for why in [NoSlip::Expired, NoSlip::Closed] {
        packets.remember(&terms, why, now);
        assert_eq!(packets.why(id, terms.expires_at), Some(why));
    }
}

mod reconciling {
    use futures::future::join_all;

    use super::*;
    use crate::domain::{Amount, Claim};

    /// Reconciles the claims of `count` users at once. Returns how many calls that took.
    async fn calls(scene: &Scene) -> u64 {
        let reconciler = Reconciler::new(Arc::clone(&scene.hot), Box::new(|_, _| Box::pin(std::future::ready(()))));
        let outbox = scene.hot.outbox(scene.part()).await.unwrap();
        scene.count();
        let done = outbox.into_iter().map(|entry| {
            let hold = entry.hold;
            let decisions = vec![Claim { slip: hold.slip, amount: Amount::new(1), at: hold.at }.decision(&hold.user)];
            reconciler.submit(scene.part(), scene.terms.count, decisions, hold)
        });
        join_all(done).await;
        scene.count().0
    }

    #[tokio::test(start_paused = true)]
    async fn grabs_that_wait_for_a_call_share_the_next_one() {
        let scene = Scene::of(66).await;
        scene.hold(0..=65).await;
        assert_eq!(calls(&scene).await, 3, "the first one by itself, a full call, and the rest");
        assert!(!scene.hot.server().memory.is_pending(scene.part()), "no hold is left");
    }
}
