use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use futures::future::join_all;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd, from_redis_value};
use tokio::time::{sleep, timeout};

use super::call::Call;
use super::connector::{Address, Connector};
use super::error::{Failure, RedisConfigError};
use super::hedge::first_of;
use super::link::Link;
use super::topology::{Range, Topology, is_primary, parse, primary_of, redirection};
use crate::batching::SingleFlight;
use crate::lock;

/// How often a call follows a redirection, or waits for a slot that is on its way.
const HOPS_MAX: u32 = 4;
/// How long to wait before a call for such a slot is tried again.
const SLOT_WAIT: Duration = Duration::from_millis(20);

/// The one server, or the primaries of a cluster, and the connections to those that calls need.
pub(super) struct Servers {
    pub(super) connector: Connector,
    /// Where to ask a cluster for its topology while no primary is known.
    seeds: Vec<Address>,
    state: Mutex<State>,
    dials: SingleFlight<Address, RedisResult<Link>>,
    reads: SingleFlight<(), RedisResult<Topology>>,
}

#[derive(Default)]
struct State {
    /// None: it was not read yet. A single server's is known.
    topology: Option<Topology>,
    /// A connection is made when first needed, and taken out once a call found it broken.
    links: HashMap<Address, Link>,
}

/// Why a server has no answer to a call.
struct Fault {
    error: RedisError,
    failure: Failure,
    /// Whether there was a connection. Without one, to try again at once would fail like the attempt that just ended.
    was_connected: bool,
}

impl Servers {
    pub(super) fn new(connector: Connector, seeds: Vec<Address>) -> Result<Self, RedisConfigError> {
        let topology = match &*seeds {
            _ if connector.is_cluster => None,
            [server] => Some([Range { slots: 0..=u16::MAX, primary: server.clone(), id: String::new() }].into()),
            _ => return Err(RedisConfigError::SeveralUrls),
        };
        let state = Mutex::new(State { topology, ..State::default() });
        Ok(Self { connector, seeds, state, dials: SingleFlight::default(), reads: SingleFlight::default() })
    }

    /// Connects to the server, or to all primaries.
    pub(super) async fn connect(self: &Arc<Self>, within: Duration) -> RedisResult<()> {
        let topology = self.topology(within).await?;
        let links = join_all(topology.iter().map(|range| self.link(&range.primary, within))).await;
        links.into_iter().try_for_each(|link| link.map(drop))
    }

    /// The answer to `call`: it goes to the primary of its keys, follows redirections, and is repeated once if that primary or the
    /// connection to it is lost.
    pub(super) async fn answer(self: &Arc<Self>, call: &Call) -> RedisResult<Value> {
        let slot = call.slot();
        let mut server = self.primary(slot).await?;
        let (mut asking, mut hops, mut is_repeated) = (false, 0, false);
        loop {
            let fault = match self.answer_of(&server, call, asking).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            let kind = fault.error.kind();
            if hops < HOPS_MAX
                && self.connector.is_cluster
                && let Some(to) = redirection(&fault.error, &server)
            {
                hops += 1;
                asking = kind == ErrorKind::Server(ServerErrorKind::Ask);
                server = to;
                if !asking {
                    // The next call goes there at once; this one need not wait for that.
                    drop(self.read(self.connector.connect_timeout));
                }
            } else if hops < HOPS_MAX && kind == ErrorKind::Server(ServerErrorKind::TryAgain) {
                hops += 1;
                sleep(SLOT_WAIT).await;
            } else if fault.failure == Failure::Password && fault.was_connected && !is_repeated {
                is_repeated = true;
            } else if matches!(fault.failure, Failure::Broken | Failure::Unfit) && !is_repeated {
                is_repeated = true;
                asking = false;
                if self.connector.is_cluster {
                    // A replica may have taken over. Without news, the same primary is tried again.
                    let news = self.read(self.connector.connect_timeout);
                    let _ = timeout(self.connector.response_timeout, news).await;
                }
                let primary = self.primary(slot).await?;
                if !fault.was_connected && primary == server {
                    return Err(fault.error);
                }
                server = primary;
            } else {
                return Err(fault.error);
            }
        }
    }

    /// The answer of one server to `call`, which is executed once. `asking`: a cluster moves the call's slot there, and the call may
    /// run there already.
    async fn answer_of(self: &Arc<Self>, server: &Address, call: &Call, asking: bool) -> Result<Value, Fault> {
        let is_cluster = self.connector.is_cluster;
        let fault = |error, was_connected| Fault { failure: Failure::of(&error, is_cluster), error, was_connected };
        let mut link = self.trusted(server).await.map_err(|error| fault(error, false))?;
        let answer = link.answer(call, asking).await.map_err(|error| fault(error, true));
        match answer.as_ref().map_err(|fault| fault.failure) {
            // Where the password is missing, its successor signs in.
            Err(Failure::Broken | Failure::Password) => self.lose(server, &link),
            // A name may lead to another server by now; a node of a cluster has its own.
            Err(Failure::Unfit) if !is_cluster => self.lose(server, &link),
            _ => link.served(),
        }
        answer
    }

