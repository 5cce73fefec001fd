//! A value that stands in a secret, and changes with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::Builder;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a value is used before it is read again: a rotation takes effect within this time.
const READ_EVERY: Duration = Duration::from_mins(5);
/// How long a read may take, with its tries.
const READ_MAX: Duration = Duration::from_secs(2);

/// A value, and where it comes from.
pub enum Secret<V> {
    /// It never changes.
    Given(Arc<V>),
    /// A secret of Secrets Manager.
    Stored(Box<Stored<V>>),
}

/// See [`Secret::Stored`].
pub struct Stored<V> {
    client: Client,
    id: String,
    parse: fn(&str) -> Result<V, String>,
    /// What was last read, and when. Locked while it is read, so that all who want it share one read.
    known: Mutex<Option<(Instant, Arc<V>)>>,
}

impl<V> Secret<V> {
    /// The secret `id` of Secrets Manager, with the endpoint and the credentials of `aws`. An error of `parse` must not show the text.
    pub fn stored(aws: &SdkConfig, id: String, parse: fn(&str) -> Result<V, String>) -> Self {
        let bounds = TimeoutConfig::builder().operation_timeout(READ_MAX).build();
        let config = Builder::from(aws).timeout_config(bounds).retry_config(RetryConfig::standard());
        let client = Client::from_conf(config.build());
        Self::Stored(Box::new(Stored { client, id, parse, known: Mutex::default() }))
    }

    /// The value of now.
    ///
    /// # Errors
    /// What is wrong, for the log. It never shows the secret.
    pub async fn current(&self) -> Result<Arc<V>, String> {
        self.within(READ_EVERY).await
    }

    /// The value as it was at most `age` ago. If it can't be read again, the old one serves; then both sides have what they had.
    pub async fn within(&self, age: Duration) -> Result<Arc<V>, String> {
        let stored = match self {
            Self::Given(value) => return Ok(Arc::clone(value)),
            Self::Stored(stored) => stored,
        };
        let mut known = stored.known.lock().await;
        if let Some((read_at, value)) = &*known
            && read_at.elapsed() < age
        {
            return Ok(Arc::clone(value));
        }
        match (stored.read().await, &mut *known) {
            (Ok(value), known) => {
                let value = Arc::new(value);
                *known = Some((Instant::now(), Arc::clone(&value)));
                Ok(value)
            }
            (Err(cause), Some((read_at, value))) => {
                tracing::warn!(secret = stored.id, cause, "a secret can't be read again");
                *read_at = Instant::now();
                Ok(Arc::clone(value))
            }
            (Err(cause), None) => Err(cause),
        }
    }
}

impl<V> Stored<V> {
    async fn read(&self) -> Result<V, String> {
        let asked = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = asked.map_err(|error| crate::error_chain(&error))?;
        let text = answer.secret_string.ok_or("the secret is not a text")?;
        (self.parse)(&text)
    }
}

impl<V> fmt::Debug for Secret<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given"),
            Self::Stored(stored) => f.debug_tuple("Stored").field(&stored.id).finish(),
        }
    }
}
