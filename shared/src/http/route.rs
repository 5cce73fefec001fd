use lambda_http::http::Method;
use lambda_http::http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use lambda_http::{Request, RequestExt};

use super::problem::{Code, Problem};

/// A route of the API, with the texts in its path. They are not checked yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route<'a> {
    /// `POST /packets`
    Send,
    /// `POST /packets/{packet_id}/grab`
    Grab(&'a str),
    /// `GET /packets/{packet_id}`
    Packet(&'a str),
    /// `GET /packets/{packet_id}/claims`
    PacketClaims(&'a str),
    /// `GET /me/wallet`
    MyWallet,
    /// `GET /me/packets`
    MyPackets,
    /// `GET /me/claims`
    MyClaims,
    /// `PUT /wallets/{user_id}/deposits/{deposit_id}`
    Deposit(&'a str, &'a str),
    /// `PUT /wallets/{user_id}/withdrawals/{withdrawal_id}`
    Withdrawal(&'a str, &'a str),
    /// `GET /wallets/{user_id}`
    Wallet(&'a str),
    /// `GET /wallets/{user_id}/movements`
    Movements(&'a str),
    /// A browser asks whether a page of another origin may call. API Gateway adds the headers that say so, but a browser reads
    /// them only in an answer of 2xx.
    Preflight,
}

/// The route of a request. Every function asks for it: API Gateway's `$default` route sends the requests that match no other
/// route to one of them.
pub fn route(request: &Request) -> Result<Route<'_>, Problem> {
    let headers = request.headers();
    if *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return Ok(Route::Preflight);
    }
    let path = request.raw_http_path().strip_prefix('/').ok_or_else(Problem::route_not_found)?;
    let segments: Vec<&str> = path.split('/').collect();
    // A parameter has at least one character, as at API Gateway.
    if segments.contains(&"") {
        return Err(Problem::route_not_found());
    }
    let (method, allow, route) = match segments[..] {
        ["packets"] => (Method::POST, "POST", Route::Send),
        ["packets", id] => (Method::GET, "GET", Route::Packet(id)),
        ["packets", id, "grab"] => (Method::POST, "POST", Route::Grab(id)),
        ["packets", id, "claims"] => (Method::GET, "GET", Route::PacketClaims(id)),
        ["me", "wallet"] => (Method::GET, "GET", Route::MyWallet),
        ["me", "packets"] => (Method::GET, "GET", Route::MyPackets),
        ["me", "claims"] => (Method::GET, "GET", Route::MyClaims),
        ["wallets", user] => (Method::GET, "GET", Route::Wallet(user)),
        ["wallets", user, "movements"] => (Method::GET, "GET", Route::Movements(user)),
        ["wallets", user, "deposits", id] => (Method::PUT, "PUT", Route::Deposit(user, id)),
        ["wallets", user, "withdrawals", id] => (Method::PUT, "PUT", Route::Withdrawal(user, id)),
        _ => return Err(Problem::route_not_found()),
    };
    if *request.method() == method {
        Ok(route)
    } else {
        let detail = format!("This route allows only {allow}.");
        Err(Problem { allow: Some(allow), ..Problem::new(Code::MethodNotAllowed, detail) })
    }
}

#[cfg(test)]
mod tests {
    use lambda_http::Body;

    use super::*;

    fn of(method: Method, path: &str) -> Request {
        let mut request = Request::new(Body::Empty).with_raw_http_path(path);
        *request.method_mut() = method;
        request
    }

    #[test]
    fn routes_are_found() {
        assert_eq!(route(&of(Method::POST, "/packets")).unwrap(), Route::Send);
        assert_eq!(route(&of(Method::POST, "/packets/x/grab")).unwrap(), Route::Grab("x"));
        assert_eq!(route(&of(Method::PUT, "/wallets/a{b}/deposits/d")).unwrap(), Route::Deposit("a{b}", "d"));
    }

    #[test]
    fn what_is_none_is_said_to_be_none() {
        let paths =
            ["", "/", "packets", "/packets/x/", "/packets/a/b/grab", "/me", "/ME/wallet", "/wallets/a/deposits"];
        let empty_parameters = ["/packets/", "/packets//grab", "/wallets//deposits/d", "/wallets/a/deposits/"];
        for path in paths.into_iter().chain(empty_parameters) {
            assert_eq!(route(&of(Method::GET, path)).unwrap_err().code, Code::RouteNotFound, "{path}");
        }
    }

    #[test]
    fn a_preflight_needs_both_of_its_headers() {
        let mut request = of(Method::OPTIONS, "/packets/x/grab");
        request.headers_mut().insert("origin", "https://app.example".parse().unwrap());
        assert_eq!(route(&request).unwrap_err().code, Code::MethodNotAllowed);
        request.headers_mut().insert("access-control-request-method", "POST".parse().unwrap());
        assert_eq!(route(&request).unwrap(), Route::Preflight);
        *request.method_mut() = Method::POST;
        assert_eq!(route(&request).unwrap(), Route::Grab("x"));
    }

    #[test]
    fn a_wrong_method_gets_405_with_allow() {
        let problem = route(&of(Method::DELETE, "/packets/x/grab")).unwrap_err();
        assert_eq!((problem.code, problem.allow), (Code::MethodNotAllowed, Some("POST")));
        assert!(route(&of(Method::HEAD, "/me/wallet")).is_err());
    }
}
