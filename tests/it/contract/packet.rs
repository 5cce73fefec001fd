//! `GET /packets/{packet_id}` and `GET /packets/{packet_id}/claims`, until the refund.

use std::future::IntoFuture;

use serde_json::{Value, json};
use shared::domain::{Amount, Split, commitment, split};

use super::api::{Api, random, text, with};

#[tokio::test]
async fn a_packet_shows_its_terms_and_its_state() {
    let api = Api::start().await;
    let sent = api.send("alice", "k", &random(1_000, 3)).await;
    let packet = text(&sent["packet_id"]);
    let stands = |view: &Value, status: &str, count: u64, amount: u64| {
        for (field, value) in sent.as_object().unwrap() {
            let changes = ["status", "claimed_count", "claimed_amount", "mine", "best", "seed"];
            // The viewers here are not the sender.
            let is_private = ["reference", "recipients", "metadata"].contains(&&**field);
            if is_private {
                assert_eq!(view.get(field), None, "{field}");
            } else if !changes.contains(&&**field) {
                assert_eq!(view.get(field), Some(value), "{field}");
            }
        }
        assert_eq!((&view["status"], &view["refunded_amount"]), (&json!(status), &json!(0)));
        assert_eq!((&view["claimed_count"], &view["claimed_amount"]), (&json!(count), &json!(amount)));
    };
    stands(&api.view("zoe", &packet).await.expect(200), "open", 0, 0);
    let mut claimed = 0;
    let mut grabs = Vec::new();
    for (i, user) in ["bob", "carol", "dave"].into_iter().enumerate() {
        let view = api.view(user, &packet).await.expect(200);
        assert_eq!((&view["mine"], &view["best"], &view["seed"]), (&json!(null), &json!(null), &json!(null)));
        stands(&view, "open", i as u64, claimed);
        let grabbed = api.grab(user, &packet).await.expect(200);
        claimed += grabbed["amount"].as_u64().unwrap();
        let mine = json!({
            "slip": grabbed["slip"], "amount": grabbed["amount"], "currency": "CNY", "grabbed_at": grabbed["grabbed_at"]
        });
        assert_eq!(api.view(user, &packet).await.expect(200)["mine"], mine);
        grabs.push((user, grabbed));
    }
    let over = api.view("zoe", &packet).await.expect(200);
    stands(&over, "sold_out", 3, 1_000);
    assert_eq!(over["mine"], json!(null));
    let best = grabs.iter().map(|(_, grabbed)| grabbed["amount"].as_u64().unwrap()).max().unwrap();
    let (luckiest, _) = grabs.iter().find(|(_, grabbed)| grabbed["amount"] == best).unwrap();
    assert_eq!(over["best"], json!({"user_id": luckiest, "amount": best}));
}

#[tokio::test]
async fn the_commitment_fixes_the_amounts_that_the_seed_gives() {
    let api = Api::start().await;
    let sent = api.send("alice", "k", &random(10_000, 10)).await;
    let packet = text(&sent["packet_id"]);
    for i in 0..10 {
        api.grab(&format!("user{i}"), &packet).await.expect(200);
    }
    let over = api.view("alice", &packet).await.expect(200);
    let claims = api.all("alice", &format!("/packets/{packet}/claims"), "claims", 100).await;
    let amounts: Vec<u64> = claims.iter().map(|claim| claim["amount"].as_u64().unwrap()).collect();
    let (drawn, committed) = from_seed(&over);
    assert_eq!(amounts, drawn);
    assert_eq!(sent["commitment"], committed);
}

