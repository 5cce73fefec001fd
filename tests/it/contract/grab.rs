//! `POST /packets/{packet_id}/grab`: who wins, passphrases and recipients, and that a `grabbed` answer is a promise.

use std::collections::BTreeSet;
use std::future::IntoFuture;

use local::{Ack, DevOptions, Mode, Options};
use serde_json::{Value, json};

use super::api::{Api, random, text, with};

#[tokio::test]
async fn the_first_users_win() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(1_000, 3)).await;
    let mut slips = BTreeSet::new();
    let mut sum = 0;
    for (user, body) in [("bob", ""), ("alice", "{}"), ("carol", " \n")] {
        let grabbed = api.grab(user, &packet).body(body).await.expect(200);
        assert_eq!((&grabbed["outcome"], &grabbed["replayed"]), (&json!("grabbed"), &json!(false)));
        assert_eq!((&grabbed["packet_id"], &grabbed["currency"]), (&json!(packet), &json!("CNY")));
        slips.insert(grabbed["slip"].as_u64().unwrap());
        sum += grabbed["amount"].as_i64().unwrap();
        let balance = api.get("/me/wallet").by(user).await.expect(200);
        assert_eq!(balance["balance"], grabbed["amount"], "the money is there with the answer");
    }
    assert_eq!(slips, [0, 1, 2].into());
    assert_eq!(sum, 1_000);
    let lost = api.grab("dave", &packet).await.expect(200);
    assert_eq!(lost, json!({"outcome": "sold_out", "packet_id": packet}));
    assert_eq!(api.balance("dave").await, 0);
}

#[tokio::test]
async fn a_rush_over_http_has_as_many_winners_as_slips() {
    const SLIPS: usize = 20;
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(5_000, SLIPS as u64)).await;
    let users: Vec<String> = (0..60).map(|i| format!("user{i}")).collect();
    // Each user three times, so that requests of one user race too.
    let grabs = users.iter().cycle().take(180).map(|user| api.grab(user, &packet).into_future());
    let answers: Vec<Value> = futures::future::join_all(grabs).await.iter().map(|answer| answer.expect(200)).collect();
    let mut winners = 0;
    for (i, first) in answers.iter().take(60).enumerate() {
        let of_user: Vec<&Value> = answers.iter().skip(i).step_by(60).collect();
        let slips: BTreeSet<String> = of_user.iter().map(|answer| answer["slip"].to_string()).collect();
        if of_user.iter().any(|answer| answer["outcome"] == "grabbed") {
            winners += 1;
            assert_eq!(slips.len(), 1, "{of_user:?}");
            assert_eq!(of_user.iter().filter(|answer| answer["replayed"] == false).count(), 1, "{of_user:?}");
        } else {
            assert_eq!(first["outcome"], "sold_out");
        }
    }
    assert_eq!(winners, SLIPS);
    let claims = api.all("alice", &format!("/packets/{packet}/claims"), "claims", 7).await;
    assert_eq!(claims.iter().map(|claim| claim["amount"].as_u64().unwrap()).sum::<u64>(), 5_000);
}

#[tokio::test]
async fn in_redis_mode_settle_pays_the_winner() {
    let api = Api::start_with(Options { ack: Ack::Redis, ..Options::ephemeral() }).await;
    let packet = api.packet("alice", "k", &random(1_000, 2)).await;
    let grabbed = api.grab("bob", &packet).await.expect(200);
    assert_eq!(grabbed["replayed"], false);
    let again = api.grab("bob", &packet).await.expect(200);
    assert_eq!(again, with(grabbed.clone(), &json!({"replayed": true})));
    assert_eq!(api.balance("bob").await, 0);
    let report = api.settle().await;
    assert_eq!((&report["persisted"], &report["outbox_left"]), (&json!(1), &json!(0)));
    assert_eq!(json!(api.balance("bob").await), grabbed["amount"]);
    assert_eq!(api.view("bob", &packet).await.expect(200)["mine"]["grabbed_at"], grabbed["grabbed_at"]);
}

#[tokio::test]
async fn an_unreachable_redis_is_a_503_and_the_retry_wins() {
    let mut redis = shared::redis::test_server::TestServer::start(&[]).await;
    let mode = Mode::Dev(DevOptions { redis_url: Some(redis.url()), ..DevOptions::ephemeral() });
    let options = Options { mode, ..Options::ephemeral() };
    let api = Api::start_with(options).await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    redis.kill();
    api.grab("bob", &packet).await.refused(503, "unavailable");
    // A send needs only the ledger.
    let other = api.packet("alice", "k-2", &random(10, 1)).await;
    redis.restart().await;
    for packet in [packet, other] {
        let grabbed = shared::redis::test_server::poll("a connection", async || {
            let answer = api.grab("bob", &packet).await;
            (answer.status != 503).then(|| answer.expect(200))
        })
        .await;
        assert_eq!(grabbed["outcome"], "grabbed");
        assert_eq!(text(&grabbed["packet_id"]), packet);
    }
}

