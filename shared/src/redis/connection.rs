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
use std::sync::{Arc, Mutex, Once};

use redis::{FromRedisValue, from_redis_value};

use error::Failure;
use generations::{Generation, Generations};
use iam::Tokens;
use link::Connector;

pub use call::{Call, Script};
pub use config::{RedisConfig, RedisConfigError};
pub use error::RedisError;
pub use iam::IamAuth;

/// Chooses the cryptography that TLS uses in this process, unless that has been done already. `main` calls it first.
pub fn install_crypto_provider() {
    static ONCE: Once = Once::new();
    // The only failure is that one is installed, which is as good.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// The process's connection to the hot store, made when a call first needs it. A clone shares it.
///
/// A connection that fails, stays mute or was idle for long is replaced, and the call that found out is repeated once on
/// its successor. Each of these two attempts takes at most the time to connect and a response timeout; another response timeout if the
/// server has forgotten the script. To connect takes one connect timeout; in a cluster with a mute node, up to two of them and three
/// response timeouts.
#[derive(Clone)]
pub struct Connection {
    connector: Arc<Connector>,
    generations: Arc<Mutex<Generations>>,
}

impl Connection {
    /// Checks the configuration, and connects to nothing yet: a cold start does no work that a call may not need.
    pub fn new(config: &RedisConfig) -> Result<Self, RedisConfigError> {
        Self::with_tokens(config, config.iam.clone().map(|auth| Tokens::new(auth, config.aws.clone())))
    }

    fn with_tokens(config: &RedisConfig, tokens: Option<Tokens>) -> Result<Self, RedisConfigError> {
        let connector = Arc::new(Connector::new(config, tokens)?);
        Ok(Self { connector, generations: Arc::new(Mutex::new(Generations::new(config))) })
    }

    /// Runs `call`, at most twice, and reads its answer.
    ///
    /// Let it come to its end: a call that is dropped while it waits cannot tell a mute connection from a slow one, and
    /// leaves it in place.
    pub async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<T, RedisError> {
        let mut failed = None;
        loop {
            let generation = self.generation(failed.as_ref());
            let mut link = generation.link().await.map_err(|error| self.failure(&error).error(error))?;
            let error = match link.answer(call).await {
                Ok(value) => {
                    generation.used();
                    return from_redis_value(value).map_err(|source| RedisError::Unexpected { source });
                }
                Err(error) => error,
            };
            let failure = self.failure(&error);
            match failure {
                Failure::Lost => generation.lose(),
                Failure::Busy | Failure::Refused => generation.used(),
            }
            if failure != Failure::Lost || failed.replace(generation).is_some() {
                return Err(failure.error(error));
            }
        }
    }

    fn generation(&self, failed: Option<&Arc<Generation>>) -> Arc<Generation> {
        crate::lock(&self.generations).get(failed, || {
            let connector = Arc::clone(&self.connector);
            async move { connector.connect().await }
        })
    }

    /// Whether it leads to a cluster, where the keys of a call must lie in one slot.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.connector.is_cluster()
    }

    fn failure(&self, error: &redis::RedisError) -> Failure {
        Failure::of(error, self.is_cluster())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}
