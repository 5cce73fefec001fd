use std::sync::Arc;

use super::packets::Packets;
use crate::ledger::Ledger;
use crate::ports::{Clock, Entropy, Table};
use crate::telemetry::Meter;

/// What the use cases over both stores stand on. A clone shares all of it.
pub struct Stores<T, H> {
    /// What is true.
    pub ledger: Arc<Ledger<T>>,
    /// Who gets which slip.
    pub hot: Arc<H>,
    /// What never changes of the packets.
    pub packets: Arc<Packets<T>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What ids, seeds and jitter are made of.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted for metrics.
    pub meter: Arc<Meter>,
}

impl<T: Table, H> Stores<T, H> {
    /// Over `ledger` and `hot`, with no packet cached.
    pub fn new(ledger: Arc<Ledger<T>>, hot: Arc<H>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        let packets = Arc::new(Packets::new(Arc::clone(&ledger)));
        Self { ledger, hot, packets, clock, entropy, meter: Arc::default() }
    }

    /// Counting with `meter`.
    #[must_use]
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }
}

// By hand: a derived one would ask for `T: Clone` and `H: Clone`.
impl<T, H> Clone for Stores<T, H> {
    fn clone(&self) -> Self {
        Self {
            ledger: Arc::clone(&self.ledger),
            hot: Arc::clone(&self.hot),
            packets: Arc::clone(&self.packets),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            meter: Arc::clone(&self.meter),
        }
    }
}
