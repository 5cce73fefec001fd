//! The Rust client: against the local stack, against `openapi.yaml`, and against a service that does not answer.

use std::time::Duration;

use client::{
    Caller, Client, Error, GrabResult, MovementFilter, Packet, PacketClaim, Page, ProblemCode, Retries, SendRequest,
    Split, Status,
};
use local::{Local, Options};
use serde_json::{Value, json};
use shared::http::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::contract::spec::SPEC;

fn client(url: &str, caller: Caller) -> Client {
    Client::new(reqwest::Client::new(), url, caller)
}

fn by(user: &str) -> Caller {
    Caller::Local(user.to_owned())
}

#[tokio::test]
async fn the_base_url_may_have_a_path_and_end_with_a_slash() {
    let options = Options { base_path: Some("/hongbao".to_owned()), ..Options::ephemeral() };
    let local = Local::start(options).await.unwrap();
    for end in ["", "/"] {
        let operator = client(&format!("{}{end}", local.url()), Caller::Nobody);
        assert_eq!(operator.deposit("alice", "d", 1_000).await.unwrap().balance, 1_000);
        assert_eq!(operator.by(by("alice")).wallet().await.unwrap().balance, 1_000);
    }
}

#[tokio::test]
async fn every_operation_is_called_and_its_answer_reads() {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let operator = client(&local.url(), Caller::Nobody);
    let (alice, bob) = (operator.by(by("alice")), operator.by(by("bob")));
    assert_eq!(operator.deposit("alice", "d", 1_000).await.unwrap().balance, 1_000);
    assert_eq!(operator.withdraw("alice", "w", 100).await.unwrap().balance, 900);
    let body = SendRequest {
        greeting: Some("恭喜发财".to_owned()),
        passphrase: Some("芝麻开门".to_owned()),
        recipients: Some(vec!["bob".to_owned(), "a{b}".to_owned()]),
        expires_in_s: Some(600),
        cover: Some("spring".to_owned()),
        reference: Some("order-17".to_owned()),
        metadata: Some([("channel".to_owned(), "app".to_owned())].into()),
        ..SendRequest::new(Split::Equal, 300, 3)
    };
    let sent = alice.send("k", &body).await.unwrap();
    let again = alice.send("k", &body).await.unwrap();
    assert_eq!((sent.replayed, again.replayed, &sent.packet), (false, true, &again.packet));
    let id = sent.packet.packet_id.as_str();
    assert_eq!((&sent.packet.metadata, &sent.packet.now), (&body.metadata, &None));

    let refused = bob.grab(id, Some("sesame")).await.unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::WrongPassphrase));
    for user in ["bob", "a{b}"] {
        let grabbed = operator.by(by(user)).grab(id, Some("芝麻开门")).await.unwrap();
        assert!(matches!(grabbed, GrabResult::Grabbed { amount: 100, replayed: false, .. }), "{grabbed:?}");
    }
    let seen = alice.packet(id).await.unwrap();
    assert_eq!((seen.status, seen.claimed_count, seen.mine, seen.best), (Status::Open, 2, None, None));
    assert_eq!((seen.split_version, seen.slip_cap), (1, 20_000));
    assert_eq!(seen.recipients, Some(vec!["a{b}".to_owned(), "bob".to_owned()]));
    assert_eq!((seen.cover.as_deref(), seen.has_passphrase, seen.now.is_some()), (Some("spring"), true, true));
    let bobs = bob.packet(id).await.unwrap();
    assert_eq!(bobs.mine.as_ref().map(|mine| (mine.amount, &*mine.currency)), Some((100, "CNY")));
    assert_eq!((bobs.reference, bobs.recipients, bobs.metadata), (None, None, None));

    let mut claims: Vec<PacketClaim> = Vec::new();
    let mut cursor = None;
    loop {
        let page = alice.claims(id, Page { limit: Some(1), cursor: cursor.as_deref() }).await.unwrap();
        claims.extend(page.claims);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(claims.len(), 2);
    assert_eq!(alice.my_packets(Page::default()).await.unwrap().packets[0].packet_id, id);
    assert_eq!(bob.my_claims(Page::default()).await.unwrap().claims[0].packet_id, id);
    assert_eq!((alice.wallet().await.unwrap().balance, operator.wallet_of("a{b}").await.unwrap().balance), (600, 100));
    let newest = alice.newest_claims(id, None, Page::default()).await.unwrap();
    let mut by_slip = newest.claims.clone();
    by_slip.sort_by_key(|claim| claim.slip);
    assert_eq!(by_slip, claims);
    let later = alice.newest_claims(id, newest.newest_cursor.as_deref(), Page::default()).await.unwrap();
    assert!(later.claims.iter().all(|claim| claims.contains(claim)));
    let movements = operator.movements("alice", MovementFilter::default(), Page::default()).await.unwrap().movements;
    assert_eq!(movements.iter().map(|movement| movement.amount).sum::<i64>(), 600);
    assert!(movements.iter().any(|movement| movement.by.as_deref().is_some_and(|by| by.starts_with("arn:"))));

    let own = alice.my_movements(MovementFilter::default(), Page::default()).await.unwrap().movements;
    assert!(own.iter().all(|movement| movement.by.is_none()));
    assert_eq!(
        own.iter().map(|row| &row.id).collect::<Vec<_>>(),
        movements.iter().map(|row| &row.id).collect::<Vec<_>>()
    );
    let sent =
        MovementFilter { kind: Some("sent"), to: Some("2100-01-01T00:00:00+00:00"), ..MovementFilter::default() };
    let sent = operator.for_user("alice").my_movements(sent, Page::default()).await.unwrap().movements;
    assert_eq!(sent.iter().map(|movement| &*movement.id).collect::<Vec<_>>(), [id]);

    // For a user, and for the operator.
    let (for_alice, for_bob) = (operator.for_user("alice"), operator.for_user("a{b}"));
    assert!(for_alice.send("k", &body).await.unwrap().replayed);
    let again = for_bob.grab(id, None).await.unwrap();
    assert!(matches!(again, GrabResult::Grabbed { amount: 100, replayed: true, .. }), "{again:?}");
    assert_eq!(for_bob.packet(id).await.unwrap().mine.map(|mine| mine.amount), Some(100));
    assert_eq!(for_bob.claims(id, Page::default()).await.unwrap().claims, claims);
    let both = [for_alice.my_packets(Page::default()).await.unwrap(), alice.my_packets(Page::default()).await.unwrap()];
    assert_eq!(both[0], both[1]);
    assert_eq!(for_bob.my_claims(Page::default()).await.unwrap().claims[0].packet_id, id);
    assert_eq!(for_bob.wallet().await.unwrap().balance, 100);
    let any = operator.any_packet(id).await.unwrap();
    assert_eq!((any.reference.as_deref(), &any.metadata, any.mine), (Some("order-17"), &body.metadata, None));
    let page = Page { limit: Some(1), cursor: None };
    let found = operator.find_packets("order-17", page).await.unwrap();
    assert_eq!(found.packets.iter().map(|packet| &*packet.packet_id).collect::<Vec<_>>(), [id]);

    intervenes(&operator, &alice, id).await;

    let bad = alice.send("k-2", &SendRequest::new(Split::Random, 0, 0)).await.unwrap_err();
    let Error::Problem(problem) = bad else { panic!("{bad:?}") };
    assert_eq!((problem.status, problem.code), (400, ProblemCode::InvalidRequest));
    assert!(problem.errors.iter().any(|error| error.field == "count"), "{problem}");
    local.stop().await;
}

