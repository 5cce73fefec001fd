use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::redis::Authorities;
use crate::redis::test_proxy::Proxy;
use crate::redis::test_server::{TestServer, TestTls, free_port};

#[tokio::test]
async fn a_script_takes_bytes_and_survives_a_flush() {
    let server = TestServer::start(&[]).await;
    let connection = connection(&unhurried(server.url()));
    let script = Script::new("redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[2], redis.call('GET', KEYS[1])}");
    let call = script.call(&["{a}:1", "{a}:2"]).arg(b"\0\xff\r\n".as_slice());
    let expected = (b"{a}:2".to_vec(), b"\0\xff\r\n".to_vec());
    assert_eq!(connection.run::<(Vec<u8>, Vec<u8>)>(&call).await.unwrap(), expected);
    let () = server.command(cmd("SCRIPT").arg("FLUSH")).await;
    assert_eq!(connection.run::<(Vec<u8>, Vec<u8>)>(&call).await.unwrap(), expected);
    // The fallback has left it with the server.
    let known: Vec<bool> = server.command(cmd("SCRIPT").arg("EXISTS").arg(script.hash())).await;
    assert_eq!(known, [true]);
}

#[tokio::test]
async fn an_answer_of_the_server_is_no_failure_of_the_connection() {
    let server = TestServer::start(&[]).await;
    let connection = connection(&unhurried(server.url()));
    let id = client_id(&connection).await;
    let () = server.command(cmd("SET").arg("a").arg("word")).await;
    for refused in [
        connection.run::<i64>(&incr("a")).await,
        connection.run(&Script::new("return redis.error_reply('MINE own')").call(&["a"])).await,
        connection.run(&Script::new("not lua").call(&["a"])).await,
        connection.run(&Script::new("return redis.call('LPUSH', KEYS[1], 1)").call(&["a"])).await,
    ] {
        assert!(matches!(refused, Err(RedisError::Refused { .. })), "{refused:?}");
    }
    let odd = connection.run::<i64>(&get("a")).await;
    assert!(matches!(odd, Err(RedisError::Unexpected { .. })), "{odd:?}");
    assert_eq!(client_id(&connection).await, id);
}

#[tokio::test]
async fn an_error_names_the_server_and_a_wrong_mode_says_how_to_mend_it() {
    let server = TestServer::start(&[]).await;
    let at = server.url().replace("redis://", "");
    let told = |error: &RedisError| crate::error_chain(error);
    let port = free_port();
    let gone = unhurried(format!("redis://ann:hunter2@127.0.0.1:{port}"));
    let gone = connection(&gone).run::<i64>(&incr("a")).await.unwrap_err();
    assert!(told(&gone).starts_with(&format!("the hot store at 127.0.0.1:{port} is unavailable: ")));
    let cluster = RedisConfig { cluster: true, ..unhurried(server.url()) };
    let no_cluster = connection(&cluster).run::<i64>(&incr("a")).await.unwrap_err();
    assert_eq!(
        told(&no_cluster),
        format!("the hot store at {at} is no cluster: leave out --redis-cluster, or set REDIS_CLUSTER=false")
    );
    let () = server.command(cmd("SET").arg("a").arg("word")).await;
    let script = Script::new("return redis.call('HGET', KEYS[1], 'x')").call(&["a"]);
    let wrong = connection(&unhurried(server.url())).run::<i64>(&script).await.unwrap_err();
    assert!(wrong.is_wrong_type(), "{wrong:?}");
    assert!(told(&wrong).starts_with(&format!("the hot store at {at} refused the call: ")));
}

