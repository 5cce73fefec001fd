use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisResult, ServerErrorKind, Value,
    cmd, pipe,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::Address;
use super::call::Call;
use super::config::RedisConfig;
use super::error::RedisConfigError;
use super::hedge::first_of;
use super::iam::Tokens;
use super::password::Password;
use super::tls::Tls;

/// When a silent connection is probed, and how often. Shorter than the idle time-out of any middlebox.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long an address of a name may be silent before the next one is tried too.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How to make a connection.
pub(super) struct Connector {
    /// User and password, and the database.
    login: RedisConnectionInfo,
    settings: AsyncConnectionConfig,
    /// Where a newer password is, if the one in use is refused.
    password: Option<Password>,
    /// None: the connections are in the open.
    tls: Option<Tls>,
    is_cluster: bool,
    connect_timeout: Duration,
    response_timeout: Duration,
    idle_max: Duration,
}

/// A connection, shared by all calls.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    _driver: Arc<Driver>,
}

/// The task that moves a connection's bytes. It ends with the last use of the connection: a mute one would keep it for long.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connector {
    /// The servers to begin with, and how to connect to them. Signs in with `tokens` if there are any, else with the URL's user
    /// and password.
    pub(super) fn new(config: &RedisConfig, tokens: Option<Tokens>) -> Result<(Self, Vec<Address>), RedisConfigError> {
        let invalid = |source| RedisConfigError::Url { source };
        let servers = config.servers()?;
        let mut addresses = Vec::new();
        for server in &servers {
            addresses.push(Address::of(server).map_err(invalid)?);
        }
        let (login, by_tls) = (servers[0].redis_settings(), addresses[0].1);
        let alike = |(server, (_, tls)): (&ConnectionInfo, &(_, bool))| {
            let other = server.redis_settings();
            (other.username(), other.password(), other.db(), *tls)
                == (login.username(), login.password(), login.db(), by_tls)
        };
        if !servers.iter().zip(&addresses).all(alike) {
            let why = "the servers of a cluster need the same scheme, user, password and database";
            return Err(invalid((ErrorKind::InvalidClientConfig, why).into()));
        }
        let mut settings = AsyncConnectionConfig::new().set_response_timeout(Some(config.response_timeout));
        if let Some(tokens) = tokens {
            settings = settings.set_credentials_provider(tokens);
        }
        let connector = Self {
            // The library's name is not announced: without a password, the first call then needs no round trip before its own.
            login: login.clone().set_skip_set_lib_name(),
            settings,
            password: config.secret.clone().map(|id| Password::new(id, &config.aws)),
            tls: if by_tls { Some(Tls::new(&config.ca)?) } else { None },
            is_cluster: config.cluster,
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            idle_max: config.idle_max,
        };
        Ok((connector, addresses.into_iter().map(|(address, _)| address).collect()))
    }

    pub(super) const fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    pub(super) const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    pub(super) const fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    pub(super) const fn idle_max(&self) -> Duration {
        self.idle_max
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
            let Some(tls) = &self.tls else { return self.link(socket, login).await };
            let name = ServerName::try_from(String::from(&*address.host)).map_err(io::Error::other)?;
            self.link(TlsConnector::from(tls.config()?).connect(name, socket).await?, login).await
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
        Ok(Link { connection, _driver: Arc::new(Driver(tokio::spawn(driver))) })
    }
}

/// A name may have several addresses, and some of them may be dead.
async fn connect_tcp(address: &Address) -> RedisResult<TcpStream> {
    let found = lookup_host((&*address.host, address.port)).await?;
    let none = || io::Error::other("the name of the host has no address");
    let sockets = found.map(TcpStream::connect);
    let socket = first_of(sockets, NEXT_ADDRESS_AFTER).await.unwrap_or_else(|| Err(none()))?;
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    Ok(socket)
}

impl Link {
    /// The server's answer to `call`, which is executed once.
    pub(super) async fn answer(&mut self, call: &Call, asking: bool) -> RedisResult<Value> {
        match self.query(call.command(), asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => match call.with_source() {
                Some(eval) => self.query(&eval, asking).await,
                None => Err(error),
            },
            answer => answer,
        }
    }

    async fn query(&mut self, command: &Cmd, asking: bool) -> RedisResult<Value> {
        if !asking {
            return command.query_async(&mut self.connection).await;
        }
        // Both at once: another call in between would use up the permission.
        let mut both = pipe();
        both.cmd("ASKING").ignore().add_command(command.clone()).ignore_errors();
        let mut answers: Vec<RedisResult<Value>> = both.query_async(&mut self.connection).await?;
        answers.pop().unwrap_or_else(|| Err(io::Error::other("no answer came").into()))
    }

    /// Whether the server answers within this time, whatever it says.
    pub(super) async fn is_alive(&mut self, within: Duration) -> bool {
        let ping = cmd("PING");
        let answer = timeout(within, self.query(&ping, false)).await;
        answer.is_ok_and(|answer| answer.err().is_none_or(|error| matches!(error.kind(), ErrorKind::Server(_))))
    }
}
