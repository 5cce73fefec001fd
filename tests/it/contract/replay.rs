//! A grab is a promise: who has a slip hears of it for ever.

use serde_json::{Value, json};

use super::api::{Api, random, with};

/// What everyone heard first.
struct Promise {
    packet: String,
    grabbed: Vec<(&'static str, Value)>,
}

impl Promise {
    async fn of(api: &Api, key: &str, body: &Value, users: &[&'static str]) -> Self {
        let packet = api.packet("alice", key, body).await;
        let mut grabbed = Vec::new();
        for user in users {
            let answer = api.grab(user, &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
            assert_eq!((&answer["outcome"], &answer["replayed"]), (&json!("grabbed"), &json!(false)));
            grabbed.push((*user, with(answer, &json!({"replayed": true}))));
        }
        Self { packet, grabbed }
    }

    async fn holds(&self, api: &Api, loser: &str) {
        for (user, promised) in &self.grabbed {
            for body in ["", r#"{"passphrase":"abc"}"#, r#"{"passphrase":"wrong"}"#] {
                assert_eq!(api.grab(user, &self.packet).body(body).await.expect(200), *promised);
            }
            let mine = &api.look(user, &self.packet).await.expect(200)["mine"];
            for field in ["slip", "amount", "grabbed_at"] {
                assert_eq!(mine[field], promised[field]);
            }
            assert_eq!(json!(api.balance(user).await), promised["amount"], "paid once");
        }
        let heard = api.grab("dave", &self.packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
        assert_eq!(heard, json!({"outcome": loser, "packet_id": self.packet}));
    }
}

#[tokio::test]
async fn when_it_is_sold_out() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &random(100, 2), &["bob", "carol"]).await;
    promise.holds(&api, "sold_out").await;
    api.flush().await;
    promise.holds(&api, "sold_out").await;
    api.settle().await;
    promise.holds(&api, "sold_out").await;
}

#[tokio::test]
async fn when_it_has_expired_and_is_settled() {
    let api = Api::start().await;
    let body = with(random(100, 4), &json!({"expires_in_s": 5, "passphrase": "abc"}));
    let promise = Promise::of(&api, "k", &body, &["bob", "carol"]).await;
    api.until("alice", &promise.packet, "expired").await;
    promise.holds(&api, "expired").await;
    api.flush().await;
    promise.holds(&api, "expired").await;
    api.until("alice", &promise.packet, "settled").await;
    promise.holds(&api, "expired").await;
    api.flush().await;
    promise.holds(&api, "expired").await;
}

#[tokio::test]
async fn when_a_sold_out_packet_has_expired() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &with(random(100, 1), &json!({"expires_in_s": 5})), &["bob"]).await;
    assert_eq!(api.look("bob", &promise.packet).await.expect(200)["status"], "sold_out");
    // Every slip has its fate, so past expiry it is settled without any run of settle.
    let view = shared::redis::test_server::poll("expiry", async || {
        let view = api.look("bob", &promise.packet).await.expect(200);
        (view["status"] == "settled").then_some(view)
    })
    .await;
    assert_eq!(view["refunded_amount"], 0);
    promise.holds(&api, "expired").await;
    api.flush().await;
    promise.holds(&api, "expired").await;
}

#[tokio::test]
async fn in_the_middle_when_redis_forgets() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &random(100, 3), &["bob", "carol"]).await;
    api.flush().await;
    // The one slip that is left goes to one who comes now.
    let last = api.grab("erin", &promise.packet).await.expect(200);
    assert_eq!(last["outcome"], "grabbed");
    assert!(promise.grabbed.iter().all(|(_, promised)| promised["slip"] != last["slip"]));
    promise.holds(&api, "sold_out").await;
}

#[tokio::test]
async fn a_send_too() {
    let api = Api::start().await;
    let body = with(random(100, 1), &json!({"expires_in_s": 5}));
    let first = api.send("alice", "k", &body).await;
    let packet = first["packet_id"].as_str().unwrap();
    let again = || api.post("/packets").by("alice").key("k").json(&body);
    assert_eq!(api.grab("bob", packet).await.expect(200)["outcome"], "grabbed");
    assert_eq!(again().await.expect(200), first, "what it was when it was sent");
    api.flush().await;
    api.until("alice", packet, "settled").await;
    assert_eq!(again().await.expect(200), first);
    assert_eq!(api.balance("alice").await, 0);
}
