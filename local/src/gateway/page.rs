//! The users' page and the console, served beside the API.

use http::Response;
use http::request::Parts;
use lambda_http::Body;
use pages::{files, problem};
use serde_json::json;

use super::Settings;

/// The user names to choose from, since there is no sign-in.
const USERS: [&str; 12] =
    ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "kevin", "lily"];

/// The answer to a request for a page, for one of its files or for its settings; `None` for other requests.
pub fn answer(parts: &Parts, raw_path: &str, settings: &Settings) -> Option<Response<Body>> {
    match raw_path {
        "/config.json" if files::is_read(parts) => Some(config(settings)),
        "/console/config.json" if files::is_read(parts) => Some(config_of_console(settings)),
        "/console" if files::is_read(parts) => Some(problem::moved(&format!("{}/console/", settings.base_path))),
        _ => files::answer(parts, raw_path),
    }
}

/// The deployment's settings for the page.
fn config(Settings { limits, user_withdrawals, base_path, .. }: &Settings) -> Response<Body> {
    files::config(&json!({
        "auth": {"kind": "local", "users": USERS},
        "api": base_path,
        "limits": {
            "slip_amount_max": limits.slip_amount_max.minor_units(),
            "count_max": limits.count_max,
            "withdrawal_min": limits.withdrawal_min.minor_units(),
        },
        "local": true,
        "links": "path",
        "profiles": "assets/characters.js",
        "covers": files::covers(),
        "withdrawals": user_withdrawals,
    }))
}

/// What the console must know: here nobody signs, and any caller is the operator.
fn config_of_console(Settings { base_path, has_tool, has_log, .. }: &Settings) -> Response<Body> {
    files::config(&json!({"api": base_path, "tool": has_tool, "log": has_log, "signs": "nothing", "who": null}))
}

#[cfg(test)]
mod tests {
    use http::header::LOCATION;
    use http::{Request, StatusCode};

    use super::*;

    fn get(path: &str, settings: &Settings) -> Response<Body> {
        let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
        answer(&parts, path, settings).unwrap()
    }

    #[test]
    fn the_console_stands_below_the_base_path() {
        let settings = Settings { base_path: "/hongbao".to_owned(), ..Settings::default() };
        let moved = get("/console", &settings);
        assert_eq!(
            (moved.status(), &moved.headers()[LOCATION]),
            (StatusCode::PERMANENT_REDIRECT, &"/hongbao/console/".parse().unwrap())
        );
        let config: serde_json::Value = serde_json::from_slice(get("/console/config.json", &settings).body()).unwrap();
        assert_eq!((&config["api"], &config["signs"]), (&json!("/hongbao"), &json!("nothing")));
    }

    #[test]
    fn the_page_receives_this_deployments_limits() {
        let response = get("/config.json", &Settings::default());
        let config: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(config["limits"], json!({"slip_amount_max": 20_000, "count_max": 100_000, "withdrawal_min": 1}));
        assert_eq!(config["auth"]["kind"], "local");
        assert_eq!(config["covers"], json!(["plain", "birthday", "spring", "wedding"]));
        assert_eq!(config["withdrawals"], false);
        let response = super::config(&Settings { user_withdrawals: true, ..Settings::default() });
        let config: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(config["withdrawals"], true);
    }
}
