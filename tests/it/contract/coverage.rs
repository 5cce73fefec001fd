//! The document itself: every documented status is caused once, every example of a problem equals an answer, requests are sent, and
//! answers are checked against their own schemas.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::Request;
use local::dynamodb::DynamoDb;
use local::{DevOptions, Mode, Options};
use serde_json::{Value, json};
use shared::config::Config;
use shared::domain::{Limits, PacketId, Timestamp};
use shared::http::{Function, ROUTES};
use shared::ports::{Clock, System};
use shared::wiring::{Wiring, dynamodb_at};

use super::api::{Api, Call, number, random, with};
use super::packet::from_seed;
use super::spec::{AS_PUBLISHED, Answer, Operation, SPEC};

/// Only API Gateway itself throttles: the functions count wrong passphrases.
fn is_caused_here(id: &str, status: u16) -> bool {
    status != 429 || ["grabPacket", "grabPacketForUser"].contains(&id)
}

/// The functions' handlers over a stack's stores, for callers and settings that the local stack does not have.
pub struct Handlers(Wiring);

impl Handlers {
    pub fn over(api: &Api, variables: &[(&str, &str)]) -> Self {
        let config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some("hongbao".to_owned()),
            "REDIS_URL" => Some(api.local.redis_url().to_owned()),
            name => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        });
        Self(Wiring::new(config.unwrap(), dynamodb_at(api.local.dynamodb_url())).unwrap())
    }

    pub async fn answer(&self, (method, path): (&str, &str), authorizer: Value, body: &str) -> Answer {
        let event = std::fs::read_to_string(crate::repository("events/send.json")).unwrap();
        let mut event: Value = serde_json::from_str(&event).unwrap();
        event["rawPath"] = path.into();
        event["body"] = body.into();
        let context = &mut event["requestContext"];
        context["http"]["path"] = path.into();
        context["http"]["method"] = method.into();
        context["authorizer"] = authorizer;
        let request: Request = local::gateway::event::request(serde_json::from_value(event).unwrap(), "r");
        let Self(wiring) = self;
        let response = match local::gateway::routes::find(method, path).function {
            Function::Send => {
                send::handle(&wiring.send_packet(), &wiring.close_packet(), &wiring.ledger_wiring().wallets(), request)
                    .await
            }
            Function::Grab => grab::handle(&wiring.grab_slip(), request).await,
            Function::View => {
                let base = wiring.ledger_wiring();
                view::handle(&wiring.view_packets(), &base.campaign_reports(), &base.wallets(), request).await
            }
            Function::Wallet => wallet::handle(&wiring.ledger_wiring().wallets(), request).await,
        };
        let (parts, body) = response.into_parts();
        let (method, target, status) = (method.to_owned(), path.to_owned(), parts.status.as_u16());
        Answer { method, target, status, headers: parts.headers, bytes: body.to_vec() }
    }
}

/// The caller that a token of this subject makes.
pub fn token(subject: &str) -> Value {
    json!({"jwt": {"claims": {"sub": subject}, "scopes": null}})
}

#[derive(Default)]
struct Tour {
    seen: BTreeSet<(String, u16)>,
    problems: Vec<Value>,
}

impl Tour {
    fn saw(&mut self, answer: &Answer) {
        self.seen.extend(SPEC.check(answer));
        if answer.status >= 400 {
            self.problems.push(without_ids(answer.json()));
        }
    }

    async fn all(&mut self, calls: impl IntoIterator<Item = Call<'_>>) {
        for call in calls {
            self.saw(&call.await);
        }
    }
}

fn without_ids(mut problem: Value) -> Value {
    let id = problem.as_object_mut().unwrap().remove("request_id");
    assert!(id.is_some_and(|id| id.is_string()), "{problem}");
    // A request by way of API Gateway has a trace.
    problem.as_object_mut().and_then(|problem| problem.remove("trace_id"));
    problem
}

/// What the requests name. The reference of packets is the same as the user.
struct Names<'a> {
    user: &'a str,
    packet: &'a str,
}

fn is_users(operation: &Operation<'_>) -> bool {
    operation.value["security"] == json!([{"userToken": []}])
}

