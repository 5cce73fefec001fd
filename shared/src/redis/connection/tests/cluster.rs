use super::*;
use crate::redis::keys::slot;
use crate::redis::test_proxy::Proxy;
use crate::redis::test_server::{TestCluster, TestServer, TestTls};

/// A key of each node: their hashes are evenly spread.
fn keys(cluster: &TestCluster) -> Vec<String> {
    let nodes = cluster.nodes.len();
    let node_of = |key: &String| usize::from(slot(key.as_bytes())) * nodes / 16_384;
    let key_of = |node| (0..u16::MAX).map(|n| n.to_string()).find(|key| node_of(key) == node);
    (0..nodes).map(|node| key_of(node).unwrap()).collect()
}

fn config(cluster: &TestCluster) -> RedisConfig {
    RedisConfig { cluster: true, ..unhurried(cluster.url()) }
}

#[tokio::test]
async fn a_mute_node_costs_bounded_time_and_the_others_no_connection() {
    let cluster = TestCluster::start(3).await;
    // As soon as functions take a node for mute, and sooner.
    let connect_timeout = Duration::from_secs(1);
    let response_timeout = Duration::from_millis(100);
    let connection = connection(&RedisConfig { connect_timeout, response_timeout, ..config(&cluster) });
    let keys = keys(&cluster);
    for key in &keys {
        recover(&connection, &script(key)).await;
    }
    let before = cluster.accepted().await;
    cluster.nodes[1].stop();
    // Two answers that do not come, and the making of a connection while a node is mute.
    let bound = response_timeout * 2 + (connect_timeout + response_timeout) * 2 + MARGIN;
    for _ in 0..3 {
        let start = Instant::now();
        assert_unavailable(&connection.run::<i64>(&script(&keys[1])).await);
        recover(&connection, &script(&keys[0])).await;
        assert!(start.elapsed() < bound, "{:?}", start.elapsed());
    }
    cluster.nodes[1].cont();
    for key in &keys {
        recover(&connection, &script(key)).await;
    }
    let [first, _, last] = cluster.accepted_since(&before).await[..] else { panic!("three nodes") };
    assert_eq!((first, last), (0, 0));
}

#[tokio::test]
async fn a_new_process_does_not_wait_for_a_mute_node() {
    let cluster = TestCluster::start(2).await;
    let response_timeout = Duration::from_secs(4);
    cluster.nodes[0].stop();
    let connection = connection(&RedisConfig { response_timeout, ..config(&cluster) });
    let start = Instant::now();
    connection.run::<i64>(&script(&keys(&cluster)[1])).await.unwrap();
    assert!(start.elapsed() < response_timeout, "it asked the mute node first: {:?}", start.elapsed());
}

#[tokio::test]
async fn a_start_makes_one_connection_to_each_primary_and_none_to_replicas() {
    let Some(tls) = TestTls::for_server("the connections of a start to a cluster over TLS") else { return };
    let cluster = TestCluster::start_with_replicas(3, Some(&tls)).await;
    let keys = keys(&cluster);
    let config = RedisConfig {
        cluster: true,
        ca: Authorities::File(tls.ca_file()),
        idle_max: Duration::ZERO,
        ..unhurried(cluster.tls_url())
    };
    // A cluster's common name leads to one of its nodes, which has another name of its own.
    for url in [config.url.clone(), config.url.replace("127.0.0.1", "localhost")] {
        let before = cluster.accepted().await;
        let connection = connection(&RedisConfig { url, ..config.clone() });
        connection.connect().await.unwrap();
        for key in keys.iter().chain(&keys) {
            connection.run::<i64>(&script(key)).await.unwrap();
        }
        assert_eq!(cluster.accepted_since(&before).await, [1, 1, 1, 0, 0, 0]);
    }
}

#[tokio::test]
async fn a_replica_that_takes_over_is_found() {
    let mut cluster = TestCluster::start_with_replicas(3, None).await;
    let keys = keys(&cluster);
    let connection = connection(&config(&cluster));
    for key in &keys {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), 1);
    }
    let replicated: i64 = cluster.nodes[1].command(cmd("WAIT").arg(1).arg(10_000)).await;
    assert_eq!(replicated, 1);
    // One primary hands over in peace, which leaves it a replica; another one is lost.
    let () = cluster.replicas[0].command(cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER")).await;
    cluster.nodes[1].kill();
    assert_unavailable(&connection.run::<i64>(&script(&keys[1])).await);
    let () = cluster.replicas[1].command(cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER")).await;
    for key in &keys {
        recover(&connection, &script(key)).await;
    }
    assert_eq!(cluster.replicas[1].command::<i64>(cmd("GET").arg(&keys[1])).await, 2);
}

#[tokio::test]
async fn a_slot_is_followed_to_its_new_node() {
    let cluster = TestCluster::start(2).await;
    let connection = connection(&config(&cluster));
    let key = &keys(&cluster)[0];
    let [from, to] = [&cluster.nodes[0], &cluster.nodes[1]];
    let from_id: String = from.command(cmd("CLUSTER").arg("MYID")).await;
    let to_id: String = to.command(cmd("CLUSTER").arg("MYID")).await;
    let set = async |node: &TestServer, state: &str, id: &str| {
        let slot = slot(key.as_bytes());
        let () = node.command(cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(state).arg(id)).await;
    };
    connection.connect().await.unwrap();
    // On its way: the old node has none of its keys any more, and the new one takes calls that ask.
    set(to, "IMPORTING", &from_id).await;
    set(from, "MIGRATING", &to_id).await;
    for count in 1..4 {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), count);
    }
    // Arrived.
    for node in [to, from] {
        set(node, "NODE", &to_id).await;
    }
    for count in 4..7 {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), count);
    }
    assert_eq!(to.command::<i64>(cmd("GET").arg(key)).await, 6);
}

/// A serverless cache is a cluster of one node. While it scales, it answers errors that pass.
#[tokio::test]
async fn a_cache_that_scales_is_asked_again_and_then_unavailable() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]).await;
    let proxy = Proxy::start(server.port()).await;
    let () = server.command(cmd("CONFIG").arg("SET").arg("cluster-announce-port").arg(proxy.port())).await;
    let () = server.command(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383)).await;
    let connection = connection(&RedisConfig { cluster: true, ..unhurried(proxy.url()) });
    recover(&connection, &script("a")).await;
    for error in [
        "ERR internal error",
        "ERR Script attempted to access a non local key in a cluster node script: 2f3c, on @user_script:1.",
        "NOSCRIPT No matching script.",
    ] {
        proxy.refuse(error, 1);
        connection.run::<i64>(&script("a")).await.unwrap();
    }
    for error in ["ERR internal error", "LOADING Redis is loading the dataset in memory"] {
        proxy.refuse(error, usize::MAX);
        assert_unavailable(&connection.run::<i64>(&script("a")).await);
        proxy.refuse(error, 0);
        connection.run::<i64>(&script("a")).await.unwrap();
    }
}
