//! What views of a large packet cost, and what they show while parts of the hot store fail.

mod end;
mod newest;
mod scene;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use scene::*;

use super::*;
use crate::domain::{AckMode, Amount, Guard, Summary, Timestamp};
use crate::memory::Entry;
use crate::ports::Clock;

/// The bound for queries of a large packet in a minute.
#[tokio::test(start_paused = true)]
async fn a_large_packet_that_changes_costs_400_queries_a_minute_and_32_mb() {
    let mut scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let before = scene.claimed;
    assert!((69_900..=70_000).contains(&before), "{before}");
    scene.queries();
    assert_eq!(scene.claimed_count().await, before);
    assert_eq!(scene.queries(), 1_563, "the first view reads each group once");

    // Each tenth of a second ten slips are held, and those of the last time are committed. Every fifth second the process of one hold
    // dies before the reconcile.
    let (mut held, mut orphaned, mut took) = (Vec::new(), 0, Vec::new());
    for tick in 0..600 {
        for (part, hold) in std::mem::take(&mut held) {
            scene.commit_hold(&hold).await;
            if tick % 50 == 1 && orphaned == tick / 50 {
                orphaned += 1;
            } else {
                scene.reconcile(part, &hold).await;
            }
        }
        for n in 0..10 {
            let part = scene.part((tick * 10 + n) % 16);
            held.push((part, scene.hold(part).await));
        }
        let begun = std::time::Instant::now();
        let shown = scene.claimed_count().await;
        took.push(begun.elapsed());
        // A claim that Redis does not know of shows once its hold is old.
        assert!((scene.claimed - 1..=scene.claimed).contains(&shown), "{tick}: {shown} of {}", scene.claimed);
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let queries = scene.queries();
    took.sort();
    let bytes = scene.view.live.packets.weight();
    println!("{queries} queries in a minute, p50 {:?}, p99 {:?}, {bytes} bytes", took[300], took[594]);
    assert!((64..=400).contains(&queries), "{queries} queries");
    assert_eq!((orphaned, scene.claimed), (12, before + 5_990));
    assert!((5 << 20..12 << 20).contains(&bytes), "{bytes} bytes");
}

#[test]
fn the_longest_user_ids_fit_the_cache() {
    let mut slips = slips::Slips::new(100_000);
    for slip in 0..100_000 {
        let user: UserId = format!("{slip:0128}").parse().unwrap();
        let claim = Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) };
        assert!(slips.show(claim.decision(&user), slips::Source::Ledger));
    }
    println!("{} bytes", slips.bytes());
    assert!(slips.bytes() < 24 << 20, "{} bytes", slips.bytes());
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_does_not_answer_costs_only_what_is_missing() {
    let mut scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let before = scene.claimed;
    assert_eq!(scene.claimed_count().await, before);
    scene.queries();
    scene.mute(0..86);
    let lost = scene.terms.id.parts().filter(|part| part.partition().index() < 86).count() as u64;
    assert_eq!(scene.claimed_count().await, before, "nothing is forgotten");
    let at_first = scene.queries();
    assert!(at_first <= 64 && at_first > lost, "{at_first} queries for {lost} parts");
    // Other processes still reach the shard. Winners there find their slip at once, and so does everybody soon.
    let part = scene.terms.id.parts().find(|part| part.partition().index() < 86).unwrap();
    let hold = scene.hold(part).await;
    let claim = scene.commit_hold(&hold).await;
    assert_eq!(scene.view(&hold.user).await.mine, Some(claim));
    assert_eq!(scene.claimed_count().await, before + 1);
    let other = scene.hold(part).await;
    scene.commit_hold(&other).await;
    scene.queries();
    for _ in 0..600 {
        tokio::time::advance(Duration::from_millis(100)).await;
        scene.claimed_count().await;
    }
    let queries = scene.queries();
    assert_eq!(scene.claimed_count().await, before + 2);
    assert!(queries <= 400, "{queries} queries in a minute");

    // A packet with no part there is not concerned.
    scene.hot.asked.store(0, Ordering::SeqCst);
    scene.mute([]);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(scene.claimed_count().await, before + 2);
    assert_eq!(scene.hot.asked.load(Ordering::SeqCst), 16);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_hangs_delays_a_view_by_one_second_once() {
    let mut scene = Scene::new(16_000, |_| 1).await;
    assert_eq!(scene.claimed_count().await, 16);
    let near = scene.part(0);
    *lock(&scene.hot.hanging) = (0..256).filter(|partition| *partition != near.partition().index()).collect();
    let hold = scene.hold(near).await;
    scene.commit_hold(&hold).await;
    scene.reconcile(near, &hold).await;
    for seconds in [1, 0, 0] {
        let begun = Instant::now();
        assert_eq!(scene.claimed_count().await, 17, "the part that answers is current");
        assert_eq!(begun.elapsed(), Duration::from_secs(seconds));
    }
    lock(&scene.hot.hanging).clear();
    tokio::time::advance(Duration::from_secs(1)).await;
    let begun = Instant::now();
    assert_eq!(scene.claimed_count().await, 17);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_does_not_answer_is_asked_again_after_a_second() {
    let scene = Scene::new(100, |_| 10).await;
    scene.mute([scene.part(0).partition().index()]);
    for (pause_ms, asked) in [(0, 1), (0, 0), (999, 0), (1, 1), (0, 0)] {
        tokio::time::advance(Duration::from_millis(pause_ms)).await;
        assert_eq!((scene.claimed_count().await, scene.asked()), (10, asked), "after {pause_ms} ms");
    }
    scene.mute([]);
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        assert_eq!((scene.claimed_count().await, scene.asked()), (10, 1), "it answers again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_promises_is_asked_at_every_view() {
    let mut scene = Scene::acknowledged_by(AckMode::Redis, 100, |_| 10).await;
    let part = scene.part(0);
    lock(&scene.hot.hanging).insert(part.partition().index());
    for delay in [1_000, 100, 100] {
        let begun = Instant::now();
        assert_eq!((scene.claimed_count().await, scene.asked()), (10, 1));
        assert_eq!(begun.elapsed(), Duration::from_millis(delay), "a view waits, but not for long each time");
    }
    lock(&scene.hot.hanging).clear();
    let hold = scene.hold(part).await;
    assert!(scene.view(&hold.user).await.mine.is_some(), "only the hot store knows of the promise");
}

#[tokio::test(start_paused = true)]
async fn a_hot_store_that_hangs_delays_a_page_of_packets_by_little_more_than_a_second() {
    let scene = Scene::new(1, |_| 0).await;
    for number in 2..=100 {
        scene.send_another(number).await;
    }
    *lock(&scene.hot.hanging) = (0..256).collect();
    for _ in 0..2 {
        let begun = Instant::now();
        let (sent, _) = scene.view.sent(&scene.terms.sender, None, 100).await.unwrap();
        assert_eq!(sent.rows.len(), 100);
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(1_000 + 12 * 100), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_other_shards_still_come_from_the_hot_store() {
    let mut scene = Scene::new(3_000, |_| 640).await;
    assert_eq!(scene.claimed_count().await, 1_920);
    let [near, mute] = [0, 1].map(|index| scene.part(index));
    scene.mute([mute.partition().index()]);
    scene.claimed_count().await;
    // What was read in the very instant in which the part fell silent is read once more.
    tokio::time::advance(Duration::from_millis(1)).await;
    scene.claimed_count().await;
    scene.queries();
    let hold = scene.hold(near).await;
    scene.commit_hold(&hold).await;
    scene.reconcile(near, &hold).await;
    assert_eq!(scene.claimed_count().await, 1_921);
    assert!(scene.queries() <= 3, "the group whose slips the mute part gives out now, and those that it shares");
    let hold = scene.hold(mute).await;
    scene.commit_hold(&hold).await;
    assert_eq!(scene.claimed_count().await, 1_922, "the ledger answers for the other part, at once");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_sent_packets_does_not_read_their_decisions() {
    let scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    scene.queries();
    for round in 0..2 {
        let (sent, _) = scene.view.sent(&scene.terms.sender, None, 20).await.unwrap();
        assert_eq!(sent.rows[0].summary.claimed_count, scene.claimed);
        assert_eq!(sent.rows[0].status, Status::Open);
        let queries = scene.queries();
        assert!(queries <= 1 + 8, "round {round}: {queries} queries");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_claims_reads_its_own_slips_only() {
    let scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let view = scene.process();
    scene.queries();
    let first = page(&view, &scene.terms, None).await;
    let queries = scene.queries();
    assert!(queries <= 2 + 8, "{queries} queries");
    // From the middle, in a process that is new to the packet.
    let view = scene.process();
    let middle = page(&view, &scene.terms, Some(ListPlace::Slip(50_000))).await;
    assert!(scene.queries() <= 3 + 8);
    assert_eq!((first.rows.len(), middle.rows.len()), (100, 100));
    let (mut slips, mut after) = (BTreeSet::new(), None);
    loop {
        let page = page(&view, &scene.terms, after).await;
        let count = slips.len() + page.rows.len();
        slips.extend(page.rows.iter().map(|row| row.claim.slip));
        assert_eq!(slips.len(), count, "a claim is listed twice");
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(slips.len(), scene.claimed as usize);
    assert!(scene.queries() <= 1_563, "no group is read twice");
}

#[tokio::test(start_paused = true)]
async fn a_winner_finds_their_slip_before_redis_is_reconciled() {
    let mut scene = Scene::new(100, |_| 10).await;
    assert_eq!(scene.claimed_count().await, 10);
    let part = scene.part(0);
    let hold = scene.hold(part).await;
    assert_eq!(scene.view(&hold.user).await.mine, None, "only held");
    let claim = scene.commit_hold(&hold).await;
    scene.queries();
    scene.gets();
    assert_eq!(scene.claimed_count().await, 10, "a fresh hold is not read");
    assert_eq!((scene.queries(), scene.gets()), (0, 0));
    assert_eq!(scene.view(&hold.user).await.mine, Some(claim));
    assert_eq!((scene.queries(), scene.gets()), (0, 1));
    assert_eq!(scene.claimed_count().await, 11, "now everybody sees it");
    assert!(page(&scene.view, &scene.terms, None).await.rows.iter().any(|row| row.user == hold.user));

    // Somebody else's shows once the hold is a second old.
    let hold = scene.hold(part).await;
    scene.claimed_count().await;
    scene.commit_hold(&hold).await;
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(scene.claimed_count().await, 11);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(scene.claimed_count().await, 12);
    assert_eq!(scene.queries(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_winner_finds_their_slip_in_the_list_too() {
    let mut scene = Scene::new(100, |_| 10).await;
    assert_eq!(scene.claimed_count().await, 10);
    let hold = scene.hold(scene.part(0)).await;
    scene.commit_hold(&hold).await;
    let asked = ClaimsAsked { order: Order::Slip, cursor: None, limit: 100 };
    let list = scene.view.claims(scene.terms.id, &hold.user, &asked).await.unwrap();
    let Viewed::Shown(list) = list else { panic!("{list:?}") };
    assert!(list.claims.rows.iter().any(|row| row.user == hold.user));
}

#[tokio::test(start_paused = true)]
async fn an_invented_claim_is_found_out_and_the_others_stay() {
    let mut scene = Scene::new(3_000, |_| 100).await;
    assert_eq!(scene.claimed_count().await, 300);
    let part = scene.part(1);
    let hold = scene.hold(part).await;
    scene.commit_hold(&hold).await;
    scene.reconcile(part, &hold).await;
    let mallory: UserId = "mallory".parse().unwrap();
    let invented = Claim { slip: 1_900, ..scene.claim(1_900) };
    scene.hot.hot.tamper(part, |part| drop(part.claims.insert(mallory.clone(), Entry::Confirmed(invented))));
    assert_eq!(scene.claimed_count().await, 302, "it looks like the others");
    tokio::time::advance(evidence::CHECK_INTERVAL).await;
    for more in 0..3 {
        assert_eq!((scene.claimed_count().await, scene.view(&mallory).await.mine), (301 + more, None));
        // The part has news, which the ledger confirms at once.
        let hold = scene.hold(part).await;
        let claim = scene.commit_hold(&hold).await;
        scene.reconcile(part, &hold).await;
        assert_eq!(scene.view(&hold.user).await.mine, Some(claim));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_redis_has_lost_stays() {
    let mut scene = Scene::new(3_000, |_| 100).await;
    assert_eq!(scene.claimed_count().await, 300);
    let part = scene.part(0);
    let older = scene.hot.hot.snapshot();
    let (seen, unseen) = (scene.hold(part).await, scene.hold(part).await);
    scene.commit_hold(&seen).await;
    scene.reconcile(part, &seen).await;
    assert_eq!(scene.claimed_count().await, 301);
    scene.commit_hold(&unseen).await;
    scene.reconcile(part, &unseen).await;
    scene.hot.hot.restore(&older);
    assert_eq!(
        scene.claimed_count().await,
        302,
        "the missing claim shows the rollback, and the ledger has the other one"
    );
}
