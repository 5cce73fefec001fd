//! Proxies in front of a Redis server and of a `DynamoDB` API, through which connections, requests and answers fail.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tests::dice::Dice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::report::{Group, Tally};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The faults of one proxy.
#[derive(Debug)]
struct Faults {
    dice: Dice,
    tally: Arc<Tally>,
    are_on: AtomicBool,
}

impl Faults {
    fn new(dice: Dice, tally: Arc<Tally>) -> Arc<Self> {
        Arc::new(Self { dice, tally, are_on: AtomicBool::new(false) })
    }

    fn strike(&self, times: u32, of: u32) -> bool {
        self.are_on.load(Ordering::Relaxed) && self.dice.happens(times, of)
    }

    fn redis_fault(&self) -> Option<RedisFault> {
        let fault = if self.strike(1, PIECES_PER_FAULT) { *self.dice.pick(&REDIS_FAULTS)? } else { return None };
        self.tally.count(Group::ConnectionFault, &format!("{fault:?}"));
        Some(fault)
    }

    fn dynamo_fault(&self, is_transaction: bool) -> Option<Fault> {
        if !self.strike(FAULTY, REQUESTS) {
            return None;
        }
        let weights: u32 = FAULTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.dice.number(0..weights);
        let &(fault, _) = FAULTS.iter().find(|(_, weight)| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        })?;
        let fault = fault.for_operation(is_transaction);
        self.tally.count(Group::DynamoFault, &format!("{fault:?}"));
        Some(fault)
    }
}

/// Serves each connection to a port of its own. Returns the port.
async fn listen<F, E>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<u16>
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // Broken connections are this proxy's purpose.
            tokio::spawn(serve(client));
        }
    });
    Ok(port)
}

/// Connects to the server for a client, whose connection ends by a reset.
async fn connect(client: &TcpStream, upstream: u16) -> io::Result<TcpStream> {
    client.set_nodelay(true)?;
    client.set_zero_linger()?;
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)).await?;
    server.set_nodelay(true)?;
    Ok(server)
}

/// Out of this many requests...
const REQUESTS: u32 = 1_000;
/// ...this many meet a fault.
const FAULTY: u32 = 100;
/// The delay of a request, in milliseconds.
const DELAY_MS: std::ops::Range<u32> = 20..400;
/// How long the connection of a dropped answer stays open: longer than the SDK's timeout.
const MUTE: Duration = Duration::from_secs(5);

/// A request's fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    ResetBefore,
    ResetAfter,
    Dropped,
    Delayed,
    DelayedAnswer,
    Throttled,
    ThrottledInReasons,
    ConflictInReasons,
    InProgress,
    ErrorBefore,
    ErrorAfter,
}

/// The faults with their relative frequencies.
const FAULTS: [(Fault, u32); 11] = [
    (Fault::ResetBefore, 12),
    (Fault::ResetAfter, 14),
    (Fault::Dropped, 1),
    (Fault::Delayed, 10),
    (Fault::DelayedAnswer, 10),
    (Fault::Throttled, 12),
    (Fault::ThrottledInReasons, 12),
    (Fault::ConflictInReasons, 12),
    (Fault::InProgress, 3),
    (Fault::ErrorBefore, 8),
    (Fault::ErrorAfter, 14),
];

impl Fault {
    /// Faults that only a transaction can have become throttling for other requests.
    fn for_operation(self, is_transaction: bool) -> Self {
        match self {
            Self::ThrottledInReasons | Self::ConflictInReasons | Self::InProgress if !is_transaction => Self::Throttled,
            other => other,
        }
    }
}

/// Closes the connection without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

type Answer = Result<Response<Full<Bytes>>, Cut>;

/// A running proxy in front of a `DynamoDB` API. Its requests fail in every way in which those of the real one do.
#[derive(Debug)]
pub struct DynamoProxy {
    port: u16,
    faults: Arc<Faults>,
}

