//! Withdrawals: money that leaves a wallet for the outside, at once or in two steps.
//!
//! A pending one has moved its amount from the wallet's balance to its reserved money. It ends once, by a request; no clock ends one.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde_dynamo::AttributeValue;

use super::commit::Committed;
use super::deeds::DeedCursor;
use super::history::{Slice, cut};
use super::items::{self, OutsideItem, PENDING, POSTED, VOIDED, WithdrawalItem};
use super::wallet::changed_meanwhile;
use super::{Ledger, LedgerError, keys};
use crate::domain::{
    Amount, DeedKind, Mandate, RequestKey, Signer, Timestamp, UserId, Withdrawal, WithdrawalEnd, WithdrawalRequest,
    WithdrawalState,
};
use crate::ports::{Bound, Expect, Item, Key, Query, Reason, Table, TableError, Write, current_trace};

/// A user's withdrawals that one query reads, and the most queries of a page. Where few have the state, a page may have few rows.
const WITHDRAWALS_READ: u32 = 200;
const WITHDRAWAL_PAGES: u32 = 5;

/// How a withdrawal was received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WithdrawalOutcome {
    /// The money is reserved, or has left.
    Made(Withdrawal),
    /// It was before, under this id.
    Replayed(Withdrawal),
    /// This id has another withdrawal.
    IdReused,
    /// It is more than there is; its id stays free.
    InsufficientBalance,
    /// The user is suspended; its id stays free.
    Suspended,
    /// It is below the least that a user can ask for; its id stays free.
    BelowLimit(Amount),
    /// The user has as many pending ones as they may have; its id stays free.
    TooManyPending,
}

/// How a request to end a withdrawal ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EndOutcome {
    /// It is ended.
    Ended(Withdrawal),
    /// It was ended before, in the same way.
    Replayed(Withdrawal),
    /// It is posted, and not as asked.
    Posted,
    /// It is voided.
    Voided,
    /// There is none.
    NotFound,
    /// It reserves only this much.
    AboveAmount(Amount),
}

/// A place in the list of pending withdrawals: that of the last one read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingCursor {
    at: Timestamp,
    user: UserId,
    id: RequestKey,
}

impl fmt::Display for PendingCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}#{}", self.at.ms(), self.user, self.id)
    }
}

impl FromStr for PendingCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let [at, user, id] = *text.split('#').collect::<Vec<_>>() else { return Err(()) };
        let at = Timestamp::from_ms(at.parse().map_err(drop)?);
        Ok(Self { at, user: user.parse().map_err(drop)?, id: id.parse().map_err(drop)? })
    }
}