/// The operator suspends a user, and closes a packet that is for this user only.
async fn intervenes(operator: &Client, alice: &Client, id: &str) {
    let for_bob = operator.for_user("a{b}");
    let suspended = operator.suspend_user("a{b}", "reported").await.unwrap();
    assert_eq!((&*suspended.user_id, &*suspended.suspension.reason), ("a{b}", "reported"));
    assert_eq!(operator.wallet_of("a{b}").await.unwrap().suspension, Some(suspended.suspension));
    assert_eq!(for_bob.wallet().await.unwrap().balance, 100);
    let one = SendRequest::new(Split::Equal, 1, 1);
    assert_eq!(for_bob.send("k", &one).await.unwrap_err().code(), Some(ProblemCode::AccountSuspended));
    operator.lift_suspension("a{b}").await.unwrap();
    operator.lift_suspension("a{b}").await.unwrap();
    assert!(!for_bob.send("k", &one).await.unwrap().replayed);
    let closed = operator.close_packet(id, "reported").await.unwrap();
    assert!(closed.closed_at.is_some() && [Status::Closed, Status::Settled].contains(&closed.status), "{closed:?}");
    assert_eq!(operator.close_packet(id, "again").await.unwrap().closed_at, closed.closed_at);
    let late = alice.grab(id, Some("芝麻开门")).await.unwrap_err();
    assert_eq!(late.code(), Some(ProblemCode::NotARecipient));
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
            // A JSON body ends with its brace.
            while !request.ends_with('}') {
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

#[tokio::test]
async fn a_daily_limit_says_when_the_user_may_send_again() {
    let forbidden = &SPEC.document["components"]["responses"]["SendForbidden"]["content"]["application/problem+json"];
    let body = &forbidden["examples"]["daily_limit"]["value"];
    let (url, served) = service(vec![answer("403 Forbidden", "", body)]).await;
    let error = client(&url, by("alice")).send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
    let Error::Problem(problem) = error else { panic!("{error:?}") };
    assert_eq!(problem.code, ProblemCode::DailyLimitExceeded);
    assert_eq!(problem.resets_at.as_deref(), body["resets_at"].as_str());
    served.await.unwrap();
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
async fn a_problem_of_a_later_version_counts_as_its_status_says() {
    for (status, expected) in [
        ("403 Forbidden", ProblemCode::Forbidden),
        ("503 Service Unavailable", ProblemCode::Unavailable),
        ("422 Unprocessable Entity", ProblemCode::IdempotencyKeyReused),
    ] {
        let body = json!({"code": "later", "detail": "what it is", "request_id": "r", "later": 1, "errors": []});
        let (url, served) = service(vec![answer(status, "", &body)]).await;
        let alice = client(&url, by("alice")).retrying(Retries::NONE);
        let error = alice.send("k", &SendRequest::new(Split::Equal, 1, 1)).await.unwrap_err();
        let Error::Problem(problem) = error else { panic!("{error:?}") };
        assert_eq!(
            (problem.code, &*problem.detail, problem.request_id.as_deref()),
            (expected, "what it is", Some("r"))
        );
        served.await.unwrap();
    }
}
