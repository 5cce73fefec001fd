//! The current password of Redis, from Secrets Manager.
//!
//! A process starts with the password of its environment. While a password is rotated the server accepts the old one and the new one.
//! Later it refuses the old one, but only to new connections. Then the process reads the secret, once for all connections that were
//! refused, and keeps what it read.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use serde_json::Value;

use crate::secret::Secret;

/// The shortest time between two reads. While the secret itself is wrong, each new connection would ask for it.
const READ_EVERY: Duration = Duration::from_secs(1);

/// A secret that has the password.
pub(super) struct Password(Secret<String>);

impl Password {
    pub(super) fn new(id: String, aws: &SdkConfig) -> Self {
        let parse = |text: &str| {
            let content: Option<Value> = serde_json::from_str(text).ok();
            let password = content.as_ref().and_then(|content| content["password"].as_str());
            // The parser's error would show what stands in it.
            password.map(str::to_owned).ok_or_else(|| "the secret has no field `password`".to_owned())
        };
        Self(Secret::stored(aws, id, parse))
    }

    /// The password that was last read, if any was.
    pub(super) fn known(&self) -> Option<Arc<String>> {
        self.0.last()
    }

    /// A password other than `refused`, which the server does not accept; none if the secret has no other.
    pub(super) async fn newer_than(&self, refused: &str) -> Option<Arc<String>> {
        let is_newer = |password: &Arc<String>| **password != *refused;
        if let Some(known) = self.known().filter(is_newer) {
            return Some(known);
        }
        match self.0.within(READ_EVERY).await {
            Ok(password) => Some(password).filter(is_newer),
            Err(cause) => {
                let secret = tracing::field::debug(&self.0);
                tracing::warn!(secret, cause, "the password of Redis was refused, and its secret can't be read");
                None
            }
        }
    }
}
