//! Many users on few slips, all at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::stream::{self, StreamExt};
use shared::domain::{AckMode, Claim, PacketId, Terms, UserId};
use shared::service::GrabOutcome;
use tests::{Process, Promises, Setup, World, audit, packet, user, users};

/// Every answer of a rush: (who, what he heard).
type Answers = Vec<(UserId, GrabOutcome)>;

/// Every user asks `times` times, all at once, as his requests reach one process or the other; no more than `at_once`
/// requests are under way. No answer is an error.
async fn rush(processes: &[Arc<Process>], id: PacketId, users: &[UserId], times: usize, at_once: usize) -> Answers {
    let requests = (0..times).flat_map(|time| users.iter().enumerate().map(move |(n, user)| (time + n, user.clone())));
    stream::iter(requests)
        .map(|(n, user)| {
            let process = Arc::clone(&processes[n % processes.len()]);
            tokio::spawn(async move {
                let answer = process.grab(id, &user).await;
                let answer = answer.unwrap_or_else(|failure| panic!("{user}: {failure:?}"));
                (user, answer)
            })
        })
        .buffer_unordered(at_once)
        .map(|joined| joined.unwrap())
        .collect()
        .await
}

/// Holds the answers of an undisturbed rush against each other, and returns who won what.
fn winners(answers: &Answers, terms: &Terms) -> BTreeMap<UserId, Claim> {
    let mut by_user: BTreeMap<&UserId, Vec<&GrabOutcome>> = BTreeMap::new();
    for (user, answer) in answers {
        by_user.entry(user).or_default().push(answer);
    }
    let mut winners = BTreeMap::new();
    for (user, answers) in by_user {
        if let GrabOutcome::Grabbed { claim, .. } = answers[0] {
            let mut first = 0;
            for answer in &answers {
                let GrabOutcome::Grabbed { claim: again, replayed } = answer else { panic!("{user}: {answers:?}") };
                assert_eq!(again, claim, "{user}");
                first += usize::from(!replayed);
            }
            if terms.ack == AckMode::Ledger {
                assert_eq!(first, 1, "{user}: how often it was news: {answers:?}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_grabs_on_a_hundred_slips() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 50_000, 100)).await;
    let users = users("u", 2_000);
    let begun = Instant::now();
    let answers = rush(&[Arc::clone(&process)], terms.id, &users, 5, usize::MAX).await;
    println!("10,000 grabs took {:?}", begun.elapsed());
    assert_eq!(answers.len(), 10_000);
    let winners = winners(&answers, &terms);
    world.outbox_is_empty().await;

    let books = audit(&world).await;
    assert_eq!(books.packet(terms.id).claimed(), 100);
    for (user, claim) in &winners {
        assert_eq!(books.balance(user.as_str()), claim.amount.minor_units());
    }
    world.audit_hot(&terms, &books).await;
}
