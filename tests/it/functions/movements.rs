//! Deposits: their limit, and who signed them.

use super::*;

/// A deposit of this amount by a user of the operator's account.
fn deposit(id: &str, amount: u64, by: &str) -> Value {
    let mut event = sample("wallet", "");
    event["rawPath"] = format!("/wallets/alice/deposits/{id}").into();
    event["requestContext"]["http"]["path"] = event["rawPath"].clone();
    event["requestContext"]["authorizer"]["iam"]["userArn"] = arn(by).into();
    event["body"] = json!({"amount": amount}).to_string().into();
    event
}

fn movements() -> Value {
    let mut event = deposit("", 1, "auditor");
    event["rawPath"] = "/wallets/alice/movements".into();
    event["requestContext"]["http"]["method"] = "GET".into();
    event.as_object_mut().unwrap().remove("body");
    event
}

fn arn(user: &str) -> String {
    format!("arn:aws:iam::123456789012:user/{user}")
}

#[tokio::test]
async fn one_deposit_has_a_limit() {
    let stores = Stores::start().await;
    let free = stores.function("wallet", &[]).await;
    free.answer(&deposit("early", 9_000, "ann")).await.expect(201);
    let limited = stores.function("wallet", &[("DEPOSIT_MAX", "5000")]).await;
    limited.answer(&deposit("most", 5_000, "ann")).await.expect(201);
    let above = limited.answer(&deposit("above", 5_001, "ann")).await;
    assert_eq!(above.refused(400, "invalid-request"), ["amount"]);
    assert!(above.describe().contains("must be an integer from 1 to 5000"), "{}", above.describe());
    // Its id stays free.
    limited.answer(&deposit("above", 1, "ann")).await.expect(201);
    // A deposit of before the limit was made, so its repeat is not refused.
    assert_eq!(limited.answer(&deposit("early", 9_000, "ann")).await.expect(200)["balance"], 14_001);
    limited.answer(&deposit("early", 9_001, "ann")).await.refused(422, "idempotency-key-reused");
    // A withdrawal has no such limit.
    let mut out = deposit("", 13_000, "ann");
    out["rawPath"] = "/wallets/alice/withdrawals/w".into();
    out["requestContext"]["http"]["path"] = out["rawPath"].clone();
    limited.answer(&out).await.expect(201);
}

#[tokio::test]
async fn a_movement_names_its_first_signer() {
    let stores = Stores::start().await;
    let wallet = stores.function("wallet", &[]).await;
    wallet.answer(&deposit("d", 500, "ann")).await.expect(201);
    wallet.answer(&deposit("d", 500, "bob")).await.expect(200);
    let listed = wallet.answer(&movements()).await.expect(200);
    assert_eq!(listed["movements"][0]["by"], arn("ann"));
    let log = wallet.log();
    assert!(log.contains(&arn("ann")) && log.contains(&arn("bob")), "each request is logged with its signer: {log}");

    // A signature without a principal is none.
    let mut nameless = deposit("n", 1, "ann");
    nameless["requestContext"]["authorizer"]["iam"].as_object_mut().unwrap().remove("userArn");
    wallet.answer(&nameless).await.refused(403, "forbidden");
}
