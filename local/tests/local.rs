//! The system as a library, the way other tests use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::data_dir::DataDir;
use local::dynamodb::DynamoDb;
use local::gateway::Gateway;
use local::redis_server::RedisServer;
use local::stack::{Settings, Stack};
use local::{Ack, Entrance, Local, Options};
use shared::batching::AdmissionLimiter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
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
    assert_eq!(wallet, r#"{"user_id":"alice","balance":7,"pending":0,"currency":"CNY"}"#, "they are the same stores");
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
async fn a_kept_stack_writes_its_stores_addresses_for_their_owner_only() {
    let owner = Local::start(Options::ephemeral()).await.unwrap();
    for redis_url in [None, Some(owner.redis_url().to_owned())] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stores.env");
        std::fs::write(&file, "from a killed stack").unwrap();
        let options = Options { ephemeral: false, data_dir: folder.path().to_owned(), ..Options::ephemeral() };
        let local = Local::start(Options { redis_url, ..options }).await.unwrap();
        let expected = format!(
            "TABLE_NAME='hongbao'\nREDIS_URL='{}'\nREDIS_CLUSTER='false'\nAWS_ENDPOINT_URL_DYNAMODB='{}'\nLOG_KEY='local'\n",
            local.redis_url(),
            local.dynamodb_url()
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        local.stop().await;
        assert!(!file.exists(), "the file outlives the stack");
    }
    owner.stop().await;
}

/// Forwards connections to `upstream`, and keeps what the clients send.
async fn overheard(upstream: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&upstream).await.unwrap();
            let ((mut asks, mut takes), (mut answers, mut server)) = (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut answers, &mut takes).await });
            let copy = Arc::clone(&copy);
            tokio::spawn(async move {
                let mut bytes = vec![0; 65_536];
                while let Ok(read @ 1..) = asks.read(&mut bytes).await {
                    copy.lock().unwrap().extend_from_slice(&bytes[..read]);
                    server.write_all(&bytes[..read]).await.unwrap();
                }
            });
        }
    });
    (url, heard)
}

#[tokio::test]
async fn the_embedded_ledger_receives_no_tokens_and_any_other_does() {
    const DEPOSITS: usize = 5;
    let redis = RedisServer::start(&DataDir::temporary().unwrap()).await.unwrap();
    let dynamodb = DynamoDb::start(None).await.unwrap();
    for ledger_is_embedded in [true, false] {
        let (dynamodb_url, heard) = overheard(address(&dynamodb.url()).to_owned()).await;
        let settings = Settings {
            redis_url: redis.url(),
            redis_cluster: false,
            dynamodb_url,
            table: "hongbao".to_owned(),
            ack: Ack::Ledger,
            entrance: Entrance::Api,
            ticket_key: None,
            user_withdrawals: false,
            logs_requests: false,
            allowed_hosts: Vec::new(),
            base_path: None,
            ledger_is_embedded,
            sandbox: None,
        };
        let stack = Arc::new(Stack::connect(settings, None).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = Gateway::serve(listener, stack, AdmissionLimiter::new(10)).unwrap();
        for number in 0..DEPOSITS {
            let url = format!("http://{}/wallets/alice/deposits/{ledger_is_embedded}-{number}", gateway.address());
            let answer = reqwest::Client::new().put(url).body(r#"{"amount":1}"#).send().await.unwrap();
            assert_eq!(answer.status(), 201);
        }
        let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
        let transactions = heard.matches("DynamoDB_20120810.TransactWriteItems").count();
        let tokens = heard.matches("ClientRequestToken").count();
        assert_eq!((transactions, tokens), (DEPOSITS, if ledger_is_embedded { 0 } else { DEPOSITS }), "{heard}");
        gateway.stop(DEADLINE).await;
    }
    redis.stop().await;
}