impl<T: Table> Ledger<T> {
    /// Takes money out of a wallet, once for each id, unless its owner is suspended. `pending_max` bounds how many pending ones a user may
    /// have asked for.
    pub async fn withdraw<'a>(
        &self,
        user: &UserId,
        request: &WithdrawalRequest,
        pending_max: Option<u32>,
        mandate: impl Into<Mandate<'a>>,
        at: Timestamp,
    ) -> Result<WithdrawalOutcome, LedgerError> {
        let mandate = mandate.into();
        let item = WithdrawalItem::new(request, mandate.by, at);
        let key = keys::withdrawal(user, &request.id);
        let amount = items::signed(request.amount)?;
        let mut deltas = vec![("balance", -amount)];
        let mut bounds = vec![Bound::AtLeast("balance", request.amount.minor_units())];
        if request.pending {
            deltas.push(("pending", amount));
        }
        if let Some(most) = pending_max {
            deltas.push((items::ASKED, 1));
            let Some(others) = most.checked_sub(1) else { return Ok(WithdrawalOutcome::TooManyPending) };
            bounds.push(Bound::AtMost(items::ASKED, others.into()));
        }
        let copy = items::write(&item)?;
        let mut indexed = copy.clone();
        if request.pending {
            let number = |number: u64| AttributeValue::N(number.to_string());
            indexed.insert(keys::DUE_SHARD.to_owned(), number(keys::PENDING_SHARD.into()));
            indexed.insert(keys::DUE_AT.to_owned(), number(at.ms()));
        }
        let writes = [
            Write::PutNew { key: key.clone(), item: indexed },
            Write::PutNew { key: keys::in_timeline(&key, at), item: copy },
            Write::Add { key: keys::wallet(user), deltas, bounds, absent: Some(items::SUSPENDED) },
            Write::PutNew { key: keys::request(&key, user, &request.id), item: Item::default() },
        ];
        let done = self
            .commit_with_reason(DeedKind::Withdraw, user, &request.id, request.amount, mandate, at, &writes)
            .await?;
        let mut reasons = match done {
            Committed::Yes => return item.into_withdrawal(user.clone()).map(WithdrawalOutcome::Made),
            Committed::No(reasons) => reasons.into_iter(),
        };
        if let Some(Reason::ConditionFailed(Some(found))) = reasons.next() {
            return received_before(user, request, found);
        }
        let refused = self.why_not_paid(user, request.amount, pending_max, reasons.nth(1)).await;
        // The withdrawal is read last: if there is none now, there was none when the wallet was read.
        match self.withdrawn_before(user, request).await? {
            None => refused,
            Some(outcome) => Ok(outcome),
        }
    }

    /// How a request ends whose id has a withdrawal.
    pub async fn withdrawn_before(
        &self,
        user: &UserId,
        request: &WithdrawalRequest,
    ) -> Result<Option<WithdrawalOutcome>, LedgerError> {
        let found = self.table.get(keys::withdrawal(user, &request.id)).await?;
        found.map(|found| received_before(user, request, found)).transpose()
    }

    async fn why_not_paid(
        &self,
        user: &UserId,
        amount: Amount,
        pending_max: Option<u32>,
        reason: Option<Reason>,
    ) -> Result<WithdrawalOutcome, LedgerError> {
        let wallet = self.wallet_that_refused(user, reason).await?;
        if wallet.suspended.is_some() {
            Ok(WithdrawalOutcome::Suspended)
        } else if pending_max.is_some_and(|most| wallet.asked >= most.into()) {
            Ok(WithdrawalOutcome::TooManyPending)
        } else if wallet.balance < amount {
            Ok(WithdrawalOutcome::InsufficientBalance)
        } else {
            Err(changed_meanwhile())
        }
    }

    /// A withdrawal, if there is one.
    pub async fn withdrawal(&self, user: &UserId, id: &RequestKey) -> Result<Option<Withdrawal>, LedgerError> {
        let item = self.table.get(keys::withdrawal(user, id)).await?;
        let item = item.map(items::read::<WithdrawalItem>).transpose()?;
        item.map(|item| item.into_withdrawal(user.clone())).transpose()
    }

    /// Ends a pending withdrawal, once. What is not paid out goes back in the same transaction.
    pub async fn end_withdrawal<'a>(
        &self,
        user: &UserId,
        id: &RequestKey,
        end: WithdrawalEnd,
        mandate: impl Into<Mandate<'a>>,
        at: Timestamp,
    ) -> Result<EndOutcome, LedgerError> {
        let mandate = mandate.into();
        let Some(mut found) = self.withdrawal(user, id).await? else { return Ok(EndOutcome::NotFound) };
        let amount = found.request.amount;
        if let WithdrawalEnd::Post(Some(asked)) = end
            && asked > amount
        {
            return Ok(EndOutcome::AboveAmount(amount));
        }
        if let Some(outcome) = ended_before(&found, &end) {
            return Ok(outcome);
        }
        // The clock of another process may be ahead.
        let at = at.max(found.at);
        found.state = match &end {
            WithdrawalEnd::Post(paid) => WithdrawalState::Posted(paid.unwrap_or(amount)),
            WithdrawalEnd::Void(reason) => {
                found.void_reason.clone_from(reason);
                WithdrawalState::Voided
            }
        };
        found.ended = Some((at, mandate.by.cloned()));
        let (kind, paid) = match found.state {
            WithdrawalState::Posted(paid) => (DeedKind::Post, paid),
            _ => (DeedKind::Void, amount),
        };
        let writes = writes_of_end(&found, at, mandate.by)?;
        match self.commit_with_reason(kind, user, id, paid, mandate, at, &writes).await? {
            Committed::Yes => Ok(EndOutcome::Ended(found)),
            Committed::No(_) => match self.withdrawal(user, id).await? {
                None => Ok(EndOutcome::NotFound),
                Some(found) => ended_before(&found, &end)
                    .ok_or_else(|| TableError::Unavailable("the withdrawal has changed meanwhile".into()).into()),
            },
        }
    }

    /// Up to `limit` pending withdrawals after `after`, the oldest first, of those that were asked for before `before`. One that has just been made
    /// may be missing still.
    pub async fn pending_withdrawals(
        &self,
        before: Option<Timestamp>,
        after: Option<PendingCursor>,
        limit: u32,
    ) -> Result<Slice<Withdrawal, PendingCursor>, LedgerError> {
        let until_ms = match before.map(Timestamp::ms) {
            None => u64::MAX,
            Some(0) => return Ok(Slice { rows: Vec::new(), next: None }),
            Some(ms) => ms - 1,
        };
        let mut place = after.map(|after| (keys::withdrawal(&after.user, &after.id), after.at.ms()));
        let most = limit as usize + 1;
        let mut rows = Vec::new();
        loop {
            // At most 100 keys fit one batch of reads.
            let asked = u32::try_from((most - rows.len()).min(100)).unwrap_or(limit);
            let page = self.table.due(keys::PENDING_SHARD, until_ms, place.take(), asked).await?;
            let is_end = page.len() < asked as usize;
            let found: Vec<(Key, u64)> = page.into_iter().map(place_of).collect::<Result<_, _>>()?;
            place = found.last().cloned();
            let items = self.read_all(found.iter().map(|(key, _)| key.clone()).collect()).await?;
            let mut items: HashMap<Key, Item> =
                items.into_iter().filter_map(|item| Some((keys::of_item(&item)?, item))).collect();
            for (key, _) in found {
                let user = keys::user_of(&key.pk).ok_or_else(|| not_pending(&key))?;
                let item = items.remove(&key).ok_or_else(|| not_pending(&key))?;
                let withdrawal = items::read::<WithdrawalItem>(item)?.into_withdrawal(user)?;
                // The index may still show one that has ended.
                if withdrawal.state == WithdrawalState::Pending {
                    rows.push(withdrawal);
                }
            }
            if is_end || rows.len() >= most {
                break;
            }
        }
        let place = |row: &Withdrawal| PendingCursor { at: row.at, user: row.user.clone(), id: row.request.id.clone() };
        Ok(cut(rows, limit, place))
    }

    /// Up to `limit` of a user's withdrawals in a state (`pending`, `posted` or `voided`; `None`: in any), the newest first, after `after`, of
    /// those that were asked for before `before`.
    pub async fn withdrawals_of(
        &self,
        user: &UserId,
        state: Option<&str>,
        before: Option<Timestamp>,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Withdrawal, DeedCursor>, LedgerError> {
        let (pk, sk_prefix) = (keys::user(user), keys::WITHDRAWAL_AT);
        let after = after.map(|place| place.to_string());
        let mut after = after.or_else(|| before.map(keys::time)).map(|place| format!("{sk_prefix}{place}"));
        let mut rows = Vec::new();
        for page_number in 1.. {
            let query = Query {
                pk: pk.clone(),
                sk_prefix,
                after: after.take(),
                descending: true,
                limit: Some(WITHDRAWALS_READ),
            };
            let page = self.table.query(query).await?;
            let is_end = page.len() < WITHDRAWALS_READ as usize;
            for item in page {
                let sk = keys::of_item(&item).map(|key| key.sk).unwrap_or_default();
                let withdrawal = items::read::<WithdrawalItem>(item)?.into_withdrawal(user.clone())?;
                if state.is_none_or(|state| withdrawal.state.name() == state) {
                    rows.push((place_in_timeline(&sk), withdrawal));
                }
                after = Some(sk);
            }
            if is_end || rows.len() > limit as usize {
                break;
            }
            if page_number == WITHDRAWAL_PAGES {
                let rows = rows.into_iter().map(|(_, row)| row).collect();
                return Ok(Slice { rows, next: after.as_deref().map(place_in_timeline) });
            }
        }
        let Slice { rows, next } = cut(rows, limit, |(place, _)| place.clone());
        Ok(Slice { rows: rows.into_iter().map(|(_, row)| row).collect(), next })
    }

    /// When the oldest pending withdrawal was asked for, as far as the index knows.
    pub async fn oldest_pending(&self) -> Result<Option<Timestamp>, LedgerError> {
        let first = self.table.due(keys::PENDING_SHARD, u64::MAX, None, 1).await?.pop();
        Ok(first.map(place_of).transpose()?.map(|(_, at)| Timestamp::from_ms(at)))
    }
}

