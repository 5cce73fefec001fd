//! What went wrong for users of similar projects, tried here: each case has inputs and the right value.
//!
//! | fault | cases |
//! |---|---|
//! | 1. to 5., 7. the page | `tests/web` |
//! | 4. greetings, 11. times | `shared/src/domain/text.rs`, `shared/src/domain/time.rs` |
//! | 6. null, 7. and 18. user ids, 8. idempotency keys, 10. a base path, 12. HEAD | here, 6. of other bodies in `tests/parsers` |
//! | 9. the zone of days | `send.rs`, `shared/src/domain/day.rs`, `journal` |
//! | 16. a rotated password | `functions/logs.rs`, `shared/src/redis/connection/tests` |
//! | 13. busy and gone receivers, 14. equal bodies | `webhooks.rs`, `functions/notify/tests/delivery.rs` |
//! | 15. secrets of webhooks | `rust_client.rs`, `tests/web/client.test.mjs`, `functions/notify/src/secret.rs` |
//! | 17. CSV | `journal/spreadsheet.rs` |

use lambda_http::Request;
use local::Options;
use serde_json::{Map, Value, json};
use shared::http::idempotency_key;

use super::api::{Api, random, text, with};
use super::coverage::{Handlers, token};
use super::spec::{Answer, SPEC};

/// The optional fields of a send.
const OPTIONAL: [&str; 8] =
    ["greeting", "starts_at", "expires_in_s", "passphrase", "recipients", "cover", "reference", "metadata"];

fn nulls(fields: &[&str]) -> Value {
    fields.iter().map(|field| ((*field).to_owned(), Value::Null)).collect::<Map<_, _>>().into()
}

/// 6. Generated clients write every field of their types, and our own answers contain nulls.
#[tokio::test]
async fn a_null_in_a_send_counts_as_left_out() {
    let api = Api::start().await;
    api.fund("alice", 10_000).await;
    let base = random(100, 10);
    let ask = |path: &'static str, key: &str, body: &Value| api.post(path).by("alice").key(key).json(body);
    let all = nulls(&OPTIONAL);
    let sent = ask("/packets", "all", &with(base.clone(), &all)).await.expect(201);
    for (field, shown) in [
        ("greeting", json!("")),
        ("starts_at", Value::Null),
        ("has_passphrase", json!(false)),
        ("recipients", Value::Null),
        ("cover", Value::Null),
        ("reference", Value::Null),
        ("metadata", Value::Null),
    ] {
        assert_eq!(sent[field], shown, "{field}");
    }
    // All of these ask for the same packet, by either route.
    let defaults = with(base.clone(), &json!({"greeting": "", "expires_in_s": 86_400}));
    for same in
        [&base, &defaults, &with(base.clone(), &nulls(&OPTIONAL[3..])), &with(defaults.clone(), &nulls(&["cover"]))]
    {
        for path in ["/packets", "/users/alice/packets"] {
            assert_eq!(ask(path, "all", same).await.expect(200), sent, "{same}");
        }
    }
    for field in OPTIONAL {
        let single = ask("/packets", field, &with(base.clone(), &nulls(&[field]))).await.expect(201);
        assert_eq!(ask("/packets", field, &base).await.expect(200), single, "{field}");
    }
    for (key, metadata, same) in [
        ("m1", json!({"k": null, "app": "x"}), json!({"app": "x"})),
        ("m2", json!({"k": null}), json!({})),
        ("m3", json!({"a": null, "b": null, "c": ""}), json!({"c": ""})),
    ] {
        let sent = ask("/packets", key, &with(base.clone(), &json!({"metadata": metadata}))).await.expect(201);
        assert_eq!(sent["metadata"], same);
        let again = ask("/packets", key, &with(base.clone(), &json!({"metadata": same}))).await;
        assert_eq!(again.expect(200), sent);
    }
}

/// Ids that are none of ours. The local stack's header can have all of them.
const UNSUPPORTED: &str = "|.|..|a/b|/|a?b|a#b|#|alice#WALLET|a%b|%61lice|a b|a\tb|é|红包|auth0/b|\u{fffd}";

