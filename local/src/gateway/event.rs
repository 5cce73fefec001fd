//! From an HTTP request to API Gateway's event, and on to a handler's request.
//!
//! No input may make `lambda_http` panic. It unwraps the parse of an address that is built from the path and from the
//! `Host` and `X-Forwarded-Proto` headers. As on AWS, the gateway sets these headers itself and refuses long paths.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{COOKIE, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lambda_http::aws_lambda_events::apigw::{
    ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerIamDescription, ApiGatewayRequestAuthorizerJwtDescription,
    ApiGatewayV2httpRequest, ApiGatewayV2httpRequestContext, ApiGatewayV2httpRequestContextHttpDescription,
};
use lambda_http::request::LambdaRequest;
use lambda_http::{Context, Request, RequestExt};
use percent_encoding::percent_decode_str;

use super::routes::{self, Match};

/// The header that replaces a signed-in user's token.
pub const USER_HEADER: HeaderName = HeaderName::from_static("x-user-id");

/// API Gateway accepts 10,240 bytes of request line and headers together.
const TARGET_BYTES_MAX: usize = 10_240;
/// `http::Uri` accepts 65,534 bytes; this leaves room for the scheme and the host.
const URI_BYTES_MAX: usize = 65_000;
/// The most bytes that one byte of the decoded path can take when it is encoded again.
const ENCODED_BYTES_PER_BYTE: usize = 3;

/// The functions' `Timeout` in template.yaml.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(15);

const STAGE: &str = "$default";
const ACCOUNT: &str = "000000000000";
const API: &str = "local";

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
    /// The client's address.
    pub client: SocketAddr,
    /// The gateway's own address.
    pub server: SocketAddr,
    /// The path that stands before that of the route.
    pub base_path: &'a str,
    /// Unique to the request.
    pub request_id: &'a str,
    /// The time of arrival.
    pub at: Timestamp,
}

/// Makes the event of a request with this decoded path and route. The event shows the path with the base path, as at a custom
/// domain of API Gateway.
#[must_use]
pub fn event(parts: Parts, raw_path: &str, matched: Match, body: &[u8], origin: Origin) -> ApiGatewayV2httpRequest {
    let authorizer = authorizer(raw_path, &parts.headers);
    let raw_path = format!("{}{raw_path}", origin.base_path);
    let (headers, cookies) = headers(&parts.headers, origin);

    let mut http = ApiGatewayV2httpRequestContextHttpDescription::default();
    http.method = parts.method;
    http.path = Some(raw_path.clone());
    http.protocol = Some(format!("{:?}", parts.version));
    http.source_ip = Some(origin.client.ip().to_string());
    http.user_agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).map(str::to_owned);

    let mut context = ApiGatewayV2httpRequestContext::default();
    context.account_id = Some(ACCOUNT.to_owned());
    context.apiid = Some(API.to_owned());
    context.authorizer = authorizer;
    context.domain_name = Some(origin.server.to_string());
    context.domain_prefix = Some(API.to_owned());
    context.http = http;
    context.request_id = Some(origin.request_id.to_owned());
    context.route_key = Some(matched.key.clone());
    context.stage = Some(STAGE.to_owned());
    context.time = Some(origin.at.to_zoned(TimeZone::UTC).strftime("%d/%b/%Y:%H:%M:%S %z").to_string());
    context.time_epoch = origin.at.as_millisecond();

    let mut event = ApiGatewayV2httpRequest::default();
    event.version = Some("2.0".to_owned());
    event.route_key = Some(matched.key);
    event.raw_path = Some(raw_path);
    event.raw_query_string = Some(parts.uri.query().unwrap_or_default().to_owned());
    event.cookies = cookies;
    event.headers = headers;
    event.path_parameters = matched.parameters;
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

