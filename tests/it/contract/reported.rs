//! What went wrong for users of similar projects, tried here: each case has inputs and the right value.
//! `tests/web/reported.test.mjs` has the cases of the page.

use serde_json::{Value, json};

use super::api::{Api, random, with};
use super::spec::SPEC;

/// 4. A greeting keeps the joiners, selectors and tags that Unicode gives a meaning; others are refused. The unit test of the
/// rule and the page's test read the same examples.
#[tokio::test]
async fn a_greeting_may_have_the_hidden_characters_that_mean_something() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let greeting = SPEC.validator(&SPEC.document["components"]["schemas"]["Greeting"]);
    let examples: Vec<Value> = serde_json::from_str(include_str!("../../greetings.json")).unwrap();
    let of = |kind: &'static str| {
        examples
            .iter()
            .flat_map(move |group| group[kind].as_array().into_iter().flatten().map(move |text| (group, text)))
    };
    for (_, text) in of("plain") {
        assert!(greeting.is_valid(text), "{text}");
    }
    // The first two of each kind.
    let few = |kind| {
        let mut seen = std::collections::HashMap::<String, u8>::new();
        of(kind).filter(move |(group, _)| {
            let number = seen.entry(group["why"].to_string()).or_default();
            *number += 1;
            *number <= 2
        })
    };
    for (n, (group, text)) in few("plain").enumerate() {
        let body = with(random(2, 1), &json!({"greeting": text}));
        let sent = api.send("alice", &format!("k{n}"), &body).await;
        assert_eq!(sent["greeting"], *text, "{group}");
    }
    for (group, pair) in few("cleaned") {
        let body = with(random(2, 1), &json!({"greeting": pair[0]}));
        let refused = api.post("/packets").by("alice").key("k").json(&body).await;
        assert_eq!(refused.refused(400, "invalid-request"), ["greeting"], "{group}");
    }
}
