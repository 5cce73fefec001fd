//! From an HTTP request to API Gateway's event, and on to a handler's request.
//!
//! No input may make `lambda_http` panic. It unwraps the parse of an address that is built from the path and from the
//! `Host` and `X-Forwarded-Proto` headers. As on AWS, the gateway sets these headers itself and refuses long paths.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerIamDescription, ApiGatewayRequestAuthorizerJwtDescription,
    ApiGatewayV2httpRequest, ApiGatewayV2httpRequestContext,
};
use lambda_http::request::LambdaRequest;
use lambda_http::{Context, Request, RequestExt};
use percent_encoding::percent_decode_str;

use super::routes::{self, Match};

/// The header that replaces a signed-in user's token.
pub const USER_HEADER: HeaderName = HeaderName::from_static("x-user-id");

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// API Gateway accepts 10,240 bytes of request line and headers together.
pub const TARGET_BYTES_MAX: usize = 10_240;
/// `http::Uri` accepts 65,534 bytes; this leaves room for the scheme and the host.
const URI_BYTES_MAX: usize = 65_000;
/// The most bytes that one byte of the decoded path can take when it is encoded again.
const ENCODED_BYTES_PER_BYTE: usize = 3;

/// The functions' `Timeout` in template.yaml.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(15);

/// The principal that signs the operator's requests.
const OPERATOR: &str = "arn:aws:iam::000000000000:user/operator";

/// The request's path and query are too long for a handler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UriTooLong;

/// The decoded path of a request, which API Gateway routes on and shows as `rawPath`. So an encoded slash splits the
/// path.
pub fn raw_path(parts: &Parts) -> Result<String, UriTooLong> {
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    // `OPTIONS *` and CONNECT have no path of their own.
    let slash = if decoded.starts_with('/') { "" } else { "/" };
    let too_long = path.len() + query.len() > TARGET_BYTES_MAX
        || decoded.len() * ENCODED_BYTES_PER_BYTE + query.len() > URI_BYTES_MAX;
    if too_long { Err(UriTooLong) } else { Ok(format!("{slash}{decoded}")) }
}

/// The gateway's own data about a request.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The gateway's own address.
    pub server: SocketAddr,
    /// The path that stands before that of the route.
    pub base_path: &'a str,
    /// Unique to the request.
    pub request_id: &'a str,
    /// Whether [`USER_HEADER`] stands for a token.
    pub believes_users: bool,
}

/// Makes the event of a request with this decoded path and route. The event shows the path with the base path, as at a custom
/// domain of API Gateway.
#[must_use]
pub fn event(
    parts: Parts,
    raw_path: &str,
    matched: Match,
    body: &[u8],
    origin: Origin,
    authorizer: Option<ApiGatewayRequestAuthorizer>,
) -> ApiGatewayV2httpRequest {
    let raw_path = format!("{}{raw_path}", origin.base_path);
    let headers = headers(&parts.headers, origin);

    let mut context = ApiGatewayV2httpRequestContext::default();
    context.authorizer = authorizer;
    context.http.method = parts.method;
    context.http.path = Some(raw_path.clone());
    context.request_id = Some(origin.request_id.to_owned());
    context.route_key = Some(matched.key.clone());

    let mut event = ApiGatewayV2httpRequest::default();
    event.version = Some("2.0".to_owned());
    event.route_key = Some(matched.key);
    event.raw_path = Some(raw_path);
    event.raw_query_string = Some(parts.uri.query().unwrap_or_default().to_owned());
    event.headers = headers;
    event.request_context = context;
    match std::str::from_utf8(body) {
        Ok("") => {}
        Ok(text) => event.body = Some(text.to_owned()),
        Err(_) => {
            event.body = Some(BASE64_STANDARD.encode(body));
            event.is_base64_encoded = true;
        }
    }
    event
}

/// The handler's request for an event, by the same conversion that runs on AWS, with what Lambda says of the call.
#[must_use]
pub fn request(event: ApiGatewayV2httpRequest, request_id: &str) -> Request {
    let mut context = Context::default();
    request_id.clone_into(&mut context.request_id);
    let end = SystemTime::now() + FUNCTION_TIMEOUT;
    let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    context.deadline = u64::try_from(end.as_millis()).unwrap_or(u64::MAX);
    Request::from(LambdaRequest::ApiGatewayV2(event)).with_lambda_context(context)
}

/// Replaces the authorizers, and believes everybody. The operator's routes count as signed with IAM. On other routes the header stands for a token with this
/// `sub`, which the functions judge. Two headers are like two tokens: nobody's.
#[must_use]
pub fn believed(raw_path: &str, headers: &HeaderMap) -> Option<ApiGatewayRequestAuthorizer> {
    if routes::is_operators(raw_path) {
        return Some(of_operator(Some(OPERATOR)));
    }
    let mut values = headers.get_all(USER_HEADER).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    Some(of_user(String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

/// What the authorizer says of an operator, who signed the request. Without a signer they have no right to it.
#[must_use]
pub fn of_operator(signer: Option<&str>) -> ApiGatewayRequestAuthorizer {
    let mut authorizer = ApiGatewayRequestAuthorizer::default();
    if let Some(signer) = signer {
        let mut iam = ApiGatewayRequestAuthorizerIamDescription::default();
        iam.user_arn = Some(signer.to_owned());
        authorizer.iam = Some(iam);
    }
    authorizer
}

/// What the authorizer says of a user, by the subject of their token.
#[must_use]
pub fn of_user(subject: String) -> ApiGatewayRequestAuthorizer {
    let mut authorizer = ApiGatewayRequestAuthorizer::default();
    let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
    jwt.claims.insert("sub".to_owned(), subject);
    authorizer.jwt = Some(jwt);
    authorizer
}

/// The user for whom a request is, or who makes it.
pub fn user<'a>(parts: &'a Parts, matched: &'a Match) -> Option<&'a str> {
    let caller = || parts.headers.get(USER_HEADER).and_then(|user| user.to_str().ok());
    Some(&*matched.user_id).filter(|id| !id.is_empty()).or_else(caller)
}

/// The headers as API Gateway passes them on: one value per name, several values joined with commas. The functions read no cookies.
/// The gateway's own headers replace the client's where they state the server or the client. Two users are two tokens.
fn headers(given: &HeaderMap, origin: Origin) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(given.keys_len());
    for name in given.keys() {
        let values: Vec<&[u8]> = given.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        if name != USER_HEADER
            && let Ok(value) = HeaderValue::from_bytes(&values.join(&b','))
        {
            headers.insert(name, value);
        }
    }
    let users: Vec<&[u8]> = given.get_all(USER_HEADER).iter().map(HeaderValue::as_bytes).collect();
    if origin.believes_users
        && users.len() > 1
        && let Ok(tokens) = HeaderValue::from_bytes(&users.join(&b','))
    {
        headers.insert(AUTHORIZATION, tokens);
    }
    if let Ok(host) = HeaderValue::try_from(origin.server.to_string()) {
        headers.insert(HOST, host);
    }
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    headers
}
