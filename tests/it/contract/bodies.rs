//! Bodies: invalid ones for every route, which are refused and change nothing, and the limits that no schema can say. `tests/fuzz-api` holds
//! every field to the limits of the document.

use std::time::Duration;

use serde_json::{Value, json};
use shared::domain::{Passphrase, is_plain};
use shared::ports::{Clock, System};

use super::api::{Api, random, with};
use super::spec::{Answer, SPEC};

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
    let limits = json!({"daily_sent_max": 1_000, "deposit_max": 10});
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
        route("limits", "PUT", "/operator/users/zoe/limits", &limits, 200, BYTES_MAX),
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

    /// The valid body, with spaces behind it up to this length.
    fn padded(&self, length: usize) -> Vec<u8> {
        let fine = self.fine.to_string();
        [fine.as_bytes(), &vec![b' '; length - fine.len()]].concat()
    }

    fn fields(&self) -> Vec<&String> {
        self.fine.as_object().unwrap().keys().collect()
    }
}

/// Calls every route and checks that nothing has changed. Then checks that the valid body is still accepted, as long as it may be.
async fn nothing_changes(ask: impl AsyncFn(&Api, &Route)) {
    let api = Api::with_everything().await;
    api.fund("alice", 1_000).await;
    let routes = routes(&api).await;
    let books = (api.books("alice").await, api.books("sender").await);
    for route in &routes {
        ask(&api, route).await;
        assert_eq!((api.books("alice").await, api.books("sender").await), books, "{}", route.name);
    }
    for route in &routes {
        let fine = route.ask(&api, &route.padded(route.bytes_max)).await;
        assert_eq!(fine.status, route.status, "the key or id is free: {}", fine.describe());
    }
}

