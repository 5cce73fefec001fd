//! A value that stands in a secret, and changes with it.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::Builder;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long a value is used before it is read again: a rotation takes effect within this time.
const READ_EVERY: Duration = Duration::from_mins(5);
/// How long no other read follows one that failed while no value is known.
const FAILS_FOR: Duration = Duration::from_secs(1);
/// How long one try of a read may take.
const TRY_MAX: Duration = Duration::from_millis(700);
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
    last: RwLock<Option<Read<V>>>,
    /// Held while it is read, so that all who must wait share one read.
    reading: Mutex<()>,
}

/// What the last read gave: its value, else the one before, else the cause.
struct Read<V> {
    ended: Instant,
    outcome: Result<Arc<V>, String>,
}

impl<V> Secret<V> {
    /// The secret `id` of Secrets Manager, with the endpoint and the credentials of `aws`. An error of `parse` must not show the text.
    pub fn stored(aws: &SdkConfig, id: String, parse: fn(&str) -> Result<V, String>) -> Self {
        let bounds = TimeoutConfig::builder().operation_attempt_timeout(TRY_MAX).operation_timeout(READ_MAX).build();
        let config = Builder::from(aws).timeout_config(bounds).retry_config(RetryConfig::standard());
        let client = Client::from_conf(config.build());
        Self::Stored(Box::new(Stored { client, id, parse, last: RwLock::default(), reading: Mutex::default() }))
    }

    /// The value of now. While another caller reads it again, the one before serves.
    ///
    /// # Errors
    /// What is wrong, for the log. It never shows the secret.
    pub async fn current(&self) -> Result<Arc<V>, String> {
        let stored = match self {
            Self::Given(value) => return Ok(Arc::clone(value)),
            Self::Stored(stored) => stored,
        };
        if let Some(outcome) = stored.known(READ_EVERY) {
            return outcome;
        }
        match (stored.reading.try_lock(), stored.known(Duration::MAX)) {
            (Err(_), Some(outcome @ Ok(_))) => outcome,
            (Ok(reading), _) => stored.renewed(&reading, READ_EVERY).await,
            (Err(_), _) => stored.renewed(&stored.reading.lock().await, READ_EVERY).await,
        }
    }

    /// The value that was last read, if any was.
    pub(crate) fn last(&self) -> Option<Arc<V>> {
        match self {
            Self::Given(value) => Some(Arc::clone(value)),
            Self::Stored(stored) => stored.known(Duration::MAX)?.ok(),
        }
    }

    /// The value as it was at most `age` ago. If it can't be read again, the one before serves; then both sides have what they had.
    pub async fn within(&self, age: Duration) -> Result<Arc<V>, String> {
        match self {
            Self::Given(value) => Ok(Arc::clone(value)),
            Self::Stored(stored) => stored.renewed(&stored.reading.lock().await, age).await,
        }
    }
}

impl<V> Stored<V> {
    /// What was last read, if that is at most `age` ago.
    fn known(&self, age: Duration) -> Option<Result<Arc<V>, String>> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        let Read { ended, outcome } = last.as_ref()?;
        let age = if outcome.is_ok() { age } else { age.min(FAILS_FOR) };
        (ended.elapsed() < age).then(|| outcome.clone())
    }

    /// Reads it again, unless another caller has just done so.
    async fn renewed(&self, _reading: &MutexGuard<'_, ()>, age: Duration) -> Result<Arc<V>, String> {
        if let Some(outcome) = self.known(age) {
            return outcome;
        }
        let outcome = match (self.read().await, self.known(Duration::MAX)) {
            (Ok(value), _) => Ok(Arc::new(value)),
            (Err(cause), Some(before @ Ok(_))) => {
                tracing::warn!(secret = self.id, cause, "a secret can't be read again");
                before
            }
            (Err(cause), _) => Err(cause),
        };
        let read = Read { ended: Instant::now(), outcome: outcome.clone() };
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(read);
        outcome
    }

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

/// A stand-in for Secrets Manager, which has one secret.
#[cfg(test)]
pub(crate) mod test_manager {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use aws_config::{BehaviorVersion, Region, SdkConfig};
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    pub(crate) struct Manager {
        /// What stands in the secret. None: it can't be read.
        text: Mutex<Option<String>>,
        pub(crate) asked: AtomicUsize,
        pub(crate) hangs: AtomicBool,
        /// Where it is, for a client.
        pub(crate) aws: SdkConfig,
    }

    impl Manager {
        pub(crate) async fn start(text: &str) -> Arc<Self> {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let aws = SdkConfig::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new("ap-east-1"))
                .credentials_provider(SharedCredentialsProvider::new(Credentials::new("id", "key", None, None, "test")))
                .http_client(crate::wiring::https_client())
                .endpoint_url(format!("http://{}", listener.local_addr().unwrap()))
                .build();
            let text = Mutex::new(Some(text.to_owned()));
            let manager = Arc::new(Self { text, asked: AtomicUsize::new(0), hangs: AtomicBool::new(false), aws });
            let serving = Arc::clone(&manager);
            tokio::spawn(async move {
                while let Ok((connection, _)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&serving).serve(connection));
                }
            });
            manager
        }

        pub(crate) fn holds(&self, text: Option<&str>) {
            *self.text.lock().unwrap() = text.map(str::to_owned);
        }

        pub(crate) fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }

        async fn serve(self: Arc<Self>, mut connection: TcpStream) {
            let (mut request, mut chunk) = (Vec::new(), [0; 4_096]);
            while !request.ends_with(br#"{"SecretId":"name"}"#) {
                let length = connection.read(&mut chunk).await.unwrap();
                assert!(length > 0, "another request: {}", String::from_utf8_lossy(&request));
                request.extend(&chunk[..length]);
            }
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let text = self.text.lock().unwrap().clone();
            let (status, body) = match text {
                Some(text) => ("200 OK", serde_json::json!({ "SecretString": text })),
                None => ("400 Bad Request", serde_json::json!({ "__type": "ResourceNotFoundException" })),
            };
            let (body, length) = (body.to_string(), body.to_string().len());
            let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use futures::future::join_all;

    use super::test_manager::Manager;
    use super::*;

    async fn seven() -> (Arc<Manager>, Arc<Secret<u32>>) {
        let manager = Manager::start("7").await;
        let parse = |text: &str| text.parse().map_err(|_| "no number".to_owned());
        let secret = Secret::stored(&manager.aws, "name".to_owned(), parse);
        (manager, Arc::new(secret))
    }

    async fn pass(time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    #[tokio::test]
    async fn only_the_reader_waits_for_a_secrets_manager_that_hangs() {
        let (manager, secret) = seven().await;
        assert_eq!(secret.current().await, Ok(Arc::new(7)));
        manager.hangs.store(true, Ordering::SeqCst);
        pass(READ_EVERY).await;
        let reader = tokio::spawn({
            let secret = Arc::clone(&secret);
            async move { secret.current().await }
        });
        while manager.asked() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(secret.current().await, Ok(Arc::new(7)));
        assert!(!reader.is_finished());
        assert_eq!(reader.await.unwrap(), Ok(Arc::new(7)), "what it had serves on");
    }

    #[tokio::test]
    async fn all_who_ask_while_there_is_no_value_share_one_read() {
        let (manager, secret) = seven().await;
        manager.holds(None);
        let answers = join_all((0..20).map(|_| secret.current())).await;
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(manager.asked(), 1);
        manager.holds(Some("7"));
        pass(FAILS_FOR).await;
        assert_eq!(secret.current().await, Ok(Arc::new(7)));
    }
}