/// The writes that end a withdrawal; `found` is what it is afterwards.
fn writes_of_end(found: &Withdrawal, at: Timestamp, by: Option<&Signer>) -> Result<Vec<Write>, LedgerError> {
    let Withdrawal { user, request, state, void_reason, .. } = found;
    let (status, paid) = match *state {
        WithdrawalState::Posted(paid) => (POSTED, paid),
        _ => (VOIDED, Amount::ZERO),
    };
    let rest = request.amount.checked_sub(paid);
    let rest = rest.ok_or_else(|| LedgerError::Impossible("a withdrawal of more than it reserves".to_owned()))?;
    let mut set = Item::default();
    let number = |number: u64| AttributeValue::N(number.to_string());
    set.insert(items::STATUS.to_owned(), AttributeValue::S(status.to_owned()));
    set.insert("ended_at".to_owned(), number(at.ms()));
    if status == POSTED {
        set.insert("posted_amount".to_owned(), number(paid.minor_units()));
    }
    if let Some(by) = by {
        set.insert("ended_by".to_owned(), AttributeValue::S(by.to_string()));
    }
    if let Some(reason) = void_reason {
        set.insert("void_reason".to_owned(), AttributeValue::S(reason.as_str().to_owned()));
    }
    set.extend(current_trace().map(|trace| (items::END_TRACE.to_owned(), AttributeValue::S(trace.to_string()))));
    let mut deltas = vec![("pending", -items::signed(request.amount)?)];
    if rest > Amount::ZERO {
        deltas.push(("balance", items::signed(rest)?));
    }
    if request.requester == crate::domain::Requester::User {
        deltas.push((items::ASKED, -1));
    }
    let key = keys::withdrawal(user, &request.id);
    let expect = Expect::Is(items::STATUS, PENDING);
    let copy = keys::in_timeline(&key, found.at);
    let mut writes = vec![
        Write::Change { key, expect, set: set.clone(), remove: &[keys::DUE_SHARD, keys::DUE_AT] },
        Write::Change { key: copy, expect, set, remove: &[] },
        Write::Add {
            key: keys::wallet(user),
            deltas,
            bounds: vec![Bound::AtLeast("pending", request.amount.minor_units())],
            absent: None,
        },
    ];
    if rest > Amount::ZERO {
        let item = OutsideItem { id: request.id.to_string(), amount: rest, at, by: by.cloned() };
        let key = keys::in_timeline(&keys::returned(user, &request.id), at);
        writes.push(Write::PutNew { key, item: items::write(&item)? });
    }
    Ok(writes)
}

