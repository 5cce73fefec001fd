//! The operator's routes: suspensions and closes, `/users/{user_id}/…`, which does for a user what the user can do, and wallets.

use serde_json::{Value, json};
use shared::domain::PartId;
use shared::redis::PartKeys;
use shared::redis::test_server::poll;
use shared::wiring::dynamodb_at;

use super::api::{Api, number, random, text, with};
use super::coverage::{Handlers, token};

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
async fn a_suspension_can_stop_grabs_too() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let equal = json!({"split": "equal", "total_amount": 40, "count": 2});
    let send =
        async |key: &str| text(&api.post("/packets").by("alice").key(key).json(&equal).await.expect(201)["packet_id"]);
    let (first, second) = (send("k").await, send("k2").await);
    let before = api.grab("bob", &first).await.expect(200);
    let suspend = |body: Value| api.put(suspension("bob")).json(&body);
    suspend(json!({"reason": "a bot", "grabs": "yes"})).await.refused(400, "invalid-request");
    assert_eq!(suspend(json!({"reason": "a bot"})).await.expect(200)["grabs"], false);
    let stopped = suspend(json!({"reason": "a bot", "grabs": true})).await.expect(200);
    assert_eq!(
        (&stopped["grabs"], suspend(json!({"reason": "a bot", "grabs": true})).await.expect(200)),
        (&json!(true), stopped.clone())
    );
    assert_eq!(api.get("/wallets/bob").await.expect(200)["suspension"]["grabs"], true);

    for _ in 0..3 {
        api.grab("bob", &second).await.refused(403, "account-suspended");
        api.post(format!("/users/bob/packets/{second}/grab")).await.refused(403, "account-suspended");
    }
    assert_eq!(api.grab("bob", &first).await.expect(200)["amount"], before["amount"], "what they have stays theirs");
    for name in ["carol", "dave"] {
        let found = api.grab(name, &second).await.expect(200);
        assert_eq!(found["outcome"], "grabbed", "{name}: the slip was free again");
    }
    assert_eq!(api.grab("erin", &second).await.expect(200)["outcome"], "sold_out");
    assert_eq!(api.grab("bob", &second).await.expect(200)["outcome"], "sold_out");
    assert_eq!(api.balance("bob").await, 20);

    let third = send("k3").await;
    api.grab("bob", &third).await.refused(403, "account-suspended");
    assert_eq!(api.call("DELETE", suspension("bob")).await.status, 204);
    assert_eq!(api.grab("bob", &third).await.expect(200)["outcome"], "grabbed");
    suspend(json!({"reason": "a bot", "grabs": true})).await.expect(200);
    assert_eq!(suspend(json!({"reason": "not a bot"})).await.expect(200)["grabs"], false);
    assert_eq!(api.grab("bob", &send("k4").await).await.expect(200)["outcome"], "grabbed");
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
async fn the_ledger_says_why_a_user_may_have_nothing_of_a_packet() {
    let api = Api::start().await;
    let limit = json!({"limit": {"key": "nye", "wins": 1}});
    let first = api.packet("alice", "k1", &with(random(100, 2), &limit)).await;
    let guarded = with(with(random(100, 1), &limit), &json!({"recipients": ["bob", "carol", "eve"]}));
    let second = api.packet("alice", "k2", &guarded).await;
    assert_eq!(api.grab("bob", &first).await.expect(200)["outcome"], "grabbed");
    api.put(suspension("carol")).json(&json!({"reason": "a bot", "grabs": true})).await.expect(200);
    api.put(suspension("eve")).json(&json!({"reason": "reported"})).await.expect(200);
    let of = async |packet: &str, user: &str| {
        let share = api.get(format!("/operator/packets/{packet}/users/{user}")).await.expect(200);
        [&share["state"], &share["packet_status"], &share["obstacles"]].map(Clone::clone)
    };
    let none = |status: &str, obstacles: &[&str]| [json!("none"), json!(status), json!(obstacles)];
    assert_eq!(of(&first, "bob").await, [json!("claimed"), json!("open"), json!([])]);
    assert_eq!(of(&first, "nobody").await, none("open", &[]));
    assert_eq!(of(&second, "bob").await, none("open", &["limit_reached"]));
    assert_eq!(of(&second, "carol").await, none("open", &["suspended"]));
    assert_eq!(of(&second, "eve").await, none("open", &[]), "they may grab");
    assert_eq!(of(&second, "dave").await, none("open", &["not_a_recipient"]));
    assert_eq!(api.grab("eve", &second).await.expect(200)["outcome"], "grabbed");
    assert_eq!(of(&second, "carol").await, none("sold_out", &["suspended"]));
    api.post(format!("/operator/packets/{first}/close")).json(&json!({"reason": "late"})).await.expect(200);
    assert_eq!(of(&first, "nobody").await, none("closed", &[]));
}

