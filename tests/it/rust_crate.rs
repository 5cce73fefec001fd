//! What the crate of the Rust client promises: a method for each operation of `openapi.yaml`, and the check of webhooks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use client::webhooks::{Data, PacketClosed, PacketSent, PacketSettled, SlipClaimed, WebhookError, verify, verify_at};
use client::{Caller, Client, MovementFilter, Page, SendRequest, Split, Transport};
use http::{HeaderMap, HeaderName, Request, Response};
use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::contract::spec::SPEC;
use crate::repository;

/// Records each request, and answers it with an empty object.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Transport for Recorder {
    async fn exchange(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let parts: Vec<&str> = request.uri().path().split('/').collect();
        // The ids of this test have one letter.
        let path = parts.into_iter().map(|part| if part.len() == 1 { "*" } else { part }).collect::<Vec<_>>().join("/");
        self.0.lock().unwrap().push(format!("{} {path}", request.method()));
        Ok(Response::new("{}".into()))
    }
}

/// A new operation needs a method, and a row here.
#[tokio::test]
async fn each_operation_of_the_document_has_a_method_that_sends_its_request() {
    let recorder = Recorder::default();
    let operator = Client::new(recorder.clone(), "http://hongbao.test", Caller::Nobody);
    let user = operator.for_user("u");
    let (page, body) = (Page::default(), SendRequest::new(Split::Equal, 1, 1));
    let mut called: Vec<(String, String)> = Vec::new();
    macro_rules! call {
        ($($operation:literal: $call:expr),* $(,)?) => {$(
            drop($call.await);
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
        "closePacket": operator.close_packet("p", "r"),
        "suspendUser": operator.suspend_user("u", "r"),
        "liftSuspension": operator.lift_suspension("u"),
    }
    let operations = SPEC.operations().into_iter();
    let mut documented: Vec<(String, String)> = operations
        .map(|operation| {
            let parts = operation.path.split('/').map(|part| if part.starts_with('{') { "*" } else { part });
            let path = parts.collect::<Vec<_>>().join("/");
            (operation.id.to_owned(), format!("{} {path}", operation.method))
        })
        .collect();
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

/// The crate has a type for each event of the page.
#[test]
fn each_event_of_the_page_reads() {
    let page = std::fs::read_to_string(repository("docs/INTEGRATE.md")).unwrap();
    let mut events = 0;
    for block in page.split("```json\n").skip(1) {
        let event: Value = serde_json::from_str(block.split("```").next().unwrap()).unwrap();
        let (kind, detail) = (event["type"].as_str().unwrap(), event["data"].clone());
        let read = match kind {
            "PacketSent" => serde_json::from_value::<PacketSent>(detail).err(),
            "SlipClaimed" => serde_json::from_value::<SlipClaimed>(detail).err(),
            "PacketClosed" => serde_json::from_value::<PacketClosed>(detail).err(),
            "PacketSettled" | "PacketRefunded" => serde_json::from_value::<PacketSettled>(detail).err(),
            other => panic!("the crate has no type for {other}"),
        };
        assert!(read.is_none(), "{kind}: {read:?}");
        events += 1;
    }
    assert!(events >= 3, "{events}");
}
