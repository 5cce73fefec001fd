use std::sync::Arc;

use super::*;
use crate::redis::test_server::{TestCluster, TestServer};

/// A key of each node: their hashes are evenly spread.
async fn keys(cluster: &TestCluster) -> Vec<String> {
    let mut keys = Vec::new();
    for (i, _) in cluster.nodes.iter().enumerate() {
        for n in 0.. {
            let key = format!("{{{n}}}");
            let slot: usize = cluster.nodes[0].command(cmd("CLUSTER").arg("KEYSLOT").arg(&key)).await;
            if slot * cluster.nodes.len() / 16_384 == i {
                keys.push(key);
                break;
            }
        }
    }
    keys
}

fn config(cluster: &TestCluster) -> RedisConfig {
    RedisConfig { cluster: true, ..patient(cluster.url()) }
}

/// As soon as functions take a node for mute.
fn hasty(cluster: &TestCluster) -> RedisConfig {
    RedisConfig { cluster: true, ..RedisConfig::new(cluster.url()) }
}

fn script(key: &str) -> Call {
    Script::new("return redis.call('INCR', KEYS[1])").call(&[key])
}

#[tokio::test]
async fn scripts_find_their_nodes() {
    let cluster = TestCluster::start(3).await;
    let connection = connection(&config(&cluster));
    for (node, key) in cluster.nodes.iter().zip(keys(&cluster).await) {
        assert_eq!(connection.run::<i64>(&script(&key)).await.unwrap(), 1);
        assert_eq!(node.command::<i64>(cmd("GET").arg(&key)).await, 1);
    }
}

#[tokio::test]
async fn a_killed_node_recovers_and_the_others_go_on() {
    let mut cluster = TestCluster::start(3).await;
    let config = config(&cluster);
    let keys = keys(&cluster).await;
    let connection = connection(&config);
    for key in &keys {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), 1);
    }
    cluster.nodes[1].kill();
    let start = Instant::now();
    let dead = connection.run::<i64>(&script(&keys[1])).await;
    assert!(matches!(dead, Err(RedisError::Unavailable { .. })), "{dead:?}");
    assert!(start.elapsed() < bound(&config), "{:?}", start.elapsed());
    connection.run::<i64>(&script(&keys[0])).await.unwrap();
    // A script that no node knows yet finds its way while one of them is dead.
    let () = cluster.nodes[2].command(cmd("SCRIPT").arg("FLUSH")).await;
    connection.run::<i64>(&script(&keys[2])).await.unwrap();
    cluster.nodes[1].restart().await;
    cluster.ready().await;
    let took = recover(&connection, &script(&keys[1])).await;
    assert!(took < MARGIN, "{took:?}");
}

#[tokio::test]
async fn a_mute_node_costs_bounded_time() {
    let cluster = TestCluster::start(3).await;
    let config = hasty(&cluster);
    let keys = keys(&cluster).await;
    let connection = connection(&config);
    for key in &keys {
        recover(&connection, &script(key)).await;
    }
    cluster.nodes[1].stop();
    for _ in 0..3 {
        let start = Instant::now();
        assert_unavailable(&connection.run::<i64>(&script(&keys[1])).await);
        assert!(start.elapsed() < bound(&config), "{:?}", start.elapsed());
        let took = recover(&connection, &script(&keys[0])).await;
        assert!(took < bound(&config), "{took:?}");
    }
    cluster.nodes[1].cont();
    let took = recover(&connection, &script(&keys[1])).await;
    assert!(took < MARGIN, "{took:?}");
}

#[tokio::test]
async fn an_old_connection_is_replaced_when_a_node_is_mute() {
    let cluster = TestCluster::start(3).await;
    let short = Duration::from_millis(100);
    let config = RedisConfig { connect_timeout: short, response_timeout: short, ..hasty(&cluster) };
    let keys = keys(&cluster).await;
    let connection = connection(&config);
    recover(&connection, &script(&keys[1])).await;
    let first = connection.generation(None);
    cluster.nodes[1].stop();
    poll("a replacement", async || {
        assert_unavailable(&connection.run::<i64>(&script(&keys[1])).await);
        (!Arc::ptr_eq(&connection.generation(None), &first)).then_some(())
    })
    .await;
    recover(&connection, &script(&keys[0])).await;
}

#[tokio::test]
async fn a_mute_cluster_costs_bounded_time() {
    let cluster = TestCluster::start(3).await;
    let config = hasty(&cluster);
    let connection = connection(&config);
    recover(&connection, &script("a")).await;
    cluster.nodes.iter().for_each(TestServer::stop);
    let start = Instant::now();
    assert_unavailable(&connection.run::<i64>(&script("a")).await);
    assert!(start.elapsed() < bound(&config), "{:?}", start.elapsed());
    cluster.nodes.iter().for_each(TestServer::cont);
    let took = recover(&connection, &script("a")).await;
    assert!(took < MARGIN, "{took:?}");
}

#[tokio::test]
async fn a_restart_of_all_nodes_is_survived() {
    let mut cluster = TestCluster::start(3).await;
    let config = config(&cluster);
    let connection = connection(&config);
    assert_eq!(connection.run::<i64>(&script("a")).await.unwrap(), 1);
    cluster.nodes.iter_mut().for_each(TestServer::kill);
    for _ in 0..3 {
        let start = Instant::now();
        assert_unavailable(&connection.run::<i64>(&script("a")).await);
        assert!(start.elapsed() < bound(&config), "{:?}", start.elapsed());
    }
    for node in &mut cluster.nodes {
        node.restart().await;
    }
    cluster.ready().await;
    let took = recover(&connection, &script("a")).await;
    assert!(took < MARGIN, "{took:?}");
}

/// Two answers that do not come, and the making of a connection while a node is mute.
fn bound(config: &RedisConfig) -> Duration {
    config.response_timeout * 2 + (config.connect_timeout + config.response_timeout) * 2 + MARGIN
}
