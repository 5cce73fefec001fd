//! The life of a process: start, calls, end, and a freeze between two calls.

use std::time::{Duration, Instant};

use redis::cmd;
use shared::redis::test_proxy::Proxy;
use shared::redis::test_server::{TestCluster, TestTls};
use tests::relay::Relay;

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
async fn a_thawed_function_answers_at_once_although_a_clusters_connections_were_cut() {
    let (stores, cluster) = (Stores::start().await, TestCluster::start(3).await);
    for name in BOTH_STORES {
        let function = stores.function(name, &[("REDIS_URL", &cluster.url()), ("REDIS_CLUSTER", "true")]).await;
        survives_a_freeze(name, &function, async || {
            for node in &cluster.nodes {
                let () = node.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_start_and_its_calls_make_one_connection_to_each_primary() {
    let Some(tls) = TestTls::for_server("the connections of a function to a cluster over TLS") else { return };
    let stores = Stores::start().await;
    let cluster = TestCluster::start_with_replicas(3, Some(&tls)).await;
    let (url, ca_file) = (cluster.tls_url(), tls.ca_file());
    let variables = [
        ("REDIS_URL", &*url),
        ("REDIS_CLUSTER", "true"),
        ("REDIS_CA", ca_file.to_str().unwrap()),
        ("REDIS_CONNECT_TIMEOUT_MS", RESPONSE_TIMEOUT_MS),
    ];
    for name in BOTH_STORES {
        let before = cluster.accepted().await;
        let function = stores.function(name, &variables).await;
        for _ in 0..4 {
            let answer = function.invoke(small_event(name).as_bytes()).await;
            assert!(is_answered(name, &answer), "{name}: {answer}");
        }
        assert_eq!(cluster.accepted_since(&before).await, [1, 1, 1, 0, 0, 0], "{name}: {}", function.log());
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
