//! The gateway's own errors, in the same form as the functions' errors. Each carries the id of its request.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use lambda_http::Body;
use serde_json::{Value, json};
use shared::http::Code;

/// The request's body is larger than any route allows.
pub fn too_large(request_id: &str) -> Response<Body> {
    of(request_id, Code::PayloadTooLarge, "The body is too large for every route.")
}

/// The request's path and query are too long for every route. No function answers this, so the gateway has its own
/// code.
pub fn uri_too_long(request_id: &str) -> Response<Body> {
    let detail = "The path and query are too long for every route.";
    let status = StatusCode::URI_TOO_LONG;
    response(status, &body(request_id, status, "uri-too-long", "URI too long", detail))
}

/// The request is for another host. No function answers this, so the gateway has its own code.
pub fn misdirected(request_id: &str) -> Response<Body> {
    let status = StatusCode::MISDIRECTED_REQUEST;
    let detail = "The local stack answers only under its own address.";
    response(status, &body(request_id, status, "misdirected", "Misdirected request", detail))
}

/// The request's path is not below the base path.
pub fn outside(request_id: &str) -> Response<Body> {
    of(request_id, Code::RouteNotFound, "The local stack answers only below its base path.")
}

/// The page's address is the base path with a slash, or the names of its files would be others.
pub fn moved(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    with(response, CACHE_CONTROL, "no-store")
}

/// A page of another site makes the request.
pub fn other_site(request_id: &str) -> Response<Body> {
    of(request_id, Code::Forbidden, "The local stack takes no requests of other sites' pages.")
}

/// The body did not come in time. Only a server has this problem, so the gateway has its own code.
pub fn too_slow(request_id: &str) -> Response<Body> {
    let status = StatusCode::REQUEST_TIMEOUT;
    let detail = "The body did not come in time.";
    response(status, &body(request_id, status, "request-timeout", "Request timeout", detail))
}

/// The request's body can't be read.
pub fn unreadable(request_id: &str) -> Response<Body> {
    of(request_id, Code::InvalidRequest, "The body cannot be read.")
}

/// The body does not describe a rush.
pub fn no_race(request_id: &str) -> Response<Body> {
    of(request_id, Code::InvalidRequest, "The body must be {users: 1 to 5000, count: 1 to 1000, total_amount}.")
}

/// A local route does not have the request's method.
pub fn method_not_allowed(request_id: &str, allowed: &'static str) -> Response<Body> {
    with(of(request_id, Code::MethodNotAllowed, "This route does not have this method."), ALLOW, allowed)
}

/// The gateway already serves the most requests that it allows. The answer is API Gateway's, with a time to retry.
pub fn too_many_requests() -> Response<Body> {
    let mut response = Response::new(Body::Text(json!({"message": "Too Many Requests"}).to_string()));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    with(with(response, CONTENT_TYPE, "application/json"), RETRY_AFTER, "1")
}

/// A dependency of the request does not answer.
pub fn unavailable(request_id: &str, detail: &str) -> Response<Body> {
    with(of(request_id, Code::Unavailable, detail), RETRY_AFTER, "1")
}

/// A handler panicked; the log has the cause under `request_id`.
pub fn internal(request_id: &str) -> Response<Body> {
    of(request_id, Code::Internal, "Something went wrong on our side.")
}

fn of(request_id: &str, code: Code, detail: &str) -> Response<Body> {
    response(code.status(), &body(request_id, code.status(), code.name(), code.title(), detail))
}

fn body(request_id: &str, status: StatusCode, code: &str, title: &str, detail: &str) -> Value {
    let kind = format!("urn:hongbao:problem:{code}");
    let status = status.as_u16();
    json!({"type": kind, "title": title, "status": status, "detail": detail, "code": code, "request_id": request_id})
}

fn response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Text(body.to_string()));
    *response.status_mut() = status;
    with(with(response, CONTENT_TYPE, "application/problem+json"), CACHE_CONTROL, "no-store")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
