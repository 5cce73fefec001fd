//! Help over stores in memory that take their time.

pub mod scene;

use std::sync::atomic::Ordering;

use tokio::task::JoinSet;
use tokio::time::sleep;

use scene::*;

use super::*;
use crate::domain::{Amount, Owner, PacketId};
use crate::ledger::{Ledger, keys};
use crate::lock;
use crate::ports::{Clock, System};
use crate::service::GrabOutcome;

#[tokio::test(start_paused = true)]
async fn a_part_that_is_expired_by_this_processs_clock_does_not_end_the_doubts_of_another() {
    let scene = Scene::in_parts(PacketId::new(Terms::sample().created_at, 2, [7; _]), 2).await;
    scene.hold().await;
    let last = scene.terms.id.parts().next_back().unwrap();
    let refund = Decision { slip: 1, amount: Amount::new(1), at: scene.clock.now(), owner: Owner::Refunded };
    scene.hot.reconcile(last, 2, &[refund], &[]).await.unwrap();
    scene.hot.is_ahead.store(true, Ordering::Relaxed);
    sleep(HELP_AFTER).await;
    let (answers, _) = scene.ask(&scene.process().await, 1..=1).await;
    assert!(matches!(&answers[..], [Ok(GrabOutcome::SoldOut | GrabOutcome::Expired)]), "{answers:?}");
    let claim = scene.ledger().claim_of(&user(0), scene.terms.id).await.unwrap();
    assert!(claim.is_some(), "the loser was answered before the slip that is held was decided");
}

