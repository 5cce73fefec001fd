use serde_dynamo::AttributeValue;
use serde_json::{Value, json};

use super::commit::Committed;
use super::deeds::Change;
use super::items::{self, OutsideItem, WalletItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{
    Amount, Deed, DeedKind, IdempotencyKey, Intervention, MAX_BALANCE, Mandate, RequestKey, Suspension, Timestamp,
    UserId, UserLimits, Wallet,
};
use crate::ports::{Bound, Item, Reason, Table, TableError, Write};

/// What a lifted suspension leaves: nothing of it, and no place among the users of whom the operator has decided.
const OF_SUSPENSION: [&str; 4] = [items::SUSPENDED, items::MAY_NOT_GRAB, keys::DUE_SHARD, keys::DUE_AT];

/// A suspension, as a deed shows it.
fn shown_suspension(Suspension { intervention, grabs }: &Suspension) -> Value {
    json!({"reason": intervention.reason.as_str(), "grabs": grabs})
}

/// Limits, as a deed shows them.
fn shown_limits(limits: &UserLimits) -> Value {
    let shown = |limit: Option<Amount>| limit.map(Amount::minor_units);
    json!({"daily_sent_max": shown(limits.daily_sent_max), "deposit_max": shown(limits.deposit_max)})
}

/// How a deposit ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DepositOutcome {
    /// The money is moved.
    Moved,
    /// It was moved before, under this id.
    Replayed,
    /// This id has moved another amount.
    IdReused,
    /// A deposit that would fill the wallet above [`MAX_BALANCE`]; its id stays free.
    TooFull,
    /// A deposit above the limit of one; its id stays free.
    AboveLimit(Amount),
}

/// Why a wallet did not pay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unpaid {
    /// It holds too little.
    InsufficientBalance,
    /// Its owner is suspended.
    Suspended,
}

impl<T: Table> Ledger<T> {
    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, LedgerError> {
        Ok(self.account(user).await?.0)
    }

    /// A user's wallet, and their suspension if they are suspended.
    pub async fn account(&self, user: &UserId) -> Result<(Wallet, Option<Suspension>), LedgerError> {
        let item = self.table.get(keys::wallet(user)).await?;
        let item = item.map(items::read::<WalletItem>).transpose()?.unwrap_or_default();
        let wallet = Wallet {
            balance: item.balance,
            pending: item.pending,
            sent_count: item.sent_count,
            sent_amount: item.sent_amount,
            claim_count: item.claim_count,
            claim_amount: item.claim_amount,
        };
        Ok((wallet, item.suspension()))
    }

