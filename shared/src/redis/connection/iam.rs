//! Signing in to `ElastiCache` with tokens instead of a password.
//!
//! A token is a presigned request "connect", which `ElastiCache` takes for a password for 15 minutes. One is signed for each
//! connection as it is made, so none is ever old. `ElastiCache` ends a connection 12 hours after its last sign-in, so those
//! that live sign in again from time to time.

use std::io;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use futures::stream::{self, Stream, StreamExt};
use lambda_http::http;
use redis::{BasicAuth, RedisResult, StreamingCredentialsProvider};

/// How long a token is valid: the longest that `ElastiCache` accepts.
const VALID: Duration = Duration::from_mins(15);
/// How often a connection signs in anew: often enough that some failures in a row do no harm.
const RENEW_EVERY: Duration = Duration::from_hours(2);

/// As whom to sign in, and where to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IamAuth {
    /// The user's id, which is also its name.
    pub user: String,
    /// The id of the replication group, or the name of the serverless cache.
    pub cache: String,
    /// Whether the cache is a serverless one.
    pub serverless: bool,
}

/// The tokens of a process.
#[derive(Clone)]
pub(super) struct Tokens {
    auth: IamAuth,
    /// Region and credentials.
    aws: SdkConfig,
}

impl Tokens {
    pub(super) const fn new(auth: IamAuth, aws: SdkConfig) -> Self {
        Self { auth, aws }
    }

    async fn fresh(&self) -> io::Result<BasicAuth> {
        let region = self.aws.region().ok_or_else(|| io::Error::other("no region to sign for"))?;
        let provider = self.aws.credentials_provider();
        let provider = provider.ok_or_else(|| io::Error::other("no credentials to sign with"))?;
        let credentials = provider.provide_credentials().await.map_err(io::Error::other)?;
        let token = self.auth.token(region.as_ref(), credentials, SystemTime::now())?;
        Ok(BasicAuth::new(self.auth.user.clone(), token))
    }
}

impl StreamingCredentialsProvider for Tokens {
    /// Yields a token at once, and new ones from time to time. A failure to sign is passed on; the caller tries again, as with a server
    /// that can't be reached.
    fn subscribe(&self) -> Pin<Box<dyn Stream<Item = RedisResult<BasicAuth>> + Send + 'static>> {
        let tokens = self.clone();
        stream::unfold(Duration::ZERO, move |pause| {
            let tokens = tokens.clone();
            async move {
                tokio::time::sleep(pause).await;
                Some((tokens.fresh().await.map_err(Into::into), RENEW_EVERY))
            }
        })
        .boxed()
    }
}

impl IamAuth {
    fn token(&self, region: &str, credentials: Credentials, at: SystemTime) -> io::Result<String> {
        let kind = if self.serverless { "&ResourceType=ServerlessCache" } else { "" };
        let url = format!("http://{}/?Action=connect&User={}{kind}", self.cache, self.user);
        let signed = presign(&url, "elasticache", region, credentials, at, VALID)?;
        Ok(signed.trim_start_matches("http://").to_owned())
    }
}

