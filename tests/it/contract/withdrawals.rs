//! Money out in two steps: reserved, then paid out or back.

use local::Options;
use serde_json::{Value, json};

use super::api::{Api, Call, text};
use super::coverage::{Handlers, token};

async fn start() -> Api {
    let api = Api::start_with(Options { user_withdrawals: true, ..Options::ephemeral() }).await;
    api.fund("alice", 1_000).await;
    api
}

fn path(id: &str) -> String {
    format!("/wallets/alice/withdrawals/{id}")
}

fn reserve<'a>(api: &'a Api, id: &str, amount: u64) -> Call<'a> {
    api.put(path(id)).json(&json!({"amount": amount, "pending": true}))
}

fn end<'a>(api: &'a Api, id: &str, how: &str) -> Call<'a> {
    api.post(format!("{}/{how}", path(id)))
}

/// What the wallet says, and what its movements sum up to.
async fn money(api: &Api) -> [i64; 3] {
    let wallet = api.get("/me/wallet").by("alice").await.expect(200);
    let movements = api.get("/me/movements?limit=100").by("alice").await.expect(200);
    let sum = movements["movements"].as_array().unwrap().iter().map(|one| one["amount"].as_i64().unwrap()).sum();
    [wallet["balance"].as_i64().unwrap(), wallet["pending"].as_i64().unwrap(), sum]
}

