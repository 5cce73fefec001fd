//! Bodies: invalid ones for every route, which are refused and change nothing, and every field at its limits and one beyond.

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
    for api in Api::through_each_entrance().await {
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
async fn fields_of_the_wrong_type() {
    nothing_changes(async |api, route| {
        // A null is no value of a wrong type, but a field that is left out.
        let numbers =
            "1.5 -0.0 0.1 1e-7 100.5 1001e-1 1e400 1e-400 1e99999999999999999999 123456789012345678901234567890";
        for field in route.fields() {
            let own = match &route.fine[field] {
                Value::Number(_) => r#"{} "100" "" [100] [] false 0 -1 9223372036854775808 18446744073709551616"#,
                Value::String(_) => r#"{} 100 100.0 -1 ["abc"]"#,
                Value::Array(_) => r#"{} 100 -1 "bob" {"0":"bob"} ["bob",1]"#,
                _ => r#"100 -1 [["k","v"]] {"k":[null]} {"k":["v"]} {"k":"v","k":"v"}"#,
            };
            let all = r#"true {"a":1} [[]] [null]"#.split(' ').chain(numbers.split(' ')).chain(own.split(' '));
            for value in all {
                route.field(api, field, &route.with(field, value.as_bytes())).await;
            }
        }
    })
    .await;
}

/// JSON has one kind of numbers, and JSON Schema's integers are those without a fraction. Some languages write all of theirs so.
#[tokio::test]
async fn integers_are_numbers_without_a_fraction() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let plain = json!({"split": "equal", "total_amount": 200, "count": 2, "expires_in_s": 60, "limit": {"key": "k", "wins": 1, "amount": 100}});
    let sent = api.post("/packets").by("alice").key("k").json(&plain).await.expect(201);
    for [hundred, two_hundred, two, sixty, one] in [
        ["100.0", "200.0", "2.0", "60.0", "1.0"],
        ["1e2", "2E+2", "20e-1", "6e1", "1e0"],
        ["100.00e0", "0.2e3", "2.000", "6000e-2", "0.01e+2"],
    ] {
        let body = format!(
            r#"{{"split":"equal","total_amount":{two_hundred},"count":{two},"expires_in_s":{sixty},"limit":{{"key":"k","wins":{one},"amount":{hundred}}}}}"#
        );
        assert_eq!(api.post("/packets").by("alice").key("k").body(body).await.expect(200), sent);
        let amount = format!(r#"{{"amount":{hundred}}}"#);
        for id in ["deposits/d", "withdrawals/w"] {
            let moved = api.put(format!("/wallets/alice/{id}")).body(amount.clone()).await;
            assert!([200, 201].contains(&moved.status), "{}", moved.describe());
        }
        let limits =
            api.put("/operator/users/zoe/limits").body(format!(r#"{{"deposit_max":{hundred}}}"#)).await.expect(200);
        assert_eq!(limits["deposit_max"], 100);
    }
    assert_eq!(api.balance("alice").await, 800);
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

fn texts<const N: usize>(texts: [&str; N]) -> Vec<Value> {
    texts.into_iter().map(Value::from).collect()
}

#[tokio::test]
async fn each_plain_field_at_its_limits() {
    let (cover, reference) = ("c".repeat(32), "r".repeat(64));
    let words = |words: &str| words.split(' ').map(Value::from).collect::<Vec<_>>();
    let odd = texts([" ", "a b", "\u{0}", "a\n"]);
    let beyond = |more: &str, long: &str| [&odd[..], &words(more), &texts([&format!("{long}x")])].concat();
    for (field, good, bad) in [
        ("split", words("random equal"), [texts(["random ", "random\u{0}"]), words(" Random RANDOM even")].concat()),
        ("expires_in_s", vec![json!(1), json!(86_400), json!(259_200)], vec![json!(0), json!(-1), json!(259_201)]),
        ("cover", words(&format!("a 0 - spring-2027 {cover}")), beyond(" Spring a_b a.b a#b é 春", &cover)),
        (
            "reference",
            words(&format!("a ... ..a Order_17.a:b-c {reference}")),
            beyond(" . .. a#b a/b a%b a+b {a} 号", &reference),
        ),
    ] {
        try_values(field, &random(10, 1), &good, &bad).await;
    }
}

#[tokio::test]
async fn count() {
    // A total that is valid for each of these counts.
    let base = |total: u64| json!({"split": "random", "total_amount": total});
    try_values("count", &base(20_000), &[json!(1), json!(2), json!(20_000)], &[json!(0), json!(100_001)]).await;
    try_values("count", &base(100_000), &[json!(100_000)], &[json!(4_294_967_297_u64)]).await;
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

#[tokio::test]
async fn greeting() {
    let (han, family) = ("红".repeat(64), "👨‍👩‍👧".repeat(12));
    // A heart with a variation selector, a skin tone, a flag, a pirate's flag, a keycap, emoji of several characters.
    let joined = "❤\u{fe0f}👍🏽🇨🇳🏴\u{200d}☠\u{fe0f}1\u{fe0f}\u{20e3}👩🏽\u{200d}🚀❤\u{fe0f}\u{200d}🔥";
    let good = texts(["", " ", &han, &"🧧".repeat(64), &family, joined, "\"\\{}<script>"]);
    let long = format!("{han}包");
    // The unit test of the rule has more of them.
    let bad = texts([&long, "a\nb", "\u{0}", "\u{202e}txt.exe", "\u{200b}", "\u{e000}", "a\u{200d}b", "a\u{fe0f}"]);
    try_values("greeting", &random(10, 1), &good, &bad).await;
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
async fn passphrase() {
    let (han, emoji) = ("芝".repeat(64), "🗝".repeat(64));
    // The last ones are longer than 64 characters until they are normalised: spaces at the ends, é in two characters.
    let (spaced, decomposed) = (format!("  {han}\u{3000}"), "e\u{301}".repeat(64));
    let good = texts(["a", " a ", &han, &emoji, "\"\\#{}", &spaced, &decomposed]);
    let (long_han, long) = (format!("{han}麻"), "a".repeat(65));
    // One character that stands for eighteen.
    let expanded = "\u{fdfa}".repeat(4);
    let bad = texts(["", " ", "\u{3000}\u{a0}", "\u{200b}", &long, &long_han, &expanded, "a\nb", "\u{0}", "a\n"]);
    try_values("passphrase", &random(10, 1), &good, &bad).await;
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

#[tokio::test]
async fn metadata() {
    let of = |count: usize| (0..count).map(|i| (format!("k{i}"), json!("v"))).collect::<Value>();
    let (key, value) = ("键".repeat(40), "值".repeat(200));
    let widest: Value = (0..10).map(|i| (format!("{i}{}", &key[3..]), json!("🧧".repeat(200)))).collect();
    let most = json!({key.clone(): value.clone()});
    let good = [json!({}), json!({"#cover": "spring", " ": "👩\u{200d}🚀", "k": ""}), most, of(10), widest];
    let (long_key, long_value) = (format!("{key}键"), format!("{value}值"));
    let mut bad =
        vec![of(11), json!({"": "v"}), json!({long_key: "v"}), json!({"k": long_value}), json!({"k": {"k": "v"}})];
    // What changes an operator's terminal, or the order in which a text is read.
    for text in
        ["\u{1b}[2J", "\u{0}=1+1", "a\nb", "\u{7f}", "\u{9b}2J", "\u{202e}gpj", "a\u{2066}", "\u{200b}", "\u{e000}"]
    {
        bad.extend([json!({"k": text}), json!({text: "v"})]);
    }
    try_values("metadata", &random(10, 1), &good, &bad).await;
}

#[tokio::test]
async fn amounts_of_deposits_and_withdrawals() {
    const MOST: u64 = 1_000_000_000_000;
    let api = Api::start().await;
    for kind in ["deposits", "withdrawals"] {
        let put = |id: &str, amount: u64| api.put(format!("/wallets/a/{kind}/{id}")).json(&json!({"amount": amount}));
        for amount in [0, MOST + 1] {
            assert_eq!(put("x", amount).await.refused(400, "invalid-request"), ["amount"]);
        }
        put("most", MOST).await.expect(201);
        if kind == "deposits" {
            put("one", 1).await.expect(201);
        }
    }
    api.put("/wallets/a/withdrawals/one").json(&json!({"amount": 1})).await.expect(201);
    assert_eq!(api.balance("a").await, 0);
}
