use std::collections::HashSet;

use futures::future::join_all;
use tokio::time::Instant;

use super::commit::Committed;
use super::items::{self, ClaimItem, DecisionItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Claim, Decision, Owner, PacketId, Terms, UserId};
use crate::ports::{Reason, Table, TableError, TransactError, Write};
use crate::timeouts;

/// The most claims in one transaction, of three writes each. `DynamoDB` takes 100 writes. But more claims take longer together,
/// and a failed condition of one claim refuses all of them.
pub const CLAIMS_MAX: usize = 10;
/// How often several claims are tried together. After a lost answer the second try has the same token, so its answer tells how
/// the first one ended.
const TRIES_TOGETHER: u32 = 2;

/// How a claim ended.
#[derive(Clone, Debug)]
pub enum ClaimOutcome {
    /// It is committed: the amount is in the user's wallet.
    Committed,
    /// The user has a claim of this packet already, and keeps that one.
    Already {
        /// The claim that they have.
        claim: Claim,
        /// The decision that refused the claim, where it names another owner.
        foreign: Option<Decision>,
    },
    /// The slip belongs to another user, or was refunded.
    Taken(Decision),
}

impl<T: Table> Ledger<T> {
    /// Gives `claim` to `user` in one transaction: the slip's decision, the user's claim, the amount in their wallet. It writes
    /// nothing else. Winners of one packet share no item, so they don't conflict with each other, and several can go together.
    ///
    /// Called twice with the same arguments it gives the same answer and moves no more money.
    pub async fn claim(&self, terms: &Terms, user: &UserId, claim: &Claim) -> Result<ClaimOutcome, LedgerError> {
        self.claim_until(Instant::now() + timeouts::TRANSACTION, terms, user, claim).await
    }

    /// The same, tried until `give_up`.
    pub async fn claim_until(
        &self,
        give_up: Instant,
        terms: &Terms,
        user: &UserId,
        claim: &Claim,
    ) -> Result<ClaimOutcome, LedgerError> {
        match self.commit_until(give_up, &writes(terms, user, claim)?).await? {
            Committed::Yes => Ok(ClaimOutcome::Committed),
            Committed::No(reasons) => self.what_stands(terms.id, user, claim.slip, reasons).await,
        }
    }

    /// Gives several claims of a packet, together if that is possible, else each as [`Self::claim`] does: no claim depends on
    /// another. Returns one outcome for each, in order.
    pub async fn claim_each(
        &self,
        terms: &Terms,
        claims: &[(UserId, Claim)],
    ) -> Vec<Result<ClaimOutcome, LedgerError>> {
        if claims.len() > 1 && self.claim_together(terms, claims).await {
            return claims.iter().map(|_| Ok(ClaimOutcome::Committed)).collect();
        }
        join_all(claims.iter().map(|(user, claim)| self.claim(terms, user, claim))).await
    }

