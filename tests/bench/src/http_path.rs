//! Workload E: whole requests through the gateway and the handlers, beside the same server with a constant answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use lambda_http::{Body, Request};
use local::gateway::{Function, Gateway, Invoke};
use local::stack::StackError;
use shared::domain::PacketId;
use shared::dynamo::SdkTable;
use shared::redis::RedisStore;
use shared::service::{GrabSlip, Report};
use shared::turns::Turns;
use tokio::net::{TcpListener, TcpStream};

use crate::BoxError;
use crate::flights::Grabs;
use crate::ours::Engine;
use crate::rush::{Got, Rush};

/// More requests than any workload has under way.
const ROOM: usize = 16_384;

/// What stands behind the gateway.
pub enum Answers {
    /// The same bytes for every request.
    Constant,
    /// The handler of grab.
    Grab(Box<GrabSlip<SdkTable, RedisStore>>),
}

impl Invoke for Answers {
    async fn call(&self, _function: Function, request: Request) -> Response<Body> {
        match self {
            Self::Constant => Response::new(Body::from("{\"outcome\":\"sold_out\"}")),
            Self::Grab(grab) => grab::handle(grab, request).await,
        }
    }

    async fn settle(&self) -> Result<Report, StackError> {
        Err(StackError::Unavailable("there is no settle here".to_owned()))
    }
}

/// Clients of a gateway, each with a connection.
pub struct Http {
    /// Serves for as long as it is there.
    _gateway: Gateway,
    address: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    engine: Arc<Engine>,
    packet: Mutex<Option<PacketId>>,
    sold_out: bool,
}

impl Http {
    /// In front of `answers`; with `sold_out`, the packets of a rush have no slip left when it begins.
    pub async fn new(answers: Answers, engine: Arc<Engine>, sold_out: bool) -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = Gateway::serve(listener, Arc::new(answers), Turns::new(ROOM))?;
        let address = gateway.address();
        Ok(Self { _gateway: gateway, address, idle: Mutex::default(), engine, packet: Mutex::default(), sold_out })
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, BoxError> {
        if let Some(idle) = lock(&self.idle).pop() {
            return Ok(idle);
        }
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl Grabs for Http {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        let id = self.engine.send(rush.slips).await?;
        *lock(&self.packet) = Some(id);
        if self.sold_out {
            for slip in 0..rush.slips {
                self.grab(0, &format!("winner-{slip}")).await?;
            }
        }
        Ok(())
    }

    async fn grab(&self, _packet: usize, user: &str) -> Result<Got, BoxError> {
        let id = lock(&self.packet).ok_or("no packet")?;
        let mut connection = self.connection().await?;
        connection.ready().await?;
        let request = http::Request::post(format!("/packets/{id}/grab"))
            .header("host", "bench")
            .header("x-user-id", user)
            .body(Full::new(Bytes::new()))?;
        let response = connection.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        lock(&self.idle).push(connection);
        if !status.is_success() {
            return Err(format!("a grab was answered {status} {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(slip(&body).map_or(Got::Nothing, Got::Slip))
    }
}

/// The number of the slip in an answer.
fn slip(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(body).ok()?.get("slip")?.as_u64()
}

fn lock<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
