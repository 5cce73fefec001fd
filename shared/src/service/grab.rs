use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Failure;
use super::collector::{Collector, Told};
use super::committer::Committer;
use super::finals::Finals;
use super::hot_store::{Found, Grabber, HotStore};
use super::learner::Learner;
use super::loader::{Ensured, Loader};
use super::stores::Stores;
use crate::domain::{AckMode, Claim, Fence, Hold, PacketId, PartId, PassphraseDigest, Refusal, Terms, UserId};
use crate::dynamo::{ClaimOutcome, Table};
use crate::metric::Meter;

/// For how long one grab keeps trying before it says that it does not know.
const PATIENCE: Duration = Duration::from_secs(8);
/// For how long, of that, a loser waits for certainty before his own claim item is read.
const DOUBT_MAX: Duration = Duration::from_secs(2);

/// How a grab ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrabOutcome {
    /// The user has a slip: a promise.
    Grabbed {
        /// Which, and what is in it.
        claim: Claim,
        /// Whether he had it before this grab.
        replayed: bool,
    },
    /// Every slip is taken, and none is his.
    SoldOut,
    /// The packet's time is over, and no slip is his.
    Expired,
    /// The packet is not for him.
    Refused(Refusal),
    /// There is no such packet.
    NotFound,
}

/// The use case of a user who grabs a slip. The only one whose speed decides a rush.
pub struct GrabSlip<T, H> {
    stores: Stores<T, H>,
    loader: Arc<Loader<T, H>>,
    committer: Arc<Committer<T>>,
    learner: Arc<Learner<H>>,
    collector: Arc<Collector<H>>,
    finals: Arc<Finals<H>>,
    currency: String,
    /// Whether the process runs on once it has answered.
    runs_on: bool,
}

/// What one pass over a packet's parts came to.
enum Pass {
    Done(GrabOutcome),
    /// Something was loaded or repaired.
    Again,
    /// No slip for the user, as far as the hot store knows; of this part it is not certain, and perhaps of others.
    InDoubt {
        part: PartId,
        expired: bool,
    },
}

