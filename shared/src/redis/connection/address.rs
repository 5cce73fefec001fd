use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisResult};

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

    /// The address in a URL, and whether it asks for TLS.
    pub(super) fn of(server: &ConnectionInfo) -> RedisResult<(Self, bool)> {
        match server.addr() {
            ConnectionAddr::Tcp(host, port) => Ok((Self::new(host, *port), false)),
            ConnectionAddr::TcpTls { host, port, insecure: false, .. } => Ok((Self::new(host, *port), true)),
            _ => Err((ErrorKind::InvalidClientConfig, "only redis:// and verified rediss:// are supported").into()),
        }
    }

    /// The address that a redirection names, as `host:port`. A node that knows no name for a host leaves it out, and means its own.
    pub(super) fn redirected(&self, to: &str) -> Option<Self> {
        let (host, port) = to.rsplit_once(':')?;
        let host = if host.is_empty() { &self.host } else { host };
        Some(Self::new(host, port.parse().ok()?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn a_url_names_a_server_and_whether_to_use_tls() {
        let of = |url: &str| Address::of(&url.into_connection_info().unwrap());
        assert_eq!(of("redis://a").unwrap(), (Address::new("a", 6379), false));
        assert_eq!(of("rediss://:secret@b:1").unwrap(), (Address::new("b", 1), true));
        assert!(of("rediss://b/#insecure").is_err());
        assert!(of("redis+unix:///socket").is_err());
    }

    #[test]
    fn a_redirection_may_leave_the_host_out() {
        let from = Address::new("a", 1);
        assert_eq!(from.redirected("b.example:2"), Some(Address::new("b.example", 2)));
        assert_eq!(from.redirected("::1:2"), Some(Address::new("::1", 2)));
        assert_eq!(from.redirected(":2"), Some(Address::new("a", 2)));
        assert_eq!(from.redirected("b"), None);
        assert_eq!(from.redirected("b:x"), None);
    }
}