    /// Suspends a user: from then on none of their sends and withdrawals commits, and no claim either if the suspension says so, except
    /// of packets that Redis acknowledges. It replaces an earlier suspension. The same once more, or with a key that one of the user's last
    /// suspensions has, leaves all as it is. In the second case it returns that one.
    pub async fn suspend(
        &self,
        user: &UserId,
        suspension: &Suspension,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Suspension>, LedgerError> {
        let Suspension { intervention: Intervention { reason, at, by }, grabs } = suspension;
        let mandate = Mandate { by: by.as_ref(), reason: Some(reason), key };
        let decide = |wallet: &WalletItem| {
            let before = wallet.suspension();
            let is_same = |found: &Suspension| (&found.intervention.reason, found.grabs) == (reason, *grabs);
            let is_new = !before.as_ref().is_some_and(is_same);
            let mut set = Item::default();
            let intervention = items::write(&suspension.intervention)?.into_inner();
            set.insert(items::SUSPENDED.to_owned(), AttributeValue::M(intervention));
            let remove: &[_] = if *grabs {
                set.insert(items::MAY_NOT_GRAB.to_owned(), AttributeValue::Bool(true));
                &[]
            } else {
                &[items::MAY_NOT_GRAB]
            };
            let deed = Deed {
                user_id: Some(user.clone()),
                before: before.as_ref().map(shown_suspension),
                after: Some(shown_suspension(suspension)),
                ..Deed::new(DeedKind::Suspend, mandate, *at)
            };
            Ok(Change { deed, set, remove, is_new, is_decided: true })
        };
        let done = self.decide_on(DeedKind::Suspend, user, key, decide).await?;
        // One that found the same suspension was answered with that one.
        if done.as_ref().is_some_and(|done| done.before == done.after)
            && let Some(standing) = self.account(user).await?.1
        {
            return Ok(Some(standing));
        }
        Ok(done.and_then(|Deed { reason, at, by, after, .. }| {
            let grabs = after.and_then(|after| after["grabs"].as_bool()).unwrap_or_default();
            Some(Suspension { intervention: Intervention { reason: reason?, at, by }, grabs })
        }))
    }

    /// Lifts a user's suspension, if they are suspended.
    pub async fn lift_suspension(&self, user: &UserId, mandate: Mandate<'_>, at: Timestamp) -> Result<(), LedgerError> {
        self.decide_on(DeedKind::Lift, user, mandate.key, |wallet| {
            let before = wallet.suspension();
            let is_decided = wallet.own_limits().is_some();
            let remove: &[_] = if is_decided { &[items::SUSPENDED, items::MAY_NOT_GRAB] } else { &OF_SUSPENSION };
            let deed = Deed {
                user_id: Some(user.clone()),
                before: before.as_ref().map(shown_suspension),
                ..Deed::new(DeedKind::Lift, mandate, at)
            };
            Ok(Change { deed, set: Item::default(), remove, is_new: before.is_some(), is_decided })
        })
        .await
        .map(drop)
    }

    /// What the operator lets a user do, if they said.
    pub async fn limits(&self, user: &UserId) -> Result<Option<UserLimits>, LedgerError> {
        let item = self.table.get(keys::wallet(user)).await?;
        Ok(item.map(items::read::<WalletItem>).transpose()?.and_then(|item| item.limits))
    }

    /// Sets what a user may do, and returns that. It replaces what was set before. The same once more, or with a key that one of the user's
    /// last deeds has, leaves all as it is.
    pub async fn set_limits(
        &self,
        user: &UserId,
        limits: &UserLimits,
        mandate: Mandate<'_>,
    ) -> Result<(), LedgerError> {
        self.decide_on(DeedKind::Limit, user, mandate.key, |wallet| {
            let values = |limits: &UserLimits| (limits.daily_sent_max, limits.deposit_max);
            let is_new = wallet.limits.as_ref().map(values) != Some(values(limits));
            let is_limited = limits.daily_sent_max.is_some() || limits.deposit_max.is_some();
            let is_decided = is_limited || wallet.suspended.is_some();
            let mut set = Item::default();
            set.insert(items::LIMITS.to_owned(), AttributeValue::M(items::write(limits)?.into_inner()));
            let deed = Deed {
                user_id: Some(user.clone()),
                before: wallet.limits.as_ref().map(shown_limits),
                after: Some(shown_limits(limits)),
                ..Deed::new(DeedKind::Limit, mandate, limits.at)
            };
            let remove: &[_] = if is_decided { &[] } else { &[keys::DUE_SHARD, keys::DUE_AT] };
            Ok(Change { deed, set, remove, is_new, is_decided })
        })
        .await
        .map(drop)
    }

    /// Why a wallet did not pay `amount`. `reason` is what the table says of its write.
    pub(super) async fn why_unpaid(
        &self,
        user: &UserId,
        amount: Amount,
        reason: Option<Reason>,
    ) -> Result<Unpaid, LedgerError> {
        let wallet = self.wallet_that_refused(user, reason).await?;
        if wallet.suspended.is_some() {
            Ok(Unpaid::Suspended)
        } else if wallet.balance < amount {
            Ok(Unpaid::InsufficientBalance)
        } else {
            Err(changed_meanwhile())
        }
    }

    /// The wallet that refused a write: as the table shows it with `reason`, or as it is now.
    pub(super) async fn wallet_that_refused(
        &self,
        user: &UserId,
        reason: Option<Reason>,
    ) -> Result<WalletItem, LedgerError> {
        let item = match reason {
            Some(Reason::ConditionFailed(Some(item))) => Some(item),
            _ => self.table.get(keys::wallet(user)).await?,
        };
        Ok(item.map(items::read::<WalletItem>).transpose()?.unwrap_or_default())
    }

    /// Puts money from outside into a wallet, once for each id. A repeat keeps the first `by` and `at`. With a reason it is a deed.
    pub async fn deposit<'a>(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        mandate: impl Into<Mandate<'a>>,
        at: Timestamp,
    ) -> Result<DepositOutcome, LedgerError> {
        let mandate = mandate.into();
        let most = MAX_BALANCE.minor_units().saturating_sub(amount.minor_units());
        let wallet = Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", items::signed(amount)?)],
            bounds: vec![Bound::AtMost("balance", most)],
            absent: None,
        };
        let key = keys::deposit(user, id);
        let item = items::write(&OutsideItem { id: id.to_string(), amount, at, by: mandate.by.cloned() })?;
        let copy = Write::PutNew { key: keys::in_timeline(&key, at), item: item.clone() };
        let found = Write::PutNew { key: keys::request(&key, user, id), item: Item::default() };
        let writes = [Write::PutNew { key: key.clone(), item }, copy, wallet, found];
        match self.commit_with_reason(DeedKind::Deposit, user, id, amount, mandate, at, &writes).await? {
            Committed::Yes => Ok(DepositOutcome::Moved),
            Committed::No(reasons) => match reasons.into_iter().next() {
                Some(Reason::ConditionFailed(Some(found))) => {
                    found_before(Some(found), amount, DepositOutcome::IdReused)
                }
                _ => found_before(self.table.get(key).await?, amount, DepositOutcome::TooFull),
            },
        }
    }

    /// Commits the writes of a movement of `amount`. If there is a reason, it is a deed.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of the deed")]
    pub(super) async fn commit_with_reason(
        &self,
        kind: DeedKind,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        mandate: Mandate<'_>,
        at: Timestamp,
        writes: &[Write],
    ) -> Result<Committed, LedgerError> {
        if mandate.reason.is_none() {
            return self.commit(writes).await;
        }
        let deed = Deed {
            user_id: Some(user.clone()),
            id: Some(id.clone()),
            after: Some(json!({"amount": amount.minor_units()})),
            ..Deed::new(kind, mandate, at)
        };
        self.commit_deed(&deed, writes).await
    }

    /// How a deposit ends that is above `limit`: one that was made before the limit was lowered stays made.
    pub async fn deposit_above_limit(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        limit: Amount,
    ) -> Result<DepositOutcome, LedgerError> {
        found_before(self.table.get(keys::deposit(user, id)).await?, amount, DepositOutcome::AboveLimit(limit))
    }
}

/// What an existing movement under the same id makes of a request for `amount`; `otherwise` if there is none.
fn found_before(found: Option<Item>, amount: Amount, otherwise: DepositOutcome) -> Result<DepositOutcome, LedgerError> {
    Ok(match found.map(items::read::<OutsideItem>).transpose()? {
        Some(found) if found.amount == amount => DepositOutcome::Replayed,
        Some(_) => DepositOutcome::IdReused,
        None => otherwise,
    })
}

/// The table did not show the wallet that refused, and by now the wallet has changed.
pub(super) fn changed_meanwhile() -> LedgerError {
    TableError::Unavailable("the wallet has changed meanwhile".into()).into()
}
