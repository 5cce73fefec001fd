//! The functions' own programs under the Lambda runtime interface emulator, with the sample events.

mod balancer;
mod lifecycle;
mod logs;
mod notify;
mod publish;
mod tickets;
mod walk;

use std::process::{Command, Output};

use http::{HeaderMap, HeaderName, HeaderValue};
use local::dynamodb::DynamoDb;
use serde_json::{Value, json};
use shared::dynamodb::create_table;
use shared::redis::test_server::{TestServer, poll};
use shared::wiring::dynamodb_at;
use tests::emulator::Function;

use crate::contract::spec::{Answer, SPEC};
use crate::programs::built;
use crate::repository;

/// The packet of the sample events, which does not exist.
const PLACEHOLDER: &str = "38FS4S83HF3Y07WMYNH727QYT0";
const TABLE: &str = "hongbao";
const BOTH_STORES: [&str; 4] = ["send", "grab", "view", "settle"];
const LEDGER_ALONE: [&str; 2] = ["wallet", "audit"];
/// The functions without an HTTP route.
const SCHEDULED: [&str; 2] = ["settle", "audit"];

/// Redis may answer late on a busy machine, later than a function's own timeout allows.
const RESPONSE_TIMEOUT_MS: &str = "5000";

/// The two stores.
struct Stores {
    redis: TestServer,
    dynamodb: DynamoDb,
}

impl Stores {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the stores with these arguments of the Redis server.
    async fn start_with(args: &[&str]) -> Self {
        let (redis, dynamodb) = (TestServer::start(args).await, DynamoDb::start(None).await.unwrap());
        create_table(&dynamodb_at(&dynamodb.url()), TABLE).await.unwrap();
        Self { redis, dynamodb }
    }

    /// Sends a packet of one slip, and returns its id.
    async fn packet_of_one_slip(&self) -> String {
        let [wallet, send] = [self.function("wallet", &[]).await, self.function("send", &[]).await];
        wallet.answer(&sample("wallet", "")).await.expect(201);
        let mut event = sample("send", "");
        event["body"] = r#"{"split":"equal","total_amount":100,"count":1}"#.into();
        send.answer(&event).await.expect(201)["packet_id"].as_str().unwrap().to_owned()
    }

    /// Starts a function over them, with additional variables.
    async fn function(&self, name: &str, variables: &[(&str, &str)]) -> Function {
        let (redis, dynamodb) = (self.redis.url(), self.dynamodb.url());
        let mut all = vec![
            ("TABLE_NAME", TABLE),
            ("AWS_ENDPOINT_URL_DYNAMODB", &*dynamodb),
            ("AWS_REGION", "local"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("SETTLE_GRACE_MS", "0"),
            ("REDIS_RESPONSE_TIMEOUT_MS", RESPONSE_TIMEOUT_MS),
        ];
        if BOTH_STORES.contains(&name) || name == "operate" {
            all.push(("REDIS_URL", &redis));
        }
        all.extend(variables);
        Function::start(built(name), &all).await
    }
}

/// A function's answer to an event.
trait Answers {
    /// The HTTP answer that API Gateway makes of the function's answer.
    async fn answer(&self, event: &Value) -> Answer;
}

impl Answers for Function {
    async fn answer(&self, event: &Value) -> Answer {
        let response = self.invoke(event.to_string().as_bytes()).await;
        let answer = http_answer(event, &response);
        SPEC.check(&answer);
        answer
    }
}

/// A sample event, changed to name a packet that exists.
fn sample(name: &str, packet: &str) -> Value {
    let text = std::fs::read_to_string(repository(&format!("events/{name}.json"))).unwrap();
    serde_json::from_str(&text.replace(PLACEHOLDER, packet)).unwrap()
}

/// The sample grab of another user.
fn grab_of(packet: &str, user: &str) -> Value {
    let mut event = sample("grab", packet);
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(user);
    event
}

/// Reads a function's answer like API Gateway (payload format 2.0).
fn http_answer(event: &Value, response: &Value) -> Answer {
    let status = response["statusCode"].as_u64().unwrap_or_else(|| panic!("not an HTTP answer: {response}"));
    assert_eq!(response["isBase64Encoded"], false, "{response}");
    let headers = response["headers"].as_object().unwrap().iter().map(|(name, value)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value.as_str().unwrap()).unwrap())
    });
    let method = event["requestContext"]["http"]["method"].as_str().unwrap().to_owned();
    // The gateway sends no body after a HEAD.
    let body = if method == "HEAD" { "" } else { response["body"].as_str().unwrap() };
    Answer {
        method,
        target: event["rawPath"].as_str().unwrap().to_owned(),
        status: status.try_into().unwrap(),
        headers: headers.collect::<HeaderMap>(),
        bytes: body.as_bytes().to_vec(),
    }
}

