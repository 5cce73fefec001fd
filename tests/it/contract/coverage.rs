//! Causes every documented status of every operation once. Every example of a problem must equal an answer.

use std::collections::BTreeSet;
use std::future::IntoFuture;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::http::Response;
use lambda_http::{Body, Request};
use local::dynamodb::DynamoDb;
use local::gateway::routes::Function;
use serde_json::{Value, json};
use shared::config::Config;
use shared::domain::{PacketId, Timestamp};
use shared::wiring::{Wiring, dynamodb_at};

use super::api::{Api, Call, number, random, with};
use super::spec::{Answer, SPEC};

/// Statuses that only API Gateway itself answers: it throttles; the functions only count wrong passphrases. And one more: to lift a
/// suspension nothing is read, so that no damaged item is in its way.
const NOT_CAUSED_HERE: [(&str, u16); 22] = [
    ("closePacket", 429),
    ("deposit", 429),
    ("findPackets", 429),
    ("getAnyPacket", 429),
    ("getMyWallet", 429),
    ("getPacket", 429),
    ("getPacketForUser", 429),
    ("getWallet", 429),
    ("liftSuspension", 429),
    ("liftSuspension", 500),
    ("listClaimsOfUser", 429),
    ("listMovements", 429),
    ("listMyClaims", 429),
    ("listMyMovements", 429),
    ("listMyPackets", 429),
    ("listPacketClaims", 429),
    ("listPacketClaimsForUser", 429),
    ("listPacketsOfUser", 429),
    ("sendPacket", 429),
    ("sendPacketForUser", 429),
    ("suspendUser", 429),
    ("withdraw", 429),
];

#[derive(Default)]
struct Tour {
    seen: BTreeSet<(String, u16)>,
    problems: Vec<Value>,
}

impl Tour {
    #[track_caller]
    fn saw(&mut self, status: u16, answer: &Answer) {
        assert_eq!(answer.status, status, "{}", answer.describe());
        self.seen.extend(SPEC.check(answer));
        if status >= 400 {
            self.problems.push(without_request_id(answer.json()));
        }
    }

    async fn all(&mut self, status: u16, calls: Vec<Call<'_>>) {
        for answer in futures::future::join_all(calls.into_iter().map(IntoFuture::into_future)).await {
            self.saw(status, &answer);
        }
    }
}

fn without_request_id(mut problem: Value) -> Value {
    let id = problem.as_object_mut().unwrap().remove("request_id");
    assert!(id.is_some_and(|id| id.is_string()), "{problem}");
    problem
}

#[tokio::test]
async fn every_documented_status_and_every_example_of_a_problem_is_seen() {
    let mut tour = Tour::default();
    let api = Api::start().await;
    let packets = Packets::of(&api).await;
    as_documented(&mut tour, &api, &packets).await;
    refused(&mut tour, &api, &packets).await;
    Box::pin(not_the_operator(&mut tour, &api, &packets)).await;
    broken(&mut tour, &api).await;
    without_a_ledger(&mut tour).await;
    above_the_daily_limit(&mut tour).await;

    let mut documented = BTreeSet::new();
    for operation in SPEC.operations() {
        for status in operation.value["responses"].as_object().unwrap().keys() {
            documented.insert((operation.id.to_owned(), status.parse().unwrap()));
        }
    }
    let excepted = NOT_CAUSED_HERE.map(|(id, status)| (id.to_owned(), status)).into();
    let unseen: BTreeSet<(String, u16)> = documented.difference(&tour.seen).cloned().collect();
    assert_eq!(unseen, excepted);

    let mut examples = Vec::new();
    problems_in(&SPEC.document, &mut examples);
    assert!(examples.len() > 15, "only {}", examples.len());
    let never: Vec<&Value> = examples.iter().filter(|problem| !tour.problems.contains(problem)).collect();
    assert!(never.is_empty(), "examples that no answer equals: {}", serde_json::to_string_pretty(&never).unwrap());
}

/// Collects every example value that is a problem.
fn problems_in(value: &Value, found: &mut Vec<Value>) {
    let kind = value.pointer("/value/type").and_then(Value::as_str).unwrap_or_default();
    if kind.starts_with("urn:hongbao:problem:") {
        found.push(without_request_id(value["value"].clone()));
        return;
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|value| problems_in(value, found)),
        Value::Array(items) => items.iter().for_each(|value| problems_in(value, found)),
        _ => {}
    }
}

