use std::sync::Arc;

use super::Failure;
use crate::domain::{Amount, Movement, RequestKey, UserId, Wallet};
use crate::ledger::{Ledger, MovementCursor, MovementOutcome, Slice};
use crate::ports::{Clock, Table};

/// The operator's use cases: money in and out of wallets.
pub struct Wallets<T> {
    ledger: Arc<Ledger<T>>,
    clock: Arc<dyn Clock>,
    currency: String,
}

impl<T: Table> Wallets<T> {
    /// The wallets in `ledger`. All money is in `currency` (ISO 4217).
    pub const fn new(ledger: Arc<Ledger<T>>, clock: Arc<dyn Clock>, currency: String) -> Self {
        Self { ledger, clock, currency }
    }

    /// The currency of every wallet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, Failure> {
        Ok(self.ledger.wallet(user).await?)
    }

    /// Up to `limit` movements of a user's wallet, by kind and then by id, after `after`.
    pub async fn movements(
        &self,
        user: &UserId,
        after: Option<MovementCursor>,
        limit: u32,
    ) -> Result<Slice<Movement, MovementCursor>, Failure> {
        Ok(self.ledger.movements(user, after, limit).await?)
    }

    /// Puts money in, once for each id.
    pub async fn deposit(&self, user: &UserId, id: &RequestKey, amount: Amount) -> Result<MovementOutcome, Failure> {
        Ok(self.ledger.deposit(user, id, amount, self.clock.now()).await?)
    }

    /// Takes money out, once for each id.
    pub async fn withdraw(&self, user: &UserId, id: &RequestKey, amount: Amount) -> Result<MovementOutcome, Failure> {
        Ok(self.ledger.withdraw(user, id, amount, self.clock.now()).await?)
    }
}
