//! The evidence about a packet: the reports of its parts, compared with the ledger's decisions. This is pure code: it says what
//! to read, and what to show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::{AckMode, Amount, Amounts, Claim, Decision, Owner, PartId, Summary, Terms, UserId};
use crate::ports::PartView;

/// A packet's claims at one moment, and their sums.
#[derive(Debug)]
pub struct PacketSnapshot {
    /// The claims in slip order. `None`: the packet is settled and large, so readers ask the ledger for the claims that they want.
    pub claims: Option<Vec<(UserId, Claim)>>,
    /// The sums. The best claim is the best that the ledger knows.
    pub summary: Summary,
    /// Whether the ledger has a decision for every slip: then nothing of this changes any more.
    pub is_decided: bool,
    /// Whether the packet had expired before any of this was read.
    pub is_past: bool,
}

/// Slip decisions, by slip.
pub type Decisions = BTreeMap<u32, Decision>;

/// What a part reported; `None`: it is not loaded, or the hot store does not answer.
pub type Report = Option<Arc<PartView>>;

/// The evidence about a packet: the decisions that were read from the ledger, and the reports of its parts.
pub struct Evidence<'a> {
    terms: &'a Terms,
    reports: &'a [Report],
    /// The recorded amounts of the parts that [`needs_amounts`] names.
    amounts: BTreeMap<PartId, Arc<Amounts>>,
    known: Decisions,
    /// The claims that the parts report beside `known`. `None`: they contradict the recorded amounts, the ledger or each other.
    reported: Option<Decisions>,
}

/// Whether a part reports something that its recorded amounts must confirm.
pub fn needs_amounts(terms: &Terms, part: PartId, view: &PartView, known: &Decisions) -> bool {
    let slips = part.slips(terms.count);
    let is_new = |claim: &Claim| slips.contains(&claim.slip) && !known.contains_key(&claim.slip);
    view.claims.values().any(is_new) || terms.ack == AckMode::Redis && !view.holds.is_empty()
}

impl<'a> Evidence<'a> {
    /// Compares `reports`, one for each part, with the decisions that are `known`.
    pub fn new(
        terms: &'a Terms,
        reports: &'a [Report],
        amounts: BTreeMap<PartId, Arc<Amounts>>,
        known: Decisions,
    ) -> Self {
        let mut evidence = Self { terms, reports, amounts, known, reported: None };
        evidence.reported = evidence.reported_claims();
        evidence
    }

    fn views(&self) -> impl Iterator<Item = (PartId, &'a PartView)> {
        self.terms.id.parts().zip(self.reports).filter_map(|(part, report)| Some((part, &**report.as_ref()?)))
    }

    fn amount(&self, part: PartId, slip: u32) -> Option<Amount> {
        let slips = part.slips(self.terms.count);
        let place = slips.contains(&slip).then(|| (slip - slips.start) as usize)?;
        self.amounts.get(&part)?.get(place)
    }

    fn reported_claims(&self) -> Option<Decisions> {
        let mut reported = Decisions::new();
        let mut owners: BTreeSet<&UserId> = owners(&self.known);
        for (part, view) in self.views() {
            let slips = part.slips(self.terms.count);
            // A part also has claims of slips of other parts, which report them too.
            for (user, claim) in view.claims.iter().filter(|(_, claim)| slips.contains(&claim.slip)) {
                let decision = claim.decision(user);
                match self.known.get(&claim.slip) {
                    Some(known) if *known == decision => continue,
                    Some(_) => return None,
                    None => {}
                }
                let is_recorded = self.amount(part, claim.slip) == Some(claim.amount);
                if !is_recorded || !owners.insert(user) || reported.insert(claim.slip, decision).is_some() {
                    return None;
                }
            }
        }
        Some(reported)
    }

