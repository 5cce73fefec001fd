//! A stand-in for API Gateway's HTTP API: it turns HTTP requests into the events (payload 2.0) that the functions get
//! on AWS, and what they answer into HTTP responses.

pub mod event;
pub mod page;
pub mod problem;
pub mod routes;
pub mod rush;
mod server;

use http::Response;
use lambda_http::{Body, Request};
use shared::domain::Limits;
use shared::service::Report;

pub use routes::{Function, ROUTES, Route};
pub use server::{BODY_BYTES_MAX, Gateway};

/// Why a run of settle has no report.
#[derive(Debug, thiserror::Error)]
#[error("settle failed: {0}")]
pub struct SettleFailed(pub String);

/// What the gateway calls. Like Lambda it lets each call run to its end, whatever becomes of the client.
pub trait Invoke: Send + Sync + 'static {
    /// Calls a function with a request.
    fn call(&self, function: Function, request: Request) -> impl Future<Output = Response<Body>> + Send;

    /// Runs settle once over everything and returns its report.
    fn settle(&self) -> impl Future<Output = Result<Report, SettleFailed>> + Send;

    /// What can be sent, for the page to say beforehand.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}
