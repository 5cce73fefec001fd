//! `POST /packets`, also of packets that start later.

use std::time::Duration;

use serde_json::{Value, json};
use shared::domain::Timestamp;
use shared::ports::{Clock, System};

use super::api::{Api, random, text, with};
use super::spec::SPEC;

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
        ("total_amount", json!(1_001)),
        ("starts_at", json!(System.now().after(Duration::from_hours(1)).to_string())),
        ("passphrase", json!("开门")),
        ("recipients", json!(["bob"])),
        ("metadata", json!({})),
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

fn ahead(time: Duration) -> Timestamp {
    System.now().after(time)
}

fn starting(at: Timestamp) -> Value {
    with(random(1_000, 4), &json!({"starts_at": at.to_string(), "expires_in_s": 60}))
}

#[tokio::test]
async fn nobody_grabs_before_the_start() {
    let api = Api::start().await;
    let starts_at = ahead(Duration::from_hours(1));
    let sent = api.send("alice", "k", &starting(starts_at)).await;
    let packet = text(&sent["packet_id"]);
    assert_eq!((&sent["status"], &sent["starts_at"]), (&json!("scheduled"), &json!(starts_at.to_string())));
    let expires_at: Timestamp = text(&sent["expires_at"]).parse().unwrap();
    assert_eq!(expires_at, starts_at.after(Duration::from_mins(1)), "expires_in_s counts from the start");
    let view = api.view("bob", &packet).await.expect(200);
    assert_eq!((&view["status"], &view["starts_at"]), (&sent["status"], &sent["starts_at"]));

    for user in ["bob", "alice"] {
        let early = api.grab(user, &packet).await.expect(200);
        let after = early["retry_after_ms"].as_u64().unwrap();
        assert!((3_590_000..=3_605_000).contains(&after), "the time to the start and up to 5 s: {after}");
        let expected = json!({
            "outcome": "not_started", "packet_id": packet, "starts_at": starts_at.to_string(), "retry_after_ms": after
        });
        assert_eq!(early, expected);
    }
    assert_eq!(api.balance("alice").await, 0, "it is paid for");
}

#[tokio::test]
async fn it_is_a_packet_like_any_other_from_the_start_on() {
    let api = Api::start().await;
    let starts_at = ahead(Duration::from_secs(2));
    let body = starting(starts_at);
    let first = api.send("alice", "k", &body).await;
    let packet = text(&first["packet_id"]);
    let grabbed = loop {
        let answer = api.grab("bob", &packet).await.expect(200);
        if answer["outcome"] != "not_started" {
            break answer;
        }
    };
    assert_eq!(grabbed["outcome"], "grabbed");
    let grabbed_at: Timestamp = text(&grabbed["grabbed_at"]).parse().unwrap();
    assert!(grabbed_at >= starts_at, "{grabbed_at} is before {starts_at}");
    let view = api.view("bob", &packet).await.expect(200);
    assert_eq!((&view["status"], &view["claimed_count"]), (&json!("open"), &json!(1)));

    // The start is past by now. The same send is answered as before all the same, and another one is refused.
    let again = api.post("/packets").by("alice").key("k").json(&body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(200), first);
    api.post("/packets").by("alice").key("k-2").json(&body).await.refused(400, "invalid-request");
    let other = starting(ahead(Duration::from_hours(2)));
    api.post("/packets").by("alice").key("k").json(&other).await.refused(422, "idempotency-key-reused");
    assert_eq!(api.balance("alice").await, 0);
}

#[tokio::test]
async fn while_sending_is_paused_nobody_sends_and_all_else_goes_on() {
    let api = Api::start().await;
    let get = async || api.get("/operator/sending").await.expect(200);
    assert_eq!(get().await, json!({"paused": false, "reason": null, "decided_at": null, "by": null}));
    let packet = api.packet("alice", "k", &random(100, 2)).await;
    api.fund("alice", 100).await;

    let decide = |body: Value| api.put("/operator/sending").json(&body);
    let schema = SPEC.validator(&SPEC.document["components"]["schemas"]["SendingRequest"]);
    for body in [json!({"paused": true}), json!({"paused": true, "reason": null})] {
        assert_eq!(decide(body.clone()).await.refused(400, "invalid-request"), ["reason"]);
        assert!(!schema.is_valid(&body), "{body}");
    }
    for body in [json!({"paused": false, "reason": null}), json!({"paused": false, "reason": "all is well"})] {
        decide(body.clone()).await.expect(200);
        assert!(schema.is_valid(&body), "{body}");
    }
    let paused = decide(json!({"paused": true, "reason": "bought accounts"})).await.expect(200);
    assert_eq!((&paused["paused"], &paused["reason"]), (&json!(true), &json!("bought accounts")));
    assert!(text(&paused["by"]).starts_with("arn:aws:"), "{paused}");
    assert_eq!(get().await, paused);
    // The same once more is no other decision.
    assert_eq!(decide(json!({"paused": true, "reason": "bought accounts"})).await.expect(200), paused);

    let send = |key: &str| api.post("/packets").by("alice").key(key).json(&random(100, 2));
    let refused = send("k-2").await;
    refused.refused(503, "sending-paused");
    assert_eq!(refused.header("retry-after"), Some("60"));
    api.post("/users/alice/packets").key("k-3").json(&random(100, 2)).await.refused(503, "sending-paused");
    assert_eq!(text(&send("k").await.expect(200)["packet_id"]), packet, "a repeated send has its answer");
    assert_eq!(api.grab("bob", &packet).await.expect(200)["outcome"], "grabbed");
    api.put("/wallets/alice/withdrawals/w").json(&json!({"amount": 10})).await.expect(201);
    api.fund("alice", 10).await;

    let resumed = decide(json!({"paused": false})).await.expect(200);
    assert!(text(&resumed["decided_at"]) > text(&paused["decided_at"]), "{resumed}");
    send("k-2").await.expect(201);
}
