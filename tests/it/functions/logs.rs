//! The functions' logs: one line per request, metrics at every level, what became of a hold, and no secret.

use std::collections::BTreeMap;
use std::process::Command;

use super::walk::{LOG_KEY, SECRETS, USERS, Walked, walked};
use super::*;

/// The JSON lines of a function's log.
pub fn json_lines(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

/// Levels of Lambda's logging controls, from the lowest.
const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

/// The lines of a function's log that Lambda passes on to `CloudWatch` when its logging controls name `level`. In the format JSON it
/// compares each line's level, and takes a line without a level or without a valid time for one of level INFO.
pub fn passed(log: &str, level: &str) -> Vec<Value> {
    let place = |level: &str| LEVELS.iter().position(|known| known.eq_ignore_ascii_case(level));
    let place_of = |line: &Value| {
        line["timestamp"].as_str()?.parse::<jiff::Timestamp>().ok()?;
        place(line["level"].as_str()?)
    };
    let least = place(level).unwrap();
    let passes = |line: &Value| place_of(line).or(place("INFO")).unwrap() >= least;
    json_lines(log).into_iter().filter(passes).collect()
}

/// The metric lines among these.
pub fn metrics(lines: Vec<Value>) -> Vec<Value> {
    lines.into_iter().filter(|line| line.get("_aws").is_some()).collect()
}

/// The sum of a metric.
pub fn sum(metrics: &[Value], name: &str) -> u64 {
    metrics.iter().filter_map(|line| line[name].as_u64()).sum()
}

fn no_secret_is_logged(walked: &Walked) {
    for (function, log) in &walked.logs {
        for (what, secret) in
            SECRETS.into_iter().chain(USERS.map(|id| ("a user's id", id))).chain([("its own key", LOG_KEY)])
        {
            let leak = log.lines().find(|line| line.contains(secret));
            assert_eq!(leak, None, "{function} logs {what}");
        }
    }
}

#[tokio::test]
async fn each_request_has_one_line_and_each_grab_its_metrics() {
    let walked = walked("INFO").await;
    no_secret_is_logged(&walked);
    for (id, function, packet, status) in &walked.requests {
        let lines = json_lines(&walked.logs[function]);
        let of_request: Vec<&Value> =
            lines.iter().map(|line| &line["fields"]).filter(|fields| fields["request_id"] == **id).collect();
        assert_eq!(of_request.len(), 1, "{function} {id}: {of_request:?}");
        let fields = of_request[0];
        assert!(fields["outcome"].is_string() && fields["duration_us"].is_u64(), "{fields}");
        let is_ok = ["ok", "replayed", "grabbed", "sold_out", "expired", "closed", "not_started", "limit_reached"]
            .contains(&fields["outcome"].as_str().unwrap());
        assert_eq!(is_ok, *status < 300, "{fields}");
        if let Some(packet) = packet {
            assert_eq!(fields["packet_id"], **packet, "{fields}");
        }
        assert_eq!(fields.get("cause").is_some(), *status == 503, "{fields}");
        assert_eq!(fields.get("by").is_some(), id.starts_with("operator"), "{fields}");
        let names_user = fields["operation"].as_str().is_some_and(|one| {
            ![
                "getAnyPacket",
                "listAnyPacketClaims",
                "findPackets",
                "closePacket",
                "reportClaims",
                "getReference",
                "closeReference",
                "decideSending",
                "enableWebhooks",
                "listWithdrawals",
            ]
            .contains(&one)
        });
        let has_valid_id = fields["outcome"] != "user-id-unsupported";
        assert_eq!(fields["user"].is_string(), names_user && has_valid_id, "{fields}");
    }
    let sends = walked.requests.iter().filter(|(_, function, _, status)| *function == "send" && *status < 300);
    let with_packet = json_lines(&walked.logs["send"]);
    // A close of all packets with a reference names none, nor does a withdrawal.
    let is_named = |fields: &Value| {
        fields["packet_id"].is_string()
            || ["closeReference", "askWithdrawal"].iter().any(|name| fields["operation"] == *name)
    };
    let of_request = |fields: &Value| is_named(fields) && fields["duration_us"].is_u64();
    let with_packet = with_packet.iter().filter(|line| of_request(&line["fields"]));
    assert_eq!(with_packet.count(), sends.count(), "a send logs its packet");

    let of_grab = json_lines(&walked.logs["grab"]);
    let user = shared::logs::name_under(LOG_KEY, &"taker-3".parse().unwrap());
    let for_them = of_grab.iter().map(|line| &line["fields"]).find(|fields| fields["user"] == *user).unwrap();
    assert_eq!(for_them["by"], sample("wallet", "")["requestContext"]["authorizer"]["iam"]["userArn"]);
    assert_eq!((&for_them["operation"], &for_them["outcome"]), (&json!("grabPacketForUser"), &json!("grabbed")));

    let metrics = metrics(json_lines(&walked.logs["grab"]));
    let sum = |name: &str| sum(&metrics, name);
    let mut grabs: BTreeMap<&str, u64> = BTreeMap::new();
    for line in metrics.iter().filter(|line| line.get("Grabs").is_some()) {
        assert_eq!(line["Table"], TABLE);
        *grabs.entry(line["Outcome"].as_str().unwrap()).or_default() += line["Grabs"].as_u64().unwrap();
    }
    let expected = [
        ("closed", 2),
        ("expired", 2),
        ("grabbed", 8),
        ("limit_reached", 2),
        ("refused", 4),
        ("sold_out", 1),
        ("unavailable", 1),
    ];
    assert_eq!(grabs, BTreeMap::from(expected));
    assert_eq!((sum("Replays"), sum("ColdStarts")), (1, 1));
    assert!(sum("ScriptCalls") >= 6, "{metrics:?}");
    let claims = metrics.iter().filter_map(|line| line["ClaimLatency"].as_array()).flatten().count();
    assert_eq!(claims, 4, "the claims of the packets in ledger mode: a user at the limit is answered before");
    // Losses and refusals share the next line.
    assert!(metrics.len() < walked.requests.iter().filter(|(_, function, ..)| *function == "grab").count());
}

#[tokio::test]
async fn no_secret_is_logged_at_the_debug_level() {
    no_secret_is_logged(&walked("DEBUG").await);
}

#[tokio::test]
async fn metrics_pass_whatever_level_the_logging_controls_name() {
    let stores = Stores::start().await;
    for level in ["WARN", "ERROR", "FATAL"] {
        let variables = [("AWS_LAMBDA_LOG_FORMAT", "JSON"), ("AWS_LAMBDA_LOG_LEVEL", level)];
        let (wallet, send, grab, settle, audit) = futures::join!(
            stores.function("wallet", &variables),
            stores.function("send", &variables),
            stores.function("grab", &variables),
            stores.function("settle", &variables),
            stores.function("audit", &variables),
        );
        let mut deposit = sample("wallet", "");
        deposit["rawPath"] = format!("/wallets/alice/deposits/{level}").into();
        wallet.answer(&deposit).await.expect(201);
        let mut event = sample("send", "");
        event["headers"]["idempotency-key"] = level.into();
        event["body"] = r#"{"split":"equal","total_amount":100,"count":1}"#.into();
        let packet = send.answer(&event).await.expect(201);
        let packet = packet["packet_id"].as_str().unwrap();
        for (user, outcome) in [("ann", "grabbed"), ("bob", "sold_out"), ("cid", "sold_out"), ("ann", "grabbed")] {
            assert_eq!(grab.answer(&grab_of(packet, user)).await.expect(200)["outcome"], outcome);
        }
        assert_eq!(settle.invoke(b"{}").await["due_left"], 0);
        assert_eq!(audit.invoke(b"{}").await["imbalance_count"], 0);
        let grabs = metrics(passed(&grab.log(), level));
        let of = |end: &str| {
            let lines: Vec<_> = grabs.iter().filter(|line| line["Outcome"] == end).cloned().collect();
            sum(&lines, "Grabs")
        };
        assert_eq!((of("grabbed"), of("sold_out"), sum(&grabs, "Replays")), (2, 2, 1), "{level}: {}", grab.log());
        assert_eq!(metrics(passed(&settle.log(), level)).len(), 1, "{level}: {}", settle.log());
        assert_eq!(metrics(passed(&audit.log(), level)).len(), 1, "{level}: {}", audit.log());
        // Lines below the level are not even printed.
        assert_eq!(passed(&grab.log(), level), json_lines(&grab.log()), "{level}");
    }
}

#[tokio::test]
async fn one_query_finds_what_became_of_a_hold() {
    let stores = Stores::start().await;
    let json = [("AWS_LAMBDA_LOG_FORMAT", "JSON")];
    let (wallet, send, grab, settle) = futures::join!(
        stores.function("wallet", &[]),
        stores.function("send", &[("GRAB_ACK", "redis")]),
        stores.function("grab", &json),
        stores.function("settle", &json),
    );
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let packet = send.answer(&sample("send", "")).await.expect(201);
    let packet = packet["packet_id"].as_str().unwrap();
    let slips = [("ann", "request-1"), ("bob", "request-2")].map(async |(user, request)| {
        let mut event = grab_of(packet, user);
        event["requestContext"]["requestId"] = request.into();
        grab.answer(&event).await.expect(200)["slip"].as_u64().unwrap()
    });
    let slips = futures::future::join_all(slips).await;
    assert_eq!(settle.invoke(b"{}").await["persisted"], 2);
    // The runbook's query: packet and slip.
    let story = |slip: u64| {
        let lines = json_lines(&format!("{}{}", grab.log(), settle.log()));
        let fields = lines.into_iter().map(|line| line["fields"].clone());
        let of_slip = fields.filter(|fields| fields["packet_id"] == packet && fields["slip"] == slip);
        of_slip.map(|fields| (fields["message"].clone(), fields["request_id"].clone())).collect::<Vec<_>>()
    };
    for (slip, request) in slips.into_iter().zip(["request-1", "request-2"]) {
        let expected = [(json!("answered"), json!(request)), (json!("a hold was persisted"), Value::Null)];
        assert_eq!(story(slip), expected);
    }
    for log in [grab.log(), settle.log()] {
        assert!(!log.contains("ann\"") && !log.contains("bob\""), "a user id is logged: {log}");
    }
}

/// 16. The functions' side of the case in `contract/reported.rs`: one line, which is no defect and names the secret.
#[tokio::test]
async fn a_refused_password_is_no_defect_and_its_line_names_the_secret() {
    const ARN: &str = "arn:aws:secretsmanager:ap-east-1:123456789012:secret:redis-AbCdEf";
    let stores = Stores::start_with(&["--requirepass", "s3cret-new"]).await;
    let variables = |password: &str| stores.redis.url().replace("//", &format!("//:{password}@"));
    let (old, new) = (variables("s3cret-old"), variables("s3cret-new"));
    let send_variables = [("REDIS_URL", &*new)];
    let (wallet, send) = futures::join!(stores.function("wallet", &[]), stores.function("send", &send_variables));
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let packet = send.answer(&sample("send", "")).await.expect(201);
    let packet = packet["packet_id"].as_str().unwrap();
    let none = stores.redis.url();
    // A wrong password, with a secret that can't be read; none at all; and a wrong one of which no secret is known.
    let secret = [("REDIS_SECRET", ARN), ("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:1")];
    for (url, secret, named) in [(&old, &secret[..], ARN), (&none, &secret, ARN), (&old, &[], "REDIS_URL")] {
        let json = [("AWS_LAMBDA_LOG_FORMAT", "JSON"), ("REDIS_URL", &**url)];
        let grab = stores.function("grab", &[&json[..], secret].concat()).await;
        let refused = grab.answer(&sample("grab", packet)).await;
        refused.refused(503, "unavailable");
        assert_eq!(refused.header("retry-after"), Some("1"));
        let lines = json_lines(&grab.log());
        let line = lines.iter().find(|line| line["fields"]["message"] == "not answered").expect("a line");
        assert_eq!(line["level"], "WARN", "{line}");
        assert!(line["fields"]["cause"].as_str().unwrap().contains(named), "{line}");
        assert!(!grab.log().contains("s3cret") && !grab.log().contains("defect"), "{}", grab.log());
    }
}

#[test]
fn the_readmes_chart_is_of_these_costs() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("cost.svg");
    let output =
        Command::new("python3").arg(repository("scripts/cost.py")).arg("--chart").arg(&drawn).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = std::fs::read_to_string(repository("docs/images/cost.svg")).unwrap();
    assert_eq!(std::fs::read_to_string(drawn).unwrap(), shown, "run: scripts/cost.py --chart docs/images/cost.svg");
}
