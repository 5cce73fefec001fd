//! `hongbao-admin console`: the program itself in front of a local stack, of `hongbao serve`, and of a gateway that checks signatures and rights.

use std::process::Command;

use http::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{Method, Response};
use http_body_util::Full;
use local::{Local, Mode, Options, SandboxOptions};
use reqwest::StatusCode;
use serde_json::{Value, json};
use shared::domain::Right;
use shared::http::{Operation, ROUTES, Route, rights_for};
use tests::api_gateway::{ApiGateway, BOSS, Principal, READER};
use tests::console::Console;
use tests::lambda_api::{LambdaApi, arn};
use tests::program::Program;
use tests::relay::stand_in;
use tests::serving::{Place, said};

use crate::programs::built;

/// What an operator decides, by its routes.
fn deeds() -> impl Iterator<Item = Route> {
    let is_deed = |route: &Route| route.method != "GET" && !rights_for(route.operation).is_empty();
    ROUTES.into_iter().filter(is_deed).filter(|route| !route.path.starts_with("/users/"))
}

/// A request for a route about alice's packet `packet` and her withdrawal, with a body that it takes.
fn asked(route: &Route, packet: &str) -> (Method, String, Value) {
    let names =
        [("{user_id}", "alice"), ("{packet_id}", packet), ("{reference}", "evening"), ("{withdrawal_id}", "w1")];
    let path = names.iter().fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value));
    let path = path.replace("{deposit_id}", "d9");
    let path = if route.path.contains("{reference}") { format!("{path}?sender_id=alice") } else { path };
    let body = match route.operation {
        Operation::Deposit | Operation::Withdraw => json!({"amount": 7}),
        Operation::SetUserLimits => json!({"daily_sent_max": 5, "deposit_max": 5}),
        Operation::DecideSending => json!({"paused": true, "reason": "a test"}),
        Operation::ClosePacket | Operation::CloseReference | Operation::SuspendUser => json!({"reason": "a test"}),
        _ => json!({}),
    };
    (route.method.parse().unwrap(), path, body)
}

/// A local stack in this process, with money, a packet and a withdrawal of alice. Returns the packet.
async fn stack() -> (Local, String) {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let http = reqwest::Client::new();
    for (path, body) in
        [("deposits/d1", json!({"amount": 10_000})), ("withdrawals/w1", json!({"amount": 500, "pending": true}))]
    {
        let put = http.put(format!("{}/wallets/alice/{path}", local.url())).json(&body);
        said(put.send().await.unwrap(), 201).await;
    }
    let packet = json!({"split": "equal", "total_amount": 1_000, "count": 10, "reference": "evening"});
    let packet = http.post(format!("{}/packets", local.url())).header("x-user-id", "alice").json(&packet);
    let packet = said(packet.header("idempotency-key", "k").send().await.unwrap(), 201).await;
    (local, packet["packet_id"].as_str().unwrap().to_owned())
}

/// What alice has and what was decided, as the stack itself says.
async fn state(local: &Local, packet: &str) -> Vec<Value> {
    let paths = [
        "/wallets/alice",
        "/wallets/alice/movements",
        "/wallets/alice/withdrawals/w1",
        &format!("/operator/packets/{packet}"),
        "/operator/users/alice/limits",
        "/operator/sending",
        "/operator/webhooks",
    ];
    let mut all = Vec::new();
    for path in paths {
        let mut body = said(reqwest::get(format!("{}{path}", local.url())).await.unwrap(), 200).await;
        body.as_object_mut().unwrap().remove("now");
        all.push(body);
    }
    all
}

/// A console of a principal, which reaches no store.
async fn console_of(gateway: &ApiGateway, sts: &LambdaApi, principal: Principal) -> Console {
    Console::signed(&built("hongbao-admin"), gateway, sts, principal, [], &[]).await
}

