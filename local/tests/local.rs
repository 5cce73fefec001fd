//! The system as a library, the way other tests use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use local::{Local, Options, StartError};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

fn address(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

async fn gone(url: &str) {
    let refused = async {
        while TcpStream::connect(address(url)).await.is_ok() {
            sleep(POLL).await;
        }
    };
    timeout(DEADLINE, refused).await.unwrap_or_else(|_| panic!("{url} still listens"));
}

#[tokio::test]
async fn several_stacks_run_side_by_side_and_stop_separately() {
    let one = Local::start(Options::ephemeral()).await.unwrap();
    let other = Local::start(Options::ephemeral()).await.unwrap();
    assert_ne!(one.redis_url(), other.redis_url());
    let stopped = [one.url(), one.redis_url().to_owned(), one.dynamodb_url().to_owned()];
    one.stop().await;
    for url in stopped {
        assert!(TcpStream::connect(address(&url)).await.is_err(), "{url} still listens");
    }
    let health = reqwest::get(format!("{}/_local/health", other.url())).await.unwrap();
    assert_eq!(health.status(), 200);
    other.stop().await;
}

#[tokio::test]
async fn a_dropped_stack_ends_too() {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let urls = [local.url(), local.redis_url().to_owned(), local.dynamodb_url().to_owned()];
    drop(local);
    for url in urls {
        gone(&url).await;
    }
}

#[tokio::test]
async fn given_stores_are_used_and_left_running() {
    let owner = Local::start(Options::ephemeral()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let guest = Local::start(Options {
        redis_url: Some(owner.redis_url().to_owned()),
        dynamodb_url: Some(owner.dynamodb_url().to_owned()),
        ephemeral: false,
        data_dir: data_dir.clone(),
        ..Options::ephemeral()
    })
    .await
    .unwrap();
    let deposit = format!("{}/wallets/alice/deposits/d1", owner.url());
    let deposit = reqwest::Client::new().put(deposit).body(r#"{"amount":7}"#).send().await.unwrap();
    assert_eq!(deposit.status(), 201);
    let wallet = reqwest::get(format!("{}/wallets/alice", guest.url())).await.unwrap().text().await.unwrap();
    assert_eq!(wallet, r#"{"user_id":"alice","balance":7,"currency":"CNY"}"#, "they are the same stores");
    assert!(guest.own_stores().is_empty());
    assert_eq!((guest.redis_url(), guest.dynamodb_url()), (owner.redis_url(), owner.dynamodb_url()));
    guest.stop().await;
    assert!(!data_dir.exists());
    for url in [owner.redis_url(), owner.dynamodb_url()] {
        TcpStream::connect(address(url)).await.unwrap();
    }
    owner.stop().await;
}

#[tokio::test]
async fn a_kept_stack_writes_its_stores_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stores.env");
    let options = Options { ephemeral: false, data_dir: folder.path().to_owned(), ..Options::ephemeral() };
    let local = Local::start(options).await.unwrap();
    let expected = format!(
        "TABLE_NAME='hongbao'\nREDIS_URL='{}'\nREDIS_CLUSTER='false'\nAWS_ENDPOINT_URL_DYNAMODB='{}'\n",
        local.redis_url(),
        local.dynamodb_url()
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    local.stop().await;
    assert!(!file.exists(), "the file outlives the stack");
}

#[tokio::test]
async fn a_taken_port_is_an_error() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Local::start(Options { port, ..Options::ephemeral() }).await.unwrap_err();
    assert!(matches!(error, StartError::Port { .. }), "{error}");
}