fn path(operation: &Operation<'_>, names: &Names<'_>) -> String {
    let path = operation.path.replace("{packet_id}", names.packet).replace("{user_id}", names.user);
    let path = path.replace("{reference}", names.user);
    path.replace("{deposit_id}", "d").replace("{withdrawal_id}", "d")
}

/// A request that an operation accepts; without a caller.
fn request<'a>(api: &'a Api, operation: &Operation<'_>, names: &Names<'_>) -> Call<'a> {
    let path = path(operation, names);
    let (query, body) = match operation.id {
        "sendPacket" | "sendPacketForUser" => (String::new(), random(100, 10)),
        "deposit" | "withdraw" => (String::new(), json!({"amount": 10})),
        "askWithdrawal" => (String::new(), json!({"id": "asked", "amount": 10})),
        "setUserLimits" => (String::new(), json!({"deposit_max": 1_000_000})),
        "decideSending" => (String::new(), json!({"paused": false})),
        "enableWebhooks" => (String::new(), json!({"enabled": true})),
        "reportClaims" => (format!("?sender_id={0}&reference={0}", names.user), json!({})),
        "getReference" => (format!("?sender_id={}", names.user), json!({})),
        "closeReference" => (format!("?sender_id={}", names.user), json!({"reason": "reported"})),
        "closePacket" | "suspendUser" => (String::new(), json!({"reason": "reported"})),
        "findPackets" => (format!("?reference={}", names.user), json!({})),
        "findMovements" => (format!("?id={}", names.user), json!({})),
        "listDeeds" => (format!("?user_id={}", names.user), json!({})),
        _ => (String::new(), json!({})),
    };
    api.call(operation.method, format!("{path}{query}")).key(operation.id).json(&body)
}

/// The same by its caller, for all operations that document this status.
fn requests<'a>(api: &'a Api, status: &str, names: &Names<'_>) -> Vec<Call<'a>> {
    let all = SPEC.operations().into_iter().filter(|operation| !operation.value["responses"][status].is_null());
    all.map(|operation| {
        let request = request(api, &operation, names);
        if is_users(&operation) { request.by(names.user) } else { request }
    })
    .collect()
}

#[tokio::test]
async fn every_documented_status_and_every_example_of_a_problem_is_seen() {
    let api = Api::with_everything().await;
    let mut tour = Tour::default();
    api.fund("alice", 1_000).await;
    let open = api.packet("sender", "open", &random(100, 2)).await;
    let alice = Names { user: "alice", packet: &open };
    // The second time they are repetitions.
    for _ in 0..2 {
        tour.all(requests(&api, "405", &alice)).await;
    }
    tour.all(requests(&api, "304", &alice).into_iter().map(|call| call.header("if-none-match", "*"))).await;
    refused(&mut tour, &api, &alice).await;
    guarded(&mut tour, &api).await;
    Box::pin(not_the_operator(&mut tour, &api, &alice)).await;
    broken(&mut tour, &api).await;
    without_a_ledger(&mut tour).await;
    Box::pin(above_the_daily_limit(&mut tour, &api)).await;
    paused(&mut tour, &api).await;
    Box::pin(withdrawals(&mut tour, &api)).await;

    for operation in SPEC.operations() {
        for status in operation.value["responses"].as_object().unwrap().keys() {
            let status: u16 = status.parse().unwrap();
            let is_seen = tour.seen.contains(&(operation.id.to_owned(), status));
            assert_eq!(is_seen, is_caused_here(operation.id, status), "{} {status}", operation.id);
        }
    }
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
        found.push(without_ids(value["value"].clone()));
        return;
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|value| problems_in(value, found)),
        Value::Array(items) => items.iter().for_each(|value| problems_in(value, found)),
        _ => {}
    }
}

