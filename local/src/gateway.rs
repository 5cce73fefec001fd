//! A stand-in for API Gateway's HTTP API. It converts HTTP requests into the events (payload 2.0) that the functions
//! receive on AWS, and the functions' answers into HTTP responses.

pub mod event;
mod own;
pub mod page;
pub mod routes;
mod server;
pub mod sign_in;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::anyhow;
use http::Response;
use http::request::Parts;
use lambda_http::aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use lambda_http::{Body, Request};
use serde_json::Value;
use shared::domain::Limits;
use shared::http::{Code, Function, Operation};
use shared::service::RunReport;

use crate::sandbox::Sandbox;

pub use pages::{names, problem};
pub use server::Gateway;

/// What the gateway does otherwise than in a plain stack, and what the page shows.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Who may come in.
    pub entry: Entry,
    /// The addresses of proxies, which alone may say who a caller is ([`Arrival::caller`]).
    pub proxies: Vec<IpAddr>,
    /// The path before all others, such as `/hongbao`.
    pub base_path: String,
    /// More hosts than its own under which the gateway answers.
    pub allowed_hosts: Vec<String>,
    /// What users can send and ask for.
    pub limits: Limits,
    /// Whether users can ask for withdrawals.
    pub user_withdrawals: bool,
    /// Whether the console can run commands.
    pub has_tool: bool,
    /// Whether these read a log.
    pub has_log: bool,
}

/// Who may come in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Entry {
    /// Programs and pages of this machine. They are believed to be the users that they name.
    #[default]
    Believed,
    /// The same, but users have tokens.
    SignedIn,
    /// Anybody. Users have tokens, and operators have keys. There are no pages, and no routes of a local stack.
    Public,
}

/// A request whose sender is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// Its decoded path.
    pub path: &'a str,
    /// What it asks; `None` if no route has its path.
    pub operation: Option<Operation>,
    /// The address of the client, or of the last one that a proxy names.
    pub caller: IpAddr,
    /// Unique to the request.
    pub request_id: &'a str,
}

/// The functions behind the gateway. Like Lambda, an implementation completes each call even if the client is gone.
pub trait Invoke: Send + Sync + 'static {
    /// Calls a function with a request.
    fn call(&self, function: Function, request: Request) -> impl Future<Output = Response<Body>> + Send;

    /// Says who sends a request, as API Gateway's authorizers do; or answers it.
    fn authorize(
        &self,
        arrival: Arrival<'_>,
    ) -> impl Future<Output = Result<Option<ApiGatewayRequestAuthorizer>, Response<Body>>> + Send {
        ready(Ok(event::believed(arrival.path, &arrival.parts.headers)))
    }

    /// Answers a request for a route that only a public program has, under overload too. What a proxy forwards is of strangers.
    fn own(&self, _path: &str, _is_forwarded: bool) -> impl Future<Output = Option<Response<Body>>> + Send {
        ready(None)
    }

    /// Runs settle over all partitions and returns the report.
    fn settle(&self) -> impl Future<Output = anyhow::Result<RunReport>> + Send {
        ready(Err(anyhow!("there is no settle here")))
    }

    /// The sandbox, if the stack is one.
    fn sandbox(&self) -> Option<&Sandbox> {
        None
    }

    /// Moves a sandbox' clock, and does all that has become due. Returns whether the receiver has answered each webhook; one that is slow is
    /// not waited for.
    fn advance(&self, _sandbox: &Sandbox, _by: Duration) -> impl Future<Output = anyhow::Result<bool>> + Send {
        ready(Err(anyhow!("no sandbox has these functions")))
    }

    /// Empties a sandbox.
    fn reset(&self, _sandbox: &Sandbox) -> impl Future<Output = anyhow::Result<()>> + Send {
        ready(Err(anyhow!("no sandbox has these functions")))
    }

    /// Answers an operation of the protocol of SQS. `None`: there are no webhooks, or their queue does not do that.
    fn sqs(&self, _operation: &str, _body: &[u8]) -> anyhow::Result<Option<Value>> {
        Ok(None)
    }

    /// Runs a command of the console. `None`: there is no tool.
    fn tool(&self, _body: &[u8]) -> impl Future<Output = Option<Result<Value, (Code, String)>>> + Send {
        ready(None)
    }

    /// What the gateway asks once, when it starts.
    fn settings(&self) -> Settings {
        Settings::default()
    }
}
