use std::sync::Arc;

use super::Failure;
use crate::domain::{
    Amount, Deed, Intervention, Limits, Mandate, Movement, MovementFilter, OperatorReason, RequestKey, SendingDecision,
    Suspension, Timestamp, UserId, UserLimits, Wallet, Withdrawal, WithdrawalEnd, WithdrawalRequest,
};
pub use crate::ledger::{Decided, LimitUse, Requested};
use crate::ledger::{
    DecidedCursor, DeedCursor, DepositOutcome, EndOutcome, Ledger, MovementCursor, PendingCursor, Slice,
};
pub use crate::ledger::{ReceiverState, ReceiverStatus, WithdrawalOutcome};
use crate::ports::{Clock, Table};

/// The operator's use cases: money in and out of wallets.
pub struct Wallets<T> {
    ledger: Arc<Ledger<T>>,
    clock: Arc<dyn Clock>,
    currency: String,
    deposit_max: Amount,
    /// The least that users can ask for, if they can.
    users_ask: Option<Amount>,
}

impl<T: Table> Wallets<T> {
    /// The wallets in `ledger`. All money is in `currency` (ISO 4217). No deposit is above `deposit_max`, unless the user has a limit of
    /// their own. Users can't ask for withdrawals.
    pub const fn new(ledger: Arc<Ledger<T>>, clock: Arc<dyn Clock>, currency: String, deposit_max: Amount) -> Self {
        Self { ledger, clock, currency, deposit_max, users_ask: None }
    }

    /// The same where users can ask for withdrawals of `least` or more, or not.
    #[must_use]
    pub fn asked_by_users(mut self, users_ask: bool, least: Amount) -> Self {
        self.users_ask = users_ask.then_some(least);
        self
    }