async fn refused(tour: &mut Tour, api: &Api, alice: &Names<'_>) {
    let open = alice.packet;
    // An id that no user has, a packet that does not exist, and an id that falls apart.
    let absent = PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [7; 10]).to_string();
    for names in [
        Names { user: "a%20b", ..*alice },
        Names { packet: &absent, ..*alice },
        Names { user: "a%2Fb", packet: &absent },
    ] {
        tour.all(requests(api, "405", &names)).await;
    }
    let nobody = SPEC.operations().into_iter().filter(is_users).map(|operation| request(api, &operation, alice));
    tour.all(nobody.collect::<Vec<_>>()).await;
    let patch = SPEC.operations().into_iter().map(|operation| api.call("PATCH", path(&operation, alice)));
    tour.all(patch.collect::<Vec<_>>()).await;
    unknown_parameters(tour, api, alice).await;
    let large = " ".repeat(128 * 1_024 + 1);
    tour.all(requests(api, "413", alice).into_iter().map(|call| call.body(large.clone()))).await;
    tour.all(requests(api, "413", alice).into_iter().map(|call| call.body("[]"))).await;
    let send = |body: &Value| api.post("/packets").by("alice").key("another").json(body);
    let reused = [("sendPacket", random(101, 10)), ("sendPacketForUser", random(101, 10))];
    for (operation, body) in reused.into_iter().chain(["deposit", "withdraw"].map(|id| (id, json!({"amount": 11})))) {
        let operation = SPEC.operations().into_iter().find(|known| known.id == operation).unwrap();
        tour.saw(&request(api, &operation, alice).by("alice").json(&body).await);
    }
    let put = |path: &str, amount: u64| api.put(format!("/wallets/{path}")).json(&json!({"amount": amount}));
    let poor = random(10_000, 10);
    let poor =
        [send(&poor), api.post("/users/alice/packets").key("poor").json(&poor), put("alice/withdrawals/p", 10_000)];
    tour.all(poor).await;
    api.put_item("USER#rich", "WALLET", &[("balance", number(1_000_000_000_000_000))]).await;
    let get = |path: &str| api.get(path).by("alice");
    let claims = format!("/packets/{open}/claims");
    let newest = get(&format!("{claims}?order=newest")).await.expect(200);
    let after = newest["newest_cursor"].as_str().unwrap();
    tour.all([
        put("rich/deposits/d", 1),
        put("alice/deposits/b.d", 1),
        put("alice/deposits/bad", 0),
        put("alice/withdrawals/bad", 0),
        send(&json!({"split": "half", "total_amount": 100, "count": 0})),
        api.post("/packets").by("alice").json(&random(100, 10)),
        api.grab("alice", open).body(r#"{"passphrase":1}"#),
        api.post(format!("/operator/packets/{open}/close")).json(&json!({"reason": ""})),
        api.put("/operator/users/alice/limits").json(&json!({"deposit_max": 0})),
        get("/operator/packets"),
        get("/operator/packets?reference=a%20b"),
        get("/operator/claims"),
        get("/operator/references/nye"),
        get(&format!("{claims}?order=oldest")),
        get(&format!("{claims}?order=slip&after={after}")),
        get("/me/movements?from=2026-11-20"),
        get("/me/movements?kind=gift"),
        get("/me/packets?cursor=AAAA"),
        get("/me/claims?limit=101"),
        get("/nowhere"),
    ])
    .await;
    api.put("/operator/users/mallory/suspension").json(&json!({"reason": "reported"})).await.expect(200);
    tour.saw(&api.post("/packets").by("mallory").key("k").json(&random(100, 10)).await);
}

/// Queries that an operation refuses before it does anything.
async fn unknown_parameters(tour: &mut Tour, api: &Api, alice: &Names<'_>) {
    for operation in SPEC.operations() {
        let path = path(&operation, alice);
        if is_users(&operation) {
            api.call(operation.method, format!("{path}?later=1")).await.refused(401, "unauthenticated");
        }
        let parameters = operation.value["parameters"].as_array().into_iter().flatten().map(|one| SPEC.resolve(one));
        let known = parameters.filter(|one| one["in"] == "query").map(|one| one["name"].as_str().unwrap());
        let twice = known.map(|name| (format!("{name}=1&{name}=1"), name.to_owned()));
        let unknown = ["later=1", "later", "later=1&later=2"].map(|query| (query.to_owned(), "later".to_owned()));
        for (query, field) in twice.chain(unknown).chain([("&&=&".to_owned(), String::new())]) {
            let call = api.call(operation.method, format!("{path}?{query}")).by(alice.user).key("unused");
            let answer = call.json(&json!({})).await;
            assert_eq!(answer.refused(400, "invalid-request"), [field], "{} {query}", operation.id);
            tour.saw(&answer);
        }
    }
}