#[tokio::test]
async fn a_reader_sees_everything_and_changes_nothing() {
    let (local, packet) = stack().await;
    let gateway = ApiGateway::start(&local, vec![READER, BOSS]).await;
    let sts = LambdaApi::start(Vec::new(), Vec::new()).await;
    let (reader, boss) = futures::join!(console_of(&gateway, &sts, READER), console_of(&gateway, &sts, BOSS));
    let config = said(reader.ask(Method::GET, "/console/config.json").send().await.unwrap(), 200).await;
    assert_eq!(
        config,
        json!({"api": "/console/api", "tool": true, "log": false, "signs": "aws", "who": arn(READER.key)})
    );
    let config = said(reader.plain(Method::GET, "/console/config.json").send().await.unwrap(), 200).await;
    assert_eq!(config["who"], json!(null));

    for route in ROUTES.iter().filter(|route| rights_for(route.operation).contains(&Right::Read)) {
        let (method, path, _) = asked(route, &packet);
        let answer = reader.api(method.clone(), &path).send().await.unwrap();
        assert!(![StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY].contains(&answer.status()), "{method} {path}");
    }

    let before = state(&local, &packet).await;
    for route in deeds() {
        let (method, path, body) = asked(&route, &packet);
        let answer = reader.api(method.clone(), &path).json(&body).send().await.unwrap();
        assert_eq!((answer.status(), method.as_str()), (StatusCode::FORBIDDEN, route.method), "{path}");
    }
    assert_eq!(state(&local, &packet).await, before);

    // The same requests of somebody who may.
    for route in deeds() {
        let (method, path, body) = asked(&route, &packet);
        let answer = boss.api(method.clone(), &path).json(&body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success() || status.is_client_error() && status != StatusCode::FORBIDDEN, "{path}: {status}");
    }
    let after = state(&local, &packet).await;
    assert!(after.iter().zip(&before).filter(|(after, before)| after != before).count() >= 5, "{after:?}");
    let deposit = &after[1]["movements"].as_array().unwrap().iter().find(|movement| movement["id"] == "d9").unwrap();
    assert_eq!(deposit["by"], arn(BOSS.key));
    local.stop().await;
}

#[tokio::test]
async fn each_request_has_the_signature_that_aws_makes_again() {
    let (local, _) = stack().await;
    let gateway = ApiGateway::start(&local, vec![BOSS]).await;
    let sts = LambdaApi::start(Vec::new(), Vec::new()).await;
    let boss = console_of(&gateway, &sts, BOSS).await;
    let path = "/wallets/a!b@c|d(%22)%21~/deposits/d1";
    let deposit = boss.api(Method::PUT, path).json(&json!({"amount": 5})).send().await.unwrap();
    assert_eq!(said(deposit, 201).await["user_id"], "a!b@c|d(\")!~");
    let query = "/wallets/alice/movements?from=2026-01-01T00:00:00%2B00:00&kind=deposit&limit=5";
    let from = boss.api(Method::GET, query).send().await.unwrap();
    assert_ne!(from.status(), StatusCode::FORBIDDEN);
    assert_eq!(boss.api(Method::HEAD, "/operator/sending").send().await.unwrap().status(), StatusCode::OK);
    let seen = gateway.seen();
    assert_eq!(seen[0].asked, "PUT /wallets/a%21b%40c%7Cd%28%22%29%21~/deposits/d1");
    assert_eq!(seen[0].headers["x-amz-security-token"], "a session");
    // Somebody else's secret, and a key that nobody has.
    for other in [Principal { secret: "a guess", ..BOSS }, Principal { key: "OTHER", ..BOSS }] {
        let console = console_of(&gateway, &sts, other).await;
        said(console.api(Method::GET, "/operator/sending").send().await.unwrap(), 403).await;
    }
    local.stop().await;
}

