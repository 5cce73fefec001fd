//! The requests that `CodeDeploy`'s function sends to each new version, before users reach it. It expects what the functions answer, and they
//! change nothing.

use super::*;

/// Whether the answer has all that is expected of it, as `scripts/aws/pre_traffic/index.py` judges it.
fn is_as_expected(answer: &Value, expected: &Value) -> bool {
    expected.as_object().unwrap().iter().all(|(key, value)| match (key.as_str(), value) {
        ("body", Value::Object(fields)) => {
            let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
            fields.iter().all(|(name, field)| body[name] == *field)
        }
        _ => answer[key] == *value,
    })
}

#[tokio::test]
async fn each_new_version_answers_as_codedeploys_function_expects_and_changes_nothing() {
    let text = std::fs::read_to_string(repository("scripts/aws/pre_traffic/requests.json")).unwrap();
    let requests: Value = serde_json::from_str(&text).unwrap();
    let stores = Stores::start().await;
    let nowhere = "http://127.0.0.1:1";
    let of_events = [
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", nowhere),
        ("AWS_ENDPOINT_URL_SQS", nowhere),
        ("WEBHOOK_URL", "https://app.example/webhooks"),
        ("WEBHOOK_SECRET", "webhooks"),
        ("WEBHOOK_QUEUE", nowhere),
        ("WEBHOOK_DEAD_LETTERS", nowhere),
        ("EVENT_TARGET", nowhere),
        ("EVENT_DEAD_LETTERS", nowhere),
    ];
    for (name, request) in requests.as_object().unwrap() {
        let program = name.to_lowercase();
        let program = if program.starts_with("publish") { "publish" } else { &program };
        let function = stores.function(program, &of_events).await;
        let answer = function.invoke(request["event"].to_string().as_bytes()).await;
        assert!(is_as_expected(&answer, &request["answer"]), "{name}: {answer} {}", function.log());
        // The same again, as the function tries it after a failure.
        let again = function.invoke(request["event"].to_string().as_bytes()).await;
        assert!(is_as_expected(&again, &request["answer"]), "{name}: {again}");
        // Without its stores a version must not pass, unless it needs none for this.
        if !["notify", "publish"].contains(&program) {
            let lost = [("AWS_ENDPOINT_URL_DYNAMODB", nowhere), ("REDIS_URL", "redis://127.0.0.1:1")];
            let lost = stores.function(program, &lost).await.invoke(request["event"].to_string().as_bytes()).await;
            assert!(!is_as_expected(&lost, &request["answer"]), "{name}: {lost}");
        }
    }
    let items = dynamodb_at(&stores.dynamodb.url()).scan().table_name(TABLE).send().await.unwrap().items.unwrap();
    assert!(items.is_empty(), "{items:?}");
}

/// A run that only looks counts what is due, and leaves it.
#[tokio::test]
async fn a_look_of_settle_refunds_nothing() {
    let stores = Stores::start().await;
    let [wallet, send] = [stores.function("wallet", &[]).await, stores.function("send", &[]).await];
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let mut event = sample("send", "");
    event["body"] = r#"{"split":"equal","total_amount":100,"count":1,"expires_in_s":1}"#.into();
    send.answer(&event).await.expect(201);
    let settle = stores.function("settle", &[]).await;
    let looked = poll("the packet is due", async || {
        let report = settle.invoke(br#"{"look": true}"#).await;
        (report["due_left"] == 1).then_some(report)
    })
    .await;
    assert_eq!((&looked["refunded_packets"], &looked["outbox_left"]), (&json!(0), &json!(0)), "{looked}");
    let refunded = settle.invoke(b"{}").await;
    assert_eq!((&refunded["refunded_packets"], &refunded["due_left"]), (&json!(1), &json!(0)), "{refunded}");
}
