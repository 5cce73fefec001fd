//! `POST /packets`

use std::future::IntoFuture;
use std::time::Duration;

use serde_json::{Value, json};
use shared::ports::{Clock, System};

use super::api::{Api, random, text, with};
use super::spec::Answer;

#[tokio::test]
async fn a_packet_is_sent_and_paid_for() {
    let api = Api::start().await;
    api.fund("alice", 20_000).await;
    let body =
        json!({"split": "equal", "total_amount": 2_000, "count": 4, "greeting": "恭喜发财 🧧", "expires_in_s": 3_600});
    let answer = api.post("/packets").by("alice").key("k-1").json(&body).await;
    assert_eq!(answer.header("idempotent-replayed"), None);
    let packet = answer.expect(201);
    for (field, value) in [
        ("sender_id", json!("alice")),
        ("split", json!("equal")),
        ("currency", json!("CNY")),
        ("total_amount", json!(2_000)),
        ("count", json!(4)),
        ("greeting", json!("恭喜发财 🧧")),
        ("status", json!("open")),
    ] {
        assert_eq!(packet[field], value, "{field}");
    }
    assert_eq!(seconds_open(&packet), 3_600_000);
    let default = api.send("bob", "k-1", &random(100, 10)).await;
    assert_eq!(seconds_open(&default), 86_400_000);
    assert_eq!(default["greeting"], "");
    assert_ne!(default["packet_id"], packet["packet_id"], "each user has their own keys");
    assert_eq!(api.balance("alice").await, 18_000);
    assert_eq!(api.balance("bob").await, 0, "bob had just enough");
}

fn seconds_open(packet: &Value) -> i64 {
    let at = |field: &str| text(&packet[field]).parse::<jiff::Timestamp>().unwrap().as_millisecond();
    at("expires_at") - at("created_at")
}

#[tokio::test]
async fn packet_ids_sort_by_time() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for i in 0..5 {
        ids.push(api.packet("alice", &format!("k{i}"), &random(10, 1)).await);
        let created = text(&api.view("alice", &ids[i]).await.expect(200)["created_at"]);
        // Ids of the same millisecond have no order.
        shared::redis::test_server::poll("the next millisecond", async || {
            (jiff::Timestamp::now()
                > created.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_millis(1))
            .then_some(())
        })
        .await;
    }
    assert!(ids.is_sorted(), "{ids:?}");
}

#[tokio::test]
async fn a_wallet_that_can_not_pay_is_not_debited() {
    let api = Api::start().await;
    let send = || api.post("/packets").by("alice").key("k").json(&random(1_000, 10));
    assert!(send().await.refused(402, "insufficient-balance").is_empty());
    api.fund("alice", 999).await;
    let books = api.books("alice").await;
    send().await.refused(402, "insufficient-balance");
    assert_eq!(api.books("alice").await, books);
    api.fund("alice", 1).await;
    send().await.expect(201);
    assert_eq!(api.balance("alice").await, 0, "to the last fen");
    send().await.expect(200);
}

#[tokio::test]
async fn the_same_request_under_the_same_key_is_one_packet() {
    let api = Api::start().await;
    api.fund("alice", 10_000).await;
    let body = json!({
        "split": "random", "total_amount": 1_000, "count": 10, "greeting": "", "expires_in_s": 86_400,
        "recipients": ["bob", "carol"], "passphrase": "芝麻"
    });
    let send = |body: &str| api.post("/packets").by("alice").key("k").body(body);
    let first = send(&body.to_string()).await;
    first.expect(201);
    let books = api.books("alice").await;
    for same in [
        body.to_string(),
        // The same request in other bytes: another order of keys or recipients, white space, escapes, omitted defaults.
        "\r\n\t{ \"recipients\" : [\"carol\",\"bob\"] , \"passphrase\":\"\\u829d\\u9ebb\",\"count\":10,\
         \"total_amount\":1000,\"split\":\"r\\u0061ndom\"}  "
            .to_owned(),
        // The same passphrase in another form.
        with(body.clone(), &json!({"passphrase": " 芝麻\u{3000}"})).to_string(),
    ] {
        let again = send(&same).await;
        again.expect(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.bytes, first.bytes);
    }
    for (field, value) in [
        ("split", json!("equal")),
        ("total_amount", json!(1_001)),
        ("count", json!(9)),
        ("greeting", json!("x")),
        ("expires_in_s", json!(86_399)),
        ("starts_at", json!(System.now().after(Duration::from_hours(1)).to_string())),
        ("passphrase", json!("开门")),
        ("recipients", json!(["bob"])),
        ("recipients", json!(["bob", "carol", "dave"])),
        // Names of fields are no recipients.
        ("recipients", json!(["bob", "carol", "cover", "spring"])),
        ("cover", json!("spring")),
        ("reference", json!("spring")),
        ("metadata", json!({})),
        ("metadata", json!({"cover": "spring"})),
    ] {
        send(&with(body.clone(), &json!({field: value})).to_string()).await.refused(422, "idempotency-key-reused");
    }
    for field in ["passphrase", "recipients"] {
        let mut without = body.clone();
        without.as_object_mut().unwrap().remove(field);
        send(&without.to_string()).await.refused(422, "idempotency-key-reused");
    }
    assert_eq!(api.books("alice").await, books);
}

#[tokio::test]
async fn two_keys_are_two_packets() {
    let api = Api::start().await;
    let one = api.packet("alice", "k-1", &random(100, 1)).await;
    let two = api.packet("alice", "k-2", &random(100, 1)).await;
    assert_ne!(one, two);
    assert_eq!(api.balance("alice").await, 0);
}

#[tokio::test]
async fn fifty_sends_at_once_under_one_key_are_one_packet() {
    let api = Api::start().await;
    api.fund("alice", 100_000).await;
    let sends = (0..50).map(|_| api.post("/packets").by("alice").key("k").json(&random(1_000, 10)).into_future());
    let answers: Vec<Answer> = futures::future::join_all(sends).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 49);
    assert!(answers.iter().all(|answer| answer.bytes == answers[0].bytes));
    assert_eq!(api.balance("alice").await, 99_000);
}

#[tokio::test]
async fn a_send_needs_one_valid_key() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let books = api.books("alice").await;
    let send = || api.post("/packets").by("alice").json(&random(100, 1));
    let long = "k".repeat(256);
    for bad in ["", " ", "a b", "\"\"", "ключ", "a\tb", &long] {
        assert_eq!(send().header("idempotency-key", bad).await.refused(400, "invalid-request"), ["Idempotency-Key"]);
    }
    assert_eq!(send().await.refused(400, "invalid-request"), ["Idempotency-Key"], "missing");
    assert_eq!(api.books("alice").await, books);
    // As at API Gateway, two are one with a comma, which a key can have.
    send().key("a").key("b").await.expect(201);
    assert_eq!(send().key("a,b").await.status, 200);
    send().key(&long[1..]).await.expect(201);
    send().key("-").await.expect(201);
}

#[tokio::test]
async fn a_refused_send_leaves_its_key_free() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let send = |body: &Value| api.post("/packets").by("alice").key("k").json(body);
    send(&random(0, 1)).await.refused(400, "invalid-request");
    send(&random(2_000, 1)).await.refused(402, "insufficient-balance");
    send(&random(500, 5)).await.expect(201);
    send(&random(2_000, 1)).await.refused(422, "idempotency-key-reused");
}
