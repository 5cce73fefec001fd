//! Which names and origins are the gateway's own.
//!
//! The gateway believes every request. A page of another site must not make one: not through the user's browser, and not
//! under a name of its own that leads to this machine (DNS rebinding). Programs send no `Origin` and are not affected.

use std::net::SocketAddr;

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;

/// How the request's page is related to the gateway, as its browser says. A page can't set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Relations of the gateway's own page, and of a request that no page made.
const OWN_SITE: [&str; 2] = ["same-origin", "none"];
/// The port that a browser leaves out.
const HTTP_PORT: u16 = 80;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotOurs {
    /// It is for another host.
    Host,
    /// A page of another site makes it.
    Origin,
}

/// This machine's names for itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Whether a part of a host's name, between its dots, is one.
fn is_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Reads a host's name, or `.` and the end of names.
pub fn allowed_host(text: &str) -> Result<String, String> {
    let fits = text.strip_prefix('.').unwrap_or(text).split('.').all(is_label);
    if fits {
        Ok(text.to_owned())
    } else {
        Err("expected a host's name without a port, such as hongbao or .example.com".to_owned())
    }
}

/// The names under which the gateway answers.
#[derive(Debug)]
pub struct Names {
    /// Its own, each with the port, as in a `Host` header.
    own: Vec<String>,
    /// Those that somebody else gave it, with any port: a container's host, or `.` and the end of a host's name.
    allowed: Vec<String>,
}

impl Names {
    /// The names of a gateway that listens on `address`. The address of all interfaces is no name: in a container the gateway is
    /// published as this machine, and has no other name outside.
    /// With `localhost` among `allowed`, this machine's own names have any port.
    #[must_use]
    pub fn new(address: SocketAddr, allowed: &[String]) -> Self {
        let port = address.port();
        let mut names = Vec::new();
        if !address.ip().is_unspecified() {
            names.push(address.to_string());
        }
        for host in LOOPBACK {
            names.push(format!("{host}:{port}"));
            if port == HTTP_PORT {
                names.push(host.to_owned());
            }
        }
        let mut allowed = allowed.to_vec();
        if allowed.iter().any(|name| name == "localhost") {
            allowed.extend(LOOPBACK.map(str::to_owned));
        }
        Self { own: names, allowed }
    }

    /// The names of what serves programs of this machine, which may reach it through a port of another one.
    #[must_use]
    pub fn of_program(address: SocketAddr) -> Self {
        Self::new(address, &["localhost".to_owned()])
    }

    /// Checks a request. Only a browser can be made to send a foreign one, and a browser always sends `Host`.
    pub fn check(&self, parts: &Parts) -> Result<(), NotOurs> {
        let hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let named = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
        let hosts: Vec<&[u8]> = hosts.chain(named).collect();
        if !hosts.iter().all(|host| self.has(host)) {
            return Err(NotOurs::Host);
        }
        let sites = parts.headers.get_all(SEC_FETCH_SITE);
        let is_own_site = |site: &HeaderValue| OWN_SITE.iter().any(|own| site == own);
        let is_own_page = sites.iter().next().is_some_and(is_own_site);
        // A page under the policy `no-referrer` may say "null" instead of its origin.
        let is_own_origin = |origin: &HeaderValue| {
            let host = origin.as_bytes().strip_prefix(b"http://");
            let is_own = |host: &[u8]| self.own.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host));
            let is_this = |host: &[u8]| hosts.iter().any(|this| this.eq_ignore_ascii_case(host));
            host.is_some_and(|host| is_own(host) || is_this(host)) || (is_own_page && origin == "null")
        };
        if !parts.headers.get_all(ORIGIN).iter().all(is_own_origin) {
            return Err(NotOurs::Origin);
        }
        // A link from another site may lead to the page: that is a read.
        if !parts.method.is_safe() && !sites.iter().all(is_own_site) {
            return Err(NotOurs::Origin);
        }
        Ok(())
    }

    /// Checks a request to what no page calls, not even the gateway's own.
    pub fn check_program(&self, parts: &Parts) -> Result<(), NotOurs> {
        self.check(parts)?;
        let is_of_page = [ORIGIN, SEC_FETCH_SITE].iter().any(|name| parts.headers.contains_key(name));
        if is_of_page { Err(NotOurs::Origin) } else { Ok(()) }
    }

    pub(super) fn has(&self, host: &[u8]) -> bool {
        self.own.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host)) || self.allows(host)
    }

    fn allows(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
        let name = name.to_ascii_lowercase();
        let labels = |name: &str| name.split('.').all(is_label);
        self.allowed.iter().map(|allowed| allowed.to_ascii_lowercase()).any(|allowed| {
            if allowed.starts_with('.') { name.strip_suffix(&allowed).is_some_and(labels) } else { name == allowed }
        })
    }
}