/// A presigned GET of `url`. Any holder may use it until `valid` is over.
fn presign(
    url: &str,
    service: &str,
    region: &str,
    credentials: Credentials,
    at: SystemTime,
    valid: Duration,
) -> io::Result<String> {
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(valid);
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(at)
        .settings(settings)
        .build()
        .map_err(io::Error::other)?
        .into();
    let request =
        SignableRequest::new("GET", url, std::iter::empty(), SignableBody::Bytes(&[])).map_err(io::Error::other)?;
    let (instructions, _) = sign(request, &params).map_err(io::Error::other)?.into_parts();
    let mut request = http::Request::new(());
    *request.uri_mut() = url.parse().map_err(io::Error::other)?;
    instructions.apply_to_request_http1x(&mut request);
    Ok(request.uri().to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::UNIX_EPOCH;

    use aws_credential_types::provider::SharedCredentialsProvider;
    use jiff::Timestamp;
    use serde::Deserialize;

    use super::*;

    /// What botocore signs for the same inputs. `tests/aws/test_redis.py` renews and checks the file.
    const BOTOCORE: &str = include_str!("iam/botocore.json");

    /// The session token of the published vectors.
    const SUITE_SESSION_TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

    #[derive(Deserialize)]
    struct Vector {
        user: String,
        cache: String,
        serverless: bool,
        region: String,
        access_key_id: String,
        secret_access_key: String,
        session_token: Option<String>,
        at: String,
        token: String,
    }

    fn credentials(access_key_id: &str, secret_access_key: &str, session_token: Option<String>) -> Credentials {
        Credentials::new(access_key_id, secret_access_key, session_token, None, "test")
    }

    /// The parts of a URL: where it leads, and its parameters in whatever order.
    fn parts(url: &str) -> (&str, BTreeSet<&str>) {
        let (place, query) = url.split_once('?').unwrap();
        (place, query.split('&').collect())
    }

    #[test]
    fn a_token_is_the_one_that_botocore_signs() {
        let vectors: Vec<Vector> = serde_json::from_str(BOTOCORE).unwrap();
        assert!(vectors.iter().any(|vector| vector.serverless) && vectors.iter().any(|vector| !vector.serverless));
        assert!(vectors.iter().any(|vector| vector.session_token.is_some()));
        for vector in vectors {
            let Vector { user, cache, serverless, region, access_key_id, secret_access_key, session_token, .. } =
                vector;
            let credentials = credentials(&access_key_id, &secret_access_key, session_token);
            let token = IamAuth { user, cache, serverless }
                .token(&region, credentials, vector.at.parse::<Timestamp>().unwrap().into())
                .unwrap();
            assert_eq!(parts(&token), parts(&vector.token));
        }
    }

    /// `get-vanilla-query-order-key-case` and `get-vanilla-with-session-token` of AWS's signing test suite, signed into the
    /// query.
    #[test]
    fn a_signature_is_the_one_that_aws_published() {
        // 2015-08-30T12:36:00Z, the suite's moment.
        let at = UNIX_EPOCH + Duration::from_mins(24_015_636);
        for (url, session_token, signature) in [
            (
                "http://example.amazonaws.com/?Param2=value2&Param1=value1",
                None,
                "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5",
            ),
            (
                "http://example.amazonaws.com/",
                Some(SUITE_SESSION_TOKEN.to_owned()),
                "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c",
            ),
        ] {
            let credentials = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", session_token);
            let valid = Duration::from_hours(1);
            let signed = presign(url, "service", "us-east-1", credentials, at, valid).unwrap();
            assert!(parts(&signed).1.contains(&*format!("X-Amz-Signature={signature}")), "{signed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_signs_in_at_once_and_anew_in_time() {
        let auth = IamAuth { user: "functions".into(), cache: "hongbao".into(), serverless: false };
        let sdk = SdkConfig::builder()
            .region(aws_config::Region::new("ap-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials("id", "key", None)));
        let mut tokens = Tokens::new(auth, sdk.build()).subscribe();
        let begun = tokio::time::Instant::now();
        for due in [Duration::ZERO, RENEW_EVERY, RENEW_EVERY * 2] {
            let token = tokens.next().await.unwrap().unwrap();
            assert!(begun.elapsed() >= due && begun.elapsed() < due + Duration::from_secs(1), "{due:?}");
            assert_eq!(token.username(), "functions");
            assert!(token.password().starts_with("hongbao/?Action=connect&User=functions&X-Amz-"), "{token:?}");
        }
        assert!(RENEW_EVERY * 4 < Duration::from_hours(12), "some of them may fail");
    }

    #[tokio::test]
    async fn without_credentials_there_is_no_token_and_the_next_try_is_free_to_work() {
        let auth = IamAuth { user: "u".into(), cache: "c".into(), serverless: false };
        let error = Tokens::new(auth, SdkConfig::builder().build()).subscribe().next().await.unwrap().err().unwrap();
        assert!(error.is_io_error(), "{error}");
    }
}
