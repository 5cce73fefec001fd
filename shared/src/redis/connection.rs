mod call;
mod config;
mod error;
mod freeze_aware_instant;
mod generations;
mod iam;
mod link;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Once};

use futures::FutureExt;
use redis::{FromRedisValue, RedisResult, from_redis_value};

use error::Failure;
use generations::{Access, Generations};
use iam::Tokens;
use link::{Connector, Link};

pub use call::{Call, Script};
pub use config::{RedisConfig, RedisConfigError};
pub use error::RedisError;
pub use iam::IamAuth;

/// Chooses the cryptography that TLS uses in this process, unless that has been done already. `main` calls it first.
pub fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    // The only failure is that one is installed, which is as good.
    ONCE.call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
}

/// The process's connection to the hot store, made when a call first needs it. A clone shares it.
///
/// A connection that fails, stays mute or was idle for long is replaced, and the call that found out is repeated once on
/// its successor. A call takes at most two response timeouts and the time to connect. That is one connect timeout; in a cluster
/// with a mute node, up to two of them and three response timeouts.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    generations: Mutex<Generations>,
}

impl Connection {
    /// Checks the configuration, and connects to nothing yet: a cold start does no work that a call may not need.
    pub fn new(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        Self::with_tokens(config, config.iam.clone().map(|auth| Tokens::new(auth, config.aws.clone())))
    }

    fn with_tokens(config: &RedisConfig, tokens: Option<Tokens>) -> Result<Self, RedisConfigError> {
        let connector = Connector::new(config, tokens)?;
        let generations = Mutex::new(Generations::new(config));
        Ok(Self { shared: Arc::new(Shared { connector, generations }) })
    }

    /// Runs `call`, at most twice, and reads its answer.
    ///
    /// Let it come to its end: a call that is dropped while it waits cannot tell a mute connection from a slow one, and
    /// leaves it in place.
    pub async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<T, RedisError> {
        let mut failed = None;
        loop {
            let (id, mut link) = self.link(failed).await.map_err(|error| self.failure(&error).error(error))?;
            let error = match link.answer(call).await {
                Ok(value) => {
                    self.generations().used(id);
                    return from_redis_value(value).map_err(|source| RedisError::Unexpected { source });
                }
                Err(error) => error,
            };
            let failure = self.failure(&error);
            match failure {
                Failure::Lost if failed.is_none() => failed = Some(id),
                Failure::Lost => {
                    self.generations().lose(id);
                    return Err(failure.error(error));
                }
                Failure::Busy | Failure::Refused => {
                    self.generations().used(id);
                    return Err(failure.error(error));
                }
            }
        }
    }

    /// A connection other than `failed`. All who wait for it share one attempt and its error, so that no one waits for
    /// more than one connect timeout; the next caller tries anew.
    async fn link(&self, failed: Option<u64>) -> RedisResult<(u64, Link)> {
        let (id, attempt) = {
            let mut generations = self.generations();
            match generations.access(failed) {
                Access::Use(id, link) => return Ok((id, link)),
                Access::Wait(id, attempt) => (id, attempt),
                Access::Connect(id) => {
                    // A task of its own: a caller who gives up does not stop it for the others.
                    let task = tokio::spawn(Arc::clone(&self.shared).connect(id));
                    let attempt = task
                        .map(move |joined| match joined {
                            Ok(link) => link.map(|link| (id, link)),
                            Err(error) => Err(std::io::Error::from(error).into()),
                        })
                        .boxed()
                        .shared();
                    generations.began(id, attempt.clone());
                    (id, attempt)
                }
            }
        };
        let link = attempt.await;
        if link.is_err() {
            // The attempt has ended itself, unless its task was cut short.
            self.generations().ended(id, None);
        }
        link
    }

    /// Whether it leads to a cluster, where the keys of a call must lie in one slot.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.shared.connector.is_cluster()
    }

    fn failure(&self, error: &redis::RedisError) -> Failure {
        Failure::of(error, self.is_cluster())
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.shared.generations()
    }
}

impl Shared {
    async fn connect(self: Arc<Self>, id: u64) -> RedisResult<Link> {
        let link = self.connector.connect().await;
        self.generations().ended(id, link.as_ref().ok().cloned());
        link
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        crate::lock(&self.generations)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}
