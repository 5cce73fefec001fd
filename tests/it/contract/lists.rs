//! Lists: `limit` and `cursor` of each, `/me/wallet`, `/me/packets`, `/me/claims`, and `/packets/{packet_id}/claims?order=newest`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api::{Api, random, text, with};

struct List {
    /// With the beginning of the query.
    path: String,
    user: &'static str,
    cursor: String,
}

/// Every list, each with a cursor of its own.
async fn lists(api: &Api) -> Vec<List> {
    let mut packets = Vec::new();
    for i in 0..3 {
        let packet = api.packet("alice", &format!("k{i}"), &random(1_000, 5)).await;
        for user in ["bob", "carol", "alice"] {
            api.grab(user, &packet).await.expect(200);
        }
        packets.push(packet);
    }
    for key in ["r1", "r2", "r3"] {
        for reference in ["order-17", "order-18"] {
            let body = with(random(10, 1), &json!({"reference": reference}));
            api.packet("carol", &format!("{key}-{reference}"), &body).await;
        }
    }
    let mut lists = Vec::new();
    for (path, user) in [
        (format!("/packets/{}/claims", packets[0]), "alice"),
        (format!("/packets/{}/claims", packets[1]), "alice"),
        (format!("/packets/{}/claims?order=newest", packets[0]), "alice"),
        ("/me/packets".to_owned(), "alice"),
        ("/me/claims".to_owned(), "bob"),
        ("/wallets/alice/movements".to_owned(), ""),
        ("/wallets/alice/movements?kind=claim".to_owned(), ""),
        ("/wallets/alice/movements?from=2026-01-01T00:00:00Z".to_owned(), ""),
        ("/users/carol/claims".to_owned(), ""),
        (format!("/users/carol/packets/{}/claims", packets[2]), ""),
        ("/operator/packets?reference=order-17".to_owned(), ""),
        ("/operator/packets?reference=order-18".to_owned(), ""),
        ("/operator/packets?sender_id=alice".to_owned(), ""),
        ("/operator/packets?status=open".to_owned(), ""),
    ] {
        let path = if path.contains('?') { format!("{path}&") } else { format!("{path}?") };
        let page = api.get(format!("{path}limit=1")).by(user).await.expect(200);
        lists.push(List { path, user, cursor: text(&page["next_cursor"]) });
    }
    lists
}

