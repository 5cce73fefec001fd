use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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
