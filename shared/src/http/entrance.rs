use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lambda_http::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, HeaderName, ORIGIN, VARY,
};
use lambda_http::http::{HeaderMap, HeaderValue, Method, Response};
use lambda_http::request::RequestContext;
use lambda_http::{Body, Request, RequestExt};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::edge::Edge;

/// What a page of another origin may send and read. template.yaml says the same to API Gateway.
const TO_READ: [(HeaderName, &str); 1] =
    [(ACCESS_CONTROL_EXPOSE_HEADERS, "Date, ETag, Idempotent-Replayed, Retry-After, X-Request-Id")];
const TO_SEND: [(HeaderName, &str); 3] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, Grab-Ticket, Idempotency-Key, If-None-Match"),
    (ACCESS_CONTROL_MAX_AGE, "600"),
];

/// The subject of a token that the load balancer has verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Subject(pub String);

/// What calls a function for users: API Gateway, or an Application Load Balancer too.
#[derive(Clone, Debug)]
pub struct Entrance {
    edge: Edge,
    alb: Option<Alb>,
}

/// Which tokens count behind an Application Load Balancer, and which pages may call.
#[derive(Clone, Debug)]
pub struct Alb {
    /// The tokens' issuer.
    pub issuer: String,
    /// The accepted audiences.
    pub audiences: Vec<String>,
    /// The origins whose pages may call.
    pub origins: Vec<String>,
}

impl Entrance {
    /// An entrance whose requests all go through `edge`.
    #[must_use]
    pub const fn new(edge: Edge, alb: Option<Alb>) -> Self {
        Self { edge, alb }
    }

    /// Answers a request. A handler then sees the same request from either. A function that has no load balancer believes no event
    /// of one: such a request has no caller.
    pub async fn serve<F>(&self, request: Request, handle: impl FnOnce(Request) -> F) -> Response<Body>
    where
        F: Future<Output = Response<Body>>,
    {
        let request = self.edge.receive(request);
        let is_of_alb = matches!(request.request_context_ref(), Some(RequestContext::Alb(_)));
        let Some(alb) = self.alb.as_ref().filter(|_| is_of_alb) else {
            return handle(request).await;
        };
        let (method, origin) = (request.method().clone(), request.headers().get(ORIGIN).cloned());
        let mut response = handle(alb.with_caller(request, SystemTime::now())).await;
        alb.share(&method, origin, response.headers_mut());
        response
    }
}