#[tokio::test]
async fn a_packet_has_one_status_wherever_it_is_shown() {
    let api = Api::start().await;
    let body = with(random(100, 1), &json!({"reference": "order-17", "expires_in_s": 2}));
    let id = api.packet("alice", "k", &body).await;
    api.grab("bob", &id).await.expect(200);
    let statuses = async || {
        let totals = api.get("/operator/references/order-17?sender_id=alice").await.expect(200);
        let found = api.get("/operator/packets?reference=order-17").await.expect(200);
        let sent = api.get("/me/packets").by("alice").await.expect(200);
        let one = api.get(format!("/operator/packets/{id}")).await.expect(200);
        let own = api.view("bob", &id).await.expect(200);
        [&totals["packets"][0], &found["packets"][0], &sent["packets"][0], &one, &own].map(|of| text(&of["status"]))
    };
    poll("expired", async || {
        let shown = api.view("bob", &id).await.expect(200);
        (text(&shown["now"]) > text(&shown["expires_at"])).then_some(())
    })
    .await;
    assert_eq!(statuses().await, ["sold_out"; 5], "settle has not been there");
    let closed = api.post(format!("/operator/packets/{id}/close")).json(&json!({"reason": "late"})).await.expect(200);
    assert_eq!((closed["status"].clone(), statuses().await), (json!("closed"), ["closed"; 5].map(str::to_owned)));
    api.until("bob", &id, "settled").await;
    let again = api.post(format!("/operator/packets/{id}/close")).json(&json!({"reason": "late"})).await.expect(200);
    assert_eq!((again["status"].clone(), statuses().await), (json!("settled"), ["settled"; 5].map(str::to_owned)));
}

#[tokio::test]
async fn the_operator_sees_who_closed_a_packet_and_why() {
    let api = Api::start().await;
    let id = api.packet("alice", "k", &with(random(100, 2), &json!({"reference": "order-17"}))).await;
    let path = format!("/operator/packets/{id}");
    assert_eq!(api.get(&path).await.expect(200).get("closing"), Some(&json!(null)));
    let close = |reason: &str| api.post(format!("{path}/close")).json(&json!({"reason": reason}));
    let closed = close("reported").await.expect(200);
    let expected =
        json!({"reason": "reported", "by": "arn:aws:iam::000000000000:user/operator", "at": closed["closed_at"]});
    assert_eq!(closed["closing"], expected);
    assert_eq!(close("another").await.expect(200)["closing"], expected, "the first reason stays");
    assert_eq!(api.get(&path).await.expect(200)["closing"], expected);
    for seen_by_users in [
        api.view("alice", &id).await.expect(200),
        api.get("/operator/packets?reference=order-17").await.expect(200)["packets"][0].clone(),
    ] {
        assert_eq!(seen_by_users.get("closing"), None);
    }
    api.until("alice", &id, "settled").await;
    assert_eq!(api.get(&path).await.expect(200)["closing"], expected);
}

fn without(packet: &Value, fields: &[&str]) -> Value {
    let mut packet = packet.clone();
    for field in fields {
        packet.as_object_mut().unwrap().remove(*field).expect("a field of a single packet");
    }
    packet
}

fn without_now(packet: &Value) -> Value {
    without(packet, &["now"])
}