    /// The slips whose decisions must be read: those of parts without a report, and held slips of a packet whose winners are
    /// answered after the commit. Such a hold may be a claim by now, if its part was not reconciled.
    pub fn doubtful(&self) -> BTreeSet<u32> {
        let Some(reported) = &self.reported else { return BTreeSet::new() };
        let mut slips = BTreeSet::new();
        for (part, report) in self.terms.id.parts().zip(self.reports) {
            let here = part.slips(self.terms.count);
            match report {
                None => slips.extend(here),
                Some(view) if self.terms.ack == AckMode::Ledger => {
                    slips.extend(view.holds.iter().map(|hold| hold.slip).filter(|slip| here.contains(slip)));
                }
                Some(_) => {}
            }
        }
        slips.retain(|slip| !self.known.contains_key(slip) && !reported.contains_key(slip));
        slips
    }

    /// Adds decisions that were read from the ledger.
    pub fn add(&mut self, decisions: impl IntoIterator<Item = Decision>) {
        self.known.extend(decisions.into_iter().map(|decision| (decision.slip, decision)));
    }

    /// Whether all decisions must be read. That is so if the reports contradict something, if they say that every slip is gone, or
    /// if they have news of a packet that has expired.
    pub fn needs_ledger(&self, is_past: bool) -> bool {
        let Some(reported) = &self.reported else { return true };
        let news = reported.keys().filter(|slip| !self.known.contains_key(slip)).count();
        let is_complete = self.known.len() + news >= self.terms.count as usize;
        let of_part = |part: PartId| self.known.range(part.slips(self.terms.count)).count();
        let has_news = news > 0 || self.views().any(|(part, view)| view.known_count as usize > of_part(part));
        is_complete || is_past && has_news
    }

    /// Drops the reported claims, after all decisions of the ledger were added. Returns whether they agreed with the ledger.
    pub fn go_by_ledger(&mut self) -> bool {
        let is_so = |(slip, reported): (&u32, &Decision)| self.known.get(slip) == Some(reported);
        let agrees = self.reported.as_ref().is_some_and(|reported| reported.iter().all(is_so));
        self.reported = None;
        agrees
    }

    /// The snapshot to show, and the decisions that were read from the ledger.
    pub fn snapshot(self, is_past: bool) -> (PacketSnapshot, Decisions) {
        let is_decided = self.known.len() == self.terms.count as usize;
        let mut shown = self.known.clone();
        shown.extend(self.reported.iter().flatten().map(|(slip, decision)| (*slip, decision.clone())));
        if self.terms.ack == AckMode::Redis && !is_decided {
            let promised = self.promised(&shown);
            shown.extend(promised);
        }
        let summary = Summary { best: Summary::of(self.known.values()).best, ..Summary::of(shown.values()) };
        let claims = shown.values().filter_map(|decision| decision.claim().map(|(user, claim)| (user.clone(), claim)));
        (PacketSnapshot { claims: Some(claims.collect()), summary, is_decided, is_past }, self.known)
    }

    /// The holds of a packet whose winners were answered on the hot store's word. Settle will make claims of them.
    fn promised(&self, shown: &Decisions) -> Decisions {
        let mut owners = owners(shown);
        let mut promised = Decisions::new();
        for (part, view) in self.views() {
            for hold in view.holds.iter().filter(|hold| !shown.contains_key(&hold.slip)) {
                // A slip that does not exist gives nobody anything.
                let Some(amount) = self.amount(part, hold.slip) else { continue };
                if owners.insert(&hold.user) {
                    let owner = Owner::User(hold.user.clone());
                    promised.insert(hold.slip, Decision { slip: hold.slip, owner, amount, at: hold.at });
                }
            }
        }
        promised
    }
}

fn owners(decisions: &Decisions) -> BTreeSet<&UserId> {
    decisions.values().filter_map(|decision| decision.owner.user()).collect()
}

/// Whether a part that is still loaded has lost a claim that it reported before. Then it was rolled back, nobody knows how far.
pub fn has_forgotten(before: &[Report], now: &[Report]) -> bool {
    before.iter().zip(now).any(|reports| match reports {
        (Some(before), Some(now)) => {
            !Arc::ptr_eq(before, now) && !before.claims.keys().all(|user| now.claims.contains_key(user))
        }
        _ => false,
    })
}
