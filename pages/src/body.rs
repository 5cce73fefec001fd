//! Bodies of requests and answers.

use std::error::Error;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use lambda_http::Body;
use serde::Serialize;
use shared::http::Code;
use tokio::time::timeout;

use crate::problem;

/// The largest body that is passed on: well above any route's limit, so that the functions check their own limits.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// How much of a larger body is read. A client that is still sending does not read the answer.
const BODY_BYTES_READ: usize = 32 << 20;
/// How long the whole body of a request may take.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// The whole body, or the problem with it.
pub async fn read(request_id: &str, body: Incoming) -> Result<Bytes, Response<Body>> {
    let too_large = || problem::of(request_id, Code::PayloadTooLarge, "The body is too large for every route.");
    match timeout(BODY_WITHIN, kept(Limited::new(body, BODY_BYTES_READ))).await {
        Err(_) => Err(problem::own(
            request_id,
            StatusCode::REQUEST_TIMEOUT,
            "request-timeout",
            "The body did not come in time.",
        )),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(problem::of(request_id, Code::InvalidRequest, "The body cannot be read.")),
        Ok(Ok(body)) => body.ok_or_else(too_large),
    }
}

/// The whole body, or nothing of it if it is too large. The rest of that is read and not kept.
async fn kept(mut body: Limited<Incoming>) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
    let mut kept = Some(Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        kept = kept.filter(|kept| kept.len() + data.len() <= BODY_BYTES_MAX);
        if let Some(kept) = &mut kept {
            kept.extend_from_slice(&data);
        }
    }
    Ok(kept.map(Bytes::from))
}

/// An answer that is no problem.
pub fn json_response(value: &impl Serialize) -> Response<Body> {
    // The value has only strings and numbers, which always serialize.
    let mut response = Response::new(Body::Text(serde_json::to_string(value).unwrap_or_default()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer as the server sends it.
pub fn to_hyper(response: Response<Body>) -> Response<Full<Bytes>> {
    let (mut parts, body) = response.into_parts();
    // The length of the body is a matter between the server and its client.
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(TRANSFER_ENCODING);
    let bytes = match body {
        Body::Text(text) => Bytes::from(text),
        Body::Binary(bytes) => Bytes::from(bytes),
        _ => Bytes::new(),
    };
    Response::from_parts(parts, Full::new(bytes))
}