#[tokio::test]
async fn a_send_for_a_user_is_the_users_own() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let body = with(random(100, 2), &json!({"recipients": ["bob"], "metadata": {"k": "v"}, "reference": "order-17"}));
    let own = || api.post("/packets").by("alice").key("k").json(&body);
    // The operator's own name in the header counts for nothing.
    let operators = || api.post("/users/alice/packets").by("mallory").key("k").json(&body);
    let first = operators().await;
    let sent = first.expect(201);
    assert_eq!((&sent["sender_id"], &sent["metadata"]), (&json!("alice"), &json!({"k": "v"})));
    for again in [own().await, operators().await] {
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
        assert_eq!(again.bytes, first.bytes);
    }
    assert_eq!(api.balance("alice").await, 900);
    let other = random(101, 2);
    api.post("/users/alice/packets").key("k").json(&other).await.refused(422, "idempotency-key-reused");
    // Another user has other keys, and no money.
    api.post("/users/bob/packets").key("k").json(&body).await.refused(402, "insufficient-balance");
    let missing = api.post("/users/alice/packets").json(&body).await;
    assert_eq!(missing.refused(400, "invalid-request"), ["Idempotency-Key"]);
}

#[tokio::test]
async fn a_grab_for_a_user_is_the_users_own() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob", "carol"], "passphrase": "abc"});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    let path = |user: &str| format!("/users/{user}/packets/{packet}/grab");
    let right = json!({"passphrase": "abc"});
    api.post(path("eve")).json(&right).await.refused(403, "not-a-recipient");
    api.post(path("bob")).await.refused(403, "wrong-passphrase");
    let grabbed = api.post(path("bob")).json(&right).await.expect(200);
    assert_eq!((&grabbed["outcome"], &grabbed["replayed"]), (&json!("grabbed"), &json!(false)));
    let again = api.grab("bob", &packet).await.expect(200);
    assert_eq!(again, with(grabbed.clone(), &json!({"replayed": true})));
    let own = api.grab("carol", &packet).json(&right).await.expect(200);
    let again = api.post(path("carol")).await.expect(200);
    assert_eq!(again, with(own, &json!({"replayed": true})));
    assert_eq!(json!(api.balance("bob").await), grabbed["amount"]);
    // A sender is no recipient of their own.
    api.post(path("alice")).json(&right).await.refused(403, "not-a-recipient");
}

#[tokio::test]
async fn what_is_viewed_for_a_user_is_what_the_user_views() {
    let api = Api::start().await;
    let mut packets = Vec::new();
    for i in 0..3 {
        let body = with(random(1_000, 5), &json!({"recipients": ["bob", "carol"], "metadata": {"i": i.to_string()}}));
        let packet = api.packet("alice", &format!("k{i}"), &body).await;
        for user in ["bob", "carol"] {
            api.grab(user, &packet).await.expect(200);
        }
        packets.push(packet);
    }
    let packet = &packets[0];
    for user in ["alice", "bob"] {
        let (own, operators) = (api.view(user, packet).await, api.get(format!("/users/{user}/packets/{packet}")).await);
        assert_eq!(without_now(&own.expect(200)), without_now(&operators.expect(200)));
        assert_eq!(own.header("etag"), operators.header("etag"));
        for (own, operators, rows) in [
            ("/me/packets".to_owned(), format!("/users/{user}/packets"), "packets"),
            ("/me/claims".to_owned(), format!("/users/{user}/claims"), "claims"),
            (format!("/packets/{packet}/claims"), format!("/users/{user}/packets/{packet}/claims"), "claims"),
        ] {
            let whole = api.get(&own).by(user).await.expect(200);
            assert_eq!(whole, api.get(&operators).await.expect(200), "{own}");
            let all = api.all("", &operators, rows, 1).await;
            assert_eq!(json!(all), whole[rows], "{own}");
            // It is one list, so its cursors fit both routes.
            let page = api.get(format!("{own}?limit=1")).by(user).await.expect(200);
            if let Some(cursor) = page["next_cursor"].as_str() {
                let next = api.get(format!("{operators}?limit=1&cursor={cursor}")).await.expect(200);
                assert_eq!(next[rows][0], whole[rows][1], "{own}");
            }
        }
    }
    api.get(format!("/users/eve/packets/{packet}")).await.refused(403, "not-a-recipient");
    api.get(format!("/users/eve/packets/{packet}/claims")).await.refused(403, "not-a-recipient");
    assert_eq!(api.get("/users/eve/claims").await.expect(200)["claims"], json!([]));
}

