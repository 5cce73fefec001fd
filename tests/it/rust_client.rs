//! The Rust client: against the local stack, against `openapi.yaml`, and against a service that does not answer; and its check of webhooks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use client::tickets::{Scope, Ticket, TicketError, TicketKey};
use client::webhooks::{
    Data, PacketClosed, PacketSent, PacketSettled, PacketSoldOut, SlipClaimed, WebhookError, WithdrawalPosted,
    WithdrawalRequested, WithdrawalVoided, verify, verify_at,
};
use client::{
    Caller, Client, Error, GrabResult, Limit, MovementFilter, Packet, Page, ProblemCode, Retries, Selection,
    SendRequest, Split, Status, Transport,
};
use futures::TryStreamExt;
use http::{HeaderMap, HeaderName, Request, Response};
use hyper::body::Bytes;
use local::{Local, Options};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::http::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::contract::api::{Api, TICKET_KEY};
use crate::contract::spec::{Operation, SPEC};
use crate::repository;

fn client(url: &str, caller: Caller) -> Client {
    Client::new(reqwest::Client::new(), url, caller)
}

fn by(user: &str) -> Caller {
    Caller::Local(user.to_owned())
}

#[tokio::test]
async fn a_stack_answers_the_client_whose_base_url_may_end_with_a_slash() {
    let options = Options { base_path: Some("/hongbao".to_owned()), ..Options::ephemeral() };
    let local = Local::start(options).await.unwrap();
    for end in ["", "/"] {
        let operator = client(&format!("{}{end}", local.url()), Caller::Nobody);
        assert_eq!(operator.deposit("alice", "d", 1_000).await.unwrap().balance, 1_000);
        assert_eq!(operator.by(by("alice")).wallet().await.unwrap().balance, 1_000);
    }
    let operator = client(&local.url(), Caller::Nobody);
    let (alice, for_bob) = (operator.by(by("alice")), operator.for_user("bob{x}"));
    let body = SendRequest { passphrase: Some("芝麻开门".to_owned()), ..SendRequest::new(Split::Equal, 300, 3) };
    let sent = alice.send("k", &body).await.unwrap();
    let again = alice.send("k", &body).await.unwrap();
    assert_eq!((sent.replayed, again.replayed, &sent.packet), (false, true, &again.packet));
    let id = sent.packet.packet_id.as_str();
    let refused = for_bob.grab(id, Some("sesame")).await.unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::WrongPassphrase));
    let grabbed = for_bob.grab(id, Some("芝麻开门")).await.unwrap();
    assert!(matches!(grabbed, GrabResult::Grabbed { amount: 100, replayed: false, .. }), "{grabbed:?}");
    let newest = alice.newest_claims(id, None, Page::default()).await.unwrap();
    assert_eq!(newest.rows, alice.claims(id, Page { limit: Some(1), cursor: None }).await.unwrap().rows);
    let bad = alice.send("k-2", &SendRequest::new(Split::Random, 0, 0)).await.unwrap_err();
    let Error::Problem(problem) = bad else { panic!("{bad:?}") };
    assert!(problem.errors.iter().any(|error| error.field == "count"), "{problem}");
    local.stop().await;
}

#[test]
fn the_codes_of_client_and_engine_are_those_of_the_document() {
    let documented = &SPEC.document["components"]["schemas"]["ProblemCode"]["enum"];
    assert_eq!(json!(Code::ALL.map(Code::name)), *documented);
    // A code that was added and not listed would be missing in both.
    assert!(Code::ALL.iter().enumerate().all(|(place, &code)| code as usize == place));
    let known: Vec<ProblemCode> = serde_json::from_value(documented.clone()).unwrap();
    assert!(known.iter().enumerate().all(|(place, &code)| code as usize == place));
}

/// A service that answers each request with the next of `answers`; an empty one closes the connection. Returns the
/// requests.
async fn service(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            // A JSON body ends with its brace, and a request without a body with its headers.
            while !(request.ends_with('}') || request.starts_with("GET") && request.ends_with("\r\n\r\n")) {
                let mut bytes = [0; 4_096];
                let read = socket.read(&mut bytes).await.unwrap();
                request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
            socket.write_all(answer.as_bytes()).await.unwrap();
            requests.push(request);
        }
        requests
    });
    (url, served)
}

