use serde_dynamo::AttributeValue;

use super::commit::Committed;
use super::items::{self, OutsideItem, WalletItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Amount, MAX_BALANCE, RequestKey, Signer, Suspension, Timestamp, UserId, UserLimits, Wallet};
use crate::ports::{Bound, Expect, Item, Reason, Table, TableError, Write};

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
        let grabs = item.may_not_grab;
        Ok((wallet, item.suspended.map(|intervention| Suspension { intervention, grabs })))
    }

    /// Suspends a user: from then on none of their sends and withdrawals commits, and no claim either if the suspension says so, except
    /// of packets that Redis acknowledges. It replaces an earlier suspension.
    pub async fn suspend(&self, user: &UserId, suspension: &Suspension) -> Result<(), LedgerError> {
        let mut set = Item::default();
        let intervention = items::write(&suspension.intervention)?.into_inner();
        set.insert(items::SUSPENDED.to_owned(), AttributeValue::M(intervention));
        let remove: &[_] = if suspension.grabs {
            set.insert(items::MAY_NOT_GRAB.to_owned(), AttributeValue::Bool(true));
            &[]
        } else {
            &[items::MAY_NOT_GRAB]
        };
        let write = Write::Change { key: keys::wallet(user), expect: Expect::Nothing, set, remove };
        self.commit(&[write]).await.map(drop)
    }

    /// Lifts a user's suspension, if they are suspended.
    pub async fn lift_suspension(&self, user: &UserId) -> Result<(), LedgerError> {
        let (expect, set) = (Expect::Has(items::SUSPENDED), Item::default());
        let write =
            Write::Change { key: keys::wallet(user), expect, set, remove: &[items::SUSPENDED, items::MAY_NOT_GRAB] };
        self.commit(&[write]).await.map(drop)
    }

    /// What the operator lets a user do, if they said.
    pub async fn limits(&self, user: &UserId) -> Result<Option<UserLimits>, LedgerError> {
        let item = self.table.get(keys::wallet(user)).await?;
        Ok(item.map(items::read::<WalletItem>).transpose()?.and_then(|item| item.limits))
    }

    /// Sets what a user may do. It replaces what was set before.
    pub async fn set_limits(&self, user: &UserId, limits: &UserLimits) -> Result<(), LedgerError> {
        let mut set = Item::default();
        set.insert(items::LIMITS.to_owned(), AttributeValue::M(items::write(limits)?.into_inner()));
        let write = Write::Change { key: keys::wallet(user), expect: Expect::Nothing, set, remove: &[] };
        self.commit(&[write]).await.map(drop)
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

    /// Puts money from outside into a wallet, once for each id. A repeat keeps the first `by` and `at`.
    pub async fn deposit(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        by: Option<&Signer>,
        at: Timestamp,
    ) -> Result<DepositOutcome, LedgerError> {
        let most = MAX_BALANCE.minor_units().saturating_sub(amount.minor_units());
        let wallet = Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", items::signed(amount)?)],
            bounds: vec![Bound::AtMost("balance", most)],
            absent: None,
        };
        let key = keys::deposit(user, id);
        let item = items::write(&OutsideItem { id: id.to_string(), amount, at, by: by.cloned() })?;
        let copy = Write::PutNew { key: keys::in_timeline(&key, at), item: item.clone() };
        let writes = [Write::PutNew { key: key.clone(), item }, copy, wallet];
        match self.commit(&writes).await? {
            Committed::Yes => Ok(DepositOutcome::Moved),
            Committed::No(reasons) => match reasons.into_iter().next() {
                Some(Reason::ConditionFailed(Some(found))) => {
                    found_before(Some(found), amount, DepositOutcome::IdReused)
                }
                _ => found_before(self.table.get(key).await?, amount, DepositOutcome::TooFull),
            },
        }
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
