use std::sync::Arc;

use super::packets::Packets;
use crate::ledger::Ledger;
use crate::ports::{Clock, Entropy, Table};
use crate::secret::Secret;
use crate::telemetry::Meter;
use crate::tickets::TicketKeys;

/// Both stores, and what the use cases need beside them. A clone shares all of it.
pub struct Stores<T, H> {
    /// The ledger.
    pub ledger: Arc<Ledger<T>>,
    /// The hot store.
    pub hot: Arc<H>,
    /// The terms and amounts of packets, cached.
    pub packets: Arc<Packets<T>>,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids, seeds and jitter.
    pub entropy: Arc<dyn Entropy>,
    /// The counts for metrics.
    pub meter: Arc<Meter>,
    /// The keys that sign tickets, if the deployment has any.
    pub ticket_keys: Option<Arc<Secret<TicketKeys>>>,
}

impl<T: Table, H> Stores<T, H> {
    /// The stores `ledger` and `hot`. No packet is cached yet.
    pub fn new(ledger: Arc<Ledger<T>>, hot: Arc<H>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let packets = Arc::new(Packets::new(Arc::clone(&ledger)));
        Self { ledger, hot, packets, clock, entropy, meter: Arc::default(), ticket_keys: None }
    }

    /// The same, counting with `meter`.
    #[must_use]
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// The same, which takes tickets that these keys have signed.
    #[must_use]
    pub fn taking_tickets(self, ticket_keys: Option<Arc<Secret<TicketKeys>>>) -> Self {
        Self { ticket_keys, ..self }
    }
}

// This is written by hand because a derived `Clone` would ask for `T: Clone` and `H: Clone`.
impl<T, H> Clone for Stores<T, H> {
    fn clone(&self) -> Self {
        Self {
            ledger: Arc::clone(&self.ledger),
            hot: Arc::clone(&self.hot),
            packets: Arc::clone(&self.packets),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            meter: Arc::clone(&self.meter),
            ticket_keys: self.ticket_keys.clone(),
        }
    }
}
