//! Against real servers, and real faults.

mod cluster;
mod sign_in;
mod single;

use std::time::{Duration, Instant};

use redis::cmd;

use super::{Authorities, Call, Connection, RedisConfig, RedisConfigError, RedisError, Script};
use crate::redis::test_server::poll;

/// What slow machines may take on top: they stall for seconds. A call that hangs takes longer.
const MARGIN: Duration = Duration::from_secs(10);

/// The server at `url`, by a client that takes no stall of the machine for a fault.
fn unhurried(url: impl Into<String>) -> RedisConfig {
    RedisConfig { connect_timeout: MARGIN, response_timeout: MARGIN, ..RedisConfig::new(url) }
}

fn connection(config: &RedisConfig) -> Connection {
    Connection::new(config).unwrap()
}

fn incr(key: &str) -> Call {
    Call::from(cmd("INCR")).arg(key)
}

/// The same in a script.
fn script(key: &str) -> Call {
    Script::new("return redis.call('INCR', KEYS[1])").call(&[key])
}

fn get(key: &str) -> Call {
    Call::from(cmd("GET")).arg(key)
}

/// The number of the server's connection that the call came over.
async fn client_id(connection: &Connection) -> u64 {
    connection.run(&Call::from(cmd("CLIENT")).arg("ID")).await.unwrap()
}

/// Runs `call` until it succeeds.
async fn recover(connection: &Connection, call: &Call) {
    poll("the connection", async || connection.run::<i64>(call).await.ok()).await;
}

fn assert_unavailable<T: std::fmt::Debug>(result: &Result<T, RedisError>) {
    assert!(matches!(result, Err(RedisError::Unavailable { .. })), "{result:?}");
}

/// All that a log could show of an error.
fn full_text(error: &dyn std::error::Error) -> String {
    format!("{error:?}: {}", crate::error_chain(error))
}

#[test]
fn a_configuration_is_checked_and_hides_its_password() {
    let of = |urls: &str, cluster: bool| Connection::new(&RedisConfig { cluster, ..RedisConfig::new(urls) });
    let wrong = of("redis://:hunter2@[nowhere", false).unwrap_err();
    assert!(matches!(wrong, RedisConfigError::Url { .. }) && !full_text(&wrong).contains("hunter2"), "{wrong:?}");
    for url in ["rediss://b/#insecure", "redis+unix:///socket"] {
        assert!(matches!(of(url, false), Err(RedisConfigError::Url { .. })), "{url}");
    }
    let two = "redis://user:hunter2@a,redis://user:hunter2@b";
    assert!(matches!(of(two, false), Err(RedisConfigError::SeveralUrls)));
    assert!(!format!("{:?}{:?}", RedisConfig::new(two), of(two, true).unwrap()).contains("hunter2"));
    for other in ["redis://user:hunter3@b", "redis://b", "rediss://user:hunter2@b", "redis://user:hunter2@b/1"] {
        let unlike = of(&format!("redis://user:hunter2@a,{other}"), true);
        assert!(matches!(unlike, Err(RedisConfigError::Url { .. })), "{other}");
    }
    let no_ca = RedisConfig { ca: Authorities::File("/nowhere.pem".into()), ..RedisConfig::new("rediss://a") };
    assert!(matches!(Connection::new(&no_ca), Err(RedisConfigError::CaFile { .. })));
}