/// The amounts and the commitment that follow from a packet's seed, by the description in the documents.
pub fn from_seed(packet: &Value) -> (Vec<u64>, String) {
    let seed: Vec<u8> = text(&packet["seed"])
        .as_bytes()
        .chunks(2)
        .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 16).unwrap())
        .collect();
    let seed = shared::domain::Seed(seed.try_into().unwrap());
    let kind = if packet["split"] == "random" { Split::Random } else { Split::Equal };
    let total = Amount::new(packet["total_amount"].as_u64().unwrap());
    let count = u32::try_from(packet["count"].as_u64().unwrap()).unwrap();
    let cap = Amount::new(packet["slip_cap"].as_u64().unwrap());
    let version = u8::try_from(packet["split_version"].as_u64().unwrap()).unwrap();
    assert_eq!(version, shared::domain::SPLIT_VERSION, "the only one there is");
    let amounts = split(kind, total, count, cap, seed).unwrap();
    let digest = commitment(version, seed, total, count, cap, kind);
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    (amounts, digest)
}

#[tokio::test]
async fn claims_are_listed_in_slip_order_each_once() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(10_000, 25)).await;
    let path = format!("/packets/{packet}/claims");
    let none = api.get(&path).by("alice").await.expect(200);
    assert_eq!(none, json!({"claims": [], "next_cursor": null}));
    let mut grabs = Vec::new();
    for i in 0..22 {
        let user = format!("user{i}");
        let grabbed = api.grab(&user, &packet).await.expect(200);
        grabs.push(json!({
            "user_id": user, "slip": grabbed["slip"], "amount": grabbed["amount"], "currency": "CNY",
            "grabbed_at": grabbed["grabbed_at"], "best": false
        }));
    }
    grabs.sort_by_key(|claim| claim["slip"].as_u64());
    for limit in [1, 2, 7, 21, 22, 23, 100] {
        assert_eq!(api.all("user3", &path, "claims", limit).await, grabs, "{limit}");
    }
    let page = api.get(&path).by("user3").await.expect(200);
    assert_eq!(page["claims"].as_array().unwrap().len(), 20, "the default");
    for i in 22..25 {
        api.grab(&format!("user{i}"), &packet).await.expect(200);
    }
    let claims = api.all("alice", &path, "claims", 4).await;
    assert_eq!(claims.len(), 25);
    assert_eq!(claims.iter().filter(|claim| claim["best"] == true).count(), 1);
}

#[tokio::test]
async fn an_unchanged_view_is_answered_304() {
    let api = Api::with_everything().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"expires_in_s": 5}))).await;
    let paths = [format!("/packets/{packet}"), format!("/packets/{packet}/claims")];
    let mut tags = Vec::new();
    for path in &paths {
        let first = api.get(path).by("bob").await;
        assert_eq!(first.header("cache-control"), Some("private, no-cache"));
        let tag = first.header("etag").unwrap().to_owned();
        let again = api.get(path).by("bob").header("if-none-match", &tag).await;
        assert_eq!((again.status, again.bytes.len(), again.header("etag")), (304, 0, Some(&*tag)));
        tags.push(tag);
    }
    api.grab("bob", &packet).await.expect(200);
    for (path, tag) in paths.iter().zip(&tags) {
        // A winner sees their slip in the very next request, whatever the browser has cached.
        let changed = api.get(path).by("bob").header("if-none-match", tag).await;
        let seen = changed.expect(200);
        assert!(seen["mine"]["slip"].is_u64() || seen["claims"][0]["user_id"] == "bob", "{seen}");
        assert_ne!(changed.header("etag"), Some(&**tag));
    }
    // Another user receives another view, and the answer tells the browser's cache so.
    let [mine, other] = futures::future::join_all(["bob", "carol"].map(|user| api.view(user, &packet).into_future()))
        .await
        .try_into()
        .unwrap_or_else(|_| unreachable!());
    assert_ne!(mine.header("etag"), other.header("etag"));
    let vary: Vec<&str> = mine.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(vary, ["authorization", "x-user-id"]);

    api.until("bob", &packet, "settled").await;
    for path in &paths {
        let settled = api.get(path).by("bob").await;
        assert_eq!(settled.header("cache-control"), Some("private, max-age=86400"));
        let tag = settled.header("etag").unwrap();
        assert_eq!(api.get(path).by("bob").header("if-none-match", tag).await.status, 304);
    }
}