/// 18. The header and the token's subject are judged in one place, by the same rules as ids in paths and bodies.
#[tokio::test]
async fn the_header_of_the_local_stack_obeys_the_rules_of_a_subject() {
    let api = Api::start().await;
    let handlers = Handlers::over(&api, &[]);
    let on_aws = async |authorizer: Value| {
        let answer = handlers.answer(("GET", "/me/wallet"), authorizer, "").await;
        (answer.status, answer.json()["code"].clone())
    };
    let (longest, long) = ("u".repeat(128), "u".repeat(129));
    let supported = ["alice", "auth0|12{3}", "...", "~!$&'()*+,-.<=>[\\]^_`\"", ",", "a,b", &longest];
    for id in supported.into_iter().chain(UNSUPPORTED.split('|')).chain([&*long]) {
        let is_supported = supported.contains(&id);
        let answer = api.raw("GET", b"/me/wallet", &[("x-user-id", id.as_bytes())], b"").await;
        let expected = if is_supported { (200, Value::Null) } else { (403, json!("user-id-unsupported")) };
        assert_eq!((answer.status, answer.json()["code"].clone()), expected, "{id:?}");
        assert_eq!(on_aws(token(id)).await, expected, "{id:?}");
        // In a path and in a body it is the request that is wrong.
        let encoded = id.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
        let path = format!("/wallets/{encoded}");
        let in_path = api.raw("GET", path.as_bytes(), &[], b"").await;
        let splits = id.is_empty() || id.contains('/');
        let wrong = if splits { 404 } else { 400 };
        assert_eq!(in_path.status, if is_supported { 200 } else { wrong }, "{id:?}");
        let body = with(random(100, 1), &json!({"recipients": [id]}));
        let in_body = api.post("/packets").by("poor").key("k").json(&body).await;
        assert_eq!(in_body.status, if is_supported { 402 } else { 400 }, "{id:?}");
    }
    // A token without a subject would come again too. Without a token nobody asks.
    assert_eq!(on_aws(json!({"jwt": {"claims": {}, "scopes": null}})).await, (403, json!("user-id-unsupported")));
    assert_eq!(on_aws(Value::Null).await, (401, json!("unauthenticated")));
    api.get("/me/wallet").await.refused(401, "unauthenticated");
    // White space around a header's value is no part of it.
    let spaced = api.raw("GET", b"/me/wallet", &[("x-user-id", b"  alice \t")], b"").await;
    assert_eq!(spaced.expect(200)["user_id"], "alice");
    // Bytes that are no text are no user's either.
    api.raw("GET", b"/me/wallet", &[("x-user-id", b"\xff")], b"").await.refused(403, "user-id-unsupported");
}

/// 9. API Gateway joins two headers with a comma, and a load balancer passes both on. Of two keys, tickets or tokens, nobody knows which one
/// counts: the same send with one of them would be another packet.
#[tokio::test]
async fn a_header_that_may_be_there_once_is_refused_twice() {
    let api = Api::with_everything().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"eligibility": "ticket"}))).await;
    api.fund("alice", 100).await;
    let (books, long) = (api.books("alice").await, "k".repeat(200));
    for (one, other) in [("K9", "K9"), ("one", "two"), ("\"one\"", "\"two\""), ("\"one", "two\""), (&long, &long)] {
        let two = api.post("/packets").by("alice").key(one).key(other).json(&random(100, 10)).await;
        assert_eq!(two.refused(400, "invalid-request"), ["Idempotency-Key"], "{one} {other}");
    }
    let of_packet = ["", "/claims"].map(|rest| api.get(format!("/packets/{packet}{rest}")).by("bob"));
    for call in of_packet.into_iter().chain([api.grab("bob", &packet)]) {
        let two = call.header("grab-ticket", "a.b.c").header("grab-ticket", "a.b.c").await;
        assert_eq!(two.refused(400, "invalid-request"), ["Grab-Ticket"]);
    }
    for second in ["alice", "bob", ""] {
        let headers: [(&str, &[u8]); 2] = [("x-user-id", b"alice"), ("x-user-id", second.as_bytes())];
        let two = api.raw("GET", b"/me/wallet", &headers, b"").await;
        assert_eq!(two.refused(400, "invalid-request"), ["Authorization"], "{second}");
    }
    assert_eq!(api.books("alice").await, books);
    api.post("/packets").by("alice").key("K9").json(&random(100, 10)).await.expect(201);
}

/// A key as a string of structured fields.
fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// 8. The document's pattern is exactly what the service accepts.
#[test]
fn the_document_says_exactly_which_keys_are_accepted() {
    let schema = SPEC.validator(&SPEC.document["components"]["schemas"]["IdempotencyKey"]);
    let alphabet = ["\"", "\\", "a", "#", ",", " ", "é"];
    let words = (0..=5_u32).flat_map(|length| {
        (0..alphabet.len().pow(length)).map(move |number| {
            (0..length).map(|place| alphabet[number / alphabet.len().pow(place) % alphabet.len()]).collect::<String>()
        })
    });
    let long = (253..=257).flat_map(|length| {
        ["k", "\"", "\\"]
            .map(|letter| letter.repeat(length))
            .into_iter()
            .flat_map(|key| [quoted(&key), format!("\"{key}"), key])
    });
    for key in words.chain(long) {
        let mut request = Request::default();
        request
            .headers_mut()
            .extend(key.parse().ok().map(|value| (http::HeaderName::from_static("idempotency-key"), value)));
        assert_eq!(schema.is_valid(&json!(key)), idempotency_key(&request).is_ok(), "{key}");
    }
}

