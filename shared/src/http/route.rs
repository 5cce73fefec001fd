//! The operations of the API with their routes and functions. openapi.yaml is the contract; a test compares this list with it.

use std::fmt;

use lambda_http::http::Method;
use lambda_http::http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use lambda_http::{Request, RequestExt};

use self::Function::{Grab, Send, View, Wallet};
use super::problem::{Code, Problem};

/// A function that answers requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Function {
    /// Sends packets, and closes them for the operator; takes users' requests for withdrawals.
    Send,
    /// Grabs slips.
    Grab,
    /// Shows packets, claims and the caller's own wallet; any packet to the operator.
    View,
    /// Moves money and shows wallets for the operator.
    Wallet,
}

impl Function {
    /// The name of its program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Send => "send",
            Grab => "grab",
            View => "view",
            Wallet => "wallet",
        }
    }
}

/// An operation, as openapi.yaml names and describes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "openapi.yaml describes them")]
pub enum Operation {
    SendPacket,
    GrabPacket,
    GetPacket,
    ListPacketClaims,
    GetMyWallet,
    ListMyPackets,
    ListMyClaims,
    ListMyMovements,
    AskWithdrawal,
    ListPacketsOfUser,
    SendPacketForUser,
    GrabPacketForUser,
    GetPacketForUser,
    ListPacketClaimsForUser,
    ListClaimsOfUser,
    GetWallet,
    ListMovements,
    Deposit,
    GetWithdrawal,
    Withdraw,
    PostWithdrawal,
    VoidWithdrawal,
    FindPackets,
    GetAnyPacket,
    ListAnyPacketClaims,
    GetShare,
    ClosePacket,
    ReportClaims,
    GetReference,
    CloseReference,
    ListWithdrawals,
    FindMovements,
    ListDeeds,
    ListUsers,
    ListWins,
    SuspendUser,
    LiftSuspension,
    GetUserLimits,
    SetUserLimits,
    GetSending,
    DecideSending,
    GetWebhooks,
    EnableWebhooks,
    /// A browser asks whether a page of another origin may call. API Gateway adds the headers that say so, but a browser reads
    /// them only in an answer of 2xx.
    Preflight,
}

/// The `operationId` of openapi.yaml. Logs have it.
impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        let (first, rest) = name.split_at(1);
        write!(formatter, "{}{rest}", first.to_ascii_lowercase())
    }
}

/// A route of the API.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method. A HEAD has the route of its GET: the gateway sends the answer's head only.
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// What it does.
    pub operation: Operation,
    /// The function that answers.
    pub function: Function,
    /// The parameters of its query.
    pub query: &'static [&'static str],
}

const fn route(
    method: &'static str,
    path: &'static str,
    operation: Operation,
    function: Function,
    query: &'static [&'static str],
) -> Route {
    Route { method, path, operation, function, query }
}

const PAGE: &[&str] = &["limit", "cursor"];
const CLAIMS: &[&str] = &["order", "after", "limit", "cursor"];
const MOVEMENTS: &[&str] = &["from", "to", "kind", "limit", "cursor"];

