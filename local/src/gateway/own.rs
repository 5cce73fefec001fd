//! The stack's own routes, below `/_local` and of the console, which no deployment has.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Bytes;
use lambda_http::Body;
use pages::body::json_response;
use pages::problem;
use serde::Deserialize;
use serde_json::json;
use shared::http::{Code, ROUTES, whole};
use shared::ports::Clock as _;

use super::Invoke;
use crate::sandbox::{ADVANCE_MAX, Rule, Sandbox};
use crate::webhooks::sqs;

const SETTLE: &str = "/_local/settle";
const CLOCK: &str = "/_local/clock";
const RESET: &str = "/_local/reset";
const FAULTS: &str = "/_local/faults";
const TOOL: &str = "/console/tool";

const NO_TOOL: &str = "The commands know no stores inside the program, and no other clock than the machine's.";

/// The body of a request to move the clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    #[serde(deserialize_with = "whole")]
    advance_s: u64,
}

/// Whether a decoded path is that of one of these routes.
pub fn is_own(path: &str) -> bool {
    path.starts_with("/_local/") || path == TOOL
}

/// The answer to a request for one of these routes.
pub async fn answer<S: Invoke>(stack: Arc<S>, id: String, path: String, parts: Parts, body: Bytes) -> Response<Body> {
    let not_found = |detail: &str| problem::of(&id, Code::RouteNotFound, detail);
    let path = path.trim_end_matches('/');
    let answer = match (path, &parts.method) {
        (SETTLE, &Method::POST) => stack.settle().await.map(|report| json_response(&report)),
        (CLOCK, &(Method::GET | Method::HEAD | Method::POST))
        | (RESET, &Method::POST)
        | (FAULTS, &(Method::GET | Method::HEAD | Method::PUT)) => match stack.sandbox() {
            Some(sandbox) => of_sandbox(&*stack, sandbox, &id, path, !parts.method.is_safe(), &body).await,
            None => Ok(not_found("Only a sandbox has this: start one with `hongbao sandbox`.")),
        },
        (sqs::PATH, &Method::POST) => {
            let operation = parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok());
            let done = stack.sqs(operation.unwrap_or_default(), &body);
            let nothing = || not_found("There is no such queue or operation.");
            done.map(|done| done.map_or_else(nothing, |done| json_response(&done)))
        }
        (TOOL, &Method::POST) => Ok(match stack.tool(&body).await {
            Some(Ok(answer)) => json_response(&answer),
            Some(Err((code, detail))) => problem::of(&id, code, &detail),
            None => problem::own(&id, StatusCode::NOT_IMPLEMENTED, "no-tool", NO_TOOL),
        }),
        (CLOCK, _) => Ok(problem::method_not_allowed(&id, "GET, HEAD, POST")),
        (FAULTS, _) => Ok(problem::method_not_allowed(&id, "GET, HEAD, PUT")),
        (SETTLE | RESET | sqs::PATH | TOOL, _) => Ok(problem::method_not_allowed(&id, "POST")),
        _ => Ok(not_found("The local stack has no such route.")),
    };
    answer.unwrap_or_else(|failed| {
        tracing::error!(request_id = id, path, error = format!("{failed:#}"), "not done");
        problem::unavailable(&id, &format!("It could not be done: {failed:#}."))
    })
}

/// The answer of a sandbox: its faults, or its time, each as it is afterwards.
async fn of_sandbox<S: Invoke>(
    stack: &S,
    sandbox: &Sandbox,
    id: &str,
    path: &str,
    is_write: bool,
    body: &[u8],
) -> anyhow::Result<Response<Body>> {
    let invalid = |detail: &str| Ok(problem::of(id, Code::InvalidRequest, detail));
    let mut delivered = None;
    match path {
        FAULTS => {
            if is_write {
                match rules(body) {
                    Ok(rules) => sandbox.dice.set(rules),
                    Err(error) => return invalid(&error),
                }
            }
            return Ok(json_response(&sandbox.dice.rules()));
        }
        RESET => stack.reset(sandbox).await?,
        _ if is_write => match advance(body) {
            Some(by) => delivered = Some(stack.advance(sandbox, by).await?),
            None => return invalid(&format!("The body must be {{advance_s: 0 to {}}}.", ADVANCE_MAX.as_secs())),
        },
        _ => {}
    }
    let mut answer = json!({"now": sandbox.clock.now().to_string()});
    if let Some(delivered) = delivered {
        answer["delivered"] = delivered.into();
    }
    Ok(json_response(&answer))
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
