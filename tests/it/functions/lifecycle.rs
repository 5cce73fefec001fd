//! The life of a process: start, credentials, calls one after another and at once, its deadline, its end, and a freeze between two calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use http::Response;
use redis::cmd;
use shared::crash::{LAST_WORDS, VARIABLE};
use shared::redis::test_proxy::Proxy;
use tests::hot;
use tests::relay::{Relay, stand_in};

use super::logs::json_lines;
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
async fn one_start_serves_all_calls_until_the_process_ends() {
    let stores = Stores::start().await;
    for name in BOTH_STORES.into_iter().chain(LEDGER_ALONE) {
        let function = stores.function(name, &[]).await;
        let event = sample(name, PLACEHOLDER).to_string();
        let mut processes = Vec::new();
        for _ in 0..4 {
            let answer = function.invoke(event.as_bytes()).await;
            assert!(is_answered(name, &answer), "{name}: {answer}");
            processes.push(function.process().expect("a running function"));
        }
        processes.dedup();
        assert_eq!(processes.len(), 1, "{name}: {processes:?}");
        let starts = || function.log().matches("INIT START").count();
        assert_eq!(starts(), 1, "{name}: {}", function.log());

        function.kill();
        // The call that meets the dead process may fail. Lambda's clients retry it, or the next call succeeds.
        let answer = poll("a new process", async || {
            let answer = function.invoke(event.as_bytes()).await;
            answer.get("errorType").is_none().then_some(answer)
        })
        .await;
        assert!(is_answered(name, &answer), "{name}: {answer}");
        assert_ne!(function.process(), Some(processes[0]), "{name}");
    }
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
async fn a_start_without_redis_leaves_the_connection_to_the_request() {
    let mut stores = Stores::start().await;
    for name in BOTH_STORES {
        stores.redis.kill();
        let function = stores.function(name, &[]).await;
        // The emulator starts the process for its first event. Some of them need no Redis.
        function.invoke(small_event(name).as_bytes()).await;
        assert!(function.log().contains("no connection to Redis at the start"), "{name}: {}", function.log());
        stores.redis.restart().await;
        let answer = function.invoke(small_event(name).as_bytes()).await;
        assert!(is_answered(name, &answer), "{name}: {answer}");
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

/// The function's timeout in seconds: six more than settle's margin.
const TIMEOUT_S: &str = "16";
/// The duration of a transaction, chosen so that no run can persist everything. Ten claims each, four transactions at
/// once, six seconds: at most 120 claims.
const SLOW: Duration = Duration::from_secs(2);
const SLIPS: u64 = 160;

#[tokio::test]
async fn a_run_out_of_time_reports_what_is_left_and_the_next_run_completes_it() {
    let stores = Stores::start().await;
    let relay = Relay::start(stores.dynamodb.url()).await;
    let slow_ledger = [("AWS_ENDPOINT_URL_DYNAMODB", &*relay.url()), ("AWS_LAMBDA_FUNCTION_TIMEOUT", TIMEOUT_S)];
    let (wallet, send, grab, settle, audit) = futures::join!(
        stores.function("wallet", &[]),
        stores.function("send", &[("GRAB_ACK", "redis")]),
        stores.function("grab", &[]),
        stores.function("settle", &slow_ledger),
        stores.function("audit", &[]),
    );
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let mut event = sample("send", "");
    event["body"] = json!({"split": "random", "total_amount": 10_000, "count": SLIPS}).to_string().into();
    let packet = send.answer(&event).await.expect(201)["packet_id"].as_str().unwrap().to_owned();
    for n in 0..SLIPS {
        assert_eq!(grab.answer(&grab_of(&packet, &format!("u{n}"))).await.expect(200)["outcome"], "grabbed");
    }
    // Starts the process before its time is measured.
    let warm = settle.invoke(br#"{"partitions": [0, 0]}"#).await;
    assert_eq!(warm.get("errorType"), None, "{warm}");
    relay.delay_transactions(SLOW);
    let report = settle.invoke(b"{}").await;
    let persisted = report["persisted"].as_u64().unwrap_or_else(|| panic!("{report} {}", settle.log()));
    assert!((1..SLIPS).contains(&persisted), "{report}");
    // A machine that stalls during the count leaves the number out.
    assert!([json!(SLIPS - persisted), Value::Null].contains(&report["outbox_left"]), "{report}");

    relay.delay_transactions(Duration::ZERO);
    let mut rest = 0;
    // Usually one run. A busy machine may not finish in the two seconds of a run.
    poll("the rest", async || {
        let report = settle.invoke(b"{}").await;
        assert_eq!(report["parked"], 0, "{report}");
        rest += report["persisted"].as_u64().unwrap();
        (report["outbox_left"] == 0).then_some(())
    })
    .await;
    assert_eq!(rest, SLIPS - persisted, "each hold once");
    let audit = audit.invoke(br#"{"full": true}"#).await;
    assert_eq!((&audit["imbalance_count"], &audit["in_slips"]), (&json!(0), &json!(0)), "{audit}");
    // Alice's deposit and her packet, and a claim for each slip.
    assert_eq!(audit["movements"], json!(2 + SLIPS), "{audit}");
}

const USERS: u32 = 64;
const FEW: usize = 20;

/// Number of script calls that Redis executed.
async fn script_calls(redis: &TestServer) -> u64 {
    hot::script_calls(&redis.command::<String>(cmd("INFO").arg("commandstats")).await)
}

#[tokio::test]
async fn concurrent_grabs_in_one_process_are_each_answered_and_share_calls() {
    let stores = Stores::start().await;
    let [wallet, send] = [stores.function("wallet", &[]).await, stores.function("send", &[]).await];
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let mut event = sample("send", "");
    event["body"] = json!({"split": "random", "total_amount": 1_000, "count": FEW}).to_string().into();
    let packet = send.answer(&event).await.expect(201);
    let packet = packet["packet_id"].as_str().unwrap();

    let before = script_calls(&stores.redis).await;
    let grab = stores.managed("grab", USERS).await;
    let events: Vec<Value> = (0..USERS).map(|user| grab_of(packet, &format!("user-{user}"))).collect();
    let answers = join_all(events.iter().map(|event| grab.invoke(event))).await;
    let calls = script_calls(&stores.redis).await - before;

    let (mut slips, mut paid) = (BTreeSet::new(), 0);
    for (event, answer) in events.iter().zip(&answers) {
        let answer = http_answer(event, answer);
        SPEC.check(&answer);
        let answer = answer.expect(200);
        if answer["outcome"] == "grabbed" {
            assert!(slips.insert(answer["slip"].as_u64().unwrap()), "a slip has two owners: {answer}");
            paid += answer["amount"].as_u64().unwrap();
        } else {
            assert_eq!(answer["outcome"], "sold_out");
        }
    }
    assert_eq!((slips.len(), paid), (FEW, 1_000));
    // One after another, each user would make two calls: a winner to hold the slip and to reconcile it, a loser in doubt to ask again.
    assert!(calls < (2 * USERS).into(), "{calls} calls");

    // The metrics are written at intervals, not with each grab.
    let lines = poll("the metrics", async || {
        let lines = json_lines(&grab.log());
        let lines: Vec<Value> = lines.into_iter().filter(|line| line.get("Grabs").is_some()).collect();
        let grabs: u64 = lines.iter().map(|line| line["Grabs"].as_u64().unwrap()).sum();
        (grabs == u64::from(USERS)).then_some(lines)
    })
    .await;
    assert!(lines.len() < answers.len(), "{lines:?}");
}

/// A deposit or a withdrawal of alice's.
fn movement(path: &str, amount: u64) -> Value {
    let mut event = sample("wallet", "");
    event["rawPath"] = format!("/wallets/alice/{path}").into();
    event["requestContext"]["http"]["path"] = event["rawPath"].clone();
    event["body"] = json!({"amount": amount}).to_string().into();
    event
}

#[tokio::test]
async fn one_deposit_has_a_limit() {
    let stores = Stores::start().await;
    let free = stores.function("wallet", &[]).await;
    free.answer(&movement("deposits/early", 9_000)).await.expect(201);
    let limited = stores.function("wallet", &[("DEPOSIT_MAX", "5000")]).await;
    limited.answer(&movement("deposits/most", 5_000)).await.expect(201);
    let above = limited.answer(&movement("deposits/above", 5_001)).await;
    assert_eq!(above.refused(400, "invalid-request"), ["amount"]);
    assert!(above.describe().contains("must be an integer from 1 to 5000"), "{}", above.describe());
    // Its id stays free.
    limited.answer(&movement("deposits/above", 1)).await.expect(201);
    // A deposit of before the limit was made, so its repeat is not refused.
    assert_eq!(limited.answer(&movement("deposits/early", 9_000)).await.expect(200)["balance"], 14_001);
    limited.answer(&movement("deposits/early", 9_001)).await.refused(422, "idempotency-key-reused");
    // A withdrawal has no such limit.
    limited.answer(&movement("withdrawals/w", 13_000)).await.expect(201);
}
