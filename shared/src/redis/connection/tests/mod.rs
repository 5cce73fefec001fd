//! Against real servers, and real faults.

mod cluster;
mod sign_in;
mod single;

use std::error::Error;
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
    let mut command = cmd("INCR");
    command.arg(key);
    command.into()
}

fn get(key: &str) -> Call {
    let mut command = cmd("GET");
    command.arg(key);
    command.into()
}

/// The number of the server's connection that the call came over.
async fn client_id(connection: &Connection) -> u64 {
    let mut command = cmd("CLIENT");
    command.arg("ID");
    connection.run(&command.into()).await.unwrap()
}

/// Runs `call` until it succeeds; how long that took.
async fn recover(connection: &Connection, call: &Call) -> Duration {
    let start = Instant::now();
    poll("the connection", async || connection.run::<i64>(call).await.ok()).await;
    start.elapsed()
}

fn assert_unavailable<T: std::fmt::Debug>(result: &Result<T, RedisError>) {
    assert!(matches!(result, Err(RedisError::Unavailable { .. })), "{result:?}");
}

/// All that a log could show of an error.
fn full_text(error: &dyn Error) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

#[test]
fn a_configuration_is_checked_and_hides_its_password() {
    let wrong = Connection::new(&RedisConfig::new("redis://:hunter2@[nowhere")).unwrap_err();
    assert!(matches!(wrong, RedisConfigError::Url { .. }) && !full_text(&wrong).contains("hunter2"), "{wrong:?}");
    let config = RedisConfig::new("redis://user:hunter2@a,redis://user:hunter2@b");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(matches!(Connection::new(&config), Err(RedisConfigError::SeveralUrls)));
    for other in ["redis://user:hunter3@b", "redis://b", "rediss://user:hunter2@b", "redis://user:hunter2@b/1"] {
        let url = format!("redis://user:hunter2@a,{other}");
        let unlike = Connection::new(&RedisConfig { cluster: true, ..RedisConfig::new(url) });
        assert!(matches!(unlike, Err(RedisConfigError::Url { .. })), "{other}");
    }
    let cluster = Connection::new(&RedisConfig { cluster: true, ..config }).unwrap();
    assert!(!format!("{cluster:?}").contains("hunter2"));
    let no_ca = RedisConfig { ca: Authorities::File("/nowhere.pem".into()), ..RedisConfig::new("rediss://a") };
    assert!(matches!(Connection::new(&no_ca), Err(RedisConfigError::CaFile { .. })));
}