    /// Gives up to [`CLAIMS_MAX`] claims of a packet, each of another slip and for another user, in one transaction. It costs a
    /// fraction of what single ones would. Returns whether this call committed it. False says nothing about any claim.
    pub async fn claim_together(&self, terms: &Terms, claims: &[(UserId, Claim)]) -> bool {
        let users: HashSet<&UserId> = claims.iter().map(|(user, _)| user).collect();
        let slips: HashSet<u32> = claims.iter().map(|(_, claim)| claim.slip).collect();
        let writes: Result<Vec<_>, _> = claims.iter().map(|(user, claim)| writes(terms, user, claim)).collect();
        let Ok(writes) = writes else { return false };
        // No transaction names an item twice.
        if users.len() < claims.len() || slips.len() < claims.len() {
            return false;
        }
        let token = hex::encode(self.entropy.bytes16());
        for _ in 0..TRIES_TOGETHER {
            crash_point!("ledger.before_transaction");
            let answer = self.table.transact(writes.as_flattened(), &token).await;
            crash_point!("ledger.after_transaction");
            match answer {
                Ok(()) => return true,
                Err(TransactError::Failed(TableError::Unavailable(_))) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Reads the outcome out of failed conditions. An existing claim gives the answer; an existing slip decision says who owns the
    /// slip. A failed condition that does not show its item proves nothing, so the item is read.
    async fn what_stands(
        &self,
        id: PacketId,
        user: &UserId,
        slip: u32,
        reasons: Vec<Reason>,
    ) -> Result<ClaimOutcome, LedgerError> {
        let mut reasons = reasons.into_iter();
        let decision = match reasons.next() {
            Some(Reason::ConditionFailed(Some(item))) => Some(items::read_decision(item)?),
            Some(Reason::ConditionFailed(None)) => self.decision(id, slip).await?,
            _ => None,
        };
        let own_decision = decision.as_ref().is_some_and(|decision| decision.owner.user() == Some(user));
        let claim = match reasons.next() {
            Some(Reason::ConditionFailed(Some(item))) => Some(items::read::<ClaimItem>(item)?.claim()),
            Some(Reason::ConditionFailed(None)) => self.claim_of(user, id).await?,
            _ if own_decision => self.claim_of(user, id).await?,
            _ => None,
        };
        match (claim, decision) {
            (Some(claim), decision) => Ok(ClaimOutcome::Already { claim, foreign: decision.filter(|_| !own_decision) }),
            (None, Some(decision)) if !own_decision => Ok(ClaimOutcome::Taken(decision)),
            (None, _) => Err(LedgerError::Impossible(format!("slip {slip} of {id}: a decision without its claim"))),
        }
    }

    /// The user's claim of a packet, if there is one.
    pub async fn claim_of(&self, user: &UserId, id: PacketId) -> Result<Option<Claim>, LedgerError> {
        let item = self.table.get(keys::claim(user, id)).await?;
        Ok(item.map(items::read::<ClaimItem>).transpose()?.map(|item| item.claim()))
    }

    /// The decision of a slip, if it has one.
    pub async fn decision(&self, id: PacketId, slip: u32) -> Result<Option<Decision>, LedgerError> {
        self.table.get(keys::decision(id, slip)).await?.map(items::read_decision).transpose()
    }
}

/// The writes that give a claim to a user.
fn writes(terms: &Terms, user: &UserId, claim: &Claim) -> Result<[Write; 3], LedgerError> {
    let decision = claim.decision(user);
    let item = ClaimItem {
        packet_id: terms.id,
        slip: claim.slip,
        amount: claim.amount,
        at: claim.at,
        sender_id: terms.sender.clone(),
        greeting: terms.greeting.clone(),
    };
    let amount = items::signed(claim.amount)?;
    Ok([
        Write::PutNew {
            key: keys::decision(terms.id, claim.slip),
            item: items::write(&DecisionItem::from(&decision))?,
        },
        Write::PutNew { key: keys::claim(user, terms.id), item: items::write(&item)? },
        Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", amount), ("claim_count", 1), ("claim_amount", amount)],
            bound: None,
        },
    ])
}

impl ClaimOutcome {
    /// Whether exactly the claim that was asked for is in the ledger now. An earlier attempt whose answer was lost may have
    /// written it.
    pub fn is_in_ledger(&self, asked: &Claim) -> bool {
        match self {
            Self::Committed => true,
            Self::Already { claim, .. } => claim == asked,
            Self::Taken(_) => false,
        }
    }

    /// The decisions that this outcome has shown. `claim` is the claim that was asked for, and `user` its user.
    pub fn decisions(&self, user: &UserId, claim: &Claim) -> Vec<Decision> {
        match self {
            Self::Committed => vec![claim.decision(user)],
            Self::Already { claim, foreign } => foreign.iter().cloned().chain([claim.decision(user)]).collect(),
            Self::Taken(decision) => vec![decision.clone()],
        }
    }
}

impl Decision {
    /// The claim of which this is the decision; `None` for a refund.
    pub fn claim(&self) -> Option<(&UserId, Claim)> {
        match &self.owner {
            Owner::User(user) => Some((user, Claim { slip: self.slip, amount: self.amount, at: self.at })),
            Owner::Refunded => None,
        }
    }
}