#[tokio::test]
async fn the_operator_views_any_packet() {
    let api = Api::start().await;
    let written = json!({
        "recipients": ["bob"], "passphrase": "芝麻", "reference": "order-17", "metadata": {"k": "v"}, "expires_in_s": 5
    });
    let packet = api.packet("alice", "k", &with(random(100, 2), &written)).await;
    let path = format!("/operator/packets/{packet}");
    let shown = api.get(&path).await;
    let senders = api.view("alice", &packet).await.expect(200);
    let operators = |packet: &Value| without(packet, &["now", "closing", "settled_at"]);
    assert_eq!(operators(&shown.expect(200)), without_now(&senders));
    assert!(!String::from_utf8_lossy(&shown.bytes).contains("芝麻"));
    api.grab("bob", &packet).json(&json!({"passphrase": "芝麻"})).await.expect(200);
    // A winner finds their slip at once, and from then on everybody does.
    assert!(api.view("bob", &packet).await.expect(200)["mine"].is_object());
    let open = api.get(&path).await.expect(200);
    assert_eq!((&open["claimed_count"], &open["mine"]), (&json!(1), &json!(null)));
    assert_eq!((&open["best"], &open["seed"]), (&json!(null), &json!(null)));
    let settled = api.until("alice", &packet, "settled").await;
    assert!(settled["seed"].is_string());
    let shown = api.get(&path).await;
    assert_eq!(operators(&shown.expect(200)), without_now(&settled));
    let known = api.get(&path).header("if-none-match", shown.header("etag").unwrap()).await;
    assert_eq!(known.status, 304);
    for id in ["38FS4S83HF3Y07WMYNH727QYT0", "x", "%20"] {
        api.get(format!("/operator/packets/{id}")).await.refused(404, "packet-not-found");
    }
}

#[tokio::test]
async fn a_user_may_have_limits_of_their_own() {
    let api = Api::start().await;
    let path = "/operator/users/alice/limits";
    let never = json!({"user_id": "alice", "daily_sent_max": null, "deposit_max": null, "set_at": null, "by": null});
    assert_eq!(api.get(path).await.expect(200), never);
    let set = async |limits: Value| api.put(path).json(&limits).await.expect(200);
    let limits = set(json!({"daily_sent_max": 250, "deposit_max": 1_000})).await;
    assert_eq!((&limits["daily_sent_max"], &limits["deposit_max"]), (&json!(250), &json!(1_000)));
    assert!(text(&limits["by"]).starts_with("arn:") && limits["set_at"].is_string());
    assert_eq!(api.get(path).await.expect(200), limits);

    let deposit =
        |id: &str, amount: u64| api.put(format!("/wallets/alice/deposits/{id}")).json(&json!({"amount": amount}));
    assert_eq!(deposit("d", 1_001).await.refused(400, "invalid-request"), ["amount"]);
    deposit("d", 1_000).await.expect(201);
    let send = |key: &str, total: u64| api.post("/packets").by("alice").key(key).json(&random(total, 1));
    send("k1", 200).await.expect(201);
    for total in [51, 251] {
        let refused = send("k2", total).await;
        assert!(refused.refused(403, "daily-limit-exceeded").is_empty());
        assert!(refused.json()["resets_at"].is_string());
        assert_eq!(refused.json()["limit"], json!({"rule": "amount-a-day", "value": 250}));
    }
    send("k2", 50).await.expect(201);
    send("k1", 200).await.expect(200);
    // A limit that is lowered leaves what was made, and another user's are the deployment's.
    set(json!({"daily_sent_max": 1, "deposit_max": 1})).await;
    deposit("d", 1_000).await.expect(200);
    send("k1", 200).await.expect(200);
    send("k3", 2).await.refused(403, "daily-limit-exceeded");
    api.fund("bob", 1_001).await;
    api.post("/packets").by("bob").key("k").json(&random(300, 1)).await.expect(201);
    // As for everybody again.
    let lifted = set(json!({"daily_sent_max": null})).await;
    assert_eq!((&lifted["daily_sent_max"], &lifted["deposit_max"]), (&json!(null), &json!(null)));
    send("k3", 500).await.expect(201);
    deposit("d2", 5_000).await.expect(201);
    tests::audit_table(&dynamodb_at(api.local.dynamodb_url()), "hongbao").await;
}

