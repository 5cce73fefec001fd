//! The function that delivers webhooks: over TLS to a receiver on this machine, with its queue and its secret behind AWS' protocol.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use shared::redis::test_server::TestTls;
use tests::relay::stand_in;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::publish::aws_answer;
use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a server on this machine was asked, with its body: SQS and Secrets Manager, by their operations, or the receiver.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// SQS and Secrets Manager, as far as the function calls them.
async fn aws(asked: Asked) -> String {
    let address = stand_in(move |request| {
        let operation = request.headers()["x-amz-target"].to_str().unwrap().to_owned();
        asked.lock().unwrap().push((operation.clone(), serde_json::from_slice(request.body()).unwrap()));
        let answer = match &*operation {
            "secretsmanager.GetSecretValue" => json!({"SecretString": SECRET}),
            "AmazonSQS.ChangeMessageVisibility" => json!({}),
            other => panic!("{other}"),
        };
        async move { aws_answer(200, &answer) }
    });
    format!("http://{}", address.await)
}

/// A receiver with TLS that takes all events but carol's.
async fn receiver(tls: &TestTls, taken: Asked) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/webhooks", listener.local_addr().unwrap().port());
    let file = |name| tls.ca_file().with_file_name(name);
    let certificate = CertificateDer::from_pem_file(file("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(socket) = acceptor.accept(socket).await else { continue };
            let taken = Arc::clone(&taken);
            let service = service_fn(move |request: Request<Incoming>| {
                let taken = Arc::clone(&taken);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    standardwebhooks::Webhook::new(SECRET).unwrap().verify(&body, &head.headers).unwrap();
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    let status = if body["data"]["user_id"] == "carol" { 500 } else { 200 };
                    let id = head.headers["webhook-id"].to_str().unwrap().to_owned();
                    taken.lock().unwrap().push((id, body));
                    Ok::<_, Infallible>(Response::builder().status(status).body(Full::<Bytes>::default()).unwrap())
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    url
}

fn event(user: &str, slip: u32) -> String {
    json!({
        "type": "SlipClaimed", "packet_id": PLACEHOLDER, "sender_id": "alice", "user_id": user, "slip": slip, "amount": 1,
        "currency": "CNY", "grabbed_at": "2026-11-20T13:30:00.000Z",
    })
    .to_string()
}

pub(super) fn batch(users: &[&str]) -> Value {
    let records = users.iter().zip(1..).map(|(user, slip)| {
        json!({
            "messageId": user, "receiptHandle": format!("receipt-{user}"), "body": event(user, slip),
            "attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1"}, "eventSource": "aws:sqs",
        })
    });
    json!({"Records": records.collect::<Vec<_>>()})
}

#[tokio::test]
async fn events_of_a_queue_are_delivered_over_tls_and_the_rest_stays_hidden() {
    shared::redis::install_crypto_provider();
    let (asked, taken, tls) = (Asked::default(), Asked::default(), TestTls::new());
    let (aws, url, ca) = (aws(Arc::clone(&asked)).await, receiver(&tls, Arc::clone(&taken)).await, tls.ca_file());
    let dynamodb = DynamoDb::start(None).await.unwrap();
    create_table(&dynamodb_at(&dynamodb.url()), TABLE).await.unwrap();
    let dynamodb_url = dynamodb.url();
    let mut variables = BTreeMap::from([
        ("AWS_ENDPOINT_URL_DYNAMODB", &*dynamodb_url),
        ("WEBHOOK_DEAD_LETTERS", "https://sqs.example/dead"),
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_SQS", &*aws),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", &aws),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("SSL_CERT_FILE", ca.to_str().unwrap()),
        ("WEBHOOK_URL", &url),
        ("WEBHOOK_SECRET", "webhooks"),
        ("WEBHOOK_QUEUE", "https://sqs.example/queue"),
        ("WEBHOOK_ADDRESSES", "any"),
    ]);
    let start = async |variables: &BTreeMap<&str, &str>| {
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, *value)).collect();
        Function::start(built("notify"), &variables).await
    };
    let notify = start(&variables).await;
    let answer = notify.invoke(batch(&["bob", "carol", "dave"]).to_string().as_bytes()).await;
    assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": "carol"}]}), "{}", notify.log());
    let ids: Vec<String> = taken.lock().unwrap().drain(..).map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 3);
    for slip in 1..=3 {
        assert!(ids.contains(&format!("evt_{PLACEHOLDER}_claimed_{slip}")), "{ids:?}");
    }
    let calls: BTreeMap<String, Value> = asked.lock().unwrap().drain(..).collect();
    assert_eq!(calls["secretsmanager.GetSecretValue"]["SecretId"], "webhooks");
    let hidden = &calls["AmazonSQS.ChangeMessageVisibility"];
    assert_eq!(
        (&hidden["QueueUrl"], &hidden["ReceiptHandle"]),
        (&json!("https://sqs.example/queue"), &json!("receipt-carol"))
    );
    assert!((10..=13).contains(&hidden["VisibilityTimeout"].as_u64().unwrap()), "the second pause: {hidden}");
    let answer = notify.invoke(batch(&["bob"]).to_string().as_bytes()).await;
    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert!(asked.lock().unwrap().is_empty(), "the secret is not read for each batch");
    let log = notify.log();
    assert!(log.contains("a webhook was not delivered") && log.contains("\"WebhookAge\""), "{log}");
    assert!(!log.contains("MfKQ9r8G") && !log.contains("carol") && !log.contains("alice"), "{log}");

    taken.lock().unwrap().clear();
    variables.insert("WEBHOOK_ADDRESSES", "public");
    let notify = start(&variables).await;
    let answer = notify.invoke(batch(&["bob"]).to_string().as_bytes()).await;
    assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": "bob"}]}));
    assert!(
        notify.log().contains("127.0.0.1 is no public address") || notify.log().contains("::1 is no public address")
    );
    assert!(taken.lock().unwrap().is_empty());
}
