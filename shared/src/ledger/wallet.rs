use super::commit::Committed;
use super::items::{self, OutsideItem, WalletItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Amount, MAX_BALANCE, RequestKey, Signer, Timestamp, UserId, Wallet};
use crate::ports::{Bound, Item, Key, Reason, Table, Write};

/// How a deposit or a withdrawal ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MovementOutcome {
    /// The money is moved.
    Moved,
    /// It was moved before, under this id.
    Replayed,
    /// This id has moved another amount.
    IdReused,
    /// A withdrawal of more than there is; its id stays free.
    InsufficientBalance,
    /// A deposit that would fill the wallet above [`MAX_BALANCE`]; its id stays free.
    TooFull,
    /// A deposit above the deployment's limit; its id stays free.
    AboveLimit,
}

impl<T: Table> Ledger<T> {
    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, LedgerError> {
        let item = self.table.get(keys::wallet(user)).await?;
        let wallet = item.map(items::read::<WalletItem>).transpose()?.unwrap_or_default();
        Ok(Wallet {
            balance: wallet.balance,
            sent_count: wallet.sent_count,
            sent_amount: wallet.sent_amount,
            claim_count: wallet.claim_count,
            claim_amount: wallet.claim_amount,
        })
    }

    /// Puts money from outside into a wallet, once for each id. A repeat keeps the first `by` and `at`.
    pub async fn deposit(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        by: Option<&Signer>,
        at: Timestamp,
    ) -> Result<MovementOutcome, LedgerError> {
        let most = MAX_BALANCE.minor_units().saturating_sub(amount.minor_units());
        let wallet = Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", items::signed(amount)?)],
            bound: Some(Bound::AtMost("balance", most)),
        };
        let item = OutsideItem { id: id.to_string(), amount, at, by: by.cloned() };
        self.move_once(keys::deposit(user, id), &item, wallet, MovementOutcome::TooFull).await
    }

    /// Takes money out of a wallet, once for each id.
    pub async fn withdraw(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
        by: Option<&Signer>,
        at: Timestamp,
    ) -> Result<MovementOutcome, LedgerError> {
        let wallet = Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", -items::signed(amount)?)],
            bound: Some(Bound::AtLeast("balance", amount.minor_units())),
        };
        let item = OutsideItem { id: id.to_string(), amount, at, by: by.cloned() };
        self.move_once(keys::withdrawal(user, id), &item, wallet, MovementOutcome::InsufficientBalance).await
    }

    /// Writes a movement and its copy in the timeline once. An existing movement under the same id decides before the balance does.
    async fn move_once(
        &self,
        key: Key,
        movement: &OutsideItem,
        wallet: Write,
        out_of_bounds: MovementOutcome,
    ) -> Result<MovementOutcome, LedgerError> {
        let item = items::write(movement)?;
        let copy = Write::PutNew { key: keys::in_timeline(&key, movement.at), item: item.clone() };
        let writes = [Write::PutNew { key: key.clone(), item }, copy, wallet];
        let reasons = match self.commit(&writes).await? {
            Committed::Yes => return Ok(MovementOutcome::Moved),
            Committed::No(reasons) => reasons,
        };
        let found: Option<Item> = match reasons.into_iter().next() {
            Some(Reason::ConditionFailed(Some(item))) => Some(item),
            _ => self.table.get(key).await?,
        };
        found_before(found, movement.amount, out_of_bounds)
    }

    /// How a deposit ends that the deployment's limit forbids: one that was made before the limit was lowered stays made.
    pub async fn deposit_above_limit(
        &self,
        user: &UserId,
        id: &RequestKey,
        amount: Amount,
    ) -> Result<MovementOutcome, LedgerError> {
        found_before(self.table.get(keys::deposit(user, id)).await?, amount, MovementOutcome::AboveLimit)
    }
}

/// What an existing movement under the same id makes of a request for `amount`; `otherwise` if there is none.
fn found_before(
    found: Option<Item>,
    amount: Amount,
    otherwise: MovementOutcome,
) -> Result<MovementOutcome, LedgerError> {
    Ok(match found.map(items::read::<OutsideItem>).transpose()? {
        Some(found) if found.amount == amount => MovementOutcome::Replayed,
        Some(_) => MovementOutcome::IdReused,
        None => otherwise,
    })
}
