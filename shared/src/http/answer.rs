use lambda_http::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use lambda_http::http::{Response, StatusCode};
use lambda_http::{Body, Request};
use serde::Serialize;

use super::problem::{Code, Problem};
use super::request::request_id;

/// An answer that went well.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
}

impl Answer {
    /// An answer with this status, and `body` as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body =
            serde_json::to_vec(body).map_err(|_| Problem::new(Code::Internal, "Something went wrong on our side."))?;
        Ok(Self { status, headers: Vec::new(), body })
    }

    /// 200 with `body` as JSON.
    pub fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, body)
    }

    /// With another header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }
}

/// Turns what a handler came to into the response, and logs a problem's cause, once, under the request's id.
pub fn respond(request: &Request, result: Result<Answer, Problem>) -> Response<Body> {
    let id = request_id(request);
    match result {
        Ok(answer) => response(answer.status, "application/json", answer.headers, answer.body),
        Err(problem) => {
            log(id, &problem);
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

fn log(request_id: &str, problem: &Problem) {
    let cause = problem.cause.as_ref().map(|cause| crate::error_chain(cause));
    let (code, cause) = (problem.code.name(), cause.as_deref().unwrap_or_default());
    match problem.code {
        Code::Internal => tracing::error!(request_id, code, cause, "a request failed on a defect"),
        Code::Unavailable => tracing::warn!(request_id, code, cause, "a request was not answered"),
        _ => tracing::debug!(request_id, code, "a request was refused"),
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
