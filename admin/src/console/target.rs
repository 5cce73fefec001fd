//! The deployment, asked with the operator's rights.

use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, DATE, ETAG, IF_NONE_MATCH,
    RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lambda_http::Body;
use pages::problem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use shared::domain::Signer;
use shared::http::{Code, find, rights_for};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::deployment::{Failed, aws_config};
use crate::options::Console as Options;
use crate::via::caller_of;

/// What the page may send, and what it may receive. Neither has cookies or what concerns one connection.
const ASKED: [HeaderName; 5] = [
    ACCEPT,
    CONTENT_TYPE,
    IF_NONE_MATCH,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
];
/// See [`ASKED`].
const ANSWERED: [HeaderName; 9] = [
    ALLOW,
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_TYPE,
    DATE,
    ETAG,
    RETRY_AFTER,
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("apigw-requestid"),
];
/// API Gateway waits no longer for a function.
const WITHIN: Duration = Duration::from_secs(30);
/// How long AWS may take to say who the operator is.
const NAMED_WITHIN: Duration = Duration::from_secs(5);
/// The largest answer, in bytes: more than Lambda carries.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long before their end credentials are asked for again.
const RENEWED_BEFORE: Duration = Duration::from_mins(5);

/// What is encoded in a path or query. AWS signs it this way, and two ways to write the same path would have two signatures.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

type AnyError = Box<dyn Error + Send + Sync>;

/// A deployment.
pub struct Target {
    /// Its URL without a slash at the end.
    url: String,
    proof: Proof,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What shows whose request it is.
enum Proof {
    /// A stack of this machine believes everybody.
    Nothing,
    Key(HeaderValue),
    Aws(Box<Signing>),
}

struct Signing {
    /// With the region to sign for.
    aws: SdkConfig,
    region: String,
    provider: SharedCredentialsProvider,
    /// Credentials that end, until shortly before.
    kept: Mutex<Option<Credentials>>,
}

impl Target {
    /// The deployment that the options name.
    pub async fn new(options: &Options) -> Result<Self, Failed> {
        let Options { url, key, region, .. } = options;
        let refused = |why: &str| Failed::Refused(why.to_owned());
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        match url.scheme_str() {
            Some("https") => {}
            Some("http") if is_here => {}
            // Everybody on the way could read the key.
            _ => return Err(refused("--url must begin with https://, except for this machine")),
        }
        if url.query().is_some() {
            return Err(refused("--url has no query"));
        }
        let proof = match (key, region) {
            (Some(key), _) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
                    .map_err(|_| refused("the key is no key of hongbao serve"))?;
                value.set_sensitive(true);
                Proof::Key(value)
            }
            (None, None) if is_here => Proof::Nothing,
            (None, region) => {
                let aws = aws_config().await;
                let region =
                    region.clone().or_else(|| region_of(host)).or_else(|| aws.region().map(ToString::to_string));
                let region =
                    region.ok_or_else(|| refused("--region is needed: neither the URL nor AWS_REGION names it"))?;
                let provider = aws.credentials_provider().ok_or_else(|| refused("there are no AWS credentials"))?;
                let aws = aws.into_builder().region(Region::new(region.clone())).build();
                Proof::Aws(Box::new(Signing { aws, region, provider, kept: Mutex::default() }))
            }
        };
        let tls = HttpsConnectorBuilder::new().with_native_roots();
        let tls = tls.map_err(|error| Failed::File("the system's certificates".to_owned(), error))?;
        let tls = tls.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(tls);
        Ok(Self { url: url.to_string().trim_end_matches('/').to_owned(), proof, client })
    }