#[tokio::test]
async fn a_company_may_send_more_than_the_deployment_lets_everybody() {
    let api = Api::start().await;
    let handlers = Handlers::over(&api, &[("DAILY_SENT_MAX", "99"), ("DEPOSIT_MAX", "500")]);
    let signed = json!({"iam": {"userArn": "arn:aws:iam::123456789012:user/ann"}});
    let deposit = ("PUT", "/wallets/company/deposits/d");
    handlers.answer(deposit, signed.clone(), r#"{"amount":501}"#).await.refused(400, "invalid-request");
    api.put("/operator/users/company/limits")
        .json(&json!({"daily_sent_max": 400, "deposit_max": 600}))
        .await
        .expect(200);
    handlers.answer(deposit, signed, r#"{"amount":501}"#).await.expect(201);
    let send =
        async |total: u64| handlers.answer(("POST", "/packets"), token("company"), &random(total, 1).to_string()).await;
    send(401).await.refused(403, "daily-limit-exceeded");
    send(400).await.expect(201);
}

#[tokio::test]
async fn the_operator_sees_what_a_user_has_of_a_packet() {
    let api = Api::start_with(local::Options { ack: local::Ack::Redis, ..local::Options::ephemeral() }).await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"expires_in_s": 2}))).await;
    let path = |user: &str| format!("/operator/packets/{packet}/users/{user}");
    let share = async |user: &str| api.get(path(user)).await.expect(200);
    let of = |user: &str, state: &str, slip: Value, amount: Value, at: Value| {
        let status = if state == "refunded" { "settled" } else { "open" };
        json!({
            "packet_id": packet, "user_id": user, "state": state, "slip": slip, "amount": amount, "currency": "CNY", "at": at,
            "by": null, "packet_status": status, "obstacles": []
        })
    };
    assert_eq!(share("bob").await, of("bob", "none", json!(null), json!(null), json!(null)));
    let won = api.grab("bob", &packet).await.expect(200);
    let (slip, amount, at) = (won["slip"].clone(), won["amount"].clone(), won["grabbed_at"].clone());
    assert_eq!(share("bob").await, of("bob", "held", slip.clone(), amount.clone(), at.clone()), "it was promised");
    api.settle().await;
    assert_eq!(share("bob").await, of("bob", "claimed", slip, amount, at));
    api.until("alice", &packet, "settled").await;
    // Carol's hold of the other slip came too late.
    let part = PartKeys::of(PartId { packet: packet.parse().unwrap(), index: 0 }).part;
    api.redis(redis::cmd("HSET").arg(part).arg("carol").arg("h1:1795181400000")).await;
    let refunds = api.get("/me/movements?kind=refund").by("alice").await.expect(200);
    let at = refunds["movements"][0]["at"].clone();
    assert_eq!(share("carol").await, of("carol", "refunded", json!(1), json!(null), at));
    assert_eq!(api.get(path("a%20b")).await.refused(400, "invalid-request"), ["user_id"]);
    api.get("/operator/packets/x/users/bob").await.refused(404, "packet-not-found");
}

