//! What the operator decides about users and packets.

use serde_json::{Value, json};

use super::api::{Api, random, text, with};

fn suspension(user: &str) -> String {
    format!("/operator/users/{user}/suspension")
}

#[tokio::test]
async fn a_suspended_user_pays_nothing_until_the_suspension_is_lifted() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let send = |key: &str| api.post("/packets").by("alice").key(key).json(&random(100, 2));
    let send_for = |key: &str| api.post("/users/alice/packets").key(key).json(&random(100, 2));
    let withdraw = |id: &str| api.put(format!("/wallets/alice/withdrawals/{id}")).json(&json!({"amount": 10}));
    let before = send("k").await.expect(201);
    withdraw("w").await.expect(201);
    let suspend = |reason: &str| api.put(suspension("alice")).json(&json!({"reason": reason}));

    let first = suspend("reported").await.expect(200);
    assert_eq!((&first["user_id"], &first["reason"]), (&json!("alice"), &json!("reported")));
    assert!(text(&first["by"]).starts_with("arn:"));
    assert_eq!(suspend("reported").await.expect(200), first);
    let wallet = api.get("/wallets/alice").await.expect(200);
    assert_eq!(wallet["suspension"]["suspended_at"], first["suspended_at"]);
    assert_eq!(
        api.get("/me/wallet").by("alice").await.expect(200).get("suspension"),
        None,
        "only the operator sees it"
    );
    for _ in 0..2 {
        send("k2").await.refused(403, "account-suspended");
        send_for("k2").await.refused(403, "account-suspended");
        withdraw("w2").await.refused(403, "account-suspended");
        assert_eq!(send("k").await.expect(200), before);
        withdraw("w").await.expect(200);
    }
    let id = text(&before["packet_id"]);
    assert_eq!(api.grab("alice", &id).await.expect(200)["outcome"], "grabbed");
    api.fund("alice", 1).await;
    let other = suspend("reported twice").await.expect(200);
    assert_eq!(other["reason"], "reported twice");
    for _ in 0..2 {
        let lifted = api.call("DELETE", suspension("alice")).await;
        assert_eq!((lifted.status, &*lifted.bytes), (204, &b""[..]));
    }
    assert_eq!(api.get("/wallets/alice").await.expect(200).get("suspension"), None);
    send("k2").await.expect(201);
    withdraw("w2").await.expect(201);
}

#[tokio::test]
async fn a_user_without_a_wallet_can_be_suspended() {
    let api = Api::start().await;
    api.put(suspension("new%23")).json(&json!({"reason": "x"})).await.refused(400, "invalid-request");
    api.put(suspension("new")).json(&json!({"reason": "x"})).await.expect(200);
    api.fund("new", 1_000).await;
    api.post("/packets").by("new").key("k").json(&random(100, 2)).await.refused(403, "account-suspended");
    let withdrawal = api.put("/wallets/new/withdrawals/w").json(&json!({"amount": 2_000})).await;
    withdrawal.refused(403, "account-suspended");
    assert_eq!(api.balance("new").await, 1_000);
    let other = api.call("DELETE", suspension("other")).await;
    assert_eq!(other.status, 204, "of a user never seen before");
    assert_eq!(api.get("/wallets/other/movements").await.expect(200)["movements"], json!([]));
}

