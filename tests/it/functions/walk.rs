//! A walk through everything that the functions do, each under an emulator with its own recorded access to the ledger. The actions that
//! each calls are those of `tests/aws/actions.json`, which the tests of the roles use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use redis::cmd;
use shared::domain::{Intervention, PartId, Timestamp};
use shared::dynamodb::SdkTable;
use shared::ledger::{CloseOrder, Ledger};
use shared::ports::System;
use shared::redis::PartKeys;
use tests::relay::{Passed, Relay};

use super::*;

/// Secrets that no log may show.
pub const SECRETS: [(&str, &str); 9] = [
    ("a passphrase", "sesame-4Qz8"),
    ("a wrong passphrase", "guess-7Hk2"),
    ("a body that is not JSON", "broken-5Tn3"),
    ("a body's text", "greeting-9Lw6"),
    ("a user's token", "token-3Xv1"),
    ("an idempotency key", "key-8Rb4"),
    ("Redis' password", "redis-6Jp9"),
    ("the function's secret key", "secret-2Md7"),
    ("the function's session token", "session-1Fy5"),
];
/// Logs name users under this key.
pub const LOG_KEY: &str = "log-2Cw7";
/// What every id of a user in a walk has one of.
pub const USERS: [&str; 2] = ["alice", "taker-"];
/// The user name of the Redis password.
const REDIS_USER: &str = "functions";

/// The send function for packets in `redis` mode.
const PROMISING: &str = "send, promising";

/// A number for a text, different for different texts.
fn number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The secret with that name.
fn secret(name: &str) -> &'static str {
    SECRETS.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The result of a walk.
pub struct Walked {
    /// By function: its requests to the ledger.
    pub passed: BTreeMap<&'static str, Vec<Passed>>,
    /// By function: its log.
    pub logs: BTreeMap<&'static str, String>,
    /// Each request: its id, the function, its packet if it names one, and its outcome.
    pub requests: Vec<(String, &'static str, Option<String>, u16)>,
}

/// The functions, and the requests so far.
struct Walk {
    stores: Stores,
    functions: BTreeMap<&'static str, (Function, Relay)>,
    /// A send for packets in `redis` mode.
    promising: Function,
    requests: Vec<(String, &'static str, Option<String>, u16)>,
}

impl Walk {
    async fn start(level: &str) -> Self {
        let password = format!(">{}", secret("Redis' password"));
        let stores = Stores::start_with(&["--user", REDIS_USER, "on", &password, "~*", "&*", "+@all"]).await;
        let redis = format!("redis://{REDIS_USER}:{}@127.0.0.1:{}", secret("Redis' password"), stores.redis.port());
        let redis = ("REDIS_URL", &*redis);
        // It finds no secret, and notes that.
        let nowhere = "http://127.0.0.1:1";
        let of_webhooks = vec![
            ("AWS_ENDPOINT_URL_SECRETS_MANAGER", nowhere),
            ("AWS_ENDPOINT_URL_SQS", nowhere),
            ("WEBHOOK_URL", "https://app.example/webhooks"),
            ("WEBHOOK_SECRET", "webhooks"),
            ("WEBHOOK_QUEUE", nowhere),
            ("WEBHOOK_DEAD_LETTERS", nowhere),
        ];
        let mut programs = vec![("notify", "notify", of_webhooks)];
        programs.extend(BOTH_STORES.map(|name| (name, name, vec![redis])));
        programs.extend(LEDGER_ALONE.map(|name| (name, name, Vec::new())));
        for (name, repairs) in [("operate-read", "false"), ("operate-repair", "true")] {
            programs.push((name, "operate", vec![redis, ("OPERATE_REPAIRS", repairs)]));
        }
        let (mut functions, mut promising) = (BTreeMap::new(), None);
        for (name, program, own) in programs {
            let relay = Relay::start(stores.dynamodb.url()).await;
            let url = relay.url();
            let common = [
                ("AWS_ENDPOINT_URL_DYNAMODB", &*url),
                ("AWS_SECRET_ACCESS_KEY", secret("the function's secret key")),
                ("AWS_SESSION_TOKEN", secret("the function's session token")),
                ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
                ("AWS_LAMBDA_LOG_LEVEL", level),
                ("LOG_KEY", LOG_KEY),
                ("USER_WITHDRAWALS", "true"),
            ];
            let variables = [&common[..], &own].concat();
            if name == "send" {
                let variables = [&variables[..], &[("GRAB_ACK", "redis")]].concat();
                promising = Some(stores.function(name, &variables).await);
            }
            functions.insert(name, (stores.function(program, &variables).await, relay));
        }
        Self { stores, functions, promising: promising.unwrap(), requests: Vec::new() }
    }

