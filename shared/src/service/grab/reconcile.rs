use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::batching::{Batcher, Caller};
use crate::domain::{Decision, Hold, PartId, Timestamp};
use crate::ports::{HotStore, HotStoreError, Reconciled};

/// The most grabs in one call, so that nobody else's call waits long for it.
const BATCH_MAX: usize = 64;

/// Applies to the hot store what the ledger decided of grabs.
///
/// Winners of a rush share calls. If the hot store cannot be reached, settle does it: the ledger has the decisions.
pub struct Reconciler<H: HotStore>(Arc<Batcher<Reconciling<H>>>);

/// Called for each part that becomes final, with the time of its last grab.
pub type OnFinal = Box<dyn Fn(PartId, Timestamp) -> BoxFuture<'static, ()> + Send + Sync>;

struct Reconciling<H> {
    hot: Arc<H>,
    on_final: OnFinal,
}

/// What the ledger decided of one grab.
#[derive(Debug)]
pub struct News {
    /// The number of slips in the packet.
    count: u32,
    decisions: Vec<Decision>,
    /// The hold that these decisions resolve.
    resolved: Hold,
    /// Dropped once the hot store knows them, or could not be reached.
    done: oneshot::Sender<()>,
}

impl<H: HotStore> Caller for Reconciling<H> {
    type Key = PartId;
    type Queue = Vec<News>;
    type Batch = Vec<News>;
    /// Whether the hot store can be reached.
    type Report = bool;

    fn in_flight_max(&self) -> usize {
        1
    }

    fn waiting(queue: &Self::Queue) -> usize {
        queue.len()
    }

    fn next_batch(&self, queue: &mut Self::Queue) -> Self::Batch {
        queue.drain(..queue.len().min(BATCH_MAX)).collect()
    }

    async fn call(&self, part: &PartId, batch: Self::Batch) -> bool {
        let Some(count) = batch.first().map(|news| news.count) else { return true };
        let (mut decisions, mut resolved, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for news in batch {
            decisions.extend(news.decisions);
            resolved.push(news.resolved);
            done.push(news.done);
        }
        let reconciled = self.hot.reconcile(*part, count, &decisions, &resolved).await;
        crash_point!("grab.after_reconcile");
        if let (Ok(Reconciled::Final), Some(last)) = (&reconciled, decisions.iter().map(|decision| decision.at).max()) {
            (self.on_final)(*part, last).await;
        }
        if let Err(error) = &reconciled {
            tracing::warn!(%part, error = crate::error_chain(error), "grabs are left to settle");
        }
        !matches!(reconciled, Err(HotStoreError::Unavailable(_)))
    }

    fn after_call(&self, queue: &mut Self::Queue, is_reachable: bool) {
        if !is_reachable {
            // The hot store would not answer these requests either.
            queue.clear();
        }
    }
}

impl<H: HotStore> Reconciler<H> {
    /// Reconciles parts in `hot`.
    pub fn new(hot: Arc<H>, on_final: OnFinal) -> Self {
        Self(Arc::new(Batcher::new(Reconciling { hot, on_final })))
    }

    /// Takes on to apply `decisions` of the ledger to `part`, of a packet of `count` slips, and to end the hold `resolved`. That is done also
    /// if nobody awaits the future, which ends when it is done or has failed.
    pub fn submit(
        &self,
        part: PartId,
        count: u32,
        decisions: Vec<Decision>,
        resolved: Hold,
    ) -> impl Future<Output = ()> + use<H> {
        let (done, is_done) = oneshot::channel();
        self.0.submit(part, |queue| queue.push(News { count, decisions, resolved, done }));
        is_done.map(|_| ())
    }
}
