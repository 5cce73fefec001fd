use std::time::Duration;

use lambda_http::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use lambda_http::http::{Response, StatusCode};
use lambda_http::{Body, Request};
use serde::Serialize;

use super::problem::{Code, Problem};
use super::request::request_id;
use super::route::{Route, route};
use crate::domain::PacketId;

/// An answer that went well.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
    /// For the log.
    outcome: &'static str,
    /// Of a packet that the request's path does not name.
    packet_id: Option<PacketId>,
}

impl Answer {
    /// An answer with this status, and `body` as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body =
            serde_json::to_vec(body).map_err(|_| Problem::new(Code::Internal, "Something went wrong on our side."))?;
        Ok(Self { status, headers: Vec::new(), body, outcome: "ok", packet_id: None })
    }

    /// 200 with `body` as JSON.
    pub fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, body)
    }

    /// With another word for how it ended than "ok": for the log.
    #[must_use]
    pub fn with_outcome(self, outcome: &'static str) -> Self {
        Self { outcome, ..self }
    }

    /// About this packet, which the request's path does not name: for the log.
    #[must_use]
    pub fn about(self, packet_id: PacketId) -> Self {
        Self { packet_id: Some(packet_id), ..self }
    }

    /// With another header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }
}

/// Turns what a handler came to after `took` into the response, and logs it in one line: under which request id, about
/// which packet, how it ended, how long it took, and a problem's cause. Nothing else that a client has sent is logged.
pub fn respond(request: &Request, result: Result<Answer, Problem>, took: Duration) -> Response<Body> {
    let id = request_id(request);
    log(request, &result, took);
    match result {
        Ok(answer) => response(answer.status, "application/json", answer.headers, answer.body),
        Err(problem) => {
            let mut headers = Vec::new();
            if let Some(seconds) = problem.retry_after_s {
                headers.push((RETRY_AFTER, HeaderValue::from(seconds)));
            }
            if let Some(methods) = problem.allow {
                headers.push((ALLOW, HeaderValue::from_static(methods)));
            }
            // A problem's body is plain strings and numbers: there is nothing in it that could fail to serialize.
            let body = serde_json::to_vec(&problem.body(id)).unwrap_or_default();
            response(problem.code.status(), "application/problem+json", headers, body)
        }
    }
}

fn log(request: &Request, result: &Result<Answer, Problem>, took: Duration) {
    if result.is_ok() && !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let request_id = request_id(request);
    let packet_id = match result {
        Ok(Answer { packet_id: Some(id), .. }) => Some(*id),
        // An id that is none is a text of the client's.
        _ => match route(request) {
            Ok(Route::Grab(id) | Route::Packet(id) | Route::PacketClaims(id)) => id.parse().ok(),
            _ => None,
        },
    };
    let packet_id = packet_id.map(tracing::field::display::<PacketId>);
    let duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let (outcome, cause) = match result {
        Ok(answer) => (answer.outcome, None),
        Err(problem) => (problem.code.name(), problem.cause.as_ref().map(|cause| crate::error_chain(cause))),
    };
    match result.as_ref().err().map(|problem| problem.code) {
        Some(Code::Internal) => {
            tracing::error!(request_id, packet_id, outcome, duration_us, cause, "a request failed on a defect");
        }
        Some(Code::Unavailable) => {
            tracing::warn!(request_id, packet_id, outcome, duration_us, cause, "a request was not answered");
        }
        Some(_) => tracing::info!(request_id, packet_id, outcome, duration_us, "a request was refused"),
        None => tracing::info!(request_id, packet_id, outcome, duration_us, "a request was answered"),
    }
}

fn response(
    status: StatusCode,
    content_type: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
) -> Response<Body> {
    // JSON from serde is UTF-8; as text it passes API Gateway without base64.
    let body = String::from_utf8(body).map_or_else(|error| Body::Binary(error.into_bytes()), Body::Text);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().extend(headers);
    response
}