/// Passphrases and recipients. The tries are the user's, by whichever route.
async fn guarded(tour: &mut Tour, api: &Api) {
    let guard = json!({"recipients": ["bob"], "passphrase": "abc"});
    let packet = api.packet("sender", "guarded", &with(random(100, 2), &guard)).await;
    tour.saw(&api.grab("eve", &packet).await);
    let ticketed = api.packet("sender", "ticketed", &with(random(100, 2), &json!({"eligibility": "ticket"}))).await;
    tour.saw(&api.grab("eve", &ticketed).await);
    let guess = || api.grab("bob", &packet).json(&json!({"passphrase": "a guess"}));
    for _ in 0..10 {
        guess().await.refused(403, "wrong-passphrase");
    }
    tour.saw(&api.grab("bob", &packet).await);
    let for_bob = api.post(format!("/users/bob/packets/{packet}/grab")).json(&json!({"passphrase": "a guess"}));
    tour.all([guess(), for_bob]).await;
}

/// The local stack treats every request on the operator's routes as signed.
async fn not_the_operator(tour: &mut Tour, api: &Api, alice: &Names<'_>) {
    let handlers = Handlers::over(api, &[]);
    for operation in SPEC.operations().into_iter().filter(|operation| !is_users(operation)) {
        for (status, authorizer) in [(401, Value::Null), (403, token("alice"))] {
            let answer = handlers.answer((operation.method, &path(&operation, alice)), authorizer, "{}").await;
            assert_eq!(answer.status, status, "{}", answer.describe());
            tour.saw(&answer);
        }
    }
}

/// Items that can't be decoded are a defect in every operation.
async fn broken(tour: &mut Tour, api: &Api) {
    let packet = PacketId::new(Timestamp::from_ms(1_795_181_400_001), 1, [8; 10]).to_string();
    api.put_item(&format!("PACKET#{packet}"), "META", &[]).await;
    api.put_item("REF#broken", &packet, &[]).await;
    let keys = ["KEY#sendPacket", "KEY#sendPacketForUser"].map(str::to_owned);
    let outside = ["DEPOSIT#d", "WITHDRAW#d", "WITHDRAW#asked"].map(str::to_owned);
    let others = [format!("SENT#{packet}"), format!("CLAIM#{packet}")].into_iter().chain(outside);
    for sk in keys.into_iter().chain(others) {
        api.put_item("USER#broken", &sk, &[]).await;
    }
    api.put_item("USER#broken", "DEED#000001", &[]).await;
    api.put_item("USER#broken", "LIMIT#x", &[]).await;
    api.put_item("REQUEST#broken#7", "x", &[]).await;
    api.put_item("USER#broken", "WITHDRAW#listed", &[("due_shard", number(16)), ("due_at", number(1))]).await;
    for balance in [number(100), AttributeValue::S("x".to_owned())] {
        let wallet = [("balance", balance), ("due_shard", number(18)), ("due_at", number(1))];
        api.put_item("USER#broken", "WALLET", &wallet).await;
        tour.all(requests(api, "500", &Names { user: "broken", packet: &packet })).await;
    }
}

/// An unreachable ledger: the outcome is unknown, and every caller may retry.
async fn without_a_ledger(tour: &mut Tour) {
    let ledger = DynamoDb::start(None).await.unwrap();
    let mode = Mode::Dev(DevOptions { dynamodb_url: Some(ledger.url()), ..DevOptions::ephemeral() });
    let options = Options { user_withdrawals: true, mode, ..Options::ephemeral() };
    let api = Api::start_with(options).await;
    let packet = api.packet("alice", "k", &random(100, 10)).await;
    ledger.stop().await;
    let calls = requests(&api, "503", &Names { user: "bob", packet: &packet });
    for answer in futures::future::join_all(calls.into_iter().map(IntoFuture::into_future)).await {
        assert_eq!(answer.status, 503, "{}", answer.describe());
        tour.saw(&answer);
    }
}

