//! What those who answer users ask for: what was done, to whom, by whom and why; and where things are.

use serde_json::{Value, json};

use super::api::{Api, random, text, with};

/// The values of a field in all rows of a list, which is read page by page.
async fn column(api: &Api, path: &str, rows: &str, field: &str) -> Vec<String> {
    api.all("", path, rows, 2).await.iter().map(|row| text(&row[field])).collect()
}

#[tokio::test]
async fn a_deed_says_who_did_it_when_and_why_and_what_was_before() {
    let api = Api::start().await;
    let suspension = "/operator/users/alice/suspension";
    api.put(suspension).json(&json!({"reason": "a bot"})).await.expect(200);
    let lifted = api.call("DELETE", suspension).json(&json!({"reason": "they called"})).await;
    assert_eq!(lifted.status, 204);
    api.put("/operator/users/alice/limits").json(&json!({"deposit_max": 500, "reason": "a child"})).await.expect(200);
    let deposit = |id: &str, body: Value| api.put(format!("/wallets/alice/deposits/{id}")).json(&body);
    deposit("gift", json!({"amount": 400, "reason": "a gift"})).await.expect(201);
    deposit("plain", json!({"amount": 400})).await.expect(201);
    let withdrawal = |id: &str| format!("/wallets/alice/withdrawals/{id}");
    let made = json!({"amount": 100, "pending": true, "reason": "by telephone"});
    for id in ["w1", "w2"] {
        api.put(withdrawal(id)).json(&made).await.expect(201);
    }
    api.post(format!("{}/post", withdrawal("w1"))).json(&json!({"reason": "paid"})).await.expect(200);
    api.post(format!("{}/void", withdrawal("w2"))).json(&json!({"reason": "no such account"})).await.expect(200);
    let on_alice = column(&api, "/operator/deeds?user_id=alice", "deeds", "deed").await;
    assert_eq!(on_alice, ["void", "post", "withdraw", "withdraw", "deposit", "limit", "lift", "suspend"]);

    let packet = api.packet("bob", "k", &with(random(100, 2), &json!({"reference": "nye"}))).await;
    api.post(format!("/operator/packets/{packet}/close")).json(&json!({"reason": "wrong"})).await.expect(200);
    let close = "/operator/references/nye/close?sender_id=bob";
    api.packet("bob", "k2", &with(random(100, 2), &json!({"reference": "nye"}))).await;
    api.post(close).json(&json!({"reason": "the evening is over"})).await.expect(200);
    api.put("/operator/sending").json(&json!({"paused": true, "reason": "stop"})).await.expect(200);
    api.put("/operator/sending").json(&json!({"paused": false})).await.expect(200);
    for enabled in [false, true] {
        api.put("/operator/webhooks").json(&json!({"enabled": enabled, "reason": "repair"})).await.expect(200);
    }
    let all = column(&api, "/operator/deeds", "deeds", "deed").await;
    let newest = ["enable-webhooks", "disable-webhooks", "resume", "pause", "close", "close-reference", "close"];
    assert_eq!(all[..7], newest);
    assert_eq!(all.len(), 7 + on_alice.len());

    let deeds = api.get("/operator/deeds?limit=100").await.expect(200)["deeds"].clone();
    let deed = |name: &str| deeds.as_array().unwrap().iter().find(|row| row["deed"] == name).unwrap();
    let lift = deed("lift");
    assert_eq!((&lift["reason"], &lift["after"]), (&json!("they called"), &json!(null)));
    assert_eq!(lift["before"], json!({"reason": "a bot", "grabs": false}));
    assert!(text(&lift["by"]).starts_with("arn:") && text(&lift["at"]).starts_with("20"));
    assert_eq!((&deed("close")["packet_id"].is_string(), &deed("close")["reference"]), (&true, &json!("nye")));
    assert_eq!(deed("resume")["before"], json!({"paused": true, "reason": "stop"}));
    assert_eq!((&deed("deposit")["id"], &deed("deposit")["after"]), (&json!("gift"), &json!({"amount": 400})));
}

