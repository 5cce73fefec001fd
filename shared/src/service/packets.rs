use std::sync::Arc;

use moka::future::Cache;

use super::Failure;
use crate::domain::{Amount, Amounts, PacketId, PartId, Terms};
use crate::dynamo::{Ledger, Table};

/// What never changes of the packets, from the ledger and kept in the process within a bound of bytes.
pub struct Packets<T> {
    ledger: Arc<Ledger<T>>,
    terms: Cache<PacketId, Arc<Terms>>,
    amounts: Cache<PartId, Arc<Amounts>>,
}

const TERMS_BYTES_MAX: u64 = 4 << 20;
const AMOUNTS_BYTES_MAX: u64 = 8 << 20;

/// Why there are no terms: the packet does not exist, or nobody knows.
#[derive(Clone, Debug)]
enum NoTerms {
    NotFound,
    Failed(Failure),
}

impl<T: Table> Packets<T> {
    /// Over `ledger`, with nothing cached.
    pub fn new(ledger: Arc<Ledger<T>>) -> Self {
        let terms = Cache::builder().weigher(|_, terms: &Arc<Terms>| terms_bytes(terms)).max_capacity(TERMS_BYTES_MAX);
        let amounts = Cache::builder()
            .weigher(|_, amounts: &Arc<Amounts>| u32::try_from(amounts.as_bytes().len() + 64).unwrap_or(u32::MAX))
            .max_capacity(AMOUNTS_BYTES_MAX);
        Self { ledger, terms: terms.build(), amounts: amounts.build() }
    }

    /// A packet's terms; `None` if there is no such packet.
    pub async fn terms(&self, id: PacketId) -> Result<Option<Arc<Terms>>, Failure> {
        match self.terms.get(&id).await {
            Some(terms) => Ok(Some(terms)),
            // In a box: what reads the ledger is large, and every grab would carry it about.
            None => Box::pin(self.read_terms(id)).await,
        }
    }

    async fn read_terms(&self, id: PacketId) -> Result<Option<Arc<Terms>>, Failure> {
        let read = async {
            let packet = self.ledger.packet(id).await.map_err(|error| NoTerms::Failed(error.into()))?;
            Ok(Arc::new(packet.ok_or(NoTerms::NotFound)?.terms))
        };
        match self.terms.try_get_with(id, read).await {
            Ok(terms) => Ok(Some(terms)),
            Err(none) => match &*none {
                // The read that this call has joined may have begun before the packet was there.
                NoTerms::NotFound => Ok(self.ledger.packet(id).await?.map(|packet| Arc::new(packet.terms))),
                NoTerms::Failed(failure) => Err(failure.clone()),
            },
        }
    }

    /// What is in a slip of `part`, as the ledger recorded it; `None` if the part has no such slip.
    pub async fn amount(&self, part: PartId, terms: &Terms, slip: u32) -> Result<Option<Amount>, Failure> {
        let slips = part.slips(terms.count);
        if !slips.contains(&slip) {
            return Ok(None);
        }
        Ok(self.amounts(part).await?.get((slip - slips.start) as usize))
    }

    /// The amounts of a part that exists.
    pub async fn amounts(&self, part: PartId) -> Result<Arc<Amounts>, Failure> {
        match self.amounts.get(&part).await {
            Some(amounts) => Ok(amounts),
            None => Box::pin(self.read_amounts(part)).await,
        }
    }

    async fn read_amounts(&self, part: PartId) -> Result<Arc<Amounts>, Failure> {
        let read = async { self.ledger.amounts(part).await.map(Arc::new).map_err(Failure::from) };
        self.amounts.try_get_with(part, read).await.map_err(|failure| (*failure).clone())
    }
}

fn terms_bytes(terms: &Terms) -> u32 {
    let recipients = terms.guard.recipients.iter().flatten();
    let recipients: usize = recipients.map(|user| user.as_str().len() + 32).sum();
    u32::try_from(512 + recipients).unwrap_or(u32::MAX)
}
