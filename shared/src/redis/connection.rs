mod call;
mod config;
mod connector;
mod error;
mod hedge;
mod iam;
mod link;
mod password;
mod servers;
#[cfg(test)]
mod tests;
mod tls;
mod topology;

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use redis::{FromRedisValue, from_redis_value};

use connector::{Address, Connector};
use iam::Tokens;
use servers::Servers;

pub use call::{Call, Script};
pub use config::RedisConfig;
pub use error::{RedisConfigError, RedisError};
pub use iam::IamAuth;
pub use tls::Authorities;

/// How long a connection may take while a process starts. All processes of a rush start at once, and a server needs time for so many
/// handshakes. An attempt that gives up early is work for it all the same.
const START_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Chooses the cryptography that TLS uses in this process, unless that has been done already. `main` calls it first.
pub fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    // The only failure is that one is installed, which is as good.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// The process's connection to the hot store: to one server, or to the primaries of a cluster. A clone shares it.
///
/// A connection that fails or stays mute is replaced, and the call that found out is repeated once on its successor. One that was
/// idle for long is probed first, and lives as long as it answers. Each of the two attempts takes at most half a response timeout
/// for the probe, the time to connect, and a response timeout. Another response timeout follows if the server has forgotten the
/// script. In a cluster, the topology is read in between, for at most a response timeout.
#[derive(Clone)]
pub struct Connection {
    servers: Arc<Servers>,
    /// The addresses of the configuration, for errors.
    at: Arc<str>,
    /// Where the configuration has the password, for errors.
    login: Arc<str>,
}

impl Connection {
    /// Checks the configuration, and connects to nothing yet.
    pub fn new(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        Self::with_tokens(config, config.iam.clone().map(|auth| Tokens::new(auth, config.aws.clone())))
    }

    fn with_tokens(config: &RedisConfig, tokens: Option<Tokens>) -> Result<Self, RedisConfigError> {
        let (connector, addresses) = Connector::new(config, tokens)?;
        let at = addresses.iter().map(|Address { host, port }| format!("{host}:{port}")).collect::<Vec<_>>().join(", ");
        let servers = Arc::new(Servers::new(connector, addresses)?);
        Ok(Self { servers, at: at.into(), login: config.login().into() })
    }

    /// Connects to the server, or to all primaries of the cluster, so that no call has to wait for that. Without it, the first
    /// call connects.
    pub async fn connect(&self) -> Result<(), RedisError> {
        let within = self.servers.connector.connect_timeout.max(START_CONNECT_TIMEOUT);
        self.servers.connect(within).await.map_err(|error| self.error(error))
    }

    /// Runs `call`, at most twice, and reads its answer.
    ///
    /// Let it come to its end: a call that is dropped while it waits cannot tell a mute connection from a slow one, and
    /// leaves it in place.
    pub async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<T, RedisError> {
        let value = self.servers.answer(call).await.map_err(|error| self.error(error))?;
        from_redis_value(value).map_err(|source| RedisError::Unexpected { source })
    }

    /// Whether it leads to a cluster, where the keys of a call must lie in one slot.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.servers.connector.is_cluster
    }

    fn error(&self, error: redis::RedisError) -> RedisError {
        RedisError::of(error, Arc::clone(&self.at), &self.login, self.is_cluster())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}
