//! Grabbing a slip: the only use case whose speed decides a rush.

mod commit;
mod exhausted;
mod final_packets;
mod help;
mod probe;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use self::commit::{Committer, TRANSACTIONS_MAX};
use self::exhausted::ExhaustedParts;
use self::final_packets::FinalPackets;
use self::help::{Ended, Helper};
use self::probe::{BULK_MIN, Prober};
use self::reconcile::Reconciler;
use crate::domain::{
    AckMode, Claim, Decision, Hold, MAX_PARTS, PacketId, PartId, PassphraseDigest, Refusal, Terms, Timestamp, UserId,
};
use crate::ledger::{ClaimOutcome, LedgerError};
use crate::ports::{GrabAnswer, Grabber, HotStore, ProbeResult, Table};
use crate::service::load::{Ensured, Loader};
use crate::service::{Failure, Stores};
use crate::telemetry::Meter;
use crate::timeouts;

/// How a grab ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrabOutcome {
    /// The user has a slip: a promise.
    Grabbed {
        /// Which slip, and its amount.
        claim: Claim,
        /// Whether an earlier request won it: false for the request that held the slip, also if another process committed the claim.
        replayed: bool,
    },
    /// Every slip is taken, and the user has none.
    SoldOut,
    /// The packet has expired, and the user has no slip.
    Expired,
    /// The operator has closed the packet, and the user has no slip.
    Closed,
    /// The packet's guard refused the user.
    Refused(Refusal),
    /// Grabs have not begun.
    NotStarted {
        /// When they begin.
        starts_at: Timestamp,
        /// After this time the user should ask again: at the start or up to the spread after it, so that not all ask at once.
        retry_after: Duration,
    },
    /// There is no such packet.
    NotFound,
}

/// The use case of grabbing a slip.
pub struct GrabSlip<T: Table, H: HotStore> {
    stores: Stores<T, H>,
    loader: Arc<Loader<T, H>>,
    prober: Prober<H>,
    committer: Arc<Committer<T>>,
    reconciler: Reconciler<H>,
    exhausted: Arc<ExhaustedParts<H>>,
    final_packets: FinalPackets,
    helper: Arc<Helper<T, H>>,
    currency: String,
    /// See [`GrabSlip::with_start_spread`].
    start_spread: Duration,
    /// Whether the process runs on after it has answered.
    runs_on: bool,
}

/// How one pass over a packet's parts ended.
enum Pass {
    Done(GrabOutcome),
    /// A part was loaded or repaired: probe again.
    Again,
    /// The hot store has no slip for the user, but the answers of these parts are in doubt.
    InDoubt {
        parts: PartSet,
        why: Lost,
    },
}

/// Why a user has no slip. If the parts of a packet differ, the last of these counts. As long as some are in doubt, certain
/// answers of others do not, except that the packet is closed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Lost {
    SoldOut,
    Expired,
    Closed,
}

/// Some of a packet's parts, as bits: there are at most 64.
type PartSet = u64;

const _: () = assert!(MAX_PARTS <= PartSet::BITS);