#[tokio::test]
async fn a_repeated_request_leaves_one_deed() {
    let api = Api::start().await;
    let suspension = "/operator/users/alice/suspension";
    let suspend = || api.put(suspension).key("s1").json(&json!({"reason": "a bot"}));
    let first = suspend().await.expect(200);
    assert_eq!(suspend().await.expect(200), first);
    // A key counts for requests of one kind.
    assert_eq!(api.call("DELETE", suspension).key("s1").await.status, 204);
    // The answer to the first was lost, and its client asks again.
    assert_eq!(suspend().await.expect(200), first);
    assert_eq!(api.get("/wallets/alice").await.expect(200).get("suspension"), None);
    let limit = || api.put("/operator/users/alice/limits").key("x1").json(&json!({"deposit_max": 5}));
    limit().await.expect(200);
    limit().await.expect(200);
    assert_eq!(column(&api, "/operator/deeds?user_id=alice", "deeds", "deed").await, ["limit", "lift", "suspend"]);
    // One that found nothing to do must find nothing later either.
    let lift = || api.call("DELETE", "/operator/users/bob/suspension").key("l1");
    assert_eq!(lift().await.status, 204);
    let bots = json!({"reason": "a bot"});
    api.put("/operator/users/bob/suspension").json(&bots).await.expect(200);
    assert_eq!(lift().await.status, 204);
    let again = || api.put("/operator/users/bob/suspension").key("s2").json(&bots);
    let stands = again().await.expect(200);
    assert_eq!(again().await.expect(200), stands);
    api.call("DELETE", "/operator/users/bob/suspension").await;
    assert_eq!(again().await.expect(200)["reason"], "a bot");
    assert_eq!(api.get("/wallets/bob").await.expect(200).get("suspension"), None);
    let limit_bob = |most: u64, key| api.put("/operator/users/bob/limits").key(key).json(&json!({"deposit_max": most}));
    for (most, key) in [(7, "x2"), (7, "x3"), (8, "x4"), (7, "x3")] {
        limit_bob(most, key).await.expect(200);
    }
    assert_eq!(api.get("/operator/users/bob/limits").await.expect(200)["deposit_max"], 8);
    assert_eq!(
        column(&api, "/operator/deeds?user_id=bob", "deeds", "deed").await,
        ["limit", "limit", "limit", "lift", "suspend", "suspend", "lift"]
    );
    for (paused, key) in [(true, "p1"), (true, "p2"), (false, "p3"), (true, "p1"), (true, "p2")] {
        let body = json!({"paused": paused, "reason": "stop"});
        api.put("/operator/sending").key(key).json(&body).await.expect(200);
    }
    assert_eq!(api.get("/operator/sending").await.expect(200)["paused"], false);
    // What was so already is no new decision.
    let (mut paused, mut said) = (json!({"paused": true, "reason": "bots"}), Vec::new());
    for key in ["p4", "p5"] {
        said.push(api.put("/operator/sending").key(key).json(&paused).await.expect(200));
    }
    assert_eq!(said[0], said[1]);
    let newest = &api.get("/operator/deeds?limit=2").await.expect(200)["deeds"];
    let is_said = |deed: &Value| deed["deed"] == "pause" && deed["after"]["reason"] == "bots";
    assert!(is_said(&newest[0]) && is_said(&newest[1]), "{newest}");
    assert_eq!(newest[0]["before"], newest[0]["after"]);
    // A key counts for requests of one kind.
    paused["paused"] = json!(false);
    assert_eq!(api.put("/operator/sending").key("p4").json(&paused).await.expect(200)["paused"], false);
    let bad = api.put("/operator/sending").key("a,b").json(&json!({"paused": false})).await;
    assert_eq!(bad.refused(400, "invalid-request"), ["Idempotency-Key"]);
}

#[tokio::test]
async fn suspended_and_limited_users_are_listed() {
    let api = Api::start().await;
    for user in ["u1", "u2", "u3"] {
        let body = json!({"reason": "a bot"});
        api.put(format!("/operator/users/{user}/suspension")).json(&body).await.expect(200);
    }
    for user in ["u3", "u4"] {
        api.put(format!("/operator/users/{user}/limits")).json(&json!({"deposit_max": 5})).await.expect(200);
    }
    api.call("DELETE", "/operator/users/u2/suspension").await;
    let listed = async |query: &str| column(&api, &format!("/operator/users{query}"), "users", "user_id").await;
    assert_eq!(listed("").await, ["u1", "u3", "u4"]);
    assert_eq!(listed("?state=suspended").await, ["u1", "u3"]);
    assert_eq!(listed("?state=limited").await, ["u3", "u4"]);
    assert_eq!(api.get("/operator/users?state=x").await.refused(400, "invalid-request"), ["state"]);
    let first = &api.get("/operator/users?limit=1").await.expect(200)["users"][0].clone();
    assert_eq!((&first["suspension"]["reason"], &first["limits"]), (&json!("a bot"), &json!(null)));
}

