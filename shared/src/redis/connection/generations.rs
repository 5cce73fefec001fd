use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use redis::RedisResult;

use super::config::RedisConfig;
use super::freeze_aware_instant::FreezeAwareInstant;
use super::link::Link;

/// How many response timeouts old a cluster's connection must be before a failure replaces it. A fresh one that fails has
/// met a dead node, not a dead socket: the calls for that node's keys must not have all nodes reconnected again and
/// again. The cluster client replaces closed connections by itself.
const CLUSTER_AGE_MIN: u32 = 10;

/// An attempt to connect that any number of callers wait for.
pub(super) type Attempt = Shared<BoxFuture<'static, RedisResult<(u64, Link)>>>;

struct Generation {
    id: u64,
    link: Link,
    born: FreezeAwareInstant,
    /// When it last served a call.
    used: FreezeAwareInstant,
}

struct Pending {
    id: u64,
    attempt: Attempt,
    started: FreezeAwareInstant,
}

/// The connection in use and the one being made. Every connection has a number, so that a caller that saw one fail replaces that one
/// and not its successor.
pub(super) struct Generations {
    /// How old a connection must be before a failure replaces it; none: it does at once.
    age_min: Option<Duration>,
    idle_max: Duration,
    last_id: u64,
    current: Option<Generation>,
    pending: Option<Pending>,
}

/// What a caller gets.
pub(super) enum Access {
    /// A connection to use.
    Use(u64, Link),
    /// An attempt to wait for.
    Wait(u64, Attempt),
    /// The task to connect, under this number.
    Connect(u64),
}

impl Generations {
    pub(super) fn new(config: &RedisConfig) -> Self {
        let age_min = config.cluster.then(|| config.response_timeout * CLUSTER_AGE_MIN);
        Self { age_min, idle_max: config.idle_max, last_id: 0, current: None, pending: None }
    }

    /// A connection for a call, other than `failed`.
    pub(super) fn access(&mut self, failed: Option<u64>) -> Access {
        let idle_max = self.idle_max;
        let age_min = self.age_min.unwrap_or_default();
        // The connections of a thawed function are dead, or soon will be.
        self.current.take_if(|current| current.used.elapsed() > idle_max);
        self.pending.take_if(|pending| pending.started.elapsed() > idle_max);
        if let Some(failed) = failed {
            self.lose(failed);
        }
        match (&self.current, &self.pending) {
            (Some(current), _) if failed != Some(current.id) || current.born.elapsed() < age_min => {
                Access::Use(current.id, current.link.clone())
            }
            (_, Some(pending)) => Access::Wait(pending.id, pending.attempt.clone()),
            _ => {
                self.last_id += 1;
                Access::Connect(self.last_id)
            }
        }
    }

    /// Notes that `failed` does not work any more. A cluster's connection stays while its successor is made: one dead node
    /// must not keep the calls for the others waiting.
    pub(super) fn lose(&mut self, failed: u64) {
        if self.age_min.is_none() {
            self.current.take_if(|current| current.id == failed);
        }
    }

    /// Notes that `id` has served a call.
    pub(super) fn used(&mut self, id: u64) {
        if let Some(current) = &mut self.current
            && current.id == id
        {
            current.used = FreezeAwareInstant::now();
        }
    }

    /// Shares the attempt `id`.
    pub(super) fn began(&mut self, id: u64, attempt: Attempt) {
        self.pending = Some(Pending { id, attempt, started: FreezeAwareInstant::now() });
    }

    /// Ends the attempt `id`, unless a thawed function has given it up.
    pub(super) fn ended(&mut self, id: u64, link: Option<Link>) {
        let Some(pending) = self.pending.take_if(|pending| pending.id == id) else { return };
        match link {
            Some(link) => {
                let now = FreezeAwareInstant::now();
                self.current = Some(Generation { id, link, born: now, used: now });
            }
            // The predecessor stays only if it still served someone meanwhile.
            None => {
                self.current.take_if(|current| current.used.is_before(&pending.started));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn current_id(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.id)
    }
}
