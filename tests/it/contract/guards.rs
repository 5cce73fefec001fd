//! Passphrases and recipients.

use serde_json::json;

use super::api::{Api, random, with};

#[tokio::test]
async fn a_passphrase_opens_a_packet() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"passphrase": "芝麻开门"}))).await;
    let grab = |user: &str, passphrase: &str| api.grab(user, &packet).json(&json!({"passphrase": passphrase}));
    for body in ["", "{}"] {
        api.grab("bob", &packet).body(body).await.refused(403, "wrong-passphrase");
    }
    for wrong in ["", " ", "芝麻", "芝麻 开门", "芝麻开门!", "\u{0}", &"x".repeat(10_000)] {
        grab("bob", wrong).await.refused(403, "wrong-passphrase");
    }
    // The sender needs it too. A view needs no passphrase.
    api.grab("alice", &packet).await.refused(403, "wrong-passphrase");
    let view = api.view("bob", &packet).await;
    assert!(!String::from_utf8_lossy(&view.bytes).contains("芝麻"));
    assert_eq!(view.expect(200)["claimed_count"], 0);
    assert_eq!(api.view("alice", &packet).await.expect(200).get("passphrase"), None);

    let grabbed = grab("bob", "芝麻开门").await.expect(200);
    assert_eq!(grabbed["replayed"], false);
    // The winner needs no passphrase any more, and a wrong one does no harm.
    let replayed = with(grabbed, &json!({"replayed": true}));
    assert_eq!(api.grab("bob", &packet).await.expect(200), replayed);
    assert_eq!(grab("bob", "wrong").await.expect(200), replayed);
    // After the end the packet is still closed to callers without the passphrase.
    grab("carol", "芝麻开门").await.expect(200);
    api.grab("dave", &packet).await.refused(403, "wrong-passphrase");
    assert_eq!(grab("dave", "芝麻开门").await.expect(200)["outcome"], "sold_out");
}

#[tokio::test]
async fn passphrases_that_look_alike_are_the_same() {
    let api = Api::start().await;
    // Width, composition, spaces at the ends, invisible characters, an emoji with and without its selector.
    let alike: [&[&str]; 5] = [
        &["abc123", "ａｂｃ１２３", " abc123\u{3000}", "abc123\n", "\u{feff}abc\u{200b}123"],
        &["café ☕", "cafe\u{301} ☕", "café ☕\u{fe0f}", "café\u{a0}☕"],
        &["ガン", "ｶﾞﾝ", "カ\u{3099}ン"],
        &["각", "\u{1100}\u{1161}\u{11a8}"],
        &["芝麻开门", "\t芝麻开门 ", "芝麻\u{200d}开门"],
    ];
    for (i, forms) in alike.into_iter().enumerate() {
        for (j, set) in forms.iter().enumerate().filter(|(_, set)| !set.contains(char::is_control)) {
            let body = with(random(100, 10), &json!({"passphrase": set}));
            let packet = api.packet("alice", &format!("k-{i}-{j}"), &body).await;
            for (n, given) in forms.iter().enumerate() {
                let grab = api.grab(&format!("u{n}"), &packet).json(&json!({"passphrase": given}));
                assert_eq!(grab.await.expect(200)["outcome"], "grabbed", "{set:?} {given:?}");
            }
            let other = json!({"passphrase": format!("{set}x")});
            api.grab("eve", &packet).json(&other).await.refused(403, "wrong-passphrase");
        }
    }
}

#[tokio::test]
async fn an_unneeded_passphrase_is_ignored() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(100, 4)).await;
    for (user, passphrase) in [("a", "x"), ("b", ""), ("c", "\u{0}\u{1}"), ("d", &*"x".repeat(10_000))] {
        let grabbed = api.grab(user, &packet).json(&json!({"passphrase": passphrase})).await.expect(200);
        assert_eq!(grabbed["outcome"], "grabbed");
    }
}

