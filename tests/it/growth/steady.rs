//! A hot store for a clock that stands still while there is something to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use redis::Value;
use shared::redis::{Call, Connection, RedisError, RedisStore, Server};
use tokio::runtime::Runtime;

/// Where the time of Redis' clients goes on.
static REAL_TIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// Does `work` in real time. The caller's clock stands still meanwhile: tokio does not move a paused clock on while a
/// blocking task runs. So no timeout depends on the machine, and nor does a pause between two polls.
pub async fn in_real_time<F, V>(work: impl FnOnce() -> F + Send + 'static) -> V
where
    F: Future<Output = V>,
    V: Send + 'static,
{
    tokio::task::spawn_blocking(move || REAL_TIME.block_on(work())).await.unwrap()
}

/// A real Redis, and the count of calls to it that are no scripts.
#[derive(Clone, Debug)]
pub struct SteadyServer {
    connection: Connection,
    /// Calls of plain commands.
    plain: Arc<AtomicU64>,
}

/// See [`SteadyServer`].
pub type Steady = RedisStore<SteadyServer>;

impl SteadyServer {
    /// Over this connection. Counts in `plain`.
    pub const fn new(connection: Connection, plain: Arc<AtomicU64>) -> Self {
        Self { connection, plain }
    }
}

impl Server for SteadyServer {
    async fn run(&self, call: &Call) -> Result<Value, RedisError> {
        if call.source().is_none() {
            self.plain.fetch_add(1, Ordering::SeqCst);
        }
        let (connection, call) = (self.connection.clone(), call.clone());
        in_real_time(move || async move { connection.run(&call).await }).await
    }

    fn is_cluster(&self) -> bool {
        self.connection.is_cluster()
    }
}
