//! Which names and origins are a local server's own.
//!
//! The local stack believes every request, and the console signs it. A page of another site must not make one: not through the user's browser, and not
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

    fn has(&self, host: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check(port: u16, request: &str, headers: &[(&str, &str)]) -> Result<(), NotOurs> {
        let (method, uri) = request.split_once(' ').unwrap();
        let mut builder = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        Names::new(([127, 0, 0, 1], port).into(), &[]).check(&builder.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn on_all_interfaces_it_is_still_this_machine_only() {
        let names = Names::new(([0, 0, 0, 0], 3000).into(), &[]);
        for (host, ours) in
            [("127.0.0.1:3000", true), ("localhost:3000", true), ("0.0.0.0:3000", false), ("192.0.2.1:3000", false)]
        {
            assert_eq!(names.has(host.as_bytes()), ours, "{host}");
        }
    }

    #[test]
    fn only_its_own_names_with_its_port_are_served() {
        for host in ["127.0.0.1:3000", "LocalHost:3000", "[::1]:3000"] {
            assert_eq!(check(3000, "PUT /", &[("host", host)]), Ok(()), "{host}");
        }
        let others = "evil.example:3000 localhost localhost:80 localhost:30000 localhost.evil.example:3000 a@localhost:3000 \
            localhost:3000,evil.example";
        for host in others.split(' ').chain([""]) {
            assert_eq!(check(3000, "GET /", &[("host", host)]), Err(NotOurs::Host), "{host}");
        }
        let two = [("host", "localhost:3000"), ("host", "evil.example")];
        assert_eq!(check(3000, "GET /", &two), Err(NotOurs::Host));
        let own = [("host", "localhost:3000")];
        assert_eq!(check(3000, "GET http://evil.example/", &own), Err(NotOurs::Host));
        assert_eq!(check(3000, "GET http://localhost:3000/", &own), Ok(()));
        assert_eq!(check(80, "GET /", &[("host", "localhost")]), Ok(()));
    }

    #[test]
    fn hosts_that_are_allowed_have_any_port_and_pages_of_their_own_only() {
        let allowed = ["hongbao", ".svc.example", "localhost"].map(str::to_owned);
        let names = Names::new(([0, 0, 0, 0], 3000).into(), &allowed);
        let ours = "hongbao hongbao:3000 HongBao:49153 a.svc.example b.a.svc.example:80 localhost:49153 127.0.0.1:49153 [::1]:49153";
        for host in ours.split(' ') {
            assert!(names.has(host.as_bytes()), "{host}");
        }
        let others = "hongbao.evil.example xhongbao hongbao:x hongbao: .svc.example svc.example evil-svc.example 192.0.2.1:3000 ..svc.example evil/.svc.example evil.com:80.svc.example";
        for host in others.split(' ').chain([""]) {
            assert!(!names.has(host.as_bytes()), "{host}");
        }
        let ask = |origin: &str| {
            let request =
                Request::builder().method("PUT").uri("/").header("host", "hongbao:8080").header("origin", origin);
            names.check(&request.body(()).unwrap().into_parts().0)
        };
        assert_eq!(ask("http://hongbao:8080"), Ok(()));
        for origin in ["http://hongbao:9090", "http://a.svc.example", "http://localhost:49153", "http://evil.example"] {
            assert_eq!(ask(origin), Err(NotOurs::Origin), "{origin}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "localhost:3000");
        let origins = "https://evil.example http://localhost:8080 http://localhost https://localhost:3000 \
            http://localhost:3000.evil.example null";
        for origin in origins.split(' ').chain([""]) {
            for request in ["PUT /", "GET /"] {
                assert_eq!(check(3000, request, &[host, ("origin", origin)]), Err(NotOurs::Origin), "{origin}");
            }
        }
        for site in ["cross-site", "same-site", "unheard-of"] {
            let headers = [host, ("sec-fetch-site", site)];
            assert_eq!(check(3000, "POST /", &headers), Err(NotOurs::Origin), "{site}");
            assert_eq!(check(3000, "GET /", &headers), Ok(()), "a link");
            let null = [host, ("sec-fetch-site", site), ("origin", "null")];
            assert_eq!(check(3000, "POST /", &null), Err(NotOurs::Origin));
        }
    }

    #[test]
    fn its_own_page_and_programs_are_served() {
        let host = ("host", "127.0.0.1:3000");
        assert_eq!(check(3000, "POST /", &[host]), Ok(()));
        assert_eq!(check(3000, "POST /", &[host, ("origin", "http://127.0.0.1:3000")]), Ok(()));
        for origin in ["http://127.0.0.1:3000", "null"] {
            let headers = [host, ("origin", origin), ("sec-fetch-site", "same-origin")];
            assert_eq!(check(3000, "POST /", &headers), Ok(()), "{origin}");
        }
        assert_eq!(check(3000, "GET /", &[host, ("sec-fetch-site", "none")]), Ok(()));
    }
}