#[tokio::test]
async fn packets_are_found_by_their_reference() {
    let api = Api::start().await;
    let mut sent = Vec::new();
    for (sender, key, reference) in
        [("alice", "a", "order-17"), ("bob", "b", "order-17"), ("alice", "c", "order-1"), ("alice", "d", "order-17")]
    {
        let body = with(random(100, 2), &json!({"reference": reference, "recipients": ["bob"]}));
        sent.push((api.packet(sender, key, &body).await, reference));
    }
    api.packet("alice", "none", &random(100, 2)).await;
    api.grab("bob", &sent[1].0).await.expect(200);
    assert!(api.view("bob", &sent[1].0).await.expect(200)["mine"].is_object());
    let ids = |rows: &[Value]| rows.iter().map(|row| text(&row["packet_id"])).collect::<Vec<_>>();
    let find = |reference: &str| format!("/operator/packets?reference={reference}");
    for reference in ["order-17", "order-1"] {
        let mut expected: Vec<String> =
            sent.iter().filter(|(_, of)| *of == reference).map(|(id, _)| id.clone()).collect();
        expected.sort_by(|one, other| other.cmp(one));
        let page = api.get(find(reference)).await.expect(200);
        assert_eq!(ids(page["packets"].as_array().unwrap()), expected);
        assert_eq!(page["next_cursor"], json!(null));
    }
    let found = api.all("", &find("order-17"), "packets", 1).await;
    assert_eq!(found.len(), 3);
    for row in &found {
        assert_eq!((&row["reference"], &row["mine"]), (&json!("order-17"), &json!(null)));
        assert_eq!((row.get("recipients"), &row["metadata"], row.get("now")), (None, &json!(null), None));
        let own = text(&row["sender_id"]);
        let senders = api.all(&own, "/me/packets", "packets", 100).await;
        let senders = senders.iter().find(|own| own["packet_id"] == row["packet_id"]).unwrap();
        assert_eq!(*row, with(senders.clone(), &json!({"mine": null})));
    }
    assert_eq!(api.get(find("order")).await.expect(200), json!({"packets": [], "next_cursor": null}));
    for bad in ["", "?limit=1", "?reference=a&reference=a", "?reference=", "?reference=a%2Fb", "?reference=%00"] {
        let answer = api.get(format!("/operator/packets{bad}")).await;
        assert_eq!(answer.refused(400, "invalid-request"), ["reference"], "{bad}");
    }
}

const MOST: u64 = 1_000_000_000_000;

fn wallet(user: &str, balance: u64) -> Value {
    json!({"user_id": user, "balance": balance, "pending": 0, "currency": "CNY"})
}

