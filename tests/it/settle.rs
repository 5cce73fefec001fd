//! The scheduled settle: it repeats nothing, disturbs no other run, starts nothing too early, and finishes everything, also a packet that the
//! operator closes.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use redis::cmd;
use shared::domain::{AckMode, Intervention, Labels, Status, Terms, Timestamp};
use shared::dynamodb::SdkTable;
use shared::ledger::{CloseOrder, Ledger, keys};
use shared::ports::System;
use shared::service::{Failure, GrabOutcome, NewPacket, RunReport};
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
async fn eight_settles_at_once_refund_once() {
    let world = World::single().await;
    let process = world.process();
    let mut sent: Vec<Arc<Terms>> = Vec::new();
    for n in 0..5 {
        // All of one sender: their refunds change the same wallet.
        sent.push(process.send_funded(packet(&user("sender"), 30_000, 95 + n * 40)).await);
    }
    let promises = Promises::default();
    for (n, user) in users("u", 30).iter().enumerate() {
        promises.grab(&process, sent[n % 5].id, user).await.unwrap();
    }
    let settles = (0..8).map(|_| {
        let late = late_process(&world);
        tokio::spawn(async move { late.settle().await })
    });
    let reports: Vec<RunReport> = join_all(settles).await.into_iter().map(Result::unwrap).collect();
    let books = audit(&world).await;
    promises.are_kept(&books);
    let refunded: usize = books.packets.values().map(tests::PacketBooks::refunded).sum();
    // No slip is counted twice. A run whose answer came too late does not count what it refunded.
    assert!(reports.iter().map(|report| report.refunded_slips).sum::<u64>() <= refunded as u64, "{reports:?}");
    assert!(reports.iter().map(|report| report.refunded_amount).sum::<u64>() <= books.balance("sender"), "{reports:?}");
    assert!(reports.iter().all(|report| report.due_left == 0), "{reports:?}");
    assert_eq!(refunded, 95 + 135 + 175 + 215 + 255 - 30);
    all_is_settled(&world).await;
    for terms in &sent {
        world.audit_hot(terms, &books).await;
    }
    let again = late_process(&world).settle().await;
    let nothing = RunReport {
        outbox_left: Some(0),
        oldest_outbox_ms: Some(0),
        oldest_pending_s: Some(0),
        ..RunReport::default()
    };
    assert_eq!(again, nothing);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_runs_share_the_partitions_without_overlap() {
    let world = World::single().await;
    let process = world.process();
    let mut sent = Vec::new();
    for n in 0..24 {
        let terms = process.send_funded(packet(&user("sender"), 500, 5)).await;
        hold_only(&process, terms.id.parts().next().unwrap(), &users(&format!("p{n}-"), 2)).await;
        sent.push(terms);
    }
    let late = late_process(&world);
    let lower = |terms: &Terms| terms.id.partition().index() < 128;
    let count = sent.iter().filter(|terms| lower(terms)).count() as u64;
    for (range, count, done) in [(0..=127, count, false), (128..=255, 24 - count, true)] {
        let report = late.settle_range(range).await;
        let counts = (report.persisted, report.refunded_packets, report.refunded_slips);
        assert_eq!(counts, (2 * count, count, 3 * count));
        assert_eq!((report.outbox_left, report.due_left), (Some(0), 0));
        let books = audit(&world).await;
        for terms in &sent {
            let packet = books.packet(terms.id);
            let touched = done || lower(terms);
            assert_eq!((packet.settled, packet.decisions.len()), if touched { (true, 5) } else { (false, 0) });
            let part = terms.id.parts().next().unwrap();
            assert_eq!(world.hot_part(terms, part).await.held.len(), if touched { 0 } else { 2 });
        }
    }
    all_is_settled(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_dies_after_its_commit() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    for (name, settles) in [("ann", false), ("bob", true)] {
        let killed = {
            // No user asks again.
            let (process, user, id) = (world.process(), user(name), terms.id);
            world.rig.hold_answer();
            tokio::spawn(async move { process.grab(id, &user).await })
        };
        world.rig.held().await;
        killed.abort();
        assert!(killed.await.unwrap_err().is_cancelled());
        let booked = audit(&world).await.packet(terms.id).claims[name];
        if settles {
            let transactions = world.rig.transactions();
            let report = process.settle().await;
            assert_eq!((report.persisted, report.outbox_left), (0, Some(0)), "it is only reconciled");
            assert_eq!(world.rig.transactions(), transactions);
        }
        let answer = process.grab(terms.id, &user(name)).await.unwrap();
        let GrabOutcome::Grabbed { claim, replayed: true } = answer else { panic!("{answer:?}") };
        assert_eq!((claim.slip, claim.amount.minor_units(), claim.at.ms()), booked);
    }
    world.outbox_is_empty().await;
    world.audit_hot(&terms, &audit(&world).await).await;
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

#[tokio::test]
async fn an_order_to_close_is_carried_out_also_if_its_process_has_died() {
    let world = World::single().await;
    let process = world.process();
    let rounds = |reference: &str| NewPacket {
        labels: Labels { reference: Some(reference.parse().unwrap()), ..Labels::default() },
        ..packet(&user("sam"), 300, 3)
    };
    let mut ordered = Vec::new();
    for _ in 0..3 {
        ordered.push(process.send_funded(rounds("nye")).await);
    }
    let other = process.send_funded(rounds("other")).await;
    assert!(matches!(process.grab(ordered[0].id, &user("ann")).await, Ok(GrabOutcome::Grabbed { .. })));
    let at = Timestamp::from_ms(world.now_ms());
    let order = CloseOrder {
        sender: user("sam"),
        reference: "nye".parse().unwrap(),
        intervention: Intervention { reason: "over".parse().unwrap(), at, by: None },
    };
    let table = SdkTable::new(world.dynamodb.clone(), world.table().to_owned());
    let ledger = Ledger::new(table, Arc::new(System));
    ledger.order_close(&order).await.unwrap();
    // It is about the packets of then.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let later = process.send_funded(rounds("nye")).await;
    assert_eq!(ledger.close_orders(9).await.unwrap(), std::slice::from_ref(&order));
    process.settle().await;
    for terms in &ordered {
        let found = ledger.packet(terms.id).await.unwrap().unwrap();
        assert_eq!(found.closed.as_ref(), Some(&order.intervention), "{found:?}");
        assert!(found.settled.is_some(), "{found:?}");
    }
    for terms in [&other, &later] {
        assert!(ledger.packet(terms.id).await.unwrap().unwrap().closed.is_none(), "{}", terms.id);
    }
    assert_eq!(ledger.close_orders(9).await.unwrap(), []);
    audit(&world).await;
}
