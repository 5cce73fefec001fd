//! Packets that the operator closes, on a real Redis server and a `DynamoDB` API.

use std::sync::Arc;

use futures::future::join_all;
use redis::cmd;
use shared::domain::{AckMode, Terms};
use shared::service::{GrabOutcome, Status};
use tests::{Process, Promises, Setup, World, audit, packet, user, users};

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
async fn a_close_in_the_middle_of_a_rush_keeps_every_promise() {
    in_both_modes(async |world, setup| {
        let processes = [world.process_with(setup), world.process_with(setup)];
        let terms = processes[0].send_funded(packet(&user("sender"), 100_000, 2_500)).await;
        let promises = Arc::new(Promises::default());
        let rush: Vec<_> = users("u", 300)
            .into_iter()
            .enumerate()
            .map(|(n, user)| {
                let (process, promises, id) = (processes[n % 2].clone(), Arc::clone(&promises), terms.id);
                tokio::spawn(async move { promises.grab(&process, id, &user).await.unwrap() })
            })
            .collect();
        // The close comes while some have their answer and others do not.
        while promises.count() == 0 {
            tokio::task::yield_now().await;
        }
        close(&processes[1], &terms).await;
        for outcome in join_all(rush).await {
            let outcome = outcome.unwrap();
            assert!(matches!(outcome, GrabOutcome::Grabbed { .. } | GrabOutcome::Closed), "{outcome:?}");
        }
        let won = promises.count();
        for name in ["late", "later"] {
            let outcome = promises.grab(&processes[0], terms.id, &user(name)).await.unwrap();
            assert_eq!(outcome, GrabOutcome::Closed, "{name}");
        }
        // The packet has hours left, and the next run settles it all the same.
        let report = processes[0].settle().await;
        assert_eq!((report.due_left, report.refunded_slips), (0, 2_500 - won as u64));
        let books = audit(&world).await;
        promises.are_kept(&books);
        assert_eq!((books.packet(terms.id).claimed(), books.packet(terms.id).settled), (won, true));
        let seen = processes[0].view.any_packet(terms.id).await.unwrap().unwrap();
        assert_eq!((seen.status, seen.summary.claimed_count as usize), (Status::Settled, won));
        world.outbox_is_empty().await;
    })
    .await;
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
async fn settle_finishes_a_close_that_has_not_reached_redis() {
    in_both_modes(async |world, setup| {
        let process = world.process_with(setup);
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        let promises = Promises::default();
        // The ledger knows of the close; Redis does not.
        let snapshot = world.snapshot().await;
        close(&process, &terms).await;
        world.restore(&snapshot).await;
        let outcome = promises.grab(&process, terms.id, &user("ann")).await.unwrap();
        assert!(matches!(outcome, GrabOutcome::Grabbed { .. }), "Redis does not know: {outcome:?}");
        let report = process.settle().await;
        assert_eq!((report.refunded_slips, report.due_left), (9, 0));
        assert_eq!(promises.grab(&process, terms.id, &user("bob")).await.unwrap(), GrabOutcome::Closed);
        promises.grab(&process, terms.id, &user("ann")).await.unwrap();
        promises.are_kept(&audit(&world).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_close_reaches_redis_also_after_the_refund() {
    in_both_modes(async |world, setup| {
        let process = world.process_with(setup);
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        let snapshot = world.snapshot().await;
        close(&process, &terms).await;
        assert_eq!(process.settle().await.refunded_slips, 10);
        // Redis goes back to before the close.
        world.restore(&snapshot).await;
        let transactions = world.rig.transactions();
        close(&process, &terms).await;
        assert_eq!(world.rig.transactions(), transactions, "the ledger has it");
        assert_eq!(process.grab(terms.id, &user("ann")).await.unwrap(), GrabOutcome::Closed);
        audit(&world).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settle_tells_a_redis_that_forgot_a_close_and_its_refund() {
    in_both_modes(async |world, setup| {
        let process = world.process_with(setup);
        let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
        let snapshot = world.snapshot().await;
        close(&process, &terms).await;
        assert_eq!(process.settle().await.refunded_slips, 10);
        world.restore(&snapshot).await;
        // Redis gives the first user a slip. With acknowledgement by the ledger this grab reconciles the refunds; otherwise the next run
        // of settle does.
        process.grab(terms.id, &user("ann")).await.unwrap();
        process.settle().await;
        for name in ["bob", "ann"] {
            assert_eq!(process.grab(terms.id, &user(name)).await.unwrap(), GrabOutcome::SoldOut, "{name}");
        }
        world.outbox_is_empty().await;
        audit(&world).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_closes_at_once_are_one() {
    let world = World::single().await;
    let processes = [world.process(), world.process()];
    let terms = processes[0].send_funded(packet(&user("sender"), 1_000, 10)).await;
    let asked = processes.iter().map(|process| process.close.close(terms.id, "a test".parse().unwrap(), None));
    let closed: Vec<_> = join_all(asked).await.into_iter().map(|view| view.unwrap().unwrap().closed_at).collect();
    assert!(closed[0].is_some() && closed[0] == closed[1], "{closed:?}");
    audit(&world).await;
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