#[tokio::test(start_paused = true)]
async fn losers_finish_a_hold_that_was_left_behind() {
    let scene = Scene::new(Trouble::None).await;
    let process = scene.process().await;
    let (answers, waited) = scene.ask(&process, 1..=1).await;
    assert!(are_sold_out(&answers) && waited <= FIRST, "{waited:?}: {answers:?}");

    let scene = Scene::new(Trouble::None).await;
    let process = scene.process().await;
    scene.count();
    let (answers, waited) = scene.ask(&process, 1..=1_000).await;
    assert!(are_sold_out(&answers), "{answers:?}");
    assert!(waited <= FIRST + CROWD, "{waited:?}");
    let (calls, transactions) = scene.count();
    assert_eq!(transactions, 1);
    assert!(calls <= 40, "{calls} calls of Redis");
    let claim = scene.ledger().claim_of(&user(0), scene.terms.id).await.unwrap();
    assert_eq!(claim.map(|claim| claim.amount), Some(scene.terms.total), "the winner has their slip");

    let (answers, waited) = scene.ask(&process, 1_001..=2_000).await;
    assert!(are_sold_out(&answers) && waited.is_zero(), "the next ones don't wait: {waited:?}");
    assert_eq!(scene.count(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn many_processes_help_with_a_handful_of_transactions() {
    let scene = Scene::new(Trouble::None).await;
    let mut asking = JoinSet::new();
    for number in 1..=1_000 {
        let (process, id) = (scene.process().await, scene.terms.id);
        asking.spawn(async move { process.grab(id, &user(number), None).await });
    }
    scene.count();
    let answers = asking.join_all().await;
    assert!(are_sold_out(&answers), "{answers:?}");
    let (_, transactions) = scene.count();
    assert!(transactions <= 3, "{transactions} transactions");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_ledger_does_not_take_keeps_nobody_waiting() {
    for (trouble, first) in [
        // They read their own claims at the end.
        (Trouble::Refused, FIRST + CROWD + LEDGER),
        (Trouble::Failing, HELP_AFTER + CLAIM_TIMEOUT + READ_TIMEOUT),
    ] {
        let scene = Scene::new(trouble).await;
        let process = scene.process().await;
        let (answers, waited) = scene.ask(&process, 1..=1_000).await;
        assert!(are_sold_out(&answers), "{trouble:?}: {answers:?}");
        assert!(waited <= first, "{trouble:?}: {waited:?}");
        let (answers, waited) = scene.ask(&process, 1_001..=1_001).await;
        assert!(are_sold_out(&answers), "{trouble:?}: {answers:?}");
        assert!(waited <= REDIS + LEDGER, "{trouble:?}, the next one: {waited:?}");
        let another = scene.process().await;
        scene.count();
        let (answers, _) = scene.ask(&another, 1_002..=1_002).await;
        assert!(are_sold_out(&answers), "{trouble:?}: {answers:?}");
        assert_eq!(scene.count().1, 0, "{trouble:?}: another process does not try it again");

        // Once the ledger takes it, the winner has it.
        *lock(&scene.trouble) = Trouble::None;
        sleep(BLOCKED_TTL).await;
        let (answers, _) = scene.ask(&process, 1..=1).await;
        assert!(are_sold_out(&answers), "{trouble:?}: {answers:?}");
        assert!(scene.table.read(&keys::claim(&user(0), scene.terms.id)).is_some(), "{trouble:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_hold_is_waited_for_and_then_blocked() {
    for trouble in [Trouble::Silent, Trouble::Conflict] {
        let scene = Scene::new(trouble).await;
        let process = scene.process().await;
        let (answers, waited) = scene.ask(&process, 1..=1_000).await;
        assert!(are_sold_out(&answers), "{trouble:?}: {answers:?}");
        assert!(waited <= SLOW_MAX + HELP_AFTER + CLAIM_TIMEOUT + READ_TIMEOUT, "{trouble:?}: {waited:?}");
        let (answers, waited) = scene.ask(&process, 1_001..=1_001).await;
        assert!(are_sold_out(&answers) && waited <= REDIS + LEDGER, "{trouble:?}: {waited:?}");

        let scene = Scene::new(trouble).await;
        let process = scene.process().await;
        let asking = scene.ask(&process, 1..=1_000);
        let ending = async {
            sleep(Duration::from_millis(700)).await;
            *lock(&scene.trouble) = Trouble::None;
        };
        let ((answers, waited), ()) = tokio::join!(asking, ending);
        assert!(are_sold_out(&answers) && waited < SLOW_MAX, "{trouble:?}: {waited:?}");
        assert!(scene.table.read(&keys::claim(&user(0), scene.terms.id)).is_some(), "{trouble:?}: it was waited for");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_ledger_is_answered_within_a_second() {
    let scene = Scene::new(Trouble::Outage).await;
    let process = scene.process().await;
    scene.count();
    for _ in 0..5 {
        let (answers, waited) = scene.ask(&process, 1..=1_000).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(Failure::Unavailable(_)))), "{answers:?}");
        assert!(waited < Duration::from_secs(1), "{waited:?}");
        let (calls, transactions) = scene.count();
        assert!(calls <= 40 && transactions <= 2, "{calls} calls of Redis, {transactions} transactions");
        let (answers, waited) = scene.ask(&process, 1_001..=1_001).await;
        assert!(matches!(&answers[..], [Err(Failure::Unavailable(_))]) && waited <= REDIS, "{waited:?}: {answers:?}");
        sleep(Duration::from_millis(400)).await;
    }
    *lock(&scene.trouble) = Trouble::None;
    sleep(UNAVAILABLE_TTL).await;
    let (answers, _) = scene.ask(&process, 1..=1_000).await;
    assert!(are_sold_out(&answers), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_busy_with_claims_of_this_process_is_waited_for() {
    for is_busy in [true, false] {
        let scene = Scene::new(Trouble::Overloaded).await;
        let process = Arc::new(scene.grab().await.with_transactions(1));
        let other = Arc::new(Terms { id: PacketId::new(scene.clock.now(), 1, [2; 10]), ..scene.terms.clone() });
        let claim = Claim { slip: 0, amount: Amount::new(1), at: scene.clock.now() };
        let asking = scene.ask(&process, 1..=1);
        let others = async {
            for _ in 0..50 {
                if is_busy {
                    process.committer.claim(&other, user(9), claim.clone()).await.unwrap();
                } else {
                    sleep(LEDGER).await;
                }
            }
            *lock(&scene.trouble) = Trouble::None;
        };
        let ((answers, waited), ()) = tokio::join!(asking, others);
        if is_busy {
            assert!(are_sold_out(&answers) && waited >= LEDGER * 50, "{waited:?}: {answers:?}");
        } else {
            assert!(matches!(&answers[..], [Err(Failure::Unavailable(_))]), "{answers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_helper_that_died_adds_its_lease() {
    let scene = Scene::new(Trouble::None).await;
    let process = scene.process().await;
    let dead = scene.hot.hot.help(scene.part(), HELP_AFTER, HOLDS_MAX, LEASE).await.unwrap();
    assert!(matches!(dead, Help::Acquired { .. }), "{dead:?}");
    let (answers, waited) = scene.ask(&process, 1..=1_000).await;
    assert!(are_sold_out(&answers), "{answers:?}");
    assert!(waited <= LEASE + FIRST + CROWD, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_parked_or_lost_hold_keeps_nobody_waiting() {
    for is_parked in [true, false] {
        let scene = Scene::new(Trouble::None).await;
        let process = scene.process().await;
        let hold = scene.hot.hot.outbox(scene.part(), Duration::ZERO).await.unwrap().remove(0).hold;
        if is_parked {
            scene.hot.hot.park(scene.part(), &hold, "for a reason").await.unwrap();
        } else {
            scene.hot.hot.tamper(scene.part(), |part| part.claims.clear());
        }
        let (answers, waited) = scene.ask(&process, 1..=1_000).await;
        assert!(are_sold_out(&answers), "{answers:?}");
        // Instead of the transaction the decisions are read, and at the end their own claims.
        assert!(waited <= FIRST + CROWD + LEDGER, "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slip_that_help_sets_free_is_given_out() {
    // The user has another slip by now, so the ledger refuses their hold.
    let scene = Scene::new(Trouble::None).await;
    let claim = Claim { slip: 0, amount: Amount::new(1), at: scene.clock.now() };
    let other = Terms { count: 2, ..scene.terms.clone() };
    let other_slip = Claim { slip: 1, ..claim };
    scene.ledger().claim(&other, &user(0), &other_slip).await.unwrap();
    let process = scene.process().await;
    let (answers, _) = scene.ask(&process, 1..=3).await;
    let won = answers.iter().filter(|answer| matches!(answer, Ok(GrabOutcome::Grabbed { replayed: false, .. })));
    assert_eq!(won.count(), 1, "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_win_that_a_helper_finished_is_no_replay_for_its_own_request() {
    let scene = Scene::new(Trouble::None).await;
    let hold = scene.hot.hot.outbox(scene.part(), Duration::ZERO).await.unwrap().remove(0).hold;
    // The slip is free again, and somebody else brings the next hold to the ledger before its own request does.
    scene.hot.hot.tamper(scene.part(), |part| {
        part.claims.clear();
        part.free.push_back(0);
    });
    let process = scene.process().await;
    let asking = scene.ask(&process, 1..=1);
    let helping = async {
        while scene.hot.hot.outbox(scene.part(), Duration::ZERO).await.unwrap().is_empty() {
            sleep(REDIS / 4).await;
        }
        let hold = scene.hot.hot.outbox(scene.part(), Duration::ZERO).await.unwrap().remove(0).hold;
        let claim = Claim { slip: hold.slip, amount: scene.terms.total, at: hold.at };
        let fast = Ledger::new(SharedTable(Arc::clone(&scene.table)), Arc::new(System));
        fast.claim(&scene.terms, &hold.user, &claim).await.unwrap();
    };
    let ((answers, _), ()) = tokio::join!(asking, helping);
    assert!(matches!(&answers[..], [Ok(GrabOutcome::Grabbed { replayed: false, .. })]), "{hold:?}: {answers:?}");
    let (answers, _) = scene.ask(&process, 1..=1).await;
    assert!(matches!(&answers[..], [Ok(GrabOutcome::Grabbed { replayed: true, .. })]), "{answers:?}");
}
