use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

use crate::batching::FreshSingleFlight;
use crate::batching::{Cache, cache};
use crate::domain::Summary;
use crate::domain::{AckMode, Claim, Decision, Owner, PacketId, PartId, Terms, UserId};
use crate::ports::Table;
use crate::ports::{HotStore, HotStoreError, PartView, ViewResult};
use crate::service::Failure;
use crate::service::Stores;

/// For how long a process goes by the hot store before it holds a packet against the ledger again: so long, at most, a claim
/// may be missing of which a hot store that was rolled back does not know.
const TRUST: Duration = Duration::from_secs(10);
/// After how long a hot store that did not answer is asked again; the ledger answers meanwhile.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Parts of one packet that are looked at at once.
const PARTS_AT_ONCE: usize = 16;
/// A settled packet above this many slips is not kept with its claims, nor read as a whole: the ledger has its sums.
const KEPT_SLIPS_MAX: u32 = 2_000;
/// What a process keeps of packets that change, and of those that don't any more.
const BYTES_MAX: u64 = 16 << 20;
/// Of a packet of some 100 slips.
const PACKET_BYTES: u64 = 16 << 10;

/// How a packet stands: its claims, and what they sum to.
#[derive(Debug)]
pub struct PacketSnapshot {
    /// In slip order; `None`: it is settled and large, so that the ledger is asked for what of it is wanted.
    pub claims: Option<Vec<(UserId, Claim)>>,
    /// The best of them as far as the ledger knows them.
    pub summary: Summary,
    /// Whether the ledger has a decision for every slip: then nothing of this changes any more.
    pub is_decided: bool,
    /// Whether the packet's time was over before any of this was read.
    pub is_past: bool,
}

/// What a process has seen of a packet that is not decided.
#[derive(Debug, Default)]
struct Seen {
    /// Decisions that were read from the ledger.
    decisions: BTreeMap<u32, Decision>,
    /// What the parts that are loaded said last.
    parts: Vec<Option<Arc<PartView>>>,
    /// When all decisions were read last; `None` also after the hot store contradicted them.
    checked: Option<Instant>,
}

/// How packets stand, from the hot store while they change, for any number of readers.
///
/// Nothing that is shown of a packet that changes is older than the request for it: who asks gets the result of a look that
/// began after that.
pub struct Live<T, H> {
    stores: Stores<T, H>,
    flights: FreshSingleFlight<PacketId, Result<Arc<PacketSnapshot>, Failure>>,
    seen: Cache<PacketId, Arc<Seen>>,
    decided: Cache<PacketId, Arc<PacketSnapshot>>,
    /// Since when the hot store does not answer.
    mute_since: Mutex<Option<Instant>>,
}

