use std::collections::HashSet;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::commit::{BACKOFF_FIRST, Committed, busy};
use super::items::{self, ClaimItem, DecisionItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{AckMode, Amount, Claim, Decision, PacketId, Signer, Terms, TraceId, UserId, WinLimit, Won};
use crate::ports::{Bound, Reason, Table, TableError, TransactError, Write};
use crate::timeouts;

/// The most claims in one transaction, of three or four writes each. `DynamoDB` takes 100 writes. But more claims take longer together,
/// and a failed condition of one claim refuses all of them.
pub const CLAIMS_MAX: usize = 10;
/// How often several claims are tried together. After a lost answer the second try has the same token, so its answer tells how
/// the first one ended.
const TRIES_TOGETHER: u32 = 2;
/// Of several claims whose transaction is not answered, those that go ahead by themselves. The fault may be one claim's; then the
/// other one of two shows that the ledger answers, and the rest do not suffer from it.
const CLAIMS_AHEAD: usize = 2;

/// How one transaction of several claims ended.
#[derive(Debug)]
enum Together {
    /// All of them are committed.
    Committed,
    /// Something is in the way of one of them, or of their sharing a transaction: each has to go by itself.
    Apart,
    /// The ledger did not answer. The transaction may have committed, or may still commit.
    Failed(TableError),
}

/// How a claim ended.
#[derive(Clone, Debug)]
pub enum ClaimOutcome {
    /// It is committed: the amount is in the user's wallet.
    Committed,
    /// The user has this claim of the packet already, and keeps it.
    Already(Claim),
    /// The same, and the slip that was asked for belongs to another user, or was refunded.
    AlreadyAndTaken(Claim, Decision),
    /// The slip belongs to another user, or was refunded.
    Taken(Decision),
    /// The user may not have it: the slip is nobody's.
    Refused(ClaimRefusal),
}

/// Why a user may not have a slip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClaimRefusal {
    /// The operator has suspended them, also for grabs.
    Suspended,
    /// With it they would have won more than the packet's limit allows.
    LimitReached,
}

impl<T: Table> Ledger<T> {
    /// Gives `claim` to `user` in one transaction: the slip's decision, the user's claim, the amount in their wallet, and
    /// what they have won if the packet has a limit. It writes nothing else. Winners of one packet share no item, so they don't conflict
    /// with each other, and several can go together.
    ///
    /// Called twice with the same arguments it gives the same answer and moves no more money. If an operator's repair is what commits it,
    /// the claim's item names `by`.
    pub async fn claim(
        &self,
        terms: &Terms,
        user: &UserId,
        claim: &Claim,
        by: Option<&Signer>,
    ) -> Result<ClaimOutcome, LedgerError> {
        self.claim_until(Instant::now() + timeouts::TRANSACTION, terms, user, claim, by, None).await
    }

    async fn claim_until(
        &self,
        give_up: Instant,
        terms: &Terms,
        user: &UserId,
        claim: &Claim,
        by: Option<&Signer>,
        trace: Option<TraceId>,
    ) -> Result<ClaimOutcome, LedgerError> {
        match self.commit_until(give_up, &writes(terms, user, claim, by, trace)?).await? {
            Committed::Yes => Ok(ClaimOutcome::Committed),
            Committed::No(reasons) => self.what_stands(terms.id, user, claim.slip, reasons).await,
        }
    }

    /// Gives up to [`CLAIMS_MAX`] claims of a packet until `give_up`, together if that is possible, else each as [`Self::claim`]
    /// does: no claim depends on another. Calls `answer` once for each, with its place among `claims`, as soon as its outcome is known.
    /// `trace` gives the trace of each, by that place.
    ///
    /// Once `stuck` ends, nobody waits for the shared transaction any more, though it may still commit. Each goes by itself: one of their
    /// items is slow.
    ///
    /// If the ledger does not answer the shared transaction, `CLAIMS_AHEAD` claims go ahead, each by itself. Once it answers one
    /// of them, the others follow. If it answers none, the others fail unasked: ten transactions instead of one would only add to
    /// its load.
    pub async fn claim_each(
        &self,
        give_up: Instant,
        terms: &Terms,
        claims: &[(UserId, Claim)],
        trace: impl Fn(usize) -> Option<TraceId> + Send + Sync,
        stuck: impl Future<Output = ()> + Send,
        mut answer: impl FnMut(usize, Result<ClaimOutcome, LedgerError>) + Send,
    ) {
        if let [(user, claim)] = claims {
            answer(0, self.claim_until(give_up, terms, user, claim, None, trace(0)).await);
            return;
        }
        let together = tokio::select! {
            biased;
            together = self.claim_together(give_up, terms, claims, &trace) => together,
            () = stuck => Together::Apart,
        };
        let (ahead, failed) = match together {
            Together::Committed => {
                for place in 0..claims.len() {
                    answer(place, Ok(ClaimOutcome::Committed));
                }
                return;
            }
            Together::Apart => (claims.len(), String::new()),
            Together::Failed(error) => {
                // A process that has no permit for one transaction has none for two.
                let is_over = matches!(error, TableError::Overloaded(_)) || Instant::now() >= give_up;
                let ahead = if is_over { 0 } else { CLAIMS_AHEAD };
                (ahead, error.chain())
            }
        };
        let trace = &trace;
        let by_itself = |place: usize| async move {
            let (user, claim) = &claims[place];
            (place, self.claim_until(give_up, terms, user, claim, None, trace(place)).await)
        };
        let mut places = 0..claims.len();
        let mut each: FuturesUnordered<_> = places.by_ref().take(ahead).map(by_itself).collect();
        while let Some((place, outcome)) = each.next().await {
            if !matches!(outcome, Err(LedgerError::Unavailable(_))) {
                each.extend(places.by_ref().map(by_itself));
            }
            answer(place, outcome);
        }
        for place in places {
            answer(place, Err(TableError::Unavailable(failed.clone().into()).into()));
        }
    }