    /// What shows whose requests they are, as the page calls it.
    pub const fn signs(&self) -> &'static str {
        match self.proof {
            Proof::Nothing => "nothing",
            Proof::Key(_) => "key",
            Proof::Aws(_) => "aws",
        }
    }

    /// Who the operator is, if AWS says so in time. They may have no right to ask that, which is no reason to refuse them.
    pub async fn who(&self) -> Option<Signer> {
        let Proof::Aws(signing) = &self.proof else { return None };
        timeout(NAMED_WITHIN, caller_of(&signing.aws)).await.ok()?.ok()
    }

    /// Passes a request for a route on, if it is one of those that a page of operators needs.
    pub async fn ask(&self, id: &str, parts: &Parts, route: &str, body: Bytes) -> Response<Body> {
        if !is_passed(parts.method.as_str(), &percent_decode_str(route).decode_utf8_lossy()) {
            return problem::of(
                id,
                Code::RouteNotFound,
                "The console passes on only what an operator decides or reads.",
            );
        }
        let query = parts.uri.query().map(|query| format!("?{}", encoded(&query.replace('+', "%20"), &['&', '='])));
        let (route, query) = (encoded(route, &['/']), query.unwrap_or_default());
        let asked = async {
            let mut request = Request::builder().method(&parts.method).uri(format!("{}{route}{query}", self.url));
            if let Some(headers) = request.headers_mut() {
                copy(&parts.headers, headers, &ASKED);
            }
            let request = self.proven(request.body(Full::new(body.clone()))?, &body).await?;
            let (parts, body) = self.client.request(request).await?.into_parts();
            Ok((parts, Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes()))
        };
        let why = match timeout(WITHIN, asked).await {
            Ok(Ok((head, body))) => {
                let mut response = Response::new(Body::Binary(body.into()));
                *response.status_mut() = head.status;
                copy(&head.headers, response.headers_mut(), &ANSWERED);
                return response;
            }
            Ok(Err(error)) => {
                let error: AnyError = error;
                shared::error_chain(&*error)
            }
            Err(_) => format!("no answer within {WITHIN:?}"),
        };
        problem::own(id, StatusCode::BAD_GATEWAY, "bad-gateway", &format!("The deployment can't be asked: {why}."))
    }

    /// The request with what shows whose it is.
    async fn proven(&self, mut request: Request<Full<Bytes>>, body: &[u8]) -> Result<Request<Full<Bytes>>, AnyError> {
        match &self.proof {
            Proof::Nothing => {}
            Proof::Key(key) => drop(request.headers_mut().insert(AUTHORIZATION, key.clone())),
            Proof::Aws(signing) => {
                let identity = signing.credentials().await?.into();
                let params = v4::SigningParams::builder()
                    .identity(&identity)
                    .region(&signing.region)
                    .name("execute-api")
                    .time(SystemTime::now())
                    .settings(SigningSettings::default())
                    .build()?
                    .into();
                let (method, url) = (request.method().as_str(), request.uri().to_string());
                let signable = SignableRequest::new(method, url, std::iter::empty(), SignableBody::Bytes(body))?;
                sign(signable, &params)?.into_parts().0.apply_to_request_http1x(&mut request);
            }
        }
        Ok(request)
    }
}

impl Signing {
    /// The credentials of now: those of a role end, and those of a profile may change.
    async fn credentials(&self) -> Result<Credentials, AnyError> {
        let mut kept = self.kept.lock().await;
        let until = SystemTime::now() + RENEWED_BEFORE;
        if let Some(good) = kept.as_ref().filter(|kept| kept.expiry().is_some_and(|end| end > until)) {
            return Ok(good.clone());
        }
        Ok(kept.insert(self.provider.provide_credentials().await?).clone())
    }
}

/// Whether an operator's page needs the route of a decoded path: all reads with a right, and the operator's decisions. A page sends and grabs
/// for nobody.
fn is_passed(method: &str, path: &str) -> bool {
    let Ok((route, _)) = find(method, path) else { return false };
    let is_dot = |part: &str| part == "." || part == "..";
    let is_deed = route.path.starts_with("/operator/") || route.path.starts_with("/wallets/");
    !rights_for(route.operation).is_empty() && (route.method == "GET" || is_deed) && !path.split('/').any(is_dot)
}

