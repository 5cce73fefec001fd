use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::config::RedisConfig;
use super::error::RedisConfigError;
use super::hedge::first_of;
use super::iam::Tokens;
use super::link::Link;
use super::password::Password;
use super::tls::Authorities;

/// When a silent connection is probed, and how often. Shorter than the idle time-out of any middlebox.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long an address of a name may be silent before the next one is tried too.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Where a server is: its host's name or address, and its port.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Address {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

/// How to make a connection.
pub(super) struct Connector {
    /// User and password, and the database.
    login: RedisConnectionInfo,
    settings: AsyncConnectionConfig,
    /// Where a newer password is, if the one in use is refused.
    password: Option<Password>,
    /// None: the connections are in the open.
    ca: Option<Authorities>,
    /// What trusts `ca`: made for the first connection, and shared by all.
    tls: OnceCell<Arc<ClientConfig>>,
    pub(super) is_cluster: bool,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) idle_max: Duration,
}

impl Connector {
    /// The servers to begin with, and how to connect to them. Signs in with `tokens` if there are any, else with the URL's user
    /// and password. No error repeats the URL, which could hold a password.
    pub(super) fn new(config: &RedisConfig, tokens: Option<Tokens>) -> Result<(Self, Vec<Address>), RedisConfigError> {
        let invalid = |source| RedisConfigError::Url { source };
        let urls = config.url.split(',').map(|url| url.trim().into_connection_info());
        let servers = urls.collect::<RedisResult<Vec<_>>>().map_err(invalid)?;
        if servers.iter().any(|server| common(server) != common(&servers[0])) {
            let why = "the servers of a cluster need the same scheme, user, password and database";
            return Err(invalid((ErrorKind::InvalidClientConfig, why).into()));
        }
        let addresses = servers.iter().map(address).collect::<RedisResult<_>>().map_err(invalid)?;
        let is_tls = matches!(servers[0].addr(), ConnectionAddr::TcpTls { .. });
        if is_tls {
            config.ca.check()?;
        }
        let mut settings = AsyncConnectionConfig::new().set_response_timeout(Some(config.response_timeout));
        if let Some(tokens) = tokens {
            settings = settings.set_credentials_provider(tokens);
        }
        let connector = Self {
            // The library's name is not announced: without a password, the first call then needs no round trip before its own.
            login: servers[0].redis_settings().clone().set_skip_set_lib_name(),
            settings,
            password: config.secret.clone().map(|id| Password::new(id, &config.aws)),
            ca: is_tls.then(|| config.ca.clone()),
            tls: OnceCell::new(),
            is_cluster: config.cluster,
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            idle_max: config.idle_max,
        };
        Ok((connector, addresses))
    }

    /// Connects and signs in, in at most `within`. If the password is refused and there is a newer one, it signs in with that, which
    /// takes the time to read it and `within` once more.
    pub(super) async fn connect(&self, address: &Address, within: Duration) -> RedisResult<Link> {
        let Some(password) = &self.password else { return self.sign_in(address, &self.login, within).await };
        let with = |password: &str| self.login.clone().set_password(password);
        let known = match self.login.password() {
            Some(_) => password.known(),
            // The server would let it connect, and refuse each call.
            None => password.newer_than("").await,
        };
        let login = known.map_or_else(|| self.login.clone(), |known| with(&known));
        match self.sign_in(address, &login, within).await {
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                match password.newer_than(login.password().unwrap_or_default()).await {
                    Some(newer) => self.sign_in(address, &with(&newer), within).await,
                    None => Err(error),
                }
            }
            answer => answer,
        }
    }

    async fn sign_in(&self, address: &Address, login: &RedisConnectionInfo, within: Duration) -> RedisResult<Link> {
        let connect = async {
            let socket = connect_tcp(address).await?;
            let Some(ca) = &self.ca else { return self.link(socket, login).await };
            let tls = Arc::clone(self.tls.get_or_try_init(|| async { ca.tls() }).await?);
            let name = ServerName::try_from(String::from(&*address.host)).map_err(io::Error::other)?;
            self.link(TlsConnector::from(tls).connect(name, socket).await?, login).await
        };
        timeout(within, connect).await.unwrap_or_else(|elapsed| Err(io::Error::from(elapsed).into()))
    }

    async fn link(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        login: &RedisConnectionInfo,
    ) -> RedisResult<Link> {
        let made = MultiplexedConnection::new_with_config(login, stream, self.settings.clone());
        let (connection, driver) = made.await?;
        Ok(Link::new(connection, driver))
    }
}

/// What the URLs of a cluster must have in common: whether to use TLS, how to sign in, and the database.
fn common(server: &ConnectionInfo) -> (bool, Option<&str>, Option<&str>, i64) {
    let login = server.redis_settings();
    let is_tls = matches!(server.addr(), ConnectionAddr::TcpTls { .. });
    (is_tls, login.username(), login.password(), login.db())
}

fn address(server: &ConnectionInfo) -> RedisResult<Address> {
    match server.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
            Ok(Address::new(host, *port))
        }
        _ => Err((ErrorKind::InvalidClientConfig, "only redis:// and verified rediss:// are supported").into()),
    }
}

/// A name may have several addresses, and some of them may be dead.
async fn connect_tcp(address: &Address) -> RedisResult<TcpStream> {
    let sockets = lookup_host((&*address.host, address.port)).await?.map(TcpStream::connect).collect();
    let none = || Err(io::Error::other("the name of the host has no address"));
    let socket = first_of(sockets, NEXT_ADDRESS_AFTER).await.unwrap_or_else(none)?;
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    Ok(socket)
}