/// All routes. Those of a path have the order in which `Allow` names their methods.
pub const ROUTES: [Route; 43] = [
    route("POST", "/packets", Operation::SendPacket, Send, &[]),
    route("POST", "/packets/{packet_id}/grab", Operation::GrabPacket, Grab, &[]),
    route("GET", "/packets/{packet_id}", Operation::GetPacket, View, &[]),
    route("GET", "/packets/{packet_id}/claims", Operation::ListPacketClaims, View, CLAIMS),
    route("GET", "/me/wallet", Operation::GetMyWallet, View, &[]),
    route("GET", "/me/packets", Operation::ListMyPackets, View, PAGE),
    route("GET", "/me/claims", Operation::ListMyClaims, View, PAGE),
    route("GET", "/me/movements", Operation::ListMyMovements, View, MOVEMENTS),
    route("POST", "/me/withdrawals", Operation::AskWithdrawal, Send, &[]),
    route("GET", "/users/{user_id}/packets", Operation::ListPacketsOfUser, View, PAGE),
    route("POST", "/users/{user_id}/packets", Operation::SendPacketForUser, Send, &[]),
    route("POST", "/users/{user_id}/packets/{packet_id}/grab", Operation::GrabPacketForUser, Grab, &[]),
    route("GET", "/users/{user_id}/packets/{packet_id}", Operation::GetPacketForUser, View, &[]),
    route("GET", "/users/{user_id}/packets/{packet_id}/claims", Operation::ListPacketClaimsForUser, View, CLAIMS),
    route("GET", "/users/{user_id}/claims", Operation::ListClaimsOfUser, View, PAGE),
    route("GET", "/wallets/{user_id}", Operation::GetWallet, Wallet, &[]),
    route("GET", "/wallets/{user_id}/movements", Operation::ListMovements, Wallet, MOVEMENTS),
    route("PUT", "/wallets/{user_id}/deposits/{deposit_id}", Operation::Deposit, Wallet, &[]),
    route("GET", "/wallets/{user_id}/withdrawals/{withdrawal_id}", Operation::GetWithdrawal, Wallet, &[]),
    route("PUT", "/wallets/{user_id}/withdrawals/{withdrawal_id}", Operation::Withdraw, Wallet, &[]),
    route("POST", "/wallets/{user_id}/withdrawals/{withdrawal_id}/post", Operation::PostWithdrawal, Wallet, &[]),
    route("POST", "/wallets/{user_id}/withdrawals/{withdrawal_id}/void", Operation::VoidWithdrawal, Wallet, &[]),
    route(
        "GET",
        "/operator/packets",
        Operation::FindPackets,
        View,
        &["reference", "sender_id", "from", "to", "status", "limit", "cursor"],
    ),
    route("GET", "/operator/packets/{packet_id}", Operation::GetAnyPacket, View, &[]),
    route("GET", "/operator/packets/{packet_id}/claims", Operation::ListAnyPacketClaims, View, CLAIMS),
    route("GET", "/operator/packets/{packet_id}/users/{user_id}", Operation::GetShare, View, &[]),
    route("POST", "/operator/packets/{packet_id}/close", Operation::ClosePacket, Send, &[]),
    route(
        "GET",
        "/operator/claims",
        Operation::ReportClaims,
        View,
        &["sender_id", "reference", "limit_key", "limit", "cursor"],
    ),
    route("GET", "/operator/references/{reference}", Operation::GetReference, View, &["sender_id"]),
    route("POST", "/operator/references/{reference}/close", Operation::CloseReference, Send, &["sender_id"]),
    route(
        "GET",
        "/operator/withdrawals",
        Operation::ListWithdrawals,
        Wallet,
        &["state", "user_id", "before", "limit", "cursor"],
    ),
    route("GET", "/operator/movements", Operation::FindMovements, Wallet, &["id", "limit", "cursor"]),
    route("GET", "/operator/deeds", Operation::ListDeeds, Wallet, &["user_id", "limit", "cursor"]),
    route("GET", "/operator/users", Operation::ListUsers, Wallet, &["state", "limit", "cursor"]),
    route("GET", "/operator/users/{user_id}/wins", Operation::ListWins, Wallet, PAGE),
    route("PUT", "/operator/users/{user_id}/suspension", Operation::SuspendUser, Wallet, &[]),
    route("DELETE", "/operator/users/{user_id}/suspension", Operation::LiftSuspension, Wallet, &[]),
    route("GET", "/operator/users/{user_id}/limits", Operation::GetUserLimits, Wallet, &[]),
    route("PUT", "/operator/users/{user_id}/limits", Operation::SetUserLimits, Wallet, &[]),
    route("GET", "/operator/sending", Operation::GetSending, Wallet, &[]),
    route("PUT", "/operator/sending", Operation::DecideSending, Wallet, &[]),
    route("GET", "/operator/webhooks", Operation::GetWebhooks, Wallet, &[]),
    route("PUT", "/operator/webhooks", Operation::EnableWebhooks, Wallet, &[]),
];

/// What a request asks for, with the texts in its path. They are not checked yet. A text is empty if the path has none: a parameter
/// has at least one character, as at API Gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked<'a> {
    /// What it is.
    pub operation: Operation,
    /// The user in the path. Only the operator's routes have one.
    pub user_id: &'a str,
    /// The packet in the path.
    pub packet_id: &'a str,
    /// The id of a deposit or withdrawal in the path, or the reference of packets.
    pub id: &'a str,
    /// The parameters of the query that it may have.
    pub(super) query: &'static [&'static str],
}

impl<'a> Asked<'a> {
    const fn new(operation: Operation) -> Self {
        Self { operation, user_id: "", packet_id: "", id: "", query: &[] }
    }

