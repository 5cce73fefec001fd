//! A relay in front of a `DynamoDB` API. It records requests, and cuts connections.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The operation, such as `TransactWriteItems`.
    pub operation: String,
    /// Its parameters.
    pub body: Value,
}

/// A running relay.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// A new value closes the open connections.
    cut: watch::Sender<u64>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    client: reqwest::Client,
    passed: Mutex<Vec<Passed>>,
}

impl Relay {
    /// Starts a relay in front of the API at `upstream`.
    pub async fn start(upstream: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { upstream, client: reqwest::Client::new(), passed: Mutex::default() });
        let (cut, cuts) = watch::channel(0);
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&accepting), cuts.clone()));
            }
        });
        Self { address, shared, cut }
    }

    /// The relay's endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all open connections. Requests that arrived on them are executed, but their answers are lost.
    pub fn cut(&self) {
        self.cut.send_modify(|number| *number += 1);
    }

    /// All requests so far, in order.
    pub fn passed(&self) -> Vec<Passed> {
        self.shared.passed.lock().unwrap().clone()
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>, mut cuts: watch::Receiver<u64>) {
    cuts.mark_unchanged();
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        // In a task of its own: a request that has arrived is executed even if its connection is closed.
        async { Ok::<_, Infallible>(tokio::spawn(shared.relay(request)).await.unwrap()) }
    });
    tokio::select! {
        // A client may close its connection at any time.
        _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service) => {}
        _ = cuts.changed() => {}
    }
}

impl Shared {
    async fn relay(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return gone() };
        let body = body.to_bytes();
        let target = parts.headers.get("x-amz-target").unwrap().to_str().unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        self.passed.lock().unwrap().push(Passed { operation, body: serde_json::from_slice(&body).unwrap() });
        for header in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING] {
            parts.headers.remove(header);
        }
        let answer = self.client.post(&self.upstream).headers(parts.headers).body(body).send().await;
        let Ok(answer) = answer else { return gone() };
        let (status, headers) = (answer.status(), answer.headers().clone());
        let Ok(bytes) = answer.bytes().await else { return gone() };
        let mut response = Response::new(Full::new(bytes));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// The answer when the database or the client is gone.
fn gone() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// Serves HTTP on loopback: each request, with its whole body, gets `answer`'s answer. Returns the address.
pub async fn stand_in<A>(answer: impl Fn(Request<Bytes>) -> A + Clone + Send + 'static) -> SocketAddr
where
    A: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    Ok::<_, Infallible>(answer(Request::from_parts(head, body)).await)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(connection);
        }
    });
    address
}
