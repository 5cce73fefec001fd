//! A `grabbed` answer is a promise: its winner always receives it again.

use serde_json::{Value, json};

use super::api::{Api, random, with};

/// A packet, with the first answer of each winner.
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
            let mine = &api.view(user, &self.packet).await.expect(200)["mine"];
            for field in ["slip", "amount", "grabbed_at"] {
                assert_eq!(mine[field], promised[field]);
            }
            assert_eq!(json!(api.balance(user).await), promised["amount"], "paid once");
        }
        let answer = api.grab("dave", &self.packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
        assert_eq!(answer, json!({"outcome": loser, "packet_id": self.packet}));
    }
}

#[tokio::test]
async fn the_promise_holds_when_the_packet_is_sold_out() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &random(100, 2), &["bob", "carol"]).await;
    promise.holds(&api, "sold_out").await;
    api.flush().await;
    promise.holds(&api, "sold_out").await;
    api.settle().await;
    promise.holds(&api, "sold_out").await;
}

#[tokio::test]
async fn the_promise_holds_after_expiry_and_settlement() {
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
async fn the_promise_holds_when_a_sold_out_packet_expires() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &with(random(100, 1), &json!({"expires_in_s": 5})), &["bob"]).await;
    assert_eq!(api.view("bob", &promise.packet).await.expect(200)["status"], "sold_out");
    // Every slip has a decision, so after expiry the packet is settled without a run of settle.
    let view = shared::redis::test_server::poll("expiry", async || {
        let view = api.view("bob", &promise.packet).await.expect(200);
        (view["status"] == "settled").then_some(view)
    })
    .await;
    assert_eq!(view["refunded_amount"], 0);
    promise.holds(&api, "expired").await;
    api.flush().await;
    promise.holds(&api, "expired").await;
}

#[tokio::test]
async fn the_promise_holds_when_redis_forgets_while_slips_are_free() {
    let api = Api::start().await;
    let promise = Promise::of(&api, "k", &random(100, 3), &["bob", "carol"]).await;
    api.flush().await;
    // A new user gets the last slip.
    let last = api.grab("erin", &promise.packet).await.expect(200);
    assert_eq!(last["outcome"], "grabbed");
    assert!(promise.grabbed.iter().all(|(_, promised)| promised["slip"] != last["slip"]));
    promise.holds(&api, "sold_out").await;
}

#[tokio::test]
async fn a_send_is_replayed_too() {
    let api = Api::start().await;
    let body = with(random(100, 1), &json!({"expires_in_s": 5}));
    let first = api.send("alice", "k", &body).await;
    let packet = first["packet_id"].as_str().unwrap();
    let again = || api.post("/packets").by("alice").key("k").json(&body);
    assert_eq!(api.grab("bob", packet).await.expect(200)["outcome"], "grabbed");
    assert_eq!(again().await.expect(200), first, "the answer of the first send");
    api.flush().await;
    api.until("alice", packet, "settled").await;
    assert_eq!(again().await.expect(200), first);
    assert_eq!(api.balance("alice").await, 0);
}
