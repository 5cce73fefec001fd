//! Deliveries to real receivers on this machine, which behave badly.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{
    ANSWER_MAX, Attributes, Batch, Handled, Message, Queue, Queued, Receiver, SecretSource, Secrets, Undelivered,
    Webhook, pause,
};
use shared::config::WebhookAddresses;
use shared::domain::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: Timestamp = Timestamp::from_ms(1_795_181_410_000);

/// How a receiver answers a request.
#[derive(Clone)]
enum Manner {
    /// With this text at once.
    Says(String),
    /// The same after this time.
    After(Duration, String),
    /// With a body that never ends.
    Endless,
    /// Never.
    Hangs,
}

/// A receiver that keeps the requests that it got.
struct Stand {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    got: Arc<Notify>,
}

impl Stand {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/hooks?app=1", listener.local_addr().unwrap().port());
        let (connections, requests, got) = (Arc::default(), Arc::default(), Arc::default());
        let stand =
            Self { url, connections: Arc::clone(&connections), requests: Arc::clone(&requests), got: Arc::clone(&got) };
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(socket, manner.clone(), Arc::clone(&requests), Arc::clone(&got)));
            }
        });
        stand
    }

    fn answering(status: u16) -> impl Future<Output = Self> {
        Self::start(Manner::Says(format!("HTTP/1.1 {status} Text\r\ncontent-length: 2\r\n\r\nok")))
    }

    fn webhook(&self) -> Webhook {
        webhook(&self.url, WebhookAddresses::PublicOrLoopback)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Serves a connection, request by request.
async fn serve(mut socket: TcpStream, manner: Manner, requests: Arc<Mutex<Vec<String>>>, got: Arc<Notify>) {
    let mut read = Vec::new();
    loop {
        let request = loop {
            if let Some(request) = whole(&read) {
                break request;
            }
            let mut more = [0; 4096];
            match socket.read(&mut more).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => read.extend_from_slice(&more[..bytes]),
            }
        };
        read.drain(..request.len());
        requests.lock().unwrap().push(request);
        got.notify_one();
        match &manner {
            Manner::Says(answer) => socket.write_all(answer.as_bytes()).await.unwrap(),
            Manner::After(time, answer) => {
                tokio::time::sleep(*time).await;
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            Manner::Endless => {
                socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
                while socket.write_all(b"5\r\nabcde\r\n").await.is_ok() {}
                return;
            }
            Manner::Hangs => std::future::pending().await,
        }
    }
}

/// The first request of what was read, if all of it is there.
fn whole(read: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(read).into_owned();
    let head = text.find("\r\n\r\n")? + 4;
    let length =
        text[..head].to_lowercase().split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
    (text.len() >= head + length).then(|| text[..head + length].to_owned())
}

fn webhook(url: &str, rule: WebhookAddresses) -> Webhook {
    shared::redis::install_crypto_provider();
    let receiver = Receiver::new(url, rule, true).unwrap();
    Webhook::new(receiver, SecretSource::Given(Arc::new(Secrets::parse(SECRET).unwrap())))
}

fn event(slip: u32) -> String {
    format!(
        r#"{{"type":"SlipClaimed","packet_id":"38FS4S83HF3Y07WMYNH727QYT0","sender_id":"alice","user_id":"bob","slip":{slip},"amount":1,"currency":"CNY","grabbed_at":"2026-11-20T13:30:00.000Z"}}"#
    )
}

async fn deliver(webhook: &Webhook) -> Result<(), String> {
    let text = event(7);
    let message = Message::read(&text).unwrap();
    webhook.deliver(&message, NOW).await.map_err(|error: Undelivered| shared::error_chain(&error))
}

#[tokio::test]
async fn any_success_is_a_delivery_and_anything_else_is_none() {
    for status in [200, 201, 202, 204, 299] {
        let stand = Stand::answering(status).await;
        deliver(&stand.webhook()).await.unwrap();
        assert_eq!(stand.requests().len(), 1);
    }
    for status in [300, 304, 400, 401, 404, 409, 410, 429, 500, 502, 503] {
        let stand = Stand::answering(status).await;
        let error = deliver(&stand.webhook()).await.unwrap_err();
        assert!(error.starts_with(&format!("the receiver answered {status}")), "{error}");
        assert_eq!(stand.requests().len(), 1, "one request a try");
    }
}

#[tokio::test]
async fn a_request_is_a_post_of_json_to_the_whole_url() {
    let stand = Stand::answering(200).await;
    deliver(&stand.webhook()).await.unwrap();
    let request = stand.requests().remove(0);
    assert!(request.starts_with("POST /hooks?app=1 HTTP/1.1\r\n"), "{request}");
    for part in [
        "content-type: application/json\r\n",
        "webhook-id: evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7\r\n",
        "webhook-timestamp: 1795181410\r\n",
        "webhook-signature: v1,",
        "user-agent: hongbao/",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Stand::answering(200).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url);
        let stand = Stand::start(Manner::Says(answer)).await;
        let error = deliver(&stand.webhook()).await.unwrap_err();
        assert!(error.starts_with(&format!("the receiver answered {status}")), "{error}");
    }
    assert_eq!(target.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn no_private_address_is_called() {
    let stand = Stand::answering(200).await;
    let port = stand.url.split([':', '/']).nth(4).unwrap();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "[::]"]
    {
        for rule in [WebhookAddresses::Public, WebhookAddresses::PublicOrLoopback] {
            let error = deliver(&webhook(&format!("http://{host}:{port}/"), rule)).await;
            let is_refused = error.as_ref().is_err_and(|error| error.contains("is no public address"));
            // Some systems do not know all of these names.
            let is_unknown = error.as_ref().is_err_and(|error| error.contains("failed to lookup address"));
            let is_loopback = rule == WebhookAddresses::PublicOrLoopback && !["0.0.0.0", "[::]"].contains(&host);
            assert!(is_refused || is_unknown || is_loopback, "{host} {rule:?}: {error:?}");
        }
    }
    let before = stand.connections.load(Ordering::SeqCst);
    for host in ["10.255.255.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"] {
        let error =
            deliver(&webhook(&format!("http://{host}/"), WebhookAddresses::PublicOrLoopback)).await.unwrap_err();
        assert!(error.contains("is no public address"), "{host}: {error}");
    }
    assert_eq!(stand.connections.load(Ordering::SeqCst), before);
    deliver(&webhook(&stand.url, WebhookAddresses::Any)).await.unwrap();
}

#[tokio::test]
async fn a_slow_receiver_is_waited_for_and_one_that_hangs_is_not() {
    let answer = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
    let stand = Stand::start(Manner::After(Duration::from_millis(300), answer)).await;
    deliver(&stand.webhook()).await.unwrap();

    let stand = Stand::start(Manner::Hangs).await;
    let webhook = stand.webhook();
    let (delivered, begun) = tokio::join!(deliver(&webhook), async {
        stand.got.notified().await;
        // From here on nothing can happen but the end of the wait.
        tokio::time::pause();
        tokio::time::Instant::now()
    });
    assert_eq!(delivered.unwrap_err(), "the receiver did not answer within 10 s");
    assert!(begun.elapsed() >= ANSWER_MAX.saturating_sub(Duration::from_secs(1)));
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let stand = Stand::start(Manner::Endless).await;
    let webhook = stand.webhook();
    deliver(&webhook).await.unwrap();
    deliver(&webhook).await.unwrap();
    assert_eq!(stand.connections.load(Ordering::SeqCst), 2, "such a connection is not used again");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let stand = Stand::answering(200).await;
    let webhook = stand.webhook();
    for _ in 0..5 {
        deliver(&webhook).await.unwrap();
    }
    assert_eq!((stand.requests().len(), stand.connections.load(Ordering::SeqCst)), (5, 1));
}

#[test]
fn only_a_local_stack_accepts_http() {
    shared::redis::install_crypto_provider();
    let is_good = |url: &str, accepts_http| Receiver::new(url, WebhookAddresses::Public, accepts_http).is_ok();
    assert!(is_good("https://app.example/hooks", false) && is_good("https://app.example:8443", true));
    assert!(is_good("http://app.example/hooks", true) && !is_good("http://app.example/hooks", false));
    for bad in [
        "",
        "app.example",
        "/hooks",
        "ftp://app.example",
        "https://",
        "https://user:word@app.example/",
        "file:///etc/passwd",
    ] {
        assert!(!is_good(bad, true), "{bad}");
    }
}

/// A queue that keeps what is hidden.
#[derive(Default)]
struct Hidden {
    until: Mutex<Vec<(String, Duration)>>,
    fails: bool,
}

impl Queue for Hidden {
    async fn hide(&self, receipt: &str, pause: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.until.lock().unwrap().push((receipt.to_owned(), pause));
        if self.fails { Err("away".into()) } else { Ok(()) }
    }
}

fn queued(name: &str, body: &str, receives: u32) -> Queued {
    Queued {
        message_id: name.to_owned(),
        receipt_handle: format!("receipt-{name}"),
        body: body.to_owned(),
        attributes: Attributes { approximate_receive_count: receives.to_string() },
    }
}

#[tokio::test]
async fn what_was_not_delivered_stays_hidden_in_the_queue_and_the_rest_does_not() {
    let stand = Stand::answering(200).await;
    for fails in [false, true] {
        let queue = Hidden { fails, ..Hidden::default() };
        let records = vec![queued("a", &event(1), 1), queued("b", "no event", 3), queued("c", &event(2), 9)];
        let Handled { answer, failed_age } = notify::handle(&stand.webhook(), &queue, Batch { records }, NOW).await;
        assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#);
        assert_eq!(failed_age, Some(Duration::ZERO));
        assert_eq!(*queue.until.lock().unwrap(), [("receipt-b".to_owned(), pause(3, "b"))]);
    }
    assert_eq!(stand.requests().len(), 4);

    let away = Stand::answering(503).await;
    let queue = Hidden::default();
    let records = vec![queued("a", &event(1), 1), queued("c", &event(2), 9)];
    let Handled { answer, failed_age } = notify::handle(&away.webhook(), &queue, Batch { records }, NOW).await;
    assert_eq!((answer.batch_item_failures.len(), failed_age), (2, Some(Duration::from_secs(10))));
    let pauses: Vec<Duration> = queue.until.lock().unwrap().iter().map(|(_, pause)| *pause).collect();
    assert_eq!(
        pauses,
        [1, 2].map(|slip| pause([1, 9][slip - 1], &format!("evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_{slip}")))
    );
}

#[test]
fn a_batch_reads_as_sqs_sends_it() {
    let event = r#"{"Records": [{"messageId": "059f36b4", "receiptHandle": "AQEB", "body": "{}",
        "attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1545082649183", "SenderId": "A", "ApproximateFirstReceiveTimestamp": "1"},
        "messageAttributes": {}, "md5OfBody": "e4e6", "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:r:1:q", "awsRegion": "r"}]}"#;
    let Batch { records } = serde_json::from_str(event).unwrap();
    let [queued] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        (&*queued.message_id, &*queued.receipt_handle, &*queued.attributes.approximate_receive_count),
        ("059f36b4", "AQEB", "2")
    );
}

#[test]
fn the_age_of_what_failed_is_a_metric() {
    let line = notify::metric(Duration::from_millis(61_500), "hongbao", NOW);
    assert_eq!(line["WebhookAge"], 61);
    assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"], "Seconds");
}
