//! The routes and their functions.

use std::collections::HashMap;

/// A function behind the gateway.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Function {
    /// Sends packets, and closes them for the operator.
    Send,
    /// Grabs slips.
    Grab,
    /// Shows packets, claims and the caller's own wallet; any packet to the operator.
    View,
    /// Moves money and shows wallets for the operator.
    Wallet,
}

/// A route, as in template.yaml.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// The HTTP method.
    pub method: &'static str,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The function that answers.
    pub function: Function,
}

const fn route(method: &'static str, path: &'static str, function: Function) -> Route {
    Route { method, path, function }
}

/// All routes. Beside each GET, template.yaml has a HEAD with the same function. Any other request has the route key [`DEFAULT_KEY`] and goes to [`DEFAULT`].
pub const ROUTES: [Route; 39] = [
    route("POST", "/packets", Function::Send),
    route("POST", "/packets/{packet_id}/grab", Function::Grab),
    route("GET", "/packets/{packet_id}", Function::View),
    route("GET", "/packets/{packet_id}/claims", Function::View),
    route("GET", "/me/wallet", Function::View),
    route("GET", "/me/packets", Function::View),
    route("GET", "/me/claims", Function::View),
    route("GET", "/me/movements", Function::View),
    route("PUT", "/wallets/{user_id}/deposits/{deposit_id}", Function::Wallet),
    route("PUT", "/wallets/{user_id}/withdrawals/{withdrawal_id}", Function::Wallet),
    route("GET", "/wallets/{user_id}/withdrawals/{withdrawal_id}", Function::Wallet),
    route("POST", "/wallets/{user_id}/withdrawals/{withdrawal_id}/post", Function::Wallet),
    route("POST", "/wallets/{user_id}/withdrawals/{withdrawal_id}/void", Function::Wallet),
    route("GET", "/operator/withdrawals", Function::Wallet),
    route("POST", "/me/withdrawals", Function::Send),
    route("GET", "/wallets/{user_id}", Function::Wallet),
    route("GET", "/wallets/{user_id}/movements", Function::Wallet),
    route("POST", "/users/{user_id}/packets", Function::Send),
    route("POST", "/users/{user_id}/packets/{packet_id}/grab", Function::Grab),
    route("GET", "/users/{user_id}/packets", Function::View),
    route("GET", "/users/{user_id}/packets/{packet_id}", Function::View),
    route("GET", "/users/{user_id}/packets/{packet_id}/claims", Function::View),
    route("GET", "/users/{user_id}/claims", Function::View),
    route("GET", "/operator/packets", Function::View),
    route("GET", "/operator/packets/{packet_id}", Function::View),
    route("GET", "/operator/packets/{packet_id}/claims", Function::View),
    route("GET", "/operator/packets/{packet_id}/users/{user_id}", Function::View),
    route("POST", "/operator/packets/{packet_id}/close", Function::Send),
    route("GET", "/operator/claims", Function::View),
    route("GET", "/operator/references/{reference}", Function::View),
    route("POST", "/operator/references/{reference}/close", Function::Send),
    route("PUT", "/operator/users/{user_id}/suspension", Function::Wallet),
    route("DELETE", "/operator/users/{user_id}/suspension", Function::Wallet),
    route("GET", "/operator/users/{user_id}/limits", Function::Wallet),
    route("PUT", "/operator/users/{user_id}/limits", Function::Wallet),
    route("GET", "/operator/sending", Function::Wallet),
    route("PUT", "/operator/sending", Function::Wallet),
    route("GET", "/operator/webhooks", Function::Wallet),
    route("PUT", "/operator/webhooks", Function::Wallet),
];

/// The beginnings of the operator's paths.
const OPERATORS: [&str; 3] = ["/wallets/", "/users/", "/operator/"];

/// Whether only the operator may call the routes of a decoded path.
#[must_use]
pub fn is_operators(path: &str) -> bool {
    OPERATORS.iter().any(|beginning| path.starts_with(beginning))
}

/// The function for all other requests.
pub const DEFAULT: Function = Function::View;
/// The route key of all other requests.
pub const DEFAULT_KEY: &str = "$default";

/// The route of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Match {
    /// For example `GET /packets/{packet_id}`, or `$default`.
    pub key: String,
    /// The function that answers.
    pub function: Function,
    /// The path's parameters by name.
    pub parameters: HashMap<String, String>,
}

/// Finds the route of a decoded path.
#[must_use]
pub fn find(method: &str, path: &str) -> Match {
    let listed = if method == "HEAD" { "GET" } else { method };
    ROUTES
        .iter()
        .filter(|route| route.method == listed)
        .find_map(|route| {
            let parameters = parameters(route.path, path)?;
            Some(Match { key: format!("{method} {}", route.path), function: route.function, parameters })
        })
        .unwrap_or_else(|| Match { key: DEFAULT_KEY.to_owned(), function: DEFAULT, parameters: HashMap::new() })
}

/// The parameters of `path` if it matches `pattern`.
fn parameters(pattern: &str, path: &str) -> Option<HashMap<String, String>> {
    let mut parameters = HashMap::new();
    let mut given = path.split('/');
    for wanted in pattern.split('/') {
        let segment = given.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(_) if segment.is_empty() => return None,
            Some(name) => drop(parameters.insert(name.to_owned(), segment.to_owned())),
            None if wanted == segment => {}
            None => return None,
        }
    }
    given.next().is_none().then_some(parameters)
}
