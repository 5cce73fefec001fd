use std::sync::Arc;

use redis::{Value, cmd};
use shared::redis::test_server::{TestServer, free_port, poll};

use super::{Harm, harm_server, info_says, meanwhile};
use crate::proxies::RedisProxy;
use crate::report::Tally;
use tests::dice::Dice;

/// The possible harms to a cluster. Its nodes have no files, so a primary that dies restarts empty.
pub const HARMS: [Harm; 8] = [
    Harm::LaggingReplica,
    Harm::LaggingReplica,
    Harm::TwoPrimaries,
    Harm::KillWithoutFile,
    Harm::Flush,
    Harm::ForgetScripts,
    Harm::Freeze,
    Harm::CutClients,
];

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// A node behind a proxy. The node announces the proxy's port, so clients and replicas connect through the proxy.
#[derive(Debug)]
struct Node {
    server: TestServer,
    proxy: RedisProxy,
    bus: u16,
}

/// Three primaries with one replica each.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts the cluster, and waits until all nodes serve.
    pub async fn start(name: &str, seed: u64, tally: &Arc<Tally>) -> std::io::Result<Self> {
        let mut nodes = Vec::new();
        for number in 0..PRIMARIES * 2 {
            let dice = Dice::new(seed, &format!("{name} proxy {number}"));
            nodes.push(Node::start(RedisProxy::start(dice, Arc::clone(tally)).await?).await);
        }
        let cluster = Self { nodes };
        cluster.meet().await;
        cluster.whole().await;
        Ok(cluster)
    }

    async fn meet(&self) {
        let first = &self.nodes[0];
        for (i, node) in self.nodes.iter().enumerate() {
            if i < PRIMARIES {
                let (from, to) = (SLOTS * i / PRIMARIES, SLOTS * (i + 1) / PRIMARIES - 1);
                let () = node.server.command(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(from).arg(to)).await;
            }
            if i > 0 {
                let mut meet = cmd("CLUSTER");
                meet.arg("MEET").arg("127.0.0.1").arg(first.server.port()).arg(first.bus);
                let () = node.server.command(&meet).await;
            }
        }
        for (i, replica) in self.nodes[PRIMARIES..].iter().enumerate() {
            let primary: String = self.nodes[i].server.command(cmd("CLUSTER").arg("MYID")).await;
            poll("the replica to know its primary", async || {
                let known: String = replica.server.command(cmd("CLUSTER").arg("NODES")).await;
                known.contains(&primary).then_some(())
            })
            .await;
            let () = replica.server.command(cmd("CLUSTER").arg("REPLICATE").arg(&primary)).await;
        }
    }

    /// The proxies' URLs.
    #[must_use]
    pub fn url(&self) -> String {
        let urls: Vec<String> =
            self.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.proxy.port())).collect();
        urls.join(",")
    }

    pub(super) fn set_faulty(&self, faulty: bool) {
        for node in &self.nodes {
            node.proxy.set_faulty(faulty);
        }
    }

    /// The current primaries.
    pub async fn primaries(&self) -> Vec<&TestServer> {
        let mut primaries = Vec::new();
        for node in &self.nodes {
            if node.primary_port().await.is_none() {
                primaries.push(&node.server);
            }
        }
        primaries
    }

    pub(super) async fn harm(&mut self, harm: Harm, dice: &Dice, begins: impl FnOnce()) {
        self.whole().await;
        let (primary, replica) = self.pair(dice).await;
        match harm {
            Harm::KillWithoutFile => {
                begins();
                let node = &mut self.nodes[primary];
                node.server.restart().await;
                node.serves().await;
            }
            Harm::LaggingReplica | Harm::TwoPrimaries => {
                self.cut_off(primary).await;
                meanwhile(dice).await;
                begins();
                let dies = harm == Harm::LaggingReplica;
                if dies {
                    self.nodes[primary].server.kill();
                }
                self.nodes[replica].take_over().await;
                if dies {
                    self.nodes[primary].server.restart().await;
                }
            }
            other => harm_server(&self.nodes[primary].server, other, dice, begins).await,
        }
    }

    /// A random primary with its replica.
    async fn pair(&self, dice: &Dice) -> (usize, usize) {
        let mut pairs = Vec::new();
        for (replica, node) in self.nodes.iter().enumerate() {
            if let Some(port) = node.primary_port().await {
                pairs.extend(
                    self.nodes.iter().position(|node| node.proxy.port() == port).map(|primary| (primary, replica)),
                );
            }
        }
        *dice.pick(&pairs).expect("a replica")
    }

    /// Cuts a replica off from its primary.
    async fn cut_off(&self, primary: usize) {
        let server = &self.nodes[primary].server;
        let () = server.command(cmd("ACL").arg("SETUSER").arg("default").arg("-psync").arg("-sync")).await;
        let _: i64 = server.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica")).await;
    }

    /// Waits until every primary serves and has a replica with all of its data.
    pub async fn whole(&self) {
        for node in &self.nodes {
            node.serves().await;
            // A node that was cut off may be a primary again by now, with a replica that waits for access.
            let () = node.server.command(cmd("ACL").arg("SETUSER").arg("default").arg("+@all")).await;
        }
        poll("the replicas", async || {
            let mut replicas = 0;
            for node in &self.nodes {
                if node.primary_port().await.is_some() {
                    replicas += 1;
                }
            }
            (replicas == PRIMARIES).then_some(())
        })
        .await;
        for node in &self.nodes {
            if node.primary_port().await.is_some() {
                info_says(&node.server, "replication", "master_link_status:up").await;
            }
        }
    }
}

impl Node {
    async fn start(proxy: RedisProxy) -> Self {
        let (bus, announced) = (free_port(), proxy.port());
        let options = [
            ("--cluster-enabled", "yes".to_owned()),
            ("--cluster-port", bus.to_string()),
            ("--cluster-announce-ip", "127.0.0.1".to_owned()),
            ("--cluster-announce-port", announced.to_string()),
            ("--cluster-announce-bus-port", bus.to_string()),
            ("--cluster-node-timeout", "2000".to_owned()),
            ("--cluster-require-full-coverage", "no".to_owned()),
            ("--cluster-allow-replica-migration", "no".to_owned()),
            // Replicas take over only by command.
            ("--cluster-replica-no-failover", "yes".to_owned()),
            ("--repl-diskless-sync-delay", "0".to_owned()),
        ];
        let args: Vec<&str> = options.iter().flat_map(|(option, value)| [*option, value]).collect();
        let server = TestServer::start(&args).await;
        proxy.set_upstream(server.port());
        Self { server, proxy, bus }
    }

    /// The announced port of a replica's primary; `None`: it is a primary itself.
    async fn primary_port(&self) -> Option<u16> {
        let role: Vec<Value> = self.server.command(&cmd("ROLE")).await;
        let is_primary = matches!(&role[0], Value::BulkString(name) if name == b"master");
        let port = || match &role[2] {
            Value::Int(port) => u16::try_from(*port).ok(),
            _ => None,
        };
        (!is_primary).then(port).flatten()
    }

    async fn take_over(&self) {
        let () = self.server.command(cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER")).await;
        poll("the replica to take over", async || self.primary_port().await.is_none().then_some(())).await;
    }

    /// Waits until a node reports that the cluster is well.
    async fn serves(&self) {
        poll("a node of the cluster", async || {
            let info: String = self.server.command(cmd("CLUSTER").arg("INFO")).await;
            info.contains("cluster_state:ok").then_some(())
        })
        .await;
    }
}
