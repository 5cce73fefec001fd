//! Grabbing a slip: the only use case whose speed decides a rush.

mod commit;
mod final_packets;
mod probe;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use self::commit::{Committer, TRANSACTIONS_MAX};
use self::final_packets::FinalPackets;
use self::probe::Prober;
use self::reconcile::Reconciler;
use crate::domain::{
    AckMode, Claim, Decision, Hold, MAX_PARTS, PacketId, PartId, PassphraseDigest, Refusal, Terms, Timestamp, UserId,
};
use crate::ledger::{ClaimOutcome, ClaimRefusal};
use crate::ports::{GrabAnswer, Grabber, HotStore, Table};
use crate::service::admission::{Admission, Voucher, admission_of};
use crate::service::load::{Ensured, Loader};
use crate::service::own_claims::OwnClaims;
use crate::service::sold_out::SoldOutNotes;
use crate::service::{Failure, Stores};
use crate::telemetry::Meter;
use crate::tickets::TicketFault;
use crate::timeouts;

/// How long a request waits, plus a random part of the same, before it probes again what was in doubt. Most claims are committed by then.
const DOUBT_PAUSE: Duration = Duration::from_millis(50);

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
    /// The packet wants a ticket, and the user has no valid one.
    NoTicket(TicketFault),
    /// The operator has suspended the user, also for grabs.
    Suspended,
    /// The user has won as much as the packet's limit allows, or would have with the slip that was free.
    LimitReached,
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
    committer: Committer<T>,
    reconciler: Reconciler<H>,
    own_claims: OwnClaims<T>,
    final_packets: FinalPackets,
    currency: String,
    /// See [`GrabSlip::with_start_spread`].
    start_spread: Duration,
    /// See [`GrabSlip::never_frozen`].
    is_never_frozen: bool,
}

/// How one pass over a packet's parts ended.
enum Pass {
    Done(GrabOutcome),
    /// A part was loaded or repaired: probe again.
    Again,
    /// The hot store has no slip for the user, but the answers of these parts are in doubt.
    InDoubt {
        parts: PartSet,
        why: NoSlip,
    },
}

/// Why a user has no slip. If the parts of a packet differ, the last of these counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum NoSlip {
    SoldOut,
    Expired,
    Closed,
}

/// Some of a packet's parts, as bits.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
struct PartSet(u32);

const _: () = assert!(MAX_PARTS <= u32::BITS);

impl PartSet {
    const ALL: Self = Self(u32::MAX);

    fn has(self, part: &PartId) -> bool {
        self.0 & (1 << part.index) != 0
    }

    fn add(&mut self, part: PartId) {
        self.0 |= 1 << part.index;
    }
}

