//! The gateway's own errors, in the form that the functions give theirs.

use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use lambda_http::Body;
use serde_json::json;

/// The request's body is larger than any route takes.
pub fn too_large() -> Response<Body> {
    problem(StatusCode::PAYLOAD_TOO_LARGE, "payload-too-large", "The body is larger than any route takes.")
}

/// The request's path and query are longer than any route's.
pub fn uri_too_long() -> Response<Body> {
    problem(StatusCode::URI_TOO_LONG, "uri-too-long", "The path and query are longer than any route's.")
}

/// The request's body can't be read.
pub fn unreadable() -> Response<Body> {
    problem(StatusCode::BAD_REQUEST, "invalid-request", "The body can't be read.")
}

/// A local route has another method.
pub fn method_not_allowed(allowed: &'static str) -> Response<Body> {
    let response =
        problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "This route does not have this method.");
    with(response, ALLOW, allowed)
}

/// Something that a request needs does not answer.
pub fn unavailable(detail: &str) -> Response<Body> {
    with(problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail), RETRY_AFTER, "1")
}

/// A handler panicked; the log has the cause under `request_id`.
pub fn internal(request_id: &str) -> Response<Body> {
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        &format!("A defect, logged as request {request_id}. Repeating the request is safe."),
    )
}

fn problem(status: StatusCode, code: &str, detail: &str) -> Response<Body> {
    let title = status.canonical_reason().unwrap_or("Error");
    let body =
        json!({"type": "about:blank", "title": title, "status": status.as_u16(), "code": code, "detail": detail});
    let mut response = Response::new(Body::Text(body.to_string()));
    *response.status_mut() = status;
    with(response, CONTENT_TYPE, "application/problem+json")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
