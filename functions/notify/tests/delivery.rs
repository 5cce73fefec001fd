//! Deliveries to real receivers on this machine, which behave badly.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{
    ANSWER_MAX, Attributes, Handled, Queue, QueueError, Queued, RECEIVES_MAX, Receiver, Secrets, Undelivered, Webhook,
    pause,
};
use shared::config::WebhookAddresses;
use shared::domain::Timestamp;
use shared::events::batch::{Answer, Batch};
use shared::ledger::{Ledger, ReceiverState};
use shared::memory::MemoryTable;
use shared::ports::{Clock, System};
use shared::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOW: Timestamp = Timestamp::from_ms(1_795_181_410_000);

/// A clock that stands still.
struct At(Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }
}

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

    /// With this status and this header `retry-after`.
    fn asking(status: u16, retry_after: &str) -> impl Future<Output = Self> {
        let head = format!("HTTP/1.1 {status} Text\r\nretry-after: {retry_after}\r\ncontent-length: 0\r\n\r\n");
        Self::start(Manner::Says(head))
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
    Webhook::new(receiver, Secret::Given(Arc::new(Secrets::parse(SECRET).unwrap())))
}

fn event(slip: u32) -> String {
    format!(
        r#"{{"type":"SlipClaimed","packet_id":"38FS4S83HF3Y07WMYNH727QYT0","sender_id":"alice","user_id":"bob","slip":{slip},"amount":1,"currency":"CNY","grabbed_at":"2026-11-20T13:30:00.000Z"}}"#
    )
}

async fn deliver(webhook: &Webhook) -> Result<(), String> {
    let event = serde_json::from_str(&event(7)).unwrap();
    webhook.deliver(&event).await.map_err(|error: Undelivered| shared::error_chain(&error))
}

