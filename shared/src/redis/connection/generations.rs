use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::RedisResult;

use super::config::RedisConfig;
use super::freeze_aware_instant::FreezeAwareInstant;
use super::link::Link;
use crate::batching::Flight;
use crate::lock;

/// How many response timeouts old a cluster's connection must be before a failure replaces it. A fresh one that fails has
/// met a dead node, not a dead socket: the calls for that node's keys must not have all nodes reconnected again and
/// again. The cluster client replaces closed connections by itself.
const CLUSTER_AGE_MIN: u32 = 10;

/// One connection, from the attempt to make it until it is replaced. All calls that use it share this.
pub(super) struct Generation {
    link: Arc<Flight<RedisResult<Link>>>,
    began: FreezeAwareInstant,
    /// When it last served a call, or began.
    used: Mutex<FreezeAwareInstant>,
    is_lost: AtomicBool,
}

impl Generation {
    /// Begins to connect.
    fn begin(connect: impl Future<Output = RedisResult<Link>> + Send + 'static) -> Arc<Self> {
        let (link, began) = (Flight::begin(connect), FreezeAwareInstant::now());
        Arc::new(Self { link, began, used: Mutex::new(began), is_lost: AtomicBool::new(false) })
    }

    /// The connection, once it is made. All who wait for it share one attempt and its error.
    pub(super) async fn link(&self) -> RedisResult<Link> {
        let lost = || Err(std::io::Error::other("the attempt to connect was cut short").into());
        Arc::clone(&self.link).result().await.unwrap_or_else(lost)
    }

    /// Notes that it has served a call.
    pub(super) fn used(&self) {
        *lock(&self.used) = FreezeAwareInstant::now();
    }

    /// Notes that a call found it broken.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    fn is_made(&self) -> bool {
        matches!(self.link.ended(), Some(Some(Ok(_))))
    }

    fn has_failed(&self) -> bool {
        matches!(self.link.ended(), Some(None | Some(Err(_))))
    }

    /// Whether it was idle for longer than `limit`: the connections of a thawed function are dead, or soon will be.
    fn is_idle(&self, limit: Duration) -> bool {
        lock(&self.used).elapsed() > limit
    }
}

/// The connection in use, and for a cluster its successor.
pub(super) enum Generations {
    Single(Single),
    Cluster(Cluster),
}

/// The connection to a single server: replaced as soon as it fails.
pub(super) struct Single {
    idle_max: Duration,
    current: Option<Arc<Generation>>,
}

/// The connection to a cluster. It stays in use while its successor is made: one dead node must not keep the calls for the others
/// waiting.
pub(super) struct Cluster {
    idle_max: Duration,
    /// How old a connection must be before a failure replaces it.
    age_min: Duration,
    current: Option<Arc<Generation>>,
    successor: Option<Arc<Generation>>,
}

impl Generations {
    pub(super) fn new(config: &RedisConfig) -> Self {
        let idle_max = config.idle_max;
        if config.cluster {
            let age_min = config.response_timeout * CLUSTER_AGE_MIN;
            Self::Cluster(Cluster { idle_max, age_min, current: None, successor: None })
        } else {
            Self::Single(Single { idle_max, current: None })
        }
    }

    /// A connection for a call; `connect` makes one. A single server's is never one that was lost. A cluster's stays in use for other
    /// callers, but is not given again to the one for whom it has `failed`, unless it is young.
    pub(super) fn get<F>(&mut self, failed: Option<&Arc<Generation>>, connect: impl FnOnce() -> F) -> Arc<Generation>
    where
        F: Future<Output = RedisResult<Link>> + Send + 'static,
    {
        let begin = || Generation::begin(connect());
        Arc::clone(match self {
            Self::Single(single) => single.get(begin),
            Self::Cluster(cluster) => cluster.get(failed, begin),
        })
    }
}

impl Single {
    fn get(&mut self, begin: impl FnOnce() -> Arc<Generation>) -> &Arc<Generation> {
        let Self { idle_max, current } = self;
        current.take_if(|current| {
            current.is_lost.load(Ordering::Relaxed) || current.has_failed() || current.is_idle(*idle_max)
        });
        current.get_or_insert_with(begin)
    }
}

impl Cluster {
    fn get(&mut self, failed: Option<&Arc<Generation>>, begin: impl FnOnce() -> Arc<Generation>) -> &Arc<Generation> {
        let Self { idle_max, age_min, current, successor } = self;
        if let Some(made) = successor.take_if(|successor| successor.is_made()) {
            *current = Some(made);
        } else if let Some(failed) = successor.take_if(|successor| successor.has_failed()) {
            // The predecessor stays only if it still served someone meanwhile.
            current.take_if(|current| lock(&current.used).is_before(&failed.began));
        }
        current.take_if(|current| current.is_idle(*idle_max));
        successor.take_if(|successor| successor.is_idle(*idle_max));
        match current {
            Some(current)
                if !failed.is_some_and(|failed| Arc::ptr_eq(failed, current)) || current.began.elapsed() < *age_min =>
            {
                current
            }
            _ => successor.get_or_insert_with(begin),
        }
    }
}