/// The text with all that is not plain encoded, once, between separators.
fn encoded(text: &str, separators: &[char]) -> String {
    let part = |part: &str| {
        let (plain, end) = part.split_at(part.trim_end_matches(separators).len());
        let decoded: Vec<u8> = percent_decode_str(plain).collect();
        format!("{}{end}", percent_encode(&decoded, ENCODED))
    };
    text.split_inclusive(separators).map(part).collect()
}

/// The region in a host's name of API Gateway.
fn region_of(host: &str) -> Option<String> {
    let (_, rest) = host.split_once(".execute-api.")?;
    rest.split_once(".amazonaws.com").map(|(region, _)| region.to_owned())
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use shared::http::ROUTES;

    use super::*;

    #[test]
    fn only_what_an_operator_reads_or_decides_is_passed_on() {
        let passed = |method: &str, path: &str| is_passed(method, &path.replace(['{', '}'], ""));
        for route in ROUTES {
            let is_users = ["/packets", "/me/"].iter().any(|start| route.path.starts_with(start));
            let acts_for_users = route.path.starts_with("/users/") && route.method != "GET";
            assert_eq!(
                passed(route.method, route.path),
                !is_users && !acts_for_users,
                "{} {}",
                route.method,
                route.path
            );
        }
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/operator"),
            ("PATCH", "/operator/sending"),
            ("GET", "/operator/nothing"),
            ("GET", "/wallets/.."),
            ("PUT", "/wallets/./deposits/d"),
            ("GET", "/wallets/a/../b/movements"),
            ("OPTIONS", "/operator/sending"),
        ] {
            assert!(!is_passed(method, path), "{method} {path}");
        }
        assert!(is_passed("HEAD", "/operator/sending"));
    }

    #[test]
    fn a_path_is_written_in_one_way() {
        for path in ["/wallets/a!%40b%2f%25", "/wallets/a%21@b%2F%25"] {
            assert_eq!(encoded(path, &['/']), "/wallets/a%21%40b%2F%25");
        }
        assert_eq!(
            encoded("a=b%20c&&from=2026-11-20T13:30:00Z&", &['&', '=']),
            "a=b%20c&&from=2026-11-20T13%3A30%3A00Z&"
        );
    }

    #[test]
    fn a_region_stands_in_the_name_of_api_gateway() {
        for (host, region) in [
            ("abc.execute-api.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("abc.execute-api.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("api.example.com", None),
        ] {
            assert_eq!(region_of(host).as_deref(), region);
        }
    }

    #[tokio::test]
    async fn a_key_travels_encrypted_or_not_at_all() {
        shared::redis::install_crypto_provider();
        for (url, key, region, signs) in [
            ("http://127.0.0.1:1", None, None, Some("nothing")),
            ("http://localhost:1/base/", None, None, Some("nothing")),
            ("http://[::1]:1", Some("k"), None, Some("key")),
            ("http://127.0.0.1:1", None, Some("eu-west-1"), Some("aws")),
            ("https://abc.execute-api.eu-west-1.amazonaws.com", None, None, Some("aws")),
            ("https://hongbao.example", Some("k"), Some("eu-west-1"), Some("key")),
            ("http://hongbao.example", Some("k"), None, None),
            ("http://127.0.0.1.example", Some("k"), None, None),
            ("ftp://127.0.0.1", None, None, None),
            ("/operator", None, None, None),
            ("https://hongbao.example/?a=b", Some("k"), None, None),
            ("https://hongbao.example", Some("k\nx"), None, None),
        ] {
            let options = Options {
                url: url.parse().unwrap(),
                listen: ([127, 0, 0, 1], 0).into(),
                key: key.map(str::to_owned),
                region: region.map(str::to_owned),
                queues: crate::Queues::default(),
                log: Vec::new(),
                log_key: None,
            };
            assert_eq!(Target::new(&options).await.ok().map(|target| target.signs()), signs, "{url}");
        }
    }
}