fn answer(status: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

#[tokio::test]
async fn a_request_without_an_answer_is_retried_with_the_same_key_and_body() {
    let problem = |code: &str| json!({"code": code, "detail": "", "status": 0, "title": "", "type": ""});
    let sent = json!({
        "packet_id": "p", "sender_id": "a", "split": "random", "currency": "CNY", "total_amount": 100, "count": 2,
        "greeting": "", "created_at": "x", "expires_at": "y", "status": "open", "commitment": "c", "split_version": 1,
        "slip_cap": 100, "has_passphrase": false, "claimed_count": 0, "claimed_amount": 0, "refunded_amount": 0
    });
    let (url, served) = service(vec![
        String::new(),
        // A truncated answer counts as none.
        answer("201 Created", "", &sent).replace("content-length: ", "content-length: 9"),
        answer("503 Service Unavailable", "retry-after: 0\r\n", &problem("unavailable")),
        // API Gateway's own answer.
        answer("429 Too Many Requests", "", &json!({"message": "Too Many Requests"})),
        answer("201 Created", "idempotent-replayed: true\r\n", &sent),
    ])
    .await;
    let alice = client(&url, by("alice")).retrying(Retries { tries_max: 5, ..Retries::default() });
    let body = SendRequest::new(Split::Random, 100, 2);
    let answer = alice.send("a-key", &body).await.unwrap();
    assert!(answer.replayed && answer.packet.packet_id == "p");
    let requests = served.await.unwrap();
    assert_eq!(requests.len(), 5);
    assert!(requests[0].contains("idempotency-key: a-key\r\n") && requests[0].contains("x-user-id: alice\r\n"));
    assert!(requests.iter().all(|request| request == &requests[0]), "{requests:#?}");
}

/// A task may read a stream: it can be sent to another thread.
fn sendable<S: Send>(stream: S) -> S {
    stream
}

#[tokio::test]
async fn each_list_is_read_page_by_page_and_each_row_comes_once() {
    let page = |rows: &str, ids: &[u32], next: Option<&str>| {
        let row = |id: &u32| {
            json!({
                "user_id": "u", "sender_id": "s", "packet_id": "p", "slip": id, "amount": id, "currency": "CNY", "grabbed_at": "t",
                "best": false, "greeting": "", "kind": "deposit", "id": id.to_string(), "at": "t"
            })
        };
        let rows_of = ids.iter().map(row).collect::<Vec<_>>();
        answer("200 OK", "", &json!({rows: rows_of, "next_cursor": next, "totals": {"count": 3, "amount": 3}}))
    };
    let lists = ["claims", "claims", "movements", "movements"];
    let pages = lists.iter().flat_map(|rows| [page(rows, &[0, 1], Some("x")), page(rows, &[2], None)]).collect();
    let (url, served) = service(pages).await;
    let (operator, filter) =
        (client(&url, Caller::Nobody), MovementFilter { kind: Some("deposit"), ..MovementFilter::default() });
    let claims: Vec<u32> = sendable(operator.all_claims("p")).map_ok(|claim| claim.slip).try_collect().await.unwrap();
    let own: Vec<u32> = operator.all_my_claims().map_ok(|claim| claim.slip).try_collect().await.unwrap();
    let mine: Vec<_> = operator.all_my_movements(filter).try_collect().await.unwrap();
    let theirs: Vec<_> = operator.all_movements("u", filter).try_collect().await.unwrap();
    assert_eq!((claims, own, mine.len(), theirs.len()), (vec![0, 1, 2], vec![0, 1, 2], 3, 3));
    let asked = served.await.unwrap();
    let asked: Vec<&str> = asked.iter().map(|request| request.split(' ').nth(1).unwrap()).collect();
    let paths =
        ["/packets/p/claims?", "/me/claims?", "/me/movements?kind=deposit&", "/wallets/u/movements?kind=deposit&"];
    let expected: Vec<String> =
        paths.iter().flat_map(|path| [format!("{path}limit=100"), format!("{path}limit=100&cursor=x")]).collect();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn useless_retries_are_not_made() {
    let problem = |code: &str| json!({"code": code});
    let refusals = [
        ("402 Payment Required", "", "insufficient-balance", ProblemCode::InsufficientBalance),
        ("500 Internal Server Error", "retry-after: 1\r\n", "internal", ProblemCode::Internal),
        // Longer than a client may wait without its caller's consent.
        ("429 Too Many Requests", "retry-after: 60\r\n", "too-many-requests", ProblemCode::TooManyRequests),
    ];
    for (status, headers, code, expected) in refusals {
        let (url, served) = service(vec![answer(status, headers, &problem(code))]).await;
        let error = client(&url, by("alice")).send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
        assert_eq!(error.code(), Some(expected), "{error}");
        if let Error::Problem(problem) = &error
            && expected == ProblemCode::TooManyRequests
        {
            assert_eq!(problem.retry_after, Some(Duration::from_mins(1)));
        }
        assert_eq!(served.await.unwrap().len(), 1, "{status}");
    }
    let (url, served) = service(vec![String::new()]).await;
    let once = client(&url, by("alice")).retrying(Retries::NONE);
    let error = once.send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert_eq!(served.await.unwrap().len(), 1);
}

/// The answers of a later version have more fields and values.
#[test]
fn an_answer_of_a_later_version_reads() {
    let shown = &SPEC.document["components"]["responses"]["PacketShown"]["content"]["application/json"]["examples"];
    let mut packet = shown["open"]["value"].clone();
    for (field, value) in [("status", json!("resting")), ("split", json!("thirds")), ("later", json!({"a": [1]}))] {
        packet[field] = value;
    }
    packet["mine"]["later"] = json!(1);
    let packet: Packet = serde_json::from_value(packet).unwrap();
    assert_eq!((packet.status, packet.split, packet.claimed_count), (Status::Other, Split::Other, 2));
    assert_eq!(packet.limit.and_then(|limit| limit.wins_left), Some(1));
    for outcome in [
        json!({"outcome": "resting", "packet_id": "p", "until": "x"}),
        json!({"outcome": "resting", "slip": {"a": 1}, "amount": "much"}),
    ] {
        assert_eq!(serde_json::from_value::<GrabResult>(outcome).unwrap(), GrabResult::Other);
    }
    let grabbed = json!({
        "outcome": "grabbed", "packet_id": "p", "slip": 3, "amount": 5, "currency": "CNY", "grabbed_at": "x",
        "replayed": false, "later": null
    });
    assert!(matches!(serde_json::from_value(grabbed), Ok(GrabResult::Grabbed { slip: 3, amount: 5, .. })));
    // Nobody can ask for what only an answer can have.
    assert!(serde_json::to_value(SendRequest::new(Split::Other, 1, 1)).is_err());
}

#[tokio::test]
async fn a_problem_says_when_to_come_again_and_one_of_a_later_version_counts_as_its_status_says() {
    let forbidden = &SPEC.document["components"]["responses"]["SendForbidden"]["content"]["application/problem+json"];
    let limited = &forbidden["examples"]["daily_limit"]["value"];
    let (url, _served) = service(vec![answer("403 Forbidden", "", limited)]).await;
    let error = client(&url, by("alice")).send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
    let Error::Problem(problem) = error else { panic!("{error:?}") };
    assert_eq!(
        (problem.code, problem.resets_at.as_deref(), problem.limit),
        (ProblemCode::DailyLimitExceeded, limited["resets_at"].as_str(), Some(Limit::AmountADay(99)))
    );
    for (status, expected) in [
        ("403 Forbidden", ProblemCode::Forbidden),
        ("503 Service Unavailable", ProblemCode::Unavailable),
        ("422 Unprocessable Entity", ProblemCode::IdempotencyKeyReused),
    ] {
        let body = json!({
            "code": "later", "detail": "what it is", "request_id": "r", "trace_id": "t", "later": 1, "errors": []
        });
        let (url, served) = service(vec![answer(status, "", &body)]).await;
        let alice = client(&url, by("alice")).retrying(Retries::NONE);
        let error = alice.send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
        let Error::Problem(problem) = error else { panic!("{error:?}") };
        assert_eq!(
            (problem.code, &*problem.detail, problem.request_id.as_deref(), problem.trace_id.as_deref()),
            (expected, "what it is", Some("r"), Some("t"))
        );
        served.await.unwrap();
    }
}

/// Records each request, and answers it with the first example of its operation.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

/// The method and the path of an operation, without the names of its parameters.
fn shape(operation: &Operation<'_>) -> String {
    let parts = operation.path.split('/').map(|part| if part.starts_with('{') { "*" } else { part });
    format!("{} {}", operation.method, parts.collect::<Vec<_>>().join("/"))
}

impl Transport for Recorder {
    async fn exchange(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let parts: Vec<&str> = request.uri().path().split('/').collect();
        // The ids of this test have one letter.
        let path = parts.into_iter().map(|part| if part.len() == 1 { "*" } else { part }).collect::<Vec<_>>().join("/");
        let sent = format!("{} {path}", request.method());
        let operation = SPEC.operations().into_iter().find(|operation| shape(operation) == sent).expect("an operation");
        self.0.lock().unwrap().push(sent);
        let responses = operation.value["responses"].as_object().unwrap();
        let (status, response) = responses.iter().find(|(status, _)| status.starts_with('2')).unwrap();
        let examples = SPEC.resolve(response)["content"]["application/json"]["examples"].as_object();
        let example = examples.and_then(|examples| examples.values().next());
        let body = example.map(|example| SPEC.resolve(example)["value"].to_string()).unwrap_or_default();
        Ok(Response::builder().status(&**status).body(body.into()).unwrap())
    }
}

/// The API refuses an amount that is null.
#[tokio::test]
async fn a_post_without_an_amount_pays_all_of_it() {
    let api = Api::start().await;
    api.fund("alice", 300).await;
    let reserve = api.put("/wallets/alice/withdrawals/w1");
    reserve.json(&json!({"amount": 300, "pending": true})).await.expect(201);
    let operator = client(&api.local.url(), Caller::Nobody);
    assert_eq!(operator.post_withdrawal("alice", "w1", None).await.unwrap().posted_amount, Some(300));
}

/// A new operation needs a method, and a row here.
#[tokio::test]
async fn each_operation_of_the_document_has_a_method_that_sends_its_request_and_reads_its_answer() {
    let recorder = Recorder::default();
    let operator = Client::new(recorder.clone(), "http://hongbao.test", Caller::Nobody);
    let user = operator.for_user("u");
    let (page, body) = (Page::default(), SendRequest::new(Split::Equal, 1, 1));
    let packets = Selection { sender_id: "u", reference: Some("r"), limit_key: None };
    let mut called: Vec<(String, String)> = Vec::new();
    macro_rules! call {
        ($($operation:literal: $call:expr),* $(,)?) => {$(
            $call.await.unwrap();
            let sent = std::mem::take(&mut *recorder.0.lock().unwrap());
            assert_eq!(sent.len(), 1, "{}: {sent:?}", $operation);
            called.push(($operation.to_owned(), sent[0].clone()));
        )*};
    }
    call! {
        "sendPacket": operator.send("k", &body),
        "getPacket": operator.packet("p"),
        "grabPacket": operator.grab("p", None),
        "listPacketClaims": operator.claims("p", page),
        "getMyWallet": operator.wallet(),
        "listMyPackets": operator.my_packets(page),
        "listMyClaims": operator.my_claims(page),
        "getWallet": operator.wallet_of("u"),
        "deposit": operator.deposit("u", "d", 1),
        "withdraw": operator.withdraw("u", "w", 1),
        "getWithdrawal": operator.withdrawal("u", "w"),
        "postWithdrawal": operator.post_withdrawal("u", "w", Some(1)),
        "voidWithdrawal": operator.void_withdrawal("u", "w", None),
        "listWithdrawals": operator.pending_withdrawals(None, page),
        "askWithdrawal": operator.ask_withdrawal("w", 1, None),
        "listMyMovements": operator.my_movements(MovementFilter::default(), page),
        "listMovements": operator.movements("u", MovementFilter::default(), page),
        "listPacketsOfUser": user.my_packets(page),
        "sendPacketForUser": user.send("k", &body),
        "getPacketForUser": user.packet("p"),
        "grabPacketForUser": user.grab("p", None),
        "listPacketClaimsForUser": user.claims("p", page),
        "listClaimsOfUser": user.my_claims(page),
        "findPackets": operator.find_packets("r", page),
        "getAnyPacket": operator.any_packet("p"),
        "listAnyPacketClaims": operator.any_claims("p", page),
        "getShare": operator.share("p", "u"),
        "closePacket": operator.close_packet("p", "r"),
        "reportClaims": operator.report_claims(packets, page),
        "getReference": operator.reference("u", "r"),
        "closeReference": operator.close_reference("u", "r", "x"),
        "suspendUser": operator.suspend_user("u", "r", true),
        "getSending": operator.sending(),
        "decideSending": operator.pause_sending("r"),
        "getWebhooks": operator.webhooks(),
        "enableWebhooks": operator.enable_webhooks(true),
        "getUserLimits": operator.limits_of("u"),
        "setUserLimits": operator.set_limits("u", Some(1), None),
        "liftSuspension": operator.lift_suspension("u"),
        "listDeeds": operator.deeds(Some("u"), page),
        "listUsers": operator.decided_users(None, page),
        "listWins": operator.wins("u", page),
        "findMovements": operator.movements_with_id("w", page),
    }
    let operations = SPEC.operations().into_iter();
    let mut documented: Vec<_> = operations.map(|operation| (operation.id.to_owned(), shape(&operation))).collect();
    called.sort();
    documented.sort();
    assert_eq!(called, documented);
}

/// The cases that the JavaScript client passes too.
#[test]
fn each_delivery_of_a_webhook_has_its_outcome() {
    let cases = std::fs::read_to_string(repository("tests/clients/webhooks.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    assert!(cases.len() > 25);
    for case in cases {
        let (text, mut headers) = (|field: &str| case[field].as_str().unwrap(), HeaderMap::new());
        for (name, value) in case["headers"].as_object().unwrap() {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse().unwrap());
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(case["now"].as_u64().unwrap());
        let outcome = match verify_at(text("secret"), &headers, text("body").as_bytes(), now) {
            Ok(event) => {
                let shown = json!({"id": event.id, "timestamp": event.timestamp});
                let body: Value = serde_json::from_str(text("body")).unwrap();
                assert_eq!(
                    shown,
                    json!({"id": headers["webhook-id"].to_str().unwrap(), "timestamp": body["timestamp"]})
                );
                match event.data {
                    Data::SlipClaimed(claim) => {
                        assert_eq!((claim.user_id.as_str(), claim.slip, claim.amount), ("bob", 7, 1_234));
                        "SlipClaimed".to_owned()
                    }
                    Data::Other { kind, data } => {
                        assert_eq!(data, body["data"]);
                        kind
                    }
                    other => panic!("{other:?}"),
                }
            }
            Err(WebhookError::Secret(_)) => "secret".to_owned(),
            Err(WebhookError::Header(_)) => "header".to_owned(),
            Err(WebhookError::Timestamp) => "timestamp".to_owned(),
            Err(WebhookError::Signature) => "signature".to_owned(),
            Err(WebhookError::Body(_)) => "body".to_owned(),
        };
        assert_eq!(outcome, text("outcome"), "{}", text("name"));
        // Without a time it reads the clock.
        let late = verify(text("secret"), &headers, text("body").as_bytes());
        assert!(matches!(late, Err(WebhookError::Timestamp | WebhookError::Header(_) | WebhookError::Secret(_))));
    }
}

/// 15. The same texts as in the JavaScript client and in the function.
#[test]
fn a_secret_is_read_however_base64_is_spelt_or_refused_with_the_reason_and_not_shown() {
    let cases = std::fs::read_to_string(repository("tests/clients/secrets.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let body = r#"{"type":"PacketThawed","timestamp":"2021-02-25T15:02:10.000Z","data":{}}"#;
    for case in &cases {
        let (name, secret) = (case["name"].as_str().unwrap(), case["secret"].as_str().unwrap());
        let known = case["base64"].as_str().unwrap_or("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signature = standardwebhooks::Webhook::new(known).unwrap().sign("evt_1", 1_614_265_330, body.as_bytes());
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "evt_1".parse().unwrap());
        headers.insert("webhook-timestamp", "1614265330".parse().unwrap());
        headers.insert("webhook-signature", signature.unwrap().parse().unwrap());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_614_265_330);
        match verify_at(secret, &headers, body.as_bytes(), now) {
            Ok(event) => assert!(event.id == "evt_1" && case.get("refused").is_none(), "{name}"),
            Err(error @ WebhookError::Secret(_)) => {
                assert!(case["refused"].is_string(), "{name}: {error}");
                assert!(secret.len() < 12 || !error.to_string().contains(&secret[6..12]), "{name}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// What the crate keeps of an event's data.
fn read_as<T: DeserializeOwned + Serialize>(data: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(data.clone()).unwrap()).unwrap()
}

/// The crate has a type for each event of the document, with each of its fields.
#[test]
fn each_event_of_the_document_reads() {
    let content = &SPEC.document["webhooks"]["event"]["post"]["requestBody"]["content"]["application/json"];
    let mut events = 0;
    for example in content["examples"].as_object().unwrap().values() {
        let event = &example["value"];
        let (kind, detail) = (event["type"].as_str().unwrap(), &event["data"]);
        let read = match kind {
            "PacketSent" => read_as::<PacketSent>(detail),
            "SlipClaimed" => read_as::<SlipClaimed>(detail),
            "PacketSoldOut" => read_as::<PacketSoldOut>(detail),
            "PacketClosed" => read_as::<PacketClosed>(detail),
            "PacketSettled" | "PacketRefunded" => read_as::<PacketSettled>(detail),
            "WithdrawalRequested" => read_as::<WithdrawalRequested>(detail),
            "WithdrawalPosted" => read_as::<WithdrawalPosted>(detail),
            "WithdrawalVoided" => read_as::<WithdrawalVoided>(detail),
            other => panic!("the crate has no type for {other}"),
        };
        // The type is the name of the variant.
        for (name, value) in detail.as_object().unwrap().iter().filter(|(name, _)| *name != "type") {
            assert_eq!(&read[name], value, "{kind}: {name}");
        }
        events += 1;
    }
    assert!(events >= 3, "{events}");
}

#[test]
fn tickets_are_signed_as_in_the_vectors() {
    let file = std::fs::read_to_string(repository("tests/tickets.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let mut compared = 0;
    for signed in file["signed"].as_array().unwrap() {
        let text = |name: &str| signed["ticket"][name].as_str();
        let key = TicketKey::from_jwk(&signed["key"].to_string());
        if signed["key"]["kty"] != "oct" {
            assert!(key.is_err());
            continue;
        }
        let scope = match text("packet") {
            Some(packet) => Scope::Packet(packet),
            None => Scope::Reference { sender: text("sender").unwrap(), reference: text("reference").unwrap() },
        };
        let at =
            |seconds: &Value| seconds.as_u64().map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let mut ticket =
            Ticket { not_before: at(&signed["ticket"]["notBefore"]), ..Ticket::new(text("user").unwrap(), scope) };
        if let Some(seconds) = signed["ticket"]["expiresInS"].as_u64() {
            ticket.expires_in = Duration::from_secs(seconds);
        }
        let token = key.unwrap().sign_at(&ticket, at(&signed["now"]).unwrap()).unwrap();
        assert_eq!(token, signed["token"], "{}", signed["name"]);
        compared += 1;
    }
    assert_eq!(compared, 2);
}

/// The engine takes a ticket for a day at most, and none whose turn never comes.
#[test]
fn a_ticket_that_the_engine_would_refuse_is_not_signed() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    let key = TicketKey::from_jwk(TICKET_KEY).unwrap();
    let good = Ticket::new("bob", Scope::Packet("38FS4S83HF3Y07WMYNH727QYT0"));
    let of = |sender, reference| Ticket { scope: Scope::Reference { sender, reference }, ..good };
    let lasting = |expires_in| Ticket { expires_in, ..good };
    let from = |seconds| Ticket { not_before: Some(now + Duration::from_secs(seconds)), ..good };
    for (ticket, outcome) in [
        (good, Ok(())),
        (Ticket { user: "", ..good }, Err(TicketError::Empty)),
        (Ticket { scope: Scope::Packet(""), ..good }, Err(TicketError::Empty)),
        (of("", "nye"), Err(TicketError::Empty)),
        (of("alice", ""), Err(TicketError::Empty)),
        (lasting(Duration::from_hours(24)), Ok(())),
        (lasting(Duration::from_secs(86_401)), Err(TicketError::Life)),
        (lasting(Duration::MAX), Err(TicketError::Life)),
        (lasting(Duration::from_millis(999)), Err(TicketError::Life)),
        (from(3_599), Ok(())),
        (from(3_600), Err(TicketError::Turn)),
    ] {
        assert_eq!(key.sign_at(&ticket, now).map(drop), outcome, "{ticket:?}");
    }
}