#[tokio::test]
async fn the_sample_events_are_answered_by_the_contract() {
    let stores = Stores::start().await;
    let names = ["wallet", "send", "grab", "view", "settle", "audit"];
    let [wallet, send, grab, view, settle, audit] =
        futures::future::join_all(names.map(|name| stores.function(name, &[])))
            .await
            .try_into()
            .unwrap_or_else(|_| unreachable!());

    let too_early = send.answer(&sample("send", "")).await;
    too_early.refused(402, "insufficient-balance");
    let deposit = sample("wallet", "");
    let money = json!({"user_id": "alice", "balance": 100_000, "pending": 0, "currency": "CNY"});
    assert_eq!(wallet.answer(&deposit).await.expect(201), money);
    assert_eq!(wallet.answer(&deposit).await.expect(200), money);

    let first = send.answer(&sample("send", "")).await;
    let again = send.answer(&sample("send", "")).await;
    let packet = first.expect(201);
    assert_eq!(packet["greeting"], "恭喜发财");
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(again.bytes, first.bytes);

    grab.answer(&sample("grab", PLACEHOLDER)).await.refused(404, "packet-not-found");
    view.answer(&sample("view", PLACEHOLDER)).await.refused(404, "packet-not-found");
    let id = packet["packet_id"].as_str().unwrap();
    let grabbed = grab.answer(&sample("grab", id)).await.expect(200);
    assert_eq!((&grabbed["outcome"], &grabbed["replayed"]), (&json!("grabbed"), &json!(false)));
    let replayed = grab.answer(&sample("grab", id)).await.expect(200);
    assert_eq!((&replayed["slip"], &replayed["replayed"]), (&grabbed["slip"], &json!(true)));
    let looked = view.answer(&sample("view", id)).await.expect(200);
    assert_eq!((&looked["claimed_count"], &looked["mine"]["amount"]), (&json!(1), &grabbed["amount"]));

    let report = settle.invoke(&std::fs::read(repository("events/settle.json")).unwrap()).await;
    let nothing = json!({
        "persisted": 0, "parked": 0, "refunded_packets": 0, "refunded_slips": 0, "refunded_amount": 0, "outbox_left": 0,
        "oldest_outbox_ms": 0, "due_left": 0, "oldest_due_s": 0, "oldest_pending_s": 0
    });
    assert_eq!(report, nothing);

    let amount = grabbed["amount"].as_u64().unwrap();
    let balanced = json!({
        "packets": 1, "slips": 10, "wallets": 2, "movements": 3, "deposited": 100_000, "withdrawn": 0,
        "in_wallets": 90_000 + amount, "in_pending": 0, "in_slips": 10_000 - amount, "imbalance_count": 0, "imbalances": [],
        "unjudged_count": 0, "unjudged": [], "next": null
    });
    assert_eq!(audit.invoke(&std::fs::read(repository("events/audit.json")).unwrap()).await, balanced);
    let log = audit.log();
    let metric = log.lines().find(|line| line.contains("CloudWatchMetrics")).expect("a line with metrics");
    let metric: Value = serde_json::from_str(metric).unwrap();
    assert_eq!((&metric["AuditImbalances"], &metric["AuditPackets"]), (&json!(0), &json!(1)), "{metric}");

    // Requests on API Gateway's `$default` route, which have no caller.
    let mut nobody = sample("view", id);
    nobody["requestContext"].as_object_mut().unwrap().remove("authorizer");
    for (method, path, status) in [("GET", "/nowhere", 404), ("DELETE", "/me/wallet", 405), ("HEAD", "/packets", 405)] {
        let mut event = nobody.clone();
        event["routeKey"] = "$default".into();
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["method"] = method.into();
        let answer = http_answer(&event, &view.invoke(event.to_string().as_bytes()).await);
        assert_eq!(answer.status, status, "{}", answer.describe());
    }
}

/// Where `CloudFront` has a key, only users' requests need it.
#[tokio::test]
async fn users_requests_that_go_round_cloudfront_are_refused() {
    let stores = Stores::start().await;
    let key = [("EDGE_KEY", "from-cloudfront")];
    for name in ["send", "grab", "view"] {
        let function = stores.function(name, &key).await;
        let mut event = sample(name, PLACEHOLDER);
        for other in [None, Some("from-cloudfron"), Some("")] {
            if let Some(other) = other {
                event["headers"]["x-edge-key"] = other.into();
            }
            function.answer(&event).await.refused(403, "forbidden");
        }
        event["headers"]["x-edge-key"] = "from-cloudfront".into();
        let through = function.answer(&event).await;
        assert!([402, 404].contains(&through.status), "{name}: {}", through.describe());
        // The operator's signature suffices, and no key replaces a user's token.
        let path = event["rawPath"].as_str().unwrap().to_owned();
        let mut for_user = event.clone();
        for_user["headers"].as_object_mut().unwrap().remove("x-edge-key");
        for_user["rawPath"] = format!("/users/bob{path}").into();
        for_user["requestContext"]["http"]["path"] = for_user["rawPath"].clone();
        for_user["requestContext"]["authorizer"] = sample("wallet", "")["requestContext"]["authorizer"].clone();
        assert_eq!(function.answer(&for_user).await.status, through.status, "{name}");
        event["requestContext"].as_object_mut().unwrap().remove("authorizer");
        function.answer(&event).await.refused(401, "unauthenticated");
    }
}

