//! `POST /packets/{packet_id}/grab`

use std::collections::BTreeSet;
use std::future::IntoFuture;

use serde_json::{Value, json};
use shared::domain::{PacketId, Timestamp};

use super::api::{Api, random, text, with};

#[tokio::test]
async fn the_first_users_win() {
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(1_000, 3)).await;
    let mut slips = BTreeSet::new();
    let mut sum = 0;
    for (user, body) in [("bob", ""), ("alice", "{}"), ("carol", " \n")] {
        let grabbed = api.grab(user, &packet).body(body).await.expect(200);
        assert_eq!((&grabbed["outcome"], &grabbed["replayed"]), (&json!("grabbed"), &json!(false)));
        assert_eq!((&grabbed["packet_id"], &grabbed["currency"]), (&json!(packet), &json!("CNY")));
        slips.insert(grabbed["slip"].as_u64().unwrap());
        sum += grabbed["amount"].as_i64().unwrap();
        let balance = api.get("/me/wallet").by(user).await.expect(200);
        assert_eq!(balance["balance"], grabbed["amount"], "the money is there with the answer");
    }
    assert_eq!(slips, [0, 1, 2].into());
    assert_eq!(sum, 1_000);
    let lost = api.grab("dave", &packet).await.expect(200);
    assert_eq!(lost, json!({"outcome": "sold_out", "packet_id": packet}));
    assert_eq!(api.balance("dave").await, 0);
}

#[tokio::test]
async fn equal_slips_differ_by_at_most_one() {
    let api = Api::start().await;
    let body = json!({"split": "equal", "total_amount": 11, "count": 4});
    let packet = api.packet("alice", "k", &body).await;
    let mut amounts = Vec::new();
    for user in ["a", "b", "c", "d"] {
        amounts.push(api.grab(user, &packet).await.expect(200)["amount"].as_u64().unwrap());
    }
    amounts.sort_unstable();
    assert_eq!(amounts, [2, 3, 3, 3]);
}

#[tokio::test]
async fn a_rush_over_http_has_as_many_winners_as_slips() {
    const SLIPS: usize = 20;
    let api = Api::start().await;
    let packet = api.packet("alice", "k", &random(5_000, SLIPS as u64)).await;
    let users: Vec<String> = (0..60).map(|i| format!("user{i}")).collect();
    // Each user three times, so that requests of one user race too.
    let grabs = users.iter().cycle().take(180).map(|user| api.grab(user, &packet).into_future());
    let answers: Vec<Value> = futures::future::join_all(grabs).await.iter().map(|answer| answer.expect(200)).collect();
    let mut winners = 0;
    for (i, first) in answers.iter().take(60).enumerate() {
        let of_user: Vec<&Value> = answers.iter().skip(i).step_by(60).collect();
        let slips: BTreeSet<String> = of_user.iter().map(|answer| answer["slip"].to_string()).collect();
        if of_user.iter().any(|answer| answer["outcome"] == "grabbed") {
            winners += 1;
            assert_eq!(slips.len(), 1, "{of_user:?}");
            assert_eq!(of_user.iter().filter(|answer| answer["replayed"] == false).count(), 1, "{of_user:?}");
        } else {
            assert_eq!(first["outcome"], "sold_out");
        }
    }
    assert_eq!(winners, SLIPS);
    let claims = api.all("alice", &format!("/packets/{packet}/claims"), "claims", 7).await;
    assert_eq!(claims.iter().map(|claim| claim["amount"].as_u64().unwrap()).sum::<u64>(), 5_000);
}

#[tokio::test]
async fn an_invalid_packet_id_is_not_found() {
    let api = Api::start().await;
    let absent = PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [7; 10]).to_string();
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    let shapes = [
        absent,
        "x".to_owned(),
        packet.to_lowercase(),
        packet[1..].to_owned(),
        format!("{packet}0"),
        "0".repeat(1_000),
        "00000000000000000000000000".to_owned(),
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".to_owned(),
    ];
    for id in shapes {
        api.grab("bob", &id).await.refused(404, "packet-not-found");
        api.view("bob", &id).await.refused(404, "packet-not-found");
        api.get(format!("/packets/{id}/claims")).by("bob").await.refused(404, "packet-not-found");
    }
    assert_eq!(api.grab("bob", &packet).await.expect(200)["outcome"], "grabbed");
}

#[tokio::test]
async fn in_redis_mode_settle_pays_the_winner() {
    let api = Api::start_with(local::Options { ack: local::Ack::Redis, ..local::Options::ephemeral() }).await;
    let packet = api.packet("alice", "k", &random(1_000, 2)).await;
    let grabbed = api.grab("bob", &packet).await.expect(200);
    assert_eq!(grabbed["replayed"], false);
    let again = api.grab("bob", &packet).await.expect(200);
    assert_eq!(again, with(grabbed.clone(), &json!({"replayed": true})));
    assert_eq!(api.balance("bob").await, 0);
    let report = api.settle().await;
    assert_eq!((&report["persisted"], &report["outbox_left"]), (&json!(1), &json!(0)));
    assert_eq!(json!(api.balance("bob").await), grabbed["amount"]);
    assert_eq!(api.view("bob", &packet).await.expect(200)["mine"]["grabbed_at"], grabbed["grabbed_at"]);
}

#[tokio::test]
async fn an_unreachable_redis_is_a_503_and_the_retry_wins() {
    let mut redis = shared::redis::test_server::TestServer::start(&[]).await;
    let options = local::Options { redis_url: Some(redis.url()), ..local::Options::ephemeral() };
    let api = Api::start_with(options).await;
    let packet = api.packet("alice", "k", &random(10, 1)).await;
    redis.kill();
    api.grab("bob", &packet).await.refused(503, "unavailable");
    // A send needs only the ledger.
    let other = api.packet("alice", "k-2", &random(10, 1)).await;
    redis.restart().await;
    for packet in [packet, other] {
        let grabbed = shared::redis::test_server::poll("a connection", async || {
            let answer = api.grab("bob", &packet).await;
            (answer.status != 503).then(|| answer.expect(200))
        })
        .await;
        assert_eq!(grabbed["outcome"], "grabbed");
        assert_eq!(text(&grabbed["packet_id"]), packet);
    }
}
