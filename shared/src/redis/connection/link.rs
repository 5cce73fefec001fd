use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::call::Call;
use super::config::{RedisConfig, RedisConfigError};
use super::iam::Tokens;

/// The cluster client's own retries, which also count redirections and so cannot be none.
const CLUSTER_RETRIES: u32 = 3;
/// The wait before one of them, in milliseconds: at least, and at most. All of them fit the response timeout.
const CLUSTER_RETRY_WAIT_MS: (u64, u64) = (10, 100);
/// When a silent connection is probed, and how often. Shorter than the idle time-out of any middlebox.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How to make a connection.
pub(super) enum Connector {
    Single { client: Box<Client>, config: AsyncConnectionConfig },
    Cluster { client: Box<ClusterClient>, timeout: Duration },
}

/// A connection, shared by all calls.
#[derive(Clone)]
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connector {
    /// Signs in with `tokens` if there are any, else with the URL's user and password.
    pub(super) fn new(config: &RedisConfig, tokens: Option<Tokens>) -> Result<Self, RedisConfigError> {
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE));
        let servers = config.servers()?;
        let certificates = config.certificates()?;
        let connector = if config.cluster {
            let (wait_min, wait_max) = CLUSTER_RETRY_WAIT_MS;
            let mut builder = ClusterClient::builder(servers)
                .tcp_settings(tcp)
                .connection_timeout(config.connect_timeout)
                .response_timeout(config.response_timeout)
                .retries(CLUSTER_RETRIES)
                .min_retry_wait(wait_min)
                .max_retry_wait(wait_max);
            if let Some(certificates) = certificates {
                builder = builder.certs(certificates);
            }
            if let Some(tokens) = tokens {
                builder = builder.set_credentials_provider(tokens);
            }
            // What one mute node can cost: the client connects to a seed and greets it, reads the topology, then connects to all
            // nodes at once. The other nodes are worth that wait.
            let timeout = (config.connect_timeout + config.response_timeout) * 2 + config.response_timeout;
            builder.build().map(|client| Self::Cluster { client: Box::new(client), timeout })
        } else {
            let mut settings = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(config.connect_timeout))
                .set_response_timeout(Some(config.response_timeout));
            if let Some(tokens) = tokens {
                settings = settings.set_credentials_provider(tokens);
            }
            let config = settings;
            let [server] = <[_; 1]>::try_from(servers).map_err(|_| RedisConfigError::SeveralUrls)?;
            // The library's name is not announced: without a password, the first call then needs no round trip before its
            // own.
            let settings = server.redis_settings().clone().set_skip_set_lib_name();
            let server = server.set_redis_settings(settings).set_tcp_settings(tcp);
            match certificates {
                Some(certificates) => Client::build_with_tls(server, certificates),
                None => Client::open(server),
            }
            .map(|client| Self::Single { client: Box::new(client), config })
        };
        connector.map_err(|source| RedisConfigError::Url { source })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    /// Connects, in bounded time.
    pub(super) async fn connect(&self) -> RedisResult<Link> {
        super::install_crypto_provider();
        match self {
            Self::Single { client, config } => {
                client.get_multiplexed_async_connection_with_config(config).await.map(Link::Single)
            }
            Self::Cluster { client, timeout } => tokio::time::timeout(*timeout, client.get_async_connection())
                .await
                .unwrap_or_else(|elapsed| Err(std::io::Error::from(elapsed).into()))
                .map(Link::Cluster),
        }
    }
}

impl Link {
    /// The server's answer to `call`, which is executed once.
    pub(super) async fn answer(&mut self, call: &Call) -> RedisResult<Value> {
        match self.query(call.command()).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => match call.with_source() {
                Some(eval) => self.query(&eval).await,
                None => Err(error),
            },
            answer => answer,
        }
    }

    async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}