#[tokio::test]
async fn too_many_wrong_passphrases_block_a_user_for_a_while() {
    let api = Api::start().await;
    let body = with(random(100, 2), &json!({"passphrase": "abc"}));
    let packet = api.packet("alice", "k", &body).await;
    let other = api.packet("alice", "k-2", &body).await;
    let grab = |user: &str, passphrase: &str| api.grab(user, &packet).json(&json!({"passphrase": passphrase}));
    for i in 0..10 {
        grab("mallory", &format!("guess {i}")).await.refused(403, "wrong-passphrase");
    }
    for passphrase in ["guess", "abc"] {
        let answer = grab("mallory", passphrase).await;
        answer.refused(429, "too-many-requests");
        let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    // Without a passphrase nothing is guessed.
    api.grab("mallory", &packet).await.refused(403, "wrong-passphrase");
    // The block applies to this user and this packet only.
    assert_eq!(grab("bob", "abc").await.expect(200)["outcome"], "grabbed");
    api.grab("mallory", &other).await.refused(403, "wrong-passphrase");
    assert_eq!(api.view("alice", &packet).await.expect(200)["claimed_count"], 1);

    // A winner may try any passphrase, and always receives the same slip.
    for _ in 0..12 {
        assert_eq!(grab("bob", "nonsense").await.expect(200)["replayed"], true);
    }
}

#[tokio::test]
async fn only_recipients_have_access() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &with(random(100, 2), &json!({"recipients": ["carol", "bob"]}))).await;
    let claims = format!("/packets/{packet}/claims");
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    api.view("dave", &packet).await.refused(403, "not-a-recipient");
    api.get(&claims).by("dave").await.refused(403, "not-a-recipient");
    // The sender may view the packet, with its recipients. To grab it they must be one of them.
    assert_eq!(api.view("alice", &packet).await.expect(200)["recipients"], json!(["bob", "carol"]));
    api.get(&claims).by("alice").await.expect(200);
    api.grab("alice", &packet).await.refused(403, "not-a-recipient");
    for user in ["bob", "carol"] {
        assert_eq!(api.view(user, &packet).await.expect(200).get("recipients"), None);
        assert_eq!(api.grab(user, &packet).await.expect(200)["outcome"], "grabbed");
        api.get(&claims).by(user).await.expect(200);
    }
    // The same for the others after the end.
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    // Ids that differ in case, or in any byte, are different users.
    api.grab("Bob", &packet).await.refused(403, "not-a-recipient");
}

#[tokio::test]
async fn recipients_are_checked_before_the_passphrase() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["alice", "bob"], "passphrase": "abc"});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    for _ in 0..12 {
        for body in ["{}", r#"{"passphrase":"abc"}"#, r#"{"passphrase":"x"}"#] {
            api.grab("dave", &packet).body(body).await.refused(403, "not-a-recipient");
        }
    }
    api.grab("bob", &packet).await.refused(403, "wrong-passphrase");
    api.grab("bob", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
    api.grab("alice", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
}

#[tokio::test]
async fn guards_hold_when_redis_has_forgotten_them() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob"], "passphrase": "abc"});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    api.flush().await;
    api.grab("dave", &packet).await.refused(403, "not-a-recipient");
    api.flush().await;
    api.grab("bob", &packet).await.refused(403, "wrong-passphrase");
    api.flush().await;
    api.grab("bob", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
}

#[tokio::test]
async fn guards_hold_when_the_packet_is_over() {
    let api = Api::start().await;
    let guard = json!({"recipients": ["bob"], "passphrase": "abc", "expires_in_s": 1});
    let packet = api.packet("alice", "k", &with(random(100, 2), &guard)).await;
    for status in ["expired", "settled"] {
        api.until("alice", &packet, status).await;
        for flushed in [false, true] {
            if flushed {
                api.flush().await;
            }
            api.grab("dave", &packet).await.refused(403, "not-a-recipient");
            api.grab("bob", &packet).await.refused(403, "wrong-passphrase");
            let right = api.grab("bob", &packet).body(r#"{"passphrase":"abc"}"#).await.expect(200);
            assert_eq!(right["outcome"], "expired");
            api.view("dave", &packet).await.refused(403, "not-a-recipient");
        }
    }
}
