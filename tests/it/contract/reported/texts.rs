//! Greetings, times and paths.

use std::time::Duration;

use local::Options;
use serde_json::{Value, json};
use shared::domain::Timestamp;
use shared::ports::{Clock, System};

use super::super::api::{Api, random, text, with};
use super::super::spec::SPEC;

/// 4. A greeting keeps the joiners, selectors and tags that Unicode gives a meaning; others are refused. The unit test of the
/// rule and the page's test read the same examples.
#[tokio::test]
async fn a_greeting_may_have_the_hidden_characters_that_mean_something() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let greeting = SPEC.validator(&SPEC.document["components"]["schemas"]["Greeting"]);
    let examples: Vec<Value> = serde_json::from_str(include_str!("../../../greetings.json")).unwrap();
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

/// 11. Times are read as RFC 3339 says, and rounded down to milliseconds; a second 60 is refused. The unit test of `Timestamp` has
/// more times.
#[tokio::test]
async fn times_are_read_as_rfc_3339_says() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    // A second of the next day, in UTC: `2026-12-31T16:00:00`.
    let second = System.now().after(Duration::from_hours(24)).to_string()[..19].to_owned();
    let read = [
        (format!("{second}Z"), "000"),
        (format!("{}z", second.replace('T', "t")), "000"),
        (format!("{second}.1Z"), "100"),
        (format!("{second}.0129999Z"), "012"),
        (format!("{second}.123999999z"), "123"),
        (format!("{second}.5+00:00"), "500"),
        (format!("{second}.5-00:00"), "500"),
    ];
    for (n, (text, fraction)) in read.iter().enumerate() {
        let body = with(random(2, 1), &json!({"starts_at": text}));
        let sent = api.send("alice", &format!("k{n}"), &body).await;
        assert_eq!(sent["starts_at"], format!("{second}.{fraction}Z"), "{text}");
        let same: Timestamp = text.parse().unwrap();
        assert_eq!(sent["starts_at"], same.to_string());
    }
    let query = |name: &str, text: &str| format!("/me/movements?{name}={}", text.replace('+', "%2B"));
    for good in ["2026-12-31t16:00:00z", "2027-01-01T00:00:00.000000001+08:00", "2026-12-31T16:00:00-00:00"] {
        for name in ["from", "to"] {
            api.get(query(name, good)).by("alice").await.expect(200);
        }
    }
    let minute = &second[..17];
    let refused = [
        format!("{minute}60Z"),
        format!("{minute}60.5Z"),
        "2016-12-31T23:59:60Z".to_owned(),
        second.clone(),
        format!("{second}.Z"),
        format!("{second},5Z"),
        format!("{second}.1234567890Z"),
        format!("{second}+24:00"),
        format!("{second}+08:60"),
        format!("{second}+08"),
        format!("{}T24:00:00Z", &second[..10]),
        format!("{}Z", second.replace('T', " ")),
    ];
    for text in &refused {
        let body = with(random(2, 1), &json!({"starts_at": text}));
        let fields = api.post("/packets").by("alice").key("k").json(&body).await.refused(400, "invalid-request");
        assert_eq!(fields, ["starts_at"], "{text}");
        for name in ["from", "to"] {
            let path = query(name, text).replace(' ', "%20");
            assert_eq!(api.get(path).by("alice").await.refused(400, "invalid-request"), [name], "{text}");
        }
    }
}

/// 10. Below a base path the API and the page are as without it. Paths that only begin alike are others.
#[tokio::test]
async fn everything_works_below_a_base_path() {
    let options = Options { base_path: Some("/api/hongbao".to_owned()), ..Options::ephemeral() };
    let api = Api::start_with(options).await;
    let base = api.local.url();
    assert!(base.ends_with("/api/hongbao"), "{base}");
    api.fund("alice", 1_000).await;
    let packet = api.packet("alice", "k", &with(random(20, 2), &json!({"expires_in_s": 1, "reference": "r"}))).await;
    assert_eq!(api.grab("bob", &packet).await.expect(200)["outcome"], "grabbed");
    let grabbed = api.post(format!("/users/carol/packets/{packet}/grab")).await.expect(200);
    assert_eq!(grabbed["outcome"], "grabbed");
    assert_eq!(api.all("bob", "/me/claims", "claims", 1).await.len(), 1);
    assert_eq!(api.all("alice", &format!("/packets/{packet}/claims"), "claims", 1).await.len(), 2);
    let found = api.get("/operator/packets?reference=r").await.expect(200);
    assert_eq!(found["packets"].as_array().map(Vec::len), Some(1));
    api.until("alice", &packet, "settled").await;
    api.get("/me/wallet").await.refused(401, "unauthenticated");
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
    for (page, up) in [(format!("{base}/"), ""), (format!("{base}/p/{packet}"), "../")] {
        let (status, _, html) = get(page).await;
        assert_eq!(status, 200);
        let script = html.split('"').find(|text| text.ends_with("/assets/app.js")).unwrap();
        let script = script.strip_prefix(up).unwrap();
        assert_eq!(get(format!("{base}/{script}")).await.0, 200, "{script}");
    }
    let (_, _, link) = get(format!("{base}/p/{packet}")).await;
    let picture = link.split('"').find(|text| text.ends_with("/assets/preview.png")).unwrap();
    assert!(picture.starts_with(&format!("{base}/")), "{picture}");
    assert_eq!(get(format!("{base}/_local/health")).await.0, 200);
    let host = base.strip_suffix("/api/hongbao").unwrap();
    for path in [
        "/",
        "",
        "/api",
        "/api/",
        "/api/hongbaoX/",
        "/api/hongbaoX/me/wallet",
        "/API/hongbao/",
        "/me/wallet",
        "/_local/health",
    ] {
        let (status, _, body) = get(format!("{host}{path}")).await;
        let code = serde_json::from_str::<Value>(&body).map(|body| text(&body["code"])).unwrap_or(body);
        assert_eq!((status, &*code), (404, "route-not-found"), "{path}");
    }
}
