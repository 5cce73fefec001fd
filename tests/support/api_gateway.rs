//! A stand-in for API Gateway that takes nobody's word: a request needs a signature that fits it, and its principal a policy of the template that
//! allows it. Then the real handlers answer the event that AWS would send.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use jiff::Timestamp;
use jiff::fmt::strtime;
use local::gateway::{Invoke, event, routes};
use local::stack::{self, Stack, Stores};
use local::{Local, Options};
use shared::http::test_policies::{allows, policy};

use crate::lambda_api::arn;
use crate::relay::stand_in;

/// The region of all signatures.
pub const REGION: &str = "eu-west-1";
/// Handlers only repeat it.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 443);
/// How old a signature may be.
const VALID: Duration = Duration::from_mins(5);

/// Somebody with an access key, and the policies that they have.
#[derive(Clone, Copy, Debug)]
pub struct Principal {
    /// The id of the access key.
    pub key: &'static str,
    /// The secret of the access key.
    pub secret: &'static str,
    /// The rights, by the names of the policies.
    pub rights: &'static [&'static str],
}

/// Somebody who may only read.
pub const READER: Principal = Principal { key: "READER", secret: "a secret", rights: &["read"] };
/// Somebody who may do everything.
pub const BOSS: Principal =
    Principal { key: "BOSS", secret: "another secret", rights: &["read", "money", "webhooks", "payout", "users"] };

/// The gateway.
pub struct ApiGateway {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    principals: Vec<Principal>,
    stack: Stack,
    seen: Mutex<Vec<Seen>>,
}

/// A request that came, let in or not.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method and path.
    pub asked: String,
    /// Its headers.
    pub headers: HeaderMap,
}

impl ApiGateway {
    /// A gateway for these principals, over the stores of a local stack.
    pub async fn start(local: &Local, principals: Vec<Principal>) -> Self {
        let (redis_url, dynamodb_url) = (local.redis_url().to_owned(), local.dynamodb_url().to_owned());
        let stores = Stores { redis_url, dynamodb_url, ledger_is_embedded: true };
        let options = Options::ephemeral();
        let config = stack::config(&options, &stores).unwrap();
        let stack = Stack::connect(config, options, &stores, None, None, None).await.unwrap();
        let shared = Arc::new(Shared { principals, stack, seen: Mutex::default() });
        let served = Arc::clone(&shared);
        let address = stand_in(move |request| {
            let shared = Arc::clone(&served);
            async move { Box::pin(shared.answer(request)).await }
        });
        Self { address: address.await, shared }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests since this was asked last.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }
}

impl Shared {
    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let seen = Seen { asked: format!("{} {}", parts.method, parts.uri), headers: parts.headers.clone() };
        self.seen.lock().unwrap().push(seen);
        let path = event::raw_path(&parts).unwrap();
        let principal = self.principals.iter().find(|principal| is_signed_by(principal, &parts, &body).is_some());
        let allowed = |principal: &&Principal| {
            let policies = principal.rights.iter().copied().map(policy);
            policies.into_iter().any(|policy| allows(policy, parts.method.as_str(), &path))
        };
        let Some(principal) = principal.filter(allowed) else {
            let forbidden = Response::builder().status(StatusCode::FORBIDDEN).header("apigw-requestid", "r");
            return forbidden.body(Full::from(r#"{"message":"Forbidden"}"#)).unwrap();
        };
        let matched = routes::find(parts.method.as_str(), &path);
        let function = matched.function;
        let origin = event::Origin { server: SERVER.into(), base_path: "", request_id: "r", believes_users: false };
        let signed = event::of_operator(Some(&arn(principal.key)));
        let event = event::event(parts, &path, matched, &body, origin, Some(signed));
        let (parts, body) = self.stack.call(function, event::request(event, "r")).await.into_parts();
        Response::from_parts(parts, Full::from(body.to_vec()))
    }
}

/// Whether a principal's secret makes the signature of a request, which is new.
fn is_signed_by(principal: &Principal, parts: &Parts, body: &[u8]) -> Option<()> {
    let text = |name: &str| parts.headers.get(name)?.to_str().ok();
    let given = text(AUTHORIZATION.as_str())?.strip_prefix("AWS4-HMAC-SHA256 ")?;
    let field = |name: &str| given.split(", ").find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let at = strtime::parse("%Y%m%dT%H%M%S%z", text("x-amz-date")?.replace('Z', "+0000")).ok()?.to_timestamp().ok()?;
    let day = at.strftime("%Y%m%d");
    let scope = format!("{}/{day}/{REGION}/execute-api/aws4_request", principal.key);
    let is_new = Timestamp::now().duration_since(at).unsigned_abs() <= VALID;
    if field("Credential")? != scope || !is_new {
        return None;
    }
    let signed: Vec<&str> = field("SignedHeaders")?.split(';').collect();
    assert!(signed.contains(&"host") && signed.contains(&"x-amz-date"), "{signed:?}");
    let is_made_again = |name: &&str| ["host", "x-amz-date", "x-amz-security-token"].contains(name);
    let others: Vec<_> =
        signed.iter().filter(|name| !is_made_again(name)).map(|name| text(name).map(|value| (*name, value))).collect();
    let others: Option<Vec<(&str, &str)>> = others.into_iter().collect();
    let token = text("x-amz-security-token").map(str::to_owned);
    let identity = Credentials::new(principal.key, principal.secret, token, None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(REGION)
        .name("execute-api")
        .time(SystemTime::from(at))
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let url = format!("http://{}{}", text("host")?, parts.uri);
    let request =
        SignableRequest::new(parts.method.as_str(), url, others?.into_iter(), SignableBody::Bytes(body)).ok()?;
    let signature = sign(request, &params).ok()?.signature().to_owned();
    (field("Signature")? == signature).then_some(())
}
