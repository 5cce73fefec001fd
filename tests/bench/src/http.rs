//! Workload E: whole requests through the gateway and the handlers, beside the same server with a constant answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use client::tickets::{Scope, Ticket, TicketKey};
use client::{Caller, Client, GrabResult, Retries, Transport};
use http::header::HOST;
use http::{HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use lambda_http::{Body, Request};
use local::gateway::{Gateway, Invoke};
use shared::batching::Permits;
use shared::dynamodb::SdkTable;
use shared::http::Function;
use shared::redis::RedisStore;
use shared::service::GrabSlip;
use tokio::net::{TcpListener, TcpStream};

use crate::BoxError;
use crate::clients::Grabs;
use crate::ours::Engine;
use crate::rush::{Got, Rush};

/// A limit above the number of requests that any workload has in flight.
const ROOM: usize = 16_384;

/// The handlers behind the gateway.
pub enum Answers {
    /// The same bytes for every request.
    Constant,
    /// The handler of the grab function.
    Grab(Box<GrabSlip<SdkTable, RedisStore>>),
}

impl Invoke for Answers {
    async fn call(&self, _function: Function, request: Request) -> Response<Body> {
        match self {
            Self::Constant => Response::new(Body::from(r#"{"outcome":"sold_out","packet_id":""}"#)),
            Self::Grab(grab) => grab::handle(grab, request).await,
        }
    }
}

/// Connections to a gateway, each used by one request at a time. `reqwest` would take a large part of the measured time.
#[derive(Clone)]
struct Connections {
    address: SocketAddr,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl Connections {
    async fn take(&self) -> Result<SendRequest<Full<Bytes>>, BoxError> {
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

impl Transport for Connections {
    async fn exchange(&self, mut request: http::Request<Bytes>) -> Result<Response<Bytes>, BoxError> {
        let mut connection = self.take().await?;
        connection.ready().await?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.address.to_string())?);
        let (parts, body) = connection.send_request(request.map(Full::new)).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        lock(&self.idle).push(connection);
        Ok(Response::from_parts(parts, body))
    }
}

/// The clients of a gateway.
pub struct Http {
    /// The gateway runs until this is dropped.
    _gateway: Gateway,
    client: Client<Connections>,
    engine: Arc<Engine>,
    sold_out: bool,
    /// What signs a ticket for each grab, if the packets want them.
    tickets: Option<TicketKey>,
}

impl Http {
    /// Clients of a gateway with these answers. With `sold_out`, a packet has no slip left when its rush begins. With `tickets` it wants
    /// them.
    pub async fn new(
        answers: Answers,
        engine: Arc<Engine>,
        sold_out: bool,
        tickets: Option<TicketKey>,
    ) -> Result<Arc<Self>, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = Gateway::serve(listener, Arc::new(answers), Permits::new(ROOM))?;
        let connections = Connections { address: gateway.address(), idle: Arc::default() };
        let client = Client::new(connections, "", Caller::Nobody).retrying(Retries::NONE);
        Ok(Arc::new(Self { _gateway: gateway, client, engine, sold_out, tickets }))
    }
}

impl Grabs for Http {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill_with(rush, self.tickets.is_some()).await?;
        if self.sold_out {
            for slip in 0..rush.slips {
                self.grab(0, &format!("winner-{slip}")).await?;
            }
        }
        Ok(())
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let id = self.engine.packet(packet).to_string();
        let mut client = self.client.by(Caller::Local(user.to_owned()));
        if let Some(key) = &self.tickets {
            client = client.with_ticket(key.sign(&Ticket::new(user, Scope::Packet(&id)))?);
        }
        Ok(match client.grab(&id, None).await? {
            GrabResult::Grabbed { slip, .. } => Got::Slip(slip.into()),
            GrabResult::SoldOut { .. }
            | GrabResult::LimitReached { .. }
            | GrabResult::Expired { .. }
            | GrabResult::Closed { .. }
            | GrabResult::NotStarted { .. }
            | GrabResult::Other => Got::Nothing,
        })
    }
}

fn lock<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
