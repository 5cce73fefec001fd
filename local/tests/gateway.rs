//! The gateway over real sockets, with a stand-in for the functions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Response;
use lambda_http::{Body, Request, RequestExt};
use local::gateway::{Gateway, Invoke};
use serde_json::{Value, json};
use shared::batching::Permits;
use shared::http::Function;
use shared::service::RunReport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

/// Answers with the called function, and acts as the path says.
struct Fake {
    /// Calls of `/packets/slow` wait here.
    gate: Semaphore,
    begun: Semaphore,
    ended: AtomicUsize,
}

impl Invoke for Fake {
    async fn call(&self, function: Function, request: Request) -> Response<Body> {
        let path = request.raw_http_path().to_owned();
        assert!(path != "/packets/panic", "as asked");
        if path == "/packets/slow" {
            self.begun.add_permits(1);
            self.gate.acquire().await.unwrap().forget();
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        let length = request.body().len();
        let body = json!({"function": format!("{function:?}"), "path": path, "length": length});
        Response::builder().status(418).header("x-answer", "yes").body(Body::Text(body.to_string())).unwrap()
    }

    async fn settle(&self) -> anyhow::Result<RunReport> {
        Ok(RunReport { persisted: 1, oldest_outbox_ms: Some(0), ..RunReport::default() })
    }
}

async fn start() -> (Gateway, Arc<Fake>, String) {
    start_with(Permits::new(1_000)).await
}

async fn start_with(limiter: Permits) -> (Gateway, Arc<Fake>, String) {
    let fake = Arc::new(Fake { gate: Semaphore::new(0), begun: Semaphore::new(0), ended: AtomicUsize::new(0) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Gateway::serve(listener, Arc::clone(&fake), limiter).unwrap();
    let url = format!("http://{}", gateway.address());
    (gateway, fake, url)
}

/// The same bytes with the gateway's own name instead of `a`.
fn named(gateway: &Gateway, request: &[u8]) -> Vec<u8> {
    const HOST: &[u8] = b"\r\nHost: a\r\n";
    let Some(at) = request.windows(HOST.len()).position(|bytes| bytes == HOST) else { return request.to_owned() };
    let own = format!("\r\nHost: {}\r\n", gateway.address());
    [&request[..at], own.as_bytes(), &request[at + HOST.len()..]].concat()
}

/// Sends raw bytes, in which `a` is the gateway's own name, and returns all received bytes.
async fn raw(gateway: &Gateway, request: &[u8]) -> String {
    let exchange = async {
        let mut socket = TcpStream::connect(gateway.address()).await.unwrap();
        socket.write_all(&named(gateway, request)).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    timeout(SOON, exchange).await.unwrap()
}

#[tokio::test]
async fn requests_reach_their_function_and_answers_come_back() {
    let (gateway, _fake, url) = start().await;
    let client = reqwest::Client::new();
    for (method, path, function) in [
        ("POST", "/packets", "Send"),
        ("POST", "/packets/a/grab", "Grab"),
        ("GET", "/me/wallet", "View"),
        ("PUT", "/wallets/u/deposits/d", "Wallet"),
        ("PATCH", "/nowhere", "View"),
    ] {
        let answer = client.request(method.parse().unwrap(), format!("{url}{path}")).body("abc").send().await.unwrap();
        assert_eq!(answer.status(), 418);
        assert_eq!(answer.headers()["x-answer"], "yes");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body, json!({"function": function, "path": path, "length": 3}));
    }
    gateway.stop(SOON).await;
    assert!(client.get(&url).send().await.is_err(), "the port is free again");
}

#[tokio::test]
async fn the_local_routes_answer_themselves() {
    let (gateway, _fake, url) = start().await;
    let client = reqwest::Client::new();
    let health = client.get(format!("{url}/_local/health")).send().await.unwrap();
    assert_eq!(health.status(), 200);
    assert_eq!(health.json::<Value>().await.unwrap(), json!({"status": "ok"}));
    let settle = client.post(format!("{url}/_local/settle")).send().await.unwrap();
    let report = r#"{"persisted":1,"parked":0,"refunded_packets":0,"refunded_slips":0,"refunded_amount":0,"outbox_left":null,"oldest_outbox_ms":0,"due_left":0,"oldest_due_s":0,"oldest_pending_s":null}"#;
    assert_eq!(settle.text().await.unwrap(), report, "in the contract's order");
    let head = client.head(format!("{url}/_local/health")).send().await.unwrap();
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &"15".parse().unwrap()));
    for (method, path, allow) in
        [("POST", "health", "GET, HEAD"), ("GET", "settle", "POST"), ("HEAD", "settle", "POST")]
    {
        let answer = client.request(method.parse().unwrap(), format!("{url}/_local/{path}")).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.headers()["allow"]), (405, &allow.parse().unwrap()));
    }
    assert_eq!(client.get(format!("{url}/_local/else")).send().await.unwrap().status(), 404);
    gateway.stop(SOON).await;
}

#[tokio::test]
async fn a_panic_is_one_failed_call() {
    let (gateway, _fake, url) = start().await;
    let answer = reqwest::get(format!("{url}/packets/panic")).await.unwrap();
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["code"], "internal");
    assert_eq!(body["type"], "urn:hongbao:problem:internal");
    assert!(body["request_id"].is_string());
    assert!(!body.to_string().contains("as asked"));
    assert_eq!(reqwest::get(format!("{url}/packets/a")).await.unwrap().status(), 418);
    gateway.stop(SOON).await;
}

