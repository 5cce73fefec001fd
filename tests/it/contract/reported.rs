//! What went wrong for users of similar projects, tried here: each case has inputs and the right value.
//! `tests/web/reported.test.mjs` has the cases of the page.

use local::Options;
use redis::cmd;
use serde_json::json;
use shared::redis::test_server::{TestServer, poll};

use super::api::{Api, random};

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
