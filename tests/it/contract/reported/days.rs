//! A password of Redis that was rotated, and the zone of days.

use local::Options;
use redis::cmd;
use serde_json::{Value, json};
use shared::config::Config;
use shared::domain::Timestamp;
use shared::redis::test_server::{TestServer, poll};
use shared::wiring::{Wiring, dynamodb_at};

use super::super::api::{Api, random};
use super::super::coverage::of_handler;
use super::super::spec::SPEC;

/// A server of Redis with a password, and an operator's connection, which stays signed in.
struct Guarded {
    server: TestServer,
    operator: redis::aio::MultiplexedConnection,
}

impl Guarded {
    async fn start() -> Self {
        let server = TestServer::start(&["--requirepass", "s3cret-old"]).await;
        let client = redis::Client::open(Self::url_of(&server, "s3cret-old")).unwrap();
        let operator = client.get_multiplexed_async_connection().await.unwrap();
        Self { server, operator }
    }

    fn url_of(server: &TestServer, password: &str) -> String {
        server.url().replace("//", &format!("//:{password}@"))
    }

    /// Changes the password, and ends all connections but the operator's, as a failover would.
    async fn rotate(&mut self, password: &str) {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("requirepass").arg(password);
        let () = set.query_async(&mut self.operator).await.unwrap();
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        let _: i64 = kill.query_async(&mut self.operator).await.unwrap();
    }
}

/// 16. While Redis refuses the password, every answer is the ledger's or a 503 that says when to ask again; then all goes on.
#[tokio::test]
async fn a_password_that_redis_refuses_is_an_outage_and_no_defect() {
    let mut redis = Guarded::start().await;
    let redis_url = Some(Guarded::url_of(&redis.server, "s3cret-old"));
    let options = Options { redis_url, ..Options::ephemeral() };
    let api = Api::start_with(options).await;
    let packet = api.packet("ann", "first", &random(100, 2)).await;
    let to_close = api.packet("ann", "second", &random(100, 2)).await;
    api.grab("bob", &packet).await.expect(200);

    redis.rotate("s3cret-new").await;
    let refused = api.grab("cid", &packet).await;
    refused.refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let closed = api.post(format!("/operator/packets/{to_close}/close")).json(&json!({"reason": "a test"})).await;
    closed.refused(503, "unavailable");
    assert_eq!(closed.header("retry-after"), Some("1"));
    let view = api.view("bob", &packet).await.expect(200);
    assert_eq!(view["claimed_count"], 1, "the ledger answers");
    api.packet("ann", "third", &random(100, 1)).await;
    let report = api.settle().await;
    assert_eq!(report["outbox_left"], json!(null), "Redis could not tell");
    assert_eq!(api.unchecked("GET", b"/_local/health", &[], b"").await.status, 200);
    let unreachable = shared::error_chain(&api.local.reach_redis().await.unwrap_err());
    assert!(
        unreachable.contains("look at the password in REDIS_URL") && !unreachable.contains("s3cret"),
        "{unreachable}"
    );

    redis.rotate("s3cret-old").await;
    let late = poll("Redis", async || Some(api.grab("dan", &packet).await).filter(|answer| answer.status == 200)).await;
    assert_eq!(late.expect(200)["outcome"], "grabbed", "the refused grab took no slip");
    api.until("ann", &to_close, "settled").await;
}

/// 9. A daily limit ends at the next midnight of the zone of days; without a name that is Shanghai's.
#[tokio::test]
async fn a_daily_limit_ends_at_midnight_in_the_zone_of_days() {
    let api = Api::start().await;
    // None of these zones changes its clocks.
    for (n, (zone, minutes_ahead)) in [
        (None, 480),
        (Some("Asia/Shanghai"), 480),
        (Some("UTC"), 0),
        (Some("Asia/Kathmandu"), 345),
        (Some("Pacific/Kiritimati"), 840),
        (Some("Pacific/Pago_Pago"), -660),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("user-{n}");
        api.fund(&user, 200).await;
        let config = Config::for_both_stores(|name| match name {
            "TABLE_NAME" => Some("hongbao".to_owned()),
            "REDIS_URL" => Some(api.local.redis_url().to_owned()),
            "DAILY_SENT_MAX" => Some("100".to_owned()),
            "DAY_ZONE" => zone.map(str::to_owned),
            _ => None,
        });
        let wiring = Wiring::new(config.unwrap(), dynamodb_at(api.local.dynamodb_url())).unwrap();
        let send = async |key: &str| {
            let text = std::fs::read_to_string(crate::repository("events/send.json")).unwrap();
            let mut event: Value = serde_json::from_str(&text).unwrap();
            event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = (*user).into();
            event["headers"]["idempotency-key"] = key.into();
            event["body"] = random(60, 2).to_string().into();
            let request = local::gateway::event::request(serde_json::from_value(event).unwrap(), "r");
            let answer = send::handle(&wiring.send_packet(), &wiring.close_packet(), request).await;
            let answer = of_handler("POST", "/packets", answer);
            SPEC.check(&answer);
            answer
        };
        send("first").await.expect(201);
        let refused = send("second").await;
        refused.refused(403, "daily-limit-exceeded");
        let resets_at: Timestamp = refused.json()["resets_at"].as_str().unwrap().parse().unwrap();
        let there = i64::try_from(resets_at.ms()).unwrap() + minutes_ahead * 60_000;
        assert_eq!(there % 86_400_000, 0, "{zone:?}: {resets_at}");
        let ahead = resets_at.since(shared::ports::Clock::now(&shared::ports::System));
        assert!(!ahead.is_zero() && ahead.as_secs() <= 86_400, "{zone:?}: {resets_at}");
    }
}