struct Packets {
    open: String,
    guarded: String,
    absent: String,
}

impl Packets {
    async fn of(api: &Api) -> Self {
        api.fund("alice", 1_000).await;
        let guard = json!({"recipients": ["bob"], "passphrase": "abc"});
        Self {
            open: api.packet("sender", "open", &random(100, 2)).await,
            guarded: api.packet("sender", "guarded", &with(random(100, 2), &guard)).await,
            absent: PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [7; 10]).to_string(),
        }
    }
}

fn send<'a>(api: &'a Api, key: &str) -> Call<'a> {
    api.post("/packets").by("alice").key(key).json(&random(100, 10))
}

fn send_for<'a>(api: &'a Api, user: &str, key: &str) -> Call<'a> {
    api.post(format!("/users/{user}/packets")).key(key).json(&random(100, 10))
}

fn grab_for<'a>(api: &'a Api, user: &str, packet: &str) -> Call<'a> {
    api.post(format!("/users/{user}/packets/{packet}/grab"))
}

/// What the operator views for a user, and for themselves.
fn operator_views<'a>(api: &'a Api, user: &str, packet: &str, reference: &str) -> Vec<Call<'a>> {
    let paths = [
        format!("/users/{user}/packets/{packet}"),
        format!("/users/{user}/packets/{packet}/claims"),
        format!("/users/{user}/packets"),
        format!("/users/{user}/claims"),
        format!("/operator/packets/{packet}"),
        format!("/operator/packets?reference={reference}"),
    ];
    paths.into_iter().map(|path| api.get(path)).collect()
}

fn movement<'a>(api: &'a Api, path: &str, amount: u64) -> Call<'a> {
    api.put(format!("/wallets/alice/{path}")).json(&json!({"amount": amount}))
}

fn close<'a>(api: &'a Api, packet: &str, reason: &str) -> Call<'a> {
    api.post(format!("/operator/packets/{packet}/close")).json(&json!({"reason": reason}))
}

fn suspend<'a>(api: &'a Api, user: &str, reason: &str) -> Call<'a> {
    api.put(format!("/operator/users/{user}/suspension")).json(&json!({"reason": reason}))
}

fn lift_suspension<'a>(api: &'a Api, user: &str) -> Call<'a> {
    api.call("DELETE", format!("/operator/users/{user}/suspension"))
}

async fn as_documented(tour: &mut Tour, api: &Api, packets: &Packets) {
    let Packets { open, .. } = packets;
    let of_all = || {
        let movements = [movement(api, "deposits/d", 10), movement(api, "withdrawals/w", 10)];
        movements.into_iter().chain([send(api, "k"), send_for(api, "alice", "u")]).collect::<Vec<_>>()
    };
    let first = of_all();
    tour.all(201, first).await;
    let again = of_all();
    tour.all(200, again).await;
    let views = vec![
        api.grab("bob", open),
        api.view("bob", open),
        api.get(format!("/packets/{open}/claims")).by("bob"),
        api.get("/me/wallet").by("bob"),
        api.get("/me/packets").by("bob"),
        api.get("/me/claims").by("bob"),
        api.get("/me/movements").by("bob"),
        api.get("/wallets/bob"),
        api.get("/wallets/bob/movements"),
    ];
    tour.all(200, views).await;
    tour.all(200, vec![grab_for(api, "carol", open)]).await;
    tour.all(200, operator_views(api, "carol", open, "order-17")).await;
    let closed = api.packet("sender", "closed", &random(100, 2)).await;
    tour.all(200, vec![close(api, &closed, "reported"), api.grab("bob", &closed)]).await;
    tour.saw(200, &suspend(api, "alice", "reported").await);
    let suspended =
        vec![send(api, "suspended"), send_for(api, "alice", "suspended"), movement(api, "withdrawals/s", 1)];
    tour.all(403, suspended).await;
    let unsupported = ["/me/wallet", "/me/packets", "/me/claims", "/me/movements"];
    tour.all(403, unsupported.map(|path| api.get(path).by("a/b")).into()).await;
    tour.saw(204, &lift_suspension(api, "alice").await);
    let known = vec![
        api.view("bob", open).header("if-none-match", "*"),
        api.get(format!("/packets/{open}/claims")).by("bob").header("if-none-match", "*"),
        api.get(format!("/users/bob/packets/{open}")).header("if-none-match", "*"),
        api.get(format!("/users/bob/packets/{open}/claims")).header("if-none-match", "*"),
        api.get(format!("/operator/packets/{open}")).header("if-none-match", "*"),
    ];
    tour.all(304, known).await;
}