impl<T: Table, H: HotStore> Live<T, H> {
    /// Over the two stores, with nothing seen.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self {
            stores,
            flights: FreshSingleFlight::new(),
            seen: cache(BYTES_MAX, PACKET_BYTES, seen_bytes),
            decided: cache(BYTES_MAX, PACKET_BYTES, decided_bytes),
            mute_since: Mutex::default(),
        }
    }

    /// The stores that this stands on.
    pub const fn stores(&self) -> &Stores<T, H> {
        &self.stores
    }

    /// How the packet of these terms stands.
    pub async fn snapshot(self: &Arc<Self>, terms: &Arc<Terms>) -> Result<Arc<PacketSnapshot>, Failure> {
        if let Some(snapshot) = self.decided.get(&terms.id) {
            return Ok(snapshot);
        }
        let (this, of) = (Arc::clone(self), Arc::clone(terms));
        let look = move || async move { this.look(&of).await };
        self.flights.run(terms.id, look).await.unwrap_or_else(|| Err(Failure::defect("looking at a packet panicked")))
    }

    async fn look(&self, terms: &Terms) -> Result<Arc<PacketSnapshot>, Failure> {
        // Whoever joined this flight may have done so before an earlier one decided.
        if let Some(snapshot) = self.decided.get(&terms.id) {
            return Ok(snapshot);
        }
        // Before anything is read: what is shown as the end is from after it.
        let is_past = self.stores.clock.now() >= terms.expires_at;
        let seen = self.seen.get(&terms.id).unwrap_or_default();
        let parts = self.parts(terms, &seen).await;
        let mut known = seen.decisions.clone();
        let mut told = self.told(terms, &parts, &known).await?;
        let mut checked = seen.checked.filter(|at| at.elapsed() < TRUST && !has_forgotten(&seen.parts, &parts));

        if checked.is_some()
            && let Some(told) = &told
        {
            let asked = doubtful(terms, &parts, &known, told);
            known.extend(self.decisions(terms, asked).await?);
        }
        let goes_by_the_ledger = match &told {
            None => true,
            Some(told) => {
                checked.is_none()
                    || is_complete(terms, &known, told)
                    || is_past && has_news(terms, &parts, &known, told)
            }
        };
        if goes_by_the_ledger {
            if is_past && let Some(snapshot) = self.settled_and_large(terms).await? {
                return Ok(snapshot);
            }
            known.extend(self.decisions(terms, 0..terms.count).await?);
            checked = Some(Instant::now());
            let is_so = |(slip, said): (&u32, &Decision)| known.get(slip) == Some(said);
            if !told.take().is_some_and(|told| told.iter().all(is_so)) {
                tracing::error!(packet = %terms.id, "the hot store knows a claim that the ledger does not");
                checked = None;
            }
        }

        let is_decided = known.len() == terms.count as usize;
        let best = Summary::of(known.values()).best;
        let mut shown = known.clone();
        shown.extend(told.unwrap_or_default());
        if terms.ack == AckMode::Redis && !is_decided {
            let promised = self.promised(terms, &parts, &shown).await?;
            shown.extend(promised);
        }
        let summary = Summary { best, ..Summary::of(shown.values()) };
        let claims = shown.values().filter_map(|decision| decision.claim().map(|(user, claim)| (user.clone(), claim)));
        let snapshot = Arc::new(PacketSnapshot { claims: Some(claims.collect()), summary, is_decided, is_past });
        if is_decided {
            self.seen.remove(&terms.id);
            self.decided.insert(terms.id, Arc::clone(&snapshot));
        } else {
            self.seen.insert(terms.id, Arc::new(Seen { decisions: known, parts, checked }));
        }
        Ok(snapshot)
    }

    /// What each part says; nothing of a part that is not loaded, or if the hot store does not answer.
    async fn parts(&self, terms: &Terms, seen: &Seen) -> Vec<Option<Arc<PartView>>> {
        let none = vec![None; terms.id.part_count() as usize];
        let mute_since = *crate::lock(&self.mute_since);
        // What was promised on its word alone nobody else knows.
        if terms.ack == AckMode::Ledger && mute_since.is_some_and(|since| since.elapsed() < ASK_AGAIN) {
            return none;
        }
        let looks = stream::iter(terms.id.parts().enumerate()).map(|(place, part)| {
            let before = seen.parts.get(place).cloned().flatten();
            async move {
                let version = before.as_ref().map(|before| &*before.version);
                Ok(match self.stores.hot.view(part, version).await? {
                    ViewResult::NotLoaded => None,
                    ViewResult::Unchanged => before,
                    ViewResult::Changed(look) => Some(Arc::new(look)),
                })
            }
        });
        let looked: Result<Vec<_>, HotStoreError> = looks.buffered(PARTS_AT_ONCE).try_collect().await;
        let is_mute = matches!(looked, Err(HotStoreError::Unavailable(_)));
        *crate::lock(&self.mute_since) = is_mute.then(Instant::now);
        looked.unwrap_or_else(|error| {
            let error = crate::error_chain(&error);
            tracing::warn!(packet = %terms.id, error, "the ledger answers in place of the hot store");
            none
        })
    }

    /// The claims that the parts know beside `known`, with the amounts that the packet's record has. `None`: they contradict
    /// the record, the ledger or themselves.
    async fn told(
        &self,
        terms: &Terms,
        parts: &[Option<Arc<PartView>>],
        known: &BTreeMap<u32, Decision>,
    ) -> Result<Option<BTreeMap<u32, Decision>>, Failure> {
        let mut told = BTreeMap::new();
        let mut owners: BTreeSet<&UserId> = known.values().filter_map(|decision| decision.owner.user()).collect();
        for (part, look) in terms.id.parts().zip(parts) {
            let Some(look) = look else { continue };
            let slips = part.slips(terms.count);
            // Those of other parts are told there.
            let here = look.claims.iter().filter(|(_, claim)| slips.contains(&claim.slip));
            for (user, claim) in here {
                let decision = claim.decision(user);
                match known.get(&claim.slip) {
                    Some(known) if *known == decision => continue,
                    Some(_) => return Ok(None),
                    None => {}
                }
                let amount = self.stores.packets.amount(part, terms, claim.slip).await?;
                if amount != Some(claim.amount) || !owners.insert(user) || told.insert(claim.slip, decision).is_some() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(told))
    }

    /// The holds of a packet whose grabs are answered on the word of the hot store: claims on their way to the ledger.
    async fn promised(
        &self,
        terms: &Terms,
        parts: &[Option<Arc<PartView>>],
        shown: &BTreeMap<u32, Decision>,
    ) -> Result<BTreeMap<u32, Decision>, Failure> {
        let mut owners: BTreeSet<&UserId> = shown.values().filter_map(|decision| decision.owner.user()).collect();
        let mut promised = BTreeMap::new();
        for (part, look) in terms.id.parts().zip(parts) {
            for hold in look.iter().flat_map(|look| &look.holds).filter(|hold| !shown.contains_key(&hold.slip)) {
                // Of a slip that there is not nobody gets anything.
                let Some(amount) = self.stores.packets.amount(part, terms, hold.slip).await? else { continue };
                if owners.insert(&hold.user) {
                    let owner = Owner::User(hold.user.clone());
                    promised.insert(hold.slip, Decision { slip: hold.slip, owner, amount, at: hold.at });
                }
            }
        }
        Ok(promised)
    }

    async fn decisions(
        &self,
        terms: &Terms,
        slips: impl IntoIterator<Item = u32>,
    ) -> Result<impl Iterator<Item = (u32, Decision)>, Failure> {
        let decisions = self.stores.ledger.decisions(terms.id, slips).await?;
        Ok(decisions.into_iter().map(|decision| (decision.slip, decision)))
    }

    /// A packet whose decisions are too many to be read for its sums, if these stand in its own item.
    async fn settled_and_large(&self, terms: &Terms) -> Result<Option<Arc<PacketSnapshot>>, Failure> {
        if terms.count <= KEPT_SLIPS_MAX {
            return Ok(None);
        }
        let packet = self.stores.ledger.packet(terms.id).await?;
        let Some(summary) = packet.and_then(|packet| packet.settled) else { return Ok(None) };
        let snapshot = Arc::new(PacketSnapshot { claims: None, summary, is_decided: true, is_past: true });
        self.decided.insert(terms.id, Arc::clone(&snapshot));
        Ok(Some(snapshot))
    }
}

