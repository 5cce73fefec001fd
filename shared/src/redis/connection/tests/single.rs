use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::redis::test_proxy::Proxy;
use crate::redis::test_server::{TestServer, TestTls, free_port};

async fn alone() -> (TestServer, Connection) {
    let server = TestServer::start(&[]).await;
    let connection = connection(&unhurried(server.url()));
    (server, connection)
}

/// A server behind a proxy, and a process that has connected to it.
async fn behind_proxy(change: impl FnOnce(&mut RedisConfig)) -> (TestServer, Proxy, Connection) {
    let server = TestServer::start(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    let mut config = unhurried(proxy.url());
    change(&mut config);
    let connection = connection(&config);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    (server, proxy, connection)
}

/// As many calls at once, each of a task.
async fn all(count: usize, connection: &Connection) -> Vec<Result<i64, RedisError>> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let connection = connection.clone();
        calls.spawn(async move { connection.run(&incr("a")).await });
    }
    calls.join_all().await
}

#[tokio::test]
async fn a_script_takes_bytes_and_survives_a_flush() {
    let (server, connection) = alone().await;
    let code = "redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[2], redis.call('GET', KEYS[1])}";
    let call = Script::new(code).call(&["{a}:1", "{a}:2"]).arg(b"\0\xff\r\n".as_slice());
    for _ in 0..2 {
        let answer: (String, Vec<u8>) = connection.run(&call).await.unwrap();
        assert_eq!(answer, ("{a}:2".to_owned(), b"\0\xff\r\n".to_vec()));
        // The fallback has left it with the server.
        let hash = redis::Script::new(code).get_hash().to_owned();
        let known: Vec<bool> = server.command(cmd("SCRIPT").arg("EXISTS").arg(hash)).await;
        assert_eq!(known, [true]);
        let () = server.command(cmd("SCRIPT").arg("FLUSH")).await;
    }
}

#[tokio::test]
async fn an_answer_of_the_server_is_no_failure_of_the_connection() {
    let (server, connection) = alone().await;
    let id = client_id(&connection).await;
    let () = server.command(cmd("SET").arg("a").arg("word")).await;
    for code in ["return redis.error_reply('MINE own')", "not lua", "return redis.call('LPUSH', KEYS[1], 1)"] {
        let refused = connection.run::<i64>(&Script::new(code).call(&["a"])).await.unwrap_err();
        assert!(matches!(refused, RedisError::Refused { .. }), "{refused:?}");
        assert_eq!(refused.is_wrong_type(), code.contains("LPUSH"), "{refused:?}");
    }
    let odd = connection.run::<i64>(&get("a")).await;
    assert!(matches!(odd, Err(RedisError::Unexpected { .. })), "{odd:?}");
    assert_eq!(client_id(&connection).await, id);
}

#[tokio::test]
async fn an_error_names_the_server_and_a_wrong_mode_says_how_to_mend_it() {
    let (server, _) = alone().await;
    let of_cluster = Proxy::start(server.port()).await;
    of_cluster.refuse("MOVED 3999 127.0.0.1:1", 1);
    let gone = format!("redis://ann:hunter2@127.0.0.1:{}", free_port());
    for (url, cluster, says) in [
        (gone, false, "is unavailable: "),
        (server.url(), true, "is no cluster: leave out --redis-cluster, or set REDIS_CLUSTER=false"),
        (of_cluster.url(), false, "is a cluster: add --redis-cluster, or set REDIS_CLUSTER=true"),
    ] {
        let process = connection(&RedisConfig { cluster, ..unhurried(&url) });
        let told = crate::error_chain(&process.run::<i64>(&incr("a")).await.unwrap_err());
        let at = url.trim_start_matches("redis://").trim_start_matches("ann:hunter2@");
        assert!(told.starts_with(&format!("the hot store at {at} {says}")), "{told}");
    }
}

