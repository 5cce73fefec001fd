//! What views cost, and what they show while parts of the hot store fail.

mod end;
mod newest;
mod scene;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use scene::*;

use super::*;
use crate::domain::{AckMode, Amount, Summary};
use crate::lock;
use crate::ports::Clock;
use crate::redis::PartKeys;

#[tokio::test(start_paused = true)]
async fn views_of_a_large_packet_that_changes_hardly_read_the_ledger() {
    let mut scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let before = scene.claimed;
    assert!((69_900..=70_000).contains(&before), "{before}");
    scene.forget_counts();
    assert_eq!(scene.claimed_count().await, before);
    assert_eq!((scene.queries(), scene.gets()), (0, 2 + 16), "terms and end, and the amounts");

    // Each tenth of a second ten slips are held, and those of the last time are committed.
    let mut held = Vec::new();
    for tick in 0..600 {
        for (part, hold) in std::mem::take(&mut held) {
            scene.commit_hold(&hold).await;
            scene.reconcile(part, &hold).await;
        }
        for n in 0..10 {
            let part = scene.part((tick * 10 + n) % 16);
            held.push((part, scene.hold(part).await));
        }
        assert_eq!(scene.claimed_count().await, scene.claimed, "{tick}");
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let shared = scene.queries() + scene.gets();
    println!("600 views in a minute: {shared} reads beside the viewers' claims");
    assert!((59..=61).contains(&shared), "{shared} reads");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_does_not_answer_costs_only_what_is_missing() {
    let mut scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let before = scene.claimed;
    scene.mute(0..86);
    assert_eq!(scene.claimed_count().await, before, "the ledger answers for it");
    let lost = scene.terms.id.parts().filter(|part| part.partition().index() < 86).count() as u64;
    let at_first = scene.queries();
    assert!((97 * lost..=99 * lost).contains(&at_first), "{at_first} queries for {lost} parts");
    // Other processes still reach the shard. Winners there find their slip at once, and so does everybody soon.
    let part = scene.terms.id.parts().find(|part| part.partition().index() < 86).unwrap();
    let hold = scene.hold(part).await;
    let claim = scene.commit_hold(&hold).await;
    assert_eq!(scene.view(&hold.user).await.mine, Some(claim));
    scene.queries();
    for _ in 0..600 {
        tokio::time::advance(Duration::from_millis(100)).await;
        scene.claimed_count().await;
    }
    let queries = scene.queries();
    assert_eq!(scene.claimed_count().await, before + 1);
    assert!(queries <= 64 * 60, "{queries} queries in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_hot_store_that_hangs_delays_a_view_by_half_a_second() {
    let mut scene = Scene::new(16_000, |_| 1).await;
    assert_eq!(scene.claimed_count().await, 16);
    let near = scene.part(0);
    *lock(&scene.shards.server().hanging) =
        (0..256).filter(|partition| *partition != near.partition().index()).collect();
    let hold = scene.hold(near).await;
    scene.commit_hold(&hold).await;
    scene.reconcile(near, &hold).await;
    for (ms, hangs) in [(500, true), (500, true), (0, false)] {
        if !hangs {
            lock(&scene.shards.server().hanging).clear();
        }
        let begun = Instant::now();
        assert_eq!(scene.claimed_count().await, 17, "the part that answers is current");
        assert_eq!(begun.elapsed(), Duration::from_millis(ms));
    }

    for number in 2..=100 {
        scene.send_another(number).await;
    }
    *lock(&scene.shards.server().hanging) = (0..256).collect();
    let begun = Instant::now();
    let (sent, _) = scene.view.sent(&scene.terms.sender, None, 100).await.unwrap();
    assert_eq!(sent.rows.len(), 100);
    assert!(begun.elapsed() <= Duration::from_millis(5 * 500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_promise_counts_and_is_listed_as_a_claim() {
    let mut scene = Scene::acknowledged_by(AckMode::Redis, 3_000, |_| 10).await;
    let hold = scene.hold(scene.part(1)).await;
    let promised = Claim { at: hold.at, ..scene.claim(hold.slip) };
    for is_committed in [false, true] {
        if is_committed {
            scene.commit_hold(&hold).await;
            scene.reconcile(scene.part(1), &hold).await;
        }
        assert_eq!(scene.claimed_count().await, 31);
        assert_eq!(scene.view(&hold.user).await.mine.as_ref(), Some(&promised));
        let rows = page(&scene.view, &scene.terms, None).await.rows;
        assert!(rows.iter().any(|row| row.user == hold.user && row.claim == promised));
        let (sent, _) = scene.view.sent(&scene.terms.sender, None, 1).await.unwrap();
        assert_eq!(sent.rows[0].summary.claimed_count, 31);
    }
}

#[tokio::test(start_paused = true)]
async fn a_promise_counts_also_where_the_bitmap_of_known_decisions_was_lost() {
    let mut scene = Scene::acknowledged_by(AckMode::Redis, 100, |_| 10).await;
    let hold = scene.hold(scene.part(0)).await;
    scene.memory.command(&["DEL", &PartKeys::of(scene.part(0)).known]).unwrap();
    assert_eq!(scene.hot.part_state(scene.part(0)).await.unwrap(), None, "the part says nothing of its slips");
    assert_eq!(scene.claimed_count().await, 11, "what the ledger has, and the promise");
    let promised = Claim { at: hold.at, ..scene.claim(hold.slip) };
    assert_eq!(scene.view(&hold.user).await.mine, Some(promised));
    let rows = page(&scene.view, &scene.terms, None).await.rows;
    assert!(rows.iter().any(|row| row.user == hold.user), "{rows:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_claims_reads_its_own_slips_only() {
    let scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    let (sent, _) = scene.view.sent(&scene.terms.sender, None, 20).await.unwrap();
    assert_eq!((sent.rows[0].summary.claimed_count, sent.rows[0].status), (scene.claimed, Status::Open));
    let view = scene.process();
    scene.queries();
    let first = page(&view, &scene.terms, None).await;
    let first_queries = scene.queries();
    // From the middle, in a process that is new to the packet.
    let view = scene.process();
    let middle = page(&view, &scene.terms, Some(50_000)).await;
    assert_eq!((first.rows.len(), middle.rows.len()), (100, 100));
    assert!(first_queries <= 4 && scene.queries() <= 4, "{first_queries} queries");
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
    assert!(scene.queries() <= 1_110, "no group is read twice, and none without a claim");
}

#[tokio::test(start_paused = true)]
async fn a_winner_finds_their_slip_before_redis_is_reconciled() {
    for count in [100, 3_000] {
        let mut scene = Scene::new(count, |_| 10).await;
        let before = scene.claimed;
        assert_eq!(scene.claimed_count().await, before);
        let hold = scene.hold(scene.part(0)).await;
        assert_eq!(scene.view(&hold.user).await.mine, None, "only held");
        let claim = scene.commit_hold(&hold).await;
        let shown = scene.view(&hold.user).await;
        assert_eq!((shown.mine, shown.summary.claimed_count), (Some(claim), before + 1));
        for order in [Order::Slip, Order::Newest { after: None }] {
            let asked = ClaimsAsked { order, cursor: None, limit: 100 };
            let list = scene.view.claims(scene.terms.id, Some(&hold.user), &Voucher::Operator, &asked).await.unwrap();
            assert!(list.claims.rows.iter().any(|row| row.user == hold.user), "{count} {order:?}");
        }
        // Others see it in a second if the packet is small, and else once the part knows.
        tokio::time::advance(Duration::from_secs(1)).await;
        if count > 2_000 {
            scene.reconcile(scene.part(0), &hold).await;
        }
        assert_eq!(scene.claimed_count().await, before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_redis_lost_or_invents_shows_for_a_second_in_a_small_packet() {
    let mut scene = Scene::new(1_000, |_| 100).await;
    let older = scene.memory.snapshot();
    scene.wins(1).await;
    assert_eq!(scene.claimed_count().await, 101);
    scene.memory.restore(&older);
    let known = PartKeys::of(scene.part(0)).known;
    for place in ["900", "901"] {
        scene.memory.command(&["SETBIT", &known, place, "1"]).unwrap();
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        assert_eq!(scene.claimed_count().await, 101, "the ledger was asked");
    }
    let other = scene.process().packet(scene.terms.id, &scene.terms.sender, &Voucher::Operator).await.unwrap();
    assert_eq!(other.summary.claimed_count, 101);
}
