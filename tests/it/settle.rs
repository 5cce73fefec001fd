//! The scheduled settle: it repeats nothing, disturbs no other run, starts nothing too early, and finishes everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::cmd;
use shared::domain::{AckMode, Terms};
use shared::ledger::keys;
use shared::service::{Failure, GrabOutcome, NewPacket, Report};
use tests::hot::hold_only;
use tests::{Process, Promises, STORE_TIMEOUT, Setup, World, audit, packet, user, users};

const ACKS: [AckMode; 2] = [AckMode::Ledger, AckMode::Redis];
/// Later than every expiry in these tests.
const LATER: Duration = Duration::from_hours(2);
/// Long enough to send and grab a few packets, short enough to wait for.
const SOON: Duration = Duration::from_secs(4);

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

fn is_unavailable<T: std::fmt::Debug>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Unavailable(_)))
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
    let reports: Vec<Report> = join_all(settles).await.into_iter().map(Result::unwrap).collect();
    let books = audit(&world).await;
    promises.are_kept(&books);
    let refunded: usize = books.packets.values().map(tests::PacketBooks::refunded).sum();
    assert_eq!(reports.iter().map(|report| report.refunded_slips).sum::<u64>(), refunded as u64);
    assert_eq!(reports.iter().map(|report| report.refunded_amount).sum::<u64>(), books.balance("sender"));
    assert!(reports.iter().all(|report| report.due_left == 0), "{reports:?}");
    assert_eq!(refunded, 95 + 135 + 175 + 215 + 255 - 30);
    all_is_settled(&world).await;
    for terms in &sent {
        world.audit_hot(terms, &books).await;
    }
    let again = late_process(&world).settle().await;
    let nothing = Report { outbox_left: Some(0), oldest_outbox_ms: Some(0), ..Report::default() };
    assert_eq!(again, nothing);
}

