use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Failure;
use super::cache::{Cache, cache};
use super::environment::Entropy;
use super::flights::Flights;
use super::hot_store::{FinalPart, Finality, HotStore};
use crate::domain::PartId;

/// For how long a process answers from a final part by itself. It can't change, but its expiry passes and a process must
/// not hold what nobody asks for.
const REMEMBER: Duration = Duration::from_secs(5);
/// Owners that a process remembers in all.
const OWNERS_MAX: u64 = 200_000;
const OWNERS_OF_A_PART: u64 = 100;

/// After how long a process looks again at a part that turned out not to be final, or to have a guard.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const PARTS_LOOKED_MAX: u64 = 10_000;

/// For how long losers wait, in the moment between the last slip's pop and its commit, for the part to become final.
const WAIT_MAX: Duration = Duration::from_millis(1_500);
const POLL_FIRST: Duration = Duration::from_millis(4);
const POLL_MOST: Duration = Duration::from_millis(100);

/// Final parts, and since when they are known to be.
type Known = Arc<Cache<PartId, (Instant, Arc<FinalPart>)>>;

/// The final parts that this process knows, with their owners: they need no call to the hot store.
pub struct Finals<H> {
    hot: Arc<H>,
    entropy: Arc<dyn Entropy>,
    known: Known,
    /// When a part was looked at.
    looked: Cache<PartId, Instant>,
    waits: Flights<PartId, Result<(), Failure>>,
}

impl<H: HotStore> Finals<H> {
    /// Of the parts in `hot`.
    pub fn new(hot: Arc<H>, entropy: Arc<dyn Entropy>) -> Self {
        let owners = |(_, part): &(Instant, Arc<FinalPart>)| part.owners.len() + 1;
        let known = Arc::new(cache(OWNERS_MAX, OWNERS_OF_A_PART, owners));
        let looked = cache(PARTS_LOOKED_MAX, 1, |_| 1);
        Self { hot, entropy, known, looked, waits: Flights::new() }
    }

    /// A part, if it is known to be final.
    pub fn get(&self, part: PartId) -> Option<Arc<FinalPart>> {
        let (since, known) = self.known.get(&part)?;
        (since.elapsed() < REMEMBER).then_some(known)
    }

    /// Waits until a part is final, but not for ever: one poll for all who wait. Then ask it again.
    pub async fn wait(&self, part: PartId) -> Result<(), Failure> {
        let (hot, known, entropy) = (Arc::clone(&self.hot), Arc::clone(&self.known), Arc::clone(&self.entropy));
        let poll = || async move {
            let give_up = Instant::now() + WAIT_MAX;
            let mut pause = POLL_FIRST;
            loop {
                tokio::time::sleep(entropy.jitter(pause)).await;
                match look(&*hot, &known, part).await? {
                    Finality::NotYet if Instant::now() < give_up => pause = (pause * 2).min(POLL_MOST),
                    _ => return Ok(()),
                }
            }
        };
        self.waits.join(part, poll).await.unwrap_or_else(|| Err(Failure::defect("waiting for a part panicked")))
    }

    /// Finds out about a part of which a loser was told for certain, for those who come after him. Nobody waits for it.
    pub fn look_later(&self, part: PartId) {
        if self.looked.get(&part).is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return;
        }
        self.looked.insert(part, Instant::now());
        let (hot, known) = (Arc::clone(&self.hot), Arc::clone(&self.known));
        tokio::spawn(async move {
            if let Err(failure) = look(&*hot, &known, part).await {
                tracing::debug!(%part, error = crate::error_chain(&failure), "its owners are not known");
            }
        });
    }
}

async fn look<H: HotStore>(hot: &H, known: &Known, part: PartId) -> Result<Finality, Failure> {
    let finality = hot.finality(part).await?;
    if let Finality::Final(owners) = &finality {
        known.insert(part, (Instant::now(), Arc::clone(owners)));
    }
    Ok(finality)
}
