//! The HTTP server of the gateway, of the embedded database and of the console.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// How long a connection may take from its start, or from its last answer, to the end of a request's headers. This bounds slow
/// headers and idle connections alike: hyper has one timer for both. Clients with a pool close idle connections earlier, so
/// that they seldom use one that is just closing.
const NEXT_HEADERS_WITHIN: Duration = Duration::from_mins(2);
/// The most connections. More wait until one ends.
const CONNECTIONS_MAX: usize = 8_192;
/// How long to wait when no connection can be accepted, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Serves connections until `stop`, and then finishes the open requests. An error of `answer` ends its connection without an answer.
pub async fn serve<F, E>(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Result<Response<Full<Bytes>>, E>> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    let connections = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            (permit, accepted) = async { (Arc::clone(&free).acquire_owned().await, listener.accept().await) } => {
                accepted.map(|(socket, peer)| (socket, peer, permit))
            }
            () = &mut stop => break,
        };
        let (socket, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        let answer = answer.clone();
        let answer = move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            answer(request)
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(NEXT_HEADERS_WITHIN)
            .serve_connection(TokioIo::new(socket), service_fn(answer));
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.shutdown().await;
}
