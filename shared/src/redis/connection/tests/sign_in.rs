use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::super::iam::{IamAuth, Tokens};
use super::*;

use crate::redis::test_server::{TestCluster, TestServer};

fn tokens() -> Tokens {
    let credentials = Credentials::new("id", "key", Some("session".to_owned()), None, "test");
    let sdk = SdkConfig::builder()
        .region(Region::new("ap-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials));
    Tokens::new(IamAuth { user: "functions".into(), cache: "hongbao".into(), serverless: false }, sdk.build())
}

async fn who(connection: &Connection) -> String {
    let mut command = cmd("ACL");
    command.arg("WHOAMI");
    connection.run(&command.into()).await.unwrap()
}

/// A user who may sign in with whatever password.
const USER: [&str; 6] = ["functions", "on", "nopass", "~*", "&*", "+@all"];

#[tokio::test]
async fn a_connection_signs_in_with_a_token_and_its_successor_with_another() {
    let server = TestServer::start(&["--requirepass", "none-of-ours"]).await;
    let mut admin = redis::Client::open(format!("redis://:none-of-ours@127.0.0.1:{}", server.port()))
        .unwrap()
        .get_multiplexed_async_connection_with_config(
            &redis::AsyncConnectionConfig::new().set_response_timeout(Some(MARGIN)),
        )
        .await
        .unwrap();
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg(&USER);
    let () = user.query_async(&mut admin).await.unwrap();

    let connection = Connection::with_tokens(&unhurried(server.url()), Some(tokens())).unwrap();
    assert_eq!(who(&connection).await, "functions");
    let first = client_id(&connection).await;
    let () = cmd("CLIENT").arg("KILL").arg("USER").arg("functions").query_async(&mut admin).await.unwrap();
    assert_eq!(who(&connection).await, "functions");
    assert_ne!(client_id(&connection).await, first);
}

#[tokio::test]
async fn each_node_of_a_cluster_is_signed_in_to() {
    let cluster = TestCluster::start(3).await;
    for node in &cluster.nodes {
        let mut user = cmd("ACL");
        user.arg("SETUSER").arg(&USER);
        let () = node.command(&user).await;
    }
    let config = RedisConfig { cluster: true, ..unhurried(cluster.url()) };
    let connection = Connection::with_tokens(&config, Some(tokens())).unwrap();
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(connection.run::<i64>(&incr(key)).await.unwrap(), 1);
    }
    for node in &cluster.nodes {
        let clients: String = node.command(cmd("CLIENT").arg("LIST")).await;
        assert!(clients.contains("user=functions"), "{clients}");
    }
}

#[tokio::test]
async fn what_is_sent_is_the_token() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut said = String::new();
        let mut bytes = [0; 4_096];
        while !said.contains("X-Amz-Signature=") {
            let len = client.read(&mut bytes).await.unwrap();
            said.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
        }
        client.write_all(b"-WRONGPASS no\r\n").await.unwrap();
        said
    });
    let connection = Connection::with_tokens(&RedisConfig::new(url), Some(tokens())).unwrap();
    let error = connection.run::<i64>(&incr("a")).await.unwrap_err();
    let said = served.await.unwrap();
    assert!(said.starts_with("*3\r\n$4\r\nAUTH\r\n$9\r\nfunctions\r\n"), "{said}");
    assert!(said.contains("hongbao/?Action=connect&User=functions&X-Amz-Algorithm=AWS4-HMAC-SHA256&"), "{said}");
    assert!(!full_text(&error).contains("X-Amz"), "no log shows a token: {error:?}");
}

/// What every user here may do.
const RIGHTS: [&str; 4] = ["on", "~*", "&*", "+@all"];
/// Calls at once, in a process.
const CALLS: usize = 50;

/// A stand-in for Secrets Manager: it answers `GetSecretValue`.
struct SecretsManager {
    url: String,
    /// What stands in the secret. None: it can't be read.
    content: Arc<Mutex<Option<String>>>,
    reads: Arc<AtomicUsize>,
}

