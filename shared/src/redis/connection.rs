mod address;
mod call;
mod cluster;
mod config;
mod error;
mod freeze_aware_instant;
mod hedge;
mod iam;
mod link;
mod node;
mod password;
#[cfg(test)]
mod tests;
mod tls;
mod topology;

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, Value, from_redis_value};

use cluster::Cluster;
use error::Failure;
use iam::Tokens;
use link::Connector;
use node::Node;

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
    servers: Servers,
    /// The addresses of the configuration, for errors.
    at: Arc<str>,
    /// Where the configuration has the password, for errors.
    login: Arc<str>,
    /// How long each connection may take while the process starts.
    start_timeout: Duration,
}

#[derive(Clone)]
enum Servers {
    Single(Arc<Node>),
    Cluster(Cluster),
}

impl Connection {
    /// Checks the configuration, and connects to nothing yet.
    pub fn new(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        Self::with_tokens(config, config.iam.clone().map(|auth| Tokens::new(auth, config.aws.clone())))
    }

    fn with_tokens(config: &RedisConfig, tokens: Option<Tokens>) -> Result<Self, RedisConfigError> {
        let (connector, addresses) = Connector::new(config, tokens)?;
        let connector = Arc::new(connector);
        let at = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ").into();
        let servers = if config.cluster {
            Servers::Cluster(Cluster::new(connector, addresses))
        } else {
            let [address] = <[_; 1]>::try_from(addresses).map_err(|_| RedisConfigError::SeveralUrls)?;
            Servers::Single(Arc::new(Node::new(connector, address)))
        };
        let login = config.login().into();
        Ok(Self { servers, at, login, start_timeout: config.connect_timeout.max(START_CONNECT_TIMEOUT) })
    }

    /// Connects to the server, or to all primaries of the cluster, so that no call has to wait for that. Without it, the first
    /// call connects.
    pub async fn connect(&self) -> Result<(), RedisError> {
        let connected = match &self.servers {
            Servers::Single(node) => node.connect(self.start_timeout).await,
            Servers::Cluster(cluster) => cluster.connect(self.start_timeout).await,
        };
        connected.map_err(|error| self.error(error))
    }

    /// Runs `call`, at most twice, and reads its answer.
    ///
    /// Let it come to its end: a call that is dropped while it waits cannot tell a mute connection from a slow one, and
    /// leaves it in place.
    pub async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<T, RedisError> {
        let answer = match &self.servers {
            Servers::Single(node) => answer_of(node, call).await,
            Servers::Cluster(cluster) => cluster.answer(call).await,
        };
        let value = answer.map_err(|error| self.error(error))?;
        from_redis_value(value).map_err(|source| RedisError::Unexpected { source })
    }

    /// Whether it leads to a cluster, where the keys of a call must lie in one slot.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    fn error(&self, error: redis::RedisError) -> RedisError {
        RedisError::of(error, Arc::clone(&self.at), &self.login, self.is_cluster())
    }
}

/// A single server's answer to `call`, which is repeated once if the connection or the server was lost.
async fn answer_of(node: &Node, call: &Call) -> RedisResult<Value> {
    match node.answer(call, false).await {
        Err(fault)
            if fault.was_connected && matches!(fault.failure, Failure::Broken | Failure::Unfit | Failure::Password) =>
        {
            node.answer(call, false).await
        }
        answer => answer,
    }
    .map_err(|fault| fault.error)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}
