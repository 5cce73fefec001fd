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
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(VALID);
        let identity = credentials.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name("elasticache")
            .time(at)
            .settings(settings)
            .build()
            .map_err(io::Error::other)?
            .into();
        let kind = if self.serverless { "&ResourceType=ServerlessCache" } else { "" };
        let url = format!("http://{}/?Action=connect&User={}{kind}", self.cache, self.user);
        let body = SignableBody::Bytes(&[]);
        let request = SignableRequest::new("GET", &*url, std::iter::empty(), body).map_err(io::Error::other)?;
        let (instructions, _) = sign(request, &params).map_err(io::Error::other)?.into_parts();
        let mut request = http::Request::get(url).body(()).map_err(io::Error::other)?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(request.uri().to_string().trim_start_matches("http://").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use aws_credential_types::provider::SharedCredentialsProvider;
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;

    /// What botocore signs for the same inputs. `tests/aws/test_redis.py` renews and checks the file.
    const BOTOCORE: &str = include_str!("iam/botocore.json");

    /// The parts of a URL: where it leads, and its parameters in whatever order.
    fn parts(url: &str) -> (&str, BTreeSet<&str>) {
        let (place, query) = url.split_once('?').unwrap();
        (place, query.split('&').collect())
    }

    #[test]
    fn a_token_is_the_one_that_botocore_signs() {
        for vector in serde_json::from_str::<Vec<Value>>(BOTOCORE).unwrap() {
            let text = |name: &str| vector[name].as_str().map(str::to_owned);
            let known = |name: &str| text(name).unwrap();
            let (key, secret) = (known("access_key_id"), known("secret_access_key"));
            let credentials = Credentials::new(key, secret, text("session_token"), None, "test");
            let serverless = vector["serverless"].as_bool().unwrap();
            let auth = IamAuth { user: known("user"), cache: known("cache"), serverless };
            let at = known("at").parse::<Timestamp>().unwrap();
            let token = auth.token(&known("region"), credentials, at.into()).unwrap();
            assert_eq!(parts(&token), parts(&known("token")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_signs_in_at_once_and_anew_in_time() {
        let auth = IamAuth { user: "functions".into(), cache: "hongbao".into(), serverless: false };
        let nobody = Tokens::new(auth.clone(), SdkConfig::builder().build());
        assert!(nobody.subscribe().next().await.unwrap().is_err(), "without credentials there is no token");
        let credentials = Credentials::new("id", "key", None, None, "test");
        let sdk = SdkConfig::builder()
            .region(aws_config::Region::new("ap-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials));
        let mut tokens = Tokens::new(auth, sdk.build()).subscribe();
        let begun = tokio::time::Instant::now();
        for due in [Duration::ZERO, RENEW_EVERY, RENEW_EVERY * 2] {
            let token = tokens.next().await.unwrap().unwrap();
            assert!(begun.elapsed() >= due && begun.elapsed() < due + Duration::from_secs(1), "{due:?}");
            assert!(token.password().starts_with("hongbao/?Action=connect&User=functions&X-Amz-"), "{token:?}");
        }
        assert!(RENEW_EVERY * 4 < Duration::from_hours(12), "some of them may fail");
    }
}