    /// A connection that can be trusted. One that was idle for long may be mute: a frozen function does not see its peer give it
    /// up. So it is probed, in half the time that a call may take. A call that met a mute connection would lose all of that time.
    async fn trusted(self: &Arc<Self>, server: &Address) -> RedisResult<Link> {
        let mut link = self.link(server, self.connector.connect_timeout).await?;
        if link.idle() > self.connector.idle_max {
            if !link.is_alive(self.connector.response_timeout / 2).await {
                self.lose(server, &link);
                return self.link(server, self.connector.connect_timeout).await;
            }
            link.served();
        }
        Ok(link)
    }

    /// The connection to a server. If there is none, it is made in at most `within`: one attempt, and one error, for all who wait. The
    /// attempt goes on without them.
    async fn link(self: &Arc<Self>, server: &Address, within: Duration) -> RedisResult<Link> {
        if let Some(link) = self.known_link(server) {
            return Ok(link);
        }
        let (servers, to) = (Arc::clone(self), server.clone());
        let dial = move || async move {
            // Another attempt may have ended between the look above and this one.
            if let Some(link) = servers.known_link(&to) {
                return Ok(link);
            }
            let link = servers.connector.connect(&to, within).await?;
            lock(&servers.state).links.insert(to, link.clone());
            Ok(link)
        };
        let lost = || Err(io::Error::other("the attempt to connect was cut short").into());
        self.dials.run(server.clone(), dial).await.unwrap_or_else(lost)
    }

    fn known_link(&self, server: &Address) -> Option<Link> {
        lock(&self.state).links.get(server).cloned()
    }

    /// Notes that a call found this connection broken.
    fn lose(&self, server: &Address, broken: &Link) {
        let mut state = lock(&self.state);
        if state.links.get(server).is_some_and(|link| link.is(broken)) {
            state.links.remove(server);
        }
    }

    async fn primary(self: &Arc<Self>, slot: Option<u16>) -> RedisResult<Address> {
        let topology = self.topology(self.connector.connect_timeout).await?;
        Ok(primary_of(&topology, slot).clone())
    }

    async fn topology(self: &Arc<Self>, within: Duration) -> RedisResult<Topology> {
        let known = lock(&self.state).topology.clone();
        match known {
            Some(topology) => Ok(topology),
            None => self.read(within).await,
        }
    }

    /// Reads a cluster's topology, once for all who ask meanwhile. The read goes on without them.
    fn read(self: &Arc<Self>, within: Duration) -> impl Future<Output = RedisResult<Topology>> + use<> {
        let servers = Arc::clone(self);
        let read = self.reads.run((), move || async move { servers.read_now(within).await });
        let lost = || Err(io::Error::other("the read of the topology was cut short").into());
        async move { read.await.unwrap_or_else(lost) }
    }

    async fn read_now(self: &Arc<Self>, within: Duration) -> RedisResult<Topology> {
        let ask = |server: Address| async move {
            self.link(&server, within).await?;
            let slots = self.answer_of(&server, &cluster("SLOTS"), false).await.map_err(|fault| fault.error)?;
            Ok::<_, RedisError>((parse(slots, &server)?, server))
        };
        let asked = self.sources().into_iter().map(ask).collect();
        let none = || Err((ErrorKind::ClusterConnectionNotFound, "there is no node to ask").into());
        let answer = first_of(asked, self.connector.response_timeout / 2).await;
        let (topology, source) = answer.unwrap_or_else(none)?;
        let own_name = self.own_name(&source, &topology).await;
        let mut state = lock(&self.state);
        let link = state.links.remove(&source);
        // Connections to replicas and to the seeds end here.
        state.links.retain(|address, _| is_primary(&topology, address));
        if let (Some(name), Some(link)) = (own_name, link) {
            state.links.entry(name).or_insert(link);
        }
        state.topology = Some(Arc::clone(&topology));
        Ok(topology)
    }

    /// Whom to ask for the topology: first the nodes with a connection, then the other primaries, then the seeds.
    fn sources(&self) -> Vec<Address> {
        let State { topology, links } = &*lock(&self.state);
        let primaries = topology.iter().flat_map(|ranges| ranges.iter()).map(|range| &range.primary);
        let mut sources: Vec<Address> = Vec::new();
        for server in links.keys().chain(primaries).chain(&self.seeds) {
            if !sources.contains(server) {
                sources.push(server.clone());
            }
        }
        sources
    }

    /// The name that a primary has in the topology: a cluster's common name leads to any of its nodes. None: it is no primary.
    async fn own_name(self: &Arc<Self>, server: &Address, topology: &[Range]) -> Option<Address> {
        if is_primary(topology, server) {
            return Some(server.clone());
        }
        // If the server refuses to tell, one more connection is made.
        let id = self.answer_of(server, &cluster("MYID"), false).await.ok()?;
        let id: String = from_redis_value(id).ok()?;
        topology.iter().find(|range| range.id == id).map(|range| range.primary.clone())
    }
}

fn cluster(subcommand: &str) -> Call {
    Call::from(cmd("CLUSTER")).arg(subcommand)
}