    /// Gives several claims, each of another slip and for another user, in one transaction. It costs a fraction of what single
    /// ones would.
    async fn claim_together(
        &self,
        give_up: Instant,
        terms: &Terms,
        claims: &[(UserId, Claim)],
        trace: &(impl Fn(usize) -> Option<TraceId> + Sync),
    ) -> Together {
        let users: HashSet<&UserId> = claims.iter().map(|(user, _)| user).collect();
        let slips: HashSet<u32> = claims.iter().map(|(_, claim)| claim.slip).collect();
        let writes =
            claims.iter().enumerate().map(|(place, (user, claim))| writes(terms, user, claim, None, trace(place)));
        let writes: Result<Vec<_>, _> = writes.collect();
        let Ok(writes) = writes.map(|writes| writes.concat()) else { return Together::Apart };
        // No transaction names an item twice.
        if users.len() < claims.len() || slips.len() < claims.len() {
            return Together::Apart;
        }
        let token = hex::encode(self.entropy.bytes16());
        let mut tries_left = TRIES_TOGETHER;
        loop {
            crash_point!("ledger.before_transaction");
            let Ok(answer) = timeout_at(give_up, self.table.transact(&writes, &token)).await else {
                return Together::Failed(TableError::Pending("no answer in time".into()));
            };
            crash_point!("ledger.after_transaction");
            tries_left -= 1;
            let error = match answer {
                Ok(()) => return Together::Committed,
                Err(TransactError::Cancelled(reasons)) if are_throttled(&reasons) => busy(&reasons),
                Err(TransactError::Failed(error @ TableError::Overloaded(_))) => return Together::Failed(error),
                Err(TransactError::Failed(error @ (TableError::Unavailable(_) | TableError::Pending(_)))) => error,
                Err(_) => return Together::Apart,
            };
            if tries_left == 0 {
                return Together::Failed(error);
            }
            tokio::time::sleep(self.entropy.jitter(BACKOFF_FIRST)).await;
        }
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
        // In the order of `writes`. Without a limit there is no fourth.
        let mut reasons = reasons.into_iter();
        let (decision, claim, wallet, won) = (reasons.next(), reasons.next(), reasons.next(), reasons.next());
        let decision = match decision {
            Some(Reason::ConditionFailed(Some(item))) => Some(items::read_decision(item)?),
            Some(Reason::ConditionFailed(None)) => self.decision(id, slip).await?,
            _ => None,
        };
        let is_own = decision.as_ref().is_some_and(|decision| decision.owner.user() == Some(user));
        let claim = match claim {
            Some(Reason::ConditionFailed(Some(item))) => Some(items::read::<ClaimItem>(item)?.claim()),
            Some(Reason::ConditionFailed(None)) => self.claim_of(user, id).await?,
            _ if is_own => self.claim_of(user, id).await?,
            _ => None,
        };
        match (claim, decision) {
            (Some(claim), Some(decision)) if !is_own => Ok(ClaimOutcome::AlreadyAndTaken(claim, decision)),
            (Some(claim), _) => Ok(ClaimOutcome::Already(claim)),
            (None, Some(decision)) if !is_own => Ok(ClaimOutcome::Taken(decision)),
            (None, None) if let Some(why) = refusal(wallet.as_ref(), won.as_ref()) => {
                // Other reasons may have hidden the claim that this user has.
                let claim = self.claim_of(user, id).await?;
                Ok(claim.map_or(ClaimOutcome::Refused(why), ClaimOutcome::Already))
            }
            (None, _) => Err(LedgerError::Impossible(format!("slip {slip} of {id}: a decision without its claim"))),
        }
    }

    /// What a user has won of all packets of `sender` that have this limit's key.
    pub async fn won(&self, user: &UserId, sender: &UserId, limit: &WinLimit) -> Result<Won, LedgerError> {
        let item = self.table.get(keys::won(user, sender, &limit.key)).await?;
        Ok(item.map(items::read).transpose()?.unwrap_or_default())
    }