impl SecretsManager {
    async fn start(password: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (content, reads) = (Arc::<Mutex<_>>::default(), Arc::<AtomicUsize>::default());
        let (shown, counted) = (Arc::clone(&content), Arc::clone(&reads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shown), Arc::clone(&counted)));
            }
        });
        let this = Self { url, content, reads };
        this.holds(Some(password));
        this
    }

    fn holds(&self, password: Option<&str>) {
        *self.content.lock().unwrap() = password.map(|password| format!(r#"{{\"password\":\"{password}\"}}"#));
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// A process that was started with this password; empty: with none.
    fn process(&self, url: &str, cluster: bool, password: &str) -> Connection {
        let credentials = Credentials::new("id", "key", None, None, "test");
        let aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(crate::wiring::https_client())
            .endpoint_url(&self.url)
            .build();
        let colon = if password.is_empty() { "" } else { ":" };
        let url = url.replace("//", &format!("//app{colon}{password}@"));
        connection(&RedisConfig { secret: Some("redis".to_owned()), aws, cluster, ..unhurried(url) })
    }
}

async fn serve(stream: TcpStream, content: Arc<Mutex<Option<String>>>, reads: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        let mut is_first = true;
        while is_first || line != "\r\n" {
            is_first = false;
            line.clear();
            if stream.read_line(&mut line).await.is_ok_and(|read| read == 0) {
                return;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(body, br#"{"SecretId":"redis"}"#);
        reads.fetch_add(1, Ordering::SeqCst);
        let content = content.lock().unwrap().clone();
        let (status, answer) = match content {
            Some(content) => ("200 OK", format!(r#"{{"Name":"redis","SecretString":"{content}"}}"#)),
            None => ("400 Bad Request", r#"{"__type":"ResourceNotFoundException"}"#.to_owned()),
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.1");
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// Changes the user `app` of a server.
async fn app(server: &TestServer, change: &[&str]) {
    let mut command = cmd("ACL");
    command.arg("SETUSER").arg("app").arg(change);
    let () = server.command(&command).await;
}

/// Ends all connections of the user, as a failover would.
async fn kick(server: &TestServer) {
    let _: i64 = server.command(cmd("CLIENT").arg("KILL").arg("USER").arg("app")).await;
}

/// Many calls of a process at once, all of which must succeed. Their keys lie on all nodes of a cluster.
async fn all_succeed(process: &Connection) {
    let mut calls = JoinSet::new();
    for key in 0..CALLS {
        let process = process.clone();
        calls.spawn(async move { process.run::<i64>(&incr(&format!("key-{key}"))).await });
    }
    for answer in calls.join_all().await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn a_password_is_rotated_without_an_error() {
    let server = TestServer::start(&[]).await;
    app(&server, &[&[">old"], &RIGHTS[..]].concat()).await;
    let secrets = SecretsManager::start("old").await;
    let processes: Vec<_> = (0..5).map(|_| secrets.process(&server.url(), false, "old")).collect();
    for process in &processes {
        all_succeed(process).await;
    }
    // Both are valid, and the secret has the new one.
    app(&server, &[">new"]).await;
    secrets.holds(Some("new"));
    kick(&server).await;
    for process in &processes {
        all_succeed(process).await;
    }
    assert_eq!(secrets.reads(), 0, "the old one is still good");
    // Only the new one is.
    app(&server, &["<old"]).await;
    for process in &processes {
        all_succeed(process).await;
    }
    assert_eq!(secrets.reads(), 0, "connections stay");
    kick(&server).await;
    for process in &processes {
        all_succeed(process).await;
    }
    assert_eq!(secrets.reads(), processes.len(), "each process reads once for all of its calls");
    kick(&server).await;
    for process in &processes {
        all_succeed(process).await;
    }
    assert_eq!(secrets.reads(), processes.len(), "and keeps what it read");
    // A process whose environment is older than the rotation.
    all_succeed(&secrets.process(&server.url(), false, "old")).await;
    assert_eq!(secrets.reads(), processes.len() + 1);
}

#[tokio::test]
async fn all_nodes_of_a_cluster_share_one_read() {
    let cluster = TestCluster::start(3).await;
    for node in &cluster.nodes {
        app(node, &[&[">old"], &RIGHTS[..]].concat()).await;
    }
    let secrets = SecretsManager::start("old").await;
    let process = secrets.process(&cluster.url(), true, "old");
    all_succeed(&process).await;
    secrets.holds(Some("new"));
    for node in &cluster.nodes {
        app(node, &[">new", "<old"]).await;
        kick(node).await;
    }
    all_succeed(&process).await;
    assert_eq!(secrets.reads(), 1);
    all_succeed(&secrets.process(&cluster.url(), true, "old")).await;
    assert_eq!(secrets.reads(), 2);
}

#[tokio::test]
async fn a_secret_that_does_not_help_is_not_read_by_each_call() {
    let server = TestServer::start(&[]).await;
    app(&server, &[&[">right"], &RIGHTS[..]].concat()).await;
    let secrets = SecretsManager::start("s3cret-old").await;
    let process = secrets.process(&server.url(), false, "s3cret-old");
    let begun = Instant::now();
    for content in [Some("s3cret-old"), None] {
        secrets.holds(content);
        for _ in 0..CALLS {
            let error = process.run::<i64>(&incr("a")).await.unwrap_err();
            assert!(matches!(error, RedisError::Password { .. }), "{error:?}");
            let text = full_text(&error);
            assert!(text.contains("look at the secret redis") && !text.contains("s3cret"), "{error:?}");
        }
    }
    // An attempt that the machine delays may find the second over; a failed read is tried three times.
    let bound = 3 * (usize::try_from(begun.elapsed().as_secs()).unwrap() + 1);
    assert!((1..=bound).contains(&secrets.reads()), "{} reads", secrets.reads());
    // Once the secret is right, calls succeed within a second.
    secrets.holds(Some("right"));
    poll("the password", async || process.run::<i64>(&incr("a")).await.ok()).await;
}

#[tokio::test]
async fn a_url_without_a_password_leaves_it_to_the_secret() {
    let server = TestServer::start(&[]).await;
    app(&server, &[&[">first"], &RIGHTS[..]].concat()).await;
    let secrets = SecretsManager::start("first").await;
    let process = secrets.process(&server.url(), false, "");
    all_succeed(&process).await;
    assert_eq!(secrets.reads(), 1);
    secrets.holds(Some("second"));
    app(&server, &[">second", "<first"]).await;
    kick(&server).await;
    // The secret is read at most once a second.
    poll("the second password", async || process.run::<i64>(&incr("a")).await.ok()).await;
    assert_eq!(secrets.reads(), 2);
}
