//! Slips that are not grabbed in time are refunded.

use serde_json::json;

use super::api::{Api, random, with};

#[tokio::test]
async fn undecided_slips_are_refunded_once() {
    let api = Api::start().await;
    let body = with(random(1_000, 4), &json!({"expires_in_s": 5}));
    let packet = api.packet("alice", "k", &body).await;
    let grabbed = api.grab("bob", &packet).await.expect(200);
    let open = api.view("alice", &packet).await.expect(200);
    assert_eq!((&open["status"], &open["best"], &open["seed"]), (&json!("open"), &json!(null), &json!(null)));

    let expired = api.until("alice", &packet, "expired").await;
    assert_eq!(expired["refunded_amount"], 0);
    assert_eq!((&expired["best"], &expired["seed"]), (&json!(null), &json!(null)), "slips are undecided");
    assert_eq!(api.grab("carol", &packet).await.expect(200), json!({"outcome": "expired", "packet_id": packet}));

    let settled = api.until("alice", &packet, "settled").await;
    let back = 1_000 - grabbed["amount"].as_i64().unwrap();
    assert_eq!(settled["refunded_amount"], back);
    assert_eq!(settled["best"], json!({"user_id": "bob", "amount": grabbed["amount"]}));
    assert!(settled["seed"].is_string());
    assert_eq!((&settled["claimed_count"], &settled["claimed_amount"]), (&json!(1), &grabbed["amount"]));
    assert_eq!(api.balance("alice").await, back);
    let books = api.books("alice").await;
    let report = api.settle().await;
    for (field, nothing) in report.as_object().unwrap() {
        assert_eq!(*nothing, 0, "{field}");
    }
    assert_eq!(api.books("alice").await, books);
    let row = &books["packets"]["packets"][0];
    assert_eq!((&row["status"], &row["refunded_amount"]), (&json!("settled"), &json!(back)));
    assert_eq!(books["packets"]["totals"], json!({"count": 1, "amount": 1_000}), "gross of refunds");
}

#[tokio::test]
async fn a_packet_without_claims_has_no_best() {
    let api = Api::start().await;
    let body = json!({"split": "equal", "total_amount": 2_000, "count": 4, "expires_in_s": 1});
    let packet = api.packet("alice", "k", &body).await;
    let settled = api.until("bob", &packet, "settled").await;
    assert_eq!((&settled["best"], &settled["mine"]), (&json!(null), &json!(null)));
    assert!(settled["seed"].is_string());
    assert_eq!(settled["refunded_amount"], 2_000);
    assert_eq!(api.balance("alice").await, 2_000);
    let movements = api.all("", "/wallets/alice/movements", "movements", 100).await;
    let refund = movements.iter().find(|movement| movement["kind"] == "refund").unwrap();
    assert_eq!(refund["packet_id"], packet);
    assert_eq!(refund["id"], format!("{packet}-0"));
}

#[tokio::test]
async fn a_report_counts_the_work_of_its_run() {
    let api = Api::start().await;
    let body = with(random(1_000, 4), &json!({"expires_in_s": 1}));
    let packet = api.packet("alice", "k", &body).await;
    api.packet("alice", "k-2", &random(1_000, 4)).await;
    let report = shared::redis::test_server::poll("the refund", async || {
        let report = api.settle().await;
        (report["refunded_packets"] != 0).then_some(report)
    })
    .await;
    assert_eq!(
        report,
        json!({
            "persisted": 0, "parked": 0, "refunded_packets": 1, "refunded_slips": 4, "refunded_amount": 1_000,
            "outbox_left": 0, "oldest_outbox_ms": 0, "due_left": 0, "oldest_due_s": 0
        })
    );
    assert_eq!(api.view("alice", &packet).await.expect(200)["status"], "settled");
}