    /// The user's claim of a packet, if there is one.
    pub async fn claim_of(&self, user: &UserId, id: PacketId) -> Result<Option<Claim>, LedgerError> {
        let item = self.table.get(keys::claim(user, id)).await?;
        Ok(item.map(items::read::<ClaimItem>).transpose()?.map(|item| item.claim()))
    }

    /// The same, with who repaired it, if a repair committed it.
    pub async fn signed_claim_of(
        &self,
        user: &UserId,
        id: PacketId,
    ) -> Result<Option<(Claim, Option<Signer>)>, LedgerError> {
        let item = self.table.get(keys::claim(user, id)).await?;
        Ok(item.map(items::read::<ClaimItem>).transpose()?.map(|item| (item.claim(), item.by)))
    }

    /// The decision of a slip, if it has one.
    pub async fn decision(&self, id: PacketId, slip: u32) -> Result<Option<Decision>, LedgerError> {
        self.table.get(keys::decision(id, slip)).await?.map(items::read_decision).transpose()
    }
}

/// Why the user's wallet, or what they have won, refused a claim, if one did.
const fn refusal(wallet: Option<&Reason>, won: Option<&Reason>) -> Option<ClaimRefusal> {
    match (wallet, won) {
        (Some(Reason::ConditionFailed(_)), _) => Some(ClaimRefusal::Suspended),
        (_, Some(Reason::ConditionFailed(_))) => Some(ClaimRefusal::LimitReached),
        _ => None,
    }
}

/// Whether nothing is in the way of a cancelled transaction except throttling.
fn are_throttled(reasons: &[Reason]) -> bool {
    reasons.iter().all(|reason| match reason {
        Reason::None => true,
        Reason::Busy(code) => code != "TransactionConflict",
        Reason::ConditionFailed(_) => false,
    })
}

/// The writes that give a claim to a user: the slip's decision, the claim, the wallet, and what they have won if there is a limit.
fn writes(
    terms: &Terms,
    user: &UserId,
    claim: &Claim,
    by: Option<&Signer>,
    trace: Option<TraceId>,
) -> Result<Vec<Write>, LedgerError> {
    let decision = claim.decision(user);
    let item = ClaimItem {
        packet_id: terms.id,
        slip: claim.slip,
        amount: claim.amount,
        at: claim.at,
        sender_id: terms.sender.clone(),
        greeting: terms.greeting.clone(),
        reference: terms.labels.reference.clone(),
        limit_key: terms.limit.as_ref().map(|limit| limit.key.clone()),
        trace,
        by: by.cloned(),
    };
    let amount = items::signed(claim.amount)?;
    let mut writes = vec![
        Write::PutNew {
            key: keys::decision(terms.id, claim.slip),
            item: items::write(&DecisionItem::from(&decision))?,
        },
        Write::PutNew { key: keys::claim(user, terms.id), item: items::write(&item)? },
        Write::Add {
            key: keys::wallet(user),
            deltas: vec![("balance", amount), ("claim_count", 1), ("claim_amount", amount)],
            bounds: vec![],
            // With `redis` the winner has been answered, so a suspension comes too late.
            absent: (terms.ack == AckMode::Ledger).then_some(items::MAY_NOT_GRAB),
        },
    ];
    if let Some(limit) = &terms.limit {
        let wins = limit.wins.map(|wins| (items::WINS, wins.checked_sub(1).map(u64::from)));
        let left = |most: Amount| most.checked_sub(claim.amount).map(Amount::minor_units);
        let amounts = limit.amount.map(|most| (items::WON_AMOUNT, left(most)));
        // A bound that never holds: the slip alone is more than the limit allows.
        let impossible = || Bound::AtLeast(items::WINS, u64::MAX);
        let bound = |(name, most): (_, Option<u64>)| most.map_or_else(impossible, |most| Bound::AtMost(name, most));
        writes.push(Write::Add {
            key: keys::won(user, &terms.sender, &limit.key),
            deltas: vec![(items::WINS, 1), (items::WON_AMOUNT, amount)],
            bounds: [wins, amounts].into_iter().flatten().map(bound).collect(),
            absent: None,
        });
    }
    Ok(writes)
}

impl ClaimOutcome {
    /// Whether exactly the claim that was asked for is in the ledger now. An earlier attempt whose answer was lost may have
    /// written it.
    pub fn is_in_ledger(&self, asked: &Claim) -> bool {
        match self {
            Self::Committed => true,
            Self::Already(claim) | Self::AlreadyAndTaken(claim, _) => claim == asked,
            Self::Taken(_) | Self::Refused(_) => false,
        }
    }

    /// The decisions that this outcome has shown. `claim` is the claim that was asked for, and `user` its user.
    pub fn decisions(&self, user: &UserId, claim: &Claim) -> Vec<Decision> {
        match self {
            Self::Committed => vec![claim.decision(user)],
            Self::Already(claim) => vec![claim.decision(user)],
            Self::AlreadyAndTaken(claim, decision) => vec![decision.clone(), claim.decision(user)],
            Self::Taken(decision) => vec![decision.clone()],
            Self::Refused(_) => Vec::new(),
        }
    }
}