/// 12. Health checks, link checkers and caches ask with HEAD.
#[tokio::test]
async fn head_is_answered_wherever_get_is() {
    let api = Api::with_everything().await;
    let body = with(random(100, 2), &json!({"recipients": ["alice", "bob"], "reference": "order-17"}));
    let packet = api.packet("alice", "k", &body).await;
    let tag = api.view("alice", &packet).await.header("etag").unwrap().to_owned();
    let mut asked = 0;
    for operation in SPEC.operations().into_iter().filter(|operation| operation.method == "GET") {
        let filled = operation.path.replace("{packet_id}", &packet).replace("{user_id}", "alice");
        let fine = if filled == "/operator/packets" { format!("{filled}?reference=order-17") } else { filled };
        let absent = fine.replace(&packet, "38FS4S83HF3Y07WMYNH727QYT0");
        let alice: (&str, &[u8]) = ("x-user-id", b"alice");
        for (path, headers) in [
            (&*fine, &[alice][..]),
            (&fine, &[]),
            (&fine, &[("x-user-id", b"mallory")]),
            (&fine, &[("x-user-id", b"a/b")]),
            (&fine, &[alice, ("if-none-match", tag.as_bytes())]),
            (&fine, &[alice, ("if-none-match", b"*")]),
            (&absent, &[alice]),
            (&format!("{fine}/nowhere"), &[alice]),
            (&format!("{}?limit=0", operation.path.replace(['{', '}'], "")), &[alice]),
        ] {
            asked += u32::from(same_head(&api, path, headers).await.status == 200);
        }
    }
    assert!(asked > 14, "{asked}");
    for path in ["/", "/p/38FS4S83HF3Y07WMYNH727QYT0", "/assets/app.js", "/config.json", "/_local/health"] {
        assert_eq!(same_head(&api, path, &[]).await.status, 200, "{path}");
        same_head(&api, path, &[("accept-encoding", b"gzip")]).await;
    }
    for path in ["/nowhere", "/assets/none.js", "/_local/settle"] {
        assert!(same_head(&api, path, &[]).await.status > 400, "{path}");
    }
    // Where there is no GET there is no HEAD. `Allow` says where there is one.
    for (method, path, allow) in [
        ("HEAD", "/packets", "POST"),
        ("HEAD", "/packets/x/grab", "POST"),
        ("PUT", "/me/wallet", "GET, HEAD"),
        ("POST", "/packets/x", "GET, HEAD"),
        ("PUT", "/users/alice/packets", "GET, HEAD, POST"),
        ("POST", "/_local/health", "GET, HEAD"),
    ] {
        let answer = api.unchecked(method, path.as_bytes(), &[], b"").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
    }
}

/// The answer to a HEAD, which must be that to the GET without its body.
async fn same_head(api: &Api, path: &str, headers: &[(&str, &[u8])]) -> Answer {
    let get = api.unchecked("GET", path.as_bytes(), headers, b"").await;
    let head = api.unchecked("HEAD", path.as_bytes(), headers, b"").await;
    assert_eq!((head.status, head.bytes.len()), (get.status, 0), "{}", head.describe());
    let mut of_get = get.headers.clone();
    let mut of_head = head.headers.clone();
    assert!(of_head.contains_key("content-type") || head.status == 304, "{}", head.describe());
    for all in [&mut of_get, &mut of_head] {
        for of_one_request in ["date", "x-request-id"] {
            all.remove(of_one_request);
        }
        if get.status >= 400 {
            // A problem has the number of its request.
            all.remove("content-length");
        }
    }
    assert_eq!(of_head, of_get, "{path}");
    head
}

/// 10. Below a base path the API and the page are as without it. Paths that only begin alike are others.
#[tokio::test]
async fn everything_works_below_a_base_path() {
    let options = Options { base_path: Some("/api/hongbao".to_owned()), ..Options::ephemeral() };
    let api = Api::start_with(options).await;
    let base = api.local.url();
    assert!(base.ends_with("/api/hongbao"), "{base}");
    let packet = api.packet("alice", "k", &with(random(20, 2), &json!({"reference": "r"}))).await;
    assert_eq!(api.grab("bob", &packet).await.expect(200)["outcome"], "grabbed");
    assert_eq!(api.all("bob", "/me/claims", "claims", 1).await.len(), 1);
    let found = api.get("/operator/packets?reference=r").await.expect(200);
    assert_eq!(found["packets"].as_array().map(Vec::len), Some(1));
    api.get("/nowhere").by("alice").await.refused(404, "route-not-found");

    // As a browser asks: the answers are not those of the document.
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let get = async |url: String| {
        let answer = http.get(url).send().await.unwrap();
        let location = answer.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location, answer.text().await.unwrap())
    };
    assert_eq!(get(base.clone()).await.1.as_deref(), Some("/api/hongbao/"));
    assert_eq!(get(format!("{base}?a=b")).await.1.as_deref(), Some("/api/hongbao/?a=b"));
    let (_, _, config) = get(format!("{base}/config.json")).await;
    assert_eq!(serde_json::from_str::<Value>(&config).unwrap()["api"], "/api/hongbao");
    assert_eq!(get(format!("{base}/_local/health")).await.0, 200);
    let host = base.strip_suffix("/api/hongbao").unwrap();
    let others = "/ /api /api/ /api/hongbaoX/ /api/hongbaoX/me/wallet /API/hongbao/ /me/wallet /_local/health";
    for path in others.split(' ') {
        let (status, _, body) = get(format!("{host}{path}")).await;
        let code = serde_json::from_str::<Value>(&body).map(|body| text(&body["code"])).unwrap_or(body);
        assert_eq!((status, &*code), (404, "route-not-found"), "{path}");
    }
}
