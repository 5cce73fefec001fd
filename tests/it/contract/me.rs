//! `GET /me/wallet`, `GET /me/packets`, `GET /me/claims`

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api::{Api, random, text, with};

#[tokio::test]
async fn a_user_never_seen_before_has_nothing() {
    let api = Api::start().await;
    let nothing = json!({"count": 0, "amount": 0});
    let get = |path: &'static str| api.get(path).by("zoe");
    assert_eq!(get("/me/wallet").await.expect(200), json!({"user_id": "zoe", "balance": 0, "currency": "CNY"}));
    let packets = json!({"packets": [], "next_cursor": null, "totals": nothing});
    assert_eq!(get("/me/packets").await.expect(200), packets);
    let claims = json!({"claims": [], "next_cursor": null, "totals": nothing});
    assert_eq!(get("/me/claims").await.expect(200), claims);
}

#[tokio::test]
async fn sent_packets_are_listed_newest_first_with_totals_over_all() {
    let api = Api::start().await;
    let mut packets = Vec::new();
    for i in 0..7_u64 {
        let body = with(random(100 + i, 2), &json!({"greeting": format!("no {i}")}));
        packets.push(api.send("alice", &format!("k{i}"), &body).await);
    }
    api.send("bob", "k", &random(5_000, 1)).await;
    let taken = text(&packets[3]["packet_id"]);
    let first = api.grab("bob", &taken).await.expect(200);
    api.grab("carol", &taken).await.expect(200);
    let half = text(&packets[5]["packet_id"]);
    let other = api.grab("bob", &half).await.expect(200);
    assert_ne!(first["packet_id"], other["packet_id"]);

    packets.sort_by_key(|packet| std::cmp::Reverse(text(&packet["packet_id"])));
    for limit in [1, 3, 7, 100] {
        let rows = api.all("alice", "/me/packets", "packets", limit).await;
        assert_eq!(rows.len(), 7);
        for (row, packet) in rows.iter().zip(&packets) {
            // A row is the packet, without what only the packet by itself shows.
            let names = |packet: &Value| packet.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
            let long = names(packet).difference(&names(row)).cloned().collect::<Vec<_>>();
            assert_eq!(
                (long, names(row).is_subset(&names(packet))),
                (vec!["metadata".into(), "recipients".into()], true)
            );
            for (field, value) in row.as_object().unwrap() {
                let changes = ["status", "claimed_count", "claimed_amount", "best", "seed"];
                assert!(changes.contains(&&**field) || *value == packet[field], "{field}");
            }
            assert_eq!(row["seed"].is_string(), row["packet_id"] == taken);
            let (status, count, amount) = match &row["packet_id"] {
                id if *id == taken => ("sold_out", 2, row["total_amount"].clone()),
                id if *id == half => ("open", 1, other["amount"].clone()),
                _ => ("open", 0, json!(0)),
            };
            assert_eq!((&row["status"], &row["claimed_count"]), (&json!(status), &json!(count)));
            assert_eq!((&row["claimed_amount"], &row["refunded_amount"]), (&amount, &json!(0)));
        }
    }
    let page = api.get("/me/packets?limit=2").by("alice").await.expect(200);
    assert_eq!(page["totals"], json!({"count": 7, "amount": 721}));
}

#[tokio::test]
async fn grabbed_slips_are_listed_newest_packet_first_with_totals_over_all() {
    let api = Api::start().await;
    let mut grabs = Vec::new();
    for i in 0..7 {
        let body = with(random(1_000, 3), &json!({"greeting": format!("no {i}")}));
        let packet = api.packet("alice", &format!("k{i}"), &body).await;
        let grabbed = api.grab("bob", &packet).await.expect(200);
        grabs.push(json!({
            "packet_id": packet, "sender_id": "alice", "slip": grabbed["slip"], "amount": grabbed["amount"],
            "currency": "CNY", "grabbed_at": grabbed["grabbed_at"], "greeting": format!("no {i}")
        }));
    }
    grabs.sort_by_key(|claim| std::cmp::Reverse(text(&claim["packet_id"])));
    for limit in [1, 3, 7, 100] {
        assert_eq!(api.all("bob", "/me/claims", "claims", limit).await, grabs, "{limit}");
    }
    let sum: u64 = grabs.iter().map(|claim| claim["amount"].as_u64().unwrap()).sum();
    let page = api.get("/me/claims?limit=1").by("bob").await.expect(200);
    assert_eq!(page["totals"], json!({"count": 7, "amount": sum}));
    assert_eq!(page["claims"], json!([grabs[0]]));
    assert_eq!(api.balance("bob").await, i64::try_from(sum).unwrap());
    let alice: Value = api.get("/me/claims").by("alice").await.expect(200);
    assert_eq!(alice["claims"], json!([]));
}

#[tokio::test]
async fn a_sent_packet_shows_the_senders_own_slip() {
    let api = Api::start().await;
    let mut slips = Vec::new();
    for (key, body) in [("open", random(1_000, 5)), ("over", with(random(1_000, 5), &json!({"expires_in_s": 1})))] {
        let packet = api.packet("alice", key, &body).await;
        let grabbed = api.grab("alice", &packet).await.expect(200);
        api.grab("bob", &packet).await;
        slips.push((packet, grabbed));
    }
    api.until("alice", &slips[1].0, "settled").await;
    for _ in 0..2 {
        let rows = api.all("alice", "/me/packets", "packets", 1).await;
        for (packet, grabbed) in &slips {
            let row = rows.iter().find(|row| row["packet_id"] == *packet).unwrap();
            for field in ["slip", "amount", "currency", "grabbed_at"] {
                assert_eq!(row["mine"][field], grabbed[field], "{field}");
            }
            let view = api.view("alice", packet).await.expect(200);
            assert_eq!((&row["mine"], &row["best"], &row["seed"]), (&view["mine"], &view["best"], &view["seed"]));
        }
        // Also from the ledger only.
        api.flush().await;
    }
}