/// The slips of which the hot store alone does not say enough: those of parts that are not loaded; and, where a hold is no
/// claim yet, those that are held, since the word that it was committed may have got lost.
fn doubtful(
    terms: &Terms,
    parts: &[Option<Arc<PartView>>],
    known: &BTreeMap<u32, Decision>,
    told: &BTreeMap<u32, Decision>,
) -> BTreeSet<u32> {
    let mut slips = BTreeSet::new();
    for (part, look) in terms.id.parts().zip(parts) {
        let here = part.slips(terms.count);
        match look {
            None => slips.extend(here),
            Some(look) if terms.ack == AckMode::Ledger => {
                slips.extend(look.holds.iter().map(|hold| hold.slip).filter(|slip| here.contains(slip)));
            }
            Some(_) => {}
        }
    }
    slips.retain(|slip| !known.contains_key(slip) && !told.contains_key(slip));
    slips
}

/// Whether a part that is still loaded has lost a claim that it knew of: then it was rolled back, who knows how far.
fn has_forgotten(before: &[Option<Arc<PartView>>], now: &[Option<Arc<PartView>>]) -> bool {
    before.iter().zip(now).any(|looks| match looks {
        (Some(before), Some(now)) => {
            !Arc::ptr_eq(before, now) && !before.claims.keys().all(|user| now.claims.contains_key(user))
        }
        _ => false,
    })
}

/// Whether every slip is said to have a decision: a thing that the ledger alone can say.
fn is_complete(terms: &Terms, known: &BTreeMap<u32, Decision>, told: &BTreeMap<u32, Decision>) -> bool {
    let more = told.keys().filter(|slip| !known.contains_key(slip)).count();
    known.len() + more >= terms.count as usize
}

/// Whether the parts know of a decision that is not among those read from the ledger.
fn has_news(
    terms: &Terms,
    parts: &[Option<Arc<PartView>>],
    known: &BTreeMap<u32, Decision>,
    told: &BTreeMap<u32, Decision>,
) -> bool {
    let of_part = |part: PartId| known.range(part.slips(terms.count)).count();
    told.keys().any(|slip| !known.contains_key(slip))
        || terms
            .id
            .parts()
            .zip(parts)
            .any(|(part, look)| look.as_ref().is_some_and(|look| look.decided_count as usize > of_part(part)))
}

fn seen_bytes(seen: &Arc<Seen>) -> usize {
    let parts = seen.parts.iter().flatten().map(|part| part.claims.len() + part.holds.len());
    bytes(seen.decisions.len() + parts.sum::<usize>())
}

fn decided_bytes(snapshot: &Arc<PacketSnapshot>) -> usize {
    bytes(snapshot.claims.as_ref().map_or(0, Vec::len))
}

/// About what so many decisions or claims take.
const fn bytes(rows: usize) -> usize {
    512 + rows * 128
}
