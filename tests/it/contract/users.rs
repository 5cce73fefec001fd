//! `/users/{user_id}/…` and `/operator/packets…`: the operator does for a user what the user can do, and finds any packet.

use serde_json::{Value, json};

use super::api::{Api, random, text, with};

fn without_now(packet: &Value) -> Value {
    let mut packet = packet.clone();
    packet.as_object_mut().unwrap().remove("now").expect("a single packet has the time");
    packet
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
    assert_eq!(without_now(&shown.expect(200)), without_now(&senders));
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
    assert_eq!(without_now(&shown.expect(200)), without_now(&settled));
    let known = api.get(&path).header("if-none-match", shown.header("etag").unwrap()).await;
    assert_eq!(known.status, 304);
    for id in ["38FS4S83HF3Y07WMYNH727QYT0", "x", "%20"] {
        api.get(format!("/operator/packets/{id}")).await.refused(404, "packet-not-found");
    }
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
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(format!("{}&limit=1{cursor}", find("order-17"))).await.expect(200);
        found.extend(page["packets"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found.len(), 3);
    for row in &found {
        assert_eq!((&row["reference"], &row["mine"]), (&json!("order-17"), &json!(null)));
        assert_eq!((row.get("recipients"), row.get("metadata"), row.get("now")), (None, None, None));
        let own = text(&row["sender_id"]);
        let senders = api.all(&own, "/me/packets", "packets", 100).await;
        let senders = senders.iter().find(|own| own["packet_id"] == row["packet_id"]).unwrap();
        assert_eq!(*row, with(senders.clone(), &json!({"mine": null})));
    }
    assert_eq!(api.get(find("order")).await.expect(200), json!({"packets": [], "next_cursor": null}));
    let long = "r".repeat(65);
    for bad in ["", "%20", "a%20b", "a%23b", "%E5%8F%B7", "a%2Fb", "%00", &long] {
        assert_eq!(api.get(find(bad)).await.refused(400, "invalid-request"), ["reference"], "{bad}");
    }
    for bad in ["", "?limit=1", "?reference=a&reference=a"] {
        let answer = api.get(format!("/operator/packets{bad}")).await;
        assert_eq!(answer.refused(400, "invalid-request"), ["reference"], "{bad}");
    }
}