/// The claims of a token that count.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    exp: f64,
    sub: Option<String>,
    aud: Option<Audience>,
    client_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Alb {
    /// The request with its caller, and with its path decoded as API Gateway does.
    fn with_caller(&self, request: Request, now: SystemTime) -> Request {
        let subject = self.subject(&request, now);
        let path = percent_decode_str(request.raw_http_path()).decode_utf8_lossy().into_owned();
        let mut request = request.with_raw_http_path(path);
        if let Some(subject) = subject {
            request.extensions_mut().insert(Subject(subject));
        }
        request
    }

    /// The subject of the request's token. The load balancer has verified the signature, the issuer and the time. It passes the token on
    /// as it is. The audience is checked here, by API Gateway's rule: `aud`, or `client_id` where a token has none.
    fn subject(&self, request: &Request, now: SystemTime) -> Option<String> {
        // A browser asks without a token, so here none is verified.
        if *request.method() == Method::OPTIONS {
            return None;
        }
        let mut values = request.headers().get_all(AUTHORIZATION).iter();
        // Of two tokens, nobody knows which one was verified.
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        // It has no other letters, so no two readers find another payload in it.
        if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
            return None;
        }
        let [_, payload, _] = token.split('.').collect::<Vec<_>>()[..] else { return None };
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let audiences = match claims.aud {
            Some(Audience::One(one)) => vec![one],
            Some(Audience::Several(several)) => several,
            None => claims.client_id.into_iter().collect(),
        };
        let is_for_us = audiences.iter().any(|audience| self.audiences.contains(audience));
        let counts =
            scheme.eq_ignore_ascii_case("bearer") && claims.iss == self.issuer && now < claims.exp && is_for_us;
        counts.then(|| claims.sub.unwrap_or_default())
    }

    /// Lets pages of the allowed origins read an answer, as API Gateway does by itself.
    fn share(&self, method: &Method, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        let Some(origin) = origin.filter(|_| !self.origins.is_empty()) else { return };
        headers.append(VARY, HeaderValue::from_name(ORIGIN));
        if !self.origins.iter().any(|allowed| origin == allowed) {
            return;
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let more: &[(HeaderName, &str)] = if *method == Method::OPTIONS { &TO_SEND } else { &TO_READ };
        headers.extend(more.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lambda_http::aws_lambda_events::alb::AlbTargetGroupRequest;
    use lambda_http::aws_lambda_events::apigw::ApiGatewayV2httpRequest;
    use lambda_http::request::LambdaRequest;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Timestamp, UserId, UserRates};
    use crate::http::request::user_of_token;
    use crate::http::{Answer, Code, respond};

    const NOW: u64 = 1_795_181_400;

    fn entrance(has_balancer: bool) -> Entrance {
        let alb = Alb {
            issuer: "https://issuer.example/".to_owned(),
            audiences: vec!["app".to_owned(), "web".to_owned()],
            origins: vec!["https://a.example".to_owned(), "https://b.example".to_owned()],
        };
        let edge = Edge::new(
            "/hongbao",
            UserRates { requests_a_second: 0, grabs_a_minute: 0 },
            None,
            Arc::new(|| Timestamp::from_ms(0)),
        );
        Entrance::new(edge, has_balancer.then_some(alb))
    }

    fn encoded(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    fn bearer(claims: &Value) -> String {
        format!("Bearer {}.{}.{}", encoded("{}"), encoded(&claims.to_string()), encoded("signature"))
    }

    fn good() -> Value {
        json!({"iss": "https://issuer.example/", "exp": NOW + 60, "sub": "alice", "aud": "app"})
    }

    fn event(method: &Method, path: &str, headers: &[(HeaderName, &str)]) -> Request {
        let mut event = AlbTargetGroupRequest::default();
        event.http_method = method.clone();
        event.path = Some(path.to_owned());
        for (name, value) in headers {
            event.multi_value_headers.append(name.clone(), value.parse().unwrap());
        }
        Request::from(LambdaRequest::Alb(event))
    }

    fn caller(request: Request) -> Result<UserId, Code> {
        let now = UNIX_EPOCH + Duration::from_secs(NOW);
        let request = entrance(true).alb.unwrap().with_caller(request, now);
        user_of_token(&request).map_err(|problem| problem.code)
    }

    fn caller_of(claims: &Value) -> Result<UserId, Code> {
        caller(event(&Method::GET, "/me/wallet", &[(AUTHORIZATION, &bearer(claims))]))
    }

    #[test]
    fn the_subject_of_a_verified_token_is_the_caller() {
        let alice = Ok("alice".parse().unwrap());
        assert_eq!(caller_of(&good()), alice);
        for (claim, value) in [("aud", json!(["other", "web"])), ("exp", json!(1_795_181_400.5)), ("more", json!([1]))]
        {
            let mut claims = good();
            claims[claim] = value;
            assert_eq!(caller_of(&claims), alice, "{claims}");
        }
        // An access token of Cognito has no audience, but the client's id.
        let mut access = good();
        access.as_object_mut().unwrap().remove("aud");
        access["client_id"] = json!("web");
        assert_eq!(caller_of(&access), alice);
        let lower = bearer(&good()).replace("Bearer", "bearer");
        assert_eq!(caller(event(&Method::GET, "/me/wallet", &[(AUTHORIZATION, &lower)])), alice);
    }

    #[test]
    fn a_token_for_others_has_no_caller() {
        for (claim, value) in [
            ("iss", json!("https://issuer.example")),
            ("iss", Value::Null),
            ("exp", json!(NOW)),
            ("exp", json!("2100000000")),
            ("exp", Value::Null),
            ("aud", json!("other")),
            ("aud", json!("app,web")),
            ("aud", json!([])),
            ("aud", json!(["ap"])),
            ("aud", json!(7)),
        ] {
            let mut claims = good();
            claims[claim] = value;
            // It counts only where there is no audience.
            claims["client_id"] = json!("app");
            assert_eq!(caller_of(&claims), Err(Code::Unauthenticated), "{claims}");
        }
        let mut nothing = good();
        nothing.as_object_mut().unwrap().remove("aud");
        assert_eq!(caller_of(&nothing), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_subject_that_is_no_user_id_is_refused_as_that() {
        for subject in [Value::Null, json!(""), json!("a/b"), json!("a b")] {
            let mut claims = good();
            claims["sub"] = subject;
            assert_eq!(caller_of(&claims), Err(Code::UserIdUnsupported), "{claims}");
        }
    }

    #[test]
    fn what_is_no_single_token_has_no_caller() {
        let good = bearer(&good());
        let token = good.strip_prefix("Bearer ").unwrap();
        let bad = [
            token.to_owned(),
            format!("Basic {token}"),
            format!("Bearer  {token}"),
            format!("Bearer {token}.x"),
            format!("Bearer {}", token.rsplit_once('.').unwrap().0),
            format!("{good}, {good}"),
            "Bearer a.b.c".to_owned(),
            "Bearer ..".to_owned(),
            "Bearer".to_owned(),
            String::new(),
        ];
        for value in bad {
            let request = event(&Method::GET, "/me/wallet", &[(AUTHORIZATION, &value)]);
            assert_eq!(caller(request), Err(Code::Unauthenticated), "{value}");
        }
        let twice = [(AUTHORIZATION, &*good), (AUTHORIZATION, &*good)];
        assert_eq!(caller(event(&Method::GET, "/me/wallet", &twice)), Err(Code::Unauthenticated));
        assert_eq!(caller(event(&Method::GET, "/me/wallet", &[])), Err(Code::Unauthenticated));
        // The load balancer verifies none for this method.
        let options = event(&Method::OPTIONS, "/me/wallet", &[(AUTHORIZATION, &good)]);
        assert_eq!(caller(options), Err(Code::Unauthenticated));
    }

    /// The caller and the path that a handler sees.
    async fn seen(has_balancer: bool, request: Request) -> (Option<UserId>, String) {
        let (sender, seen) = std::sync::mpsc::channel();
        let handle = async |request: Request| {
            sender.send((user_of_token(&request).ok(), request.raw_http_path().to_owned())).unwrap();
            Response::new(Body::Empty)
        };
        entrance(has_balancer).serve(request, handle).await;
        seen.recv().unwrap()
    }

    #[tokio::test]
    async fn only_a_function_that_has_a_load_balancer_believes_its_events() {
        let mut claims = good();
        claims["exp"] = json!(4_000_000_000_u64);
        let token = bearer(&claims);
        let request = || event(&Method::GET, "/packets/%E7%BA%A2%2Fclaims", &[(AUTHORIZATION, &token)]);
        let alice = "alice".parse().ok();
        assert_eq!(seen(true, request()).await, (alice, "/packets/红/claims".to_owned()));
        assert_eq!(seen(false, request()).await.0, None);
        // A client's token on a request of API Gateway is nothing without the authorizer's word.
        let mut of_gateway = Request::from(LambdaRequest::ApiGatewayV2(ApiGatewayV2httpRequest::default()));
        of_gateway.headers_mut().insert(AUTHORIZATION, token.parse().unwrap());
        let of_gateway = of_gateway.with_raw_http_path("/hongbao/packets/%2F");
        assert_eq!(seen(true, of_gateway).await, (None, "/packets/%2F".to_owned()));
    }

    async fn shared(method: Method, origin: Option<&str>) -> HeaderMap {
        let headers: Vec<_> = origin.into_iter().map(|origin| (ORIGIN, origin)).collect();
        let handle = async |request: Request| respond(&request, Answer::ok(&1), Duration::ZERO);
        let answer = entrance(true).serve(event(&method, "/me/wallet", &headers), handle).await;
        answer.into_parts().0.headers
    }

    #[tokio::test]
    async fn pages_of_the_allowed_origins_read_answers() {
        for origin in ["https://a.example", "https://b.example"] {
            let answer = shared(Method::GET, Some(origin)).await;
            assert_eq!(answer[ACCESS_CONTROL_ALLOW_ORIGIN], origin);
            assert_eq!(answer[VARY], ORIGIN.as_str());
            assert_eq!(answer[ACCESS_CONTROL_EXPOSE_HEADERS], TO_READ[0].1);
            assert!(!answer.contains_key(ACCESS_CONTROL_ALLOW_METHODS));
            let asked = shared(Method::OPTIONS, Some(origin)).await;
            assert_eq!(asked[ACCESS_CONTROL_ALLOW_ORIGIN], origin);
            assert!(TO_SEND.iter().all(|(name, value)| asked[name] == value));
        }
        for origin in [None, Some("https://c.example"), Some("https://a.example.c"), Some("null"), Some("*")] {
            for method in [Method::GET, Method::OPTIONS] {
                let answer = shared(method, origin).await;
                assert!(answer.keys().all(|name| !name.as_str().starts_with("access-control")), "{origin:?}");
                assert_eq!(answer.get(VARY).is_some(), origin.is_some());
            }
        }
    }

    #[test]
    fn api_gateway_says_the_same_to_pages_of_other_origins() {
        let template = include_str!("../../../template.yaml");
        let (_, cors) = template.split_once("CorsConfiguration: !If").unwrap();
        for (key, (_, value)) in
            ["ExposeHeaders", "AllowMethods", "AllowHeaders"].iter().zip(TO_READ.iter().chain(&TO_SEND))
        {
            assert!(cors.contains(&format!("{key}: [{value}]\n")), "{key}");
        }
        assert!(cors.contains(&format!("MaxAge: {}\n", TO_SEND[2].1)));
    }
}