impl<T: Table, H: HotStore> GrabSlip<T, H> {
    /// Grabs from packets in these stores. All money is in `currency` (ISO 4217).
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        let exhausted = Arc::new(ExhaustedParts::new(Arc::clone(&stores.hot), Arc::clone(&stores.entropy)));
        let committer = Arc::new(Committer::new(Arc::clone(&stores.ledger), TRANSACTIONS_MAX));
        Self {
            loader: Arc::new(Loader::new(stores.clone())),
            prober: Prober::new(Arc::clone(&stores.hot), Arc::clone(&exhausted), BULK_MIN),
            reconciler: Reconciler::new(Arc::clone(&stores.hot), Arc::clone(&exhausted)),
            helper: Arc::new(Helper::new(stores.clone(), Arc::clone(&exhausted), Arc::clone(&committer))),
            committer,
            exhausted,
            final_packets: FinalPackets::new(),
            stores,
            currency,
            start_spread: Duration::ZERO,
            runs_on: false,
        }
    }

    /// The same, for a process that runs on between requests. It answers a winner once their claim is committed, and reconciles
    /// the hot store afterwards. In a process that freezes between requests, settle would have to do that, and the outbox would
    /// stay full until then. It reads the owners of all final parts, because it serves many users.
    #[must_use]
    pub fn running_on(self) -> Self {
        self.exhausted.read_owners_of(MAX_PARTS);
        Self { runs_on: true, ..self }
    }

    /// The same, which reads the owners of final packets of at most `parts_max` parts: a simulation has few parts.
    #[must_use]
    pub fn with_owners_of(self, parts_max: u32) -> Self {
        self.exhausted.read_owners_of(parts_max);
        self
    }

    /// The same, which tells users who come before a packet's start to ask again within this time after it.
    #[must_use]
    pub fn with_start_spread(self, start_spread: Duration) -> Self {
        Self { start_spread, ..self }
    }

    /// The same, with bulk waiters from `bulk_min` requests on: a simulation has few requests.
    #[must_use]
    pub fn with_bulk_min(self, bulk_min: usize) -> Self {
        let (hot, exhausted) = (Arc::clone(&self.stores.hot), Arc::clone(&self.exhausted));
        Self { prober: Prober::new(hot, exhausted, bulk_min), ..self }
    }

    /// The same, with at most `transactions_max` transactions of a packet in flight: a simulation has few claims.
    #[must_use]
    pub fn with_transactions(self, transactions_max: usize) -> Self {
        let committer = Arc::new(Committer::new(Arc::clone(&self.stores.ledger), transactions_max));
        let helper = Helper::new(self.stores.clone(), Arc::clone(&self.exhausted), Arc::clone(&committer));
        Self { committer, helper: Arc::new(helper), ..self }
    }

    /// The currency of every packet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The counts of its grabs, for metrics.
    pub const fn meter(&self) -> &Arc<Meter> {
        &self.stores.meter
    }

    // Thousands of grabs wait at once, and the processor's caches hold a few megabytes. So a waiting grab takes little memory:
    // the futures that few grabs need, or that wait for the ledger anyway, are boxed.

    /// Grabs a slip of packet `id` for `user`; `passphrase` is the digest of what the user gave, if anything.
    pub fn grab(
        &self,
        id: PacketId,
        user: &UserId,
        passphrase: Option<PassphraseDigest>,
    ) -> impl Future<Output = Result<GrabOutcome, Failure>> + use<'_, T, H> {
        let grabber = Grabber { user: user.clone(), passphrase };
        async move {
            let started = Instant::now();
            if !self.exhausted.reads_owners(id)
                && let Some(why) = self.final_packets.why(id, self.stores.clock.now())
                && let Some(outcome) = Box::pin(self.answer_by_claim(id, &grabber.user, why)).await
            {
                return Ok(outcome);
            }
            loop {
                match self.pass(id, &grabber).await? {
                    Pass::Done(outcome) => return Ok(outcome),
                    Pass::InDoubt { parts, why } => {
                        if why != Lost::SoldOut || Box::pin(self.end_doubt(id, parts)).await? == Ended::Blocked {
                            return Box::pin(self.ask_the_ledger(id, &grabber.user, why)).await;
                        }
                    }
                    Pass::Again => {}
                }
                if started.elapsed() >= timeouts::TRANSACTION {
                    return Err(Failure::unavailable("the packet did not come to rest"));
                }
            }
        }
    }

    /// Probes the packet's parts in the user's order, until one has an answer other than "nothing".
    async fn pass(&self, id: PacketId, grabber: &Grabber) -> Result<Pass, Failure> {
        // A certain answer may go by this process's clock. It must not end the doubts of other parts.
        let (mut why, mut certainly) = (Lost::SoldOut, Lost::SoldOut);
        let mut in_doubt: PartSet = 0;
        for part in PartId::probe_order(id, &grabber.user) {
            let result = match self.exhausted.answer_for(part, &grabber.user) {
                Some(answer) => ProbeResult::Answer(answer),
                None => self.prober.probe(part, grabber.clone()).await?,
            };
            match result {
                ProbeResult::NotLoaded => return Box::pin(self.load(part, grabber)).await,
                ProbeResult::Answer(GrabAnswer::Confirmed(claim)) => return Ok(Pass::Done(replayed(claim))),
                ProbeResult::Answer(GrabAnswer::Held { slip, at, fresh }) => {
                    let hold = Hold { slip, user: grabber.user.clone(), at };
                    return Box::pin(self.take(part, hold, fresh)).await.map_err(|failure| failure.holding(slip));
                }
                ProbeResult::Answer(GrabAnswer::NotStarted { starts_at, left }) => {
                    let retry_after = left + self.stores.entropy.part_of(self.start_spread);
                    return Ok(Pass::Done(GrabOutcome::NotStarted { starts_at, retry_after }));
                }
                ProbeResult::Answer(GrabAnswer::Refused(refusal)) => {
                    return Ok(Pass::Done(GrabOutcome::Refused(refusal)));
                }
                ProbeResult::Answer(GrabAnswer::Closed { certain }) => {
                    why = Lost::Closed;
                    in_doubt |= PartSet::from(!certain) << part.index;
                }
                ProbeResult::Answer(GrabAnswer::Nothing { expired, certain }) => {
                    let word = if expired { Lost::Expired } else { Lost::SoldOut };
                    if certain {
                        certainly = certainly.max(word);
                        self.exhausted.refresh_later(part);
                    } else {
                        why = why.max(word);
                        in_doubt |= 1 << part.index;
                    }
                }
            }
        }
        if in_doubt != 0 {
            return Ok(Pass::InDoubt { parts: in_doubt, why });
        }
        let why = why.max(certainly);
        if !self.exhausted.reads_owners(id) {
            Box::pin(self.remember_final(id, why)).await;
        }
        Ok(Pass::Done(nothing(why)))
    }

    /// Remembers a packet of which each part gave a loser a certain "no". That loser's answer stands, whatever comes of this.
    async fn remember_final(&self, id: PacketId, why: Lost) {
        if self.final_packets.is_paused() {
            return;
        }
        match timeout(timeouts::CLAIM_READ, self.stores.packets.terms(id)).await {
            Ok(Ok(Some(terms))) => self.final_packets.remember(&terms, why, self.stores.clock.now()),
            Ok(Ok(None)) => {}
            Ok(Err(_)) | Err(_) => self.final_packets.pause(),
        }
    }

    /// Answers from a user's claim item, for a packet that is final. `None`: that cannot be read now, so the hot store has to answer.
    async fn answer_by_claim(&self, id: PacketId, user: &UserId, why: Lost) -> Option<GrabOutcome> {
        match timeout(timeouts::CLAIM_READ, self.stores.ledger.claim_of(user, id)).await {
            Ok(Ok(claim)) => return Some(claim.map_or_else(|| nothing(why), replayed)),
            Ok(Err(LedgerError::Impossible(what))) => tracing::error!(%id, what, "a claim cannot be read"),
            Ok(Err(LedgerError::Unavailable(_))) | Err(_) => self.final_packets.pause(),
        }
        None
    }

    async fn end_doubt(&self, id: PacketId, parts: PartSet) -> Result<Ended, Failure> {
        self.helper.end_doubt(id.parts().filter(|part| parts >> part.index & 1 == 1)).await
    }

    /// Brings a held slip to the ledger: only then is it the user's.
    async fn take(&self, part: PartId, hold: Hold, fresh: bool) -> Result<Pass, Failure> {
        let terms = self.stores.packets.terms(part.packet).await?;
        let terms = terms.ok_or_else(|| Failure::defect(format!("{part}: a hold of a packet that does not exist")))?;
        // The amount comes from the ledger, so nothing that the hot store says can change it.
        let Some(amount) = self.stores.packets.amount(part, &terms, hold.slip).await? else {
            return Box::pin(self.answer_impossible_hold(part, &terms, hold)).await.map(Pass::Done);
        };
        let claim = Claim { slip: hold.slip, amount, at: hold.at };
        if terms.ack == AckMode::Redis {
            return Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: !fresh }));
        }
        Box::pin(self.commit(part, &terms, hold, claim, fresh)).await
    }

    /// Commits a claim to the ledger. The hold is `fresh` if this grab made it.
    async fn commit(
        &self,
        part: PartId,
        terms: &Arc<Terms>,
        hold: Hold,
        claim: Claim,
        fresh: bool,
    ) -> Result<Pass, Failure> {
        crash_point!("grab.before_claim");
        let begun = Instant::now();
        let outcome = self.committer.claim(terms, hold.user.clone(), claim.clone()).await?;
        self.stores.meter.claimed(begun.elapsed());
        crash_point!("grab.after_claim");
        let decisions = outcome.decisions(&hold.user, &claim);
        match outcome {
            ClaimOutcome::Committed => {
                self.reconcile(part, terms, decisions, hold).await;
                Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: !fresh }))
            }
            ClaimOutcome::Already { claim: own, foreign: None } => {
                self.reconcile(part, terms, decisions, hold).await;
                // Settle, or a process that helped, may have committed this very hold.
                Ok(Pass::Done(GrabOutcome::Grabbed { replayed: !fresh || own != claim, claim: own }))
            }
            ClaimOutcome::Already { claim, foreign: Some(_) } => {
                // The answer stands whether or not the hot store can be repaired now.
                if let Err(failure) = self.loader.repair(part, terms, &decisions, hold).await {
                    tracing::warn!(%part, error = crate::error_chain(&failure), "a part was not repaired");
                }
                Ok(Pass::Done(replayed(claim)))
            }
            ClaimOutcome::Taken(_) => {
                crash_point!("grab.before_repair");
                self.loader.repair(part, terms, &decisions, hold).await?;
                crash_point!("grab.after_repair");
                Ok(Pass::Again)
            }
        }
    }

    /// Answers a user for whom the hot store holds a slip that does not exist. The hold gives nobody anything, but a user with a
    /// claim is answered with that claim.
    async fn answer_impossible_hold(&self, part: PartId, terms: &Terms, hold: Hold) -> Result<GrabOutcome, Failure> {
        let Some(claim) = self.stores.ledger.claim_of(&hold.user, terms.id).await? else {
            return Err(Failure::defect(format!("{part}: a hold of slip {}", hold.slip)));
        };
        self.reconcile(part, terms, vec![claim.decision(&hold.user)], hold).await;
        Ok(replayed(claim))
    }

    /// Applies decisions to the hot store. If it cannot be reached, the answer stands all the same, and settle reconciles later.
    async fn reconcile(&self, part: PartId, terms: &Terms, decisions: Vec<Decision>, resolved: Hold) {
        let reconciled = self.reconciler.reconcile(part, terms.count, decisions, resolved);
        if !self.runs_on {
            reconciled.await;
        }
    }

    /// Loads a part that is not loaded, or answers in its place.
    async fn load(&self, part: PartId, grabber: &Grabber) -> Result<Pass, Failure> {
        match self.loader.ensure(part).await? {
            Ensured::AskAgain => Ok(Pass::Again),
            Ensured::NotFound => Ok(Pass::Done(GrabOutcome::NotFound)),
            Ensured::Expired(terms) => self.expired_and_forgotten(&terms, grabber).await.map(Pass::Done),
        }
    }

    /// Answers from the ledger for an expired packet that the hot store has forgotten.
    async fn expired_and_forgotten(&self, terms: &Terms, grabber: &Grabber) -> Result<GrabOutcome, Failure> {
        if let Some(claim) = self.stores.ledger.claim_of(&grabber.user, terms.id).await? {
            return Ok(replayed(claim));
        }
        if let Err(refusal) = terms.guard.admit(&grabber.user, grabber.passphrase) {
            return Ok(GrabOutcome::Refused(refusal));
        }
        if terms.ack == AckMode::Redis {
            // A promise may still be in the outbox, so "no" is certain only once the packet is settled.
            let packet = self.stores.ledger.packet(terms.id).await?;
            if packet.is_none_or(|packet| packet.settled.is_none()) {
                return Err(Failure::unavailable("a packet acknowledged by the hot store is not settled yet"));
            }
            // It may have been settled since the user's claim was read: read it once more.
            if let Some(claim) = self.stores.ledger.claim_of(&grabber.user, terms.id).await? {
                return Ok(replayed(claim));
            }
        }
        Ok(GrabOutcome::Expired)
    }

    /// Reads the user's own claim item: the answer after the expiry or the close, and beside a hold that is blocked.
    async fn ask_the_ledger(&self, id: PacketId, user: &UserId, why: Lost) -> Result<GrabOutcome, Failure> {
        crash_point!("grab.in_doubt");
        let Some(claim) = self.stores.ledger.claim_of(user, id).await? else { return Ok(nothing(why)) };
        if let Some(terms) = self.stores.packets.terms(id).await?
            && let Some(part) = PartId::of_slip(id, terms.count, claim.slip)
        {
            let resolved = Hold { slip: claim.slip, user: user.clone(), at: claim.at };
            self.reconcile(part, &terms, vec![claim.decision(user)], resolved).await;
        }
        Ok(replayed(claim))
    }
}

const fn replayed(claim: Claim) -> GrabOutcome {
    GrabOutcome::Grabbed { claim, replayed: true }
}

const fn nothing(why: Lost) -> GrabOutcome {
    match why {
        Lost::SoldOut => GrabOutcome::SoldOut,
        Lost::Expired => GrabOutcome::Expired,
        Lost::Closed => GrabOutcome::Closed,
    }
}

#[cfg(test)]
mod tests;
