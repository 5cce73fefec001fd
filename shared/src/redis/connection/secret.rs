//! The current password of Redis, from Secrets Manager.
//!
//! A process starts with the password of its environment. While a password is rotated the server accepts the old one and the new one.
//! Later it refuses the old one, but only to new connections. Then the process reads the secret, once for all connections that were
//! refused, and keeps what it read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::Builder;
use serde::Deserialize;
use tokio::time::Instant;

use crate::lock;

/// The shortest time between two reads. While the secret itself is wrong, each new connection would ask for it.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long a read may take.
const READ_MAX: Duration = Duration::from_secs(2);

/// A secret, and the password that was last read from it.
pub(super) struct Secret {
    id: String,
    aws: SdkConfig,
    known: Mutex<Option<Arc<str>>>,
    /// When it was last read. Locked while it is read, so that all who want it share one read.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

/// What stands in the secret.
#[derive(Deserialize)]
struct Content {
    password: String,
}

impl Secret {
    pub(super) fn new(id: String, aws: SdkConfig) -> Self {
        Self { id, aws, known: Mutex::default(), read_at: tokio::sync::Mutex::default() }
    }

    /// The password that was last read, if any was.
    pub(super) fn known(&self) -> Option<Arc<str>> {
        lock(&self.known).clone()
    }

    /// A password other than `refused`, which the server does not accept; none if the secret has no other.
    pub(super) async fn newer_than(&self, refused: &str) -> Option<Arc<str>> {
        let mut read_at = self.read_at.lock().await;
        if let Some(known) = self.known().filter(|known| **known != *refused) {
            return Some(known);
        }
        if read_at.is_some_and(|at| at.elapsed() < READ_EVERY) {
            return None;
        }
        let read = self.read().await;
        *read_at = Some(Instant::now());
        match read {
            Ok(password) if password != refused => {
                tracing::info!(secret = self.id, "the password of Redis was read from its secret");
                let password: Arc<str> = password.into();
                *lock(&self.known) = Some(Arc::clone(&password));
                Some(password)
            }
            Ok(_) => None,
            Err(cause) => {
                tracing::warn!(
                    secret = self.id,
                    cause,
                    "the password of Redis was refused, and its secret can't be read"
                );
                None
            }
        }
    }

    /// Reads the secret. An error never shows what stands in it.
    async fn read(&self) -> Result<String, String> {
        let config = Builder::from(&self.aws)
            .timeout_config(TimeoutConfig::builder().operation_timeout(READ_MAX).build())
            .retry_config(RetryConfig::standard());
        let asked = Client::from_conf(config.build()).get_secret_value().secret_id(&self.id).send().await;
        let answer = asked.map_err(|error| crate::error_chain(&error))?;
        let text = answer.secret_string.ok_or("the secret is not a text")?;
        let content = serde_json::from_str::<Content>(&text).map_err(|_| "the secret has no field `password`")?;
        Ok(content.password)
    }
}
