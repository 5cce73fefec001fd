//! Tokens of an issuer (`OpenID` Connect, or any other that signs JWTs), verified as API Gateway's authorizer does.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use shared::batching::SingleFlight;
use tokio::time::{Instant, timeout};

/// After this time the keys are read again: an issuer may have taken one back.
const FRESH: Duration = Duration::from_mins(5);
/// How often they are read at most, if tokens name a key that is not among them.
const READ_EVERY: Duration = Duration::from_secs(10);
const READ_WITHIN: Duration = Duration::from_secs(5);
/// The largest set of keys, in bytes.
const BYTES_MAX: usize = 1 << 20;
/// The fewest bytes of a key of HS256 (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// Whose tokens name users. All of them are given, or none is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SignInOptions {
    /// The issuer's keys as a JWK Set: a file, or an https address that is read again when the issuer has a new key
    #[arg(long, value_name = "FILE|URL", env = "JWKS", requires_all = ["issuer", "audience"])]
    pub jwks: Option<String>,

    /// The issuer of users' tokens (`iss`)
    #[arg(long, value_name = "ISSUER", env = "JWT_ISSUER", requires = "jwks")]
    pub issuer: Option<String>,

    /// The audiences of users' tokens (`aud`, or `client_id` where there is none), separated by commas
    #[arg(long, value_name = "AUDIENCE", env = "JWT_AUDIENCE", value_delimiter = ',', requires = "jwks")]
    pub audience: Vec<String>,
}

/// Verifies users' tokens.
pub struct SignIn {
    issuer: String,
    audiences: Vec<String>,
    source: Arc<Source>,
    known: Mutex<Known>,
    reads: SingleFlight<(), Result<Arc<JwkSet>, String>>,
}

#[derive(Debug)]
struct Known {
    keys: Arc<JwkSet>,
    read_at: Instant,
}