#[tokio::test]
async fn what_the_sender_wrote_is_shown_to_whom_it_is_for() {
    let api = Api::start().await;
    let body = with(
        random(100, 2),
        &json!({
            "recipients": ["bob"], "passphrase": "abc", "cover": "spring", "reference": "order-17",
            "metadata": {"channel": "app", "#cover": "红包 👩\u{200d}🚀"}
        }),
    );
    let sent = api.send("alice", "k", &body).await;
    let packet = text(&sent["packet_id"]);
    let mine = api.view("alice", &packet).await.expect(200);
    for shown in [&sent, &mine] {
        for field in ["cover", "reference", "metadata", "recipients"] {
            assert_eq!(shown[field], body[field], "{field}");
        }
        assert_eq!(shown["has_passphrase"], true);
    }
    let bobs = api.view("bob", &packet).await.expect(200);
    assert_eq!((&bobs["cover"], &bobs["has_passphrase"]), (&json!("spring"), &json!(true)));
    let row = api.get("/me/packets").by("alice").await.expect(200)["packets"][0].clone();
    assert_eq!((&row["cover"], &row["reference"]), (&json!("spring"), &json!("order-17")));
    assert_eq!(row["metadata"], body["metadata"]);
    for (shown, hidden) in [(&bobs, "reference"), (&bobs, "metadata"), (&bobs, "recipients"), (&row, "recipients")] {
        assert_eq!(shown.get(hidden), None, "{hidden}");
    }
    // The send's answer is the packet as it was, without the time.
    let mut first = with(mine.clone(), &json!({}));
    first.as_object_mut().unwrap().remove("now");
    assert_eq!(sent, first);
    let now: jiff::Timestamp = text(&mine["now"]).parse().unwrap();
    assert!(now >= text(&mine["created_at"]).parse().unwrap() && now <= jiff::Timestamp::now());
}

#[tokio::test]
async fn undecided_slips_are_refunded_once() {
    let api = Api::start().await;
    let body = with(random(1_000, 4), &json!({"expires_in_s": 5}));
    let packet = api.packet("alice", "k", &body).await;
    let grabbed = api.grab("bob", &packet).await.expect(200);
    let open = api.view("alice", &packet).await.expect(200);
    assert_eq!((&open["status"], &open["best"], &open["seed"]), (&json!("open"), &json!(null), &json!(null)));

    let expired = api.until("alice", &packet, "expired").await;
    assert_eq!(expired["refunded_amount"], 0);
    assert_eq!((&expired["best"], &expired["seed"]), (&json!(null), &json!(null)), "slips are undecided");
    assert_eq!(api.grab("carol", &packet).await.expect(200), json!({"outcome": "expired", "packet_id": packet}));

    let settled = api.until("alice", &packet, "settled").await;
    let back = 1_000 - grabbed["amount"].as_i64().unwrap();
    assert_eq!(settled["refunded_amount"], back);
    assert_eq!(settled["best"], json!({"user_id": "bob", "amount": grabbed["amount"]}));
    assert!(settled["seed"].is_string());
    assert_eq!((&settled["claimed_count"], &settled["claimed_amount"]), (&json!(1), &grabbed["amount"]));
    assert_eq!(api.balance("alice").await, back);
    let books = api.books("alice").await;
    let report = api.settle().await;
    for (field, nothing) in report.as_object().unwrap() {
        assert_eq!(*nothing, 0, "{field}");
    }
    assert_eq!(api.books("alice").await, books);
    let row = &books["packets"]["packets"][0];
    assert_eq!((&row["status"], &row["refunded_amount"]), (&json!("settled"), &json!(back)));
    assert_eq!(books["packets"]["totals"], json!({"count": 1, "amount": 1_000}), "gross of refunds");
}
