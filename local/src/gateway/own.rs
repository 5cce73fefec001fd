//! The stack's own routes, below `/_local`, which no deployment has.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Response};
use hyper::body::Bytes;
use lambda_http::Body;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::http::{Code, ROUTES, whole};
use shared::ports::Clock as _;

use super::{Invoke, problem};
use crate::sandbox::{ADVANCE_MAX, Rule, Sandbox};
use crate::webhooks::sqs;

const SETTLE: &str = "/_local/settle";
const CLOCK: &str = "/_local/clock";
const RESET: &str = "/_local/reset";
const FAULTS: &str = "/_local/faults";

/// What is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    Settle,
    Clock,
    Reset,
    Faults,
    Sqs,
}

/// The body of a request to move the clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    #[serde(deserialize_with = "whole")]
    advance_s: u64,
}

impl Own {
    /// What is asked for at this decoded path, if it is one of these routes.
    pub fn find(path: &str) -> Option<Self> {
        match path {
            SETTLE => Some(Self::Settle),
            CLOCK => Some(Self::Clock),
            RESET => Some(Self::Reset),
            FAULTS => Some(Self::Faults),
            _ => (path.trim_end_matches('/') == sqs::PATH).then_some(Self::Sqs),
        }
    }

    /// The answer.
    pub async fn answer<S: Invoke>(self, stack: Arc<S>, id: String, parts: Parts, body: Bytes) -> Response<Body> {
        match (self, parts.method.clone()) {
            (Self::Settle, Method::POST) => {
                let report = stack.settle().await;
                report.map_or_else(|failed| undone(&id, "settle", &failed), |report| json_response(&report))
            }
            (Self::Clock, Method::GET | Method::HEAD | Method::POST)
            | (Self::Reset, Method::POST)
            | (Self::Faults, Method::GET | Method::HEAD | Method::PUT) => match stack.sandbox() {
                Some(sandbox) => self.answer_of(&*stack, sandbox, &id, !parts.method.is_safe(), &body).await,
                None => {
                    problem::of(&id, Code::RouteNotFound, "Only a sandbox has this: start the stack with --sandbox.")
                }
            },
            (Self::Sqs, Method::POST) => {
                let operation = parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok());
                match stack.sqs(operation.unwrap_or_default(), &body) {
                    Ok(Some(answer)) => json_response(&answer),
                    Ok(None) => problem::of(&id, Code::RouteNotFound, "There is no such queue or operation."),
                    Err(failed) => undone(&id, "the queue of webhooks", &failed),
                }
            }
            (Self::Clock, _) => problem::method_not_allowed(&id, "GET, HEAD, POST"),
            (Self::Faults, _) => problem::method_not_allowed(&id, "GET, HEAD, PUT"),
            (Self::Settle | Self::Reset | Self::Sqs, _) => problem::method_not_allowed(&id, "POST"),
        }
    }

    /// The answer of a sandbox: its faults, or its time, each as it is afterwards.
    async fn answer_of<S: Invoke>(
        self,
        stack: &S,
        sandbox: &Sandbox,
        id: &str,
        is_write: bool,
        body: &[u8],
    ) -> Response<Body> {
        let now = || json!({"now": sandbox.clock.now().to_string()});
        let done = match self {
            Self::Faults if is_write => match rules(body) {
                Ok(rules) => {
                    sandbox.dice.set(rules);
                    Ok(json!(sandbox.dice.rules()))
                }
                Err(error) => return problem::of(id, Code::InvalidRequest, &error),
            },
            Self::Faults => Ok(json!(sandbox.dice.rules())),
            Self::Reset => stack.reset(sandbox).await.map(|()| now()),
            _ if !is_write => Ok(now()),
            _ => {
                let Some(by) = advance(body) else {
                    let expected = format!("The body must be {{advance_s: 0 to {}}}.", ADVANCE_MAX.as_secs());
                    return problem::of(id, Code::InvalidRequest, &expected);
                };
                let advanced = stack.advance(sandbox, by).await;
                advanced.map(|delivered| json!({"now": sandbox.clock.now().to_string(), "delivered": delivered}))
            }
        };
        done.map_or_else(|failed| undone(id, "the sandbox", &failed), |answer| json_response(&answer))
    }
}

/// Which requests are to go wrong, and how.
fn rules(body: &[u8]) -> Result<Vec<Rule>, String> {
    let rules: Vec<Rule> =
        serde_json::from_slice(body).map_err(|error| format!("The body must be a list: {error}."))?;
    let is_one = |name: &str| ROUTES.iter().any(|route| name == format!("{} {}", route.method, route.path));
    match rules.iter().filter_map(Rule::route).find(|name| !is_one(name)) {
        Some(name) => Err(format!("There is no route {name}.")),
        None => Ok(rules),
    }
}

/// How far the clock is to be moved.
fn advance(body: &[u8]) -> Option<Duration> {
    let Advance { advance_s } = serde_json::from_slice(body).ok()?;
    Some(Duration::from_secs(advance_s)).filter(|by| *by <= ADVANCE_MAX)
}

/// The answer where the stack itself failed.
fn undone(id: &str, what: &'static str, failed: &anyhow::Error) -> Response<Body> {
    tracing::error!(request_id = id, error = format!("{failed:#}"), "{what} failed");
    problem::unavailable(id, &format!("It could not be done: {failed:#}."))
}

/// An answer that is no problem.
pub fn json_response(value: &impl Serialize) -> Response<Body> {
    // The value has only strings and numbers, which always serialize.
    let mut response = Response::new(Body::Text(serde_json::to_string(value).unwrap_or_default()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
