//! Invalid bodies for every route with a body. All are refused and change nothing.

use std::time::Duration;

use serde_json::{Value, json};
use shared::ports::{Clock, System};

use super::api::{Api, random, with};
use super::spec::Answer;

const KIB: usize = 1_024;
const SEND_BYTES_MAX: usize = 128 * KIB;
const BYTES_MAX: usize = 16 * KIB;

/// A route with a body.
struct Route {
    name: &'static str,
    method: &'static str,
    path: String,
    /// A valid body with every field.
    fine: Value,
    /// The status of the answer to the valid body.
    status: u16,
    bytes_max: usize,
}

async fn routes(api: &Api) -> Vec<Route> {
    let packet = api.packet("sender", "routes", &random(1_000, 10)).await;
    let (amount, passphrase) = (json!({"amount": 100}), json!({"passphrase": "abc"}));
    let starts_at = System.now().after(Duration::from_hours(1)).to_string();
    let fine = json!({
        "split": "random", "total_amount": 100, "count": 10, "greeting": "hi", "starts_at": starts_at, "expires_in_s": 60,
        "passphrase": "abc",
        "recipients": ["bob", "carol"], "cover": "spring", "reference": "order-17", "metadata": {"k": "v"}
    });
    let route = |name, method, path: &str, fine: &Value, status, bytes_max| Route {
        name,
        method,
        path: path.to_owned(),
        fine: fine.clone(),
        status,
        bytes_max,
    };
    vec![
        route("send", "POST", "/packets", &fine, 201, SEND_BYTES_MAX),
        route("grab", "POST", &format!("/packets/{packet}/grab"), &passphrase, 200, BYTES_MAX),
        // The same send under the same key, and the same grab, so both are repetitions.
        route("send for a user", "POST", "/users/alice/packets", &fine, 200, SEND_BYTES_MAX),
        route("grab for a user", "POST", &format!("/users/alice/packets/{packet}/grab"), &passphrase, 200, BYTES_MAX),
        route("deposit", "PUT", "/wallets/alice/deposits/bodies", &amount, 201, BYTES_MAX),
        route("withdraw", "PUT", "/wallets/alice/withdrawals/bodies", &amount, 201, BYTES_MAX),
    ]
}

impl Route {
    async fn ask(&self, api: &Api, body: &[u8]) -> Answer {
        api.call(self.method, &self.path).by("alice").key("bodies").body(body).await
    }