#[tokio::test]
async fn nobody_wins_after_a_packet_is_closed_and_the_rest_goes_back() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let sent = api.post("/packets").by("alice").key("k").json(&random(1_000, 5)).await.expect(201);
    let id = text(&sent["packet_id"]);
    let won = api.grab("bob", &id).await.expect(200);
    assert!(api.view("bob", &id).await.expect(200)["mine"].is_object());
    let close = |reason: &str| api.post(format!("/operator/packets/{id}/close")).json(&json!({"reason": reason}));

    let closed = close("reported").await.expect(200);
    assert_eq!((&closed["status"], &closed["claimed_count"]), (&json!("closed"), &json!(1)));
    let closed_at = &closed["closed_at"];
    assert!(closed_at.is_string() && closed["seed"].is_null());
    assert_eq!(close("another").await.expect(200)["closed_at"], *closed_at, "again and again the same");
    for user in ["carol", "dave", "alice"] {
        assert_eq!(api.grab(user, &id).await.expect(200), json!({"outcome": "closed", "packet_id": id}));
    }
    assert_eq!(api.grab("bob", &id).await.expect(200), with(won.clone(), &json!({"replayed": true})));
    let shown = api.view("alice", &id).await.expect(200);
    assert!([json!("closed"), json!("settled")].contains(&shown["status"]), "{shown}");
    assert_eq!(shown["closed_at"], *closed_at);
    let again = api.post("/packets").by("alice").key("k").json(&random(1_000, 5)).await.expect(200);
    assert_eq!(again, sent, "a replayed send shows its first answer");

    let settled = api.until("alice", &id, "settled").await;
    assert_eq!((&settled["closed_at"], &settled["claimed_count"]), (closed_at, &json!(1)));
    let amount = won["amount"].as_i64().unwrap();
    assert_eq!(settled["refunded_amount"], 1_000 - amount);
    assert_eq!((api.balance("alice").await, api.balance("bob").await), (1_000 - amount, amount));
    let again = close("reported").await.expect(200);
    assert_eq!((&again["status"], &again["closed_at"]), (&json!("settled"), closed_at));
    assert_eq!(api.grab("carol", &id).await.expect(200)["outcome"], "closed");
    let listed = api.get("/me/packets").by("alice").await.expect(200);
    assert_eq!((&listed["packets"][0]["status"], &listed["packets"][0]["closed_at"]), (&json!("settled"), closed_at));
}

#[tokio::test]
async fn a_sold_out_packet_that_is_closed_is_settled() {
    let api = Api::start().await;
    let id = api.packet("alice", "k", &random(100, 1)).await;
    api.grab("bob", &id).await.expect(200);
    assert!(api.view("bob", &id).await.expect(200)["mine"].is_object());
    let path = format!("/operator/packets/{id}/close");
    let closed = api.post(&path).json(&json!({"reason": "late"})).await.expect(200);
    assert_eq!((&closed["status"], closed["closed_at"].is_string()), (&json!("settled"), true));
    let shown = api.view("bob", &id).await.expect(200);
    assert_eq!((&shown["status"], &shown["closed_at"]), (&json!("settled"), &closed["closed_at"]));
    for absent in ["38FS4S83HF3Y07WMYNH727QYT0", "x"] {
        let answer = api.post(format!("/operator/packets/{absent}/close")).json(&json!({"reason": "x"})).await;
        answer.refused(404, "packet-not-found");
    }
    api.post(&path).json(&json!({"reason": ""})).await.refused(400, "invalid-request");
}

#[tokio::test]
async fn a_reason_is_a_text_that_can_be_read() {
    let api = Api::start().await;
    let put = |body: &Value| api.put(suspension("alice")).json(body);
    for (body, field) in [
        (json!({}), "reason"),
        (json!({"reason": ""}), "reason"),
        (json!({"reason": "x".repeat(201)}), "reason"),
        (json!({"reason": "a\u{202e}b"}), "reason"),
        (json!({"reason": 7}), "reason"),
        (json!({"reason": null}), "reason"),
        (json!({"reason": "x", "until": "tomorrow"}), "until"),
    ] {
        assert_eq!(put(&body).await.refused(400, "invalid-request"), [field], "{body}");
    }
    api.put(suspension("alice")).await.refused(400, "invalid-request");
    api.fund("alice", 100).await;
    api.post("/packets").by("alice").key("k").json(&random(100, 2)).await.expect(201);
    put(&json!({"reason": "诈".repeat(200)})).await.expect(200);
}
