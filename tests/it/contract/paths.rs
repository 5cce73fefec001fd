//! Paths, methods, callers, and user ids in paths: no id reaches another user's data.

use serde_json::json;

use super::api::{Api, random};
use super::spec::SPEC;

const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"];

#[tokio::test]
async fn a_browser_may_ask_before_it_calls_from_another_origin() {
    let api = Api::with_everything().await;
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
    let api = Api::with_everything().await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    let of_packet = ["/", "//grab", "/grab/", "/grab/x", "/Grab", "/claims/", "/claims/0", "/refund"];
    let mut paths: Vec<String> = of_packet.into_iter().map(|tail| format!("/packets/{packet}{tail}")).collect();
    let others = "// /// /packets/ //packets /packets// /packets//grab /packets//claims /Packets /packet /packets%00 /packets%20 \
        /packets. /packets;a=b /me /me/ /me// /me/wallet/ //me/wallet /ME/wallet /me/Wallet /me/movements/ /me/wallet/x \
        /wallets /wallets/ /wallets// /wallets//movements /wallets//deposits/x /wallets/a/ /wallets/a/deposits \
        /wallets/a/deposits/ /wallets/a/withdrawals/ /wallets/a/deposits/b/c /wallets/a/movements/ /wallets/a/balance \
        /wallets/a/b/c/d/e/f/g /../me/wallet /./me/wallet /me/../me/wallet /%2e%2e/me/wallet /%00 /%ff /.env /_local \
        /_local/ /_local/x /_local/health/ /$default /prod/me/wallet /index.html /favicon.ico /assets /assets/ \
        /assets/none.js /client/package.json";
    paths.extend(others.split(' ').map(str::to_owned));
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
    let api = Api::with_everything().await;
    api.fund("alice", 5).await;
    let user: [(&str, &[u8]); 1] = [("x-user-id", b"alice")];
    for path in ["/me/wallet", "/%6d%65/%77allet", "/me%2Fwallet", "/me/wallet?"] {
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

/// User ids that contain a separator of either store's key names, or look like a key name.
const STRANGE: &str = "{alice} alice} }alice { }{ a|b a:b a,b a;b a=b a&b a+b ... .a * ~ ' \" \\ `$(x)` <b> PACKET";

#[tokio::test]
async fn strange_users_have_wallets_of_their_own() {
    let api = Api::with_everything().await;
    api.fund("alice", 7).await;
    let longest = "u".repeat(128);
    let users: Vec<&str> = STRANGE.split(' ').chain([&*longest]).collect();
    let encoded = |user: &str| user.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    for (i, user) in users.iter().enumerate() {
        let amount = json!({"amount": 100 + i});
        let target = format!("/wallets/{}/deposits/d", encoded(user));
        let paid = api.raw("PUT", target.as_bytes(), &[], amount.to_string().as_bytes()).await;
        assert_eq!(paid.expect(201)["user_id"], *user);
    }
    let packet = api.packet("sender", "k", &random(1_000, users.len() as u64)).await;
    for (i, user) in users.iter().enumerate() {
        let wallet = json!({"user_id": user, "balance": 100 + i, "pending": 0, "currency": "CNY"});
        assert_eq!(api.get("/me/wallet").by(user).await.expect(200), wallet);
        let grabbed = api.grab(user, &packet).await.expect(200);
        assert_eq!((&grabbed["outcome"], &grabbed["replayed"]), (&json!("grabbed"), &json!(false)), "{user}");
        let mine = api.get("/me/claims").by(user).await.expect(200);
        assert_eq!(mine["totals"], json!({"count": 1, "amount": grabbed["amount"]}));
        let movements = api.raw("GET", format!("/wallets/{}/movements", encoded(user)).as_bytes(), &[], b"").await;
        assert_eq!(movements.expect(200)["movements"].as_array().unwrap().len(), 2);
    }
    assert_eq!(api.balance("alice").await, 7);
    // They also send, with keys of their own.
    for user in users {
        let sent = api.post("/packets").by(user).key("k").json(&random(10, 1)).await.expect(201);
        assert_eq!(sent["sender_id"], *user);
    }
}
