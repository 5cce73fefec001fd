//! A rush through the gateway.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use local::{Local, Options};
use reqwest::Client;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_on_twenty_slips() {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let (url, client) = (local.url(), Client::new());
    let deposit = client.put(format!("{url}/wallets/alice/deposits/d")).json(&json!({"amount": 10_000}));
    assert_eq!(deposit.send().await.unwrap().status(), 201);
    let packet = client.post(format!("{url}/packets")).header("x-user-id", "alice").header("idempotency-key", "k");
    let sent = packet.json(&json!({"split": "random", "total_amount": 5_000, "count": 20})).send().await.unwrap();
    assert_eq!(sent.status(), 201);
    let id = sent.json::<Value>().await.unwrap()["packet_id"].as_str().unwrap().to_owned();

    let requests = (0..1_000).map(|n| {
        let (client, user) = (client.clone(), format!("u{}", n % 200));
        let grab = client.post(format!("{url}/packets/{id}/grab")).header("x-user-id", &user);
        tokio::spawn(async move {
            let answer = grab.send().await.unwrap();
            assert_eq!(answer.status(), 200, "{user}");
            (user, answer.json::<Value>().await.unwrap())
        })
    });
    let mut answers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut answered = stream::iter(requests).buffer_unordered(200);
    while let Some(joined) = answered.next().await {
        let (user, answer) = joined.unwrap();
        answers.entry(user).or_default().push(answer);
    }
    assert_eq!(answers.len(), 200);
    let (mut winners, mut sum) = (0, 0);
    for (user, answers) in &answers {
        assert_eq!(answers.len(), 5);
        let promise = |answer: &Value| ["outcome", "slip", "amount", "grabbed_at"].map(|name| answer[name].clone());
        assert!(answers.iter().all(|answer| promise(answer) == promise(&answers[0])), "{user}: {answers:?}");
        let mut balance = 0;
        if answers[0]["outcome"] == "grabbed" {
            assert_eq!(answers.iter().filter(|answer| answer["replayed"] == false).count(), 1, "{user}: {answers:?}");
            balance = answers[0]["amount"].as_u64().unwrap();
            winners += 1;
        } else {
            assert_eq!(answers[0]["outcome"], "sold_out", "{user}");
        }
        sum += balance;
        let wallet = client.get(format!("{url}/me/wallet")).header("x-user-id", user).send().await.unwrap();
        assert_eq!(wallet.json::<Value>().await.unwrap()["balance"], balance, "{user}");
    }
    assert_eq!((winners, sum), (20, 5_000));
    local.stop().await;
}