#[tokio::test]
async fn a_cursor_must_come_from_the_same_list() {
    let api = Api::with_everything().await;
    let lists = lists(&api).await;
    for (i, list) in lists.iter().enumerate() {
        let ask = |cursor: &str| api.get(format!("{}limit=1&cursor={cursor}", list.path)).by(list.user);
        assert!(list.cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        ask(&list.cursor).await.expect(200);
        let odd = "%20 ! = %00 %ff null undefined 0 A AA AAAA Mw Mw== LTE ____ %2B%2F a+b a/b QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB \
            MDAwMDAw V0FMTEVU TUVUQQ S0VZI2s";
        let mut bad: Vec<String> = odd.split(' ').chain([""]).map(str::to_owned).collect();
        for (j, other) in lists.iter().enumerate() {
            if i != j {
                bad.push(other.cursor.clone());
            }
        }
        bad.extend((1..list.cursor.len()).map(|end| list.cursor[..end].to_owned()));
        bad.extend((1..list.cursor.len()).map(|start| list.cursor[start..].to_owned()));
        for extra in ["=", "==", "A", "AAAA", "%20", "%00"] {
            bad.push(format!("{}{extra}", list.cursor));
        }
        bad.push(swap_case(&list.cursor));
        bad.push("A".repeat(5_000));
        for cursor in bad {
            let answer = ask(&cursor).await;
            assert_eq!(answer.refused(400, "invalid-request"), ["cursor"], "{} {cursor}", list.path);
        }
        let twice = ask(&format!("{0}&cursor={0}", list.cursor)).await;
        assert_eq!(twice.refused(400, "invalid-request"), ["cursor"]);
    }
}

fn swap_case(text: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    text.chars().map(swap).collect()
}

#[tokio::test]
async fn a_cursor_still_fits_when_the_list_has_grown() {
    let api = Api::start().await;
    let list = &lists(&api).await[3];
    let ask = || api.get(format!("{}cursor={}", list.path, list.cursor)).by(list.user);
    let before = ask().await.expect(200);
    api.packet("alice", "new", &with(random(10, 1), &json!({"greeting": "new"}))).await;
    let after = ask().await.expect(200);
    assert_eq!(after["packets"], before["packets"], "new rows come earlier");
    assert_eq!(after["totals"]["count"], 4);
}

#[tokio::test]
async fn a_user_never_seen_before_has_nothing() {
    let api = Api::start().await;
    let nothing = json!({"count": 0, "amount": 0});
    let get = |path: &'static str| api.get(path).by("zoe");
    assert_eq!(
        get("/me/wallet").await.expect(200),
        json!({"user_id": "zoe", "balance": 0, "pending": 0, "currency": "CNY"})
    );
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
            assert_eq!((long, names(row).is_subset(&names(packet))), (vec!["recipients".into()], true));
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
async fn the_newest_claims_come_first_and_after_a_place_only_newer_ones() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(10_000, 25), &json!({"expires_in_s": 5}))).await;
    let users: Vec<String> = (0..12).map(|i| format!("user{i}")).collect();
    for user in &users {
        api.grab(user, &packet).await.expect(200);
    }
    // Pages of any size are pieces of one list, for every viewer, and by the operator's route too.
    let (path, by_operator) = (format!("/packets/{packet}/claims"), format!("/users/zoe/packets/{packet}/claims"));
    let all = api.all("alice", &format!("{path}?order=newest"), "claims", 100).await;
    assert!(all.iter().rev().map(|row| text(&row["user_id"])).eq(users), "{all:?}");
    for limit in [1, 7, 12] {
        assert_eq!(api.all("", &format!("{by_operator}?order=newest"), "claims", limit).await, all, "{limit}");
    }
    // A `next_cursor` is a place too.
    let page = api.get(format!("{path}?order=newest&limit=10")).by("bob").await.expect(200);
    let since = api.get(format!("{path}?after={}", text(&page["next_cursor"]))).by("bob").await.expect(200);
    assert_eq!(since["claims"].as_array().unwrap()[..], all[..9]);

    // Once it is settled, the list is the same.
    api.until("zoe", &packet, "settled").await;
    let settled = api.all("zoe", &format!("{path}?order=newest"), "claims", 100).await;
    let without_best =
        |rows: &[Value]| rows.iter().map(|row| with(row.clone(), &json!({"best": null}))).collect::<Vec<_>>();
    assert_eq!(without_best(&settled), without_best(&all));
    assert_eq!(settled.iter().filter(|row| row["best"] == true).count(), 1);
}

#[tokio::test]
async fn an_order_or_a_place_that_is_none_is_refused() {
    let api = Api::start().await;
    let [packet, other] =
        [api.packet("alice", "k", &random(100, 5)).await, api.packet("alice", "l", &random(100, 5)).await];
    for packet in [&packet, &other] {
        for user in ["a", "b"] {
            api.grab(user, packet).await.expect(200);
        }
    }
    let ask = |packet: &str, query: &str| api.get(format!("/packets/{packet}/claims?{query}")).by("alice");
    let [by_slip, newest] = ["slip", "newest"].map(|order| format!("order={order}&limit=1"));
    let (by_slip, newest) = (ask(&packet, &by_slip).await.expect(200), ask(&packet, &newest).await.expect(200));
    assert_eq!(by_slip.get("newest_cursor"), None);
    let [slip, next, place] = [&by_slip["next_cursor"], &newest["next_cursor"], &newest["newest_cursor"]].map(text);
    for (query, fields) in [
        ("order=", &["order"][..]),
        ("order=Newest", &["order"]),
        ("order=newest&order=newest", &["order"]),
        (&format!("order=newest&after={slip}"), &["after"]),
        (&format!("order=newest&cursor={slip}"), &["cursor"]),
        (&format!("order=slip&cursor={next}"), &["cursor"]),
        (&format!("cursor={next}"), &["cursor"]),
        (&format!("order=slip&after={place}"), &["after"]),
        (&format!("after={place}&after={place}"), &["after"]),
        ("order=x&after=!&limit=0&cursor=!", &["order", "after", "limit", "cursor"]),
    ] {
        assert_eq!(ask(&packet, query).await.refused(400, "invalid-request"), fields, "{query}");
    }
    let of_another = ask(&other, &format!("after={place}")).await;
    assert_eq!(of_another.refused(400, "invalid-request"), ["after"]);
    ask(&packet, &format!("after={place}")).await.expect(200);
}
