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
use crate::config::{AlbConfig, Config};

/// What a page of another origin may send and read. template.yaml says the same to API Gateway.
const TO_READ: [(HeaderName, &str); 1] =
    [(ACCESS_CONTROL_EXPOSE_HEADERS, "Date, ETag, Idempotent-Replayed, Retry-After, X-Request-Id")];
const TO_SEND: [(HeaderName, &str); 3] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, Idempotency-Key, If-None-Match"),
    (ACCESS_CONTROL_MAX_AGE, "600"),
];

/// The subject of a token that the load balancer has verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Subject(pub String);

/// What calls a function for users: API Gateway, or an Application Load Balancer too.
#[derive(Clone, Debug)]
pub struct Entrance {
    edge: Edge,
    alb: Option<AlbConfig>,
}

impl Entrance {
    /// The entrance of this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let edge = Edge::new(&config.base_path, config.user_rates, config.edge_key.as_deref());
        Self { edge, alb: config.alb.clone() }
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
        let mut response = handle(alb.admit(request, SystemTime::now())).await;
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

impl AlbConfig {
    /// The request with its caller, and with its path decoded as API Gateway does.
    fn admit(&self, request: Request, now: SystemTime) -> Request {
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
        if self.origins.is_empty() {
            return;
        }
        headers.append(VARY, HeaderValue::from_name(ORIGIN));
        let Some(origin) = origin.filter(|origin| self.origins.iter().any(|allowed| origin == allowed)) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let more: &[(HeaderName, &str)] = if *method == Method::OPTIONS { &TO_SEND } else { &TO_READ };
        headers.extend(more.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
    }
}