#[tokio::test]
async fn a_passphrase_opens_a_packet() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"passphrase": "芝麻开门"}))).await;
    let grab = |user: &str, passphrase: &str| api.grab(user, &packet).json(&json!({"passphrase": passphrase}));
    for body in ["", "{}"] {
        api.grab("bob", &packet).body(body).await.refused(403, "wrong-passphrase");
    }
    for wrong in ["", " ", "芝麻", "芝麻 开门", "芝麻开门!", "\u{0}", &"x".repeat(10_000)] {
        grab("bob", wrong).await.refused(403, "wrong-passphrase");
    }
    // The sender needs it too. A view needs no passphrase.
    api.grab("alice", &packet).await.refused(403, "wrong-passphrase");
    let view = api.view("bob", &packet).await;
    assert!(!String::from_utf8_lossy(&view.bytes).contains("芝麻"));
    assert_eq!(view.expect(200)["claimed_count"], 0);
    assert_eq!(api.view("alice", &packet).await.expect(200).get("passphrase"), None);

    let grabbed = grab("bob", "芝麻开门").await.expect(200);
    assert_eq!(grabbed["replayed"], false);
    // The winner needs no passphrase any more, and a wrong one does no harm.
    let replayed = with(grabbed, &json!({"replayed": true}));
    assert_eq!(api.grab("bob", &packet).await.expect(200), replayed);
    assert_eq!(grab("bob", "wrong").await.expect(200), replayed);
    // After the end the packet is still closed to callers without the passphrase.
    grab("carol", "芝麻开门").await.expect(200);
    api.grab("dave", &packet).await.refused(403, "wrong-passphrase");
    assert_eq!(grab("dave", "芝麻开门").await.expect(200)["outcome"], "sold_out");
}

#[tokio::test]
async fn too_many_wrong_passphrases_block_a_user_for_a_while() {
    let api = Api::start().await;
    let body = with(random(100, 2), &json!({"passphrase": "abc"}));
    let packet = api.packet("alice", "k", &body).await;
    let other = api.packet("alice", "k-2", &body).await;
    let grab = |user: &str, passphrase: &str| api.grab(user, &packet).json(&json!({"passphrase": passphrase}));
    for i in 0..10 {
        grab("mallory", &format!("guess {i}")).await.refused(403, "wrong-passphrase");
    }
    for passphrase in ["guess", "abc"] {
        let answer = grab("mallory", passphrase).await;
        answer.refused(429, "too-many-requests");
        assert_eq!(answer.json()["limit"], json!({"rule": "wrong-passphrases-a-minute", "value": 10}));
        let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    // Without a passphrase nothing is guessed.
    api.grab("mallory", &packet).await.refused(403, "wrong-passphrase");
    // The block applies to this user and this packet only.
    assert_eq!(grab("bob", "abc").await.expect(200)["outcome"], "grabbed");
    api.grab("mallory", &other).await.refused(403, "wrong-passphrase");
    assert_eq!(api.view("alice", &packet).await.expect(200)["claimed_count"], 1);

    // A winner may try any passphrase, and always receives the same slip.
    for _ in 0..12 {
        assert_eq!(grab("bob", "nonsense").await.expect(200)["replayed"], true);
    }
}

#[tokio::test]
async fn only_recipients_have_access() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"recipients": ["carol", "bob"]}))).await;
    let claims = format!("/packets/{packet}/claims");
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    api.view("dave", &packet).await.refused(403, "not-a-recipient");
    api.get(&claims).by("dave").await.refused(403, "not-a-recipient");
    // The sender may view the packet, with its recipients. To grab it they must be one of them.
    assert_eq!(api.view("alice", &packet).await.expect(200)["recipients"], json!(["bob", "carol"]));
    api.get(&claims).by("alice").await.expect(200);
    api.grab("alice", &packet).await.refused(403, "not-a-recipient");
    for user in ["bob", "carol"] {
        assert_eq!(api.view(user, &packet).await.expect(200).get("recipients"), None);
        assert_eq!(api.grab(user, &packet).await.expect(200)["outcome"], "grabbed");
        api.get(&claims).by(user).await.expect(200);
    }
    // The same for the others after the end.
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    // Ids that differ in case, or in any byte, are different users.
    api.grab("Bob", &packet).await.refused(403, "not-a-recipient");
}

#[tokio::test]
async fn guards_hold_when_redis_has_forgotten_them() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob"], "passphrase": "abc"});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    api.flush().await;
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    api.flush().await;
    api.grab("bob", &packet).await.refused(403, "wrong-passphrase");
    api.flush().await;
    api.grab("bob", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
}

#[tokio::test]
async fn guards_hold_when_the_packet_is_over() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob"], "passphrase": "abc", "expires_in_s": 1});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    for status in ["expired", "settled"] {
        api.until("alice", &packet, status).await;
        for flushed in [false, true] {
            if flushed {
                api.flush().await;
            }
            api.grab("dave", &packet).await.refused(403, "not-a-recipient");
            api.grab("bob", &packet).await.refused(403, "wrong-passphrase");
            let right = api.grab("bob", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
            assert_eq!(right["outcome"], "expired");
            api.view("dave", &packet).await.refused(403, "not-a-recipient");
        }
    }
}

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
