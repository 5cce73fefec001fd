//! Packets that start later.

use std::time::Duration;

use serde_json::{Value, json};
use shared::domain::Timestamp;
use shared::ports::{Clock, System};

use super::api::{Api, random, text, with};

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
async fn a_start_is_a_time_within_a_week() {
    const DAY: Duration = Duration::from_hours(24);
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    for starts_at in [
        json!(System.now().to_string()),
        json!(System.now().before(DAY).to_string()),
        json!(ahead(DAY * 7 + Duration::from_mins(1)).to_string()),
        json!("9999-12-31T23:59:59.999Z"),
        json!("1969-12-31T23:59:59.000Z"),
        json!("tomorrow"),
        json!("2027-01-01"),
        json!(""),
        json!(1_798_761_600_000_u64),
    ] {
        let body = with(random(1_000, 4), &json!({"starts_at": starts_at}));
        api.post("/packets").by("alice").key("k").json(&body).await.refused(400, "invalid-request");
    }
    assert_eq!(api.balance("alice").await, 1_000);
    // The key is still free. An offset from UTC names the same moment.
    let body = with(random(1_000, 4), &json!({"starts_at": ahead(DAY * 6).to_string().replace('Z', "+00:00")}));
    api.post("/packets").by("alice").key("k").json(&body).await.expect(201);
}

#[tokio::test]
async fn early_users_load_a_packet_that_redis_has_lost() {
    let api = Api::start().await;
    let sent = api.send("alice", "k", &starting(ahead(Duration::from_hours(1)))).await;
    let packet = text(&sent["packet_id"]);
    api.flush().await;
    assert_eq!(api.grab("bob", &packet).await.expect(200)["outcome"], "not_started");
}

#[tokio::test]
async fn recipients_come_before_the_start_and_the_passphrase_after_it() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob"], "passphrase": "abc"});
    let sent = api.send("alice", "k", &with(starting(ahead(Duration::from_hours(1))), &guard)).await;
    let packet = text(&sent["packet_id"]);
    api.grab("eve", &packet).await.refused(403, "not-a-recipient");
    for path in [format!("/packets/{packet}/grab"), format!("/users/bob/packets/{packet}/grab")] {
        let early = api.post(path).by("bob").json(&json!({"passphrase": "wrong"})).await.expect(200);
        assert_eq!(early["outcome"], "not_started");
    }
    let sent_packets = api.get("/me/packets").by("alice").await.expect(200);
    let row = &sent_packets["packets"][0];
    assert_eq!((&row["status"], &row["starts_at"]), (&json!("scheduled"), &sent["starts_at"]));
}
