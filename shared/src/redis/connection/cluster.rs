use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use futures::future::join_all;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::call::Call;
use super::error::Failure;
use super::hedge::first_of;
use super::link::Connector;
use super::node::Node;
use super::topology::Topology;
use crate::batching::SingleFlight;
use crate::lock;

/// How often a call follows a redirection, or waits for a slot that is on its way.
const HOPS_MAX: u32 = 4;
/// How long to wait before a call for such a slot is tried again.
const SLOT_WAIT: Duration = Duration::from_millis(20);

/// A cluster: connections to the primaries that calls need.
///
/// The library's own client connects to replicas too, and drops all connections when one fails.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    /// Where to ask for the topology while no primary is known.
    seeds: Vec<Address>,
    state: Mutex<State>,
    reads: SingleFlight<(), RedisResult<Arc<Topology>>>,
}

struct State {
    topology: Option<Arc<Topology>>,
    nodes: HashMap<Address, Arc<Node>>,
}

impl Cluster {
    pub(super) fn new(connector: Arc<Connector>, seeds: Vec<Address>) -> Self {
        let state = Mutex::new(State { topology: None, nodes: HashMap::new() });
        Self(Arc::new(Shared { connector, seeds, state, reads: SingleFlight::default() }))
    }

    /// Connects to all primaries.
    pub(super) async fn connect(&self, within: Duration) -> RedisResult<()> {
        let topology = self.topology(within).await?;
        let nodes: Vec<_> = topology.primaries().map(|primary| self.0.node(primary)).collect();
        join_all(nodes.iter().map(|node| node.connect(within))).await.into_iter().collect()
    }

    /// The answer to `call`: it goes to the primary of its keys, follows redirections, and is repeated once if that primary is lost.
    pub(super) async fn answer(&self, call: &Call) -> RedisResult<Value> {
        let slot = call.slot();
        let mut node = self.primary(slot).await?;
        let (mut asking, mut hops, mut is_repeated) = (false, 0, false);
        loop {
            let fault = match node.answer(call, asking).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            let kind = fault.error.kind();
            if hops < HOPS_MAX
                && let Some(to) = redirection(&fault.error, node.address())
            {
                hops += 1;
                asking = kind == ErrorKind::Server(ServerErrorKind::Ask);
                node = self.0.node(&to);
                if !asking {
                    // The next call goes there at once; this one need not wait for that.
                    drop(self.read(self.0.connector.connect_timeout()));
                }
            } else if hops < HOPS_MAX && kind == ErrorKind::Server(ServerErrorKind::TryAgain) {
                hops += 1;
                sleep(SLOT_WAIT).await;
            } else if fault.failure == Failure::Password && fault.was_connected && !is_repeated {
                is_repeated = true;
            } else if matches!(fault.failure, Failure::Broken | Failure::Unfit) && !is_repeated {
                is_repeated = true;
                asking = false;
                // A replica may have taken over. Without news, the same primary is tried again.
                let news = self.read(self.0.connector.connect_timeout());
                let _ = timeout(self.0.connector.response_timeout(), news).await;
                let primary = self.primary(slot).await?;
                if !fault.was_connected && Arc::ptr_eq(&primary, &node) {
                    return Err(fault.error);
                }
                node = primary;
            } else {
                return Err(fault.error);
            }
        }
    }

    /// The primary of `slot`; any, if that has none or the call has no key.
    async fn primary(&self, slot: Option<u16>) -> RedisResult<Arc<Node>> {
        let topology = self.topology(self.0.connector.connect_timeout()).await?;
        let primary = slot.and_then(|slot| topology.primary(slot)).or_else(|| topology.primaries().next());
        let none = || RedisError::from((ErrorKind::ClusterConnectionNotFound, "the cluster has no primary"));
        primary.map(|primary| self.0.node(primary)).ok_or_else(none)
    }

    async fn topology(&self, within: Duration) -> RedisResult<Arc<Topology>> {
        let known = lock(&self.0.state).topology.clone();
        match known {
            Some(topology) => Ok(topology),
            None => self.read(within).await,
        }
    }

    /// Reads the topology, once for all who ask meanwhile. The read goes on without them.
    fn read(&self, within: Duration) -> impl Future<Output = RedisResult<Arc<Topology>>> + use<> {
        let shared = Arc::clone(&self.0);
        let read = self.0.reads.run((), move || async move { shared.read(within).await });
        let lost = || Err(std::io::Error::other("the read of the topology was cut short").into());
        async move { read.await.unwrap_or_else(lost) }
    }
}

impl Shared {
    fn node(&self, address: &Address) -> Arc<Node> {
        let mut state = lock(&self.state);
        let node = || Arc::new(Node::new(Arc::clone(&self.connector), address.clone()));
        Arc::clone(state.nodes.entry(address.clone()).or_insert_with(node))
    }

    /// Whom to ask for the topology: the known nodes, first those with a connection, then the seeds.
    fn sources(&self) -> Vec<Arc<Node>> {
        let mut sources: Vec<_> = lock(&self.state).nodes.values().map(Arc::clone).collect();
        sources.sort_by_key(|node| !node.is_connected());
        for seed in &self.seeds {
            if !sources.iter().any(|node| node.address() == seed) {
                sources.push(Arc::new(Node::new(Arc::clone(&self.connector), seed.clone())));
            }
        }
        sources
    }

    async fn read(&self, within: Duration) -> RedisResult<Arc<Topology>> {
        let mut slots = cmd("CLUSTER");
        slots.arg("SLOTS");
        let slots = Call::from(slots);
        let asked = self.sources().into_iter().map(|node| {
            let slots = &slots;
            async move {
                node.connect(within).await?;
                let answer = node.answer(slots, false).await.map_err(|fault| fault.error)?;
                let topology = Topology::read(answer, node.address())?;
                Ok::<_, RedisError>((node, topology))
            }
        });
        let none = || RedisError::from((ErrorKind::ClusterConnectionNotFound, "there is no node to ask"));
        let answer = first_of(asked, self.connector.response_timeout() / 2).await;
        let (source, topology) = answer.unwrap_or_else(|| Err(none()))?;
        let renamed =
            if topology.contains(source.address()) { Some(source) } else { primary_behind(&source, &topology).await };
        let topology = Arc::new(topology);
        let mut state = lock(&self.state);
        // Connections to replicas and to the seeds end here.
        state.nodes.retain(|address, _| topology.contains(address));
        if let Some(node) = renamed {
            state.nodes.entry(node.address().clone()).or_insert(node);
        }
        state.topology = Some(Arc::clone(&topology));
        Ok(topology)
    }
}

/// The primary that a name leads to: a cluster's common name leads to any of its nodes. Its connection is kept.
async fn primary_behind(source: &Node, topology: &Topology) -> Option<Arc<Node>> {
    let mut id = cmd("CLUSTER");
    id.arg("MYID");
    // If the server refuses to tell, one more connection is made.
    let answer = source.answer(&id.into(), false).await.ok()?;
    let id: String = redis::from_redis_value(answer).ok()?;
    Some(Arc::new(source.renamed(topology.of_id(&id)?.clone())))
}

/// Where the node at `from` sends a call.
fn redirection(error: &RedisError, from: &Address) -> Option<Address> {
    error.redirect_node().and_then(|(to, _)| from.redirected(to))
}
