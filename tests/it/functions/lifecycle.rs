//! The life of a process: its credentials, users who ask too often, its end, and a freeze between two calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Response;
use redis::cmd;
use shared::crash::{LAST_WORDS, VARIABLE};
use shared::redis::test_proxy::Proxy;
use tests::relay::{Relay, stand_in};

use super::*;

/// The first call after a freeze must be answered within this time.
const THAWED_WITHIN: Duration = Duration::from_secs(1);
/// Number of freezes. One of them has to pass, since other work on the machine may delay some.
const FREEZES: usize = 6;
/// Texts of answers that reached neither store.
const NOT_REACHED: [u64; 2] = [500, 503];

/// Whether a function's answer to its sample event used its stores.
fn is_answered(name: &str, answer: &Value) -> bool {
    if SCHEDULED.contains(&name) {
        return answer.get("errorType").is_none() && answer.get("outbox_left") != Some(&Value::Null);
    }
    answer["statusCode"].as_u64().is_some_and(|status| !NOT_REACHED.contains(&status))
}

#[tokio::test]
async fn a_user_who_asks_too_often_waits_and_nobody_else_does() {
    let stores = Stores::start().await;
    let packet = stores.packet_of_one_slip().await;
    let (grab, view) =
        (stores.function("grab", &[("USER_GRABS", "2")]).await, stores.function("view", &[("USER_RATE", "1")]).await);
    for _ in 0..2 {
        grab.answer(&grab_of(&packet, "bob")).await.expect(200);
    }
    let refused = grab.answer(&grab_of(&packet, "bob")).await;
    refused.refused(429, "too-many-requests");
    assert_eq!(refused.json()["limit"], json!({"rule": "grabs-a-minute", "value": 2}));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    grab.answer(&grab_of(&packet, "carol")).await.expect(200);
    let mut for_bob = grab_of(&packet, "bob");
    for_bob["rawPath"] = json!(format!("/users/bob/packets/{packet}/grab"));
    for_bob["requestContext"]["authorizer"] = sample("wallet", "")["requestContext"]["authorizer"].clone();
    for _ in 0..3 {
        grab.answer(&for_bob).await.expect(200);
    }
    let looks = futures::stream::iter(0..20).then(async |_| view.answer(&sample("view", &packet)).await.status);
    let looks: BTreeSet<u16> = looks.collect().await;
    assert_eq!(looks, [200, 429].into());
}

#[tokio::test]
async fn a_grab_whose_process_dies_after_its_commit_is_answered_by_the_next_one() {
    let stores = Stores::start().await;
    let packet = stores.packet_of_one_slip().await;
    let doomed = stores.function("grab", &[(VARIABLE, "grab.after_claim=1")]).await;
    let event = grab_of(&packet, "bob");
    let nothing = doomed.invoke(event.to_string().as_bytes()).await;
    assert!(nothing["errorType"].is_string(), "{nothing}");
    assert!(doomed.log().contains(&format!("{LAST_WORDS}grab.after_claim")), "{}", doomed.log());
    let answer = stores.function("grab", &[]).await.answer(&event).await.expect(200);
    assert_eq!((&answer["outcome"], &answer["replayed"]), (&json!("grabbed"), &json!(true)));
}

/// An event that needs the stores and little else; the duration of a whole run of settle does not matter here.
fn small_event(name: &str) -> String {
    if name == "settle" { r#"{"partitions": [0, 0]}"#.to_owned() } else { sample(name, PLACEHOLDER).to_string() }
}

/// Freezes `function`, runs `cut`, and calls the function again.
async fn survives_a_freeze(name: &str, function: &Function, cut: impl AsyncFn()) {
    let event = small_event(name);
    let mut tried = Vec::new();
    for _ in 0..FREEZES {
        poll("an answer", async || is_answered(name, &function.invoke(event.as_bytes()).await).then_some(())).await;
        let process = function.process();
        function.freeze();
        cut().await;
        function.thaw();
        let thawed = Instant::now();
        let answer = function.invoke(event.as_bytes()).await;
        let took = thawed.elapsed();
        assert_eq!(function.process(), process, "{name}: the process continues");
        if is_answered(name, &answer) && took < THAWED_WITHIN {
            return;
        }
        tried.push((took, answer));
    }
    panic!("{name}: durations and answers after each freeze: {tried:?} {}", function.log());
}

#[tokio::test]
async fn a_thawed_function_answers_at_once_although_its_connections_were_cut() {
    let stores = Stores::start().await;
    let relay = Relay::start(stores.dynamodb.url()).await;
    for name in BOTH_STORES.into_iter().chain(LEDGER_ALONE) {
        let function = stores.function(name, &[("AWS_ENDPOINT_URL_DYNAMODB", &relay.url())]).await;
        survives_a_freeze(name, &function, async || {
            relay.cut();
            let () = stores.redis.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_thawed_function_answers_at_once_although_its_connection_went_mute() {
    let stores = Stores::start().await;
    let proxy = Proxy::start(stores.redis.port()).await;
    for name in BOTH_STORES {
        // A deployed function's store timeout is part of what the first call takes.
        let function =
            stores.function(name, &[("REDIS_URL", &proxy.url()), ("REDIS_RESPONSE_TIMEOUT_MS", "500")]).await;
        survives_a_freeze(name, &function, async || proxy.mute_open_connections()).await;
    }
}

#[tokio::test]
async fn a_function_without_credentials_in_its_variables_gets_them_from_its_container() {
    let (stores, asked) = (Stores::start().await, Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&asked);
    // A container's endpoint on loopback.
    let address = stand_in(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let credentials = json!({
            "AccessKeyId": "id", "SecretAccessKey": "key", "Token": "token", "Expiration": "2100-01-01T00:00:00Z",
        });
        let answer = Response::builder().header("content-type", "application/json");
        let answer = answer.body(credentials.to_string().into()).unwrap();
        async move { answer }
    });
    let url = format!("http://{}/credentials", address.await);
    let no_variables = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    let [key, secret] = no_variables;
    let function = stores.function("wallet", &[key, secret, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]).await;
    function.answer(&sample("wallet", "")).await.expect(201);
    let first = asked.load(Ordering::SeqCst);
    function.answer(&sample("wallet", "")).await.expect(200);
    // If an answer is late, the first call asks again.
    assert_eq!(asked.load(Ordering::SeqCst), first, "credentials are fetched once until they expire");

    let function = stores.function("wallet", &no_variables).await;
    let answer = function.invoke(sample("wallet", "").to_string().as_bytes()).await;
    assert_eq!(answer["statusCode"], 503, "without credentials the ledger is unreachable: {answer}");
}