#[tokio::test]
async fn only_the_page_itself_is_answered_and_only_what_a_page_of_operators_needs_is_passed_on() {
    let (local, packet) = stack().await;
    let gateway = ApiGateway::start(&local, vec![BOSS]).await;
    let sts = LambdaApi::start(Vec::new(), Vec::new()).await;
    let boss = console_of(&gateway, &sts, BOSS).await;
    let own = boss.url.clone();
    let deposit = || boss.api(Method::PUT, "/wallets/alice/deposits/d2").json(&json!({"amount": 5}));
    let without = || boss.plain(Method::PUT, "/console/api/wallets/alice/deposits/d2").json(&json!({"amount": 5}));
    let tool = || boss.plain(Method::POST, "/console/tool").json(&json!({"command": ["parked"]}));
    let port = own.rsplit(':').next().unwrap();
    for (request, status) in [
        (without(), 403),
        (without().header("console-token", ""), 403),
        (without().header("console-token", &boss.token[1..]), 403),
        (without().header("console-token", format!("{}x", boss.token)), 403),
        (tool(), 403),
        (tool().header("console-token", "x"), 403),
        (deposit().header(HOST, format!("evil.example:{port}")), 421),
        (deposit().header(HOST, "evil.example"), 421),
        (deposit().header(ORIGIN, "https://evil.example"), 403),
        (deposit().header(ORIGIN, "null"), 403),
        (deposit().header("sec-fetch-site", "cross-site"), 403),
        (boss.plain(Method::GET, "/console/").header(HOST, "evil.example"), 421),
        (boss.plain(Method::GET, "/console/api/wallets/alice"), 403),
    ] {
        let what = format!("{request:?}");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{what}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    // What users do, what is done for users, and what no route has.
    for (method, route) in [
        (Method::GET, "/me/wallet"),
        (Method::POST, "/packets"),
        (Method::GET, &*format!("/packets/{packet}")),
        (Method::POST, "/users/alice/packets"),
        (Method::POST, &format!("/users/bob/packets/{packet}/grab")),
        (Method::GET, "/operator"),
        (Method::GET, "/wallets/..%2Foperator/sending"),
        (Method::PATCH, "/operator/sending"),
        (Method::GET, ""),
    ] {
        said(boss.api(method.clone(), route).header("x-user-id", "alice").send().await.unwrap(), 404).await;
    }
    let large = boss.api(Method::PUT, "/operator/sending").body(vec![b' '; (1 << 20) + 1]).send().await.unwrap();
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(gateway.seen().is_empty());

    // The page's own request is passed on without what concerns only the browser.
    let good = deposit().header(ORIGIN, &own).header("sec-fetch-site", "same-origin").header(COOKIE, "a=b");
    let good = good.header("idempotency-key", "k1").header("authorization", "Bearer x").header("x-user-id", "bob");
    said(good.send().await.unwrap(), 201).await;
    let [seen] = &gateway.seen()[..] else { panic!("one") };
    assert_eq!(seen.headers["idempotency-key"], "k1");
    for name in ["cookie", "origin", "console-token", "x-user-id", "sec-fetch-site"] {
        assert!(!seen.headers.contains_key(name), "{name}");
    }
    local.stop().await;

    // And so is the answer.
    let other = stand_in(async |_| {
        let answer = Response::builder().header(SET_COOKIE, "a=b").header("access-control-allow-origin", "*");
        answer.header("x-request-id", "r7").header("content-type", "text/html").body(Full::from("<p>")).unwrap()
    });
    let console = Console::start(&built("hongbao-admin"), &format!("http://{}", other.await), [], &[]).await;
    let answer = console.api(Method::GET, "/operator/sending").send().await.unwrap();
    let headers = answer.headers();
    assert_eq!(
        (&headers["x-request-id"], &headers["x-content-type-options"]),
        (&"r7".parse().unwrap(), &"nosniff".parse().unwrap())
    );
    assert!(!headers.contains_key(SET_COOKIE) && !headers.contains_key("access-control-allow-origin"), "{headers:?}");
}

#[test]
fn it_listens_on_this_machine_only() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:3080", "localhost:3080", "3080"] {
        let mut command = Command::new(built("hongbao-admin"));
        command.args(["console", "--url", "http://127.0.0.1:1", "--listen", address]);
        let ended = command.env_clear().output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{address}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("this machine only"), "{ended:?}");
    }
}

