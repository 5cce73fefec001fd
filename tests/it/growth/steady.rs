//! A hot store for a clock that stands still while there is something to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use shared::domain::{Decision, Hold, PartId, Partition, Terms};
use shared::ports::{
    Ask, Backlog, Doubt, GrabAnswer, Grabber, Help, HotStore, HotStoreError, Loaded, OutboxEntry, PartReport,
    Reconciled, SnapshotResult,
};
use shared::redis::RedisStore;
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
pub struct Steady {
    /// The store.
    pub redis: Arc<RedisStore>,
    /// Calls of plain commands.
    pub plain: Arc<AtomicU64>,
}

impl Steady {
    fn plain(&self) {
        self.plain.fetch_add(1, Ordering::SeqCst);
    }
}

/// A call of the store, with its arguments owned by the task that waits for it.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {{
        let redis = Arc::clone(&$self.redis);
        in_real_time(move || async move { redis.$name($($argument),*).await }).await
    }};
}

impl HotStore for Steady {
    async fn grab(&self, part: PartId, grabbers: &[Grabber]) -> Result<Option<Vec<GrabAnswer>>, HotStoreError> {
        let grabbers = grabbers.to_vec();
        call!(self.grab(part, &grabbers))
    }

    fn lane(&self, partition: Partition) -> u32 {
        self.redis.lane(partition)
    }

    async fn grab_each(&self, asks: &[Ask]) -> Result<Vec<Option<Vec<GrabAnswer>>>, HotStoreError> {
        let asks = asks.to_vec();
        call!(self.grab_each(&asks))
    }

    async fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        resolved: &[Hold],
    ) -> Result<Reconciled, HotStoreError> {
        let (decisions, resolved) = (decisions.to_vec(), resolved.to_vec());
        call!(self.reconcile(part, count, &decisions, &resolved))
    }

    async fn load(
        &self,
        part: PartId,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
    ) -> Result<Loaded, HotStoreError> {
        let (terms, decisions) = (terms.clone(), decisions.to_vec());
        call!(self.load(part, &terms, is_closed, &decisions))
    }

    async fn close(&self, part: PartId) -> Result<bool, HotStoreError> {
        call!(self.close(part))
    }

    async fn acquire_load_lease(&self, part: PartId, lease: Duration) -> Result<bool, HotStoreError> {
        self.plain();
        call!(self.acquire_load_lease(part, lease))
    }

    async fn release_load_lease(&self, part: PartId) -> Result<(), HotStoreError> {
        self.plain();
        call!(self.release_load_lease(part))
    }

    async fn help(
        &self,
        part: PartId,
        least_age: Duration,
        most: usize,
        lease: Duration,
    ) -> Result<Help, HotStoreError> {
        call!(self.help(part, least_age, most, lease))
    }

    async fn end_help(&self, part: PartId, doubt: Option<(Doubt, Duration)>) -> Result<(), HotStoreError> {
        self.plain();
        call!(self.end_help(part, doubt))
    }

    async fn snapshot(&self, part: PartId, only_final: bool) -> Result<SnapshotResult, HotStoreError> {
        let found = call!(self.snapshot(part, only_final))?;
        if matches!(&found, SnapshotResult::Exhausted(shown) if shown.is_final) {
            // The owners.
            self.plain();
        }
        Ok(found)
    }

    async fn is_undecided(&self, part: PartId) -> Result<bool, HotStoreError> {
        call!(self.is_undecided(part))
    }

    async fn report(&self, part: PartId) -> Result<Option<PartReport>, HotStoreError> {
        call!(self.report(part))
    }

    async fn pending_parts(&self, partition: Partition) -> Result<Vec<PartId>, HotStoreError> {
        self.plain();
        call!(self.pending_parts(partition))
    }

    /// One call only if the partition has no pending part, as wherever this is counted.
    async fn backlog(&self, partition: Partition) -> Result<Backlog, HotStoreError> {
        self.plain();
        let backlog = call!(self.backlog(partition))?;
        assert_eq!(backlog.holds, 0, "the calls of this backlog are not counted");
        Ok(backlog)
    }

    async fn outbox(&self, part: PartId, least_age: Duration) -> Result<Vec<OutboxEntry>, HotStoreError> {
        call!(self.outbox(part, least_age))
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Result<(), HotStoreError> {
        let (hold, reason) = (hold.clone(), reason.to_owned());
        call!(self.park(part, &hold, &reason))
    }
}