#[tokio::test]
async fn a_demoted_server_is_unavailable_until_it_is_promoted() {
    let (server, connection) = alone().await;
    let id = client_id(&connection).await;
    let () = server.command(cmd("REPLICAOF").arg("127.0.0.1").arg(free_port())).await;
    assert_unavailable(&connection.run::<i64>(&script("a")).await);
    assert_ne!(client_id(&connection).await, id);
    let () = server.command(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    assert_eq!(connection.run::<i64>(&script("a")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_start_connects_and_a_restart_of_the_server_is_survived() {
    let (mut server, connection) = alone().await;
    connection.connect().await.unwrap();
    let accepted = server.accepted().await;
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    assert_eq!(server.accepted().await, accepted + 1, "the call found a connection");
    server.kill();
    let start = Instant::now();
    assert_unavailable(&connection.run::<i64>(&incr("a")).await);
    assert_unavailable(&connection.connect().await);
    assert!(start.elapsed() < MARGIN / 2, "a refused connection fails fast");
    server.restart().await;
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_mute_socket_does_not_fail_the_call() {
    let (_server, proxy, connection) = behind_proxy(|config| config.response_timeout = Duration::from_secs(3)).await;
    proxy.mute_open_connections();
    let mut counts: Vec<_> = all(20, &connection).await.into_iter().map(Result::unwrap).collect();
    counts.sort_unstable();
    assert_eq!(counts, (2..=21).collect::<Vec<_>>());
    assert_eq!(proxy.accepted(), 2, "they all moved to one new connection");
}

#[tokio::test]
async fn an_idle_connection_that_is_mute_or_cut_costs_no_call() {
    let response_timeout = Duration::from_secs(4);
    let (server, proxy, connection) = behind_proxy(|config| {
        config.response_timeout = response_timeout;
        config.idle_max = Duration::ZERO;
    })
    .await;
    proxy.mute_open_connections();
    let begun = Instant::now();
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 2, "the mute connection got the probe only");
    assert!(begun.elapsed() < response_timeout, "the probe gives up early: {:?}", begun.elapsed());
    let () = server.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes")).await;
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 3);
}

#[tokio::test]
async fn a_call_is_repeated_once_at_most() {
    let (_server, proxy, connection) = behind_proxy(|_| {}).await;
    proxy.cut_answers(1);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 3);
    proxy.cut_answers(10);
    assert_unavailable(&connection.run::<i64>(&incr("a")).await);
    proxy.cut_answers(0);
    assert_eq!(connection.run::<i64>(&get("a")).await.unwrap(), 5);
}

#[tokio::test]
async fn callers_share_an_attempt_to_connect() {
    // It completes the handshake of TCP and never answers to AUTH.
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://:secret@{}", dead.local_addr().unwrap());
    let config = RedisConfig { connect_timeout: Duration::from_millis(400), ..RedisConfig::new(url) };
    let connection = connection(&config);
    for _ in 0..2 {
        let start = Instant::now();
        all(200, &connection).await.iter().for_each(assert_unavailable);
        assert!(start.elapsed() >= config.connect_timeout);
    }
    // One connection for each round, and no more.
    for expected in [true, true, false] {
        let accepted = tokio::time::timeout(Duration::from_millis(10), dead.accept()).await.is_ok();
        assert_eq!(accepted, expected);
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_does_not_stop_the_attempt() {
    let server = TestServer::start(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    let connection = connection(&unhurried(proxy.url()));
    assert!(connection.run::<i64>(&incr("a")).now_or_never().is_none());
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_password_is_used_and_never_shown() {
    let users = ["--requirepass", "p,s/s word", "--user", "ann", "on", ">hunter2", "~*", "+@all"];
    let server = TestServer::start(&users).await;
    let at = |login: &str| connection(&unhurried(server.url().replace("//", &format!("//{login}"))));
    for login in [":p%2Cs%2Fs%20word@", "default:p%2Cs%2Fs%20word@", "ann:hunter2@"] {
        at(login).run::<i64>(&incr("a")).await.unwrap();
    }
    for login in ["ann:hunter3@", ":hunter3@", "bob:hunter3@", ""] {
        let error = at(login).run::<i64>(&incr("a")).await.unwrap_err();
        assert!(matches!(error, RedisError::Password { .. }), "{error:?}");
        let text = full_text(&error);
        assert!(
            !text.contains("hunter") && text.contains("look at the password in REDIS_URL or --redis-url"),
            "{text}"
        );
    }
    // A connection that is signed out signs in again.
    let process = at("ann:hunter2@");
    let () = process.run(&cmd("RESET").into()).await.unwrap();
    process.run::<i64>(&incr("a")).await.unwrap();
}

#[tokio::test]
async fn a_right_that_is_missing_is_an_operators_matter() {
    let server = TestServer::start(&["--user", "ann", "on", ">hunter2", "~*", "+@all"]).await;
    let process = connection(&unhurried(server.url().replace("//", "//ann:hunter2@")));
    let id = client_id(&process).await;
    let () = server.command(cmd("ACL").arg("SETUSER").arg("ann").arg("-incr")).await;
    for call in [incr("a"), script("a")] {
        let error = process.run::<i64>(&call).await.unwrap_err();
        assert!(matches!(error, RedisError::Rights { .. }) && error.is_passing(), "{error:?}");
    }
    assert_eq!(client_id(&process).await, id, "the connection stays");
}

#[tokio::test]
async fn tls_trusts_the_given_authority_only() {
    let Some(tls) = TestTls::for_server("the authority that TLS trusts") else { return };
    let port = free_port();
    let args = tls.args(port);
    let _server = TestServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let text = std::fs::read_to_string(tls.ca_file()).unwrap();
    for (ca, is_trusted) in [
        (Authorities::File(tls.ca_file()), true),
        (Authorities::Pem(text), true),
        (Authorities::System, false),
        (Authorities::Amazon, false),
    ] {
        let process = connection(&RedisConfig { ca, ..unhurried(format!("rediss://127.0.0.1:{port}")) });
        let answer = process.run::<i64>(&incr("a")).await;
        if is_trusted {
            answer.unwrap();
        } else {
            assert_unavailable(&answer);
        }
    }
}