impl<T: Table, H: HotStore> GrabSlip<T, H> {
    /// Grabs from packets in these stores. All money is in `currency` (ISO 4217).
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        let sold_out = Arc::new(SoldOutNotes::new(stores.clone()));
        let on_final = move |part, last| {
            let sold_out = Arc::clone(&sold_out);
            async move { sold_out.note_soon(part, last).await }.boxed()
        };
        Self {
            loader: Arc::new(Loader::new(stores.clone())),
            prober: Prober::new(Arc::clone(&stores.hot)),
            reconciler: Reconciler::new(Arc::clone(&stores.hot), Box::new(on_final)),
            committer: Committer::new(Arc::clone(&stores.ledger), TRANSACTIONS_MAX),
            own_claims: OwnClaims::new(Arc::clone(&stores.ledger)),
            final_packets: FinalPackets::new(),
            stores,
            currency,
            start_spread: Duration::ZERO,
            is_never_frozen: false,
        }
    }

    /// The same, for a process that Lambda never freezes between requests. It answers a winner once their claim is committed, and reconciles
    /// the hot store afterwards. In a process that freezes, settle would have to do that, and the outbox would stay full until then.
    #[must_use]
    pub fn never_frozen(self) -> Self {
        Self { is_never_frozen: true, ..self }
    }

    /// The same, which tells users who come before a packet's start to ask again within this time after it.
    #[must_use]
    pub fn with_start_spread(self, start_spread: Duration) -> Self {
        Self { start_spread, ..self }
    }

    /// The same, with at most `transactions_max` transactions of a packet in flight: a simulation has few claims.
    #[must_use]
    pub fn with_transactions(self, transactions_max: usize) -> Self {
        Self { committer: Committer::new(Arc::clone(&self.stores.ledger), transactions_max), ..self }
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

    /// Grabs a slip of packet `id` for `user`. `voucher` says who vouches for them; `passphrase` is the digest of what they gave, if anything.
    pub fn grab(
        &self,
        id: PacketId,
        user: &UserId,
        passphrase: Option<PassphraseDigest>,
        voucher: &Voucher,
    ) -> impl Future<Output = Result<GrabOutcome, Failure>> + use<'_, T, H> {
        let grabber = Grabber { user: user.clone(), passphrase };
        // It is cloned only where a ticket counts.
        let voucher = id.wants_ticket().then(|| Box::new(voucher.clone()));
        async move {
            let known_why = self.final_packets.why(id, self.stores.clock.now());
            if (known_why.is_some() || id.wants_ticket() || id.has_limit())
                && let Some(outcome) = Box::pin(self.answer_before_probe(id, &grabber, known_why, voucher)).await?
            {
                return Ok(outcome);
            }
            let (started, mut has_waited) = (Instant::now(), false);
            let (mut parts, mut why) = (PartSet::ALL, NoSlip::SoldOut);
            loop {
                match self.pass(id, &grabber, parts, why).await? {
                    Pass::Done(outcome) => return Ok(outcome),
                    Pass::InDoubt { parts: in_doubt, why: so_far } if !has_waited => {
                        (parts, why, has_waited) = (in_doubt, so_far, true);
                        sleep(DOUBT_PAUSE + self.stores.entropy.part_of(DOUBT_PAUSE)).await;
                    }
                    Pass::InDoubt { why, .. } => {
                        crash_point!("grab.in_doubt");
                        let claim = self.own_claims.claim_of(&grabber.user, id).await?;
                        return Ok(claim.map_or_else(|| no_slip(why), grabbed_before));
                    }
                    Pass::Again => {}
                }
                if started.elapsed() >= timeouts::TRANSACTION {
                    return Err(Failure::unavailable("the packet did not come to rest"));
                }
            }
        }
    }

    /// What answers before the hot store is asked, in this order: that the packet is known to be final, the user's ticket, their limit. A
    /// claim goes before each of them, and before their failures. `None`: the user may try.
    async fn answer_before_probe(
        &self,
        id: PacketId,
        grabber: &Grabber,
        why: Option<NoSlip>,
        voucher: Option<Box<Voucher>>,
    ) -> Result<Option<GrabOutcome>, Failure> {
        let user = &grabber.user;
        // If the ledger can't answer now, the hot store does.
        if let Some(why) = why
            && let Ok(Ok(claim)) = timeout(timeouts::CLAIM_READ, self.own_claims.claim_of(user, id)).await
        {
            return Ok(Some(claim.map_or_else(|| no_slip(why), grabbed_before)));
        }
        let mut refusal = match voucher {
            Some(voucher) => self.ticket_refusal(id, user, &voucher).await,
            None => Ok(None),
        };
        if matches!(refusal, Ok(None)) && id.has_limit() {
            refusal = self.limit_refusal(id, grabber).await;
        }
        if matches!(refusal, Ok(None)) {
            return Ok(None);
        }
        let claim = self.own_claims.claim_of(user, id).await?;
        claim.map_or(refusal, |claim| Ok(Some(grabbed_before(claim))))
    }

    /// What a user without a claim is answered if they have no valid ticket, or must wait for their turn.
    async fn ticket_refusal(
        &self,
        id: PacketId,
        user: &UserId,
        voucher: &Voucher,
    ) -> Result<Option<GrabOutcome>, Failure> {
        let (keys, packets, now) = (self.stores.ticket_keys.as_deref(), &self.stores.packets, self.stores.clock.now());
        let refusal = match admission_of(keys, packets, id, user, voucher, now).await? {
            Admission::Admitted => return Ok(None),
            Admission::NotBefore(starts_at) => {
                let retry_after = starts_at.since(now) + self.stores.entropy.part_of(self.start_spread);
                GrabOutcome::NotStarted { starts_at, retry_after }
            }
            Admission::Refused(fault) => GrabOutcome::NoTicket(fault),
        };
        Ok(Some(match packets.terms(id).await? {
            None => GrabOutcome::NotFound,
            // Nobody's turn comes any more.
            Some(terms) if now >= terms.expires_at && matches!(refusal, GrabOutcome::NotStarted { .. }) => {
                GrabOutcome::Expired
            }
            Some(_) => refusal,
        }))
    }

    /// What a user without a claim is answered if they have reached the limit of a packet; `None`: they have not, or something else keeps
    /// them from this packet. Two of their grabs at once may both pass: the transaction decides.
    async fn limit_refusal(&self, id: PacketId, grabber: &Grabber) -> Result<Option<GrabOutcome>, Failure> {
        let Some(terms) = self.stores.packets.terms(id).await? else { return Ok(Some(GrabOutcome::NotFound)) };
        let (user, now, guard) = (&grabber.user, self.stores.clock.now(), &terms.guard);
        let Some(limit) = &terms.limit else { return Ok(None) };
        let has_begun = guard.starts_at.is_none_or(|starts_at| now >= starts_at);
        if !has_begun || now >= terms.expires_at || guard.check(user, grabber.passphrase).is_err() {
            return Ok(None);
        }
        let won = self.stores.ledger.won(user, &terms.sender, limit).await?;
        Ok((!limit.allows(won, terms.least_slip())).then_some(GrabOutcome::LimitReached))
    }

    /// Probes these parts of a packet in the user's order, until one has an answer other than "no slip". The answers of the others were
    /// certain, with this reason.
    async fn pass(&self, id: PacketId, grabber: &Grabber, parts: PartSet, mut why: NoSlip) -> Result<Pass, Failure> {
        let mut in_doubt = PartSet::default();
        for part in PartId::probe_order(id, &grabber.user).filter(|part| parts.has(part)) {
            let (word, is_certain) = match self.prober.probe(part, grabber.clone()).await? {
                None => return Box::pin(self.load(part, grabber)).await,
                Some(GrabAnswer::Confirmed(claim)) => return Ok(Pass::Done(grabbed_before(claim))),
                Some(GrabAnswer::Held { slip, left, fresh }) => {
                    let answered = Box::pin(self.answer_hold(part, slip, left, &grabber.user, !fresh)).await;
                    return answered.map_err(|failure| failure.holding(slip));
                }
                Some(GrabAnswer::NotStarted { starts_at, left }) => {
                    let retry_after = left + self.stores.entropy.part_of(self.start_spread);
                    return Ok(Pass::Done(GrabOutcome::NotStarted { starts_at, retry_after }));
                }
                Some(GrabAnswer::Refused(refusal)) => return Ok(Pass::Done(GrabOutcome::Refused(refusal))),
                Some(GrabAnswer::Closed { certain }) => (NoSlip::Closed, certain),
                Some(GrabAnswer::SoldOut { certain }) => (NoSlip::SoldOut, certain),
                Some(GrabAnswer::WentBack { expires_at, certain }) => {
                    let is_past = self.stores.clock.now() >= expires_at;
                    (if is_past { NoSlip::Expired } else { NoSlip::SoldOut }, certain)
                }
                Some(GrabAnswer::NoList { certain }) => match Box::pin(self.loader.ensure(part)).await? {
                    Ensured::Expired(_) => (NoSlip::Expired, certain),
                    Ensured::AskAgain => return Ok(Pass::Again),
                    Ensured::NotFound => return Ok(Pass::Done(GrabOutcome::NotFound)),
                },
            };
            why = why.max(word);
            if !is_certain {
                in_doubt.add(part);
            }
        }
        if in_doubt != PartSet::default() {
            return Ok(Pass::InDoubt { parts: in_doubt, why });
        }
        if id.part_count() > 1 {
            Box::pin(self.remember_final(id, why)).await;
        }
        Ok(Pass::Done(no_slip(why)))
    }

    /// Remembers a packet of several parts, which all had a certain "no". That answer stands, whatever comes of this.
    async fn remember_final(&self, id: PacketId, why: NoSlip) {
        if let Ok(Ok(Some(terms))) = timeout(timeouts::TERMS_READ, self.stores.packets.terms(id)).await {
            self.final_packets.remember(&terms, why, self.stores.clock.now());
        }
    }

    /// Answers a user for whom a slip was held when `left` was left until the expiry. Unless winners are answered on the hot store's word, it
    /// commits the claim first. `replayed`: an earlier request held the slip.
    async fn answer_hold(
        &self,
        part: PartId,
        slip: u32,
        left: Duration,
        user: &UserId,
        replayed: bool,
    ) -> Result<Pass, Failure> {
        let terms = self.stores.packets.terms(part.packet).await?;
        let terms = terms.ok_or_else(|| Failure::defect(format!("{part}: a hold of a packet that does not exist")))?;
        let hold = Hold { slip, user: user.clone(), at: terms.expires_at.before(left) };
        // The amount comes from the ledger, so nothing that the hot store says can change it.
        let Some(amount) = self.stores.packets.amount(part, &terms, hold.slip).await? else {
            return Box::pin(self.answer_impossible_hold(part, &terms, hold)).await.map(Pass::Done);
        };
        let claim = Claim { slip: hold.slip, amount, at: hold.at };
        if terms.ack == AckMode::Redis {
            return Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed }));
        }
        Box::pin(self.commit(part, &terms, hold, claim, replayed)).await
    }

    /// Commits a claim to the ledger.
    async fn commit(
        &self,
        part: PartId,
        terms: &Arc<Terms>,
        hold: Hold,
        claim: Claim,
        replayed: bool,
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
                Ok(Pass::Done(GrabOutcome::Grabbed { claim, replayed }))
            }
            ClaimOutcome::Already(own) => {
                self.reconcile(part, terms, decisions, hold).await;
                // Settle may have committed this very hold.
                Ok(Pass::Done(GrabOutcome::Grabbed { replayed: replayed || own != claim, claim: own }))
            }
            ClaimOutcome::AlreadyAndTaken(claim, _) => {
                // The answer stands whether or not the hot store can be repaired now.
                if let Err(failure) = self.loader.repair(part, terms, &decisions, hold).await {
                    tracing::warn!(%part, error = crate::error_chain(&failure), "a part was not repaired");
                }
                Ok(Pass::Done(grabbed_before(claim)))
            }
            ClaimOutcome::Refused(why) => {
                // Else settle does it.
                if let Err(error) = self.stores.hot.release(part, terms.count, &hold).await {
                    tracing::warn!(%part, error = crate::error_chain(&error), "a hold was not released");
                }
                Ok(Pass::Done(match why {
                    ClaimRefusal::Suspended => GrabOutcome::Suspended,
                    ClaimRefusal::LimitReached => GrabOutcome::LimitReached,
                }))
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
        let Some(claim) = self.own_claims.claim_of(&hold.user, terms.id).await? else {
            return Err(Failure::defect(format!("{part}: a hold of slip {}", hold.slip)));
        };
        self.reconcile(part, terms, vec![claim.decision(&hold.user)], hold).await;
        Ok(grabbed_before(claim))
    }

    /// Applies decisions to the hot store. If it cannot be reached, the answer stands all the same, and settle reconciles later.
    async fn reconcile(&self, part: PartId, terms: &Terms, decisions: Vec<Decision>, resolved: Hold) {
        let done = self.reconciler.submit(part, terms.count, decisions, resolved);
        if !self.is_never_frozen {
            done.await;
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
        if let Some(claim) = self.own_claims.claim_of(&grabber.user, terms.id).await? {
            return Ok(grabbed_before(claim));
        }
        if let Err(refusal) = terms.guard.check(&grabber.user, grabber.passphrase) {
            return Ok(GrabOutcome::Refused(refusal));
        }
        if terms.ack == AckMode::Redis {
            // A promise may still be in the outbox, so "no" is certain only once the packet is settled.
            let packet = self.stores.ledger.packet(terms.id).await?;
            if packet.is_none_or(|packet| packet.settled.is_none()) {
                return Err(Failure::unavailable("a packet acknowledged by the hot store is not settled yet"));
            }
            // It may have been settled since the user's claim was read: read it once more.
            if let Some(claim) = self.own_claims.claim_of(&grabber.user, terms.id).await? {
                return Ok(grabbed_before(claim));
            }
        }
        Ok(GrabOutcome::Expired)
    }
}

const fn grabbed_before(claim: Claim) -> GrabOutcome {
    GrabOutcome::Grabbed { claim, replayed: true }
}

const fn no_slip(why: NoSlip) -> GrabOutcome {
    match why {
        NoSlip::SoldOut => GrabOutcome::SoldOut,
        NoSlip::Expired => GrabOutcome::Expired,
        NoSlip::Closed => GrabOutcome::Closed,
    }
}

#[cfg(test)]
mod tests;
