use std::slice::from_ref;

use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::iam::{IamAuth, Tokens};
use super::*;
use crate::redis::test_server::{TestCluster, TestServer};
use crate::secret::test_manager::Manager;

/// Calls at once, in a process.
const CALLS: usize = 50;

fn tokens() -> Tokens {
    let credentials = Credentials::new("id", "key", Some("session".to_owned()), None, "test");
    let sdk = SdkConfig::builder()
        .region(Region::new("ap-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials));
    Tokens::new(IamAuth { user: "app".into(), cache: "hongbao".into(), serverless: false }, sdk.build())
}

/// Changes the user `app` of these servers, who may do all.
async fn app(servers: &[TestServer], change: &[&str]) {
    for server in servers {
        let mut command = cmd("ACL");
        command.arg("SETUSER").arg("app").arg(&["on", "~*", "&*", "+@all"]).arg(change);
        let () = server.command(&command).await;
    }
}

/// Ends all connections of the user, as a failover would.
async fn kick(servers: &[TestServer]) {
    for server in servers {
        let _: i64 = server.command(cmd("CLIENT").arg("KILL").arg("USER").arg("app")).await;
    }
}

/// A process that was started with this password, in its URL as `:password`; empty: with none.
fn process(manager: &Manager, config: RedisConfig, password: &str) -> Connection {
    let url = config.url.replace("//", &format!("//app{password}@"));
    connection(&RedisConfig { url, secret: Some("name".to_owned()), aws: manager.aws.clone(), ..config })
}

/// What stands in the secret.
fn secret(password: &str) -> String {
    format!(r#"{{"password":"{password}"}}"#)
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
async fn a_connection_signs_in_with_a_token_and_its_successor_with_another() {
    let server = TestServer::start(&[]).await;
    // The user may sign in with whatever password.
    app(from_ref(&server), &["nopass"]).await;
    let connection = Connection::with_tokens(&unhurried(server.url()), Some(tokens())).unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let who: String = connection.run(&Call::from(cmd("ACL")).arg("WHOAMI")).await.unwrap();
        assert_eq!(who, "app");
        ids.push(client_id(&connection).await);
        kick(from_ref(&server)).await;
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn what_is_sent_is_the_token() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let (mut said, mut bytes) = (String::new(), [0; 4_096]);
        while !said.contains("X-Amz-Signature=") {
            let len = client.read(&mut bytes).await.unwrap();
            said.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
        }
        client.write_all(b"-WRONGPASS no\r\n").await.unwrap();
        said
    });
    let connection = Connection::with_tokens(&unhurried(url), Some(tokens())).unwrap();
    let error = connection.run::<i64>(&incr("a")).await.unwrap_err();
    let said = served.await.unwrap();
    assert!(said.starts_with("*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n"), "{said}");
    assert!(said.contains("hongbao/?Action=connect&User=app&X-Amz-Algorithm=AWS4-HMAC-SHA256&"), "{said}");
    assert!(!full_text(&error).contains("X-Amz"), "no log shows a token: {error:?}");
}

#[tokio::test]
async fn a_password_is_rotated_without_an_error() {
    let cluster = TestCluster::start(2).await;
    let config = RedisConfig { cluster: true, ..unhurried(cluster.url()) };
    app(&cluster.nodes, &[">old"]).await;
    let manager = Manager::start(&secret("old")).await;
    let processes = [(); 3].map(|()| process(&manager, config.clone(), ":old"));
    for process in &processes {
        all_succeed(process).await;
    }
    manager.holds(Some(&secret("new")));
    // In turn: what changes, whether connections end, and how often each process has read the secret by then.
    for (change, is_kicked, reads, why) in [
        (&[">new"][..], true, 0, "both are valid"),
        (&["<old"], false, 0, "connections stay"),
        (&[], true, 1, "each process reads once for all of its calls and all nodes"),
        (&[], true, 1, "and keeps what it read"),
    ] {
        app(&cluster.nodes, change).await;
        if is_kicked {
            kick(&cluster.nodes).await;
        }
        for process in &processes {
            all_succeed(process).await;
        }
        assert_eq!(manager.asked(), reads * processes.len(), "{why}");
    }
    // A process whose environment is older than the rotation.
    all_succeed(&process(&manager, config, ":old")).await;
    assert_eq!(manager.asked(), processes.len() + 1);
}

#[tokio::test]
async fn a_secret_that_does_not_help_is_not_read_by_each_call() {
    let server = TestServer::start(&[]).await;
    app(from_ref(&server), &[">right"]).await;
    let manager = Manager::start(&secret("s3cret-old")).await;
    let process = process(&manager, unhurried(server.url()), ":s3cret-old");
    let begun = Instant::now();
    for content in [Some("s3cret-old"), None] {
        manager.holds(content.map(secret).as_deref());
        for _ in 0..CALLS {
            let error = process.run::<i64>(&incr("a")).await.unwrap_err();
            assert!(matches!(error, RedisError::Password { .. }), "{error:?}");
            let text = full_text(&error);
            assert!(text.contains("look at the secret name") && !text.contains("s3cret-"), "{error:?}");
        }
    }
    let bound = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!((1..=bound).contains(&manager.asked()), "{} reads", manager.asked());
    // Once the secret is right, calls succeed within a second.
    manager.holds(Some(&secret("right")));
    recover(&process, &incr("a")).await;
}

#[tokio::test]
async fn a_url_without_a_password_leaves_it_to_the_secret() {
    let server = TestServer::start(&[]).await;
    app(from_ref(&server), &[">first"]).await;
    let manager = Manager::start(&secret("first")).await;
    let process = process(&manager, unhurried(server.url()), "");
    all_succeed(&process).await;
    manager.holds(Some(&secret("second")));
    app(from_ref(&server), &[">second", "<first"]).await;
    kick(from_ref(&server)).await;
    // The secret is read at most once a second.
    recover(&process, &incr("a")).await;
    assert_eq!(manager.asked(), 2);
}
