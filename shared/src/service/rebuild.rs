use super::Failure;
use super::hot_store::{HotStore, Learned};
use super::stores::Stores;
use crate::domain::{Hold, PartId, Terms};
use crate::dynamo::Table;

/// The operator's use case: the hot store is told all that the ledger knows of a packet.
///
/// It does what a load and a repair do, so it is safe at any time: what is held stays held, save what a fence decides.
pub struct Rebuild<T, H> {
    stores: Stores<T, H>,
}

impl<T: Table, H: HotStore> Rebuild<T, H> {
    /// Over the two stores.
    pub const fn new(stores: Stores<T, H>) -> Self {
        Self { stores }
    }

    /// Loads a part if it is absent and not expired, and tells it all fences of its slips.
    pub async fn part(&self, part: PartId, terms: &Terms) -> Result<Learned, Failure> {
        // What is held is read before the fences: a hold that these decide is one that was there.
        let held = self.stores.hot.held(part).await?;
        let holds: Vec<Hold> = held.into_iter().map(|held| held.hold).collect();
        let facts = self.stores.ledger.fences(part.packet, part.slips(terms.count)).await?;
        self.stores.hot.load(part, terms, &facts).await?;
        Ok(self.stores.hot.learn(part, terms.count, &facts, &holds).await?)
    }
}