    /// The currency of every wallet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, Failure> {
        Ok(self.ledger.wallet(user).await?)
    }

    /// A user's wallet, and their suspension if they are suspended.
    pub async fn account(&self, user: &UserId) -> Result<(Wallet, Option<Suspension>), Failure> {
        Ok(self.ledger.account(user).await?)
    }

    /// Suspends a user, also for `grabs`, for the mandate's reason. The same once more leaves the suspension as it is. Returns the one that
    /// stands then, or that this request's key has made.
    pub async fn suspend(
        &self,
        user: &UserId,
        reason: OperatorReason,
        grabs: bool,
        mandate: Mandate<'_>,
    ) -> Result<Suspension, Failure> {
        let intervention = Intervention { reason, at: self.clock.now(), by: mandate.by.cloned() };
        let suspension = Suspension { intervention, grabs };
        if let Some(done) = self.ledger.suspend(user, &suspension, mandate.key).await? {
            return Ok(done);
        }
        Ok(self.ledger.account(user).await?.1.unwrap_or(suspension))
    }

    /// Lifts a user's suspension, if they are suspended.
    pub async fn lift_suspension(&self, user: &UserId, mandate: Mandate<'_>) -> Result<(), Failure> {
        Ok(self.ledger.lift_suspension(user, mandate, self.clock.now()).await?)
    }

    /// What the operator lets a user do, if they said.
    pub async fn limits(&self, user: &UserId) -> Result<Option<UserLimits>, Failure> {
        Ok(self.ledger.limits(user).await?)
    }

    /// Sets what a user may do. `None`: what the deployment lets everybody do. Returns what stands then.
    pub async fn set_limits(
        &self,
        user: &UserId,
        daily_sent_max: Option<Amount>,
        deposit_max: Option<Amount>,
        mandate: Mandate<'_>,
    ) -> Result<UserLimits, Failure> {
        let limits = UserLimits { daily_sent_max, deposit_max, at: self.clock.now(), by: mandate.by.cloned() };
        self.ledger.set_limits(user, &limits, mandate).await?;
        Ok(self.ledger.limits(user).await?.unwrap_or(limits))
    }

    /// What the operator decided last about sending, if ever.
    pub async fn sending(&self) -> Result<Option<SendingDecision>, Failure> {
        Ok(self.ledger.sending().await?)
    }

    /// Pauses sending, or lets it go on, for the mandate's reason. The same once more leaves the decision as it is.
    pub async fn decide_sending(&self, paused: bool, mandate: Mandate<'_>) -> Result<SendingDecision, Failure> {
        let Mandate { by, reason, key } = mandate;
        let (at, by) = (self.clock.now(), by.cloned());
        let decision = SendingDecision { paused, reason: reason.cloned(), at, by, key: key.cloned() };
        Ok(self.ledger.decide_sending(decision).await?)
    }

    /// What is known of the receiver of webhooks, and the time now.
    pub async fn receiver(&self) -> Result<(ReceiverState, Timestamp), Failure> {
        Ok((self.ledger.receiver().await?, self.clock.now()))
    }

    /// Lets the receiver of webhooks be called again as if it had never failed, or not at all. The same once more changes nothing, but a
    /// receiver that fails has another day.
    pub async fn enable_receiver(
        &self,
        enabled: bool,
        mandate: Mandate<'_>,
    ) -> Result<(ReceiverState, Timestamp), Failure> {
        let (receiver, now) = self.receiver().await?;
        match (enabled, receiver.disabled_at) {
            (true, None) if receiver.failing_since.is_none() && receiver.put_off_until.is_none() => {}
            (true, _) => self.ledger.enable_receiver(mandate, now).await?,
            (false, None) => self.ledger.disable_receiver(mandate, now).await?,
            (false, Some(_)) => {}
        }
        self.receiver().await
    }

    /// Up to `limit` movements of a user's wallet, the newest first, after `after`.
    pub async fn movements(
        &self,
        user: &UserId,
        filter: MovementFilter,
        after: Option<MovementCursor>,
        limit: u32,
    ) -> Result<Slice<Movement, MovementCursor>, Failure> {
        Ok(self.ledger.movements(user, filter, after, limit).await?)
    }

    /// Puts money in, once for each id.
    pub async fn deposit<'a>(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        mandate: impl Into<Mandate<'a>>,
    ) -> Result<DepositOutcome, Failure> {
        let own = self.ledger.limits(user).await?.and_then(|limits| limits.deposit_max);
        let most = own.unwrap_or(self.deposit_max);
        if amount > most {
            // A deposit of before the limit is made, and a client that lost its answer must not be refused.
            return Ok(self.ledger.deposit_above_limit(user, id, amount, most).await?);
        }
        Ok(self.ledger.deposit(user, id, amount, mandate, self.clock.now()).await?)
    }

    /// Takes money out, or reserves it, once for each id.
    pub async fn withdraw<'a>(
        &self,
        user: &UserId,
        request: &WithdrawalRequest,
        mandate: impl Into<Mandate<'a>>,
    ) -> Result<WithdrawalOutcome, Failure> {
        Ok(self.ledger.withdraw(user, request, None, mandate, self.clock.now()).await?)
    }

    /// Reserves what a user asks for, once for each id. `None`: users can't ask here. What they asked for when they could, or could ask for
    /// less, is still answered, because the answer may have been lost.
    pub async fn ask(&self, user: &UserId, request: &WithdrawalRequest) -> Result<Option<WithdrawalOutcome>, Failure> {
        let refusal = match self.users_ask {
            None => None,
            Some(least) if request.amount < least => Some(WithdrawalOutcome::BelowLimit(least)),
            Some(_) => {
                let pending_max = Some(Limits::PENDING_WITHDRAWALS);
                return Ok(Some(self.ledger.withdraw(user, request, pending_max, None, self.clock.now()).await?));
            }
        };
        Ok(self.ledger.withdrawn_before(user, request).await?.or(refusal))
    }

    /// A withdrawal, if there is one.
    pub async fn withdrawal(&self, user: &UserId, id: &RequestKey) -> Result<Option<Withdrawal>, Failure> {
        Ok(self.ledger.withdrawal(user, id).await?)
    }

    /// Ends a pending withdrawal, once.
    pub async fn end_withdrawal<'a>(
        &self,
        user: &UserId,
        id: &RequestKey,
        end: WithdrawalEnd,
        mandate: impl Into<Mandate<'a>>,
    ) -> Result<EndOutcome, Failure> {
        Ok(self.ledger.end_withdrawal(user, id, end, mandate, self.clock.now()).await?)
    }

    /// Up to `limit` pending withdrawals after `after`, the oldest first, of those that were asked for before `before`.
    pub async fn pending_withdrawals(
        &self,
        before: Option<Timestamp>,
        after: Option<PendingCursor>,
        limit: u32,
    ) -> Result<Slice<Withdrawal, PendingCursor>, Failure> {
        Ok(self.ledger.pending_withdrawals(before, after, limit).await?)
    }

    /// Up to `limit` of a user's withdrawals in a state, the newest first, after `after`, of those that were asked for before `before`.
    pub async fn withdrawals_of(
        &self,
        user: &UserId,
        state: Option<&str>,
        before: Option<Timestamp>,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Withdrawal, DeedCursor>, Failure> {
        Ok(self.ledger.withdrawals_of(user, state, before, after, limit).await?)
    }

    /// Up to `limit` deeds of operators, the newest first, after `after`: all, or those on a user.
    pub async fn deeds(
        &self,
        user: Option<&UserId>,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Deed, DeedCursor>, Failure> {
        Ok(self.ledger.deeds(user, after, limit).await?)
    }

    /// Up to `limit` users who are suspended, or have limits of their own, or either, after `after`.
    pub async fn decided_users(
        &self,
        suspended: Option<bool>,
        after: Option<DecidedCursor>,
        limit: u32,
    ) -> Result<Slice<Decided, DecidedCursor>, Failure> {
        Ok(self.ledger.decided_users(suspended, after, limit).await?)
    }

    /// Up to `limit` keys of limits towards which a user has won, after `after`.
    pub async fn limit_uses(
        &self,
        user: &UserId,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<LimitUse, DeedCursor>, Failure> {
        Ok(self.ledger.limit_uses(user, after, limit).await?)
    }

    /// Up to `limit` deposits and withdrawals with an id, after `after`.
    pub async fn requests(
        &self,
        id: &RequestKey,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Requested, DeedCursor>, Failure> {
        Ok(self.ledger.requests(id, after, limit).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Requester;
    use crate::memory::MemoryTable;
    use crate::ports::System;

    #[tokio::test]
    async fn what_a_user_asked_for_is_answered_after_asking_is_forbidden() {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let wallets = |users_ask: bool| {
            Wallets::new(Arc::clone(&ledger), Arc::new(System), "CNY".to_owned(), Amount::new(100))
                .asked_by_users(users_ask, Amount::new(1))
        };
        let id = |id: &str| id.parse::<RequestKey>().unwrap();
        let ann: UserId = "ann".parse().unwrap();
        wallets(false).deposit(&ann, &id("in"), Amount::new(100), None).await.unwrap();
        let asked = |name: &str| WithdrawalRequest {
            requester: Requester::User,
            ..WithdrawalRequest::pending(id(name), Amount::new(1))
        };
        let first = wallets(true).ask(&ann, &asked("first")).await.unwrap();
        assert!(matches!(first, Some(WithdrawalOutcome::Made(_))), "{first:?}");
        let again = wallets(false).ask(&ann, &asked("first")).await.unwrap();
        assert!(matches!(again, Some(WithdrawalOutcome::Replayed(_))), "{again:?}");
        assert_eq!(wallets(false).ask(&ann, &asked("other")).await.unwrap(), None);
    }
}
