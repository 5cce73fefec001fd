//! Many users on few slips, all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use futures::stream::{self, StreamExt};
use shared::domain::{AckMode, Claim, PacketId, Terms, UserId};
use shared::service::{Failure, GrabOutcome};
use tests::{Process, Setup, World, audit, packet, user, users};

/// Every answer of a rush, with its user, and whether this request was refused before.
type Answers = Vec<(UserId, GrabOutcome, bool)>;

/// After this time a loser may be refused: on a slow machine the claims of others may still be in flight. A request that is
/// refused earlier has no such excuse.
const IN_DOUBT: Duration = Duration::from_secs(2);
/// A refused user asks again for this long.
const GIVE_UP_AFTER: Duration = Duration::from_mins(1);

/// The answer to a user. Those who are refused after a long wait ask again, as the answer says; other errors fail the test.
async fn ask<F: Future<Output = Result<GrabOutcome, Failure>>>(
    user: &UserId,
    grab: impl Fn() -> F,
) -> (GrabOutcome, bool) {
    let (begun, mut was_refused) = (Instant::now(), false);
    loop {
        match grab().await {
            Ok(answer) => return (answer, was_refused),
            Err(Failure::Unavailable(_)) if (IN_DOUBT..GIVE_UP_AFTER).contains(&begun.elapsed()) => {
                was_refused = true;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(failure) => panic!("{user}: {failure:?}"),
        }
    }
}

/// Every user asks `times` times, all at once; the requests alternate between the processes. At most `at_once` requests
/// run at a time.
async fn rush(processes: &[Arc<Process>], id: PacketId, users: &[UserId], times: usize, at_once: usize) -> Answers {
    let requests = (0..times).flat_map(|time| users.iter().enumerate().map(move |(n, user)| (time + n, user.clone())));
    stream::iter(requests)
        .map(|(n, user)| {
            let process = Arc::clone(&processes[n % processes.len()]);
            tokio::spawn(async move {
                let (answer, was_refused) = ask(&user, || process.grab(id, &user)).await;
                (user, answer, was_refused)
            })
        })
        .buffer_unordered(at_once)
        .map(|joined| joined.unwrap())
        .collect()
        .await
}

/// Checks the answers of an undisturbed rush against each other, and returns the winners.
fn winners(answers: &Answers, terms: &Terms) -> BTreeMap<UserId, Claim> {
    let mut by_user: BTreeMap<&UserId, Vec<&GrabOutcome>> = BTreeMap::new();
    for (user, answer, _) in answers {
        by_user.entry(user).or_default().push(answer);
    }
    // Their claim may have been committed after the refusal, so that every answer is a repeated one.
    let refused: BTreeSet<&UserId> =
        answers.iter().filter(|(.., was_refused)| *was_refused).map(|(user, ..)| user).collect();
    let mut winners = BTreeMap::new();
    for (user, answers) in by_user {
        if let GrabOutcome::Grabbed { claim, .. } = answers[0] {
            let mut first = 0;
            for answer in &answers {
                let GrabOutcome::Grabbed { claim: again, replayed } = answer else { panic!("{user}: {answers:?}") };
                assert_eq!(again, claim, "{user}");
                first += usize::from(!replayed);
            }
            if terms.ack == AckMode::Ledger && !(first == 0 && refused.contains(user)) {
                assert_eq!(first, 1, "{user}: number of first answers: {answers:?}");
            }
            winners.insert(user.clone(), claim.clone());
        } else {
            assert!(answers.iter().all(|answer| **answer == GrabOutcome::SoldOut), "{user}: {answers:?}");
        }
    }
    assert_eq!(winners.len(), terms.count as usize);
    let sum: u64 = winners.values().map(|claim| claim.amount.minor_units()).sum();
    assert_eq!(sum, terms.total.minor_units());
    winners
}

/// A packet in five parts on different nodes. Every slip finds its user, in any probe order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_slips_in_parts() {
    for ack in [AckMode::Ledger, AckMode::Redis] {
        let world = World::cluster(3).await;
        let processes = [false, true].map(|runs_on| world.process_with(Setup { ack, runs_on, ..Setup::default() }));
        let terms = processes[0].send_funded(packet(&user("sender"), 600_000, 5_000)).await;
        assert_eq!(terms.id.part_count(), 5);
        let answers = rush(&processes, terms.id, &users("u", 6_000), 2, 64).await;
        let winners = winners(&answers, &terms);

        if ack == AckMode::Redis {
            let books = audit(&world).await;
            assert_eq!(books.packet(terms.id).undecided(), 5_000, "nothing is in the ledger before settle");
            let report = processes[1].settle().await;
            assert_eq!((report.persisted, report.parked, report.outbox_left), (5_000, 0, Some(0)));
        }
        world.outbox_empties().await;
        let books = audit(&world).await;
        let packet = books.packet(terms.id);
        assert_eq!(packet.claimed(), 5_000);
        for (user, claim) in &winners {
            let booked = (claim.slip, claim.amount.minor_units(), claim.at.ms());
            assert_eq!(packet.claims[user.as_str()], booked, "{user}");
        }
        world.audit_hot(&terms, &books).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_that_is_not_loaded_is_loaded_once() {
    let world = World::single().await;
    let sender = world.process();
    let terms = sender.send_funded(packet(&user("sender"), 30_000, 300)).await;
    world.flush().await;
    // Processes that have never seen the packet.
    let processes = [world.process(), world.process()];
    let (gets, queries) = (world.rig.gets(), world.rig.queries());
    let users = users("u", 200);
    let answers = rush(&processes, terms.id, &users, 1, usize::MAX).await;
    assert!(answers.iter().all(|(_, answer, _)| matches!(answer, GrabOutcome::Grabbed { replayed: false, .. })));
    let (gets, queries) = (world.rig.gets() - gets, world.rig.queries() - queries);
    // A load reads whether the packet is closed, and five groups of decisions.
    assert_eq!(gets, 4 + queries / 5, "terms and amounts, once per process");
    // A grab that was answered "not loaded" just before the load ended may load
    // once more.
    assert!(queries <= 8 * 5, "{queries} queries");
    let books = audit(&world).await;
    assert_eq!(books.packet(terms.id).claimed(), 200);
    world.audit_hot(&terms, &books).await;
}
