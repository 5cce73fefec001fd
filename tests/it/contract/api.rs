//! A client of the local stack that checks every answer against `openapi.yaml`.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use local::{Local, Options};
use serde_json::{Value, json};
use shared::redis::test_server::poll;
use shared::wiring::dynamodb_at;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::spec::{Answer, SPEC};

/// A key that signs tickets.
pub const TICKET_KEY: &str = r#"{"kty":"oct","kid":"2027-1","k":"PYbn25y-McoGFfH72cvSQG_cjLHINbaqjMUQ0RBIIGU"}"#;

/// More pages than any list of a test has.
const PAGES_MAX: usize = 1_000;

/// A local stack with a client.
pub struct Api {
    pub local: Local,
    client: reqwest::Client,
    deposits: AtomicU64,
}

/// A request under construction; awaiting it sends it.
pub struct Call<'a> {
    api: &'a Api,
    method: String,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Api {
    pub async fn start() -> Self {
        Self::start_with(Options::ephemeral()).await
    }

    /// A stack that does all that the document has.
    pub async fn with_everything() -> Self {
        Self::taking_tickets(Options { user_withdrawals: true, ..Options::ephemeral() }).await
    }

    /// A stack that knows [`TICKET_KEY`].
    pub async fn taking_tickets(options: Options) -> Self {
        let ticket_key = Some(format!(r#"{{"keys": [{TICKET_KEY}]}}"#));
        Self::start_with(Options { ticket_key, ..options }).await
    }

    pub async fn start_with(options: Options) -> Self {
        Self {
            local: Local::start(options).await.unwrap(),
            client: reqwest::Client::new(),
            deposits: AtomicU64::new(0),
        }
    }

    pub fn call(&self, method: &str, path: impl Into<String>) -> Call<'_> {
        Call { api: self, method: method.into(), path: path.into(), headers: HeaderMap::new(), body: Vec::new() }
    }

    pub fn get(&self, path: impl Into<String>) -> Call<'_> {
        self.call("GET", path)
    }

    pub fn post(&self, path: impl Into<String>) -> Call<'_> {
        self.call("POST", path)
    }

    pub fn put(&self, path: impl Into<String>) -> Call<'_> {
        self.call("PUT", path)
    }

    /// Deposits money.
    pub async fn fund(&self, user: &str, amount: u64) {
        let id = format!("fund-{}", self.deposits.fetch_add(1, Ordering::Relaxed));
        self.put(format!("/wallets/{user}/deposits/{id}")).json(&json!({"amount": amount})).await.expect(201);
    }

    pub async fn balance(&self, user: &str) -> i64 {
        self.get(format!("/wallets/{user}")).await.expect(200)["balance"].as_i64().unwrap()
    }

    /// Sends a packet from a wallet that is funded for it.
    pub async fn send(&self, sender: &str, key: &str, body: &Value) -> Value {
        self.fund(sender, body["total_amount"].as_u64().unwrap()).await;
        self.post("/packets").by(sender).key(key).json(body).await.expect(201)
    }

    /// The same; returns the id.
    pub async fn packet(&self, sender: &str, key: &str, body: &Value) -> String {
        text(&self.send(sender, key, body).await["packet_id"])
    }

    pub fn grab(&self, user: &str, packet: &str) -> Call<'_> {
        self.post(format!("/packets/{packet}/grab")).by(user)
    }

    pub fn view(&self, user: &str, packet: &str) -> Call<'_> {
        self.get(format!("/packets/{packet}")).by(user)
    }

    /// A run of settle.
    pub async fn settle(&self) -> Value {
        let answer = self.client.post(format!("{}/_local/settle", self.local.url())).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    /// Waits, with runs of settle, until the packet has this status.
    pub async fn until(&self, viewer: &str, packet: &str, status: &str) -> Value {
        poll(status, async || {
            if status == "settled" {
                self.settle().await;
            }
            let view = self.view(viewer, packet).await.expect(200);
            (view["status"] == status).then_some(view)
        })
        .await
    }

    /// Writes an item directly into the ledger's table.
    pub async fn put_item(&self, pk: &str, sk: &str, attributes: &[(&str, AttributeValue)]) {
        let client = dynamodb_at(self.local.dynamodb_url());
        let mut put = client.put_item().table_name("hongbao");
        for (name, value) in [("PK", pk), ("SK", sk)] {
            put = put.item(name, AttributeValue::S(value.to_owned()));
        }
        for (name, value) in attributes {
            put = put.item(*name, value.clone());
        }
        put.send().await.unwrap();
    }

    /// Runs a command in Redis.
    pub async fn redis(&self, command: &redis::Cmd) {
        let client = redis::Client::open(self.local.redis_url()).unwrap();
        let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
        let () = command.query_async(&mut connection).await.unwrap();
    }

    /// Makes Redis lose everything.
    pub async fn flush(&self) {
        self.redis(&redis::cmd("FLUSHALL")).await;
    }

    /// All rows of a list, `limit` at a time.
    pub async fn all(&self, user: &str, path: &str, rows: &str, limit: usize) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = None::<String>;
        let begins = if path.contains('?') { '&' } else { '?' };
        for _ in 0..PAGES_MAX {
            let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = self.get(format!("{path}{begins}limit={limit}{after}")).by(user).await.expect(200);
            let found = page[rows].as_array().unwrap();
            assert!(!found.is_empty() || all.is_empty(), "a page follows the last row");
            assert!(found.len() <= limit);
            all.extend(found.iter().cloned());
            match &page["next_cursor"] {
                Value::Null => return all,
                next => cursor = Some(text(next)),
            }
            assert_eq!(found.len(), limit, "only the last page may be short");
        }
        panic!("{path} has no end: {} rows", all.len());
    }

    /// Everything that a wallet shows, which a refused request must not change.
    pub async fn books(&self, user: &str) -> Value {
        let wallet = self.get(format!("/wallets/{user}")).await.expect(200);
        let movements = self.all("", &format!("/wallets/{user}/movements"), "movements", 100).await;
        let sum: i64 = movements.iter().map(|movement| movement["amount"].as_i64().unwrap()).sum();
        assert_eq!(wallet["balance"], sum, "{movements:?}");
        let packets = self.get("/me/packets?limit=100").by(user).await.expect(200);
        let claims = self.get("/me/claims?limit=100").by(user).await.expect(200);
        json!({"wallet": wallet, "movements": movements, "packets": packets, "claims": claims})
    }

    /// Sends a request with a target that no HTTP client would send. Checks every answer.
    pub async fn raw(&self, method: &str, target: &[u8], headers: &[(&str, &[u8])], body: &[u8]) -> Answer {
        let answer = self.unchecked(method, target, headers, body).await;
        SPEC.check(&answer);
        answer
    }

    /// The same, for a request that the gateway itself may refuse.
    pub async fn unchecked(&self, method: &str, target: &[u8], headers: &[(&str, &[u8])], body: &[u8]) -> Answer {
        let address = self.local.url().trim_start_matches("http://").to_owned();
        let host = format!(" HTTP/1.1\r\nHost: {address}\r\n");
        let mut request = [method.as_bytes(), b" ", target, host.as_bytes()].concat();
        let length = body.len().to_string();
        let own: [(&str, &[u8]); 2] = [("Connection", b"close"), ("Content-Length", length.as_bytes())];
        for (name, value) in headers.iter().chain(&own) {
            request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        request.extend(b"\r\n");
        request.extend(body);
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&request).await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        parse(method, &String::from_utf8_lossy(target), &bytes)
    }
}

impl Call<'_> {
    /// Sets the caller; empty: no caller.
    pub fn by(self, user: &str) -> Self {
        if user.is_empty() { self } else { self.header("x-user-id", user) }
    }

    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    async fn send(self) -> Answer {
        let Self { api, method, path, headers, body } = self;
        let url = format!("{}{path}", api.local.url());
        let request = api.client.request(method.parse().unwrap(), url).headers(headers).body(body);
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        let answer = Answer { method, target: path, status, headers, bytes };
        SPEC.check(&answer);
        answer
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = Answer;
    type IntoFuture = BoxFuture<'a, Answer>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

fn parse(method: &str, target: &str, bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    });
    let (method, target) = (method.to_owned(), target.to_owned());
    Answer { method, target, status, headers: headers.collect(), bytes: bytes[end + 4..].to_vec() }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

pub fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// A valid body of a send.
pub fn random(total: u64, count: u64) -> Value {
    json!({"split": "random", "total_amount": total, "count": count})
}

/// The object with more fields.
pub fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}
