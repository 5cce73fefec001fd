//! `limit` and `cursor` of every list.

use super::api::{Api, random, text, with};
use serde_json::json;

struct List {
    /// With the beginning of the query.
    path: String,
    user: &'static str,
    cursor: String,
}

/// Every list, each with a cursor of its own.
async fn lists(api: &Api) -> Vec<List> {
    let mut packets = Vec::new();
    for i in 0..3 {
        let packet = api.packet("alice", &format!("k{i}"), &random(1_000, 5)).await;
        for user in ["bob", "carol", "alice"] {
            api.grab(user, &packet).await.expect(200);
        }
        packets.push(packet);
    }
    for key in ["r1", "r2", "r3"] {
        for reference in ["order-17", "order-18"] {
            let body = with(random(10, 1), &json!({"reference": reference}));
            api.packet("carol", &format!("{key}-{reference}"), &body).await;
        }
    }
    api.packet("bob", "k", &random(10, 1)).await;
    api.packet("bob", "k-2", &random(10, 1)).await;
    let mut lists = Vec::new();
    for (path, user) in [
        (format!("/packets/{}/claims", packets[0]), "alice"),
        (format!("/packets/{}/claims", packets[1]), "alice"),
        (format!("/packets/{}/claims?order=newest", packets[0]), "alice"),
        (format!("/packets/{}/claims?order=newest", packets[1]), "alice"),
        ("/me/packets".to_owned(), "alice"),
        ("/me/packets".to_owned(), "bob"),
        ("/me/claims".to_owned(), "alice"),
        ("/me/claims".to_owned(), "bob"),
        ("/wallets/alice/movements".to_owned(), ""),
        ("/wallets/bob/movements".to_owned(), ""),
        ("/wallets/alice/movements?kind=claim".to_owned(), ""),
        ("/wallets/alice/movements?from=2026-01-01T00:00:00Z".to_owned(), ""),
        ("/wallets/alice/movements?to=2100-01-01T00:00:00Z".to_owned(), ""),
        ("/users/carol/packets".to_owned(), ""),
        ("/users/carol/claims".to_owned(), ""),
        (format!("/users/carol/packets/{}/claims", packets[2]), ""),
        ("/operator/packets?reference=order-17".to_owned(), ""),
        ("/operator/packets?reference=order-18".to_owned(), ""),
    ] {
        let path = if path.contains('?') { format!("{path}&") } else { format!("{path}?") };
        let page = api.get(format!("{path}limit=1")).by(user).await.expect(200);
        lists.push(List { path, user, cursor: text(&page["next_cursor"]) });
    }
    lists
}

#[tokio::test]
async fn a_limit_is_from_1_to_100() {
    let api = Api::start().await;
    for List { path, user, .. } in lists(&api).await {
        for good in ["1", "2", "100"] {
            api.get(format!("{path}limit={good}")).by(user).await.expect(200);
        }
        for bad in [
            "0",
            "101",
            "-1",
            "%2B5",
            "+5",
            "1.0",
            "1e1",
            "0x5",
            "abc",
            "",
            "%205",
            "5%20",
            "5%00",
            "%D9%A5",
            "null",
            "99999999999999999999",
            "4294967297",
            "1,2",
            "1;2",
        ] {
            let answer = api.get(format!("{path}limit={bad}")).by(user).await;
            assert_eq!(answer.refused(400, "invalid-request"), ["limit"], "{bad}");
        }
        for bad in ["limit", "limit=1&limit=1", "limit=1&limit=2", "limit=5&limit="] {
            let answer = api.get(format!("{path}{bad}")).by(user).await;
            assert_eq!(answer.refused(400, "invalid-request"), ["limit"], "{bad}");
        }
        let both = api.get(format!("{path}cursor=!&limit=0")).by(user).await;
        assert_eq!(both.refused(400, "invalid-request"), ["limit", "cursor"]);
        // Unknown query parameters are ignored.
        api.get(format!("{path}x=1&&=&%ff=%fe")).by(user).await.expect(200);
    }
}

#[tokio::test]
async fn a_cursor_must_come_from_the_same_list() {
    let api = Api::start().await;
    let lists = lists(&api).await;
    for (i, list) in lists.iter().enumerate() {
        let ask = |cursor: &str| api.get(format!("{}limit=1&cursor={cursor}", list.path)).by(list.user);
        assert!(list.cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        ask(&list.cursor).await.expect(200);
        let mut bad: Vec<String> = [
            "",
            "%20",
            "!",
            "=",
            "%00",
            "%ff",
            "null",
            "undefined",
            "0",
            "A",
            "AA",
            "AAAA",
            "Mw",
            "Mw==",
            "LTE",
            "____",
            "%2B%2F",
            "a+b",
            "a/b",
            "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB",
            "MDAwMDAw",
            "V0FMTEVU",
            "TUVUQQ",
            "S0VZI2s",
        ]
        .map(str::to_owned)
        .to_vec();
        for (j, other) in lists.iter().enumerate() {
            if i != j {
                bad.push(other.cursor.clone());
            }
        }
        bad.extend((1..list.cursor.len()).map(|end| list.cursor[..end].to_owned()));
        bad.extend((1..list.cursor.len()).map(|start| list.cursor[start..].to_owned()));
        for extra in ["=", "==", "A", "AAAA", "%20", "%00"] {
            bad.push(format!("{}{extra}", list.cursor));
        }
        bad.push(swap_case(&list.cursor));
        bad.push("A".repeat(5_000));
        for cursor in bad {
            let answer = ask(&cursor).await;
            assert_eq!(answer.refused(400, "invalid-request"), ["cursor"], "{} {cursor}", list.path);
        }
        let twice = ask(&format!("{0}&cursor={0}", list.cursor)).await;
        assert_eq!(twice.refused(400, "invalid-request"), ["cursor"]);
    }
}

fn swap_case(text: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    text.chars().map(swap).collect()
}

#[tokio::test]
async fn a_cursor_still_fits_when_the_list_has_grown() {
    let api = Api::start().await;
    let list = &lists(&api).await[4];
    let ask = || api.get(format!("{}cursor={}", list.path, list.cursor)).by(list.user);
    let before = ask().await.expect(200);
    api.packet("alice", "new", &with(random(10, 1), &json!({"greeting": "new"}))).await;
    let after = ask().await.expect(200);
    assert_eq!(after["packets"], before["packets"], "new rows come earlier");
    assert_eq!(after["totals"]["count"], 4);
}
