//! HTTP to the receiver: over addresses that the rule allows, without redirects, and with a bound on everything.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use shared::config::WebhookAddresses;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use crate::address;

/// How long the name's look-up and a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long the receiver may take until it answers, with the connection and TLS.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// What is read of an answer's body, and for how long, so that the connection can be used again. Nobody looks at it.
const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_MAX: Duration = Duration::from_secs(1);
/// A receiver usually keeps a silent connection longer.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// The header `user-agent`. It names the engine and its version.
const USER_AGENT: &str = concat!("hongbao/", env!("CARGO_PKG_VERSION"));

/// Why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The receiver could not be reached, or broke off.
    #[error("the receiver can't be reached")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// It did not answer in time.
    #[error("the receiver did not answer within {} s", ANSWER_MAX.as_secs())]
    Late,
    /// It answered something other than 2xx. A redirect is no delivery either.
    #[error("the receiver answered {status}")]
    Status {
        /// What it answered.
        status: StatusCode,
        /// The header `retry-after` of the answer.
        retry_after: Option<String>,
    },
    /// The request can't be written: a header has a character that none may have.
    #[error("the request can't be written")]
    Request(#[from] http::Error),
}

/// Where webhooks go, and how.
#[derive(Clone, Debug)]
pub struct Receiver {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
    url: Uri,
}

/// What is wrong with a receiver's URL.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// It is no URL of a receiver.
    #[error("the URL of webhooks must be https:// with a host, and without a user")]
    NotHttps,
    /// The same, where `http://` is accepted.
    #[error("the URL of webhooks must be http:// or https:// with a host, and without a user")]
    NoUrl,
}

impl Receiver {
    /// The receiver at `url`. Only a local stack accepts `http://`.
    pub fn new(url: &str, rule: WebhookAddresses, accepts_http: bool) -> Result<Self, ReceiverError> {
        let wrong = || if accepts_http { ReceiverError::NoUrl } else { ReceiverError::NotHttps };
        let url: Uri = url.parse().map_err(|_| wrong())?;
        let scheme = url.scheme_str().unwrap_or_default();
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let has_scheme = scheme == "https" || (accepts_http && scheme == "http");
        if !has_scheme || has_user || url.host().is_none_or(str::is_empty) {
            return Err(wrong());
        }
        let mut roots = RootCertStore::empty();
        // A certificate of the system that can't be read is one that nobody trusts.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self::over(url, HttpsConnector::from((Connector { rule }, Arc::new(tls)))))
    }

    fn over(url: Uri, connector: HttpsConnector<Connector>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Self { client, url }
    }

    /// Posts a body with these headers. The receiver has it if this succeeds.
    pub async fn post(&self, headers: [(HeaderName, HeaderValue); 3], body: String) -> Result<(), PostError> {
        let until = Instant::now() + ANSWER_MAX;
        let mut request = Request::post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body))?;
        let answer = timeout_at(until, self.client.request(request)).await.map_err(|_| PostError::Late)??;
        let status = answer.status();
        if !status.is_success() {
            let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            return Err(PostError::Status { status, retry_after: retry_after.map(str::to_owned) });
        }
        let _ = timeout(BODY_MAX, drain(answer.into_body())).await;
        Ok(())
    }
}

/// Reads the rest of an answer, up to a bound. A longer one costs the connection.
async fn drain(mut body: Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > BODY_BYTES_MAX {
            return;
        }
    }
}

/// Connects only to addresses that the rule allows. Every connection comes through here, and goes to the very address that was
/// checked, so a name that changes its address gets around nothing.
#[derive(Clone, Debug)]
pub struct Connector {
    rule: WebhookAddresses,
}

impl Connector {
    async fn connect(self, uri: Uri) -> io::Result<TcpStream> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let found: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
        let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in found {
            if !address::allows(self.rule, address.ip()) {
                let refusal = format!("{} is no public address", address.ip());
                error = io::Error::new(io::ErrorKind::PermissionDenied, refusal);
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(refused) => error = refused,
            }
        }
        Err(error)
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let connected = timeout(CONNECT_MAX, connector.connect(uri)).await;
            connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(TokioIo::new)
        })
    }
}