/// The wallet in the answer to a withdrawal.
fn wallet_in(answer: &Value) -> Value {
    let names = ["user_id", "balance", "pending", "currency"];
    names.into_iter().map(|name| (name.to_owned(), answer[name].clone())).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn each_id_moves_money_once() {
    let api = Api::start().await;
    let put = |path: &str, amount: u64| api.put(format!("/wallets/alice/{path}")).json(&json!({"amount": amount}));
    assert_eq!(put("deposits/d-1", 500).await.expect(201), wallet("alice", 500));
    assert_eq!(
        wallet_in(&put("withdrawals/d-1", 200).await.expect(201)),
        wallet("alice", 300),
        "deposits and withdrawals have separate ids"
    );
    // A repeat shows the current balance.
    assert_eq!(put("deposits/d-1", 500).await.expect(200), wallet("alice", 300));
    assert_eq!(wallet_in(&put("withdrawals/d-1", 200).await.expect(200)), wallet("alice", 300));
    for path in ["deposits/d-1", "withdrawals/d-1"] {
        put(path, 501).await.refused(422, "idempotency-key-reused");
    }
    // An id that was refused for insufficient balance is free. A used id stays used, even when the wallet is empty.
    put("withdrawals/w-2", 301).await.refused(402, "insufficient-balance");
    assert_eq!(wallet_in(&put("withdrawals/w-2", 300).await.expect(201)), wallet("alice", 0));
    put("withdrawals/w-2", 301).await.refused(422, "idempotency-key-reused");
    assert_eq!(wallet_in(&put("withdrawals/w-2", 300).await.expect(200)), wallet("alice", 0));
    put("withdrawals/w-3", 1).await.refused(402, "insufficient-balance");
    // Each user has their own ids.
    let other = api.put("/wallets/bob/deposits/d-1").json(&json!({"amount": 1})).await;
    assert_eq!(other.expect(201), wallet("bob", 1));
    api.put("/wallets/zoe/withdrawals/w").json(&json!({"amount": 1})).await.refused(402, "insufficient-balance");
    assert_eq!(api.get("/wallets/alice").await.expect(200), wallet("alice", 0));
    assert_eq!(api.get("/wallets/zoe").await.expect(200), wallet("zoe", 0));
}

#[tokio::test]
async fn a_wallet_can_be_filled_up_to_its_limit() {
    let api = Api::start().await;
    let put = |i: u32, amount: u64| api.put(format!("/wallets/rich/deposits/d{i}")).json(&json!({"amount": amount}));
    // As after 999 deposits of the largest amount.
    api.put_item("USER#rich", "WALLET", &[("balance", number(999 * MOST))]).await;
    assert_eq!(put(999, MOST).await.expect(201), wallet("rich", 1_000 * MOST));
    assert_eq!(put(1_000, 1).await.refused(400, "invalid-request"), ["amount"]);
    let out = api.put("/wallets/rich/withdrawals/w").json(&json!({"amount": 1})).await;
    assert_eq!(wallet_in(&out.expect(201)), wallet("rich", 1_000 * MOST - 1));
    assert_eq!(put(1_000, 2).await.refused(400, "invalid-request"), ["amount"], "its id is free");
    assert_eq!(put(1_000, 1).await.expect(201), wallet("rich", 1_000 * MOST));
    assert_eq!(put(999, MOST).await.expect(200), wallet("rich", 1_000 * MOST), "a replay does not overfill");
    // What a withdrawal reserved goes back in any case: the limit is for deposits.
    let body = json!({"amount": 2, "pending": true});
    api.put("/wallets/rich/withdrawals/w2").json(&body).await.expect(201);
    put(1_001, 2).await.expect(201);
    let voided = api.post("/wallets/rich/withdrawals/w2/void").await.expect(200);
    assert_eq!((&voided["balance"], &voided["pending"]), (&json!(1_000 * MOST + 2), &json!(0)));
    assert_eq!(put(1_002, 1).await.refused(400, "invalid-request"), ["amount"]);
}

#[tokio::test]
async fn movements_sum_to_the_balance_and_are_listed_each_once() {
    let api = Api::start().await;
    for i in 0..3 {
        api.put(format!("/wallets/alice/deposits/d{i}")).json(&json!({"amount": 10_000})).await.expect(201);
        api.put(format!("/wallets/alice/withdrawals/w{i}")).json(&json!({"amount": 7})).await.expect(201);
    }
    let send = |key: &'static str, fields: Value| {
        let body = with(random(1_000, 4), &fields);
        let api = &api;
        async move { text(&api.post("/packets").by("alice").key(key).json(&body).await.expect(201)["packet_id"]) }
    };
    let open = send("k-1", json!({})).await;
    let late = send("k-2", json!({"expires_in_s": 5, "greeting": "恭喜"})).await;
    let open_slip = api.grab("alice", &open).await.expect(200);
    let late_slip = api.grab("alice", &late).await.expect(200);
    let settled = api.until("alice", &late, "settled").await;

    let movements = api.all("", "/wallets/alice/movements", "movements", 100).await;
    // Newest first: what was done last comes first.
    let lowest = u32::from(late_slip["slip"] == 0);
    let mut expected = vec![
        json!(["refund", format!("{late}-{lowest}"), settled["refunded_amount"], late]),
        json!(["claim", late, late_slip["amount"], late]),
        json!(["claim", open, open_slip["amount"], open]),
        json!(["sent", late, -1_000, late]),
        json!(["sent", open, -1_000, open]),
    ];
    for i in (0..3).rev() {
        expected.push(json!(["withdrawal", format!("w{i}"), -7, null]));
        expected.push(json!(["deposit", format!("d{i}"), 10_000, null]));
    }
    let found: Vec<Value> =
        movements.iter().map(|row| json!([row["kind"], row["id"], row["amount"], row["packet_id"]])).collect();
    assert_eq!(found, expected);
    let times: Vec<String> = movements.iter().map(|row| text(&row["at"])).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    for row in &movements {
        let is_signed = row["kind"] == "deposit" || row["kind"] == "withdrawal";
        let signer = is_signed.then(|| json!("arn:aws:iam::000000000000:user/operator"));
        assert_eq!(row.get("by"), signer.as_ref(), "{row}");
    }
    let claim = movements.iter().find(|row| row["packet_id"] == open && row["kind"] == "claim").unwrap();
    assert_eq!(claim["at"], open_slip["grabbed_at"]);
    for row in &movements {
        let greeting = if row["packet_id"] == late { "恭喜" } else { "" };
        let said = (row["kind"] == "claim").then(|| json!(["alice", greeting]));
        let found = row.get("sender_id").or_else(|| row.get("greeting"));
        assert_eq!(found.map(|_| json!([row["sender_id"], row["greeting"]])), said, "{row}");
    }
    let sum: i64 = movements.iter().map(|row| row["amount"].as_i64().unwrap()).sum();
    assert_eq!(sum, api.balance("alice").await);
    for limit in [1, 2, 3, 5, movements.len()] {
        assert_eq!(api.all("", "/wallets/alice/movements", "movements", limit).await, movements, "{limit}");
    }
    // The user sees the same, without the signers.
    let mine: Vec<Value> = movements.iter().cloned().map(without_signer).collect();
    for limit in [2, 100] {
        assert_eq!(api.all("alice", "/me/movements", "movements", limit).await, mine, "{limit}");
    }
    for (path, user) in [("/wallets/zoe/movements", ""), ("/me/movements", "zoe")] {
        assert_eq!(api.get(path).by(user).await.expect(200), json!({"movements": [], "next_cursor": null}));
    }
}

