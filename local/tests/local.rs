//! The system as a library, the way other tests use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::data_dir::DataDir;
use local::dynamodb::DynamoDb;
use local::gateway::Gateway;
use local::redis_server::RedisServer;
use local::stack::{self, Stack, Stores};
use local::{DevOptions, Local, Mode, Options};
use shared::batching::Permits;
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
    let mode = Mode::Dev(DevOptions {
        redis_url: Some(owner.redis_url().to_owned()),
        dynamodb_url: Some(owner.dynamodb_url().to_owned()),
        ephemeral: false,
        data_dir: data_dir.clone(),
        ..DevOptions::ephemeral()
    });
    let guest = Local::start(Options { mode, ..Options::ephemeral() }).await.unwrap();
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
        let data_dir = folder.path().to_owned();
        let mode = Mode::Dev(DevOptions { ephemeral: false, data_dir, redis_url, ..DevOptions::ephemeral() });
        let local = Local::start(Options { mode, ..Options::ephemeral() }).await.unwrap();
        let expected = format!(
            "TABLE_NAME='hongbao'\nCURRENCY='CNY'\nREDIS_URL='{}'\nREDIS_CLUSTER='false'\nAWS_ENDPOINT_URL_DYNAMODB='{}'\nLOG_KEY='local'\nLOG_FOLDER='{}'\n",
            local.redis_url(),
            local.dynamodb_url(),
            folder.path().canonicalize().unwrap().join("log").display()
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
        let (options, stores) =
            (Options::ephemeral(), Stores { redis_url: redis.url(), dynamodb_url, ledger_is_embedded });
        let config = stack::config(&options, &stores).unwrap();
        let stack = Arc::new(Stack::connect(config, options, &stores, None, None, None).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = Gateway::serve(listener, stack, Permits::new(10)).unwrap();
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

/// A page can make a browser send any body to any port of this machine.
#[tokio::test]
async fn no_page_reaches_the_ledger() {
    const SITE: &str = "https://evil.example";
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let url = local.dynamodb_url();
    let client = reqwest::Client::new();
    let by_program = || {
        let scan = client.post(url).header("content-type", "application/x-amz-json-1.0");
        let scan = scan.header("x-amz-target", "DynamoDB_20120810.Scan").header("x-amz-date", "20261120T133000Z");
        let signed = "AWS4-HMAC-SHA256 Credential=a/20261120/a/dynamodb/aws4_request, SignedHeaders=host, Signature=0";
        scan.header("authorization", signed).body(r#"{"TableName":"hongbao"}"#)
    };
    assert_eq!(by_program().send().await.unwrap().status(), 200);
    let asked_before = "access-control-request-headers";
    for (page, what) in [
        (client.request(http::Method::OPTIONS, url).header("origin", SITE).header(asked_before, "*"), "a preflight"),
        (by_program().header("origin", SITE), "another site"),
        (by_program().header("origin", "null"), "a file"),
        (by_program().header("origin", local.url()), "the stack's own page"),
        (by_program().header("sec-fetch-site", "cross-site"), "a request without an origin"),
        (by_program().header("sec-fetch-site", "same-origin"), "a page that rebound a name"),
        (by_program().header("sec-fetch-site", "none"), "the address bar"),
        (by_program().header("host", "evil.example"), "a name of its own"),
        (client.get(url).header("host", "evil.example"), "a read under it"),
    ] {
        let refused = page.send().await.unwrap();
        assert_eq!(refused.status(), 403, "{what}");
        assert!(refused.headers().keys().all(|name| !name.as_str().starts_with("access-control")), "{what}");
    }
    local.stop().await;
}

/// Redis itself ends a connection that speaks HTTP, so nothing that a page may put into a request runs as a command.
#[tokio::test]
async fn no_page_reaches_redis() {
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let ask = async |bytes: &str| {
        let mut socket = TcpStream::connect(address(local.redis_url())).await.unwrap();
        let _ = socket.write_all(bytes.as_bytes()).await;
        let mut answer = String::new();
        let _ = timeout(DEADLINE, socket.read_to_string(&mut answer)).await.expect("the connection ends");
        answer
    };
    for method in ["POST", "PUT", "GET", "OPTIONS", "HEAD", "DELETE"] {
        for headers in ["Host: localhost", "host: localhost", "X-A: b\r\nHost: localhost"] {
            let body = "SET page reached\r\n";
            let length = body.len();
            ask(&format!("{method} /?SET HTTP/1.1\r\n{headers}\r\nContent-Length: {length}\r\n\r\n{body}")).await;
        }
    }
    assert_eq!(ask("EXISTS page\r\nQUIT\r\n").await, ":0\r\n+OK\r\n");
    local.stop().await;
}
