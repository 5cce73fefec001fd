//! A database of its own on a server that others use too: a relay that gives each request an access key of its own. Amazon's
//! `DynamoDB` Local keeps a database for each access key, and checks no signature.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use pages::names::Names;

/// Relays connections to the server at `upstream` (host and port) until it is dropped.
pub async fn serve(listener: TcpListener, upstream: &str) -> io::Result<()> {
    let key = format!("{:016x}", RandomState::new().build_hasher().finish());
    let names = Arc::new(Names::of_program(listener.local_addr()?));
    loop {
        let (client, _) = listener.accept().await?;
        let (upstream, key, names) = (upstream.to_owned(), key.clone(), Arc::clone(&names));
        tokio::spawn(async move {
            if let Err(error) = relay(client, &upstream, &key, &names).await {
                tracing::debug!(error, "a connection to the database ended");
            }
        });
    }
}

async fn relay(
    client: TcpStream,
    upstream: &str,
    key: &str,
    names: &Names,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(server)).await?;
    tokio::spawn(connection);
    let sender = Mutex::new(sender);
    let forward = service_fn(async |request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        names.check_program(&parts).map_err(|_| io::Error::other("a page's request"))?;
        let mut request = Request::from_parts(parts, body);
        if let Some(signed) = request.headers_mut().get_mut(AUTHORIZATION)
            && let Some(changed) = with_key(signed, key)
        {
            *signed = changed;
        }
        let mut sender = sender.lock().await;
        sender.ready().await.map_err(io::Error::other)?;
        sender.send_request(request).await.map_err(io::Error::other)
    });
    http1::Builder::new().serve_connection(TokioIo::new(client), forward).await?;
    Ok(())
}

/// A signature's header with another access key.
fn with_key(header: &HeaderValue, key: &str) -> Option<HeaderValue> {
    const BEFORE: &str = "Credential=";
    let (start, rest) = header.to_str().ok()?.split_once(BEFORE)?;
    let (_, rest) = rest.split_once('/')?;
    HeaderValue::try_from(format!("{start}{BEFORE}{key}/{rest}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_access_key_of_a_signature_changes() {
        let signed =
            "AWS4-HMAC-SHA256 Credential=local/20261125/local/dynamodb/aws4_request, SignedHeaders=host, Signature=ab";
        let changed = with_key(&HeaderValue::from_static(signed), "k1").unwrap();
        assert_eq!(changed, signed.replace("=local/", "=k1/"));
        assert_eq!(with_key(&HeaderValue::from_static("Bearer x"), "k1"), None);
    }
}