/// What a page asks of the tool of a deployment with a packet whose slips are all free.
async fn commands(console: &Console, packet: &str) {
    let run = async |body: Value, status: u16| said(console.tool(&body).send().await.unwrap(), status).await;
    assert_eq!(run(json!({"command": ["parked", "--json"]}), 200).await, json!({"exit": 0, "output": []}));
    let shown = run(json!({"command": ["packet", packet, "--json"]}), 200).await;
    assert_eq!((&shown["exit"], &shown["output"]["packet_id"]), (&json!(0), &json!(packet)), "{shown}");
    let audit = run(json!({"command": ["audit", "--since", "24h", "--json"]}), 200).await;
    assert_eq!((&audit["exit"], &audit["output"]["imbalances"]), (&json!(0), &json!([])));
    let story = run(json!({"command": ["story", "--user", "alice"]}), 200).await;
    assert!(story["output"].as_str().unwrap().contains("moved: deposit"), "{story}");
    let none = run(json!({"command": ["packet", "38FS4S83HF3Y07WMYNH727QYT0"]}), 200).await;
    assert_eq!(none["exit"], 2, "{none}");
    let rebuild = json!({"command": ["rebuild", packet, "--json"]});
    let problem = run(rebuild.clone(), 400).await;
    assert_eq!(problem["detail"], "A repair needs a reason.");
    let mended = run(json!({"command": rebuild["command"], "reason": "a test"}), 200).await;
    assert_eq!((&mended["exit"], &mended["output"][0]["part"]), (&json!(0), &json!(0)), "{mended}");
    for bad in [json!({"command": ["key", "list"]}), json!({"command": "parked"}), json!({}), json!({"command": []})] {
        assert_eq!(run(bad, 400).await["code"], "invalid-request");
    }
}

#[tokio::test]
async fn a_local_stack_is_asked_without_a_signature_and_runs_commands_itself() {
    let mut dev = Command::new(built("hongbao"));
    let dev = Program::start(dev.args(["dev", "--ephemeral", "--port", "0"])).unwrap();
    let http = reqwest::Client::new();
    let deposit = http.put(format!("{}/wallets/alice/deposits/d1", dev.url)).json(&json!({"amount": 1_000}));
    said(deposit.send().await.unwrap(), 201).await;
    let packet = json!({"split": "equal", "total_amount": 1_000, "count": 10});
    let packet = http.post(format!("{}/packets", dev.url)).header("x-user-id", "alice").json(&packet);
    let packet = said(packet.header("idempotency-key", "k").send().await.unwrap(), 201).await;
    let packet = packet["packet_id"].as_str().unwrap();

    let stores = [
        ("REDIS_URL", dev.redis_url.clone().unwrap()),
        ("AWS_ENDPOINT_URL_DYNAMODB", dev.dynamodb_url.clone().unwrap()),
    ];
    let console = Console::start(&built("hongbao-admin"), &dev.url, stores, &[]).await;
    let config = said(console.plain(Method::GET, "/console/config.json").send().await.unwrap(), 200).await;
    assert_eq!(config, json!({"api": "/console/api", "tool": true, "log": false, "signs": "nothing", "who": null}));
    for (path, kind) in [("/console/", "text/html"), ("/assets/dom.js", "text/javascript")] {
        let file = console.plain(Method::GET, path).send().await.unwrap();
        assert_eq!(file.status(), StatusCode::OK);
        assert!(file.headers()["content-type"].to_str().unwrap().starts_with(kind));
    }
    let wallet = console.api(Method::GET, "/wallets/alice").send().await.unwrap();
    assert_eq!(said(wallet, 200).await["balance"], 0);
    let close = console.api(Method::POST, "/operator/packets/38FS4S83HF3Y07WMYNH727QYT0/close");
    assert_eq!(close.json(&json!({"reason": "a test"})).send().await.unwrap().status(), 404);
    commands(&console, packet).await;

    // The stack has a console of its own, and takes no commands of other sites' pages.
    let config = said(http.get(format!("{}/console/config.json", dev.url)).send().await.unwrap(), 200).await;
    assert_eq!(config, json!({"api": "", "tool": true, "log": true, "signs": "nothing", "who": null}));
    let tool = || http.post(format!("{}/console/tool", dev.url));
    let parked = tool().json(&json!({"command": ["parked", "--json"]})).send().await.unwrap();
    assert_eq!(said(parked, 200).await, json!({"exit": 0, "output": []}));
    let foreign = tool().header(ORIGIN, "https://evil.example").json(&json!({"command": ["parked"]}));
    said(foreign.send().await.unwrap(), 403).await;
    let shown = tool().json(&json!({"command": ["packet", packet, "--json"]})).send().await.unwrap();
    assert_eq!(said(shown, 200).await["output"]["packet_id"], packet);
    drop(console);
    assert!(dev.terminate().success());

    let mode = Mode::Sandbox(SandboxOptions::default());
    let sandbox = Local::start(Options { mode, ..Options::ephemeral() }).await.unwrap();
    let config = said(http.get(format!("{}/console/config.json", sandbox.url())).send().await.unwrap(), 200).await;
    assert_eq!(config["tool"], false);
    let parked = http.post(format!("{}/console/tool", sandbox.url())).json(&json!({"command": ["parked"]}));
    assert_eq!(said(parked.send().await.unwrap(), 501).await["code"], "no-tool");
    sandbox.stop().await;
}

