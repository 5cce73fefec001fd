//! What viewers see of a packet, as a function of what was read of it. Pure code.
//!
//! A view reads these groups of the ledger:
//!
//! | packet | groups |
//! |---|---|
//! | of up to 2,000 slips | all |
//! | larger, and it can be grabbed | those of silent parts; for a list also those of which a part knows a decision |
//! | larger, and it is over, or every slip may be decided | all: only the ledger knows refunds, and that nothing is left |
//!
//! A group that was read before is used again for ever if all of its slips are decided, and else for a while. A list, and the sums of a
//! packet that is over, do not use it if a part knows a decision that it lacks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::PacketView;
use crate::domain::{Amount, Claim, Decision, End, Hold, Summary, Terms, Timestamp, UserId};
use crate::ledger::keys::SLIPS_PER_KEY;
use crate::ports::PartState;

/// A packet with more slips than this is large: while it is open, its sums come from what the parts know alone.
pub const SMALL_SLIPS_MAX: u32 = 2_000;

/// A set of slips: a number for each group, and in it a bit for each slip.
#[derive(Clone, Debug, Default)]
pub struct SlipSet(Vec<u64>);

impl SlipSet {
    /// Adds a slip. Returns whether it is new.
    fn insert(&mut self, slip: u32) -> bool {
        let group = (slip / SLIPS_PER_KEY) as usize;
        self.0.resize(self.0.len().max(group + 1), 0);
        let is_new = self.0[group] & bit(slip) == 0;
        self.0[group] |= bit(slip);
        is_new
    }

    fn contains(&self, slip: u32) -> bool {
        self.group(slip / SLIPS_PER_KEY) & bit(slip) != 0
    }

    /// The slips of a group.
    pub fn group(&self, group: u32) -> u64 {
        self.0.get(group as usize).copied().unwrap_or(0)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// The bit of a slip in its group.
const fn bit(slip: u32) -> u64 {
    1 << (slip % SLIPS_PER_KEY)
}

/// 64 neighbouring slips, as the ledger had them.
#[derive(Debug)]
pub struct Group {
    /// Their decisions, in slip order.
    decisions: Vec<Decision>,
    /// Whether all of them are decided.
    is_decided: bool,
    /// The slips for which this read is an answer: it found their decision, or began after a part knew of one.
    answered: u64,
    read_at: Instant,
}

impl Group {
    /// What a read of `size` slips found that began at `read_at`, after the parts had said that they know the decisions of the slips
    /// `known`.
    pub fn new(decisions: Vec<Decision>, size: u32, known: u64, read_at: Instant) -> Self {
        let answered = decisions.iter().fold(known, |bits, decision| bits | bit(decision.slip));
        Self { is_decided: decisions.len() == size as usize, decisions, answered, read_at }
    }

    /// Its claims, in slip order.
    pub fn claims(&self) -> impl Iterator<Item = (&UserId, Claim)> {
        self.decisions.iter().filter_map(Decision::claim)
    }

    /// The number of its decisions.
    pub const fn decided_count(&self) -> usize {
        self.decisions.len()
    }

    /// Whether it is used again for `need`, at most for `life`, while the parts know the decisions of the slips `known`.
    pub fn is_usable(&self, known: u64, need: Need, life: Duration) -> bool {
        let is_current = need == Need::Sums || known & !self.answered == 0;
        self.is_decided || is_current && self.read_at.elapsed() < life
    }
}

/// What a view needs of the decisions of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// The sums, while it can be grabbed: what the parts know is claimed, because nothing goes back yet.
    Sums,
    /// Each of them.
    Each,
}

/// Groups that were read, by their number.
pub type Groups = BTreeMap<u32, Arc<Group>>;

/// The states of a packet's parts, together.
#[derive(Clone, Debug, Default)]
pub struct JointState {
    /// The slips for which the ledger answers: those of parts that do not answer, or are not loaded; or all.
    for_ledger: Vec<Range<u32>>,
    /// The slips whose decision is known.
    pub known: SlipSet,
    /// The holds of a packet whose winners are answered on the hot store's word. Settle will make claims of them.
    promises: Vec<Hold>,
    is_closed: bool,
    /// Whether the packet has expired by the hot store's clock.
    pub is_past: bool,
    /// What was given out before this time is known or held.
    pub as_of: Timestamp,
}

impl JointState {
    /// That of parts that were not asked: the ledger answers for all slips.
    pub fn unknown() -> Self {
        Self::default().with_ledger_for_all()
    }

    /// What the states of `parts` say, each with its slips. They were read after `now`.
    pub fn of(terms: &Terms, now: Timestamp, parts: Vec<(Range<u32>, Option<PartState>)>, promises: Vec<Hold>) -> Self {
        let mut all = Self { promises, as_of: now, ..Self::default() };
        for (slips, state) in parts {
            let Some(state) = state else {
                all.for_ledger.push(slips);
                continue;
            };
            for slip in state.known_places().map(|place| slips.start + place).take_while(|slip| *slip < slips.end) {
                all.known.insert(slip);
            }
            all.is_closed |= state.is_closed;
            all.is_past |= state.now >= terms.expires_at;
            all.as_of = all.as_of.min(state.now);
        }
        all
    }

