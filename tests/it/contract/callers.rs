//! Callers, and user ids in paths: no id reaches another user's data.

use serde_json::json;

use super::api::{Api, random};

/// The routes of a signed-in user.
pub const USER_ROUTES: [(&str, &str); 8] = [
    ("POST", "/packets"),
    ("GET", "/packets/38FS4S83HF3Y07WMYNH727QYT0"),
    ("POST", "/packets/38FS4S83HF3Y07WMYNH727QYT0/grab"),
    ("GET", "/packets/38FS4S83HF3Y07WMYNH727QYT0/claims"),
    ("GET", "/me/wallet"),
    ("GET", "/me/packets"),
    ("GET", "/me/claims"),
    ("GET", "/me/movements"),
];

/// User ids that contain a separator of either store's key names, or look like a key name.
const STRANGE: [&str; 22] = [
    "{alice}", "alice}", "}alice", "{", "}{", "a|b", "a:b", "a,b", "a;b", "a=b", "a&b", "a+b", "...", ".a", "*", "~",
    "'", "\"", "\\", "`$(x)`", "<b>", "PACKET",
];

#[tokio::test]
async fn requests_without_a_caller_are_refused() {
    let api = Api::start().await;
    for (method, path) in USER_ROUTES {
        let body = random(10, 1);
        api.call(method, path).key("k").json(&body).await.refused(401, "unauthenticated");
        // No other header and no field sets the caller.
        let forged = api.call(method, path).key("k").header("authorization", "Bearer alice").header("x-user", "alice");
        forged.json(&json!({"sub": "alice"})).await.refused(401, "unauthenticated");
        let twice = api.call(method, path).by("alice").by("bob").key("k").json(&body);
        twice.await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn invalid_user_ids_are_refused() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let books = api.books("alice").await;
    let long = "u".repeat(129);
    let bad: [&[u8]; 14] = [
        b"",
        b"a b",
        b"alice#WALLET",
        b"alice#",
        b"#alice",
        b"a/b",
        b"a?b",
        b"a%b",
        b"%61lice",
        b"alice\tx",
        "é".as_bytes(),
        "红".as_bytes(),
        b"\xff",
        long.as_bytes(),
    ];
    for user in bad {
        for (method, path) in USER_ROUTES {
            let headers: [(&str, &[u8]); 2] = [("x-user-id", user), ("idempotency-key", b"k")];
            let body = random(10, 1).to_string();
            let answer = api.raw(method, path.as_bytes(), &headers, body.as_bytes()).await;
            answer.refused(403, "user-id-unsupported");
        }
    }
    assert_eq!(api.books("alice").await, books);
}

#[tokio::test]
async fn strange_users_have_wallets_of_their_own() {
    let api = Api::start().await;
    api.fund("alice", 7).await;
    let longest = "u".repeat(128);
    let users: Vec<&str> = STRANGE.into_iter().chain([&*longest]).collect();
    let encoded = |user: &str| user.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    for (i, user) in users.iter().enumerate() {
        let amount = json!({"amount": 100 + i});
        let target = format!("/wallets/{}/deposits/d", encoded(user));
        let paid = api.raw("PUT", target.as_bytes(), &[], amount.to_string().as_bytes()).await;
        assert_eq!(paid.expect(201)["user_id"], *user);
    }
    let packet = api.packet("sender", "k", &random(1_000, users.len() as u64)).await;
    for (i, user) in users.iter().enumerate() {
        let wallet = json!({"user_id": user, "balance": 100 + i, "currency": "CNY"});
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

#[tokio::test]
async fn a_user_id_in_a_path_is_valid_or_refused() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let books = api.books("alice").await;
    let long = "u".repeat(129);
    let bad: [&str; 18] = [
        "%2E",
        "%2E%2E",
        "%20",
        "alice%20",
        "alice%23WALLET",
        "%23",
        "a%3Fb",
        "a%25b",
        "%2500",
        "%00",
        "alice%00",
        "alice%0A",
        "%0D%0A",
        "%7F",
        "%C3%A9",
        "%ff%fe",
        "%E7%BA%A2",
        &long,
    ];
    for user in bad {
        for target in [format!("/wallets/{user}"), format!("/wallets/{user}/movements")] {
            let answer = api.raw("GET", target.as_bytes(), &[], b"").await;
            assert_eq!(answer.refused(400, "invalid-request"), ["user_id"], "{target}");
        }
        let id = "38FS4S83HF3Y07WMYNH727QYT0";
        for (method, tail) in [
            ("POST", "packets"),
            ("GET", "packets"),
            ("GET", "claims"),
            ("GET", &format!("packets/{id}")),
            ("POST", &format!("packets/{id}/grab")),
            ("GET", &format!("packets/{id}/claims")),
        ] {
            let target = format!("/users/{user}/{tail}");
            let body = if tail == "packets" { random(10, 1).to_string() } else { String::new() };
            let answer = api.raw(method, target.as_bytes(), &[("idempotency-key", b"k")], body.as_bytes()).await;
            assert_eq!(answer.refused(400, "invalid-request"), ["user_id"], "{target}");
        }
        for kind in ["deposits", "withdrawals"] {
            let answer = api.raw("PUT", format!("/wallets/{user}/{kind}/x").as_bytes(), &[], b"{\"amount\":1}").await;
            assert_eq!(answer.refused(400, "invalid-request"), ["user_id"]);
        }
    }
    // An encoded slash splits the path, as in API Gateway.
    for (method, target) in [
        ("GET", "/wallets/alice%2Fbob"),
        ("GET", "/wallets/a%2Fb/movements"),
        ("PUT", "/wallets/a%2Fb/deposits/x"),
        ("PUT", "/wallets/a/deposits/x%2Fy"),
        ("PUT", "/wallets/a/withdrawals/x%2fy"),
        ("POST", "/users/a%2Fb/packets"),
        ("GET", "/users/a%2Fb/claims"),
    ] {
        let answer = api.raw(method, target.as_bytes(), &[], b"{\"amount\":1}").await;
        answer.refused(404, "route-not-found");
    }
    assert_eq!(api.books("alice").await, books);
}

#[tokio::test]
async fn ids_of_deposits_and_withdrawals_are_plain() {
    let api = Api::start().await;
    let long = "i".repeat(65);
    for (kind, field) in [("deposits", "deposit_id"), ("withdrawals", "withdrawal_id")] {
        for id in ["a.b", "a%23b", "a%20b", "%00", "%0A", "a%3Fb", "%7B%7D", "a,b", "%D0%BA", "WALLET%23", &*long] {
            let target = format!("/wallets/alice/{kind}/{id}");
            let answer = api.raw("PUT", target.as_bytes(), &[], b"{\"amount\":1}").await;
            assert_eq!(answer.refused(400, "invalid-request"), [field], "{target}");
        }
    }
    assert!(api.all("", "/wallets/alice/movements", "movements", 100).await.is_empty());
}

#[tokio::test]
async fn a_packet_id_of_any_bytes_is_not_found() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    let hash = format!("{packet}%230");
    let nul = format!("{packet}%00");
    let line = format!("{packet}%0A");
    let space = format!("%20{packet}");
    let long = "A".repeat(5_000);
    let ids: [&[u8]; 19] = [
        hash.as_bytes(),
        nul.as_bytes(),
        line.as_bytes(),
        space.as_bytes(),
        long.as_bytes(),
        b"%00",
        b"%0d%0a",
        b"%ff%fe%fd",
        b"%",
        b"%zz",
        b"..",
        b"%2e%2e",
        b"*",
        b"%7B0%7D",
        b"hb:%7B0%7D:pending",
        b"META",
        "红包".as_bytes(),
        b"\"'<>\\`",
        b"%F0%9F%A7%A7",
    ];
    for id in ids {
        for (method, tail) in [("GET", ""), ("POST", "/grab"), ("GET", "/claims")] {
            let target = [b"/packets/", id, tail.as_bytes()].concat();
            let answer = api.unchecked(method, &target, &[("x-user-id", b"bob")], b"").await;
            // The server may refuse bytes that no URI contains before it reads them.
            if answer.status != 400 || !answer.bytes.is_empty() {
                super::spec::SPEC.check(&answer);
                answer.refused(404, "packet-not-found");
            }
        }
    }
    assert_eq!(api.view("alice", &packet).await.expect(200)["claimed_count"], 0);
}