/// A client can send raw what no address may have. The library that reads events panics on it. The call would then count as a fault of
/// ours, and anybody could cause one.
#[tokio::test]
async fn a_query_that_is_no_part_of_an_address_is_answered() {
    let stores = Stores::start().await;
    for name in ["send", "grab", "view", "wallet"] {
        let function = stores.function(name, &[]).await;
        for query in
            ["a=<", "a=\"", "<script>", "a=>", "a=b c", "a=\t", "a=\u{7f}", "a=#", "a=\u{0}", "a=\u{85}", "a=红<"]
        {
            let mut event = sample(name, PLACEHOLDER);
            event["rawQueryString"] = query.into();
            let answer = function.answer(&event).await;
            assert_eq!(answer.refused(400, "invalid-request").len(), 1, "{name} {query:?}");
        }
        assert!(!function.log().contains("panicked"), "{}", function.log());
    }
}

#[tokio::test]
async fn an_invalid_event_does_not_end_the_process() {
    let stores = Stores::start().await;
    for name in BOTH_STORES.into_iter().chain(LEDGER_ALONE) {
        let function = stores.function(name, &[]).await;
        let good = sample(name, PLACEHOLDER).to_string();
        let first = function.invoke(good.as_bytes()).await;
        assert_eq!(first.get("errorType"), None, "{name}: {first}");
        let process = function.process().expect("a running function");
        let of_function = match name {
            "audit" => [r#"{"full": true, "since_ms": 1}"#, r#"{"segments": 0}"#, r#"{"resume": {"places": []}}"#],
            "settle" => [r#"{"partitions": [1, 0]}"#, r#"{"partitions": [0, 256]}"#, r#"{"partition": 1}"#],
            _ => ["{}", r#"{"version": "2.0"}"#, r#"{"version": "2.0", "requestContext": 1}"#],
        };
        let of_all: [&[u8]; 6] = [b"not JSON", b"null", b"7", b"\"\"", b"{", b"\xff\xfe"];
        let bad = of_all.into_iter().chain(of_function.map(str::as_bytes));
        for event in bad {
            let failure = function.invoke(event).await;
            assert!(failure["errorType"].is_string(), "{name} {}: {failure}", String::from_utf8_lossy(event));
        }
        let next = function.invoke(good.as_bytes()).await;
        assert_eq!(next.get("errorType"), None, "{name}: {next}");
        assert_eq!(next.get("statusCode").is_some(), !SCHEDULED.contains(&name), "{name}: {next}");
        assert_eq!(function.process(), Some(process), "{name}: the process continues");
    }
}

/// The output of a function that starts with these variables only, and must exit at once.
fn ends(name: &str, variables: &[(&str, &str)]) -> (Output, String) {
    let output = Command::new(built(name)).env_clear().envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap();
    (output, said)
}

#[test]
fn all_errors_of_a_configuration_are_reported_at_start() {
    let wrong = [("CURRENCY", "yuan"), ("GRAB_ACK", "maybe"), ("MAX_COUNT", "many"), ("SETTLE_GRACE_MS", "-1")];
    let of_redis = [("REDIS_URL", "https://user:s3cret@localhost"), ("REDIS_CA", "/nowhere"), ("REDIS_AUTH", "maybe")];
    for name in BOTH_STORES.into_iter().chain(LEDGER_ALONE) {
        let needs_redis = BOTH_STORES.contains(&name);
        let mut variables = wrong.to_vec();
        if needs_redis {
            variables.extend(of_redis);
        }
        let (output, said) = ends(name, &variables);
        assert!(!output.status.success(), "{name}");
        assert_eq!(said.trim().lines().count(), 1, "{name}: {said}");
        assert!(said.starts_with("Error: the configuration is not valid: TABLE_NAME is required; "), "{name}: {said}");
        for (variable, _) in variables {
            assert!(said.contains(&format!("{variable} ")), "{name}: {variable} in {said}");
        }
        assert!(!said.contains("s3cret"), "{name}: {said}");

        let (output, said) = ends(name, &[]);
        assert!(!output.status.success(), "{name}");
        assert_eq!(said.contains("REDIS_URL is required"), needs_redis, "{name}: {said}");
    }
}
