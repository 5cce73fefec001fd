use crate::domain::{Claim, Decision, Hold, PartId, Signer};
use crate::ledger::{ClaimOutcome, ClaimRefusal, LedgerError};
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// The operator's use case replay: tries again to persist holds that settle has parked.
///
/// It does the same step as settle, so it is safe to run twice, and beside settle.
pub struct Replay<T, H> {
    stores: Stores<T, H>,
    by: Option<Signer>,
}

/// What became of a parked hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replayed {
    /// The ledger has the claim now.
    Committed(Claim),
    /// The user had this claim of the packet before, and keeps it. If it is of another slip, the hold is void.
    HadClaim(Claim),
    /// The slip is another's, or was refunded: the hold is void.
    Taken(Decision),
    /// The user may not have the slip: the hold is void.
    Refused(ClaimRefusal),
    /// It can't be persisted, and stays parked for this reason.
    StillParked(String),
}

impl<T: Table, H: HotStore> Replay<T, H> {
    /// Replays parked holds in these stores, in the name of `by`.
    pub const fn new(stores: Stores<T, H>, by: Option<Signer>) -> Self {
        Self { stores, by }
    }

    /// Tries to persist one hold.
    pub async fn replay(&self, part: PartId, hold: &Hold) -> Result<Replayed, Failure> {
        let Some(terms) = self.stores.packets.terms(part.packet).await? else {
            return self.still_parked(part, hold, "no such packet").await;
        };
        let Some(amount) = self.stores.packets.amount(part, &terms, hold.slip).await? else {
            return self.still_parked(part, hold, "no such slip").await;
        };
        let claim = Claim { slip: hold.slip, amount, at: hold.at };
        let outcome = match self.stores.ledger.claim(&terms, &hold.user, &claim, self.by.as_ref()).await {
            Ok(outcome) => outcome,
            Err(error @ LedgerError::Impossible(_)) => {
                return self.still_parked(part, hold, &error.to_string()).await;
            }
            Err(error) => return Err(error.into()),
        };
        if let ClaimOutcome::Refused(why) = outcome {
            self.stores.hot.release(part, terms.count, hold).await?;
            return Ok(Replayed::Refused(why));
        }
        let decisions = outcome.decisions(&hold.user, &claim);
        self.stores.hot.reconcile(part, terms.count, &decisions, std::slice::from_ref(hold)).await?;
        Ok(match outcome {
            ClaimOutcome::Committed => Replayed::Committed(claim),
            ClaimOutcome::Already(claim) | ClaimOutcome::AlreadyAndTaken(claim, _) => Replayed::HadClaim(claim),
            ClaimOutcome::Taken(decision) => Replayed::Taken(decision),
            ClaimOutcome::Refused(why) => Replayed::Refused(why),
        })
    }

    async fn still_parked(&self, part: PartId, hold: &Hold, reason: &str) -> Result<Replayed, Failure> {
        self.stores.hot.park(part, hold, reason).await?;
        Ok(Replayed::StillParked(reason.to_owned()))
    }
}