    /// Whether every part says that the packet is not closed.
    pub fn is_open(&self) -> bool {
        self.for_ledger.is_empty() && !self.is_closed
    }

    /// Whether every slip of a packet of `count` may be decided.
    pub fn may_be_all(&self, count: u32) -> bool {
        self.known.len() + self.for_ledger.iter().map(ExactSizeIterator::len).sum::<usize>() >= count as usize
    }

    /// The same, where the ledger answers for all slips too.
    #[must_use]
    pub fn with_ledger_for_all(self) -> Self {
        Self { for_ledger: std::iter::once(0..u32::MAX).collect(), ..self }
    }

    /// The groups of `slips` to read for `need`.
    pub fn groups_to_read(&self, terms: &Terms, slips: &Range<u32>, need: Need) -> Vec<u32> {
        let is_needed = |group: &u32| {
            let group = group * SLIPS_PER_KEY..(group + 1) * SLIPS_PER_KEY;
            let is_for_ledger =
                || self.for_ledger.iter().any(|slips| slips.start < group.end && group.start < slips.end);
            let is_known = || group.clone().any(|slip| slips.contains(&slip) && self.known.contains(slip));
            terms.count <= SMALL_SLIPS_MAX || is_for_ledger() || need == Need::Each && is_known()
        };
        (slips.start / SLIPS_PER_KEY..slips.end.div_ceil(SLIPS_PER_KEY)).filter(is_needed).collect()
    }

    /// The slips that count as claimed though `groups` have no decision of them: a part knows one, and the ledger was not asked since;
    /// or they were promised.
    pub fn beyond(&self, groups: &Groups) -> Vec<u32> {
        let mut beyond: Vec<u32> = self.promises.iter().map(|promise| promise.slip).collect();
        for (number, known) in (0..).zip(&self.known.0) {
            let answered = groups.get(&number).map_or(0, |group| group.answered);
            let slips = number * SLIPS_PER_KEY..(number + 1) * SLIPS_PER_KEY;
            beyond.extend(slips.filter(|slip| known & !answered & bit(*slip) != 0));
        }
        beyond
    }
}

/// What all viewers of a packet see.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How it has ended.
    pub end: End,
    /// The sums. The best claim is among them once every slip is decided.
    pub summary: Summary,
    /// Whether the ledger has a decision for every slip.
    pub is_decided: bool,
    /// The slips that the sums count, unless every slip is decided.
    in_sums: SlipSet,
    /// What the parts know, unless every slip is decided.
    pub joint: JointState,
    /// What winners were promised, unless every slip is decided.
    pub promises: Vec<(UserId, Claim)>,
}

impl Shared {
    /// What is to see of a packet of which every slip is decided.
    pub fn decided(end: End, summary: Summary) -> Self {
        let (joint, in_sums) = (JointState::unknown(), SlipSet::default());
        Self { end, summary, is_decided: true, in_sums, joint, promises: Vec::new() }
    }

    /// What is to see of a packet with these terms and this end, of which `groups` were read, and the parts knew this. `amount` tells what
    /// is in a slip.
    pub fn of<F>(terms: &Terms, end: End, joint: JointState, groups: &Groups, amount: F) -> Self
    where
        F: Fn(u32) -> Option<Amount>,
    {
        let decisions = || groups.values().flat_map(|group| &group.decisions);
        let summary = Summary::of(decisions());
        if summary.decided_count() == terms.count {
            return Self::decided(end, summary);
        }
        let (mut summary, mut in_sums) = (Summary { best: None, ..summary }, SlipSet::default());
        for decision in decisions() {
            in_sums.insert(decision.slip);
        }
        for slip in joint.beyond(groups) {
            if let Some(amount) = amount(slip).filter(|_| in_sums.insert(slip)) {
                add(&mut summary, amount);
            }
        }
        let promise =
            |hold: &Hold| Some((hold.user.clone(), Claim { slip: hold.slip, amount: amount(hold.slip)?, at: hold.at }));
        let promises = joint.promises.iter().filter_map(promise).collect();
        Self { end, summary, is_decided: false, in_sums, joint, promises }
    }

    /// What a viewer sees at `now`. Their own claim is read last, because a promise may have become one. It counts even if no part knows of
    /// it yet.
    pub fn for_viewer(
        &self,
        viewer: Option<&UserId>,
        own: Option<Claim>,
        terms: Arc<Terms>,
        now: Timestamp,
    ) -> PacketView {
        let promised = || self.promises.iter().find(|(user, _)| Some(user) == viewer).map(|(_, claim)| claim.clone());
        let (mine, mut summary) = (own.or_else(promised), self.summary.clone());
        if let Some(mine) = mine.as_ref().filter(|mine| !self.is_decided && !self.in_sums.contains(mine.slip)) {
            add(&mut summary, mine.amount);
        }
        PacketView { mine, ..PacketView::new(terms, &self.end, summary, self.is_decided, now) }
    }
}

fn add(summary: &mut Summary, claimed: Amount) {
    summary.claimed_count += 1;
    summary.claimed_amount = [summary.claimed_amount, claimed].into_iter().sum();
}

#[cfg(test)]
mod tests;
