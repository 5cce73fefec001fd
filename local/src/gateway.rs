//! A stand-in for API Gateway's HTTP API. It converts HTTP requests into the events (payload 2.0) that the functions
//! receive on AWS, and the functions' answers into HTTP responses.

pub mod event;
pub mod names;
mod own;
pub mod page;
pub mod problem;
pub mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::time::Duration;

use anyhow::anyhow;
use http::Response;
use lambda_http::{Body, Request};
use serde_json::Value;
use shared::domain::Limits;
use shared::http::Function;
use shared::service::RunReport;

use crate::sandbox::Sandbox;

pub use server::{BODY_BYTES_MAX, Gateway};

/// What the gateway does otherwise than in a plain stack, and what the page shows.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The path before all others, such as `/hongbao`.
    pub base_path: String,
    /// More hosts than its own under which the gateway answers.
    pub allowed_hosts: Vec<String>,
    /// What users can send and ask for.
    pub limits: Limits,
    /// Whether users can ask for withdrawals.
    pub user_withdrawals: bool,
}

/// The functions behind the gateway. Like Lambda, an implementation completes each call even if the client is gone.
pub trait Invoke: Send + Sync + 'static {
    /// Calls a function with a request.
    fn call(&self, function: Function, request: Request) -> impl Future<Output = Response<Body>> + Send;

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

    /// What the gateway asks once, when it starts.
    fn settings(&self) -> Settings {
        Settings::default()
    }
}
