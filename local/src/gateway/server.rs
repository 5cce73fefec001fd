use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use http::header::VARY;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use lambda_http::Body;
use pages::body::{json_response, read, to_hyper};
use pages::names::{Names, NotOurs};
use pages::{http_server, problem};
use serde_json::json;
use shared::batching::{Permit, Permits};
use shared::http::{Code, REQUEST_ID};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::event::{self, Origin};
use super::{Arrival, Entry, Invoke, Settings, own, page, routes};
use crate::sandbox::{End, Fate};

/// The headers that proxies add.
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";

const HEALTH: &str = "/_local/health";
const FAULT: &str = "A fault of the sandbox: --faults or /_local/faults asked for it.";

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Gateway {
    /// Serves the connections of `listener` with the functions of `stack`. Each request needs a permit of `limiter`, as
    /// it needs one of Lambda's concurrent executions on AWS. A request without a permit in time is refused, like one
    /// above API Gateway's throttle.
    pub fn serve<S: Invoke>(listener: TcpListener, stack: Arc<S>, limiter: Permits) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(run_until(stopped, listener, stack, limiter, address));
        Ok(Self { address, stop, server })
    }

    /// The gateway's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and waits up to `limit` for the unfinished requests.
    pub async fn stop(mut self, limit: Duration) {
        let _ = self.stop.send(());
        if timeout(limit, &mut self.server).await.is_err() {
            self.server.abort();
            tracing::warn!(?limit, "unfinished requests were cut off");
        }
    }
}

/// Shared by all requests.
struct Shared<S> {
    stack: Arc<S>,
    settings: Settings,
    address: SocketAddr,
    names: Names,
    requests: AtomicU64,
    limiter: Permits,
    /// Each call holds a clone. The receiver ends when the last call has ended, even if its client is gone.
    under_way: mpsc::Sender<()>,
}