#[tokio::test]
async fn any_success_is_a_delivery_and_anything_else_is_none() {
    let target = Stand::answering(200).await;
    for status in [200, 201, 202, 204, 299] {
        let stand = Stand::answering(status).await;
        deliver(&stand.webhook()).await.unwrap();
        assert_eq!(stand.requests().len(), 1);
    }
    for status in [300, 301, 302, 303, 304, 307, 308, 400, 401, 404, 409, 410, 429, 500, 502, 503] {
        let answer = format!("HTTP/1.1 {status} No\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url);
        let stand = Stand::start(Manner::Says(answer)).await;
        let error = deliver(&stand.webhook()).await.unwrap_err();
        assert!(error.starts_with(&format!("the receiver answered {status}")), "{error}");
        assert_eq!(stand.requests().len(), 1, "one request a try");
    }
    assert_eq!(target.connections.load(Ordering::SeqCst), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_request_is_a_post_of_json_to_the_whole_url_over_a_connection_that_is_used_again() {
    let stand = Stand::answering(200).await;
    let webhook = stand.webhook();
    for _ in 0..5 {
        deliver(&webhook).await.unwrap();
    }
    assert_eq!((stand.requests().len(), stand.connections.load(Ordering::SeqCst)), (5, 1));
    let request = stand.requests().remove(0);
    assert!(request.starts_with("POST /hooks?app=1 HTTP/1.1\r\n"), "{request}");
    for part in [
        "content-type: application/json\r\n",
        "webhook-id: evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7\r\n",
        "webhook-signature: v1,",
        "user-agent: hongbao/",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let at = request.split("webhook-timestamp: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let at = Timestamp::from_ms(at.parse::<u64>().unwrap() * 1_000);
    assert!(System.now().since(at) < Duration::from_mins(1), "receivers compare {at} with their own clock");
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

/// A queue that keeps what is hidden or set aside.
#[derive(Default)]
struct Kept {
    hidden: Mutex<Vec<(String, Duration)>>,
    aside: Mutex<Vec<String>>,
    fails: bool,
}

impl Kept {
    fn answer(&self) -> Result<(), QueueError> {
        if self.fails { Err("away".into()) } else { Ok(()) }
    }
}

impl Queue for Kept {
    async fn hide(&self, queued: &Queued, pause: Duration) -> Result<(), QueueError> {
        self.hidden.lock().unwrap().push((queued.receipt_handle.clone(), pause));
        self.answer()
    }

    async fn set_aside(&self, queued: &Queued) -> Result<(), QueueError> {
        self.aside.lock().unwrap().push(queued.body.clone());
        self.answer()
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

fn ledger() -> Ledger<MemoryTable> {
    Ledger::new(MemoryTable::default(), Arc::new(System))
}

/// A batch of this many events, each received so often before.
async fn handle(
    stand: &Stand,
    ledger: &Ledger<MemoryTable>,
    count: u32,
    receives: u32,
    at: Timestamp,
) -> (Handled, Kept) {
    let records = (0..count).map(|slip| queued(&format!("m{slip}"), &event(slip), receives)).collect();
    let queue = Kept::default();
    (notify::handle(&stand.webhook(), ledger, &queue, Batch { records }, &At(at)).await, queue)
}

#[tokio::test]
async fn what_was_not_delivered_stays_hidden_in_the_queue_and_the_rest_does_not() {
    let stand = Stand::answering(200).await;
    for fails in [false, true] {
        let queue = Kept { fails, ..Kept::default() };
        let records = vec![queued("a", &event(1), 1), queued("b", "no event", 3), queued("c", &event(2), 9)];
        let Handled { answer, waiting, .. } =
            notify::handle(&stand.webhook(), &ledger(), &queue, Batch { records }, &At(NOW)).await;
        assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#);
        assert_eq!(waiting, Some(Duration::ZERO));
        assert_eq!(*queue.hidden.lock().unwrap(), [("receipt-b".to_owned(), pause(3, "b"))]);
    }
    assert_eq!(stand.requests().len(), 4);

    let away = Stand::answering(503).await;
    let queue = Kept::default();
    let records = vec![queued("a", &event(1), 1), queued("c", &event(2), 9)];
    let Handled { answer, waiting, .. } =
        notify::handle(&away.webhook(), &ledger(), &queue, Batch { records }, &At(NOW)).await;
    assert_eq!((answer.batch_item_failures.len(), waiting), (2, Some(Duration::from_secs(10))));
    let pauses: Vec<Duration> = queue.hidden.lock().unwrap().iter().map(|(_, pause)| *pause).collect();
    assert_eq!(
        pauses,
        [1, 2].map(|slip| pause([1, 9][slip - 1], &format!("evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_{slip}")))
    );
}

/// 13. What a busy receiver asks for holds for all events, not only for the one that it answered.
#[tokio::test]
async fn retry_after_puts_off_the_whole_receiver_and_no_other_answer_does() {
    for (status, header, seconds) in [
        (429, "60", 60),
        (503, "7", 7),
        (503, "Fri, 20 Nov 2026 13:31:10 GMT", 60),
        (429, "86400", 3600),
        (503, "Sat, 21 Nov 2026 13:30:10 GMT", 3600),
    ] {
        let (busy, well, ledger) = (Stand::asking(status, header).await, Stand::answering(200).await, ledger());
        let until = NOW.after(Duration::from_secs(seconds));
        let (handled, queue) = handle(&busy, &ledger, 2, 1, NOW).await;
        assert_eq!((handled.answer.batch_item_failures.len(), handled.is_disabled), (2, false), "{status} {header}");
        let is_hidden = |(_, pause): &(String, Duration)| (seconds.min(600)..=750).contains(&pause.as_secs());
        assert!(queue.hidden.lock().unwrap().iter().all(is_hidden), "{status} {header}");
        assert_eq!(ledger.receiver().await.unwrap().put_off_until, Some(until));

        // Other events wait too, whatever process receives them, and are not tried.
        let early = until.before(Duration::from_millis(1));
        let (handled, queue) = handle(&well, &ledger, 3, 40, early).await;
        assert_eq!((handled.answer.batch_item_failures.len(), well.requests().len()), (3, 0), "{status} {header}");
        assert!(queue.aside.lock().unwrap().is_empty(), "what was not tried is not set aside");
        let (handled, _) = handle(&well, &ledger, 3, 1, until).await;
        assert_eq!((handled.answer.batch_item_failures.len(), well.requests().len()), (0, 3), "{status} {header}");
        assert_eq!(ledger.receiver().await.unwrap().failing_since, None);
    }
    for (status, header) in [
        (429, "soon"),
        (503, "-5"),
        (503, "0"),
        (429, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (500, "60"),
        (502, "60"),
        (301, "60"),
    ] {
        let (stand, ledger) = (Stand::asking(status, header).await, ledger());
        let (_, queue) = handle(&stand, &ledger, 1, 1, NOW).await;
        assert_eq!(queue.hidden.lock().unwrap()[0].1, pause(1, "evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_0"));
        let state = ledger.receiver().await.unwrap();
        assert_eq!((state.put_off_until, state.disabled_at, state.failing_since), (None, None, Some(NOW)), "{status}");
    }
}

/// 13.
#[tokio::test]
async fn a_receiver_that_is_gone_is_not_called_until_an_operator_enables_it() {
    let (gone, well, ledger) = (Stand::answering(410).await, Stand::answering(200).await, ledger());
    let (handled, queue) = handle(&gone, &ledger, 1, RECEIVES_MAX + 5, NOW).await;
    assert!(handled.is_disabled && queue.aside.lock().unwrap().is_empty());
    assert_eq!(ledger.receiver().await.unwrap().disabled_at, Some(NOW));
    for days in 1..13 {
        let now = NOW.after(Duration::from_hours(24) * days);
        let (handled, queue) = handle(&well, &ledger, 2, RECEIVES_MAX * days, now).await;
        assert_eq!((handled.answer.batch_item_failures.len(), handled.is_disabled), (2, true));
        assert!(queue.aside.lock().unwrap().is_empty());
        // So often is an event received in two weeks that SQS itself must not set it aside.
        let pause = queue.hidden.lock().unwrap()[0].1;
        assert!(Duration::from_hours(24 * 14).as_secs() / pause.as_secs() < 1000, "{pause:?}");
        assert_eq!(handled.metric("hongbao", now).unwrap()["WebhooksDisabled"], 1);
    }
    assert_eq!((gone.requests().len(), well.requests().len()), (1, 0));
    let now = NOW.after(Duration::from_hours(24 * 13));
    ledger.enable_receiver(None, now).await.unwrap();
    let (handled, _) = handle(&well, &ledger, 2, RECEIVES_MAX * 10, now).await;
    assert_eq!((handled.answer.batch_item_failures.len(), handled.is_disabled), (0, false));
    assert!(handled.metric("hongbao", now).is_none());
}

#[tokio::test]
async fn what_a_busy_receiver_put_off_comes_soon_after_an_operator_enabled_it() {
    let (busy, well, ledger) = (Stand::asking(429, "3600").await, Stand::answering(200).await, ledger());
    let (_, queue) = handle(&busy, &ledger, 3, 1, NOW).await;
    ledger.enable_receiver(None, NOW.after(Duration::from_mins(1))).await.unwrap();
    let latest = queue.hidden.lock().unwrap().iter().map(|(_, pause)| *pause).max().unwrap();
    assert!(latest < Duration::from_mins(15), "{latest:?}");
    let (handled, _) = handle(&well, &ledger, 3, 2, NOW.after(latest)).await;
    assert_eq!((handled.answer.batch_item_failures.len(), well.requests().len()), (0, 3));
}

/// 13.
#[tokio::test]
async fn a_receiver_that_failed_is_asked_with_one_event_first() {
    let (away, busy, ledger) = (Stand::answering(500).await, Stand::asking(429, "60").await, ledger());
    handle(&away, &ledger, 3, 1, NOW).await;
    assert_eq!(away.requests().len(), 3, "nothing was known of it");
    let (handled, _) = handle(&busy, &ledger, 10, 1, NOW).await;
    assert_eq!((busy.requests().len(), handled.answer.batch_item_failures.len()), (1, 10));
    let well = Stand::answering(200).await;
    let (handled, _) = handle(&well, &ledger, 10, 1, NOW.after(Duration::from_mins(1))).await;
    assert_eq!((well.requests().len(), handled.answer.batch_item_failures.len()), (10, 0));
}

/// 13. What an operator sees, and what they don't have to: a receiver that takes some events is not failing.
#[tokio::test]
async fn the_first_failure_since_a_delivery_and_the_oldest_event_that_waits_are_noted() {
    let (away, well, ledger) = (Stand::answering(500).await, Stand::answering(200).await, ledger());
    for hours in 0..3 {
        handle(&away, &ledger, 2, 1, NOW.after(Duration::from_hours(hours))).await;
    }
    let expected = ReceiverState {
        failing_since: Some(NOW),
        last_answer: Some("the receiver answered 500 Internal Server Error".to_owned()),
        last_answer_at: Some(NOW.after(Duration::from_hours(2))),
        oldest_at: Some(NOW.before(Duration::from_secs(10))),
        ..ReceiverState::default()
    };
    assert_eq!(ledger.receiver().await.unwrap(), expected);
    handle(&well, &ledger, 1, 1, NOW.after(Duration::from_hours(3))).await;
    assert_eq!(ledger.receiver().await.unwrap(), ReceiverState { failing_since: None, oldest_at: None, ..expected });
    // A message that is no event says nothing of the receiver.
    let records = vec![queued("b", "no event", 1)];
    let unknown = self::ledger();
    notify::handle(&well.webhook(), &unknown, &Kept::default(), Batch { records }, &At(NOW)).await;
    assert_eq!(unknown.receiver().await.unwrap(), ReceiverState::default());
}

/// 13. Only a failed try sets an event aside: not a receiver that is put off, gone, or was enabled just now.
#[tokio::test]
async fn an_event_is_set_aside_after_a_day_of_tries() {
    let (away, ledger) = (Stand::answering(500).await, ledger());
    let day = Duration::from_hours(24);
    for (receives, enabled_at, is_aside) in [
        (RECEIVES_MAX - 1, None, false),
        (RECEIVES_MAX, None, true),
        (RECEIVES_MAX * 9, None, true),
        (RECEIVES_MAX * 9, Some(NOW.before(day / 24)), false),
        (RECEIVES_MAX * 9, Some(NOW.before(day)), true),
    ] {
        if let Some(at) = enabled_at {
            ledger.enable_receiver(None, at).await.unwrap();
        }
        let (Handled { answer: Answer { batch_item_failures }, .. }, queue) =
            handle(&away, &ledger, 1, receives, NOW).await;
        let aside = queue.aside.lock().unwrap().clone();
        assert_eq!(aside, if is_aside { vec![event(0)] } else { vec![] }, "{receives} {enabled_at:?}");
        assert_eq!(batch_item_failures.is_empty(), is_aside);
    }
    let queue = Kept { fails: true, ..Kept::default() };
    let records = vec![queued("a", &event(1), RECEIVES_MAX)];
    let handled = notify::handle(&away.webhook(), &ledger, &queue, Batch { records }, &At(NOW)).await;
    assert_eq!(handled.answer.batch_item_failures.len(), 1, "what can't be set aside stays");
    for busy in [Stand::asking(503, "60").await, Stand::answering(410).await] {
        let (handled, queue) = handle(&busy, &self::ledger(), 1, RECEIVES_MAX, NOW).await;
        assert_eq!((handled.answer.batch_item_failures.len(), queue.aside.lock().unwrap().len()), (1, 0));
    }
}