fn without_signer(mut row: Value) -> Value {
    row.as_object_mut().unwrap().remove("by");
    row
}

#[tokio::test]
async fn movements_are_filtered_by_time_and_kind() {
    let api = Api::start().await;
    for id in ["deposits/d1", "withdrawals/w1", "deposits/d2"] {
        api.put(format!("/wallets/alice/{id}")).json(&json!({"amount": 10})).await.expect(201);
    }
    let list = async |query: &str| {
        let page = api.get(format!("/wallets/alice/movements?limit=100&{query}")).await.expect(200);
        let mine = api.get(format!("/me/movements?limit=100&{query}")).by("alice").await.expect(200);
        let rows = page["movements"].as_array().unwrap().clone();
        let without: Vec<Value> = rows.iter().cloned().map(without_signer).collect();
        assert_eq!((&page["next_cursor"], mine["movements"].as_array().unwrap()), (&Value::Null, &without), "{query}");
        rows
    };
    // The ledger's test has more.
    let all = list("").await;
    assert_eq!((all.len(), list("kind=withdrawal").await.len()), (3, 1));
    let at = text(&all[1]["at"]);
    assert_eq!([list(&format!("from={at}")).await, list(&format!("to={at}")).await].concat(), all, "{at}");
    // The last moments that RFC 3339 has, which stand for "no end".
    for last in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59-23:59"] {
        assert_eq!(list(&format!("to={last}")).await, all, "{last}");
        assert!(list(&format!("from={last}")).await.is_empty(), "{last}");
        assert_eq!(api.get(format!("/operator/withdrawals?before={last}")).await.status, 200);
    }
    for (query, fields) in [
        ("from=", &["from"][..]),
        ("from=2026-11-20", &["from"]),
        ("to=1795181400120", &["to"]),
        ("to=2026-11-20T13:30:00", &["to"]),
        ("from=2026-11-20T13:30:00Z&from=2026-11-20T13:30:00Z", &["from"]),
        ("from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z", &["to"]),
        ("kind=", &["kind"]),
        ("kind=Claim", &["kind"]),
        ("kind=claim&kind=sent", &["kind"]),
        ("from=x&to=y&kind=z&limit=0&cursor=!", &["from", "to", "kind", "limit", "cursor"]),
    ] {
        let refused = api.get(format!("/wallets/alice/movements?{query}")).await.refused(400, "invalid-request");
        assert_eq!(refused, fields, "{query}");
        let refused = api.get(format!("/me/movements?{query}")).by("alice").await.refused(400, "invalid-request");
        assert_eq!(refused, fields, "{query}");
    }
}