impl DynamoProxy {
    /// Starts a proxy in front of the port `upstream`, without faults until [`Self::set_faulty`].
    pub async fn start(upstream: u16, dice: Dice, tally: Arc<Tally>) -> io::Result<Self> {
        let faults = Faults::new(dice, tally);
        let accepting = Arc::clone(&faults);
        let port = listen(move |client| serve(client, upstream, Arc::clone(&accepting))).await?;
        Ok(Self { port, faults })
    }

    /// The proxy's endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts or stops the faults.
    pub fn set_faulty(&self, faulty: bool) {
        self.faults.are_on.store(faulty, Ordering::Relaxed);
    }
}

async fn serve(client: TcpStream, upstream: u16, faults: Arc<Faults>) -> Result<(), BoxError> {
    let server = connect(&client, upstream).await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(server)).await?;
    tokio::spawn(connection);
    let sender = Arc::new(tokio::sync::Mutex::new(sender));
    let service = service_fn(move |request: Request<Incoming>| {
        let (faults, sender) = (Arc::clone(&faults), Arc::clone(&sender));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
            // A task of its own: a request that has arrived is executed although its client died meanwhile.
            tokio::spawn(relay(parts, body, faults, sender)).await.map_err(|_| Cut)?
        }
    });
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), service).await?;
    Ok(())
}

async fn relay(
    parts: Parts,
    body: Bytes,
    faults: Arc<Faults>,
    server: Arc<tokio::sync::Mutex<SendRequest<Full<Bytes>>>>,
) -> Answer {
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let is_transaction = target.ends_with("TransactWriteItems");
    let forward = async |parts, body| {
        let mut server = server.lock().await;
        server.ready().await.map_err(|_| Cut)?;
        let answer = server.send_request(Request::from_parts(parts, Full::new(body))).await;
        let (parts, body) = answer.map_err(|_| Cut)?.into_parts();
        Ok(Response::from_parts(parts, Full::new(body.collect().await.map_err(|_| Cut)?.to_bytes())))
    };
    let Some(fault) = faults.dynamo_fault(is_transaction) else {
        return forward(parts, body).await;
    };
    match fault {
        Fault::ResetBefore => Err(Cut),
        Fault::ResetAfter => forward(parts, body).await.and(Err(Cut)),
        Fault::Dropped => {
            let answer = forward(parts, body).await;
            tokio::time::sleep(MUTE).await;
            answer.and(Err(Cut))
        }
        Fault::Delayed => {
            tokio::time::sleep(faults.dice.time(DELAY_MS)).await;
            forward(parts, body).await
        }
        Fault::DelayedAnswer => {
            let answer = forward(parts, body).await;
            tokio::time::sleep(faults.dice.time(DELAY_MS)).await;
            answer
        }
        Fault::Throttled => Ok(problem(400, "ProvisionedThroughputExceededException", json!({}))),
        Fault::ThrottledInReasons => Ok(cancelled(&body, "ThrottlingError", &faults.dice)),
        Fault::ConflictInReasons => Ok(cancelled(&body, "TransactionConflict", &faults.dice)),
        Fault::InProgress => Ok(problem(400, "TransactionInProgressException", json!({}))),
        Fault::ErrorBefore => Ok(problem(500, "InternalServerError", json!({}))),
        Fault::ErrorAfter => forward(parts, body).await.map(|_| problem(500, "InternalServerError", json!({}))),
    }
}

/// A cancelled transaction: `code` as the reason of some of its writes, and no reason for the others.
fn cancelled(request: &[u8], code: &str, dice: &Dice) -> Response<Full<Bytes>> {
    let request: Value = serde_json::from_slice(request).unwrap_or_default();
    let writes = request["TransactItems"].as_array().map_or(1, Vec::len);
    let blamed = dice.number(0..u32::try_from(writes).unwrap_or(u32::MAX)) as usize;
    let reason = |write: usize| {
        if write == blamed || dice.happens(1, 4) {
            json!({"Code": code, "Message": code})
        } else {
            json!({"Code": "None"})
        }
    };
    let reasons: Vec<Value> = (0..writes).map(reason).collect();
    problem(400, "TransactionCanceledException", json!({"CancellationReasons": reasons}))
}