/// Withdrawals in two steps, and their ends.
async fn withdrawals(tour: &mut Tour, api: &Api) {
    api.fund("walt", 1_000).await;
    let reserve = |id: &str| {
        let body = json!({"amount": 10, "pending": true, "note": "to your bank"});
        api.put(format!("/wallets/walt/withdrawals/{id}")).json(&body)
    };
    let end = |id: &str, how: &str| api.post(format!("/wallets/walt/withdrawals/{id}/{how}"));
    tour.all([reserve("w1"), reserve("w1"), reserve("w2"), end("w1", "post"), end("w1", "post"), end("w1", "void")])
        .await;
    tour.all([end("w2", "void"), end("w2", "void"), end("w2", "post")]).await;
    tour.all([end("w3", "post"), end("w3", "void"), api.get("/wallets/walt/withdrawals/w3")]).await;
    tour.saw(&end("w2", "post").json(&json!({"amount": 11})).await);
    let ask = |id: &str, amount: u64| api.post("/me/withdrawals").by("walt").json(&json!({"id": id, "amount": amount}));
    tour.all([ask("a1", 10), ask("a1", 10), ask("a1", 11), ask("a2", 10_000), ask("a2", 10), ask("a3", 10)]).await;
    tour.all([ask("a4", 10), api.get("/operator/withdrawals?state=pending"), api.get("/operator/withdrawals?limit=0")])
        .await;
    tour.saw(&api.post("/me/withdrawals").by("mallory").json(&json!({"id": "m", "amount": 1})).await);
}

/// While sending is paused. At the end nobody can read what was decided last.
async fn paused(tour: &mut Tour, api: &Api) {
    let decide = |body: &Value| api.put("/operator/sending").json(body);
    decide(&json!({"paused": true, "reason": "reported"})).await.expect(200);
    tour.saw(&api.post("/packets").by("alice").key("paused").json(&random(100, 10)).await);
    tour.saw(&decide(&json!({"paused": true, "reason": ""})).await);
    decide(&json!({"paused": false})).await.expect(200);
    api.put_item("OPERATOR#SENDING", "9999999999999", &[]).await;
    tour.all([api.get("/operator/sending"), decide(&json!({"paused": false}))]).await;
    tour.saw(&api.put("/operator/webhooks").json(&json!({"enabled": 1})).await);
    api.put_item("WEBHOOK#RECEIVER", "STATE", &[("disabled_at", AttributeValue::S("x".to_owned()))]).await;
    tour.all([api.get("/operator/webhooks"), api.put("/operator/webhooks").json(&json!({"enabled": false}))]).await;
}

/// The local stack has no limit by default.
async fn above_the_daily_limit(tour: &mut Tour, api: &Api) {
    let handlers = Handlers::over(api, &[("DAILY_SENT_MAX", "99")]);
    let answer = handlers.answer(("POST", "/packets"), token("alice"), &random(100, 10).to_string()).await;
    assert_eq!(answer.status, 403, "{}", answer.describe());
    let resets_at = answer.json()["resets_at"].as_str().unwrap().to_owned();
    assert!(resets_at.ends_with("T16:00:00.000Z"), "midnight in Shanghai: {resets_at}");
    tour.saw(&answer);
    // The example is of another day.
    tour.problems.last_mut().unwrap()["resets_at"] = "2026-11-20T16:00:00.000Z".into();
}

/// The list in code is that of the document.
#[test]
fn the_routes_are_those_of_the_document() {
    let of_document = SPEC.operations().into_iter().map(|operation| {
        let of_path = &SPEC.document["paths"][operation.path]["parameters"];
        let parameters = [of_path, &operation.value["parameters"]].into_iter().filter_map(Value::as_array).flatten();
        let query = parameters.map(|parameter| SPEC.resolve(parameter)).filter(|parameter| parameter["in"] == "query");
        let query: BTreeSet<&str> = query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        let function = operation.value["x-hongbao-function"].as_str().unwrap();
        (operation.method, operation.path, operation.id.to_owned(), function, query)
    });
    let of_code = ROUTES.iter().map(|route| {
        let query = route.query.iter().copied().collect();
        (route.method, route.path, route.operation.to_string(), route.function.name(), query)
    });
    assert_eq!(of_code.collect::<BTreeSet<_>>(), of_document.collect());
}