#[tokio::test]
async fn bodies_that_are_not_a_json_object() {
    nothing_changes(async |api, route| {
        let fine = route.fine.to_string();
        let fine = fine.as_bytes();
        let utf16: Vec<u8> = route.fine.to_string().encode_utf16().flat_map(u16::to_le_bytes).collect();
        let none =
            r#"[]|[1]|true|0|1e400|""|"{}"|{|}|{,}|{1:2}|{'amount':1}|{amount:1}|/* */ {}|amount=1|<amount>1</amount>"#;
        let binary: [&[u8]; 5] = [b"\0", b"\xff", b"\xc0\x80", b"{\"\xff\":1}", &utf16];
        // A form feed is white space for some parsers, but not in JSON.
        let around = [
            ("[", "]"),
            ("", "}"),
            ("", "{}"),
            ("", " // x"),
            ("", "x"),
            ("", "\0"),
            ("\0", ""),
            ("\u{feff}", ""),
            ("\x0c", ""),
        ];
        let around = around.map(|(before, after)| [before.as_bytes(), fine, after.as_bytes()].concat());
        let twice = [fine, fine].concat();
        let whole = around.iter().map(Vec::as_slice).chain([&*twice]);
        for body in none.split('|').map(str::as_bytes).chain(binary).chain(whole) {
            route.no_object(api, body).await;
        }
        // The first error is named: an unknown field, or the missing end.
        for body in [&b"{\"amount\"}"[..], b"{\"amount\":}", b"{\"amount\":1,}", b"{}}", b"{} {}"] {
            route.ask(api, body).await.refused(400, "invalid-request");
        }
        let empty: [&[u8]; 5] = [b"", b" ", b"\r\n\t \n", b"null", b" null\n"];
        for body in empty.into_iter().filter(|_| !route.name.starts_with("grab")) {
            route.no_object(api, body).await;
        }
        // Nor is one that is deeper than its reader goes.
        let depth = if route.name.starts_with("send") { 100_000 } else { 16_000 };
        route.no_object(api, "[".repeat(depth).as_bytes()).await;
        for field in route.fields() {
            let deep = route.with(field, ["[".repeat(8_000), "]".repeat(8_000)].concat().as_bytes());
            route.ask(api, &deep).await.refused(400, "invalid-request");
        }
        // A body that is cut anywhere is not JSON either.
        for end in 1..fine.len() {
            route.no_object(api, &fine[..end]).await;
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
async fn bodies_over_the_limit() {
    nothing_changes(async |api, route| {
        // The gateway refuses the longest ones itself, in the same form.
        for length in [route.bytes_max + 1, 1_024 * KIB, 1_024 * KIB + 1, 3_000 * KIB] {
            assert!(route.ask(api, &route.padded(length)).await.refused(413, "payload-too-large").is_empty());
        }
        route.no_object(api, &vec![b'{'; route.bytes_max]).await;
        let wide = route.with("x", format!("\"{}\"", "y".repeat(10_000)).as_bytes());
        route.field(api, "x", &wide).await;
    })
    .await;
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

/// Tries values of a field in an otherwise valid body. A refusal must name the field.
async fn try_values(field: &str, base: &Value, good: &[Value], bad: &[Value]) {
    let api = Api::start().await;
    for i in 0..4 {
        let id = format!("d{i}");
        api.put(format!("/wallets/alice/deposits/{id}"))
            .json(&json!({"amount": 1_000_000_000_000_u64}))
            .await
            .expect(201);
    }
    for (i, value) in bad.iter().enumerate() {
        let body = with(base.clone(), &json!({field: value}));
        let books = api.books("alice").await;
        let fields = api.post("/packets").by("alice").key(&format!("k{i}")).json(&body).await;
        let fields = fields.refused(400, "invalid-request");
        let is_in = |mark| fields[0].starts_with(&format!("{field}{mark}"));
        assert!(fields[0] == field || is_in('[') || is_in('.'), "{fields:?} {value}");
        assert_eq!(fields.len(), 1, "{fields:?} {value}");
        assert_eq!(api.books("alice").await, books);
    }
    for (i, value) in good.iter().enumerate() {
        let body = with(base.clone(), &json!({field: value}));
        // The keys of refused requests are free.
        let sent = api.post("/packets").by("alice").key(&format!("k{i}")).json(&body).await.expect(201);
        if let Some(shown) = sent.get(field) {
            let mut value = value.clone();
            if let Some(users) = value.as_array_mut() {
                users.sort_by_key(ToString::to_string);
            }
            assert_eq!(*shown, value);
        }
    }
}

#[tokio::test]
async fn a_total_of_one_a_slip_to_the_most_a_slip_can_hold() {
    for (count, least, most) in [(1, 1, 20_000), (10, 10, 200_000), (100_000, 100_000, 2_000_000_000_u64)] {
        for split in ["random", "equal"] {
            let base = json!({"split": split, "count": count});
            let good = [json!(least), json!(least + 1), json!(most - 1), json!(most)];
            try_values("total_amount", &base, &good, &[json!(least - 1), json!(most + 1)]).await;
        }
    }
}

/// Characters by themselves and beside emoji, and all words of up to four letters that matter to each other.
fn odd_texts() -> impl Iterator<Item = String> {
    // The first plane except Han and Hangul, and the edges of what a text may have in the others.
    let letters = ('\0'..'\u{3400}').chain('\u{d7a0}'..'\u{ffff}');
    let letters = letters.chain('\u{1bc9f}'..'\u{1bca5}').chain('\u{1d172}'..'\u{1d17c}');
    let letters = letters.chain('\u{1eff0}'..'\u{1fb10}').chain('\u{dfff0}'..'\u{e1010}');
    let letters = letters.chain('\u{10fff0}'..=char::MAX);
    let beside = |letter: char| {
        [letter.to_string(), format!("{letter}\u{fe0f}"), format!("👩\u{200d}{letter}"), format!("{letter}\u{200d}👩")]
    };
    let alphabet = ["a", "1", "❤", "👩", " ", "\u{200b}", "\u{200d}", "\u{fe0f}"];
    let words = (1..=4).flat_map(move |length| {
        (0..alphabet.len().pow(length)).map(move |number| {
            (0..length).map(|place| alphabet[number / alphabet.len().pow(place) % alphabet.len()]).collect::<String>()
        })
    });
    letters.flat_map(beside).chain(words)
}

/// Patterns that every tool reads can't say more than that: they only exclude the control characters of ASCII.
#[test]
fn the_documents_patterns_refuse_no_text_that_is_accepted() {
    let schemas = &SPEC.document["components"]["schemas"];
    let [greeting, passphrase, metadata] =
        ["Greeting", "Passphrase", "SendMetadata"].map(|name| SPEC.validator(&schemas[name]));
    for text in odd_texts() {
        assert!(greeting.is_valid(&json!(text)) || !is_plain(&text), "greeting {text:?}");
        let pairs = [json!({text.clone(): "v"}), json!({"k": text})];
        assert!(pairs.iter().all(|pair| metadata.is_valid(pair)) || !is_plain(&text), "metadata {text:?}");
        let is_accepted = !Passphrase::new(&text).as_str().is_empty() && !text.contains(char::is_control);
        assert!(passphrase.is_valid(&json!(text)) || !is_accepted, "passphrase {text:?}");
        if text.contains(|letter: char| letter.is_ascii_control()) {
            assert!(!greeting.is_valid(&json!(text)) && !passphrase.is_valid(&json!(text)), "{text:?}");
            assert!(!pairs.iter().any(|pair| metadata.is_valid(pair)), "{text:?}");
        }
    }
}

#[tokio::test]
async fn recipients() {
    let named = |count: usize| (0..count).map(|i| json!(format!("user-{i}"))).collect::<Vec<_>>();
    // 500 of the longest names are within the body's limit.
    let longest: Vec<Value> = (0..500).map(|i| json!(format!("{i:0>128}"))).collect();
    let good = [json!(["a"]), json!(named(500)), json!(longest), json!(["a", "A"]), json!(["{x}", "a|b", "\"", "\\"])];
    let long = "u".repeat(129);
    let mut bad = vec![json!([]), json!(named(501)), json!(["a", "b", "a"]), json!(vec!["a"; 500])];
    for id in ["", " ", "a b", "a#b", "a/b", "a?b", "a%b", "a\nb", "\u{0}", "é", "红", &*long] {
        bad.push(json!(["fine", id]));
    }
    try_values("recipients", &random(10, 1), &good, &bad).await;
}
