//! The scheduled settle: it starts nothing too early, and finishes everything, also where Redis is away, has forgotten or can't be read.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use redis::cmd;
use shared::domain::{AckMode, Status, Terms};
use shared::ledger::keys;
use shared::service::{Failure, GrabOutcome, RunReport};
use tests::hot::hold_only;
use tests::{Process, Promises, Setup, World, audit, packet, user, users};

const ACKS: [AckMode; 2] = [AckMode::Ledger, AckMode::Redis];
/// Later than every expiry in these tests.
const LATER: Duration = Duration::from_hours(2);

/// A process whose clock is past every expiry.
fn late_process(world: &World) -> Arc<Process> {
    let process = world.process();
    process.clock.set_ahead(LATER);
    process
}

/// Checks that every slip is decided and every packet settled.
async fn all_is_settled(world: &World) {
    world.outbox_is_empty().await;
    let books = audit(world).await;
    assert!(books.packets.values().all(|packet| packet.settled), "a packet is not settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_time_does_no_harm_and_the_next_one_finishes() {
    let world = World::single().await;
    let process = world.process();
    let mut held = Vec::new();
    for n in 0..4 {
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        hold_only(&process, terms.id.parts().next().unwrap(), &users(&format!("p{n}-"), 2)).await;
        held.push(terms);
    }
    let late = late_process(&world);
    let report = late.count().await;
    let RunReport { oldest_outbox_ms, oldest_due_s, .. } = report;
    let counted = RunReport {
        due_left: 4,
        outbox_left: Some(8),
        oldest_outbox_ms,
        oldest_due_s,
        oldest_pending_s: Some(0),
        ..RunReport::default()
    };
    assert_eq!(report, counted, "nothing is done, but everything is counted");
    // By the process' clock, which is two hours ahead. The packets were open for one.
    assert!((3_600..3_660).contains(&oldest_due_s), "the oldest is due for {oldest_due_s} s");
    assert!(audit(&world).await.packets.values().all(|packet| packet.decisions.is_empty()));
    let report = late.settle().await;
    let counts =
        (report.persisted, report.refunded_packets, report.refunded_slips, report.due_left, report.outbox_left);
    assert_eq!((counts, report.oldest_due_s), ((8, 4, 32, 0, Some(0)), 0));
    all_is_settled(&world).await;
}

#[tokio::test]
async fn a_packet_that_the_index_shows_too_early_is_not_refunded() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    // It is not closed, but somebody has put it before those that are.
    let key = keys::packet(terms.id);
    let update = world.dynamodb.update_item().table_name(world.table()).update_expression("SET due_at = :first");
    let update = update.key(keys::PK, AttributeValue::S(key.pk)).key(keys::SK, AttributeValue::S(key.sk));
    update.expression_attribute_values(":first", AttributeValue::N("0".to_owned())).send().await.unwrap();
    let report = process.settle().await;
    assert_eq!((report.refunded_slips, report.due_left), (0, 1));
    assert!(matches!(process.grab(terms.id, &user("ann")).await.unwrap(), GrabOutcome::Grabbed { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_only_packets_in_redis_mode_wait() {
    let mut world = World::single_with(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    let late = late_process(&world);
    let promises = Promises::default();
    let mut sent = Vec::new();
    for ack in ACKS {
        let process = world.process_with(Setup { ack, ..Setup::default() });
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        for user in users("u", 3) {
            promises.grab(&process, terms.id, &user).await.unwrap();
        }
        sent.push(terms);
    }
    world.redis.nodes_mut()[0].kill();
    let report = late.settle().await;
    let counts =
        (report.persisted, report.refunded_packets, report.refunded_slips, report.due_left, report.outbox_left);
    assert_eq!(counts, (0, 1, 7, 1, None));
    let books = audit(&world).await;
    let state = |terms: &Terms| (books.packet(terms.id).settled, books.packet(terms.id).decisions.len());
    assert_eq!((state(&sent[0]), state(&sent[1])), ((true, 10), (false, 0)));

    world.redis.nodes_mut()[0].restart().await;
    let report = late.settle().await;
    let counts =
        (report.persisted, report.refunded_packets, report.refunded_slips, report.due_left, report.outbox_left);
    assert_eq!(counts, (3, 1, 7, 0, Some(0)));
    promises.are_kept(&audit(&world).await);
    all_is_settled(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgot_causes_no_denial_before_settlement() {
    let world = World::single().await;
    let process = world.process_with(Setup { ack: AckMode::Redis, ..Setup::default() });
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    let (holder, loser) = (user("ann"), user("bob"));
    process.grab(terms.id, &holder).await.unwrap();
    // Including the holds that it had acknowledged. Now only settle can find out who has a slip.
    let () = world.redis(&cmd("FLUSHALL")).await;
    // The packet is expired for this process, so it is not loaded again.
    process.clock.set_ahead(LATER);
    for user in [&holder, &loser] {
        let answer = process.grab(terms.id, user).await;
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{user}: {answer:?}");
    }
    let report = process.settle().await;
    assert_eq!((report.persisted, report.refunded_slips), (0, 10));
    for user in [&holder, &loser] {
        assert_eq!(process.grab(terms.id, user).await.unwrap(), GrabOutcome::Expired);
    }
    all_is_settled(&world).await;
}

/// Closes a packet; nobody else has.
async fn close(process: &Process, terms: &Terms) {
    let view = process.close.close(terms.id, "a test".parse().unwrap(), None).await.unwrap().unwrap();
    assert!(view.closed_at.is_some(), "{view:?}");
}

async fn in_both_modes(body: impl AsyncFn(World, Setup)) {
    for ack in [AckMode::Ledger, AckMode::Redis] {
        body(World::single().await, Setup { ack, ..Setup::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_without_redis_is_answered_once_redis_knows() {
    in_both_modes(async |mut world, setup| {
        let process = world.process_with(setup);
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        let promises = Promises::default();
        promises.grab(&process, terms.id, &user("ann")).await.unwrap();
        // What was promised on Redis' word must be in the ledger before Redis loses it.
        process.settle().await;
        world.redis.nodes_mut()[0].kill();
        let ask = async || process.close.close(terms.id, "a test".parse().unwrap(), None).await;
        ask().await.unwrap_err();
        let report = process.settle().await;
        // Redis might still promise slips. Only if its word counts, nothing goes back.
        let (refunded, left) = if setup.ack == AckMode::Redis { (0, 1) } else { (9, 0) };
        assert_eq!((report.refunded_slips, report.due_left), (refunded, left));
        // It comes back empty. A loader reads that the packet is closed.
        world.redis.nodes_mut()[0].restart().await;
        assert_eq!(promises.grab(&process, terms.id, &user("bob")).await.unwrap(), GrabOutcome::Closed);
        let seen = ask().await.unwrap().unwrap();
        assert_eq!(seen.status, if left == 1 { Status::Closed } else { Status::Settled });
        promises.grab(&process, terms.id, &user("ann")).await.unwrap();
        assert_eq!(process.settle().await.refunded_slips, 9 - refunded);
        promises.are_kept(&audit(&world).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_packet_whose_holds_cannot_be_read_is_refunded_unless_they_are_promises() {
    in_both_modes(async |world, setup| {
        let process = world.process_with(setup);
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        let promises = Promises::default();
        promises.grab(&process, terms.id, &user("ann")).await.unwrap();
        process.settle().await;
        close(&process, &terms).await;
        // The outbox is read with HGETALL. Settle needs it for nothing else in a part without a hold.
        let () = world.redis(cmd("ACL").arg("SETUSER").arg("default").arg("-hgetall")).await;
        let report = process.settle().await;
        let (refunded, left) = if setup.ack == AckMode::Redis { (0, 1) } else { (9, 0) };
        assert_eq!((report.refunded_slips, report.due_left), (refunded, left));
        let () = world.redis(cmd("ACL").arg("SETUSER").arg("default").arg("+hgetall")).await;
        assert_eq!(process.settle().await.refunded_slips, 9 - refunded);
        promises.are_kept(&audit(&world).await);
    })
    .await;
}