fn examples(media: &Value) -> Vec<(&String, &Value)> {
    let examples = media["examples"].as_object().expect("examples");
    examples.iter().map(|(name, example)| (name, &SPEC.resolve(example)["value"])).collect()
}

fn contents(holder: &Value) -> Vec<(&String, &Value)> {
    holder["content"].as_object().into_iter().flatten().collect()
}

fn responses(operation: &Operation<'static>) -> Vec<(&'static String, &'static Value)> {
    let responses = operation.value["responses"].as_object().unwrap();
    responses.iter().map(|(status, response)| (status, SPEC.resolve(response))).collect()
}

#[track_caller]
fn fits(what: &str, schema: &Value, example: &Value) {
    let faults = SPEC.faults(schema, example);
    assert!(faults.is_empty(), "{what}: {faults:?} in {example}");
}

#[test]
fn every_answer_and_every_parameter_has_an_example_that_fits_its_schema() {
    for operation in SPEC.operations() {
        for (status, response) in responses(&operation) {
            for (kind, media) in contents(response) {
                for (name, example) in examples(media) {
                    fits(&format!("{} {status} {kind} {name}", operation.id), &media["schema"], example);
                }
            }
            for (name, header) in response["headers"].as_object().into_iter().flatten() {
                let header = SPEC.resolve(header);
                fits(name, &header["schema"], &header["example"]);
            }
        }
    }
    for (name, parameter) in SPEC.document["components"]["parameters"].as_object().unwrap() {
        fits(name, &parameter["schema"], &parameter["example"]);
    }
    for (name, schema) in SPEC.document["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().into_iter().flatten() {
            fits(name, schema, example);
        }
    }
}

#[tokio::test]
async fn every_example_of_a_request_is_accepted() {
    let api = Api::with_everything().await;
    api.fund("alice", 1_000_000).await;
    let packet = api.packet("sender", "k", &random(1_000, 10)).await;
    let mut sent = 0;
    for operation in SPEC.operations() {
        let Some(request) = operation.value.get("requestBody") else { continue };
        for (_, media) in contents(SPEC.resolve(request)) {
            for (name, example) in examples(media) {
                fits(name, &media["schema"], example);
                let mut example = example.clone();
                if let Some(starts_at) = example.get_mut("starts_at").filter(|starts_at| !starts_at.is_null()) {
                    // The document's is past one day.
                    *starts_at = System.now().after(Duration::from_hours(1)).to_string().into();
                }
                let key = format!("{}-{name}", operation.id);
                let path = operation.path.replace("{packet_id}", &packet).replace(['{', '}'], "");
                let user = format!("user-{name}");
                let caller = if operation.id == "sendPacket" { "alice" } else { &user };
                let path = if operation.id == "sendPacketForUser" { path.replace("user_id", "alice") } else { path };
                // The other examples are of users who are not suspended.
                let path = if operation.id == "suspendUser" { path.replace("user_id", "mallory") } else { path };
                let path = path.replace("withdrawal_id", name);
                let query = if operation.id == "closeReference" { "?sender_id=alice" } else { "" };
                let path = format!("{path}{query}");
                match operation.id {
                    "withdraw" => api.fund("user_id", example["amount"].as_u64().unwrap()).await,
                    "askWithdrawal" => api.fund(&user, example["amount"].as_u64().unwrap()).await,
                    "postWithdrawal" | "voidWithdrawal" => {
                        api.fund("user_id", 300).await;
                        let reserve = api.put(path.replace("/post", "").replace("/void", ""));
                        reserve.json(&json!({"amount": 300, "pending": true})).await.expect(201);
                    }
                    _ => {}
                }
                let answer = api.call(operation.method, path).by(caller).key(&key).json(&example).await;
                assert!([200, 201, 204].contains(&answer.status), "{name}: {}", answer.describe());
                sent += 1;
            }
        }
    }
    assert!(sent >= 7, "only {sent}");
}

