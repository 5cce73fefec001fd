use crate::domain::{Hold, PartId, Terms};
use crate::ports::{HotStore, Reconciled, Table};
use crate::service::{Failure, Stores};

/// The operator's use case rebuild: loads the parts of a packet that are absent, and applies all slip decisions to all parts.
///
/// It does only what a load and a repair do, so it is safe at any time: holds stay, except those that a decision resolves.
pub struct Rebuild<T, H> {
    stores: Stores<T, H>,
}

impl<T: Table, H: HotStore> Rebuild<T, H> {
    /// Rebuilds packets in these stores.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self { stores }
    }

    /// Loads a part if it is absent and not expired, closes it if the packet `is_closed`, and applies all decisions of its slips.
    pub async fn part(&self, part: PartId, terms: &Terms, is_closed: bool) -> Result<Reconciled, Failure> {
        // The holds are read before the decisions, so that these resolve only holds that were there.
        let held = self.stores.hot.outbox(part).await?;
        let holds: Vec<Hold> = held.into_iter().map(|held| held.hold).collect();
        let decisions = self.stores.ledger.decisions(part.packet, part.slips(terms.count)).await?;
        self.stores.hot.load(part, terms, is_closed, &decisions).await?;
        if is_closed {
            self.stores.hot.close(part).await?;
        }
        // Once more: a bitmap that was made anew lacks the decisions since the first read.
        let decisions = self.stores.ledger.decisions(part.packet, part.slips(terms.count)).await?;
        Ok(self.stores.hot.reconcile(part, terms.count, &decisions, &holds).await?)
    }
}
