//! A stand-in for an Application Load Balancer, which calls the functions for users if `--entrance alb` asks for it. The operator's routes
//! stay with API Gateway.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use lambda_http::Request;
use lambda_http::aws_lambda_events::alb::AlbTargetGroupRequest;
use lambda_http::request::LambdaRequest;
use serde_json::json;

use super::event::{self, USER_HEADER};

/// The issuer of the stand-in's tokens.
pub const ISSUER: &str = "https://issuer.local/";
/// Their audience.
pub const AUDIENCE: &str = "local";
const TOKEN_VALID_FOR: Duration = Duration::from_mins(5);

/// Beginnings of the content types whose bodies a load balancer passes on as text.
const TEXTS: [&str; 4] = ["text/", "application/json", "application/javascript", "application/xml"];

/// Whether the load balancer has a rule for this path (stacks/entrance.yaml). It compares paths as they are sent.
#[must_use]
pub fn has_rule(path: &str) -> bool {
    path == "/packets" || path.starts_with("/packets/") || path.starts_with("/me/")
}

/// The handler's request, by the conversion that runs on AWS.
#[must_use]
pub fn request(parts: Parts, body: &[u8], request_id: &str) -> Request {
    event::with_context(LambdaRequest::Alb(event(parts, body)), request_id)
}

/// Makes the event of a request, with lists of values. Nothing in it is decoded.
fn event(parts: Parts, body: &[u8]) -> AlbTargetGroupRequest {
    let mut query: HashMap<String, Vec<String>> = HashMap::new();
    for pair in parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        query.entry(name.to_owned()).or_default().push(value.to_owned());
    }
    let is_text = body.is_empty() || is_text(&parts.headers);
    let text = std::str::from_utf8(body).ok().filter(|_| is_text);
    let mut event = AlbTargetGroupRequest::default();
    event.http_method = parts.method;
    event.path = Some(parts.uri.path().to_owned());
    event.multi_value_query_string_parameters = query.into();
    event.multi_value_headers = with_token(parts.headers);
    event.is_base64_encoded = text.is_none();
    event.body = Some(text.map_or_else(|| BASE64_STANDARD.encode(body), str::to_owned));
    event
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    !headers.contains_key(CONTENT_ENCODING) && TEXTS.iter().any(|text| kind.starts_with(text))
}

/// Replaces the verification: the header that names the user becomes a token with that subject, in place of the client's own. Its signature is
/// none, because nobody would check it again. Two headers are two tokens.
fn with_token(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(AUTHORIZATION);
    let users: Vec<HeaderValue> = headers.get_all(USER_HEADER).iter().cloned().collect();
    headers.remove(USER_HEADER);
    for token in users.iter().filter_map(|user| HeaderValue::try_from(token(user)).ok()) {
        headers.append(AUTHORIZATION, token);
    }
    headers
}

fn token(user: &HeaderValue) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let claims = json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": (now + TOKEN_VALID_FOR).as_secs(),
        "sub": String::from_utf8_lossy(user.as_bytes()),
    });
    let [head, claims, signature] =
        [json!({"alg": "RS256", "typ": "JWT"}).to_string(), claims.to_string(), "nobody signed this".to_owned()]
            .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    format!("Bearer {head}.{claims}.{signature}")
}