#[tokio::test]
async fn packets_are_found_by_sender_time_and_status() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(api.packet("alice", &format!("k{n}"), &random(100, 2)).await);
    }
    let other = api.packet("bob", "k", &random(100, 2)).await;
    api.post(format!("/operator/packets/{}/close", ids[1])).json(&json!({"reason": "wrong"})).await.expect(200);
    for user in ["u1", "u2"] {
        api.grab(user, &ids[2]).await.expect(200);
    }
    let found = async |query: &str| {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = api.get(format!("/operator/packets?{query}&limit=2{after}")).await.expect(200);
            found.extend(page["packets"].as_array().unwrap().iter().map(|row| text(&row["packet_id"])));
            match page["next_cursor"].as_str() {
                Some(next) => after = format!("&cursor={next}"),
                None => return found,
            }
        }
    };
    let newest: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(found("sender_id=alice").await, newest);
    assert_eq!(found("sender_id=alice&status=closed").await, ids[1..2]);
    assert_eq!(found("sender_id=alice&status=sold_out").await, ids[2..3]);
    let created = text(&api.get(format!("/operator/packets/{}", ids[3])).await.expect(200)["created_at"]);
    assert_eq!(found(&format!("sender_id=alice&from={created}")).await, newest[..2]);
    assert_eq!(found(&format!("sender_id=alice&to={created}")).await, newest[2..]);
    let mut open = found("status=open").await;
    open.sort();
    let mut expected = [&ids[0], &ids[3], &ids[4], &other].map(Clone::clone);
    expected.sort();
    assert_eq!(open, expected);
    assert_eq!(found("status=closed").await, ids[1..2]);
    for (query, field) in [
        ("status=settled", "sender_id"),
        ("status=x", "status"),
        ("from=2026-11-20T00:00:00Z&status=open", "sender_id"),
        ("sender_id=alice&reference=nye", "sender_id"),
        ("sender_id=alice&from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z", "to"),
    ] {
        let answer = api.get(format!("/operator/packets?{query}")).await;
        assert_eq!(answer.refused(400, "invalid-request"), [field], "{query}");
    }
    api.settle().await;
    let closed = api.until("alice", &ids[1], "settled").await;
    assert_eq!(closed["status"], "settled");
    let shown = api.get(format!("/operator/packets/{}", ids[1])).await.expect(200);
    assert!(text(&shown["settled_at"]) >= text(&shown["closing"]["at"]), "{shown}");
}

#[tokio::test]
async fn withdrawals_that_ended_are_found_by_user_and_any_movement_by_its_id() {
    let api = Api::start().await;
    for user in ["alice", "bob"] {
        api.fund(user, 1_000).await;
    }
    let path = |user: &str, id: &str| format!("/wallets/{user}/withdrawals/{id}");
    for id in ["w1", "w2", "w3", "w4"] {
        api.put(path("alice", id)).json(&json!({"amount": 10, "pending": true})).await.expect(201);
    }
    api.put(path("bob", "w1")).json(&json!({"amount": 10})).await.expect(201);
    for (id, end) in [("w1", "post"), ("w2", "void"), ("w4", "post")] {
        api.post(format!("{}/{end}", path("alice", id))).await.expect(200);
    }
    let listed = async |query: &str| {
        let path = format!("/operator/withdrawals?user_id=alice{query}");
        column(&api, &path, "withdrawals", "withdrawal_id").await
    };
    assert_eq!(listed("").await, ["w4", "w3", "w2", "w1"]);
    assert_eq!(listed("&state=posted").await, ["w4", "w1"]);
    assert_eq!(listed("&state=voided").await, ["w2"]);
    assert_eq!(listed("&state=pending").await, ["w3"]);
    assert_eq!(listed("&before=2026-01-01T00:00:00Z").await, [""; 0]);
    let whose = column(&api, "/operator/movements?id=w1", "movements", "user_id").await;
    assert_eq!(whose, ["alice", "bob"]);
    assert_eq!(column(&api, "/operator/movements?id=nothing", "movements", "user_id").await, [""; 0]);
    assert_eq!(api.get("/operator/movements").await.refused(400, "invalid-request"), ["id"]);
}

#[tokio::test]
async fn what_a_user_has_won_of_each_limit_is_listed() {
    let api = Api::start().await;
    for key in ["a", "b"] {
        let limit = json!({"limit": {"key": key, "wins": 5}});
        for n in 0..2 {
            let packet = api.packet("shop", &format!("{key}{n}"), &with(random(100, 2), &limit)).await;
            api.grab("ann", &packet).await.expect(200);
        }
    }
    let wins = api.all("", "/operator/users/ann/wins", "wins", 1).await;
    let shown: Vec<_> = wins.iter().map(|row| (text(&row["limit_key"]), row["wins"].as_u64())).collect();
    assert_eq!(shown, [("a".to_owned(), Some(2)), ("b".to_owned(), Some(2))]);
    assert_eq!(wins[0]["sender_id"], "shop");
    let sums: u64 = wins.iter().map(|row| row["amount"].as_u64().unwrap()).sum();
    assert_eq!(i64::try_from(sums).unwrap(), api.balance("ann").await);
}
