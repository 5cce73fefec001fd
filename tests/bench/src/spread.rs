//! The engine over a cluster: whether each node gets its share of the calls.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use shared::ports::Entropy;
use shared::redis::test_server::TestCluster;

use crate::cell::float;
use crate::concurrent::Grabs;
use crate::goals::{Goal, Ratio};
use crate::heat::{Heat, Usage, empty};
use crate::lab::Lab;
use crate::ours::{Collected, Engine, OneByOne};
use crate::rush::Rush;
use crate::{BoxError, concurrent};

pub const NODES: usize = 3;
const UNDER_WAY: usize = 1_000;
const TABLE: &str = "cluster";
/// Packets fall on partitions at random: with 1,000 on three nodes, one draw in sixteen has a node that is further than 10 %
/// from a third. A seed makes every run the same draw.
pub const SEED: u64 = 1;
/// Long enough for a rush to come to its end: the calls of an unfinished one are not spread evenly.
const RUSH_TIMEOUT: Duration = Duration::from_mins(2);

/// The calls of each node in a rush, by the node's own count.
#[derive(Clone, Debug, Serialize)]
pub struct Nodes {
    /// The scheme and the packets.
    pub scheme: String,
    /// Calls of scripts, by node.
    pub calls: Vec<u64>,
    /// Microseconds of processor time, by node.
    pub cpu_us: Vec<u64>,
}

