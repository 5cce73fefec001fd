use futures::FutureExt;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::redis::test_proxy::Proxy;
use crate::redis::test_server::{TestServer, free_port};

#[tokio::test]
async fn a_script_takes_bytes_and_survives_a_flush() {
    let server = TestServer::start(&[]).await;
    let connection = connection(&patient(server.url()));
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
    let connection = connection(&patient(server.url()));
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
async fn a_demoted_server_is_unavailable_until_it_is_promoted() {
    let server = TestServer::start(&[]).await;
    let connection = connection(&patient(server.url()));
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
    let config = patient(server.url());
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
    let connection = connection(&RedisConfig { response_timeout: Duration::from_secs(3), ..patient(proxy.url()) });
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
    let connection = connection(&patient(proxy.url()));
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    proxy.cut_answers(1);
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 3);
    proxy.cut_answers(10);
    assert_unavailable(&connection.run::<i64>(&incr("a")).await);
    proxy.cut_answers(0);
    assert_eq!(connection.run::<i64>(&get("a")).await.unwrap(), 5);
}

#[tokio::test]
async fn an_idle_connection_is_replaced() {
    let server = TestServer::start(&[]).await;
    let config = patient(server.url());
    let lasting = connection(&config);
    let hasty = connection(&RedisConfig { idle_max: Duration::from_millis(20), ..config });
    let (lasting_id, hasty_id) = (client_id(&lasting).await, client_id(&hasty).await);
    let idle = Instant::now();
    poll("the time", async || (idle.elapsed() > Duration::from_millis(25)).then_some(())).await;
    assert_eq!(client_id(&lasting).await, lasting_id);
    assert_ne!(client_id(&hasty).await, hasty_id);
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
    let connection = connection(&patient(proxy.url()));
    assert!(connection.run::<i64>(&incr("a")).now_or_never().is_none());
    assert_eq!(connection.run::<i64>(&incr("a")).await.unwrap(), 1);
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_password_is_used_and_never_shown() {
    let server =
        TestServer::start(&["--requirepass", "p,s/s word", "--user", "ann", "on", ">hunter2", "~*", "+@all"]).await;
    let at = |login: &str| patient(server.url().replace("//", &format!("//{login}@")));
    for login in [":p%2Cs%2Fs%20word", "default:p%2Cs%2Fs%20word", "ann:hunter2"] {
        connection(&at(login)).run::<i64>(&incr("a")).await.unwrap();
    }
    for login in ["ann:hunter3", ":hunter3", "bob:hunter3"] {
        let error = connection(&at(login)).run::<i64>(&incr("a")).await.unwrap_err();
        assert!(matches!(error, RedisError::Refused { .. }), "{error:?}");
        assert!(!full_text(&error).contains("hunter"), "{error:?}");
    }
    let error = connection(&patient(server.url())).run::<i64>(&incr("a")).await.unwrap_err();
    assert!(matches!(error, RedisError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn tls_trusts_the_given_authority_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    std::fs::write(path("ca.pem"), ca.pem()).unwrap();
    std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();

    let port = free_port();
    let files = [path("cert.pem"), path("key.pem"), path("ca.pem")];
    let [cert_file, key_file, ca_file] = files.each_ref().map(String::as_str);
    #[rustfmt::skip]
    let _server = TestServer::start(&[
        "--tls-port", &port.to_string(), "--tls-auth-clients", "no",
        "--tls-cert-file", cert_file, "--tls-key-file", key_file, "--tls-ca-cert-file", ca_file,
    ]).await;
    let stranger = patient(format!("rediss://127.0.0.1:{port}"));
    let friend = RedisConfig { ca_file: Some(ca_file.into()), ..stranger.clone() };
    assert_eq!(connection(&friend).run::<i64>(&incr("a")).await.unwrap(), 1);
    assert_unavailable(&connection(&stranger).run::<i64>(&incr("a")).await);
}
