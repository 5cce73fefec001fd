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

/// The gateway's own names, each with the port, as in a `Host` header.
#[derive(Debug)]
pub struct Names(Vec<String>);

impl Names {
    /// The names of a gateway that listens on `address`. The address of all interfaces is no name: in a container the gateway is
    /// published as this machine, and has no other name outside.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let port = address.port();
        let mut names = Vec::new();
        if !address.ip().is_unspecified() {
            names.push(address.to_string());
        }
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            names.push(format!("{host}:{port}"));
            if port == HTTP_PORT {
                names.push(host.to_owned());
            }
        }
        Self(names)
    }

    /// Checks a request. Only a browser can be made to send a foreign one, and a browser always sends `Host`.
    pub fn check(&self, parts: &Parts) -> Result<(), NotOurs> {
        let mut hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let named = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
        if !hosts.by_ref().chain(named).all(|host| self.has(host)) {
            return Err(NotOurs::Host);
        }
        let sites = parts.headers.get_all(SEC_FETCH_SITE);
        let is_own_site = |site: &HeaderValue| OWN_SITE.iter().any(|own| site == own);
        let is_own_page = sites.iter().next().is_some_and(is_own_site);
        // A page under the policy `no-referrer` may say "null" instead of its origin.
        let is_own_origin = |origin: &HeaderValue| {
            let host = origin.as_bytes().strip_prefix(b"http://");
            host.is_some_and(|host| self.has(host)) || (is_own_page && origin == "null")
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

    fn has(&self, host: &[u8]) -> bool {
        self.0.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host))
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
        Names::new(([127, 0, 0, 1], port).into()).check(&builder.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn on_all_interfaces_it_is_still_this_machine_only() {
        let names = Names::new(([0, 0, 0, 0], 3000).into());
        for (host, ours) in
            [("127.0.0.1:3000", true), ("localhost:3000", true), ("0.0.0.0:3000", false), ("192.0.2.1:3000", false)]
        {
            assert_eq!(names.has(host.as_bytes()), ours, "{host}");
        }
    }

    #[test]
    fn only_its_own_names_with_its_port_are_served() {
        for host in ["127.0.0.1:3000", "localhost:3000", "LocalHost:3000", "[::1]:3000"] {
            assert_eq!(check(3000, "PUT /", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example:3000",
            "localhost",
            "localhost:80",
            "localhost:30000",
            "localhost.evil.example:3000",
            "a@localhost:3000",
            "localhost:3000,evil.example",
            "",
        ] {
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
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "localhost:3000");
        for origin in [
            "https://evil.example",
            "http://localhost:8080",
            "http://localhost",
            "https://localhost:3000",
            "http://localhost:3000.evil.example",
            "null",
            "",
        ] {
            for request in ["PUT /", "POST /", "GET /"] {
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
