//! Refunds in portions: neither many slips nor many packets of others keep a packet waiting. Time is tokio's paused clock.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use futures::future::join;
use shared::domain::AckMode;
use tokio::time::sleep;

mod scene;

use scene::{OPEN, SLOW, Scene, other_sender};

/// The time of one run: transactions take a second each here, so it is short of what these packets need.
const RUN: Duration = Duration::from_secs(45);
const LARGE: u32 = 100_000;
/// The slips of a large packet's portion at most: one of its 16 parts.
const PORTION: usize = 6_250;

#[tokio::test(start_paused = true)]
async fn large_packets_do_not_keep_a_small_one_waiting() {
    let scene = Scene::new(AckMode::Ledger, 10 * u64::from(LARGE) + 16 * 10).await;
    let mut large = Vec::new();
    for _ in 0..10 {
        large.push(scene.send(LARGE).await);
    }
    // They expire last. One has its due shard for itself or shares it with a large packet.
    scene.pass(Duration::from_secs(1));
    let mut small = Vec::new();
    for _ in 0..16 {
        small.push(scene.send(10).await);
    }
    scene.pass(OPEN);
    scene.slow_down();
    scene.settle(RUN).await;
    for terms in &small {
        assert_eq!(scene.decided(terms).await, (10, true), "one run is enough");
    }
    // The large ones go round, the earliest first.
    let mut decided = Vec::new();
    for terms in &large {
        decided.push(scene.decided(terms).await.0);
    }
    // A packet whose shard is read late may have its first portion while others have their second.
    assert!(
        decided.iter().all(|slips| *slips <= 2 * PORTION),
        "a packet had three portions before others had one: {decided:?}"
    );
    assert!(decided.iter().filter(|slips| **slips > 0).count() >= 4, "{decided:?}");
    // The next run goes on.
    let report = scene.settle(RUN).await;
    assert_eq!((report.refunded_slips > 0, report.due_left), (true, 10), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn small_packets_do_not_keep_a_large_one_waiting() {
    let scene = Scene::new(AckMode::Ledger, 1_000 * 10 + 2_000).await;
    // More than a run can settle, and all of them expire first.
    for _ in 0..1_000 {
        scene.send(10).await;
    }
    scene.pass(Duration::from_secs(1));
    let large = scene.send(2_000).await;
    scene.pass(OPEN);
    scene.slow_down();
    let report = scene.settle(RUN).await;
    assert!(report.due_left > 500, "{report:?}");
    // 2,000 slips are 24 refunds, which take 24 seconds of the run.
    assert_eq!(scene.decided(&large).await, (2_000, true));
}

#[tokio::test(start_paused = true)]
async fn each_run_comes_further_with_many_large_packets() {
    const PACKETS: u64 = 40;
    const SLIPS: u32 = 8_000;
    let scene = Scene::new(AckMode::Ledger, PACKETS * u64::from(SLIPS)).await;
    for _ in 0..PACKETS {
        scene.send(SLIPS).await;
    }
    scene.pass(OPEN);
    scene.read_slowly();
    // To read 8 parts takes 8 seconds. So a run can't read all parts of all packets.
    let mut left = PACKETS;
    for _ in 0..100 {
        let report = scene.settle(RUN).await;
        assert!(report.refunded_slips > 0 || report.due_left < left, "a run without progress: {report:?}");
        left = report.due_left;
        if left == 0 {
            return;
        }
    }
    panic!("{left} packets are left");
}

#[tokio::test(start_paused = true)]
async fn a_sender_whose_refunds_have_no_answer_keeps_nobody_waiting() {
    let scene = Scene::new(AckMode::Ledger, 10_000).await;
    // They expire first, several in each due shard.
    for _ in 0..200 {
        scene.send_by(other_sender(), 10).await;
    }
    scene.pass(Duration::from_secs(1));
    let mut packets = Vec::new();
    for _ in 0..32 {
        packets.push(scene.send(10).await);
    }
    scene.pass(OPEN);
    scene.stick(other_sender());
    let report = scene.settle(RUN).await;
    assert_eq!(report.due_left, 200, "{report:?}");
    for terms in &packets {
        assert_eq!(scene.decided(terms).await, (10, true), "one run is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_whose_refunds_have_answers_again_is_refunded_in_the_same_run() {
    let scene = Scene::new(AckMode::Ledger, 2_000).await;
    for _ in 0..200 {
        scene.send_by(other_sender(), 10).await;
    }
    scene.pass(OPEN);
    scene.stick(other_sender());
    let answers_again = async {
        sleep(Duration::from_secs(15)).await;
        scene.unstick();
    };
    let (report, ()) = join(scene.settle(RUN), answers_again).await;
    // In each due shard at most two had no answer in time, of 8 seconds each. The others gave way, and came last.
    assert!(report.due_left <= 2 * 16 && report.refunded_packets >= 200 - 2 * 16, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn closed_packets_with_holds_take_turns() {
    const PACKETS: u64 = 8;
    const PARTS: u32 = 8;
    let scene = Scene::new(AckMode::Ledger, PACKETS * 8_000).await;
    let mut packets = Vec::new();
    for _ in 0..PACKETS {
        let terms = scene.send(8_000).await;
        assert_eq!(terms.id.part_count(), PARTS);
        // The holds are too young for the part of the run that only persists.
        scene.hold(&terms).await;
        scene.close(&terms).await;
        packets.push(terms);
    }
    scene.slow_down();
    scene.settle(SLOW * PARTS).await;
    for terms in &packets {
        assert!(scene.decided(terms).await.0 > 0, "a packet waited until others had had all of theirs");
    }
}