    /// What a request for a path asks by this route, if the path is the route's.
    fn at(route: &Route, path: &'a str) -> Option<Self> {
        let mut asked = Self { query: route.query, ..Self::new(route.operation) };
        let (mut given, mut wanted) = (path.split('/'), route.path.split('/'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return Some(asked),
                (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => match wanted {
                    "{user_id}" => asked.user_id = given,
                    "{packet_id}" => asked.packet_id = given,
                    _ => asked.id = given,
                },
                (Some(wanted), Some(given)) if wanted == given => {}
                _ => return None,
            }
        }
    }
}

/// The route of a method and a decoded path, and what it asks for.
///
/// # Errors
/// The methods that the path has; none if no route has it.
pub fn find<'a>(method: &str, path: &'a str) -> Result<(&'static Route, Asked<'a>), Vec<&'static str>> {
    let listed = if method == "HEAD" { "GET" } else { method };
    let mut allowed = Vec::new();
    for route in &ROUTES {
        let Some(asked) = Asked::at(route, path) else { continue };
        if route.method == listed {
            return Ok((route, asked));
        }
        allowed.push(route.method);
        if route.method == "GET" {
            allowed.push("HEAD");
        }
    }
    Err(allowed)
}

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

/// What a request asks for. Every function asks: API Gateway hands it whatever is below its paths, and one of them what has no route.
///
/// # Errors
/// `route-not-found`; `method-not-allowed`.
pub fn asked(request: &Request) -> Result<Asked<'_>, Problem> {
    let headers = request.headers();
    if *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return Ok(Asked::new(Operation::Preflight));
    }
    match find(request.method().as_str(), request.raw_http_path()) {
        Ok((_, asked)) => Ok(asked),
        Err(methods) if methods.is_empty() => Err(Problem::route_not_found()),
        Err(methods) => {
            let allow = methods.join(", ");
            let detail = format!("This route allows only {allow}.");
            Err(Problem { allow: Some(allow.into()), ..Problem::new(Code::MethodNotAllowed, detail) })
        }
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
        for (method, path, operation, texts) in [
            (Method::POST, "/packets", Operation::SendPacket, ["", "", ""]),
            (Method::POST, "/packets/x/grab", Operation::GrabPacket, ["", "x", ""]),
            (Method::POST, "/users/a{b}/packets", Operation::SendPacketForUser, ["a{b}", "", ""]),
            (Method::HEAD, "/users/me/packets", Operation::ListPacketsOfUser, ["me", "", ""]),
            (Method::GET, "/users/a/packets/grab", Operation::GetPacketForUser, ["a", "grab", ""]),
            (Method::GET, "/operator/packets/x/users/a", Operation::GetShare, ["a", "x", ""]),
            (Method::PUT, "/wallets/a{b}/deposits/{d}", Operation::Deposit, ["a{b}", "", "{d}"]),
            (Method::POST, "/operator/references/x/close", Operation::CloseReference, ["", "", "x"]),
            (Method::DELETE, "/operator/users/a/suspension", Operation::LiftSuspension, ["a", "", ""]),
        ] {
            let request = of(method, path);
            let found = asked(&request).unwrap();
            assert_eq!((found.operation, [found.user_id, found.packet_id, found.id]), (operation, texts), "{path}");
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
            assert_eq!(asked(&of(Method::GET, path)).unwrap_err().code, Code::RouteNotFound, "{path}");
        }
    }

    #[test]
    fn a_preflight_needs_both_of_its_headers() {
        let mut request = of(Method::OPTIONS, "/packets/x/grab");
        request.headers_mut().insert("origin", "https://app.example".parse().unwrap());
        assert_eq!(asked(&request).unwrap_err().code, Code::MethodNotAllowed);
        request.headers_mut().insert("access-control-request-method", "POST".parse().unwrap());
        assert_eq!(asked(&request).unwrap().operation, Operation::Preflight);
        *request.method_mut() = Method::POST;
        assert_eq!(asked(&request).unwrap().operation, Operation::GrabPacket);
    }

    #[test]
    fn a_wrong_method_gets_405_with_allow() {
        let problem = asked(&of(Method::DELETE, "/packets/x/grab")).unwrap_err();
        assert_eq!((problem.code, problem.allow.as_deref()), (Code::MethodNotAllowed, Some("POST")));
        assert_eq!(asked(&of(Method::PUT, "/me/wallet")).unwrap_err().allow.as_deref(), Some("GET, HEAD"));
        assert_eq!(asked(&of(Method::HEAD, "/packets")).unwrap_err().allow.as_deref(), Some("POST"));
        assert_eq!(asked(&of(Method::PUT, "/users/a/packets")).unwrap_err().allow.as_deref(), Some("GET, HEAD, POST"));
        for method in [Method::GET, Method::POST] {
            assert_eq!(
                asked(&of(method, "/operator/users/a/suspension")).unwrap_err().allow.as_deref(),
                Some("PUT, DELETE")
            );
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
