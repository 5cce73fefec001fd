//! The operator's routes.

use jiff::tz::{TimeZone, offset};
use serde_json::{Value, json};

use super::api::{Api, number, random, text, with};

const MOST: u64 = 1_000_000_000_000;

fn wallet(user: &str, balance: u64) -> Value {
    json!({"user_id": user, "balance": balance, "currency": "CNY"})
}

#[tokio::test]
async fn each_id_moves_money_once() {
    let api = Api::start().await;
    let put = |path: &str, amount: u64| api.put(format!("/wallets/alice/{path}")).json(&json!({"amount": amount}));
    assert_eq!(put("deposits/d-1", 500).await.expect(201), wallet("alice", 500));
    assert_eq!(
        put("withdrawals/d-1", 200).await.expect(201),
        wallet("alice", 300),
        "deposits and withdrawals have separate ids"
    );
    // A repeat shows the current balance.
    assert_eq!(put("deposits/d-1", 500).await.expect(200), wallet("alice", 300));
    assert_eq!(put("withdrawals/d-1", 200).await.expect(200), wallet("alice", 300));
    for path in ["deposits/d-1", "withdrawals/d-1"] {
        put(path, 501).await.refused(422, "idempotency-key-reused");
    }
    // An id that was refused for insufficient balance is free. A used id stays used, even when the wallet is empty.
    put("withdrawals/w-2", 301).await.refused(402, "insufficient-balance");
    assert_eq!(put("withdrawals/w-2", 300).await.expect(201), wallet("alice", 0));
    put("withdrawals/w-2", 301).await.refused(422, "idempotency-key-reused");
    assert_eq!(put("withdrawals/w-2", 300).await.expect(200), wallet("alice", 0));
    put("withdrawals/w-3", 1).await.refused(402, "insufficient-balance");
    // Each user has their own ids.
    let other = api.put("/wallets/bob/deposits/d-1").json(&json!({"amount": 1})).await;
    assert_eq!(other.expect(201), wallet("bob", 1));
    api.put("/wallets/zoe/withdrawals/w").json(&json!({"amount": 1})).await.refused(402, "insufficient-balance");
    assert_eq!(api.get("/wallets/alice").await.expect(200), wallet("alice", 0));
    assert_eq!(api.get("/wallets/zoe").await.expect(200), wallet("zoe", 0));
}

#[tokio::test]
async fn fifty_deposits_at_once_under_one_id_are_one() {
    let api = Api::start().await;
    for kind in ["deposits", "withdrawals"] {
        api.fund("alice", 1_000).await;
        let before = api.balance("alice").await;
        let puts = (0..50).map(|_| async {
            api.put(format!("/wallets/alice/{kind}/same")).json(&json!({"amount": 10})).await.status
        });
        let statuses = futures::future::join_all(puts).await;
        assert_eq!(statuses.iter().filter(|&&status| status == 201).count(), 1, "{kind}");
        assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 49, "{kind}");
        assert_eq!((api.balance("alice").await - before).abs(), 10);
    }
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
    assert_eq!(out.expect(201), wallet("rich", 1_000 * MOST - 1));
    assert_eq!(put(1_000, 2).await.refused(400, "invalid-request"), ["amount"], "its id is free");
    assert_eq!(put(1_000, 1).await.expect(201), wallet("rich", 1_000 * MOST));
    assert_eq!(put(999, MOST).await.expect(200), wallet("rich", 1_000 * MOST), "a replay does not overfill");
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
    let late = send("k-2", json!({"expires_in_s": 5})).await;
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
    let put = |id: String| api.put(format!("/wallets/alice/{id}")).json(&json!({"amount": 10}));
    for i in 0..4 {
        put(format!("deposits/d{i}")).await.expect(201);
        put(format!("withdrawals/w{i}")).await.expect(201);
    }
    let packet = api.packet("alice", "k", &random(100, 2)).await;
    api.grab("alice", &packet).await.expect(200);
    let list = async |query: &str| {
        let page = api.get(format!("/wallets/alice/movements?limit=100&{query}")).await.expect(200);
        let mine = api.get(format!("/me/movements?limit=100&{query}")).by("alice").await.expect(200);
        let rows = page["movements"].as_array().unwrap().clone();
        let without: Vec<Value> = rows.iter().cloned().map(without_signer).collect();
        assert_eq!((&page["next_cursor"], mine["movements"].as_array().unwrap()), (&Value::Null, &without), "{query}");
        rows
    };
    let all = list("").await;
    assert_eq!(all.len(), 11);
    for kind in ["claim", "deposit", "refund", "sent", "withdrawal"] {
        let expected: Vec<&Value> = all.iter().filter(|row| row["kind"] == kind).collect();
        assert_eq!(list(&format!("kind={kind}")).await.iter().collect::<Vec<_>>(), expected, "{kind}");
    }
    // Any time parts the list in two: what is earlier, and what is not.
    for row in &all {
        let at = text(&row["at"]);
        let (from, to) = (list(&format!("from={at}")).await, list(&format!("to={at}")).await);
        assert!(from.contains(row) && from.iter().all(|row| text(&row["at"]) >= at), "{at}");
        assert_eq!([from, to].concat(), all, "{at}");
        assert_eq!(list(&format!("from={at}&to={at}")).await, [] as [Value; 0], "no time lies in between");
        // The same time, written another way.
        let millis = text(&row["at"]).parse::<jiff::Timestamp>().unwrap();
        let there = millis.to_zoned(TimeZone::fixed(offset(8))).strftime("%Y-%m-%dT%H:%M:%S%.3f%%2B08:00").to_string();
        assert_eq!(list(&format!("from={there}&to=2100-01-01T00:00:00Z")).await, list(&format!("from={at}")).await);
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

#[tokio::test]
async fn pages_of_movements_show_what_was_there_once_while_more_are_made() {
    let api = Api::start().await;
    let put = async |id: &str| {
        api.put(format!("/wallets/alice/{id}")).json(&json!({"amount": 10})).await.expect(201);
    };
    for i in 0..10 {
        put(&format!("deposits/d{i}")).await;
    }
    let there = api.all("", "/wallets/alice/movements", "movements", 100).await;
    let (mut shown, mut cursor) = (Vec::new(), String::new());
    for i in 0.. {
        let page = api.get(format!("/wallets/alice/movements?limit=3{cursor}")).await.expect(200);
        shown.extend(page["movements"].as_array().unwrap().iter().cloned());
        let Value::String(next) = &page["next_cursor"] else { break };
        cursor = format!("&cursor={next}");
        put(&format!("withdrawals/w{i}")).await;
    }
    assert_eq!(shown, there);
}