#[tokio::test]
async fn hostile_requests_are_answered_and_do_no_harm() {
    let (gateway, _fake, url) = start().await;
    let requests: [&[u8]; 14] = [
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET // HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /packets/a%2Fb HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /packets/%0a%00%ff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /packets/\xff\xfe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /packets/a HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n",
        b"GET /packets/a HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n",
        b"GET /packets/a HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: a b\r\nConnection: close\r\n\r\n",
        b"GET /packets/a HTTP/1.0\r\n\r\n",
        b"GET http://b:99999/packets/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"CONNECT b:80 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"POST /packets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /packets HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is not HTTP\r\n\r\n",
    ];
    for request in requests {
        let answer = raw(&gateway, request).await;
        let name = String::from_utf8_lossy(request);
        assert!(answer.starts_with("HTTP/1."), "{name}: {answer}");
        assert!(!answer.contains(" 500 "), "{name}: {answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "%ff".repeat(4000));
    assert!(raw(&gateway, long.as_bytes()).await.starts_with("HTTP/1.1 414 "));
    assert_eq!(reqwest::get(format!("{url}/_local/health")).await.unwrap().status(), 200);
    gateway.stop(SOON).await;
}

#[tokio::test]
async fn requests_of_other_sites_and_for_other_hosts_reach_no_function() {
    let (gateway, _fake, url) = start().await;
    let client = reqwest::Client::new();
    let deposit = || client.put(format!("{url}/wallets/eve/deposits/d")).body("{}");
    for (answer, status, code) in [
        (deposit().header("origin", "https://evil.example"), 403, "forbidden"),
        (deposit().header("sec-fetch-site", "cross-site"), 403, "forbidden"),
        (client.post(format!("{url}/_local/settle")).header("origin", "null"), 403, "forbidden"),
        (client.post(format!("{url}/_local/settle")).header("origin", "http://localhost:1"), 403, "forbidden"),
        (deposit().header("host", "evil.example"), 421, "misdirected"),
        (client.get(&url).header("host", format!("evil.example:{}", gateway.address().port())), 421, "misdirected"),
        (client.get(format!("{url}/_local/health")).header("host", "evil.example"), 421, "misdirected"),
    ] {
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), status, "{code}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control")));
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], code);
    }
    assert_eq!(deposit().send().await.unwrap().status(), 418, "a program");
    let by_page = deposit().header("origin", &url).header("sec-fetch-site", "same-origin");
    assert_eq!(by_page.send().await.unwrap().status(), 418, "the gateway's own page");
    let by_name = deposit().header("host", format!("localhost:{}", gateway.address().port()));
    assert_eq!(by_name.send().await.unwrap().status(), 418);
    gateway.stop(SOON).await;
}

/// Opens a connection and sends the start of a request.
async fn begin(gateway: &Gateway, request: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(gateway.address()).await.unwrap();
    socket.write_all(&named(gateway, request)).await.unwrap();
    socket
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_slow_headers_and_idle_connections_are_given_up() {
    let (gateway, _fake, _url) = start().await;
    let slow = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{");
    let bodies = ["/packets", "/_local/settle", "/"].map(|path| (slow(path), "HTTP/1.1 408 ", 10));
    let headers = ["", "GET / HTTP/1.1\r\nHost:"].map(|begun| (begun.to_owned(), "", 120));
    let idle = ("GET /_local/health HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "HTTP/1.1 200 ", 120);
    for (request, answered, seconds) in bodies.into_iter().chain(headers).chain([idle]) {
        let begun = tokio::time::Instant::now();
        let mut socket = begin(&gateway, request.as_bytes()).await;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let took = begun.elapsed();
        assert!(answer.starts_with(answered) && answer.is_empty() == answered.is_empty(), "{request}: {answer}");
        assert!(seconds > 10 || answer.contains("request-timeout"), "{request}: {answer}");
        let expected = Duration::from_secs(seconds - 1)..Duration::from_secs(seconds + 1);
        assert!(expected.contains(&took), "{request}: {took:?}");
    }
    gateway.stop(SOON).await;
}

#[tokio::test]
async fn a_call_without_a_client_is_completed_and_stop_waits_for_it() {
    let (gateway, fake, _url) = start().await;
    let mut socket = TcpStream::connect(gateway.address()).await.unwrap();
    socket.write_all(&named(&gateway, b"GET /packets/slow HTTP/1.1\r\nHost: a\r\n\r\n")).await.unwrap();
    timeout(SOON, fake.begun.acquire()).await.unwrap().unwrap().forget();
    drop(socket);
    let stop = tokio::spawn(gateway.stop(SOON));
    fake.gate.add_permits(1);
    timeout(SOON, stop).await.unwrap().unwrap();
    assert_eq!(fake.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_above_the_limit_wait_and_are_then_refused() {
    const BURST_TIMEOUT: Duration = Duration::from_millis(200);
    let (gateway, fake, url) = start_with(Permits::with_timeout(2, BURST_TIMEOUT)).await;
    let client = reqwest::Client::new();
    let slow = || tokio::spawn(client.get(format!("{url}/packets/slow")).send());
    let under_way = [slow(), slow()];
    fake.begun.acquire_many(2).await.unwrap().forget();

    let asked = Instant::now();
    let refused = client.post(format!("{url}/packets")).body("abc").send().await.unwrap();
    assert!(asked.elapsed() >= BURST_TIMEOUT);
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(refused.json::<Value>().await.unwrap(), json!({"message": "Too Many Requests"}));

    fake.gate.add_permits(2);
    for request in under_way {
        assert_eq!(request.await.unwrap().unwrap().status(), 418);
    }
    assert_eq!(client.post(format!("{url}/packets")).send().await.unwrap().status(), 418);
    gateway.stop(SOON).await;
}
