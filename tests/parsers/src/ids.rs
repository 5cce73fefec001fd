use std::fmt::{Debug, Display};
use std::str::FromStr;

use lambda_http::http::Method;
use lambda_http::{Body, Request, RequestExt};
use shared::domain::{PARTITIONS, PacketId, PartId, RequestKey, UserId};
use shared::http::{Code, Route, route};

/// Ids, names of parts, and the paths that contain them.
pub fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(id) = reads_one_way::<PacketId>(text) {
        assert!((1..=64).contains(&id.part_count()) && id.partition().index() < PARTITIONS);
        for part in id.parts() {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
    }
    if let Some(part) = reads_one_way::<PartId>(text) {
        assert!(part.packet.parts().any(|other| other == part), "{text}");
    }
    let user = text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"/?#%".contains(&byte));
    assert_eq!(reads_one_way::<UserId>(text).is_some(), user && (1..=128).contains(&text.len()), "{text:?}");
    let key = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    assert_eq!(reads_one_way::<RequestKey>(text).is_some(), key && (1..=64).contains(&text.len()), "{text:?}");
    for method in [Method::GET, Method::POST, Method::PUT, Method::HEAD] {
        path(text, &method);
    }
}

/// An accepted id prints as the input, so that no id has two spellings.
fn reads_one_way<I: FromStr + Display + Debug + PartialEq>(text: &str) -> Option<I> {
    let id: I = text.parse().ok()?;
    assert_eq!(id.to_string(), text);
    Some(id)
}

fn path(text: &str, method: &Method) {
    let mut request = Request::new(Body::Empty).with_raw_http_path(text);
    *request.method_mut() = method.clone();
    let (wanted, path) = match route(&request) {
        Ok(found) => spelled(&found),
        Err(problem) if problem.code == Code::MethodNotAllowed => {
            return assert!(problem.allow.is_some_and(|allowed| allowed != method.as_str()), "{text:?}");
        }
        Err(problem) => return assert_eq!(problem.code, Code::RouteNotFound, "{text:?}"),
    };
    assert_eq!((wanted, &*path), (method.as_str(), text));
    assert!(!path.contains("//") && !path.ends_with('/'), "{text:?}");
}

fn spelled(route: &Route) -> (&'static str, String) {
    match route {
        Route::Send => ("POST", "/packets".to_owned()),
        Route::Grab(id) => ("POST", format!("/packets/{id}/grab")),
        Route::Packet(id) => ("GET", format!("/packets/{id}")),
        Route::PacketClaims(id) => ("GET", format!("/packets/{id}/claims")),
        Route::MyWallet => ("GET", "/me/wallet".to_owned()),
        Route::MyPackets => ("GET", "/me/packets".to_owned()),
        Route::MyClaims => ("GET", "/me/claims".to_owned()),
        Route::Deposit(user, id) => ("PUT", format!("/wallets/{user}/deposits/{id}")),
        Route::Withdrawal(user, id) => ("PUT", format!("/wallets/{user}/withdrawals/{id}")),
        Route::Wallet(user) => ("GET", format!("/wallets/{user}")),
        Route::Movements(user) => ("GET", format!("/wallets/{user}/movements")),
        Route::Preflight => panic!("these requests have no headers"),
    }
}
