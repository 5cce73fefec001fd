use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::address::Address;
use super::call::Call;
use super::error::Failure;
use super::freeze_aware_instant::FreezeAwareInstant;
use super::link::{Connector, Link};
use crate::batching::Flight;
use crate::lock;

/// One connection, from the attempt to make it until it is replaced. All calls that use it share this.
pub(super) struct Generation {
    link: Arc<Flight<RedisResult<Link>>>,
    /// When it last served a call, or began.
    used: Mutex<FreezeAwareInstant>,
    is_lost: AtomicBool,
}

impl Generation {
    /// Begins to connect.
    fn begin(connect: impl Future<Output = RedisResult<Link>> + Send + 'static) -> Arc<Self> {
        let (link, used) = (Flight::begin(connect), Mutex::new(FreezeAwareInstant::now()));
        Arc::new(Self { link, used, is_lost: AtomicBool::new(false) })
    }

    /// The connection, once it is made. All who wait for it share one attempt and its error.
    async fn link(&self) -> RedisResult<Link> {
        let lost = || Err(std::io::Error::other("the attempt to connect was cut short").into());
        Arc::clone(&self.link).result().await.unwrap_or_else(lost)
    }

    /// Notes that it has served a call.
    fn used(&self) {
        *lock(&self.used) = FreezeAwareInstant::now();
    }

    /// Notes that a call found it broken.
    fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    fn is_made(&self) -> bool {
        matches!(self.link.ended(), Some(Some(Ok(_)))) && !self.is_lost.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed) || matches!(self.link.ended(), Some(None | Some(Err(_))))
    }

    fn idle(&self) -> Duration {
        lock(&self.used).elapsed()
    }
}

/// Why a node has no answer to a call.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: RedisError,
    pub(super) failure: Failure,
    /// Whether there was a connection. Without one, to try again at once would fail like the attempt that just ended.
    pub(super) was_connected: bool,
}

/// A server, and the connection to it: made when first needed, and replaced once it fails.
pub(super) struct Node {
    connector: Arc<Connector>,
    address: Address,
    current: Mutex<Option<Arc<Generation>>>,
}

impl Node {
    pub(super) const fn new(connector: Arc<Connector>, address: Address) -> Self {
        Self { connector, address, current: Mutex::new(None) }
    }

    /// The same server under the name that the cluster has for it. It keeps the connection.
    pub(super) fn renamed(&self, address: Address) -> Self {
        let current = Mutex::new(lock(&self.current).clone());
        Self { connector: Arc::clone(&self.connector), address, current }
    }

    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// Whether there is a connection that no call found broken.
    pub(super) fn is_connected(&self) -> bool {
        lock(&self.current).as_ref().is_some_and(|current| current.is_made())
    }

    /// Connects unless there is a connection, in at most `within`.
    pub(super) async fn connect(&self, within: Duration) -> RedisResult<()> {
        self.generation(within).link().await.map(drop)
    }

    fn generation(&self, within: Duration) -> Arc<Generation> {
        let mut current = lock(&self.current);
        current.take_if(|current| current.is_over());
        let begin = || {
            let (connector, address) = (Arc::clone(&self.connector), self.address.clone());
            Generation::begin(async move { connector.connect(&address, within).await })
        };
        Arc::clone(current.get_or_insert_with(begin))
    }

    /// A connection that can be trusted. One that was idle for long may be mute: a frozen function does not see its peer give it
    /// up. So it is probed, in half the time that a call may take. A call that met a mute connection would lose all of that time.
    async fn trusted(&self) -> RedisResult<(Arc<Generation>, Link)> {
        let generation = self.generation(self.connector.connect_timeout());
        let mut link = generation.link().await?;
        if generation.idle() <= self.connector.idle_max() {
            return Ok((generation, link));
        }
        if link.is_alive(self.connector.response_timeout() / 2).await {
            generation.used();
            return Ok((generation, link));
        }
        generation.lose();
        let successor = self.generation(self.connector.connect_timeout());
        let link = successor.link().await?;
        Ok((successor, link))
    }

    /// The answer to `call`, which is executed once. `asking`: a cluster moves the call's slot to this node, and the call may run
    /// there already.
    pub(super) async fn answer(&self, call: &Call, asking: bool) -> Result<Value, Fault> {
        let fault = |error, was_connected| {
            let failure = Failure::of(&error, self.connector.is_cluster());
            Fault { error, failure, was_connected }
        };
        let (generation, mut link) = self.trusted().await.map_err(|error| fault(error, false))?;
        match link.answer(call, asking).await {
            Ok(value) => {
                generation.used();
                Ok(value)
            }
            Err(error) => {
                let fault = fault(error, true);
                // A name may lead to another server by now; a node of a cluster has its own.
                match fault.failure {
                    // Where the password is missing, its successor signs in.
                    Failure::Broken | Failure::Password => generation.lose(),
                    Failure::Unfit if !self.connector.is_cluster() => generation.lose(),
                    Failure::Unfit | Failure::Busy | Failure::Rights | Failure::Refused => generation.used(),
                }
                Err(fault)
            }
        }
    }
}