/// An error in `DynamoDB`'s format.
fn problem(status: u16, name: &str, mut body: Value) -> Response<Full<Bytes>> {
    body["__type"] = json!(format!("com.amazonaws.dynamodb.v20120810#{name}"));
    body["Message"] = json!("made by the fault proxy");
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}

/// One in this many chunks from clients meets a fault.
const PIECES_PER_FAULT: u32 = 400;
/// The delay of a chunk, in milliseconds.
const REDIS_DELAY_MS: std::ops::Range<u32> = 5..250;
/// How long a mute connection stays open: longer than any client's timeout.
const REDIS_MUTE: Duration = Duration::from_secs(3);
/// How long to wait for an answer that no client will read.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const BUFFER: usize = 64 * 1_024;

/// A fault of a chunk.
#[derive(Clone, Copy, Debug)]
enum RedisFault {
    ResetBefore,
    ResetAfter,
    Delayed,
    Mute,
}

const REDIS_FAULTS: [RedisFault; 8] = [
    RedisFault::ResetBefore,
    RedisFault::ResetBefore,
    RedisFault::ResetAfter,
    RedisFault::ResetAfter,
    RedisFault::ResetAfter,
    RedisFault::Delayed,
    RedisFault::Delayed,
    RedisFault::Mute,
];

/// A running proxy in front of a Redis server that breaks, delays and swallows data.
#[derive(Debug)]
pub struct RedisProxy {
    port: u16,
    upstream: Arc<AtomicU16>,
    faults: Arc<Faults>,
}

impl RedisProxy {
    /// Starts a proxy, without faults until [`Self::set_faulty`].
    pub async fn start(dice: Dice, tally: Arc<Tally>) -> io::Result<Self> {
        let (upstream, faults) = (Arc::new(AtomicU16::new(0)), Faults::new(dice, tally));
        let serve = {
            let (upstream, faults) = (Arc::clone(&upstream), Arc::clone(&faults));
            move |client| carry(client, upstream.load(Ordering::Relaxed), Arc::clone(&faults))
        };
        Ok(Self { port: listen(serve).await?, upstream, faults })
    }

    /// The proxy's port. A cluster node announces it as its own, so it is known before the server starts.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Sets the server's port.
    pub fn set_upstream(&self, port: u16) {
        self.upstream.store(port, Ordering::Relaxed);
    }

    /// Starts or stops the faults.
    pub fn set_faulty(&self, faulty: bool) {
        self.faults.are_on.store(faulty, Ordering::Relaxed);
    }
}

async fn carry(mut client: TcpStream, upstream: u16, faults: Arc<Faults>) -> io::Result<()> {
    let mut server = connect(&client, upstream).await?;
    let (mut request, mut answer) = (vec![0; BUFFER], vec![0; BUFFER]);
    loop {
        tokio::select! {
            len = client.read(&mut request) => {
                let len = len?;
                if len == 0 {
                    return Ok(());
                }
                match faults.redis_fault() {
                    None => server.write_all(&request[..len]).await?,
                    Some(RedisFault::ResetBefore) => return Ok(()),
                    Some(RedisFault::ResetAfter) => {
                        server.write_all(&request[..len]).await?;
                        let _ = tokio::time::timeout(ANSWER_WITHIN, server.read(&mut answer)).await;
                        return Ok(());
                    }
                    Some(RedisFault::Delayed) => {
                        tokio::time::sleep(faults.dice.time(REDIS_DELAY_MS)).await;
                        server.write_all(&request[..len]).await?;
                    }
                    Some(RedisFault::Mute) => {
                        tokio::time::sleep(REDIS_MUTE).await;
                        // Late, and for a client that is gone, but still executed.
                        server.write_all(&request[..len]).await?;
                        let _ = tokio::time::timeout(ANSWER_WITHIN, server.read(&mut answer)).await;
                        return Ok(());
                    }
                }
            }
            len = server.read(&mut answer) => {
                let len = len?;
                if len == 0 {
                    return Ok(());
                }
                client.write_all(&answer[..len]).await?;
            }
        }
    }
}
