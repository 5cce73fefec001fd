//! A server's own errors, in the same form as the functions' errors. Each carries the id of its request.

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use lambda_http::Body;
use serde_json::json;
use shared::http::Code;

/// The page's address is the base path with a slash, or the names of its files would be others.
pub fn moved(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    with(response, CACHE_CONTROL, "no-store")
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

/// A problem that functions have too.
pub fn of(request_id: &str, code: Code, detail: &str) -> Response<Body> {
    response(request_id, code.status(), code.name(), code.title(), detail)
}

/// A problem that only a server has.
pub fn own(request_id: &str, status: StatusCode, code: &str, detail: &str) -> Response<Body> {
    response(request_id, status, code, status.canonical_reason().unwrap_or_default(), detail)
}

fn response(request_id: &str, status: StatusCode, code: &str, title: &str, detail: &str) -> Response<Body> {
    let body = json!({
        "type": format!("urn:hongbao:problem:{code}"), "title": title, "status": status.as_u16(), "detail": detail, "code": code,
        "request_id": request_id,
    });
    let mut response = Response::new(Body::Text(body.to_string()));
    *response.status_mut() = status;
    with(with(response, CONTENT_TYPE, "application/problem+json"), CACHE_CONTROL, "no-store")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &'static str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