/// What an existing withdrawal under the same id makes of a request.
fn received_before(user: &UserId, request: &WithdrawalRequest, found: Item) -> Result<WithdrawalOutcome, LedgerError> {
    let found = items::read::<WithdrawalItem>(found)?.into_withdrawal(user.clone())?;
    Ok(if found.request == *request { WithdrawalOutcome::Replayed(found) } else { WithdrawalOutcome::IdReused })
}

/// What the state of a withdrawal makes of a request to end it; `None`: it is pending. A voided one keeps its first reason.
fn ended_before(found: &Withdrawal, end: &WithdrawalEnd) -> Option<EndOutcome> {
    match (found.state, end) {
        (WithdrawalState::Pending, _) => None,
        (WithdrawalState::Posted(paid), WithdrawalEnd::Post(asked))
            if asked.unwrap_or(found.request.amount) == paid =>
        {
            Some(EndOutcome::Replayed(found.clone()))
        }
        (WithdrawalState::Posted(_), _) => Some(EndOutcome::Posted),
        (WithdrawalState::Voided, WithdrawalEnd::Void(_)) => Some(EndOutcome::Replayed(found.clone())),
        (WithdrawalState::Voided, WithdrawalEnd::Post(_)) => Some(EndOutcome::Voided),
    }
}

/// What follows the kind in the sort key of a withdrawal in a timeline.
fn place_in_timeline(sk: &str) -> DeedCursor {
    DeedCursor::new(sk.strip_prefix(keys::WITHDRAWAL_AT).unwrap_or(sk))
}

/// The key of an entry of the index, and its time.
pub(super) fn place_of(entry: Item) -> Result<(Key, u64), LedgerError> {
    #[derive(serde::Deserialize)]
    struct Entry {
        due_at: Timestamp,
    }
    let key = keys::of_item(&entry);
    let key = key.ok_or_else(|| LedgerError::Impossible("an entry of the index without a key".to_owned()))?;
    Ok((key, items::read::<Entry>(entry)?.due_at.ms()))
}

fn not_pending(key: &Key) -> LedgerError {
    LedgerError::Impossible(format!("{} / {} among the pending withdrawals", key.pk, key.sk))
}