impl<S> Shared<S> {
    fn request_id(&self) -> String {
        format!("{:x}-{}", Timestamp::now().as_millisecond(), self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

async fn run_until<S: Invoke>(
    stopped: oneshot::Receiver<()>,
    listener: TcpListener,
    stack: Arc<S>,
    limiter: Permits,
    address: SocketAddr,
) {
    let (under_way, mut all_ended) = mpsc::channel(1);
    let settings = stack.settings();
    let names = Names::new(address, &settings.allowed_hosts);
    let shared = Arc::new(Shared { stack, settings, address, names, requests: AtomicU64::new(0), limiter, under_way });
    http_server::serve(listener, async { drop(stopped.await) }, move |request| receive(Arc::clone(&shared), request))
        .await;
    all_ended.recv().await;
}

/// Answers a request if it is one of the stack's own.
async fn receive<S: Invoke>(
    shared: Arc<Shared<S>>,
    request: http::Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (mut parts, body) = request.into_parts();
    let mut request_id = shared.request_id();
    let elsewhere = elsewhere(&shared.settings.base_path, &mut parts, &request_id);
    let is_ours = if shared.settings.entry == Entry::Public { Ok(()) } else { shared.names.check(&parts) };
    let mut response = match is_ours {
        Err(NotOurs::Host) => problem::own(
            &request_id,
            StatusCode::MISDIRECTED_REQUEST,
            "misdirected",
            "The local stack answers only under its own address.",
        ),
        Err(NotOurs::Origin) => {
            problem::of(&request_id, Code::Forbidden, "The local stack takes no requests of other sites' pages.")
        }
        Ok(()) => match elsewhere {
            Some(elsewhere) => elsewhere,
            None => answer(shared, &mut request_id, parts, body).await?,
        },
    };
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    Ok(to_hyper(response))
}

/// Takes the base path from a request's address, as a mapping of API Gateway does before it chooses a route. Returns the answer to a
/// request for another path.
fn elsewhere(base_path: &str, parts: &mut Parts, request_id: &str) -> Option<Response<Body>> {
    let whole = parts.uri.path_and_query().filter(|_| !base_path.is_empty())?;
    match whole.as_str().strip_prefix(base_path) {
        Some(rest) if rest.starts_with('/') => {
            let mut uri = parts.uri.clone().into_parts();
            uri.path_and_query = rest.parse().ok();
            parts.uri = Uri::from_parts(uri).unwrap_or_default();
            None
        }
        Some(rest) if rest.is_empty() || rest.starts_with('?') => Some(problem::moved(&format!("{base_path}/{rest}"))),
        _ => Some(problem::of(request_id, Code::RouteNotFound, "The local stack answers only below its base path.")),
    }
}

/// Answers a request. A sandbox may give it another id.
async fn answer<S: Invoke>(
    shared: Arc<Shared<S>>,
    request_id: &mut String,
    parts: Parts,
    body: Incoming,
) -> anyhow::Result<Response<Body>> {
    let entry = shared.settings.entry;
    match (parts.uri.path(), &parts.method) {
        _ if entry == Entry::Public => {}
        // The health route answers even under overload.
        (HEALTH, &(Method::GET | Method::HEAD)) => return Ok(json_response(&json!({"status": "ok"}))),
        (HEALTH, _) => return Ok(problem::method_not_allowed(request_id, "GET, HEAD")),
        _ => {}
    }
    let Ok(raw_path) = event::raw_path(&parts) else {
        return Ok(problem::own(
            request_id,
            StatusCode::URI_TOO_LONG,
            "uri-too-long",
            "The path and query are too long for every route.",
        ));
    };
    let peer =
        parts.extensions.get().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer: &SocketAddr| peer.ip().to_canonical());
    let is_of_proxy = shared.settings.proxies.iter().any(|proxy| proxy.to_canonical() == peer);
    let is_forwarded = [FORWARDED_FOR, FORWARDED].iter().any(|name| parts.headers.contains_key(*name));
    let caller = if is_of_proxy { forwarded_for(&parts).unwrap_or(peer) } else { peer };
    if entry == Entry::Public
        && let Some(answer) = shared.stack.own(&raw_path, is_forwarded).await
    {
        return Ok(answer);
    }
    let matched = routes::find(parts.method.as_str(), &raw_path);
    let arrival = Arrival { parts: &parts, path: &raw_path, operation: matched.operation, caller, request_id };
    let authorizer = match shared.stack.authorize(arrival).await {
        Ok(authorizer) => authorizer,
        Err(answer) => return Ok(answer),
    };
    // Before the permit, as on AWS: a function runs once its event is complete. So a slow body keeps nobody waiting. A stranger's
    // body is not read: many large ones would fill the memory.
    let body = if entry == Entry::Public && authorizer.is_none() {
        Bytes::new()
    } else {
        match read(request_id, body).await {
            Ok(body) => body,
            Err(problem) => return Ok(problem),
        }
    };
    let Ok(permit) = shared.limiter.acquire().await else { return Ok(problem::too_many_requests()) };
    if entry != Entry::Public && own::is_own(&raw_path) {
        let id = request_id.clone();
        return Ok(run(&shared, permit, request_id, |stack| own::answer(stack, id, raw_path, parts, body)).await);
    }
    if entry != Entry::Public
        && let Some(file) = page::answer(&parts, &raw_path, &shared.settings)
    {
        return Ok(file);
    }
    let fate = shared.stack.sandbox().map(|sandbox| {
        if let Some(id) = sandbox.begin() {
            *request_id = id;
        }
        sandbox.dice.fate(&matched.key, event::user(&parts, &matched))
    });
    let Fate { pause, end } = fate.unwrap_or_default();
    sleep(pause).await;
    if end == (End::Unavailable { is_done: false }) {
        return Ok(problem::unavailable(request_id, FAULT));
    }
    let function = matched.function;
    let believes_users = entry == Entry::Believed;
    let base_path = &shared.settings.base_path;
    let origin = Origin { server: shared.address, base_path, request_id, believes_users };
    let request = event::request(event::event(parts, &raw_path, matched, &body, origin, authorizer), request_id);
    let mut response =
        run(&shared, permit, request_id, |stack| async move { stack.call(function, request).await }).await;
    if believes_users && response.headers().contains_key(VARY) {
        // An answer that depends on the token depends here on the header that replaces it.
        response.headers_mut().append(VARY, HeaderValue::from_name(event::USER_HEADER));
    }
    match end {
        End::Answered => Ok(response),
        End::Unavailable { .. } => Ok(problem::unavailable(request_id, FAULT)),
        End::Lost => bail!("the answer is lost on purpose"),
    }
}

/// The address that the nearest proxy saw: the last one, because all before it can be a client's own words.
fn forwarded_for(parts: &Parts) -> Option<IpAddr> {
    let last = parts.headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Runs a call to its end in a task of its own, like Lambda. A client that disconnects, or a panic in the call, affects
/// nothing else.
async fn run<S: Invoke, F>(
    shared: &Shared<S>,
    permit: Permit,
    request_id: &str,
    call: impl FnOnce(Arc<S>) -> F,
) -> Response<Body>
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let under_way = shared.under_way.clone();
    let call = call(Arc::clone(&shared.stack));
    let task = tokio::spawn(async move {
        let response = call.await;
        drop((permit, under_way));
        response
    });
    match task.await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(request_id, %error, "a call panicked");
            problem::of(request_id, Code::Internal, "Something went wrong on our side.")
        }
    }
}
