//! `GET /packets/{packet_id}/claims?order=newest`

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::api::{Api, random, text, with};

/// A client that follows the newest claims as `openapi.yaml` says.
struct Follower<'a> {
    api: &'a Api,
    path: String,
    user: &'a str,
    after: String,
    /// By slip.
    claims: BTreeMap<u64, Value>,
    requests: u32,
}

impl<'a> Follower<'a> {
    fn of(api: &'a Api, user: &'a str, path: String) -> Self {
        Self { api, path, user, after: String::new(), claims: BTreeMap::new(), requests: 0 }
    }

    /// Reads all that is newer, `limit` at a time.
    async fn poll(&mut self, limit: usize) -> Vec<Value> {
        let after = if self.after.is_empty() { String::new() } else { format!("&after={}", self.after) };
        let (mut rows, mut cursor, mut newest) = (Vec::new(), String::new(), None);
        loop {
            let path = format!("{}?order=newest&limit={limit}{after}{cursor}", self.path);
            let page = self.api.get(path).by(self.user).await.expect(200);
            self.requests += 1;
            newest = newest.or_else(|| Some(text(&page["newest_cursor"])));
            rows.extend(page["claims"].as_array().unwrap().iter().cloned());
            match &page["next_cursor"] {
                Value::Null => break,
                next => cursor = format!("&cursor={}", text(next)),
            }
        }
        let place = |row: &Value| (text(&row["grabbed_at"]), row["slip"].as_u64());
        assert!(rows.windows(2).all(|rows| place(&rows[0]) > place(&rows[1])), "{rows:?}");
        self.claims.extend(rows.iter().map(|row| (row["slip"].as_u64().unwrap(), row.clone())));
        self.after = newest.unwrap();
        rows
    }
}

#[tokio::test]
async fn the_newest_claims_come_first_and_after_a_place_only_newer_ones() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(10_000, 25), &json!({"expires_in_s": 20}))).await;
    let path = format!("/packets/{packet}/claims");
    let mut follower = Follower::of(&api, "alice", path.clone());
    assert_eq!(follower.poll(20).await, Vec::<Value>::new());
    let mut users = Vec::new();
    for round in 0..4 {
        for i in 0..6 {
            let user = format!("user{round}-{i}");
            api.grab(&user, &packet).await.expect(200);
            users.push(user);
        }
        let rows = follower.poll(4).await;
        assert!((6..=users.len()).contains(&rows.len()), "{rows:?}");
    }
    assert_eq!(follower.claims.len(), 24);
    let by_slip: Vec<Value> = follower.claims.values().cloned().collect();
    assert_eq!(api.all("alice", &path, "claims", 100).await, by_slip);
    // Pages of any size are pieces of one list, for every viewer, and by the operator's route too.
    let all = Follower::of(&api, "zoe", path.clone()).poll(100).await;
    let newest: Vec<String> = all.iter().map(|row| text(&row["user_id"])).collect();
    users.reverse();
    assert_eq!(newest, users);
    for limit in [1, 7, 24] {
        let of_zoe = format!("/users/zoe/packets/{packet}/claims");
        assert_eq!(Follower::of(&api, "", of_zoe).poll(limit).await, all, "{limit}");
    }
    // A `next_cursor` is a place too.
    let page = api.get(format!("{path}?order=newest&limit=10")).by("bob").await.expect(200);
    let since = api.get(format!("{path}?after={}", text(&page["next_cursor"]))).by("bob").await.expect(200);
    assert_eq!(since["claims"].as_array().unwrap()[..], all[..9]);

    // Once it is settled, the list is the same.
    api.until("zoe", &packet, "settled").await;
    let settled = Follower::of(&api, "zoe", path).poll(100).await;
    let without_best =
        |rows: &[Value]| rows.iter().map(|row| with(row.clone(), &json!({"best": null}))).collect::<Vec<_>>();
    assert_eq!(without_best(&settled), without_best(&all));
    assert_eq!(settled.iter().filter(|row| row["best"] == true).count(), 1);
    assert_eq!(follower.poll(100).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_order_or_a_place_that_is_none_is_refused() {
    let api = Api::start().await;
    let [packet, other] =
        [api.packet("alice", "k", &random(100, 5)).await, api.packet("alice", "l", &random(100, 5)).await];
    for packet in [&packet, &other] {
        for user in ["a", "b"] {
            api.grab(user, packet).await.expect(200);
        }
    }
    let ask = |packet: &str, query: &str| api.get(format!("/packets/{packet}/claims?{query}")).by("alice");
    let [by_slip, newest] = ["slip", "newest"].map(|order| format!("order={order}&limit=1"));
    let (by_slip, newest) = (ask(&packet, &by_slip).await.expect(200), ask(&packet, &newest).await.expect(200));
    assert_eq!(by_slip.get("newest_cursor"), None);
    let [slip, next, place] = [&by_slip["next_cursor"], &newest["next_cursor"], &newest["newest_cursor"]].map(text);
    for (query, fields) in [
        ("order=", &["order"][..]),
        ("order=Newest", &["order"]),
        ("order=newest&order=newest", &["order"]),
        ("order=newest&after=", &["after"]),
        ("order=newest&after=AAAA", &["after"]),
        (&format!("order=newest&after={slip}"), &["after"]),
        (&format!("order=newest&cursor={slip}"), &["cursor"]),
        (&format!("order=slip&cursor={next}"), &["cursor"]),
        (&format!("cursor={next}"), &["cursor"]),
        (&format!("order=slip&after={place}"), &["after"]),
        (&format!("after={place}&after={place}"), &["after"]),
        ("order=x&after=!&limit=0&cursor=!", &["order", "after", "limit", "cursor"]),
    ] {
        assert_eq!(ask(&packet, query).await.refused(400, "invalid-request"), fields, "{query}");
    }
    let of_another = ask(&other, &format!("after={place}")).await;
    assert_eq!(of_another.refused(400, "invalid-request"), ["after"]);
    ask(&packet, &format!("after={place}")).await.expect(200);
}

#[tokio::test]
async fn three_thousand_claims_take_thirty_requests() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(100_000, 3_100)).await;
    stream::iter(0..3_000)
        .for_each_concurrent(64, |i| {
            let (api, packet) = (&api, &packet);
            async move {
                api.grab(&format!("user{i}"), packet).await.expect(200);
            }
        })
        .await;
    let mut follower = Follower::of(&api, "alice", format!("/packets/{packet}/claims"));
    assert_eq!(follower.poll(100).await.len(), 3_000);
    assert_eq!((follower.claims.len(), follower.requests), (3_000, 30));
    // Nothing is new.
    assert_eq!(follower.poll(100).await, Vec::<Value>::new());
    assert_eq!(follower.requests, 31);
    let unchanged = format!("/packets/{packet}/claims?after={}", follower.after);
    let tag = api.get(&unchanged).by("alice").await.header("etag").unwrap().to_owned();
    assert_eq!(api.get(&unchanged).by("alice").header("if-none-match", &tag).await.status, 304);
}