/// Users grab free slips while two processes settle without a pause, until nothing is left.
async fn race(world: World, expires_in: Duration, settlers: [Arc<Process>; 2], seed: u64) {
    println!("seed {seed}");
    let setups = ACKS.map(|ack| world.process_with(Setup { ack, ..Setup::default() }));
    let mut sent = Vec::new();
    for n in 0..10 {
        let wanted = NewPacket { expires_in, ..packet(&user(&format!("s{}", n % 3)), 5_000, 40) };
        // In `redis` mode a wrong clock breaks promises, so only true expiry is raced.
        let ack = if expires_in == SOON { n % 2 } else { 0 };
        sent.push(setups[ack].send_funded(wanted).await);
    }
    let sent = Arc::new(sent);
    let (promises, over) = (Arc::new(Promises::default()), Arc::new(AtomicBool::new(false)));
    let settling = settlers.map(|settler| {
        let over = Arc::clone(&over);
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                settler.settle().await;
            }
            settler.settle().await
        })
    });
    let grabbing = users("u", 40).into_iter().enumerate().map(|(n, user)| {
        let (process, promises, sent) = (Arc::clone(&setups[n % 2]), Arc::clone(&promises), Arc::clone(&sent));
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed + n as u64);
            let mut open: Vec<usize> = (0..sent.len()).collect();
            while !open.is_empty() {
                let place = random.random_range(0..open.len());
                let terms = &sent[open[place]];
                let is_news = match promises.grab(&process, terms.id, &user).await {
                    Ok(GrabOutcome::Grabbed { replayed, .. }) => !replayed,
                    Ok(GrabOutcome::Expired | GrabOutcome::SoldOut) => false,
                    other => panic!("{user} of {}: {other:?}, seed {seed}", terms.id),
                };
                if !is_news {
                    open.swap_remove(place);
                }
                // Users come one after another, so that some still ask at expiry.
                tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
            }
        })
    });
    let grabbed = join_all(grabbing).await;
    grabbed.into_iter().for_each(Result::unwrap);
    for terms in &*sent {
        if expires_in == SOON {
            world.expired(terms).await;
        }
    }
    over.store(true, Ordering::SeqCst);
    for report in join_all(settling).await {
        assert_eq!(report.unwrap().due_left, 0);
    }
    println!("{} promises", promises.count());

    all_is_settled(&world).await;
    let books = audit(&world).await;
    promises.are_kept(&books);
    for terms in &*sent {
        world.audit_hot(terms, &books).await;
        for user in users("u", 40) {
            promises
                .grab(&setups[0], terms.id, &user)
                .await
                .unwrap_or_else(|failure| panic!("{failure:?}, seed {seed}"));
        }
    }
    assert_eq!(audit(&world).await.packets.values().map(tests::PacketBooks::claimed).sum::<usize>(), promises.count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grabs_race_the_refund() {
    let world = World::single().await;
    let settlers = [world.process(), world.process()];
    race(world, SOON, settlers, rand::random::<u32>().into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grabs_race_an_early_refund() {
    let world = World::single().await;
    let settlers = [late_process(&world), late_process(&world)];
    race(world, Duration::from_hours(1), settlers, rand::random::<u32>().into()).await;
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
    let (oldest_outbox_ms, oldest_due_s) = (report.oldest_outbox_ms, report.oldest_due_s);
    let counted = Report { due_left: 4, outbox_left: Some(8), oldest_outbox_ms, oldest_due_s, ..Report::default() };
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

/// A slip that a function took before it was killed: the packet's state at the next request.
#[derive(Clone, Copy, Debug)]
struct Crash {
    expired: bool,
    /// The user asks again before settle runs.
    returns: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_dies_between_the_stores() {
    let world = World::single().await;
    let processes = ACKS.map(|ack| world.process_with(Setup { ack, ..Setup::default() }));
    let two = [false, true];
    let mut crashes = Vec::new();
    for (ack, expired, returns) in (0..8).map(|n| (n & 1, two[n >> 1 & 1], two[n >> 2 & 1])) {
        let crash = Crash { expired, returns };
        let process = Arc::clone(&processes[ack]);
        let hour = Duration::from_hours(1);
        let wanted = NewPacket { expires_in: if expired { SOON } else { hour }, ..packet(&user("sender"), 1_000, 10) };
        let terms = process.send_funded(wanted).await;
        let part = terms.id.parts().next().unwrap();
        let held = hold_only(&process, part, &users("u", 3)).await;
        crashes.push((crash, process, terms, held));
    }
    for (crash, _, terms, _) in &crashes {
        if crash.expired {
            world.expired(terms).await;
        }
    }

    let (holder, promises) = (user("u0"), Promises::default());
    for (crash, process, terms, held) in crashes.iter().filter(|(crash, ..)| crash.returns) {
        let answer = promises.grab(process, terms.id, &holder).await.unwrap();
        let GrabOutcome::Grabbed { claim, .. } = &answer else { panic!("{crash:?}: {answer:?}") };
        assert_eq!((claim.slip, claim.at.ms()), held[0], "{crash:?}");
    }
    let report = processes[0].settle().await;
    assert_eq!((report.parked, report.outbox_left, report.due_left), (0, Some(0), 0));
    world.outbox_is_empty().await;
    let books = audit(&world).await;
    promises.are_kept(&books);
    for (crash, process, terms, held) in &crashes {
        for (user, held) in users("u", 3).iter().zip(held) {
            let answer = promises.grab(process, terms.id, user).await.unwrap();
            let GrabOutcome::Grabbed { claim, replayed: true } = &answer else { panic!("{crash:?}: {answer:?}") };
            assert_eq!((claim.slip, claim.at.ms()), *held, "{crash:?}: {user}");
        }
        let packet = books.packet(terms.id);
        let refunded = if crash.expired { 7 } else { 0 };
        assert_eq!((packet.claimed(), packet.refunded(), packet.settled), (3, refunded, crash.expired), "{crash:?}");
        world.audit_hot(terms, &books).await;
    }
    promises.are_kept(&books);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_runs_on_answers_before_it_reconciles_redis() {
    let world = World::single().await;
    let process = world.process_with(Setup { runs_on: true, ..Setup::default() });
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    world.rig.hold_answer();
    let (grabbing, ann, id) = (Arc::clone(&process), user("ann"), terms.id);
    let grab = tokio::spawn(async move { grabbing.grab(id, &ann).await });
    world.rig.held().await;
    let frozen = &world.redis.nodes()[0];
    frozen.stop();
    let begun = Instant::now();
    world.rig.release();
    let answer = grab.await.unwrap().unwrap();
    assert!(begun.elapsed() < STORE_TIMEOUT, "the answer waited for Redis");
    let booked = audit(&world).await.packet(terms.id).claims["ann"];
    frozen.cont();
    let GrabOutcome::Grabbed { claim, replayed: false } = answer else { panic!("{answer:?}") };
    assert_eq!((claim.slip, claim.amount.minor_units(), claim.at.ms()), booked);

    // Redis is reconciled without another grab and without settle.
    world.outbox_empties().await;
    let transactions = world.rig.transactions();
    let again = process.grab(terms.id, &user("ann")).await.unwrap();
    assert_eq!(again, GrabOutcome::Grabbed { claim, replayed: true });
    assert_eq!(world.rig.transactions(), transactions, "Redis knows the claim");
    world.audit_hot(&terms, &audit(&world).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_counts_although_its_answer_was_lost() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    hold_only(&process, terms.id.parts().next().unwrap(), &users("u", 4)).await;
    world.rig.lose_answers(2);
    let report = process.settle().await;
    assert_eq!((report.persisted, report.outbox_left), (4, Some(0)));
    assert_eq!(audit(&world).await.packet(terms.id).claimed(), 4);
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
async fn promises_of_redis_are_kept_before_the_refund() {
    let world = World::single().await;
    let process = world.process_with(Setup { ack: AckMode::Redis, ..Setup::default() });
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    let promises = Promises::default();
    for user in users("u", 4) {
        promises.grab(&process, terms.id, &user).await.unwrap();
    }
    let report = late_process(&world).settle().await;
    assert_eq!((report.persisted, report.refunded_slips, report.due_left), (4, 6, 0));
    promises.are_kept(&audit(&world).await);
    all_is_settled(&world).await;
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
        assert!(is_unavailable(&answer), "{user}: {answer:?}");
    }
    let report = process.settle().await;
    assert_eq!((report.persisted, report.refunded_slips), (0, 10));
    for user in [&holder, &loser] {
        assert_eq!(process.grab(terms.id, user).await.unwrap(), GrabOutcome::Expired);
    }
    all_is_settled(&world).await;
}