async fn refused(tour: &mut Tour, api: &Api, packets: &Packets) {
    let Packets { open, guarded, absent } = packets;
    let claims = |id: &str| api.get(format!("/packets/{id}/claims"));
    let newest = api.get(format!("/packets/{open}/claims?order=newest")).by("bob").await.expect(200);
    let after = newest["newest_cursor"].as_str().unwrap();
    let bad = vec![
        send(api, "bad").json(&json!({"split": "half", "total_amount": 100, "count": 0})),
        api.post("/packets").by("alice").json(&random(100, 10)),
        send(api, "bad").body("[]"),
        api.grab("bob", open).body(r#"{"passphrase":1}"#),
        api.get(format!("/packets/{open}/claims?order=oldest")).by("bob"),
        api.get(format!("/packets/{open}/claims?order=slip&after={after}")).by("bob"),
        api.get("/me/packets?cursor=AAAA").by("bob"),
        api.get("/me/claims?limit=101").by("bob"),
        api.get("/wallets/a%20b"),
        api.get("/wallets/a/movements?from=2026-11-20"),
        api.get("/me/movements?kind=gift").by("bob"),
        movement(api, "deposits/bad", 0),
        movement(api, "deposits/b.d", 1),
        movement(api, "withdrawals/bad", 0),
        send_for(api, "alice", "b d"),
        grab_for(api, "bob", open).body("[]"),
        api.get(format!("/users/a%20b/packets/{open}")),
        api.get(format!("/users/bob/packets/{open}/claims?limit=0")),
        api.get("/users/bob/packets?cursor=AAAA"),
        api.get("/users/bob/claims?limit=101"),
        api.get("/operator/packets"),
        api.get("/operator/packets?reference=a%20b"),
        suspend(api, "alice", ""),
        close(api, open, ""),
        lift_suspension(api, "a%20b"),
    ];
    tour.all(400, bad).await;
    too_full(tour, api).await;

    let nobody = vec![
        api.post("/packets"),
        api.post(format!("/packets/{open}/grab")),
        api.get(format!("/packets/{open}")),
        claims(open),
        api.get("/me/wallet"),
        api.get("/me/packets"),
        api.get("/me/claims"),
        api.get("/me/movements"),
    ];
    tour.all(401, nobody).await;
    let poor = send(api, "poor").json(&random(10_000, 10));
    let poor_user = send_for(api, "alice", "poor").json(&random(10_000, 10));
    tour.all(402, vec![poor, poor_user, movement(api, "withdrawals/poor", 10_000)]).await;
    let others =
        vec![api.grab("eve", guarded), api.grab("bob", guarded), api.view("eve", guarded), claims(guarded).by("eve")];
    tour.all(403, others).await;
    let nowhere = vec![
        api.grab("bob", absent),
        api.view("bob", absent),
        api.view("bob", "a%2Fb"),
        claims(absent).by("bob"),
        api.get("/wallets/a%2Fb"),
        api.get("/wallets/a%2Fb/movements"),
        movement(api, "deposits/a%2Fb", 1),
        movement(api, "withdrawals/a%2Fb", 1),
        send_for(api, "a%2Fb", "k"),
        grab_for(api, "bob", absent),
        api.get(format!("/users/bob/packets/{absent}")),
        api.get(format!("/users/bob/packets/{absent}/claims")),
        api.get("/users/a%2Fb/packets"),
        api.get("/users/a%2Fb/claims"),
        api.get(format!("/operator/packets/{absent}")),
        suspend(api, "a%2Fb", "x"),
        close(api, absent, "x"),
        lift_suspension(api, "a%2Fb"),
    ];
    tour.all(404, nowhere).await;
    let paths: BTreeSet<&str> = SPEC.operations().iter().map(|operation| operation.path).collect();
    tour.all(405, paths.into_iter().map(|path| api.call("PATCH", path.replace(['{', '}'], ""))).collect()).await;
    let large = " ".repeat(128 * 1_024 + 1);
    let large = [
        send(api, "large"),
        api.grab("bob", open),
        movement(api, "deposits/large", 1),
        movement(api, "withdrawals/large", 1),
        send_for(api, "alice", "large"),
        grab_for(api, "bob", open),
        suspend(api, "alice", "large"),
        close(api, open, "large"),
    ]
    .map(|call| call.body(large.clone()));
    tour.all(413, large.into()).await;
    let reused = vec![
        send(api, "k").json(&random(101, 10)),
        movement(api, "deposits/d", 11),
        movement(api, "withdrawals/w", 11),
        send_for(api, "alice", "u").json(&random(101, 10)),
    ];
    tour.all(422, reused).await;
    let guess = || api.grab("bob", guarded).json(&json!({"passphrase": "a guess"}));
    for _ in 0..10 {
        guess().await.refused(403, "wrong-passphrase");
    }
    // The tries are the user's, by whichever route.
    tour.all(429, vec![guess(), grab_for(api, "bob", guarded).json(&json!({"passphrase": "a guess"}))]).await;
}

/// A wallet as full as deposits can make it.
async fn too_full(tour: &mut Tour, api: &Api) {
    api.put_item("USER#rich", "WALLET", &[("balance", number(1_000_000_000_000_000))]).await;
    tour.saw(400, &api.put("/wallets/rich/deposits/d").json(&json!({"amount": 1})).await);
}

/// The local stack treats every request on the operator's routes as signed, so this test calls the handlers themselves.
async fn not_the_operator(tour: &mut Tour, api: &Api, packets: &Packets) {
    let (table, redis) = ("hongbao".to_owned(), api.local.redis_url());
    let config = Config::for_both_stores(|name| match name {
        "TABLE_NAME" => Some(table.clone()),
        "REDIS_URL" => Some(redis.to_owned()),
        _ => None,
    });
    let wiring = Wiring::new(config.unwrap(), dynamodb_at(api.local.dynamodb_url())).unwrap();
    let (send, close, grab) = (wiring.send_packet(), wiring.close_packet(), wiring.grab_slip());
    let view = wiring.view_packets();
    let wallets = wiring.ledger_wiring().wallets();
    let event: Value =
        serde_json::from_str(&std::fs::read_to_string(crate::repository("events/wallet.json")).unwrap()).unwrap();
    let user = json!({"jwt": {"claims": {"sub": "alice"}, "scopes": null}});
    let packet = |tail: &str| format!("/users/alice/packets/{}{tail}", packets.open);
    for (method, path) in [
        ("GET", "/wallets/alice".to_owned()),
        ("GET", "/wallets/alice/movements".to_owned()),
        ("PUT", "/wallets/alice/deposits/x".to_owned()),
        ("PUT", "/wallets/alice/withdrawals/x".to_owned()),
        ("POST", "/users/alice/packets".to_owned()),
        ("POST", packet("/grab")),
        ("GET", packet("")),
        ("GET", packet("/claims")),
        ("GET", "/users/alice/packets".to_owned()),
        ("GET", "/users/alice/claims".to_owned()),
        ("GET", format!("/operator/packets/{}", packets.open)),
        ("GET", "/operator/packets".to_owned()),
        ("POST", format!("/operator/packets/{}/close", packets.open)),
        ("PUT", "/operator/users/alice/suspension".to_owned()),
        ("DELETE", "/operator/users/alice/suspension".to_owned()),
    ] {
        for (status, authorizer) in [(401, Value::Null), (403, user.clone())] {
            let mut event = event.clone();
            event["rawPath"] = (*path).into();
            event["requestContext"]["http"]["path"] = (*path).into();
            event["requestContext"]["http"]["method"] = method.into();
            event["requestContext"]["authorizer"] = authorizer;
            let request: Request = local::gateway::event::request(serde_json::from_value(event).unwrap(), "r");
            let answer = match local::gateway::routes::find(method, &path).function {
                Function::Send => send::handle(&send, &close, request).await,
                Function::Grab => grab::handle(&grab, request).await,
                Function::View => view::handle(&view, request).await,
                Function::Wallet => wallet::handle(&wallets, request).await,
            };
            tour.saw(status, &of_handler(method, &path, answer));
        }
    }
}

pub fn of_handler(method: &str, path: &str, response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    Answer {
        method: method.to_owned(),
        target: path.to_owned(),
        status: parts.status.as_u16(),
        headers: parts.headers,
        bytes: body.to_vec(),
    }
}

/// Items that can't be decoded are a defect in every operation.
async fn broken(tour: &mut Tour, api: &Api) {
    let packet = PacketId::new(Timestamp::from_ms(1_795_181_400_001), 1, [8; 10]).to_string();
    api.put_item(&format!("PACKET#{packet}"), "META", &[]).await;
    for sk in ["KEY#k", &format!("SENT#{packet}"), &format!("CLAIM#{packet}"), "DEPOSIT#d", "WITHDRAW#w"] {
        api.put_item("USER#broken", sk, &[]).await;
    }
    api.put_item("USER#broken", "WALLET", &[("balance", number(100))]).await;
    let put = |path: &str| api.put(format!("/wallets/broken/{path}")).json(&json!({"amount": 1}));
    let calls = vec![
        api.post("/packets").by("broken").key("k").json(&random(100, 10)),
        api.grab("bob", &packet),
        api.view("bob", &packet),
        api.get(format!("/packets/{packet}/claims")).by("bob"),
        api.get("/me/packets").by("broken"),
        api.get("/me/claims").by("broken"),
        api.get("/me/movements").by("broken"),
        api.get("/wallets/broken/movements"),
        put("deposits/d"),
        put("withdrawals/w"),
        send_for(api, "broken", "k"),
        grab_for(api, "bob", &packet),
    ];
    api.put_item("REF#broken", &packet, &[]).await;
    tour.all(500, calls).await;
    tour.saw(500, &close(api, &packet, "x").await);
    tour.all(500, operator_views(api, "broken", &packet, "broken")).await;
    api.put_item("USER#broken", "WALLET", &[("balance", AttributeValue::S("x".to_owned()))]).await;
    let wallets = vec![api.get("/me/wallet").by("broken"), api.get("/wallets/broken"), suspend(api, "broken", "x")];
    tour.all(500, wallets).await;
}

/// An unreachable ledger: the outcome is unknown, and every caller may retry.
async fn without_a_ledger(tour: &mut Tour) {
    let ledger = DynamoDb::start(None).await.unwrap();
    let options = local::Options { dynamodb_url: Some(ledger.url()), ..local::Options::ephemeral() };
    let api = Api::start_with(options).await;
    let packet = api.packet("alice", "k", &random(100, 10)).await;
    ledger.stop().await;
    let calls = vec![
        send(&api, "k-2"),
        api.grab("bob", &packet),
        api.view("bob", &packet),
        api.get(format!("/packets/{packet}/claims")).by("bob"),
        api.get("/me/wallet").by("bob"),
        api.get("/me/packets").by("bob"),
        api.get("/me/claims").by("bob"),
        api.get("/me/movements").by("bob"),
        api.get("/wallets/bob"),
        api.get("/wallets/bob/movements"),
        movement(&api, "deposits/d", 10),
        movement(&api, "withdrawals/w", 10),
        send_for(&api, "alice", "k-2"),
        grab_for(&api, "bob", &packet),
        suspend(&api, "bob", "x"),
        close(&api, &packet, "x"),
        lift_suspension(&api, "bob"),
    ];
    tour.all(503, calls).await;
    tour.all(503, operator_views(&api, "bob", &packet, "order-17")).await;
}

/// The local stack has no limit by default, and its variables are the test's own. So this calls the handler.
async fn above_the_daily_limit(tour: &mut Tour) {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let redis = api.local.redis_url();
    let config = Config::for_both_stores(|name| match name {
        "TABLE_NAME" => Some("hongbao".to_owned()),
        "REDIS_URL" => Some(redis.to_owned()),
        "DAILY_SENT_MAX" => Some("99".to_owned()),
        _ => None,
    });
    let wiring = Wiring::new(config.unwrap(), dynamodb_at(api.local.dynamodb_url())).unwrap();
    let mut event: Value =
        serde_json::from_str(&std::fs::read_to_string(crate::repository("events/send.json")).unwrap()).unwrap();
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = "alice".into();
    event["body"] = random(100, 10).to_string().into();
    let request: Request = local::gateway::event::request(serde_json::from_value(event).unwrap(), "r");
    let answer =
        of_handler("POST", "/packets", send::handle(&wiring.send_packet(), &wiring.close_packet(), request).await);
    let resets_at = answer.json()["resets_at"].as_str().unwrap().to_owned();
    assert!(resets_at.ends_with("T16:00:00.000Z"), "midnight in Shanghai: {resets_at}");
    // The example is of another day.
    tour.saw(403, &answer);
    let problem = tour.problems.last_mut().unwrap();
    problem["resets_at"] = "2026-11-20T16:00:00.000Z".into();
}