/// The handler's request for an event, by the same conversion that runs on AWS.
#[must_use]
pub fn request(event: ApiGatewayV2httpRequest, request_id: &str) -> Request {
    let mut context = Context::default();
    request_id.clone_into(&mut context.request_id);
    let end = SystemTime::now() + FUNCTION_TIMEOUT;
    let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    context.deadline = u64::try_from(end.as_millis()).unwrap_or(u64::MAX);
    Request::from(LambdaRequest::ApiGatewayV2(event)).with_lambda_context(context)
}

/// Replaces the authorizers. The operator's routes count as signed with IAM. On other routes the header stands for a token with this
/// `sub`, which the functions judge. Two headers are like two tokens: nobody's.
fn authorizer(raw_path: &str, headers: &HeaderMap) -> Option<ApiGatewayRequestAuthorizer> {
    let mut authorizer = ApiGatewayRequestAuthorizer::default();
    if routes::is_operators(raw_path) {
        let mut iam = ApiGatewayRequestAuthorizerIamDescription::default();
        iam.access_key = Some("AKIALOCAL".to_owned());
        iam.account_id = Some(ACCOUNT.to_owned());
        iam.caller_id = Some("AIDALOCAL".to_owned());
        iam.user_arn = Some(format!("arn:aws:iam::{ACCOUNT}:user/operator"));
        iam.user_id = Some("AIDALOCAL".to_owned());
        authorizer.iam = Some(iam);
    } else {
        let mut values = headers.get_all(USER_HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
        jwt.claims.insert("sub".to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned());
        authorizer.jwt = Some(jwt);
    }
    Some(authorizer)
}

/// The headers as API Gateway passes them on: one value per name, several values joined with commas, cookies separate.
/// The gateway's own headers replace the client's where they state the server or the client.
fn headers(given: &HeaderMap, origin: Origin) -> (HeaderMap, Option<Vec<String>>) {
    let mut headers = HeaderMap::with_capacity(given.keys_len());
    let mut cookies = None;
    for name in given.keys() {
        let values: Vec<&[u8]> = given.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        if name == COOKIE {
            let text = values.join(&b';');
            let text = String::from_utf8_lossy(&text);
            cookies = Some(text.split(';').map(|cookie| cookie.trim().to_owned()).collect());
        } else if name != USER_HEADER
            && let Ok(value) = HeaderValue::from_bytes(&values.join(&b','))
        {
            headers.insert(name, value);
        }
    }
    for (name, value) in [
        (HOST, origin.server.to_string()),
        (HeaderName::from_static("x-forwarded-for"), origin.client.ip().to_string()),
        (HeaderName::from_static("x-forwarded-port"), origin.server.port().to_string()),
        (HeaderName::from_static("x-forwarded-proto"), "http".to_owned()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    (headers, cookies)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use lambda_http::Body;
    use lambda_http::request::RequestContext;
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    use super::*;

    fn convert(request: http::Request<&[u8]>) -> Result<Request, UriTooLong> {
        let (parts, body) = request.into_parts();
        let raw_path = raw_path(&parts)?;
        let matched = routes::find(parts.method.as_str(), &raw_path);
        let origin = Origin {
            client: ([127, 0, 0, 1], 40_000).into(),
            server: ([127, 0, 0, 1], 3000).into(),
            base_path: "",
            request_id: "r1",
            at: Timestamp::from_millisecond(1_763_600_000_000).unwrap(),
        };
        Ok(super::request(event(parts, &raw_path, matched, body, origin), "r1"))
    }

    fn get(target: &str) -> http::request::Builder {
        http::Request::builder().uri(target)
    }

    fn context(request: &Request) -> ApiGatewayV2httpRequestContext {
        let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { panic!("no context") };
        context.clone()
    }

    fn sub(request: &Request) -> Option<String> {
        context(request).authorizer?.jwt?.claims.get("sub").cloned()
    }

    #[test]
    fn a_request_is_passed_on_as_api_gateway_does() {
        let request = http::Request::builder()
            .method(Method::POST)
            .uri("/packets/01J/grab?a=1&a=2")
            .header("x-user-id", "alice")
            .header("idempotency-key", "k1")
            .header("accept", "a")
            .header("accept", "b")
            .header("cookie", "a=1; b=2")
            .header("cookie", "c=3")
            .body(&b"{}"[..])
            .unwrap();
        let request = convert(request).unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "http://127.0.0.1:3000/packets/01J/grab?a=1&a=2");
        assert_eq!(request.raw_http_path(), "/packets/01J/grab");
        assert_eq!(request.query_string_parameters().all("a").unwrap(), ["1", "2"]);
        assert_eq!(request.path_parameters().first("packet_id"), Some("01J"));
        assert_eq!(request.headers()["idempotency-key"], "k1");
        assert_eq!(request.headers()["accept"], "a,b");
        assert_eq!(request.headers()["cookie"], "a=1; b=2; c=3");
        assert_eq!(request.headers().get(USER_HEADER), None);
        assert!(matches!(request.body(), Body::Text(text) if text == "{}"));
        assert_eq!(request.lambda_context().request_id, "r1");
        assert!(request.lambda_context().deadline() > SystemTime::now());
        assert_eq!(sub(&request).as_deref(), Some("alice"));
        let context = context(&request);
        assert_eq!(context.route_key.as_deref(), Some("POST /packets/{packet_id}/grab"));
        assert_eq!(context.request_id.as_deref(), Some("r1"));
        assert_eq!(context.time.as_deref(), Some("20/Nov/2025:00:53:20 +0000"));
        assert_eq!(context.http.source_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(context.http.protocol.as_deref(), Some("HTTP/1.1"));
    }

    #[test]
    fn the_path_is_decoded_and_never_panics() {
        for (target, raw_path, key) in [
            ("/", "/", "$default"),
            ("*", "/*", "$default"),
            ("//", "//", "$default"),
            ("//evil.example/packets", "//evil.example/packets", "$default"),
            ("http://evil.example:99/me/wallet", "/me/wallet", "GET /me/wallet"),
            ("http://evil.example", "/", "$default"),
            ("evil.example:443", "/", "$default"),
            ("/packets/a%2Fclaims", "/packets/a/claims", "GET /packets/{packet_id}/claims"),
            ("/packets/%0a%0D%09%00", "/packets/\n\r\t\0", "GET /packets/{packet_id}"),
            ("/packets/%ff%fe", "/packets/\u{fffd}\u{fffd}", "GET /packets/{packet_id}"),
            ("/packets/%E7%BA%A2", "/packets/红", "GET /packets/{packet_id}"),
            ("/packets/红", "/packets/红", "GET /packets/{packet_id}"),
            ("/packets/a%3Fb%23c%25d", "/packets/a?b#c%d", "GET /packets/{packet_id}"),
            ("/packets/%", "/packets/%", "GET /packets/{packet_id}"),
            ("/packets/%zz%4", "/packets/%zz%4", "GET /packets/{packet_id}"),
            ("/packets/..", "/packets/..", "GET /packets/{packet_id}"),
            ("/packets/../me/wallet", "/packets/../me/wallet", "$default"),
            ("/packets/%5c%22%7B%7D%7C%5e%60%3C%3E%20+", "/packets/\\\"{}|^`<> +", "GET /packets/{packet_id}"),
            ("/packets/@:80", "/packets/@:80", "GET /packets/{packet_id}"),
        ] {
            let request = convert(get(target).body(&b""[..]).unwrap()).unwrap();
            assert_eq!(request.raw_http_path(), raw_path, "{target}");
            assert_eq!(context(&request).route_key.as_deref(), Some(key), "{target}");
            assert_eq!(request.uri().authority().unwrap(), "127.0.0.1:3000", "{target}");
        }
    }

    #[test]
    fn a_client_cannot_set_the_gateways_headers() {
        let forged = [
            ("host", &b"a b"[..]),
            ("host", b"evil.example/"),
            ("host", b"\xff"),
            ("host", b""),
            ("x-forwarded-proto", b"a b"),
            ("x-forwarded-proto", b"javascript"),
            ("x-forwarded-for", b"10.0.0.1"),
        ];
        for (name, value) in forged {
            let request = get("/packets/a").header(name, value).body(&b""[..]).unwrap();
            let request = convert(request).unwrap();
            assert_eq!(request.uri(), "http://127.0.0.1:3000/packets/a", "{name}");
            assert_eq!(request.headers()["x-forwarded-for"], "127.0.0.1");
            assert_eq!(request.headers()["host"], "127.0.0.1:3000");
        }
    }

    #[test]
    fn the_header_is_the_subject_of_a_token() {
        let with = |values: &[&[u8]]| {
            let request = values.iter().fold(get("/me/wallet"), |request, value| request.header(USER_HEADER, *value));
            let request = convert(request.body(&b""[..]).unwrap()).unwrap();
            assert_eq!(request.headers().get(USER_HEADER), None);
            sub(&request)
        };
        assert_eq!(with(&[b"alice"]).as_deref(), Some("alice"));
        assert_eq!(with(&["红".as_bytes()]).as_deref(), Some("红"));
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[b"a/b"]).as_deref(), Some("a/b"));
        assert_eq!(with(&[b"%61lice"]).as_deref(), Some("%61lice"));
        assert_eq!(with(&[b""]).as_deref(), Some(""));
        assert_eq!(with(&[b"\xff"]).as_deref(), Some("\u{fffd}"));
        assert_eq!(with(&[b"alice", b"bob"]), None);
        assert_eq!(with(&[b"alice", b"alice"]), None);
    }

    #[test]
    fn the_operators_routes_are_signed_and_have_no_user() {
        for path in [
            "/wallets/alice",
            "/wallets/alice/nothing",
            "/wallets%2Falice",
            "/users/alice/packets",
            "/operator/packets",
        ] {
            let request = convert(get(path).header(USER_HEADER, "mallory").body(&b""[..]).unwrap()).unwrap();
            let authorizer = context(&request).authorizer.unwrap();
            assert!(authorizer.iam.is_some() && authorizer.jwt.is_none(), "{path}");
        }
    }

    #[test]
    fn a_body_that_is_not_text_arrives_as_bytes() {
        let body = |body| convert(get("/").body(body).unwrap()).unwrap().into_body();
        assert!(matches!(body(b"\xff\x00"), Body::Binary(bytes) if bytes == b"\xff\x00"));
        assert!(matches!(body(b"\0"), Body::Text(text) if text == "\0"));
        assert!(matches!(body(b""), Body::Empty));
    }

    #[test]
    fn a_path_that_is_too_long_for_an_address_is_refused() {
        let target = format!("/{}", "a".repeat(TARGET_BYTES_MAX));
        assert_eq!(convert(get(&target).body(&b""[..]).unwrap()).unwrap_err(), UriTooLong);
        // Each byte becomes a replacement character, which takes nine bytes in an encoded path.
        let target = format!("/{}", "%ff".repeat(TARGET_BYTES_MAX / 3 - 1));
        convert(get(&target).body(&b""[..]).unwrap()).unwrap();
    }

    proptest! {
        #[test]
        fn no_target_makes_it_panic(
            path in prop::collection::vec(any::<u8>(), 0..40),
            query in "[ -~]{0,20}",
            user: Vec<u8>,
            body: Vec<u8>,
        ) {
            let encoded = percent_encode(&path, NON_ALPHANUMERIC);
            let raw: String = path.iter().map(|&byte| char::from(byte)).collect();
            for target in [format!("/{encoded}?{query}"), format!("/{raw}?{query}"), raw] {
                if let Ok(request) = get(&target).header(USER_HEADER, &user[..]).body(&body[..]) {
                    prop_assert!(convert(request).is_ok());
                }
            }
        }
    }
}
