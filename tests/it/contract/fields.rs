//! Every field at its limits, and one beyond.

use serde_json::{Value, json};

use super::api::{Api, random, with};

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
        assert!(fields[0] == field || fields[0].starts_with(&format!("{field}[")), "{fields:?} {value}");
        assert_eq!(fields.len(), 1, "{fields:?} {value}");
        assert_eq!(api.books("alice").await, books);
    }
    for (i, value) in good.iter().enumerate() {
        let body = with(base.clone(), &json!({field: value}));
        // The keys of refused requests are free.
        let sent = api.post("/packets").by("alice").key(&format!("k{i}")).json(&body).await.expect(201);
        if let Some(shown) = sent.get(field) {
            assert_eq!(shown, value);
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
    let good = texts(["", " ", "a", &han, &emoji, &family, "\"\\{}<script>", "\u{2028}\u{feff}\u{e000}"]);
    let (long_han, long_emoji) = (format!("{han}包"), format!("{emoji}🧧"));
    let long = "a".repeat(65);
    let bad = texts([&long, &long_han, &long_emoji, "a\nb", "\u{0}", "\t", "\u{7f}", "\u{85}"]);
    try_values("greeting", &random(10, 1), &good, &bad).await;
}

#[tokio::test]
async fn passphrase() {
    let (han, emoji) = ("芝".repeat(64), "🗝".repeat(64));
    let good = texts(["a", " ", &han, &emoji, "\"\\#{}"]);
    let (long_han, long) = (format!("{han}麻"), "a".repeat(65));
    let bad = texts(["", &long, &long_han, "a\nb", "\u{0}"]);
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