impl<T: Table, H: HotStore> GrabSlip<T, H> {
    /// Over the two stores, whose money is all in `currency`.
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        let finals = Arc::new(Finals::new(Arc::clone(&stores.hot), Arc::clone(&stores.entropy)));
        Self {
            loader: Arc::new(Loader::new(stores.clone())),
            committer: Arc::new(Committer::new(Arc::clone(&stores.ledger))),
            learner: Arc::new(Learner::new(Arc::clone(&stores.hot), Arc::clone(&finals))),
            collector: Arc::new(Collector::new(Arc::clone(&stores.hot), Arc::clone(&finals))),
            finals,
            stores,
            currency,
            runs_on: false,
        }
    }

    /// For a process that runs on between requests: a winner is answered once his claim is committed, while the hot store is told
    /// of it. A process that is frozen once it has answered would leave that to settle, and the outbox full until then.
    #[must_use]
    pub fn running_on(self) -> Self {
        Self { runs_on: true, ..self }
    }

    /// With another number of users, who wait for a part that has nothing left, from which on one call answers them all: a
    /// simulation has few.
    #[must_use]
    pub fn with_crowds_of(self, crowd: usize) -> Self {
        let collector = Collector::new(Arc::clone(&self.stores.hot), Arc::clone(&self.finals)).with_crowds_of(crowd);
        Self { collector: Arc::new(collector), ..self }
    }

    /// With another number of a packet's transactions under way at once, from which on claims go together: a simulation has few.
    #[must_use]
    pub fn with_claims_at_once(self, transactions: usize) -> Self {
        let committer = Committer::new(Arc::clone(&self.stores.ledger)).with_calls(transactions);
        Self { committer: Arc::new(committer), ..self }
    }

    /// The currency of every packet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// What is counted while it grabs.
    pub const fn meter(&self) -> &Arc<Meter> {
        &self.stores.meter
    }

    // Thousands wait at once, and the processor's caches hold a few megabytes: a grab that waits takes little room. What few
    // grabs come to, or what takes the ledger's time anyway, is in a box of its own.

    /// Grabs a slip of packet `id` for `user`; `passphrase` is the digest of what he gave, if anything.
    pub fn grab(
        &self,
        id: PacketId,
        user: &UserId,
        passphrase: Option<PassphraseDigest>,
    ) -> impl Future<Output = Result<GrabOutcome, Failure>> + use<'_, T, H> {
        let grabber = Grabber { user: user.clone(), passphrase };
        async move {
            let started = Instant::now();
            loop {
                let (part, expired) = match self.pass(id, &grabber).await? {
                    Pass::Done(outcome) => return Ok(outcome),
                    Pass::Again if started.elapsed() < PATIENCE => continue,
                    Pass::Again => return Err(Failure::unavailable("the packet did not come to rest")),
                    Pass::InDoubt { part, expired } => (part, expired),
                };
                if expired || started.elapsed() >= DOUBT_MAX {
                    return Box::pin(self.ask_the_ledger(id, &grabber.user, expired)).await;
                }
                // In the milliseconds between the last pop and its commit: mostly the part is final soon.
                self.finals.wait(part).await?;
            }
        }
    }

    /// Probes the packet's parts in the user's order, until one has an answer other than "nothing".
    async fn pass(&self, id: PacketId, grabber: &Grabber) -> Result<Pass, Failure> {
        let mut expired = false;
        // The first part that is not certain.
        let mut doubt = None;
        for part in PartId::probe_order(id, &grabber.user) {
            let told = if let Some(told) = self.finals.told(part, &grabber.user) {
                told
            } else {
                self.collector.grab(part, grabber.clone()).await?
            };
            match told {
                Told::NotLoaded => return Box::pin(self.load(part, grabber)).await,
                Told::Final(known) => match known.owners.get(&grabber.user) {
                    Some(claim) => {
                        return Ok(Pass::Done(GrabOutcome::Grabbed { claim: claim.clone(), replayed: true }));
                    }
                    None => expired |= self.stores.clock.now() >= known.expires_at,
                },
                Told::Found(Found::Confirmed(claim)) => {
                    return Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: true }));
                }
                Told::Found(Found::Held { slip, at, fresh }) => {
                    let hold = Hold { slip, user: grabber.user.clone(), at };
                    return Box::pin(self.take(part, hold, fresh)).await;
                }
                Told::Found(Found::Refused(refusal)) => return Ok(Pass::Done(GrabOutcome::Refused(refusal))),
                Told::Found(Found::Nothing { expired: over, certain }) => {
                    expired |= over;
                    if certain {
                        self.finals.look_later(part);
                    } else {
                        doubt = doubt.or(Some(part.index));
                    }
                }
            }
        }
        Ok(match doubt {
            Some(index) => Pass::InDoubt { part: PartId { packet: id, index }, expired },
            None => Pass::Done(nothing(expired)),
        })
    }

    /// Brings a held slip to the ledger: only then is it the user's.
    async fn take(&self, part: PartId, hold: Hold, fresh: bool) -> Result<Pass, Failure> {
        let terms = self.stores.packets.terms(part.packet).await?;
        let terms = terms.ok_or_else(|| Failure::defect(format!("{part}: a hold of a packet that is not there")))?;
        // The amount is the ledger's: whatever the hot store says, it can't change what is in a slip.
        let Some(amount) = self.stores.packets.amount(part, &terms, hold.slip).await? else {
            return Box::pin(self.refuse(part, &terms, hold)).await.map(Pass::Done);
        };
        let claim = Claim { slip: hold.slip, amount, at: hold.at };
        if terms.ack == AckMode::Redis {
            return Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: !fresh }));
        }
        Box::pin(self.commit(part, &terms, hold, claim)).await
    }

    /// Commits a claim to the ledger.
    async fn commit(&self, part: PartId, terms: &Arc<Terms>, hold: Hold, claim: Claim) -> Result<Pass, Failure> {
        crash_point!("grab.before_claim");
        let begun = Instant::now();
        let outcome = self.committer.claim(terms, hold.user.clone(), claim.clone()).await?;
        self.stores.meter.claimed(begun.elapsed());
        crash_point!("grab.after_claim");
        let facts = outcome.facts(&hold.user, &claim);
        match outcome {
            ClaimOutcome::Committed => {
                self.learn(part, terms, facts, hold).await;
                Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: false }))
            }
            ClaimOutcome::Already { claim, foreign: None } => {
                self.learn(part, terms, facts, hold).await;
                Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: true }))
            }
            ClaimOutcome::Already { claim, foreign: Some(_) } => {
                // The answer stands whether or not the hot store can be mended now.
                if let Err(failure) = self.loader.repair(part, terms, &facts, hold).await {
                    tracing::warn!(%part, error = crate::error_chain(&failure), "a part was not repaired");
                }
                Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed: true }))
            }
            ClaimOutcome::Taken(_) => {
                crash_point!("grab.before_repair");
                self.loader.repair(part, terms, &facts, hold).await?;
                crash_point!("grab.after_repair");
                Ok(Pass::Again)
            }
        }
    }

    /// A hold of a slip that there is not. It gives nobody anything, but who has a claim hears of it all the same.
    async fn refuse(&self, part: PartId, terms: &Terms, hold: Hold) -> Result<GrabOutcome, Failure> {
        let Some(claim) = self.stores.ledger.claim_of(&hold.user, terms.id).await? else {
            return Err(Failure::defect(format!("{part}: a hold of slip {}", hold.slip)));
        };
        self.learn(part, terms, vec![claim.fence(&hold.user)], hold).await;
        Ok(GrabOutcome::Grabbed { claim, replayed: true })
    }

    /// Tells the hot store facts. If it can't be told, the answer stands all the same, and settle tells it later.
    async fn learn(&self, part: PartId, terms: &Terms, facts: Vec<Fence>, decided: Hold) {
        let told = self.learner.tell(part, terms.count, facts, decided);
        if !self.runs_on {
            told.await;
        }
    }

    /// What to do about a part that is not loaded.
    async fn load(&self, part: PartId, grabber: &Grabber) -> Result<Pass, Failure> {
        match self.loader.ensure(part).await? {
            Ensured::AskAgain => Ok(Pass::Again),
            Ensured::NotFound => Ok(Pass::Done(GrabOutcome::NotFound)),
            Ensured::Expired(terms) => self.expired_and_forgotten(&terms, grabber).await.map(Pass::Done),
        }
    }

    /// An expired packet that the hot store has forgotten: the ledger answers for it.
    async fn expired_and_forgotten(&self, terms: &Terms, grabber: &Grabber) -> Result<GrabOutcome, Failure> {
        if let Some(claim) = self.stores.ledger.claim_of(&grabber.user, terms.id).await? {
            return Ok(GrabOutcome::Grabbed { claim, replayed: true });
        }
        if let Err(refusal) = terms.guard.admit(&grabber.user, grabber.passphrase) {
            return Ok(GrabOutcome::Refused(refusal));
        }
        if terms.ack == AckMode::Redis {
            // A promise may still be in the outbox: until the packet is settled nobody can say no.
            let packet = self.stores.ledger.packet(terms.id).await?;
            if packet.is_none_or(|packet| packet.closed.is_none()) {
                return Err(Failure::unavailable("a packet acknowledged by the hot store is not settled yet"));
            }
            // Settled since the user's claim was read, perhaps: read it once more.
            if let Some(claim) = self.stores.ledger.claim_of(&grabber.user, terms.id).await? {
                return Ok(GrabOutcome::Grabbed { claim, replayed: true });
            }
        }
        Ok(GrabOutcome::Expired)
    }

    /// The user's own claim item, read consistently, ends all doubt.
    async fn ask_the_ledger(&self, id: PacketId, user: &UserId, expired: bool) -> Result<GrabOutcome, Failure> {
        crash_point!("grab.in_doubt");
        let Some(claim) = self.stores.ledger.claim_of(user, id).await? else { return Ok(nothing(expired)) };
        if let Some(terms) = self.stores.packets.terms(id).await? {
            let part = PartId::of_slip(id, terms.count, claim.slip);
            if let Some(part) = part {
                let decided = Hold { slip: claim.slip, user: user.clone(), at: claim.at };
                self.learn(part, &terms, vec![claim.fence(user)], decided).await;
            }
        }
        Ok(GrabOutcome::Grabbed { claim, replayed: true })
    }
}

const fn nothing(expired: bool) -> GrabOutcome {
    if expired { GrabOutcome::Expired } else { GrabOutcome::SoldOut }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use crate::dynamo::Ledger;
    use crate::memory::{MemoryHot, MemoryTable};
    use crate::service::{Stores, System};

    #[test]
    fn who_waits_takes_little_room() {
        // In a rush ten thousand wait, and the processor's caches hold a few megabytes.
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let hot = Arc::new(MemoryHot::new(Arc::new(System)));
        let grab = GrabSlip::new(Stores::new(ledger, hot, Arc::new(System), Arc::new(System)), "CNY".to_owned());
        let terms = Terms::sample();
        let bytes = size_of_val(&grab.grab(terms.id, &terms.sender, None));
        assert!(bytes <= 384, "a grab that waits takes {bytes} bytes");
    }
}