impl Nodes {
    /// The largest deviation of a node from an equal share of the calls, relative to that share.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let share = float(self.calls.iter().sum()) / float(self.calls.len() as u64);
        self.calls.iter().map(|calls| (float(*calls) / share - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Two rushes, each with one user a call and collected.
pub async fn run(lab: &mut Lab) -> Result<(), BoxError> {
    let cluster = Cluster::start(&lab.dynamodb_url()).await?;
    let packets = Arc::new(Rush::spread(lab.scaled(1_000), 100));
    let large = Arc::new(Rush::all_win(lab.scaled(100_000)));
    for (what, rush) in [("1,000 packets", packets), ("a packet of 100,000 slips", large)] {
        let one_by_one = Arc::new(OneByOne::new(Arc::clone(&cluster.engine)));
        cluster.cell(lab, format!("ours, one user a call, {what}"), &one_by_one, &rush).await?;
        let collected = Arc::new(Collected::new(Arc::clone(&cluster.engine)));
        cluster.cell(lab, format!("ours, collected, {what}"), &collected, &rush).await?;
    }
    Ok(())
}

/// A cluster and an engine over it.
struct Cluster {
    nodes: Vec<redis::Client>,
    engine: Arc<Engine>,
    /// The servers run until this is dropped.
    _servers: TestCluster,
}

impl Cluster {
    async fn start(dynamodb_url: &str) -> Result<Self, BoxError> {
        let servers = TestCluster::start(NODES).await;
        let nodes = clients(&servers)?;
        let engine = Arc::new(Engine::on_cluster(servers.url(), dynamodb_url, TABLE, SEED).await?);
        Ok(Self { nodes, engine, _servers: servers })
    }

    /// Measures a cell, and adds the round with the median deviation to the report.
    async fn cell<G: Grabs>(
        &self,
        lab: &mut Lab,
        scheme: String,
        design: &Arc<G>,
        rush: &Arc<Rush>,
    ) -> Result<(), BoxError> {
        let seen = RefCell::new(Vec::new());
        let heat = async |_| {
            let (heat, nodes) = self.heat(&scheme, design, rush).await?;
            seen.borrow_mut().push(nodes);
            Ok(heat)
        };
        for _ in 0..lab.time.rounds {
            lab.round("cluster", &scheme, rush, &heat).await?;
        }
        let mut seen = seen.into_inner();
        seen.sort_by(|one, other| one.deviation().total_cmp(&other.deviation()));
        if !seen.is_empty() {
            let middle = seen.swap_remove(seen.len() / 2);
            let name = format!("{scheme}: largest deviation of a node from a third of the calls");
            lab.report.reached(Ratio::new(name, Goal::AtMost(0.1), middle.deviation()));
            lab.report.add_nodes(middle);
        }
        Ok(())
    }

    async fn heat<G: Grabs>(&self, scheme: &str, design: &Arc<G>, rush: &Arc<Rush>) -> Result<(Heat, Nodes), BoxError> {
        for node in &self.nodes {
            empty(&mut node.get_connection()?)?;
        }
        design.fill(rush).await?;
        let before = usage(&self.nodes)?;
        let (elapsed, answers) = concurrent::run(design, rush, UNDER_WAY, RUSH_TIMEOUT).await?;
        let used: Vec<Usage> =
            usage(&self.nodes)?.iter().zip(&before).map(|(after, before)| after.since(before)).collect();
        let (cpu_us, calls): (Vec<u64>, Vec<u64>) = used.iter().map(|used| (used.cpu_us, used.calls)).unzip();
        let heat = Heat { elapsed, answers, calls: calls.iter().sum(), cpu_us: cpu_us.iter().sum() };
        Ok((heat, Nodes { scheme: scheme.to_owned(), calls, cpu_us }))
    }
}

/// A client for each node.
pub fn clients(servers: &TestCluster) -> Result<Vec<redis::Client>, BoxError> {
    servers.nodes.iter().map(|node| Ok(redis::Client::open(node.url())?)).collect()
}

/// The counters of each node.
pub fn usage(nodes: &[redis::Client]) -> Result<Vec<Usage>, BoxError> {
    nodes.iter().map(|node| Ok(Usage::read(&mut node.get_connection()?)?)).collect()
}

/// Randomness that is the same in each run.
pub struct Seeded(Mutex<ChaCha8Rng>);

impl Seeded {
    /// The bytes that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }
}

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use local::dynamodb::DynamoDb;

    use super::*;

    fn nodes(calls: &[u64]) -> Nodes {
        Nodes { scheme: String::new(), calls: calls.to_vec(), cpu_us: Vec::new() }
    }

    #[test]
    fn the_deviation_is_that_of_the_node_furthest_from_its_share() {
        assert!(nodes(&[300, 300, 300]).deviation().abs() < 1e-9);
        assert!((nodes(&[330, 330, 240]).deviation() - 0.2).abs() < 1e-9, "too few are as bad as too many");
        assert!((nodes(&[290, 250, 360]).deviation() - 0.2).abs() < 1e-9);
    }

    async fn cluster() -> (DynamoDb, Cluster) {
        shared::redis::install_crypto_provider();
        let dynamodb = DynamoDb::start(None).await.expect("a DynamoDB API");
        let cluster = Cluster::start(&dynamodb.url()).await.expect("a cluster");
        (dynamodb, cluster)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_calls_of_a_thousand_packets_are_spread_over_a_cluster() {
        let (_dynamodb, cluster) = cluster().await;
        let rush = Arc::new(Rush::spread(1_000, 3));
        let design = Arc::new(OneByOne::new(Arc::clone(&cluster.engine)));
        let (heat, nodes) = cluster.heat("", &design, &rush).await.expect("a rush");
        assert_eq!(heat.shares(&rush).left, Some(0));
        // One call per grab, and some hundreds by which nodes receive the script, not equally many for each.
        assert!((3_000..5_000).contains(&heat.calls), "{nodes:?}");
        assert!(nodes.deviation() <= 0.3, "{nodes:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_calls_of_a_large_packet_are_spread_over_a_cluster() {
        let (_dynamodb, cluster) = cluster().await;
        // All parts of the largest packet, and fewer users than slips.
        let rush = Arc::new(Rush::crowd(100_000, 6_000));
        let design = Arc::new(OneByOne::new(Arc::clone(&cluster.engine)));
        let (heat, nodes) = cluster.heat("", &design, &rush).await.expect("a rush");
        assert_eq!(heat.shares(&rush).winners, 6_000);
        assert!(nodes.deviation() <= 0.3, "{nodes:?}");
    }
}