#[tokio::test]
async fn a_withdrawal_is_reserved_and_then_posted_or_voided_once() {
    let api = start().await;
    let noted = json!({"amount": 300, "pending": true, "note": "to your bank"});
    let made = api.put(path("w1")).json(&noted).await.expect(201);
    let shown = json!({
        "user_id": "alice", "withdrawal_id": "w1", "amount": 300, "status": "pending", "posted_amount": null,
        "requested_by": "operator", "note": "to your bank", "void_reason": null, "at": made["at"], "ended_at": null, "by": made["by"],
        "balance": 700, "pending": 300, "currency": "CNY"
    });
    assert_eq!(made, shown);
    assert_eq!(api.put(path("w1")).json(&noted).await.expect(200), made);
    assert_eq!(api.get(path("w1")).await.expect(200), made);
    for other in
        [json!({"amount": 300}), json!({"amount": 300, "pending": true}), json!({"amount": 299, "pending": true})]
    {
        api.put(path("w1")).json(&other).await.refused(422, "idempotency-key-reused");
    }
    assert_eq!(money(&api).await, [700, 300, 700]);

    let less = json!({"amount": 200});
    let posted = end(&api, "w1", "post").json(&less).await.expect(200);
    assert_eq!((&posted["status"], &posted["posted_amount"]), (&json!("posted"), &json!(200)));
    assert!(posted["ended_at"].is_string() && text(&posted["ended_by"]).starts_with("arn:"));
    assert_eq!(end(&api, "w1", "post").json(&less).await.expect(200), posted);
    end(&api, "w1", "post").await.refused(409, "withdrawal-posted");
    end(&api, "w1", "void").await.refused(409, "withdrawal-posted");
    assert_eq!(money(&api).await, [800, 0, 800]);

    reserve(&api, "w2", 500).await.expect(201);
    let voided = end(&api, "w2", "void").await.expect(200);
    assert_eq!((&voided["status"], &voided["posted_amount"]), (&json!("voided"), &json!(0)));
    assert_eq!(end(&api, "w2", "void").json(&json!({})).await.expect(200), voided);
    end(&api, "w2", "post").await.refused(409, "withdrawal-voided");
    assert_eq!(end(&api, "w2", "void").json(&json!({"amount": 1})).await.refused(400, "invalid-request"), ["amount"]);
    assert_eq!(end(&api, "w2", "post").json(&json!({"amount": 501})).await.refused(400, "invalid-request"), ["amount"]);

    let at_once = api.put(path("w3")).json(&json!({"amount": 100})).await.expect(201);
    assert_eq!((&at_once["status"], &at_once["posted_amount"]), (&json!("posted"), &json!(100)));
    end(&api, "w3", "post").await.expect(200);
    end(&api, "w3", "void").await.refused(409, "withdrawal-posted");
    assert_eq!(money(&api).await, [700, 0, 700]);

    let movements = api.get("/wallets/alice/movements").await.expect(200);
    let rows: Vec<_> = movements["movements"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> =
        rows.iter().map(|row| (text(&row["kind"]), text(&row["id"]), row["amount"].as_i64().unwrap())).collect();
    let expected =
        [("withdrawal", "w3", -100), ("return", "w2", 500), ("withdrawal", "w2", -500), ("return", "w1", 100)];
    assert_eq!(kinds[..4], expected.map(|(kind, id, amount)| (kind.to_owned(), id.to_owned(), amount)));
    assert_eq!((&rows[2]["status"], &rows[4]["note"]), (&json!("voided"), &json!("to your bank")));
    assert_eq!(rows[1].get("status"), None, "only a withdrawal has one");
}

/// Left out, the amount is all of it. A client that does not know its amount must not pay all.
#[tokio::test]
async fn a_post_of_a_null_amount_pays_nothing() {
    let api = start().await;
    reserve(&api, "w1", 300).await.expect(201);
    for how in ["post", "void"] {
        let null = end(&api, "w1", how).body(r#"{"amount": null}"#).await;
        assert_eq!(null.refused(400, "invalid-request"), ["amount"], "{how}");
    }
    assert_eq!(money(&api).await, [700, 300, 700]);
    // No body, and one that is null, leave it out.
    let posted = end(&api, "w1", "post").body("null").await.expect(200);
    assert_eq!((&posted["status"], &posted["posted_amount"]), (&json!("posted"), &json!(300)));
    assert_eq!(end(&api, "w1", "post").body("{}").await.expect(200), posted);
    reserve(&api, "w2", 100).await.expect(201);
    end(&api, "w2", "void").body(" null\n").await.expect(200);
    assert_eq!(money(&api).await, [700, 0, 700]);
}

#[tokio::test]
async fn a_void_tells_the_user_its_reason() {
    let api = start().await;
    let body = json!({"id": "w1", "amount": 300});
    let asked = api.post("/me/withdrawals").by("alice").json(&body).await.expect(201);
    assert_eq!(asked["void_reason"], json!(null));
    let void = |reason: Value| end(&api, "w1", "void").json(&json!({"reason": reason}));
    for bad in ["", "a\nb", &"é".repeat(201)] {
        assert_eq!(void(json!(bad)).await.refused(400, "invalid-request"), ["reason"], "{bad:?}");
    }
    assert_eq!(end(&api, "w1", "post").json(&json!({"reason": ""})).await.refused(400, "invalid-request"), ["reason"]);
    let reason = json!("the bank does not know this account");
    let voided = void(reason.clone()).await.expect(200);
    assert_eq!(voided["void_reason"], reason);
    for again in [void(json!("another")), void(json!(null)), end(&api, "w1", "void")] {
        assert_eq!(again.await.expect(200), voided, "it keeps its first reason");
    }
    assert_eq!(api.get(path("w1")).await.expect(200), voided);
    assert_eq!(api.post("/me/withdrawals").by("alice").json(&body).await.expect(200)["void_reason"], reason);
    let rows = api.get("/me/movements?kind=withdrawal").by("alice").await.expect(200);
    assert_eq!((&rows["movements"][0]["status"], &rows["movements"][0]["void_reason"]), (&json!("voided"), &reason));

    reserve(&api, "w2", 10).await.expect(201);
    assert_eq!(end(&api, "w2", "void").json(&json!({"reason": null})).await.expect(200)["void_reason"], json!(null));
}

#[tokio::test]
async fn a_user_asks_and_sees_how_it_ended() {
    let api = start().await;
    let ask =
        |id: &str, amount: u64| api.post("/me/withdrawals").by("alice").json(&json!({"id": id, "amount": amount}));
    let asked = ask("a1", 300).await.expect(201);
    assert_eq!((&asked["status"], &asked["requested_by"]), (&json!("pending"), &json!("user")));
    assert!(asked.get("by").is_none(), "nobody signed it");
    assert_eq!(ask("a1", 300).await.expect(200), asked);
    ask("a1", 301).await.refused(422, "idempotency-key-reused");
    // The operator's own of this id and amount would be another withdrawal: nobody must pay twice for it.
    reserve(&api, "a1", 300).await.refused(422, "idempotency-key-reused");
    ask("a2", 701).await.refused(402, "insufficient-balance");
    for id in ["a2", "a3"] {
        ask(id, 10).await.expect(201);
    }
    let refused = ask("a4", 10).await;
    refused.refused(409, "too-many-pending");
    assert_eq!(refused.json()["limit"], json!({"rule": "pending-withdrawals", "value": 3}));
    let listed = api.get("/operator/withdrawals?state=pending&limit=2").await.expect(200);
    let ids = |page: &Value| {
        page["withdrawals"].as_array().unwrap().iter().map(|row| text(&row["withdrawal_id"])).collect::<Vec<_>>()
    };
    assert_eq!(ids(&listed), ["a1", "a2"]);
    let next = api
        .get(format!("/operator/withdrawals?state=pending&limit=2&cursor={}", text(&listed["next_cursor"])))
        .await
        .expect(200);
    assert_eq!((ids(&next), &next["next_cursor"]), (vec!["a3".to_owned()], &Value::Null));
    // Each time makes a list of its own.
    let lists = ["", "before=2100-01-01T00:00:00.000Z&", "before=2100-01-01T00:00:00.001Z&"];
    for list in lists {
        let page = api.get(format!("/operator/withdrawals?{list}limit=2")).await.expect(200);
        for other in lists {
            let path = format!("/operator/withdrawals?{other}cursor={}", text(&page["next_cursor"]));
            let answer = api.get(path).await;
            if list == other {
                assert_eq!(ids(&answer.expect(200)), ["a3"]);
            } else {
                assert_eq!(answer.refused(400, "invalid-request"), ["cursor"], "{list} {other}");
            }
        }
    }
    let early = api.get(format!("/operator/withdrawals?before={}", text(&asked["at"]))).await.expect(200);
    assert!(ids(&early).is_empty());
    assert_eq!(api.get("/operator/withdrawals?state=posted").await.refused(400, "invalid-request"), ["user_id"]);

    end(&api, "a1", "post").await.expect(200);
    ask("a4", 10).await.expect(201);
    assert_eq!(ask("a1", 300).await.expect(200)["status"], "posted");
    api.put("/operator/users/alice/suspension").json(&json!({"reason": "reported"})).await.expect(200);
    ask("a5", 10).await.refused(403, "account-suspended");
    end(&api, "a2", "post").await.expect(200);
    end(&api, "a3", "void").await.expect(200);
    let statuses: Vec<_> = api.get("/me/movements?kind=withdrawal").by("alice").await.expect(200)["movements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (text(&row["id"]), text(&row["status"])))
        .collect();
    let expected = [("a4", "pending"), ("a3", "voided"), ("a2", "posted"), ("a1", "posted")];
    assert_eq!(statuses, expected.map(|(id, status)| (id.to_owned(), status.to_owned())));
}

#[tokio::test]
async fn no_user_asks_where_the_operator_does_not_let_them() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let ask = async || api.post("/me/withdrawals").by("alice").json(&json!({"id": "a", "amount": 1})).await;
    ask().await.refused(403, "forbidden");
    assert_eq!(api.get("/wallets/alice").await.expect(200)["balance"], 1_000);
}

#[tokio::test]
async fn a_user_asks_for_the_least_amount_or_more_and_the_operator_decides_for_themselves() {
    let api = start().await;
    let [any, ten] =
        ["1", "10"].map(|least| Handlers::over(&api, &[("USER_WITHDRAWALS", "true"), ("WITHDRAWAL_MIN", least)]));
    let ask = async |handlers: &Handlers, id: &str, amount: u64| {
        let body = json!({"id": id, "amount": amount}).to_string();
        handlers.answer(("POST", "/me/withdrawals"), token("alice"), &body).await
    };
    ask(&any, "before", 9).await.expect(201);
    let refused = ask(&ten, "a", 9).await;
    assert_eq!(refused.refused(400, "invalid-request"), ["amount"]);
    assert_eq!(refused.json()["errors"][0]["reason"], "must be an integer from 10 to 1000000000000");
    ask(&ten, "a", 10).await.expect(201);
    ask(&ten, "before", 9).await.expect(200);
    ask(&ten, "before", 8).await.refused(422, "idempotency-key-reused");
    let signed = json!({"iam": {"userArn": "arn:aws:iam::123456789012:user/ann"}});
    ten.answer(("PUT", "/wallets/alice/withdrawals/own"), signed, r#"{"amount":1}"#).await.expect(201);
}