#[tokio::test]
async fn a_demoted_server_is_unavailable_until_it_is_promoted() {
    let server = TestServer::start(&[]).await;
    let connection = connection(&unhurried(server.url()));
    let script = Script::new("return redis.call('INCR', KEYS[1])").call(&["a"]);
    assert_eq!(connection.run::<i64>(&script).await.unwrap(), 1);
    let id = client_id(&connection).await;
    let () = server.command(cmd("REPLICAOF").arg("127.0.0.1").arg(free_port())).await;
    assert_unavailable(&connection.run::<i64>(&script).await);
    assert_ne!(client_id(&connection).await, id);
    let () = server.command(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    assert_eq!(connection.run::<i64>(&script).await.unwrap(), 2);
}

#[tokio::test]
async fn a_restart_is_survived() {
    let mut server = TestServer::start(&[]).await;
    let config = unhurried(server.url());
    let connection = connection(&config);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    server.kill();
    let start = Instant::now();
    assert_unavailable(&connection.run::<i64>(&incr("a")).await);
    assert!(start.elapsed() < config.connect_timeout / 2, "a refused connection fails fast");
    server.restart().await;
    assert!(recover(&connection, &incr("a")).await < MARGIN);
    // And one that no call noticed.
    server.restart().await;
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_mute_server_costs_bounded_time() {
    let server = TestServer::start(&[]).await;
    let config = RedisConfig::new(server.url());
    let connection = connection(&config);
    recover(&connection, &incr("a")).await;
    server.stop();
    let start = Instant::now();
    assert_unavailable(&connection.run::<Option<i64>>(&get("a")).await);
    assert!(start.elapsed() < config.connect_timeout + config.response_timeout * 2 + MARGIN);
    server.cont();
    assert!(recover(&connection, &get("a")).await < MARGIN);
}

#[tokio::test]
async fn a_mute_socket_does_not_fail_the_call() {
    let server = TestServer::start(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    let connection = connection(&RedisConfig { response_timeout: Duration::from_secs(3), ..unhurried(proxy.url()) });
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    proxy.mute_open_connections();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let connection = connection.clone();
        calls.spawn(async move { connection.run::<i64>(&incr("a")).await });
    }
    let mut counts: Vec<_> = calls.join_all().await.into_iter().map(Result::unwrap).collect();
    counts.sort_unstable();
    assert_eq!(counts, (2..=21).collect::<Vec<_>>());
    assert_eq!(proxy.accepted(), 2, "they all moved to one new connection");
}

#[tokio::test]
async fn a_call_is_repeated_once_at_most() {
    let server = TestServer::start(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    let connection = connection(&unhurried(proxy.url()));
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    proxy.cut_answers(1);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 3);
    proxy.cut_answers(10);
    assert_unavailable(&connection.run::<i64>(&incr("a")).await);
    proxy.cut_answers(0);
    assert_eq!(connection.run::<i64>(&get("a")).await.unwrap(), 5);
}

#[tokio::test]
async fn an_idle_connection_that_is_mute_or_cut_costs_no_call() {
    let server = TestServer::start(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    let config =
        RedisConfig { response_timeout: Duration::from_secs(4), idle_max: Duration::ZERO, ..unhurried(proxy.url()) };
    let connection = connection(&config);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    proxy.mute_open_connections();
    let begun = Instant::now();
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 2, "the mute connection got the probe only");
    assert!(begun.elapsed() < config.response_timeout, "the probe gives up early: {:?}", begun.elapsed());
    let () = server.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes")).await;
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 3);
}

#[tokio::test]
async fn a_start_connects_and_a_start_without_the_server_leaves_it_to_the_call() {
    let mut server = TestServer::start(&[]).await;
    let early = connection(&unhurried(server.url()));
    early.connect().await.unwrap();
    let accepted = server.accepted().await;
    assert_eq!(early.run::<i64>(&incr("a")).await.unwrap(), 1);
    assert_eq!(server.accepted().await, accepted + 1, "the call found a connection");
    server.kill();
    let late = connection(&unhurried(server.url()));
    assert_unavailable(&late.connect().await);
    server.restart().await;
    assert_eq!(late.run::<i64>(&incr("a")).await.unwrap(), 1);
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
        let mut calls = JoinSet::new();
        for _ in 0..200 {
            let connection = connection.clone();
            calls.spawn(async move { connection.run::<i64>(&incr("a")).await });
        }
        calls.join_all().await.iter().for_each(assert_unavailable);
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
    let server =
        TestServer::start(&["--requirepass", "p,s/s word", "--user", "ann", "on", ">hunter2", "~*", "+@all"]).await;
    let at = |login: &str| unhurried(server.url().replace("//", &format!("//{login}@")));
    for login in [":p%2Cs%2Fs%20word", "default:p%2Cs%2Fs%20word", "ann:hunter2"] {
        connection(&at(login)).run::<i64>(&incr("a")).await.unwrap();
    }
    for login in ["ann:hunter3", ":hunter3", "bob:hunter3"] {
        let error = connection(&at(login)).run::<i64>(&incr("a")).await.unwrap_err();
        assert!(matches!(error, RedisError::Password { .. }), "{error:?}");
        assert!(!full_text(&error).contains("hunter"), "{error:?}");
    }
    let error = connection(&unhurried(server.url())).run::<i64>(&incr("a")).await.unwrap_err();
    assert!(matches!(error, RedisError::Password { .. }), "{error:?}");
    assert!(full_text(&error).contains("look at the password in REDIS_URL or --redis-url"), "{error:?}");
}

/// Signs a connection out, as the server's end of it would.
async fn sign_out(connection: &Connection) {
    let () = connection.run(&cmd("RESET").into()).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_signed_out_signs_in_again() {
    let server = TestServer::start(&["--requirepass", "hunter2"]).await;
    let process = connection(&unhurried(server.url().replace("//", "//:hunter2@")));
    assert_eq!(process.run::<i64>(&incr("a")).await.unwrap(), 1);
    sign_out(&process).await;
    assert_eq!(process.run::<i64>(&incr("a")).await.unwrap(), 2);
}

#[tokio::test]
async fn a_right_that_is_missing_is_an_operators_matter() {
    let server = TestServer::start(&["--user", "ann", "on", ">hunter2", "~*", "+@all"]).await;
    let process = connection(&unhurried(server.url().replace("//", "//ann:hunter2@")));
    let id = client_id(&process).await;
    let script = Script::new("return redis.call('INCR', KEYS[1])").call(&["a"]);
    let set = async |right: &str| {
        let () = server.command(cmd("ACL").arg("SETUSER").arg("ann").arg(right)).await;
    };
    set("-incr").await;
    for call in [incr("a"), script.clone()] {
        let error = process.run::<i64>(&call).await.unwrap_err();
        assert!(matches!(error, RedisError::Rights { .. }) && error.is_passing(), "{error:?}");
    }
    set("+incr").await;
    assert_eq!(process.run::<i64>(&script).await.unwrap(), 1);
    assert_eq!(client_id(&process).await, id, "the connection stays");
}

#[tokio::test]
async fn tls_trusts_the_given_authority_only() {
    let Some(tls) = TestTls::for_server("the authority that TLS trusts") else { return };
    let port = free_port();
    let args = tls.args(port);
    let _server = TestServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let stranger = unhurried(format!("rediss://127.0.0.1:{port}"));
    let text = std::fs::read_to_string(tls.ca_file()).unwrap();
    for (times, ca) in [(1, Authorities::File(tls.ca_file())), (2, Authorities::Pem(text))] {
        let friend = RedisConfig { ca, ..stranger.clone() };
        assert_eq!(connection(&friend).run::<i64>(&incr("a")).await.unwrap(), times);
    }
    for ca in [Authorities::System, Authorities::Amazon] {
        let stranger = RedisConfig { ca, ..stranger.clone() };
        assert_unavailable(&connection(&stranger).run::<i64>(&incr("a")).await);
    }
}
