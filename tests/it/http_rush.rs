//! A rush through the gateway.

use std::collections::BTreeMap;

use client::{Caller, Client, GrabResult, SendRequest, Split};
use futures::stream::{self, StreamExt};
use local::{Local, Options};

/// The part of an answer that stays the same when it is replayed.
fn promise(answer: &GrabResult) -> GrabResult {
    let mut promise = answer.clone();
    if let GrabResult::Grabbed { replayed, .. } = &mut promise {
        *replayed = false;
    }
    promise
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_on_twenty_slips() {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let operator = Client::new(reqwest::Client::new(), local.url(), Caller::Nobody);
    let by = |user: &str| operator.by(Caller::Local(user.to_owned()));
    operator.deposit("alice", "d", 10_000).await.unwrap();
    let sent = by("alice").send("k", &SendRequest::new(Split::Random, 5_000, 20)).await.unwrap();
    assert!(!sent.replayed);
    let id = sent.packet.packet_id;

    let requests = (0..1_000).map(|n| {
        let (user, id) = (format!("u{}", n % 200), id.clone());
        let client = by(&user);
        tokio::spawn(async move { (user, client.grab(&id, None).await.unwrap()) })
    });
    let mut answers: BTreeMap<String, Vec<GrabResult>> = BTreeMap::new();
    let mut answered = stream::iter(requests).buffer_unordered(200);
    while let Some(joined) = answered.next().await {
        let (user, answer) = joined.unwrap();
        answers.entry(user).or_default().push(answer);
    }
    assert_eq!(answers.len(), 200);
    let (mut winners, mut sum) = (0, 0);
    for (user, answers) in &answers {
        assert_eq!(answers.len(), 5);
        assert!(answers.iter().all(|answer| promise(answer) == promise(&answers[0])), "{user}: {answers:?}");
        let mut balance = 0;
        if let GrabResult::Grabbed { amount, .. } = answers[0] {
            let first = |answer: &&GrabResult| matches!(answer, GrabResult::Grabbed { replayed: false, .. });
            assert_eq!(answers.iter().filter(first).count(), 1, "{user}: {answers:?}");
            balance = amount;
            winners += 1;
        } else {
            assert!(matches!(answers[0], GrabResult::SoldOut { .. }), "{user}: {answers:?}");
        }
        sum += balance;
        assert_eq!(by(user).wallet().await.unwrap().balance, balance, "{user}");
    }
    assert_eq!((winners, sum), (20, 5_000));
    local.stop().await;
}
