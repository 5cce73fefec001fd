use std::fmt;

use lambda_http::Request;
use lambda_http::http::HeaderName;
use sha2::{Digest, Sha256};

use super::problem::{Code, Problem};

/// The header that `CloudFront` adds to a request for the API. What a viewer sends under this name, it replaces.
const HEADER: HeaderName = HeaderName::from_static("x-edge-key");

/// What `CloudFront` sends in a header, if users' requests may come only through it.
#[derive(Clone, Copy, Default)]
pub struct EdgeKey(Option<[u8; 32]>);

/// Marks a request that went round `CloudFront`.
#[derive(Clone, Copy)]
struct WentRound;

impl EdgeKey {
    /// With `None` requests may come from anywhere.
    pub fn new(key: Option<&str>) -> Self {
        Self(key.map(|key| hash(key.as_bytes())))
    }

    /// Marks the request if it went round `CloudFront`. The header goes no further.
    #[must_use]
    pub fn check(self, mut request: Request) -> Request {
        let given = request.headers_mut().remove(HEADER);
        // How long it takes to compare hashes says nothing about the key.
        if self.0.is_some_and(|key| given.is_none_or(|given| hash(given.as_bytes()) != key)) {
            request.extensions_mut().insert(WentRound);
        }
        request
    }
}

impl fmt::Debug for EdgeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "EdgeKey(…)" } else { "EdgeKey(none)" })
    }
}

fn hash(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// A user's request must come through `CloudFront`, where that has a key.
///
/// # Errors
/// `forbidden`.
pub(super) fn came_through(request: &Request) -> Result<(), Problem> {
    if request.extensions().get::<WentRound>().is_some() {
        return Err(Problem::new(Code::Forbidden, "Users' requests must go through the page's address."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lambda_http::Body;

    use super::*;

    #[test]
    fn only_the_key_itself_lets_a_request_through() {
        let through = |key: Option<&str>, given: Option<&str>| {
            let mut request = Request::new(Body::Empty);
            if let Some(given) = given {
                request.headers_mut().insert(HEADER, given.parse().unwrap());
            }
            let request = EdgeKey::new(key).check(request);
            assert_eq!(request.headers().get(HEADER), None, "it goes no further");
            came_through(&request).is_ok()
        };
        assert!(through(Some("key"), Some("key")));
        for other in [None, Some(""), Some("ke"), Some("keys"), Some("KEY")] {
            assert!(!through(Some("key"), other), "{other:?}");
        }
        assert!(through(None, None) && through(None, Some("key")));
        assert!(!format!("{:?}", EdgeKey::new(Some("key"))).contains("key"));
    }
}