    /// The body is not a JSON object.
    async fn no_object(&self, api: &Api, body: &[u8]) {
        let answer = self.ask(api, body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        assert!(answer.refused(400, "invalid-request").is_empty(), "{}: {shown}", self.name);
    }

    /// Only this field, or something in it, is invalid.
    async fn field(&self, api: &Api, field: &str, body: &[u8]) {
        let answer = self.ask(api, body).await;
        let fields = answer.refused(400, "invalid-request");
        let shown = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        // A number that no parser accepts is not JSON.
        let is_in = |mark| fields[0].starts_with(&format!("{field}{mark}"));
        let fine = fields.len() == 1 && (fields[0] == field || is_in('[') || is_in('.'));
        assert!(fine, "{}: {field} in {shown}: {}", self.name, answer.describe());
    }

    /// The valid body, with one field replaced by these bytes.
    fn with(&self, field: &str, value: &[u8]) -> Vec<u8> {
        let mut body = b"{".to_vec();
        for (name, fine) in self.fine.as_object().unwrap() {
            let fine = fine.to_string();
            let value = if name == field { value } else { fine.as_bytes() };
            body.extend([json!(name).to_string().as_bytes(), b":", value, b","].concat());
        }
        if !self.fine.as_object().unwrap().contains_key(field) {
            body.extend([json!(field).to_string().as_bytes(), b":", value, b","].concat());
        }
        body.pop();
        body.push(b'}');
        body
    }

    fn fields(&self) -> Vec<&String> {
        self.fine.as_object().unwrap().keys().collect()
    }
}

/// Calls every route and checks that nothing has changed. Then checks that the valid body is still accepted.
async fn nothing_changes(ask: impl AsyncFn(&Api, &Route)) {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let routes = routes(&api).await;
    let books = (api.books("alice").await, api.books("sender").await);
    for route in &routes {
        ask(&api, route).await;
        assert_eq!((api.books("alice").await, api.books("sender").await), books, "{}", route.name);
    }
    for route in &routes {
        let fine = route.ask(&api, route.fine.to_string().as_bytes()).await;
        assert_eq!(fine.status, route.status, "the key or id is free: {}", fine.describe());
    }
}

#[tokio::test]
async fn bodies_that_are_not_a_json_object() {
    nothing_changes(async |api, route| {
        let fine = route.fine.to_string();
        let fine = fine.as_bytes();
        let utf16: Vec<u8> = route.fine.to_string().encode_utf16().flat_map(u16::to_le_bytes).collect();
        let bodies: [&[u8]; 33] = [
            b"[]",
            b"[1]",
            &[b"[", fine, b"]"].concat(),
            b"null",
            b"true",
            b"0",
            b"1e400",
            b"\"\"",
            b"\"{}\"",
            b"{",
            b"}",
            &[fine, b"}"].concat(),
            &[fine, b"{}"].concat(),
            b"{,}",
            b"{1:2}",
            b"{'amount':1}",
            b"{amount:1}",
            b"/* */ {}",
            &[fine, b" // x"].concat(),
            b"amount=1",
            b"<amount>1</amount>",
            b"\0",
            b"\xff",
            b"\xc0\x80",
            b"{\"\xff\":1}",
            &[fine, b"x"].concat(),
            &[fine, b"\0"].concat(),
            &[b"\0", fine].concat(),
            &[fine, fine].concat(),
            &[b"\xef\xbb\xbf", fine].concat(),
            &[b"\x0c", fine].concat(),
            &fine[..fine.len() - 1],
            &utf16,
        ];
        for body in bodies {
            // A form feed is white space for some parsers, but not in JSON.
            route.no_object(api, body).await;
        }
        // The first error is named: an unknown field, or the missing end.
        for body in [&b"{\"amount\"}"[..], b"{\"amount\":}", b"{\"amount\":1,}", b"{}}", b"{} {}"] {
            route.ask(api, body).await.refused(400, "invalid-request");
        }
        let empty: [&[u8]; 3] = [b"", b" ", b"\r\n\t \n"];
        for body in empty.into_iter().filter(|_| !route.name.starts_with("grab")) {
            route.no_object(api, body).await;
        }
        // A body that is cut anywhere is not JSON either.
        for end in 1..fine.len() {
            route.no_object(api, &fine[..end]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn deep_nesting() {
    nothing_changes(async |api, route| {
        let depth = if route.name.starts_with("send") { 100_000 } else { 16_000 };
        route.no_object(api, "[".repeat(depth).as_bytes()).await;
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let depth = depth / (open.len() + close.len());
            let deep = [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat();
            for body in [format!("{{\"x\":{deep}}}"), deep] {
                let answer = route.ask(api, body.as_bytes()).await;
                answer.refused(400, "invalid-request");
            }
        }
        for field in route.fields() {
            let deep = route.with(field, ["[".repeat(8_000), "]".repeat(8_000)].concat().as_bytes());
            route.ask(api, &deep).await.refused(400, "invalid-request");
        }
    })
    .await;
}

#[tokio::test]
async fn fields_of_the_wrong_type() {
    nothing_changes(async |api, route| {
        let numbers: [&[u8]; 9] =
            [b"1.0", b"1e2", b"1.5", b"-0.0", b"1E+2", b"100.00", b"0.1", b"1e-7", b"123456789012345678901234567890"];
        // A null is no value of a wrong type, but a field that is left out.
        let others: [&[u8]; 5] = [b"true", b"{}", b"{\"a\":1}", b"[[]]", b"[null]"];
        for field in route.fields() {
            let is = &route.fine[field];
            for value in others.into_iter().chain(numbers).filter(|value| !is.is_object() || *value != b"{}") {
                route.field(api, field, &route.with(field, value)).await;
            }
            if is.is_number() {
                for value in [&b"\"100\""[..], b"\"\"", b"[100]", b"[]", b"false"] {
                    route.field(api, field, &route.with(field, value)).await;
                }
            } else {
                route.field(api, field, &route.with(field, b"100")).await;
                route.field(api, field, &route.with(field, b"-1")).await;
            }
            if is.is_string() {
                route.field(api, field, &route.with(field, b"[\"abc\"]")).await;
            }
            if is.is_array() {
                route.field(api, field, &route.with(field, b"\"bob\"")).await;
                route.field(api, field, &route.with(field, b"{\"0\":\"bob\"}")).await;
                route.field(api, field, &route.with(field, b"[\"bob\",1]")).await;
            }
            if is.is_object() {
                for value in
                    [&b"[[\"k\",\"v\"]]"[..], b"{\"k\":[null]}", b"{\"k\":[\"v\"]}", b"{\"k\":\"v\",\"k\":\"v\"}"]
                {
                    route.field(api, field, &route.with(field, value)).await;
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn numbers_that_are_not_amounts() {
    nothing_changes(async |api, route| {
        for field in route.fields().into_iter().filter(|field| route.fine[*field].is_number()) {
            let huge = "9".repeat(10_000);
            for value in [
                "0",
                "-1",
                "-100",
                "-0",
                "9223372036854775807",
                "9223372036854775808",
                "-9223372036854775808",
                "-9223372036854775809",
                "18446744073709551615",
                "18446744073709551616",
                "340282366920938463463374607431768211456",
                "1000000000000000000000000000000",
            ] {
                route.field(api, field, &route.with(field, value.as_bytes())).await;
            }
            for value in [&*huge, "1e400", "-1e400", "1e99999999999"] {
                route.ask(api, &route.with(field, value.as_bytes())).await.refused(400, "invalid-request");
            }
            for value in ["01", "+1", "0x10", "1_000", "1,0", "NaN", "Infinity", "-", ".5", "1.", "1e", "１"] {
                route.no_object(api, &route.with(field, value.as_bytes())).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_text() {
    nothing_changes(async |api, route| {
        for field in route.fields().into_iter().filter(|field| route.fine[*field].is_string()) {
            let broken: [&[u8]; 11] = [
                b"\"\\ud800\"",
                b"\"\\udc00\\ud800\"",
                b"\"\\ud83e\"",
                b"\"\\ud83ex\"",
                b"\"\xed\xa0\x80\"",
                b"\"\xff\"",
                b"\"\xe6\x81\"",
                b"\"a\0b\"",
                b"\"a\nb\"",
                b"\"\\x41\"",
                b"\"\\u12\"",
            ];
            for value in broken {
                route.no_object(api, &route.with(field, value)).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn unknown_and_repeated_fields() {
    nothing_changes(async |api, route| {
        let fine = route.fine.to_string();
        for unknown in ["x", "", " ", "__proto__", "constructor", "sender_id", "user_id", "sub", "packet_id", "红包"]
        {
            route.field(api, unknown, &route.with(unknown, b"1")).await;
            route.field(api, unknown, &route.with(unknown, b"null")).await;
        }
        route.ask(api, &route.with(&"x".repeat(5_000), b"1")).await.refused(400, "invalid-request");
        route.ask(api, &route.with("a`b\u{0}\"\n", b"1")).await.refused(400, "invalid-request");
        for field in route.fields() {
            let upper = field.to_uppercase();
            route.field(api, &upper, &route.with(&upper, b"1")).await;
            let spaced = format!(" {field}");
            route.field(api, &spaced, &route.with(&spaced, b"1")).await;
            // Another parser might use the second value.
            let value = route.fine[field].to_string();
            let escaped = format!("\\u{:04x}{}", u32::from(field.chars().next().unwrap()), &field[1..]);
            for name in [field, &escaped] {
                let twice = format!("{},\"{name}\":{value}}}", &fine[..fine.len() - 1]);
                route.field(api, field, twice.as_bytes()).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn missing_fields() {
    let api = Api::start().await;
    for route in routes(&api).await {
        let required: &[&str] = match route.name {
            "send" | "send for a user" => &["split", "total_amount", "count"],
            "grab" | "grab for a user" => &[],
            _ => &["amount"],
        };
        for field in required {
            let mut body = route.fine.clone();
            body.as_object_mut().unwrap().remove(*field);
            route.field(&api, field, body.to_string().as_bytes()).await;
        }
        if !required.is_empty() {
            route.field(&api, required[0], b"{}").await;
        }
    }
}

#[tokio::test]
async fn bodies_over_the_limit() {
    nothing_changes(async |api, route| {
        let fine = route.fine.to_string();
        let padded = |length: usize| [fine.as_bytes(), &vec![b' '; length - fine.len()]].concat();
        for body in [padded(route.bytes_max + 1), padded(1_024 * KIB), vec![b'{'; route.bytes_max + 1]] {
            assert!(route.ask(api, &body).await.refused(413, "payload-too-large").is_empty());
        }
        // The gateway refuses such bodies itself, in the same form.
        for length in [1_024 * KIB + 1, 3_000 * KIB] {
            assert!(route.ask(api, &padded(length)).await.refused(413, "payload-too-large").is_empty());
        }
        route.no_object(api, &vec![b'{'; route.bytes_max]).await;
        let wide = route.with("x", format!("\"{}\"", "y".repeat(10_000)).as_bytes());
        route.field(api, "x", &wide).await;
    })
    .await;
}

#[tokio::test]
async fn a_body_at_the_limit_is_read() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    for route in routes(&api).await {
        let fine = route.fine.to_string();
        let body = [fine.as_bytes(), &vec![b' '; route.bytes_max - fine.len()]].concat();
        assert_eq!(route.ask(&api, &body).await.status, route.status, "{}", route.name);
    }
}

#[tokio::test]
async fn all_errors_are_named_at_once() {
    let api = Api::start().await;
    let body = json!({
        "split": "half", "total_amount": 1, "count": 0, "greeting": "\u{0}", "expires_in_s": 0, "passphrase": "",
        "starts_at": "x", "recipients": [], "cover": "A", "reference": "a b", "metadata": {"": "x"}
    });
    let mut fields = api.post("/packets").by("alice").key("k").json(&body).await.refused(400, "invalid-request");
    fields.sort();
    // The limit of the total depends on the count.
    let texts = ["greeting", "metadata", "passphrase", "recipients", "reference", "split", "starts_at"];
    assert_eq!(fields, [&["count", "cover", "expires_in_s"], &texts[..]].concat());
    let both = api.put("/wallets/a%23b/deposits/a.b").json(&json!({"amount": 0})).await;
    assert_eq!(both.refused(400, "invalid-request"), ["user_id", "deposit_id", "amount"]);
    let fine = with(random(10, 1), &json!({"split": "random"}));
    api.fund("alice", 10).await;
    api.post("/packets").by("alice").key("k").json(&fine).await.expect(201);
}