#[derive(Debug)]
enum Source {
    /// A secret key may lie here too.
    File(PathBuf),
    Url(Uri, Box<Client<HttpsConnector<HttpConnector>, Empty<Bytes>>>),
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<Value>,
    aud: Option<Audience>,
    client_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl SignIn {
    /// Reads the issuer's keys, if the options name an issuer.
    pub async fn new(options: &SignInOptions) -> anyhow::Result<Option<Self>> {
        let SignInOptions { jwks: Some(jwks), issuer: Some(issuer), audience } = options else { return Ok(None) };
        shared::jws::use_ring();
        let source = if jwks.starts_with("https://") || jwks.starts_with("http://") {
            let url: Uri = jwks.parse().context("--jwks")?;
            let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
            let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
            // Everybody on the way could put their own keys in.
            ensure!(is_here || url.scheme_str() == Some("https"), "the keys of tokens must come by https");
            let tls = HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().build();
            Source::Url(url, Box::new(Client::builder(TokioExecutor::new()).build(tls)))
        } else {
            Source::File(jwks.into())
        };
        let keys = source.read().await.with_context(|| {
            // What follows may be a secret.
            format!("the keys of tokens can't be read: {}", jwks.split('?').next().unwrap_or_default())
        })?;
        let known = Mutex::new(Known { keys: Arc::new(keys), read_at: Instant::now() });
        let (issuer, audiences) = (issuer.clone(), audience.clone());
        Ok(Some(Self { issuer, audiences, source: Arc::new(source), known, reads: SingleFlight::default() }))
    }

    /// The subject of the token in these headers, if it is good. It is empty if the token has none.
    pub async fn subject(&self, headers: &HeaderMap) -> Option<String> {
        let token = bearer(headers)?;
        let header = decode_header(token).ok()?;
        let id = header.kid.as_deref();
        let known = self.keys(FRESH).await;
        let mut found = key(id, &known);
        if found.is_none() {
            // The issuer may have a new one.
            found = key(id, &self.keys(READ_EVERY).await as &JwkSet);
        }
        let key = found?;
        self.verify(token, header.alg, &key)
    }

    fn verify(&self, token: &str, algorithm: Algorithm, key: &Jwk) -> Option<String> {
        let fits = algorithms(key).contains(&algorithm);
        let is_named = key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
        if !fits || !is_named || key.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
            return None;
        }
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        (validation.leeway, validation.validate_nbf, validation.validate_aud) = (0, true, false);
        let Claims { sub, aud, client_id } = decode(token, &DecodingKey::from_jwk(key).ok()?, &validation).ok()?.claims;
        let audiences = match aud {
            Some(Audience::One(one)) => vec![one],
            Some(Audience::Several(several)) => several,
            None => client_id.into_iter().collect(),
        };
        let is_for_us = audiences.iter().any(|audience| self.audiences.contains(audience));
        is_for_us.then(|| sub.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// The keys, not older than `age`. If they can't be read, those from before count on.
    async fn keys(&self, age: Duration) -> Arc<JwkSet> {
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.read_at.elapsed() < age {
                return Arc::clone(&known.keys);
            }
            Arc::clone(&known.keys)
        };
        let source = Arc::clone(&self.source);
        let read = move || async move { source.read().await.map(Arc::new).map_err(|error| format!("{error:#}")) };
        let read = self.reads.run((), read).await.unwrap_or_else(|| Err("the read was cut short".to_owned()));
        let keys = read.unwrap_or_else(|error| {
            tracing::warn!(error, "the keys of tokens can't be read again; those from before count on");
            known
        });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            Known { keys: Arc::clone(&keys), read_at: Instant::now() };
        keys
    }
}

impl Source {
    async fn read(&self) -> anyhow::Result<JwkSet> {
        let bytes = match self {
            Self::File(file) => tokio::fs::read(file).await?,
            Self::Url(url, client) => {
                let asked = async {
                    let answer = client.get(url.clone()).await?;
                    ensure!(answer.status() == StatusCode::OK, "the answer is {}", answer.status());
                    let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
                    Ok(body.map_err(|error| anyhow!(error))?.to_bytes().to_vec())
                };
                timeout(READ_WITHIN, asked).await.context("no answer in time")??
            }
        };
        // Keys of kinds that nobody here knows are left out: an issuer may have them for others.
        let set: Value = serde_json::from_slice(&bytes).context("it is no JWK Set (RFC 7517), {\"keys\": [...]}")?;
        let Some(keys) = set["keys"].as_array() else { bail!("it is no JWK Set (RFC 7517), {{\"keys\": [...]}}") };
        let keys = keys.iter().filter_map(|key| serde_json::from_value(key.clone()).ok());
        let keys: Vec<Jwk> = keys.filter(|key| !algorithms(key).is_empty()).collect();
        ensure!(!keys.is_empty(), "it has no key for RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA");
        for key in &keys {
            if let AlgorithmParameters::OctetKey(_) = key.algorithm {
                ensure!(matches!(self, Self::File(_)), "it has a secret key, which everybody can read at an address");
                let secret = DecodingKey::from_jwk(key)?;
                let is_long = secret.try_get_as_bytes()?.len() >= SECRET_BYTES_MIN;
                ensure!(is_long, "a key for HS256 must have at least {SECRET_BYTES_MIN} bytes");
            }
        }
        Ok(JwkSet { keys })
    }
}

/// The key with this id. A set with a single key needs no ids.
fn key(id: Option<&str>, keys: &JwkSet) -> Option<Jwk> {
    match (id, &*keys.keys) {
        (Some(id), _) => keys.find(id).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}

/// The algorithms that a key can have. The key decides them, never the token alone.
fn algorithms(key: &Jwk) -> &'static [Algorithm] {
    use Algorithm as A;
    match &key.algorithm {
        AlgorithmParameters::RSA(_) => &[A::RS256, A::RS384, A::RS512, A::PS256, A::PS384, A::PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[A::ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[A::ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[A::EdDSA],
        AlgorithmParameters::OctetKey(_) => &[A::HS256],
        _ => &[],
    }
}

/// The token in these headers, if there is one and only one.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}