#[tokio::test]
async fn a_key_of_serve_does_what_its_rights_say() {
    let place = Place::new().await;
    let serving = place.serve();
    let (read, boss) = (place.key("support", "read"), place.key("boss", "read,money,payout,users,webhooks"));
    said(serving.fund(&boss, "alice", 5_000).await, 201).await;
    let reserved = serving.put("/wallets/alice/withdrawals/w1").bearer_auth(&boss);
    let reserved = reserved.json(&json!({"amount": 100, "pending": true}));
    said(reserved.send().await.unwrap(), 201).await;
    let body = json!({"split": "equal", "total_amount": 1_000, "count": 10, "reference": "evening"});
    let packet = serving.packet("alice", "k1", &body).await;
    let console = async |key: &str| {
        let stores = place.variables.iter().filter(|(name, _)| ["DATABASE_URL", "REDIS_URL"].contains(name)).cloned();
        let key = ("HONGBAO_KEY", key.to_owned());
        Console::start(&built("hongbao-admin"), &serving.url, stores.chain([key]), &[]).await
    };
    let (reader, boss) = (console(&read).await, console(&boss).await);
    let config = said(reader.plain(Method::GET, "/console/config.json").send().await.unwrap(), 200).await;
    assert_eq!((&config["signs"], &config["who"]), (&json!("key"), &Value::Null));
    assert_eq!(said(reader.api(Method::GET, "/wallets/alice").send().await.unwrap(), 200).await["balance"], 3_900);
    for route in deeds() {
        let (method, path, body) = asked(&route, &packet);
        said(reader.api(method, &path).json(&body).send().await.unwrap(), 403).await;
    }
    assert_eq!(said(reader.api(Method::GET, "/wallets/alice").send().await.unwrap(), 200).await["balance"], 3_900);
    commands(&reader, &packet).await;
    for route in deeds() {
        let (method, path, body) = asked(&route, &packet);
        let answer = boss.api(method, &path).json(&body).send().await.unwrap();
        assert_ne!(answer.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let paused = said(reader.api(Method::GET, "/operator/sending").send().await.unwrap(), 200).await;
    assert_eq!((&paused["paused"], &paused["by"]), (&json!(true), &json!("boss")));
    // It serves no page itself.
    said(serving.get("/console/").send().await.unwrap(), 404).await;
}
