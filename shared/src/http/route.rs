use lambda_http::http::Method;
use lambda_http::http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use lambda_http::{Request, RequestExt};

use super::problem::{Code, Problem};

/// Whose request it is. The text in the path is not checked yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Who<'a> {
    /// That of the signed-in user who makes it.
    Caller,
    /// That of the user in the path, for whom the operator makes it.
    User(&'a str),
}

/// A route of the API, with the texts in its path. They are not checked yet.
///
/// Each route that has a [`Who`] exists twice: for the caller, and under `/users/{user_id}` for the operator. A HEAD has the route of
/// its GET: the gateway sends the answer's head only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route<'a> {
    /// `POST /packets`, `POST /users/{user_id}/packets`
    Send(Who<'a>),
    /// `POST /packets/{packet_id}/grab`, `POST /users/{user_id}/packets/{packet_id}/grab`
    Grab(Who<'a>, &'a str),
    /// `GET /packets/{packet_id}`, `GET /users/{user_id}/packets/{packet_id}`
    Packet(Who<'a>, &'a str),
    /// `GET /packets/{packet_id}/claims`, `GET /users/{user_id}/packets/{packet_id}/claims`
    PacketClaims(Who<'a>, &'a str),
    /// `GET /me/wallet`
    MyWallet,
    /// `GET /me/packets`, `GET /users/{user_id}/packets`
    Packets(Who<'a>),
    /// `GET /me/claims`, `GET /users/{user_id}/claims`
    Claims(Who<'a>),
    /// `GET /me/movements`
    MyMovements,
    /// `GET /operator/packets/{packet_id}`
    AnyPacket(&'a str),
    /// `GET /operator/packets/{packet_id}/claims`
    AnyClaims(&'a str),
    /// `GET /operator/packets/{packet_id}/users/{user_id}`
    Share(&'a str, &'a str),
    /// `GET /operator/packets`
    Referenced,
    /// `POST /operator/packets/{packet_id}/close`
    Close(&'a str),
    /// `GET /operator/claims`
    ReportedClaims,
    /// `GET /operator/references/{reference}`
    Reference(&'a str),
    /// `POST /operator/references/{reference}/close`
    CloseReference(&'a str),
    /// `PUT /wallets/{user_id}/deposits/{deposit_id}`
    Deposit(&'a str, &'a str),
    /// `PUT /wallets/{user_id}/withdrawals/{withdrawal_id}`
    Withdrawal(&'a str, &'a str),
    /// `GET /wallets/{user_id}/withdrawals/{withdrawal_id}`
    ViewWithdrawal(&'a str, &'a str),
    /// `POST /wallets/{user_id}/withdrawals/{withdrawal_id}/post`
    PostWithdrawal(&'a str, &'a str),
    /// `POST /wallets/{user_id}/withdrawals/{withdrawal_id}/void`
    VoidWithdrawal(&'a str, &'a str),
    /// `GET /operator/withdrawals`
    PendingWithdrawals,
    /// `POST /me/withdrawals`
    AskWithdrawal,
    /// `GET /wallets/{user_id}`
    Wallet(&'a str),
    /// `GET /wallets/{user_id}/movements`
    Movements(&'a str),
    /// `PUT /operator/users/{user_id}/suspension`
    Suspend(&'a str),
    /// `DELETE /operator/users/{user_id}/suspension`
    LiftSuspension(&'a str),
    /// `PUT /operator/users/{user_id}/limits`
    SetLimits(&'a str),
    /// `GET /operator/users/{user_id}/limits`
    Limits(&'a str),
    /// `GET /operator/sending`
    Sending,
    /// `PUT /operator/sending`
    DecideSending,
    /// `GET /operator/webhooks`
    Receiver,
    /// `PUT /operator/webhooks`
    EnableReceiver,
    /// A browser asks whether a page of another origin may call. API Gateway adds the headers that say so, but a browser reads
    /// them only in an answer of 2xx.
    Preflight,
}

impl<'a> Route<'a> {
    /// The packet in the path.
    pub const fn packet_id(self) -> Option<&'a str> {
        match self {
            Self::Grab(_, id)
            | Self::Packet(_, id)
            | Self::PacketClaims(_, id)
            | Self::AnyPacket(id)
            | Self::AnyClaims(id)
            | Self::Share(id, _)
            | Self::Close(id) => Some(id),
            _ => None,
        }
    }

    /// The parameters of the query that it has.
    pub(super) const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::PacketClaims(..) | Self::AnyClaims(_) => &["order", "after", "limit", "cursor"],
            Self::Packets(_) | Self::Claims(_) => &["limit", "cursor"],
            Self::MyMovements | Self::Movements(_) => &["from", "to", "kind", "limit", "cursor"],
            Self::Referenced => &["reference", "limit", "cursor"],
            Self::ReportedClaims => &["sender_id", "reference", "limit_key", "limit", "cursor"],
            Self::Reference(_) | Self::CloseReference(_) => &["sender_id"],
            Self::PendingWithdrawals => &["state", "before", "limit", "cursor"],
            _ => &[],
        }
    }

    /// Its name: the `operationId` of openapi.yaml. Logs have it.
    pub const fn operation(self) -> &'static str {
        match self {
            Self::Send(Who::Caller) => "sendPacket",
            Self::Send(Who::User(_)) => "sendPacketForUser",
            Self::Grab(Who::Caller, _) => "grabPacket",
            Self::Grab(Who::User(_), _) => "grabPacketForUser",
            Self::Packet(Who::Caller, _) => "getPacket",
            Self::Packet(Who::User(_), _) => "getPacketForUser",
            Self::PacketClaims(Who::Caller, _) => "listPacketClaims",
            Self::PacketClaims(Who::User(_), _) => "listPacketClaimsForUser",
            Self::MyWallet => "getMyWallet",
            Self::Packets(Who::Caller) => "listMyPackets",
            Self::Packets(Who::User(_)) => "listPacketsOfUser",
            Self::Claims(Who::Caller) => "listMyClaims",
            Self::Claims(Who::User(_)) => "listClaimsOfUser",
            Self::MyMovements => "listMyMovements",
            Self::AnyPacket(_) => "getAnyPacket",
            Self::AnyClaims(_) => "listAnyPacketClaims",
            Self::Share(..) => "getShare",
            Self::Referenced => "findPackets",
            Self::Close(_) => "closePacket",
            Self::ReportedClaims => "reportClaims",
            Self::Reference(_) => "getReference",
            Self::CloseReference(_) => "closeReference",
            Self::Deposit(..) => "deposit",
            Self::Withdrawal(..) => "withdraw",
            Self::ViewWithdrawal(..) => "getWithdrawal",
            Self::PostWithdrawal(..) => "postWithdrawal",
            Self::VoidWithdrawal(..) => "voidWithdrawal",
            Self::PendingWithdrawals => "listWithdrawals",
            Self::AskWithdrawal => "askWithdrawal",
            Self::Wallet(_) => "getWallet",
            Self::Movements(_) => "listMovements",
            Self::Suspend(_) => "suspendUser",
            Self::LiftSuspension(_) => "liftSuspension",
            Self::SetLimits(_) => "setUserLimits",
            Self::Limits(_) => "getUserLimits",
            Self::Sending => "getSending",
            Self::DecideSending => "decideSending",
            Self::Receiver => "getWebhooks",
            Self::EnableReceiver => "enableWebhooks",
            Self::Preflight => "preflight",
        }
    }

    /// The user in the path. Only the operator's routes have one.
    pub const fn user_id(self) -> Option<&'a str> {
        match self {
            Self::Send(Who::User(id))
            | Self::Grab(Who::User(id), _)
            | Self::Packet(Who::User(id), _)
            | Self::PacketClaims(Who::User(id), _)
            | Self::Packets(Who::User(id))
            | Self::Claims(Who::User(id))
            | Self::Deposit(id, _)
            | Self::Withdrawal(id, _)
            | Self::ViewWithdrawal(id, _)
            | Self::PostWithdrawal(id, _)
            | Self::VoidWithdrawal(id, _)
            | Self::Wallet(id)
            | Self::Movements(id)
            | Self::Share(_, id)
            | Self::Suspend(id)
            | Self::LiftSuspension(id)
            | Self::SetLimits(id)
            | Self::Limits(id) => Some(id),
            _ => None,
        }
    }
}

/// The methods of a path that can only be read.
const READ: &str = "GET, HEAD";

/// The request without the base path, if its path has that. At a custom domain API Gateway leaves a mapping's path in it; at the
/// API's own address there is none.
#[must_use]
pub(super) fn without_base_path(request: Request, base_path: &str) -> Request {
    let rest = request.raw_http_path().strip_prefix(base_path).filter(|rest| rest.starts_with('/')).map(str::to_owned);
    match rest {
        Some(path) => request.with_raw_http_path(path),
        None => request,
    }
}

/// The route of a request. Every function asks for it: API Gateway's `$default` route sends the requests that match no other
/// route to one of them.
///
/// # Errors
/// `route-not-found`; `method-not-allowed`.
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
    let (allow, route) = match segments[..] {
        ["users", user, "packets"] => {
            let who = Who::User(user);
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            ("GET, HEAD, POST", if is_read { Route::Packets(who) } else { Route::Send(who) })
        }
        ["users", user, "claims"] => (READ, Route::Claims(Who::User(user))),
        ["users", user, "packets", ref rest @ ..] => of_packet(Who::User(user), rest)?,
        ["packets"] => ("POST", Route::Send(Who::Caller)),
        ["packets", ref rest @ ..] => of_packet(Who::Caller, rest)?,
        ["me", "wallet"] => (READ, Route::MyWallet),
        ["me", "packets"] => (READ, Route::Packets(Who::Caller)),
        ["me", "claims"] => (READ, Route::Claims(Who::Caller)),
        ["me", "movements"] => (READ, Route::MyMovements),
        ["operator", "packets"] => (READ, Route::Referenced),
        ["operator", "packets", id] => (READ, Route::AnyPacket(id)),
        ["operator", "packets", id, "claims"] => (READ, Route::AnyClaims(id)),
        ["operator", "packets", id, "users", user] => (READ, Route::Share(id, user)),
        ["operator", "packets", id, "close"] => ("POST", Route::Close(id)),
        ["operator", "claims"] => (READ, Route::ReportedClaims),
        ["operator", "references", reference] => (READ, Route::Reference(reference)),
        ["operator", "references", reference, "close"] => ("POST", Route::CloseReference(reference)),
        ["operator", "users", user, "suspension"] => {
            let is_end = *request.method() == Method::DELETE;
            ("PUT, DELETE", if is_end { Route::LiftSuspension(user) } else { Route::Suspend(user) })
        }
        ["operator", "users", user, "limits"] => {
            let is_write = *request.method() == Method::PUT;
            ("GET, HEAD, PUT", if is_write { Route::SetLimits(user) } else { Route::Limits(user) })
        }
        ["operator", "sending"] => {
            let is_write = *request.method() == Method::PUT;
            ("GET, HEAD, PUT", if is_write { Route::DecideSending } else { Route::Sending })
        }
        ["operator", "webhooks"] => {
            let is_write = *request.method() == Method::PUT;
            ("GET, HEAD, PUT", if is_write { Route::EnableReceiver } else { Route::Receiver })
        }
        ["wallets", user] => (READ, Route::Wallet(user)),
        ["wallets", user, "movements"] => (READ, Route::Movements(user)),
        ["wallets", user, "deposits", id] => ("PUT", Route::Deposit(user, id)),
        ["wallets", user, "withdrawals", id] => {
            let is_write = *request.method() == Method::PUT;
            ("GET, HEAD, PUT", if is_write { Route::Withdrawal(user, id) } else { Route::ViewWithdrawal(user, id) })
        }
        ["wallets", user, "withdrawals", id, "post"] => ("POST", Route::PostWithdrawal(user, id)),
        ["wallets", user, "withdrawals", id, "void"] => ("POST", Route::VoidWithdrawal(user, id)),
        ["operator", "withdrawals"] => (READ, Route::PendingWithdrawals),
        ["me", "withdrawals"] => ("POST", Route::AskWithdrawal),
        _ => return Err(Problem::route_not_found()),
    };
    if allow.split(", ").any(|method| request.method() == method) {
        Ok(route)
    } else {
        let detail = format!("This route allows only {allow}.");
        Err(Problem { allow: Some(allow), ..Problem::new(Code::MethodNotAllowed, detail) })
    }
}

/// The methods of a path behind a packet's, and its route.
fn of_packet<'a>(who: Who<'a>, rest: &[&'a str]) -> Result<(&'static str, Route<'a>), Problem> {
    Ok(match *rest {
        [id] => (READ, Route::Packet(who, id)),
        [id, "grab"] => ("POST", Route::Grab(who, id)),
        [id, "claims"] => (READ, Route::PacketClaims(who, id)),
        _ => return Err(Problem::route_not_found()),
    })
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
        for (method, path, expected) in [
            (Method::POST, "/packets", Route::Send(Who::Caller)),
            (Method::POST, "/packets/x/grab", Route::Grab(Who::Caller, "x")),
            (Method::POST, "/users/a{b}/packets", Route::Send(Who::User("a{b}"))),
            (Method::GET, "/users/me/packets", Route::Packets(Who::User("me"))),
            (Method::HEAD, "/users/me/packets", Route::Packets(Who::User("me"))),
            (Method::HEAD, "/me/wallet", Route::MyWallet),
            (Method::GET, "/users/a/packets/grab", Route::Packet(Who::User("a"), "grab")),
            (Method::POST, "/users/a/packets/x/grab", Route::Grab(Who::User("a"), "x")),
            (Method::GET, "/operator/packets/x", Route::AnyPacket("x")),
            (Method::PUT, "/wallets/a{b}/deposits/d", Route::Deposit("a{b}", "d")),
            (Method::POST, "/operator/packets/x/close", Route::Close("x")),
            (Method::HEAD, "/operator/claims", Route::ReportedClaims),
            (Method::GET, "/operator/references/x", Route::Reference("x")),
            (Method::POST, "/operator/references/x/close", Route::CloseReference("x")),
            (Method::PUT, "/operator/users/a{b}/suspension", Route::Suspend("a{b}")),
            (Method::DELETE, "/operator/users/a/suspension", Route::LiftSuspension("a")),
        ] {
            assert_eq!(route(&of(method, path)).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_none_is_said_to_be_none() {
        let paths =
            ["", "/", "packets", "/packets/x/", "/packets/a/b/grab", "/me", "/ME/wallet", "/wallets/a/deposits"];
        let behind_packets =
            ["/packets/a/grab/b", "/users", "/users/a", "/users/a/wallet", "/users/a/packets/b/c", "/operator"];
        let empty_parameters = ["/packets/", "/packets//grab", "/wallets//deposits/d", "/users//packets"];
        for path in paths.into_iter().chain(behind_packets).chain(empty_parameters) {
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
        assert_eq!(route(&request).unwrap(), Route::Grab(Who::Caller, "x"));
    }

    #[test]
    fn a_wrong_method_gets_405_with_allow() {
        let problem = route(&of(Method::DELETE, "/packets/x/grab")).unwrap_err();
        assert_eq!((problem.code, problem.allow), (Code::MethodNotAllowed, Some("POST")));
        assert_eq!(route(&of(Method::PUT, "/me/wallet")).unwrap_err().allow, Some("GET, HEAD"));
        assert_eq!(route(&of(Method::HEAD, "/packets")).unwrap_err().allow, Some("POST"));
        assert_eq!(route(&of(Method::PUT, "/users/a/packets")).unwrap_err().allow, Some("GET, HEAD, POST"));
        for method in [Method::GET, Method::POST] {
            assert_eq!(route(&of(method, "/operator/users/a/suspension")).unwrap_err().allow, Some("PUT, DELETE"));
        }
    }

    #[test]
    fn a_base_path_is_left_out_where_it_is() {
        for (base_path, path, expected) in [
            ("", "/packets/x", "/packets/x"),
            ("/hongbao", "/hongbao/packets/x", "/packets/x"),
            ("/hongbao", "/packets/x", "/packets/x"),
            ("/hongbao", "/hongbaoX/packets/x", "/hongbaoX/packets/x"),
            ("/hongbao", "/hongbao", "/hongbao"),
            ("/hongbao", "/hongbao/", "/"),
            ("/hongbao", "/Hongbao/packets/x", "/Hongbao/packets/x"),
            ("/hongbao", "/hongbao/hongbao/packets/x", "/hongbao/packets/x"),
            ("/hongbao", "//hongbao/packets/x", "//hongbao/packets/x"),
            ("/api/hongbao", "/api/hongbao/me/wallet", "/me/wallet"),
            ("/api/hongbao", "/api/me/wallet", "/api/me/wallet"),
        ] {
            let request = without_base_path(of(Method::GET, path), base_path);
            assert_eq!(request.raw_http_path(), expected, "{base_path} {path}");
        }
    }
}