/// Who takes one for a request of their own should read when it can be.
#[test]
fn the_starts_of_the_examples_are_within_a_week_of_their_packets() {
    fn starts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        found.extend(value.get("starts_at").and_then(Value::as_str));
        match value {
            Value::Object(fields) => fields.values().for_each(|value| starts(value, found)),
            Value::Array(items) => items.iter().for_each(|value| starts(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    starts(&SPEC.document, &mut found);
    let properties = SPEC.document["components"]["schemas"].as_object().unwrap().values();
    let own = properties.filter_map(|schema| schema["properties"]["starts_at"]["examples"][0].as_str());
    found.extend(own);
    assert!(found.len() > 3, "{found:?}");
    let created_at: Timestamp = "2026-11-20T13:30:00.120Z".parse().unwrap();
    for text in found {
        let starts_at: Timestamp = text.parse().unwrap();
        assert!(starts_at > created_at && starts_at.since(created_at) <= Limits::START_AHEAD_MAX, "{text}");
    }
}

#[test]
fn the_packets_of_the_examples_are_valid() {
    let shown = &SPEC.document["components"]["responses"]["PacketShown"];
    let mut proven = 0;
    for (name, packet) in examples(&shown["content"]["application/json"]) {
        if packet["seed"].is_null() {
            continue;
        }
        let (amounts, commitment) = from_seed(packet);
        assert_eq!(packet["commitment"], commitment, "{name}");
        let slip = |claim: &Value| amounts[usize::try_from(claim["slip"].as_u64().unwrap()).unwrap()];
        if !packet["mine"].is_null() {
            assert_eq!(packet["mine"]["amount"], slip(&packet["mine"]), "{name}");
        }
        assert!(amounts.iter().any(|amount| packet["best"]["amount"] == *amount), "{name}");
        if packet["claimed_count"] == packet["count"] {
            assert_eq!(packet["best"]["amount"], *amounts.iter().max().unwrap(), "{name}");
        }
        proven += 1;
    }
    assert!(proven >= 2);
}

/// Otherwise an unknown field of a request would pass.
#[test]
fn requests_are_closed_and_answers_are_open() {
    for (name, schema) in AS_PUBLISHED.document["components"]["schemas"].as_object().unwrap() {
        if schema["type"] == "object" && !name.ends_with("Metadata") {
            let is_closed = schema.get("additionalProperties").is_some_and(|additional| additional == false);
            assert_eq!(is_closed, name.ends_with("Request"), "{name}");
            assert_eq!(SPEC.document["components"]["schemas"][name]["additionalProperties"], false, "{name}");
        }
    }
}

/// An answer of a later version: with a field that is not known here, everywhere.
fn with_more_fields(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            let more = ("later".to_owned(), Value::from("x"));
            fields.iter().map(|(name, value)| (name.clone(), with_more_fields(value))).chain([more]).collect()
        }
        Value::Array(items) => items.iter().map(with_more_fields).collect(),
        other => other.clone(),
    }
}

/// The same, with a value that is not known here for each enumeration that may grow.
fn with_more_values(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| {
                let is_one = matches!(&**name, "status" | "split" | "code") && value.is_string();
                (name.clone(), if is_one { Value::from("later") } else { with_more_values(value) })
            };
            fields.iter().map(one).collect()
        }
        Value::Array(items) => items.iter().map(with_more_values).collect(),
        other => other.clone(),
    }
}

#[test]
fn the_document_accepts_the_answers_of_a_later_version_and_our_tests_do_not() {
    let mut changed = [0; 2];
    for operation in SPEC.operations() {
        for (status, response) in responses(&operation) {
            for (kind, media) in contents(response) {
                let published = AS_PUBLISHED.operations();
                let published = published.iter().find(|other| other.id == operation.id).unwrap();
                let published = AS_PUBLISHED.resolve(&published.value["responses"][status]);
                for (name, example) in examples(media) {
                    let what = format!("{} {status} {name}", operation.id);
                    let grown = [with_more_fields(example), with_more_values(example)];
                    for (place, grown) in grown.iter().enumerate().filter(|(_, grown)| *grown != example) {
                        let faults = AS_PUBLISHED.faults(&published["content"][kind]["schema"], grown);
                        assert!(faults.is_empty(), "{what}: {faults:?} in {grown}");
                        assert!(!SPEC.faults(&media["schema"], grown).is_empty(), "{what}: {grown}");
                        changed[place] += 1;
                    }
                }
            }
        }
    }
    assert!(changed.iter().all(|count| *count > 50), "{changed:?}");
}
