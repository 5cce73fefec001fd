use super::*;
use crate::redis::test_proxy::Proxy;
use crate::redis::test_server::{TestCluster, TestServer, TestTls};

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
    RedisConfig { cluster: true, ..unhurried(cluster.url()) }
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
async fn a_node_of_a_cluster_is_no_single_server() {
    let cluster = TestCluster::start(3).await;
    let alone = connection(&unhurried(cluster.nodes[0].url()));
    let keys = keys(&cluster).await;
    let error = alone.run::<i64>(&script(&keys[1])).await.unwrap_err();
    assert!(error.to_string().ends_with(" is a cluster: add --redis-cluster, or set REDIS_CLUSTER=true"), "{error:?}");
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
async fn a_mute_node_costs_bounded_time_and_the_others_no_connection() {
    let cluster = TestCluster::start(3).await;
    let config = RedisConfig { response_timeout: Duration::from_millis(100), ..hasty(&cluster) };
    let keys = keys(&cluster).await;
    let connection = connection(&config);
    for key in &keys {
        recover(&connection, &script(key)).await;
    }
    let before = cluster.accepted().await;
    cluster.nodes[1].stop();
    for _ in 0..3 {
        let start = Instant::now();
        assert_unavailable(&connection.run::<i64>(&script(&keys[1])).await);
        recover(&connection, &script(&keys[0])).await;
        assert!(start.elapsed() < bound(&config), "{:?}", start.elapsed());
    }
    cluster.nodes[1].cont();
    for key in &keys {
        let took = recover(&connection, &script(key)).await;
        assert!(took < MARGIN, "{took:?}");
    }
    let [first, _, last] = cluster.accepted_since(&before).await[..] else { panic!("three nodes") };
    assert_eq!((first, last), (0, 0));
}

#[tokio::test]
async fn a_start_makes_one_connection_to_each_primary_and_none_to_replicas() {
    let Some(tls) = TestTls::for_server("the connections of a start to a cluster over TLS") else { return };
    let cluster = TestCluster::start_with_replicas(3, Some(&tls)).await;
    let keys = keys(&cluster).await;
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
    let keys = keys(&cluster).await;
    let connection = connection(&config(&cluster));
    for key in &keys {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), 1);
    }
    let replicated: i64 = cluster.nodes[1].command(cmd("WAIT").arg(1).arg(10_000)).await;
    assert_eq!(replicated, 1);
    // One primary hands over in peace, which leaves it a replica; another one is lost.
    let () = cluster.replicas[0].command(cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER")).await;
    cluster.nodes[1].kill();
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
    let key = &keys(&cluster).await[0];
    let [from, to] = [&cluster.nodes[0], &cluster.nodes[1]];
    let slot: u16 = from.command(cmd("CLUSTER").arg("KEYSLOT").arg(key)).await;
    let mut ids = Vec::<String>::new();
    for node in [from, to] {
        ids.push(node.command(cmd("CLUSTER").arg("MYID")).await);
    }
    let set = |state: &'static str, id: String| {
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg(state).arg(id);
        set
    };
    connection.run::<Option<i64>>(&get(key)).await.unwrap();
    // On its way: the old node has none of its keys any more, and the new one takes calls that ask.
    let () = to.command(&set("IMPORTING", ids[0].clone())).await;
    let () = from.command(&set("MIGRATING", ids[1].clone())).await;
    for count in 1..4 {
        assert_eq!(connection.run::<i64>(&script(key)).await.unwrap(), count);
    }
    // Arrived.
    for node in [to, from] {
        let () = node.command(&set("NODE", ids[1].clone())).await;
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

/// Two answers that do not come, and the making of a connection while a node is mute.
fn bound(config: &RedisConfig) -> Duration {
    config.response_timeout * 2 + (config.connect_timeout + config.response_timeout) * 2 + MARGIN
}
