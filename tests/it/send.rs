//! Money that must move once, however often a request is repeated.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use futures::future::join_all;
use shared::domain::Amount;
use shared::service::SendOutcome;
use tests::{Setup, World, audit, packet, user};

fn key<K: FromStr<Err: Debug>>(name: &str) -> K {
    name.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sends_of_one_key_pay_once() {
    let world = World::single().await;
    let processes = [world.process(), world.process()];
    let sender = user("sender");
    // Enough for all fifty, so that only the key prevents more sends.
    processes[0].fund(&sender, 50_000).await;
    let sends = (0..50).map(|n| {
        let (process, wanted) = (processes[n % 2].clone(), packet(&sender, 1_000, 10));
        tokio::spawn(async move { process.send.send(wanted, &key("once")).await.unwrap() })
    });
    let mut ids = Vec::new();
    let mut sent = 0;
    for outcome in join_all(sends).await {
        match outcome.unwrap() {
            SendOutcome::Sent(terms) => {
                sent += 1;
                ids.push(terms.id);
            }
            SendOutcome::Replayed(terms) => ids.push(terms.id),
            other => panic!("{other:?}"),
        }
    }
    ids.dedup();
    assert_eq!((sent, ids.len()), (1, 1), "{ids:?}");
    let books = audit(&world).await;
    assert_eq!(books.packets.len(), 1);
    assert_eq!(books.balance("sender"), 49_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sends_never_exceed_the_limit_of_a_day() {
    let world = World::single().await;
    let process = world.process_with(Setup { daily_max: Some(Amount::new(1_050)), ..Setup::default() });
    let sender = user("sender");
    process.fund(&sender, 10_000).await;
    let sends = (0..30).map(|n| {
        let (process, wanted) = (process.clone(), packet(&sender, 100, 5));
        tokio::spawn(async move { process.send.send(wanted, &key(&format!("k{n}"))).await.unwrap() })
    });
    let outcomes: Vec<SendOutcome> = join_all(sends).await.into_iter().map(Result::unwrap).collect();
    let sent: Vec<usize> = (0..30).filter(|n| matches!(outcomes[*n], SendOutcome::Sent(_))).collect();
    let limited = outcomes.iter().filter(|outcome| matches!(outcome, SendOutcome::DailyLimitExceeded { .. })).count();
    assert_eq!((sent.len(), limited), (10, 20));
    // What was sent is answered again, and does not count again: not even if the first answer was lost.
    let again = process.send.send(packet(&sender, 100, 5), &key(&format!("k{}", sent[0]))).await.unwrap();
    assert!(matches!(again, SendOutcome::Replayed(_)), "{again:?}");
    world.rig.lose_answers(2);
    process.send(packet(&sender, 50, 5)).await;
    for total in [5, 2_000] {
        let outcome = process.send.send(packet(&sender, total, 5), &key("more")).await.unwrap();
        let SendOutcome::DailyLimitExceeded { most, resets_at } = outcome else { panic!("{outcome:?}") };
        assert_eq!(most, Amount::new(1_050));
        let in_shanghai = resets_at.ms() + 8 * 3_600_000;
        assert!(in_shanghai.is_multiple_of(86_400_000) && resets_at.ms() > world.now_ms());
    }
    // The key of a refused send is free.
    process.clock.set_ahead(Duration::from_hours(24));
    let outcome = process.send.send(packet(&sender, 1_050, 5), &key("more")).await.unwrap();
    assert!(matches!(outcome, SendOutcome::Sent(_)), "{outcome:?}");
    process.clock.set_ahead(Duration::ZERO);
    let books = audit(&world).await;
    assert_eq!((books.packets.len(), books.balance("sender")), (12, 10_000 - 2_100));
}
