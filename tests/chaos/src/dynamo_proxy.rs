//! A proxy in front of a `DynamoDB` API. Its requests fail in every way in which those of the real one do.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::tally::Tally;
use tests::dice::Dice;

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
    const fn name(self) -> &'static str {
        match self {
            Self::ResetBefore => "connection reset before",
            Self::ResetAfter => "connection reset after commit",
            Self::Dropped => "answer dropped",
            Self::Delayed => "request delayed",
            Self::DelayedAnswer => "answer delayed",
            Self::Throttled => "throttled",
            Self::ThrottledInReasons => "throttled in cancellation reasons",
            Self::ConflictInReasons => "conflict in cancellation reasons",
            Self::InProgress => "transaction in progress",
            Self::ErrorBefore => "500 before",
            Self::ErrorAfter => "500 after commit",
        }
    }

    /// Faults that only a transaction can have become throttling for other requests.
    fn for_operation(self, is_transaction: bool) -> Self {
        match self {
            Self::ThrottledInReasons | Self::ConflictInReasons | Self::InProgress if !is_transaction => Self::Throttled,
            other => other,
        }
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct DynamoProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    dice: Dice,
    tally: Arc<Tally>,
    faulty: AtomicBool,
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

impl DynamoProxy {
    /// Starts a proxy in front of `upstream`, without faults until [`Self::set_faulty`].
    pub async fn start(upstream: SocketAddr, dice: Dice, tally: Arc<Tally>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { upstream, dice, tally, faulty: AtomicBool::new(false) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Broken connections are this proxy's purpose.
                tokio::spawn(serve(client, Arc::clone(&accepting)));
            }
        });
        Ok(Self { address, shared })
    }

    /// The proxy's endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts or stops the faults.
    pub fn set_faulty(&self, faulty: bool) {
        self.shared.faulty.store(faulty, Ordering::Relaxed);
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    client.set_nodelay(true)?;
    // Connections end by a reset.
    client.set_zero_linger()?;
    let server = TcpStream::connect(shared.upstream).await?;
    server.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(server)).await?;
    tokio::spawn(connection);
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, sender) = (Arc::clone(&shared), Arc::clone(&sender));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
            // A task of its own: a request that has arrived is executed although its client died meanwhile.
            tokio::spawn(relay(parts, body, shared, sender)).await.map_err(|_| Cut)?
        }
    });
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), service).await?;
    Ok(())
}

async fn relay(parts: Parts, body: Bytes, shared: Arc<Shared>, server: Arc<Mutex<SendRequest<Full<Bytes>>>>) -> Answer {
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let is_transaction = target.ends_with("TransactWriteItems");
    let forward = async |parts, body| {
        let mut server = server.lock().await;
        server.ready().await.map_err(|_| Cut)?;
        let answer = server.send_request(Request::from_parts(parts, Full::new(body))).await;
        let (parts, body) = answer.map_err(|_| Cut)?.into_parts();
        Ok(Response::from_parts(parts, Full::new(body.collect().await.map_err(|_| Cut)?.to_bytes())))
    };
    let Some(fault) = shared.fault().map(|fault| fault.for_operation(is_transaction)) else {
        return forward(parts, body).await;
    };
    shared.tally.dynamodb_fault(fault.name());
    match fault {
        Fault::ResetBefore => Err(Cut),
        Fault::ResetAfter => forward(parts, body).await.and(Err(Cut)),
        Fault::Dropped => {
            let answer = forward(parts, body).await;
            tokio::time::sleep(MUTE).await;
            answer.and(Err(Cut))
        }
        Fault::Delayed => {
            tokio::time::sleep(shared.dice.time(DELAY_MS)).await;
            forward(parts, body).await
        }
        Fault::DelayedAnswer => {
            let answer = forward(parts, body).await;
            tokio::time::sleep(shared.dice.time(DELAY_MS)).await;
            answer
        }
        Fault::Throttled => Ok(problem(400, "ProvisionedThroughputExceededException", json!({}))),
        Fault::ThrottledInReasons => Ok(cancelled(&body, "ThrottlingError", &shared.dice)),
        Fault::ConflictInReasons => Ok(cancelled(&body, "TransactionConflict", &shared.dice)),
        Fault::InProgress => Ok(problem(400, "TransactionInProgressException", json!({}))),
        Fault::ErrorBefore => Ok(problem(500, "InternalServerError", json!({}))),
        Fault::ErrorAfter => forward(parts, body).await.map(|_| problem(500, "InternalServerError", json!({}))),
    }
}

impl Shared {
    fn fault(&self) -> Option<Fault> {
        if !self.faulty.load(Ordering::Relaxed) || !self.dice.happens(FAULTY, REQUESTS) {
            return None;
        }
        let weights: u32 = FAULTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.dice.number(0..weights);
        FAULTS.iter().find_map(|&(fault, weight)| {
            if drawn < weight {
                return Some(fault);
            }
            drawn -= weight;
            None
        })
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
