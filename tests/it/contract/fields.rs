//! Every field at its limits, and one beyond.

use serde_json::{Value, json};
use shared::domain::{Passphrase, is_plain};

use super::api::{Api, random, with};
use super::spec::SPEC;

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
async fn split() {
    let bad = texts(["", "Random", "random ", "RANDOM", "even", "random\u{0}"]);
    try_values("split", &random(100, 10), &texts(["random", "equal"]), &bad).await;
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
async fn expiry() {
    let good = [json!(1), json!(86_400), json!(259_200)];
    try_values("expires_in_s", &random(10, 1), &good, &[json!(0), json!(-1), json!(259_201)]).await;
}

#[tokio::test]
async fn greeting() {
    let (han, emoji, family) = ("红".repeat(64), "🧧".repeat(64), "👨‍👩‍👧".repeat(12));
    // A heart with a variation selector, a skin tone, a flag, a pirate's flag, a keycap, emoji of several characters.
    let joined = "❤\u{fe0f}👍🏽🇨🇳🏴\u{200d}☠\u{fe0f}1\u{fe0f}\u{20e3}👩🏽\u{200d}🚀❤\u{fe0f}\u{200d}🔥";
    let good = texts(["", " ", "a", &han, &emoji, &family, joined, "\"\\{}<script>", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}"]);
    let (long_han, long_emoji) = (format!("{han}包"), format!("{emoji}🧧"));
    let long = "a".repeat(65);
    let mut bad = texts([&long, &long_han, &long_emoji, "a\nb", "\u{0}", "\t", "\u{7f}", "\u{85}"]);
    // Controls of direction, invisible characters, private use, and a joiner and a selector that belong to no emoji.
    let direction = ["\u{200f}", "\u{202e}txt.exe", "\u{2066}a\u{2069}"];
    let hidden = ["a\u{ad}b", "\u{200b}", "\u{feff}", "\u{3164}", "\u{2028}", "\u{e000}", "🏴\u{e0067}\u{e007f}"];
    bad.extend(texts(direction).into_iter().chain(texts(hidden)).chain(texts(["a\u{200d}b", "a\u{fe0f}"])));
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

#[test]
fn the_document_says_exactly_which_passphrases_are_accepted_and_what_no_greeting_has() {
    let schemas = &SPEC.document["components"]["schemas"];
    let (greeting, passphrase) = (SPEC.validator(&schemas["Greeting"]), SPEC.validator(&schemas["Passphrase"]));
    // They are hidden characters that mean something beside others, or that are beyond what the pattern can name.
    let is_in_words = |letter| {
        matches!(letter, '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe02}' | '\u{fe0e}' | '\u{fe0f}')
            || letter > '\u{ffff}'
    };
    for text in odd_texts() {
        let (is_valid, is_accepted) = (greeting.is_valid(&json!(text)), is_plain(&text));
        assert!(is_valid || !is_accepted, "greeting {text:?}");
        assert!(is_accepted || !is_valid || text.contains(is_in_words), "greeting {text:?}");
        let is_accepted = !Passphrase::new(&text).as_str().is_empty() && !text.contains(char::is_control);
        assert_eq!(passphrase.is_valid(&json!(text)), is_accepted, "passphrase {text:?}");
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
async fn cover() {
    let longest = "c".repeat(32);
    let good = texts(["a", "0", "-", "spring-2027", &longest]);
    let long = format!("{longest}c");
    let bad = texts(["", " ", "Spring", "a_b", "a b", "a.b", "a#b", "é", "春", "\u{0}", "a\n", &long]);
    try_values("cover", &random(10, 1), &good, &bad).await;
}

#[tokio::test]
async fn reference() {
    let longest = "r".repeat(64);
    let good = texts(["a", "..", "Order_17.a:b-c", &longest]);
    let long = format!("{longest}r");
    let bad = texts(["", " ", "a b", "a#b", "a/b", "a%b", "a+b", "{a}", "号", "\u{0}", "a\n", &long]);
    try_values("reference", &random(10, 1), &good, &bad).await;
}

#[tokio::test]
async fn metadata() {
    let of = |count: usize| (0..count).map(|i| (format!("k{i}"), json!("v"))).collect::<Value>();
    let (key, value) = ("键".repeat(40), "值".repeat(200));
    let widest: Value = (0..10).map(|i| (format!("{i}{}", &key[3..]), json!("🧧".repeat(200)))).collect();
    let good = [
        json!({}),
        json!({"k": ""}),
        json!({"#cover": "spring", "\u{0}": "\u{0}\n"}),
        json!({key.clone(): value.clone()}),
        of(10),
        widest,
    ];
    let bad = [
        of(11),
        json!({"": "v"}),
        json!({format!("{key}键"): "v"}),
        json!({"k": format!("{value}值")}),
        json!({"k": 1}),
        json!({"k": {"k": "v"}}),
    ];
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
