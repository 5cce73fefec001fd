//! Methods and paths outside the API.

use super::api::{Api, random};
use super::spec::{SPEC, methods};

const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"];

#[tokio::test]
async fn an_unknown_method_receives_the_list_of_methods() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    let books = api.books("alice").await;
    for operation in SPEC.operations() {
        let path = operation.path.replace("{packet_id}", &packet).replace(['{', '}'], "");
        let of_path: Vec<_> = SPEC.operations().into_iter().filter(|other| other.path == operation.path).collect();
        let methods = methods(&of_path);
        for method in METHODS.into_iter().filter(|method| !methods.contains(method)) {
            for headers in [&[][..], &[("x-user-id", &b"alice"[..]), ("idempotency-key", b"k-2")]] {
                let answer = api.raw(method, path.as_bytes(), headers, b"").await;
                assert_eq!(answer.status, 405, "{}", answer.describe());
                assert_eq!(answer.header("allow"), Some(&*methods.join(", ")));
                // The answer is the same with a body.
                let body = random(10, 1).to_string();
                assert_eq!(api.raw(method, path.as_bytes(), headers, body.as_bytes()).await.status, 405);
            }
        }
    }
    assert_eq!(api.books("alice").await, books);
}

#[tokio::test]
async fn a_browser_may_ask_before_it_calls_from_another_origin() {
    let api = Api::start().await;
    // The local stack refuses the pages of other sites before a function sees them.
    let origin = api.local.url();
    let asks = [("origin", origin.as_bytes()), ("access-control-request-method", b"POST")];
    for path in ["/packets", "/packets/x/grab", "/me/wallet"] {
        let answer = api.unchecked("OPTIONS", path.as_bytes(), &asks, b"").await;
        assert_eq!((answer.status, &*answer.bytes), (204, &b""[..]), "{}", answer.describe());
        assert_eq!(answer.header("access-control-allow-origin"), None, "only the gateway decides about origins");
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    let of_packet = ["/", "//grab", "/grab/", "/grab/x", "/Grab", "/claims/", "/claims/0", "/refund"];
    let mut paths: Vec<String> = of_packet.into_iter().map(|tail| format!("/packets/{packet}{tail}")).collect();
    let others = [
        "//",
        "///",
        "/packets/",
        "//packets",
        "/packets//",
        "/packets//grab",
        "/packets//claims",
        "/Packets",
        "/packet",
        "/packets%00",
        "/packets%20",
        "/packets.",
        "/packets;a=b",
        "/me",
        "/me/",
        "/me//",
        "/me/wallet/",
        "//me/wallet",
        "/ME/wallet",
        "/me/Wallet",
        "/me/movements/",
        "/me/wallet/x",
        "/wallets",
        "/wallets/",
        "/wallets//",
        "/wallets//movements",
        "/wallets//deposits/x",
        "/wallets/a/",
        "/wallets/a/deposits",
        "/wallets/a/deposits/",
        "/wallets/a/withdrawals/",
        "/wallets/a/deposits/b/c",
        "/wallets/a/movements/",
        "/wallets/a/balance",
        "/wallets/a/b/c/d/e/f/g",
        "/../me/wallet",
        "/./me/wallet",
        "/me/../me/wallet",
        "/%2e%2e/me/wallet",
        "/%00",
        "/%ff",
        "/.env",
        "/_local",
        "/_local/",
        "/_local/x",
        "/_local/health/",
        "/$default",
        "/prod/me/wallet",
        "/index.html",
        "/favicon.ico",
        "/assets",
        "/assets/",
        "/assets/none.js",
        "/client/package.json",
    ];
    paths.extend(others.map(str::to_owned));
    for path in paths {
        for method in METHODS {
            for user in [&[][..], &[("x-user-id", &b"alice"[..])]] {
                let answer = api.raw(method, path.as_bytes(), user, b"").await;
                assert_eq!(answer.status, 404, "{}", answer.describe());
                if method != "HEAD" {
                    answer.refused(404, "route-not-found");
                }
            }
        }
    }
    // The local stack serves its page there, which is no part of the API. Other methods are not found.
    for method in METHODS.into_iter().filter(|method| !["GET", "HEAD"].contains(method)) {
        api.raw(method, b"/", &[], b"").await.refused(404, "route-not-found");
    }
    let star = api.raw("OPTIONS", b"*", &[], b"").await;
    star.refused(404, "route-not-found");
}

#[tokio::test]
async fn an_encoded_path_is_the_same_path() {
    let api = Api::start().await;
    api.fund("alice", 5).await;
    let user: [(&str, &[u8]); 1] = [("x-user-id", b"alice")];
    for path in ["/me/wallet", "/%6d%65/%77allet", "/me%2Fwallet", "/me/wallet?", "/me/wallet?limit=0&cursor=!"] {
        assert_eq!(api.raw("GET", path.as_bytes(), &user, b"").await.expect(200)["balance"], 5, "{path}");
    }
    let absolute = format!("{}/me/wallet", api.local.url());
    let answer = api.unchecked("GET", absolute.as_bytes(), &user, b"").await;
    assert_eq!(answer.expect(200)["balance"], 5);
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused_in_the_same_form() {
    let api = Api::start().await;
    let long = "a".repeat(10_300);
    for target in [format!("/{long}"), format!("/packets/{long}/grab"), format!("/me/packets?cursor={long}")] {
        let answer = api.unchecked("GET", target.as_bytes(), &[("x-user-id", b"alice")], b"").await;
        assert!(answer.refused(414, "uri-too-long").is_empty());
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.json()["type"], "urn:hongbao:problem:uri-too-long");
    }
    let text = SPEC.document["info"]["description"].as_str().unwrap();
    assert!(text.replace('\n', " ").contains("414 `uri-too-long`"), "openapi.yaml names it");
}

#[tokio::test]
async fn long_or_strange_headers_do_no_harm() {
    let api = Api::start().await;
    let long = "x".repeat(50_000);
    let headers: [(&str, &[u8]); 6] = [
        ("x-forwarded-proto", b"a b"),
        ("x-forwarded-host", b"\xff\xfe"),
        ("content-type", b"text/plain; charset=\"\xff"),
        ("content-encoding", b"gzip"),
        ("cookie", b";;=;\xff"),
        ("x-long", long.as_bytes()),
    ];
    for header in headers {
        let answer = api.raw("GET", b"/me/wallet", &[("x-user-id", b"alice"), header], b"").await;
        assert_eq!(answer.expect(200)["balance"], 0, "{}", header.0);
    }
    // A GET with a body is a GET.
    let with_body = api.raw("GET", b"/me/wallet", &[("x-user-id", b"alice")], b"{\"x\":[[[").await;
    with_body.expect(200);
}
