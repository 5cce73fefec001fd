//! Which function answers a request, and who may make it.

use shared::http::{Function, Operation, find as find_route};

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
    /// What it asks; `None` of `$default`.
    pub operation: Option<Operation>,
    /// The user in the path; empty without one.
    pub user_id: String,
}

/// Finds the route of a decoded path. On AWS most functions have what is below a path, and so more that is none: their answer to that is
/// the same as the default's.
#[must_use]
pub fn find(method: &str, path: &str) -> Match {
    match find_route(method, path) {
        Ok((route, asked)) => Match {
            key: format!("{method} {}", route.path),
            function: route.function,
            operation: Some(route.operation),
            user_id: asked.user_id.to_owned(),
        },
        Err(_) => Match { key: DEFAULT_KEY.to_owned(), function: DEFAULT, operation: None, user_id: String::new() },
    }
}
