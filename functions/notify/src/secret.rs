//! The secrets that sign webhooks, and where they come from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The fewest bytes of a secret, by the specification.
const BYTES_MIN: usize = 24;
/// How long a secret from Secrets Manager is used before it is read again: a rotation takes effect within this time.
const READ_EVERY: Duration = Duration::from_mins(5);

/// One secret or, while it is rotated, several.
#[derive(Clone)]
pub struct Secrets(Vec<Vec<u8>>);

/// Why a text has no secrets. The message never shows the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("there must be at least one secret")]
    None,
    /// One is not as the specification says.
    #[error("each secret must be whsec_ and base64")]
    Malformed,
    /// One is short.
    #[error("each secret must have at least {BYTES_MIN} bytes")]
    Short,
}

impl Secrets {
    /// Reads secrets that spaces or commas separate.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let each = text.split([' ', ',', '\n', '\r', '\t']).filter(|secret| !secret.is_empty());
        let secrets = each.map(|secret| {
            let bytes = secret.strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
            bytes.filter(|bytes| !bytes.is_empty()).ok_or(SecretError::Malformed)
        });
        let secrets = secrets.collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() { Err(SecretError::None) } else { Ok(Self(secrets)) }
    }

    /// The same, unless one can be guessed.
    pub fn strong(self) -> Result<Self, SecretError> {
        if self.0.iter().all(|secret| secret.len() >= BYTES_MIN) { Ok(self) } else { Err(SecretError::Short) }
    }

    /// The header `webhook-signature`: a signature by each secret.
    pub fn signatures(&self, id: &str, timestamp: u64, body: &str) -> String {
        let signed = self.0.iter().filter_map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            for part in [id, ".", &timestamp.to_string(), ".", body] {
                mac.update(part.as_bytes());
            }
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Where the secrets come from.
#[derive(Debug)]
pub enum SecretSource {
    /// They never change.
    Given(Arc<Secrets>),
    /// A secret of Secrets Manager.
    Stored(Box<Stored>),
}

/// See [`SecretSource::Stored`].
#[derive(Debug)]
pub struct Stored {
    client: Client,
    id: String,
    /// What was last read, and when. Locked while it is read, so that all who want it share one read.
    known: Mutex<Option<(Instant, Arc<Secrets>)>>,
}

impl SecretSource {
    /// The secret `id` of Secrets Manager.
    pub fn stored(client: Client, id: String) -> Self {
        Self::Stored(Box::new(Stored { client, id, known: Mutex::default() }))
    }

    /// The secrets of now. If they can't be read again, the old ones serve; then both sides have what they had.
    pub async fn current(&self) -> Result<Arc<Secrets>, String> {
        let stored = match self {
            Self::Given(secrets) => return Ok(Arc::clone(secrets)),
            Self::Stored(stored) => stored,
        };
        let mut known = stored.known.lock().await;
        if let Some((read_at, secrets)) = &*known
            && read_at.elapsed() < READ_EVERY
        {
            return Ok(Arc::clone(secrets));
        }
        match (stored.read().await, &mut *known) {
            (Ok(secrets), known) => {
                let secrets = Arc::new(secrets);
                *known = Some((Instant::now(), Arc::clone(&secrets)));
                Ok(secrets)
            }
            (Err(cause), Some((read_at, secrets))) => {
                tracing::warn!(cause, "the secret of webhooks can't be read again");
                *read_at = Instant::now();
                Ok(Arc::clone(secrets))
            }
            (Err(cause), None) => Err(cause),
        }
    }
}

impl Stored {
    /// Reads the secret. An error never shows what stands in it.
    async fn read(&self) -> Result<Secrets, String> {
        let asked = self.client.get_secret_value().secret_id(&self.id).send().await;
        let answer = asked.map_err(|error| shared::error_chain(&error))?;
        let text = answer.secret_string.ok_or("the secret is not a text")?;
        Secrets::parse(&text).and_then(Secrets::strong).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_signature_is_the_one_that_the_specification_publishes() {
        let signature = Secrets::parse(SECRET).unwrap().signatures(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_secrets_are_rotated_each_signs() {
        let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let signed = |secrets: &str| Secrets::parse(secrets).unwrap().signatures("evt_1", 5, "{}");
        let both = format!("{} {}", signed(SECRET), signed(other));
        for text in [format!("{SECRET} {other}"), format!("{SECRET},{other}"), format!(" {SECRET}\n{other}\n")] {
            assert_eq!(signed(&text), both);
        }
    }

    #[test]
    fn a_text_that_is_no_secret_is_refused_and_not_shown() {
        for (text, error) in [
            ("", SecretError::None),
            (" ,", SecretError::None),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::Malformed),
            ("whsec_", SecretError::Malformed),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", SecretError::Malformed),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw plain", SecretError::Malformed),
        ] {
            let found = Secrets::parse(text).unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(text.len() < 8 || !found.to_string().contains("MfKQ"));
        }
        let short = Secrets::parse("whsec_c2VjcmV0").unwrap();
        assert_eq!(short.strong().unwrap_err(), SecretError::Short);
        let strong = Secrets::parse(SECRET).unwrap().strong().unwrap();
        assert_eq!(format!("{strong:?}"), "Secrets(1)");
    }
}