    async fn invoke(&self, name: &str, event: &str) -> Value {
        self.functions[name].0.invoke(event.as_bytes()).await
    }

    /// A request of `caller` (`None`: the operator) that must be answered with `status`.
    async fn ask(
        &mut self,
        (name, caller): (&'static str, Option<&str>),
        (method, path): (&str, &str),
        body: &str,
        status: u16,
    ) -> Value {
        let mut event = sample(if caller.is_some() { "send" } else { "wallet" }, "");
        let id = format!("{}-{}", caller.map_or("operator", |_| "request"), self.requests.len());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        event["rawPath"] = path.into();
        event["rawQueryString"] = query.into();
        event["headers"]["authorization"] = format!("Bearer {}", secret("a user's token")).into();
        event["headers"]["idempotency-key"] = format!("{}-{}", secret("an idempotency key"), number(body)).into();
        event["body"] = body.into();
        let context = &mut event["requestContext"];
        context["requestId"] = id.clone().into();
        context["http"]["method"] = method.into();
        context["http"]["path"] = path.into();
        if let Some(user) = caller {
            context["authorizer"]["jwt"]["claims"]["sub"] = user.into();
        }
        let function = if name == PROMISING { &self.promising } else { &self.functions[name].0 };
        let answer = function.answer(&event).await;
        let name = if name == PROMISING { "send" } else { name };
        let packet = path.split_once("packets/").and_then(|(_, rest)| rest.split('/').next()).map(str::to_owned);
        self.requests.push((id, name, packet, status));
        answer.expect(status)
    }

    async fn grab(&mut self, user: &str, packet: &str, body: &str, status: u16) -> Value {
        self.ask(("grab", Some(user)), ("POST", &format!("/packets/{packet}/grab")), body, status).await
    }

    async fn send(&mut self, by: &'static str, body: Value, status: u16) -> Value {
        self.ask((by, Some("alice")), ("POST", "/packets"), &body.to_string(), status).await
    }

    /// Reads everything about a packet.
    async fn view(&mut self, packet: &str) {
        for path in [format!("/packets/{packet}"), format!("/packets/{packet}/claims")] {
            for method in ["GET", "HEAD"] {
                self.ask(("view", Some("alice")), (method, &path), "", 200).await;
            }
        }
        for path in ["/me/wallet", "/me/packets", "/me/claims", "/me/movements"] {
            for user in ["alice", "taker-1"] {
                self.ask(("view", Some(user)), ("GET", path), "", 200).await;
            }
        }
        for path in [
            format!("/users/taker-1/packets/{packet}"),
            format!("/users/taker-1/packets/{packet}/claims"),
            "/users/alice/packets".to_owned(),
            "/users/taker-1/claims".to_owned(),
            format!("/operator/packets/{packet}"),
            format!("/operator/packets/{packet}/claims"),
            format!("/operator/packets/{packet}/users/taker-1"),
            "/operator/packets?reference=order-17".to_owned(),
            "/operator/packets?sender_id=alice".to_owned(),
            "/operator/packets?status=open".to_owned(),
        ] {
            self.ask(("view", None), ("GET", &path), "", 200).await;
        }
    }

    /// Runs a command of the operator, which must be all right.
    async fn operate(&self, name: &str, arguments: &[&str]) {
        let signed = json!({"authorizer": {"iam": {"userArn": "arn:aws:iam::123456789012:user/ann"}}});
        let event = json!({"requestContext": signed, "body": json!({"arguments": arguments}).to_string()});
        let answer = self.invoke(name, &event.to_string()).await;
        assert_eq!(answer["exit"], 0, "{arguments:?}: {answer}");
    }

    async fn run(&mut self) {
        let wanted = |count: u32, expires_in_s: u32| {
            json!({
                "split": "equal", "total_amount": count * 100, "count": count, "greeting": secret("a body's text"),
                "passphrase": secret("a passphrase"), "expires_in_s": expires_in_s, "reference": "order-17"
            })
        };
        let words = json!({"passphrase": secret("a passphrase")}).to_string();
        let wrong = json!({"passphrase": secret("a wrong passphrase")}).to_string();
        let broken = format!("{{\"passphrase\": \"{}\"", secret("a body that is not JSON"));

        self.send("send", wanted(3, 3_600), 402).await;
        let operator = ("wallet", None);
        for status in [201, 200] {
            self.ask(operator, ("PUT", "/wallets/alice/deposits/d1"), r#"{"amount":5000}"#, status).await;
        }
        self.ask(operator, ("PUT", "/wallets/alice/withdrawals/w1"), r#"{"amount":1000}"#, 201).await;
        self.ask(operator, ("PUT", "/wallets/alice/withdrawals/w2"), r#"{"amount":9000}"#, 402).await;
        self.ask(operator, ("PUT", "/wallets/alice/withdrawals/w3"), r#"{"amount":100,"pending":true}"#, 201).await;
        self.ask(operator, ("GET", "/operator/withdrawals?state=pending"), "", 200).await;
        self.ask(operator, ("POST", "/wallets/alice/withdrawals/w3/post"), r#"{"amount":60}"#, 200).await;
        self.ask(operator, ("POST", "/wallets/alice/withdrawals/w3/void"), "", 409).await;
        self.ask(operator, ("GET", "/wallets/alice/withdrawals/w3"), "", 200).await;
        self.ask(("send", Some("alice")), ("POST", "/me/withdrawals"), r#"{"id":"w4","amount":100}"#, 201).await;
        for method in ["GET", "HEAD"] {
            self.ask(operator, (method, "/wallets/alice"), "", 200).await;
        }
        self.ask(operator, ("GET", "/wallets/alice/movements"), "", 200).await;
        let (suspension, reason) = ("/operator/users/alice/suspension", r#"{"reason":"a test"}"#);
        self.ask(operator, ("PUT", suspension), reason, 200).await;
        self.send("send", wanted(3, 3_600), 403).await;
        self.ask(operator, ("DELETE", suspension), "", 204).await;
        self.ask(operator, ("PUT", "/operator/sending"), r#"{"paused":false}"#, 200).await;
        for enabled in ["false", "true"] {
            self.ask(operator, ("PUT", "/operator/webhooks"), &format!(r#"{{"enabled":{enabled}}}"#), 200).await;
        }

        let sent = self.send("send", wanted(3, 3_600), 201).await;
        self.send("send", wanted(3, 3_600), 200).await;
        let again = ("POST", "/users/alice/packets");
        self.ask(("send", None), again, &wanted(3, 3_600).to_string(), 200).await;
        let packet = sent["packet_id"].as_str().unwrap().to_owned();
        self.grab("taker-1", &packet, &broken, 400).await;
        self.grab("taker-1", &packet, &wrong, 403).await;
        self.grab("taker-1", &packet, "", 403).await;
        assert_eq!(self.grab("taker-1", &packet, &words, 200).await["outcome"], "grabbed");
        self.invoke("settle", "{}").await;
        // Redis loses everything: the packet is loaded again, with the claimed slip.
        let () = self.stores.redis.command(&cmd("FLUSHALL")).await;
        assert_eq!(self.grab("taker-1", &packet, &words, 200).await["replayed"], true);
        assert_eq!(self.grab("taker-2", &packet, &words, 200).await["outcome"], "grabbed");
        let for_u3 = ("POST", &*format!("/users/taker-3/packets/{packet}/grab"));
        assert_eq!(self.ask(("grab", None), for_u3, &words, 200).await["outcome"], "grabbed");
        self.invoke("settle", "{}").await;
        assert_eq!(self.grab("taker-4", &packet, &words, 200).await["outcome"], "sold_out");
        self.grab("taker-1", PLACEHOLDER, &words, 404).await;
        self.ask(("view", Some("taker-1")), ("HEAD", &format!("/packets/{PLACEHOLDER}")), "", 404).await;
        self.ask(("view", Some("a/b")), ("GET", "/me/wallet"), "", 403).await;
        self.view(&packet).await;

        // A packet in `redis` mode, until settle has persisted it.
        let promised = self.send(PROMISING, wanted(2, 3_600), 201).await["packet_id"].as_str().unwrap().to_owned();
        assert_eq!(self.grab("taker-5", &promised, &words, 200).await["outcome"], "grabbed");
        assert_eq!(self.invoke("settle", "{}").await["persisted"], 1);

        // The same with its last slip.
        let last = self.send(PROMISING, wanted(1, 3_600), 201).await["packet_id"].as_str().unwrap().to_owned();
        assert_eq!(self.grab("taker-5", &last, &words, 200).await["outcome"], "grabbed");
        assert_eq!(self.invoke("settle", "{}").await["persisted"], 1);

        // The same, but the hold is parked, and an operator replays it.
        assert_eq!(self.grab("taker-6", &promised, &words, 200).await["outcome"], "grabbed");
        let part = PartKeys::of(PartId { packet: promised.parse().unwrap(), index: 0 }).part;
        let held: String = self.stores.redis.command(cmd("HGET").arg(&part).arg("taker-6")).await;
        let () = self.stores.redis.command(cmd("HSET").arg(&part).arg("taker-6").arg(format!("{held}:a test"))).await;
        self.operate("operate-read", &["parked"]).await;
        self.operate("operate-read", &["backlog"]).await;
        self.operate("operate-repair", &["replay", "--all"]).await;
        self.operate("operate-repair", &["rebuild", &promised]).await;
        self.operate("operate-read", &["packet", &promised]).await;
        self.operate("operate-read", &["audit"]).await;

        // A packet that expires before a grab.
        let late = self.send("send", wanted(12, 1), 201).await["packet_id"].as_str().unwrap().to_owned();
        let refunded = async |walk: &Self| {
            poll("the refund", async || {
                let report = walk.invoke("settle", "{}").await;
                (report["refunded_packets"] == 1).then_some(())
            })
            .await;
        };
        refunded(self).await;
        assert_eq!(self.grab("taker-1", &late, &words, 200).await["outcome"], "expired");
        let () = self.stores.redis.command(&cmd("FLUSHALL")).await;
        assert_eq!(self.grab("taker-1", &late, &words, 200).await["outcome"], "expired");
        self.view(&late).await;

        let notified = self.invoke("notify", &notify::batch(&["bob"]).to_string()).await;
        assert_eq!(notified["batchItemFailures"].as_array().map(Vec::len), Some(1), "{notified}");
        let audit = self.invoke("audit", r#"{"full": true}"#).await;
        assert_eq!((&audit["imbalance_count"], &audit["packets"]), (&json!(0), &json!(4)), "{audit}");
        self.invoke("audit", "{}").await;

        self.rounds(reason).await;

        // A packet that Redis has lost when the operator closes it.
        let sent = self.send("send", wanted(4, 3_600), 201).await["packet_id"].as_str().unwrap().to_owned();
        let () = self.stores.redis.command(&cmd("FLUSHALL")).await;
        let close = ("POST", &*format!("/operator/packets/{sent}/close"));
        self.ask(("send", None), close, reason, 200).await;
        assert_eq!(self.grab("taker-1", &sent, &words, 200).await["outcome"], "closed");
        self.invoke("settle", "{}").await;
        self.stores.redis.kill();
        self.grab("taker-1", &sent, &words, 503).await;
    }
}

impl Walk {
    /// Packets that belong together, and share a limit. All are closed, the last one as an order of before says.
    async fn rounds(&mut self, reason: &str) {
        let round = |reference: &str, number: u32| {
            json!({
                "split": "equal", "total_amount": 200, "count": 2, "reference": reference,
                "metadata": {"round": number.to_string()}, "limit": {"key": "evening", "wins": 1}
            })
        };
        for (number, outcome) in [(1, "grabbed"), (2, "limit_reached"), (3, "limit_reached")] {
            let sent = self.send("send", round("evening", number), 201).await;
            let packet = sent["packet_id"].as_str().unwrap();
            assert_eq!(self.grab("taker-7", packet, "", 200).await["outcome"], outcome);
            self.ask(("view", Some("taker-7")), ("GET", &format!("/packets/{packet}")), "", 200).await;
        }
        for path in ["claims?reference=evening&", "claims?limit_key=evening&", "references/evening?"] {
            self.ask(("view", None), ("GET", &format!("/operator/{path}sender_id=alice")), "", 200).await;
        }
        let close = ("POST", "/operator/references/evening/close?sender_id=alice");
        self.ask(("send", None), close, reason, 200).await;
        let sent = self.send("send", round("night", 1), 201).await["packet_id"].as_str().unwrap().to_owned();
        let at: Timestamp = "2100-01-01T00:00:00Z".parse().unwrap();
        let order = CloseOrder {
            sender: "alice".parse().unwrap(),
            reference: "night".parse().unwrap(),
            intervention: Intervention { reason: "a test".parse().unwrap(), at, by: None },
        };
        let table = SdkTable::new(dynamodb_at(&self.stores.dynamodb.url()), TABLE.to_owned());
        Ledger::new(table, Arc::new(System)).order_close(&order).await.unwrap();
        self.invoke("settle", "{}").await;
        assert_eq!(self.grab("taker-8", &sent, "", 200).await["outcome"], "closed");
    }
}

/// A walk with this log level.
pub async fn walked(level: &str) -> Walked {
    let mut walk = Walk::start(level).await;
    walk.run().await;
    let passed = walk.functions.iter().map(|(name, (_, relay))| (*name, relay.passed())).collect();
    let mut logs: BTreeMap<_, _> = walk.functions.iter().map(|(name, (function, _))| (*name, function.log())).collect();
    logs.entry("send").or_default().push_str(&walk.promising.log());
    Walked { passed, logs, requests: walk.requests }
}

/// Recorded actions: (name, table or index, enclosing transaction) → prefixes of the keys.
type Actions = BTreeMap<(String, String, Option<String>), BTreeSet<String>>;

const FILE: &str = "tests/aws/actions.json";
/// If this variable is set, the test writes the file instead of checking it.
const RENEW: &str = "RENEW_ACTIONS";

/// The actions that IAM sees in a request.
fn add(actions: &mut Actions, Passed { operation, body }: &Passed) {
    let on = body["IndexName"].as_str().map_or("table".to_owned(), |index| format!("index/{index}"));
    let Some(writes) = body["TransactItems"].as_array() else {
        actions.entry((operation.clone(), on, None)).or_default();
        return;
    };
    for (kind, write) in writes.iter().flat_map(|write| write.as_object().unwrap()) {
        let key = if kind == "Put" { &write["Item"]["PK"]["S"] } else { &write["Key"]["PK"]["S"] };
        let key = key.as_str().unwrap();
        let kind_of_key = &key[..=key.find('#').unwrap()];
        let action = (format!("{kind}Item"), on.clone(), Some(operation.clone()));
        actions.entry(action).or_default().insert(kind_of_key.to_owned());
    }
}

/// The file's format: one action per line.
fn written(all: &BTreeMap<&str, Actions>) -> String {
    let mut functions = Vec::new();
    for (function, actions) in all {
        let mut text = format!("  \"{function}\": [\n");
        for (n, ((action, on, within), keys)) in actions.iter().enumerate() {
            let mut line = format!("{{\"action\": \"dynamodb:{action}\", \"on\": \"{on}\"");
            if let Some(within) = within {
                let keys = serde_json::to_string(keys).unwrap().replace(',', ", ");
                write!(line, ", \"in\": \"{within}\", \"keys\": {keys}").unwrap();
            }
            let comma = if n + 1 < actions.len() { "," } else { "" };
            writeln!(text, "    {line}}}{comma}").unwrap();
        }
        text.push_str("  ]");
        functions.push(text);
    }
    format!("{{\n{}\n}}\n", functions.join(",\n"))
}

#[tokio::test]
async fn the_recorded_actions_are_those_that_the_functions_call() {
    let mut all: BTreeMap<&str, Actions> = BTreeMap::new();
    for (function, passed) in &walked("INFO").await.passed {
        let actions = all.entry(function).or_default();
        for passed in passed {
            add(actions, passed);
        }
    }
    let (path, recorded) = (repository(FILE), written(&all));
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(path, recorded).unwrap();
        return;
    }
    assert_eq!(
        recorded,
        std::fs::read_to_string(path).unwrap(),
        "if the code is right, run `make generate ONLY=actions`"
    );
}
