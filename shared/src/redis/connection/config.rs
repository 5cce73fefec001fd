use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;

use super::iam::IamAuth;
use super::tls::Authorities;

/// Where the hot store is, and how long to wait for it.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://` or, with TLS, `rediss://`, with user and password inside, percent-encoded. A cluster may have several,
    /// separated by commas; give more than one, so that a dead node does not stand in the way of the others.
    pub url: String,
    /// How to sign in, if not with the URL's user and password: with tokens, which need TLS.
    pub iam: Option<IamAuth>,
    /// The secret of Secrets Manager that has the current password, in its field `password`. It is read when the server refuses the
    /// password in use, and at the start if `url` has none.
    pub secret: Option<String>,
    /// The region and the credentials that sign tokens for IAM, or read the secret.
    pub aws: SdkConfig,
    /// Whether the servers form a cluster.
    pub cluster: bool,
    /// The certificate authorities that TLS trusts.
    pub ca: Authorities,
    /// How long to wait for a connection to one server, TLS and password included.
    pub connect_timeout: Duration,
    /// How long to wait for an answer.
    pub response_timeout: Duration,
    /// After how long without a successful call a connection is probed rather than trusted.
    pub idle_max: Duration,
}

impl RedisConfig {
    /// The configuration for one server at `url`, with the default timeouts.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            iam: None,
            secret: None,
            aws: SdkConfig::builder().build(),
            cluster: false,
            ca: Authorities::System,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_millis(500),
            idle_max: Duration::from_mins(1),
        }
    }

    /// Where the password is, for people: never the password itself.
    pub(super) fn login(&self) -> String {
        match (&self.iam, &self.secret) {
            (Some(auth), _) => {
                format!("the user {} of {}, and the role's right to connect as them", auth.user, auth.cache)
            }
            (None, Some(secret)) => format!("the secret {secret}"),
            (None, None) => "the password in REDIS_URL or --redis-url".to_owned(),
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            // It holds the password.
            .field("url", &"…")
            .field("iam", &self.iam)
            .field("secret", &self.secret)
            .field("cluster", &self.cluster)
            .field("ca", &self.ca)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("idle_max", &self.idle_max)
            .finish_non_exhaustive()
    }
}
