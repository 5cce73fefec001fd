//! What viewers may see of a packet, as a function of what was read of it. Pure code.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::PacketView;
use crate::domain::{Amount, Claim, Decision, End, Hold, Status, Summary, Terms, Timestamp, UserId};
use crate::ledger::keys::SLIPS_PER_KEY;
use crate::ports::PartReport;

/// A packet with more slips than this is large: while it is open, its sums come from what the parts report alone.
pub const SMALL_SLIPS_MAX: u32 = 2_000;
/// How long a process uses what it read of a group with undecided slips.
const GROUP_LIFE: Duration = Duration::from_secs(1);
/// Groups of one packet that views of its sums read again in [`GROUP_LIFE`].
const GROUPS_A_SECOND: usize = 64;

/// A set of slips: a number for each group, and in it a bit for each slip.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SlipSet(Vec<u64>);

impl SlipSet {
    /// Adds a slip. Returns whether it is new.
    fn insert(&mut self, slip: u32) -> bool {
        let (group, bit) = ((slip / SLIPS_PER_KEY) as usize, 1 << (slip % SLIPS_PER_KEY));
        self.0.resize(self.0.len().max(group + 1), 0);
        let is_new = self.0[group] & bit == 0;
        self.0[group] |= bit;
        is_new
    }

    fn contains(&self, slip: u32) -> bool {
        self.group(slip / SLIPS_PER_KEY) & 1 << (slip % SLIPS_PER_KEY) != 0
    }

    /// The slips of a group.
    pub fn group(&self, group: u32) -> u64 {
        self.0.get(group as usize).copied().unwrap_or(0)
    }

    fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }
}

/// 64 neighbouring slips, as the ledger had them.
#[derive(Debug)]
pub struct Group {
    /// Their decisions, in slip order.
    decisions: Vec<Decision>,
    decided: u64,
    /// Slips of which a part had reported a decision, before the read, that the ledger does not have.
    refuted: u64,
    read_at: Instant,
}

impl Group {
    /// What a read found that began at `read_at`, after the parts had reported that they know the decisions of the slips `known`.
    pub fn new(decisions: Vec<Decision>, known: u64, read_at: Instant) -> Self {
        let decided = decisions.iter().fold(0, |bits, decision| bits | 1 << (decision.slip % SLIPS_PER_KEY));
        Self { decisions, decided, refuted: known & !decided, read_at }
    }

    /// Its claims, in slip order.
    pub fn claims(&self) -> impl Iterator<Item = (&UserId, Claim)> {
        self.decisions.iter().filter_map(Decision::claim)
    }

    /// The number of its decisions.
    pub const fn decided_count(&self) -> usize {
        self.decisions.len()
    }
}

/// What a view needs of the decisions of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// The sums, while it can be grabbed: what the parts know is claimed, because nothing goes back yet.
    Sums,
    /// The claims that the parts know.
    Claims,
    /// All that the ledger has: it may have been refunded, and only the ledger says that every slip is decided.
    All,
}

/// Groups that were read, by their number.
pub type Groups = BTreeMap<u32, Arc<Group>>;

/// What the parts of a packet report, together.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The slips of parts that do not answer, or are not loaded.
    silent: Vec<Range<u32>>,
    /// The slips whose decision is known.
    pub known: SlipSet,
    /// The holds of a packet whose winners are answered on the hot store's word. Settle will make claims of them.
    promises: Vec<Hold>,
    is_closed: bool,
    /// Whether a part holds slips of which the ledger may have a claim by now.
    has_holds: bool,
    /// The times of the reports.
    times: Vec<Timestamp>,
}

impl Reported {
    /// What `reports` say, each of a part with these slips.
    pub fn of(reports: Vec<(Range<u32>, Option<PartReport>)>, promises: Vec<Hold>) -> Self {
        let mut all = Self { promises, ..Self::default() };
        for (slips, report) in reports {
            let Some(report) = report else {
                all.silent.push(slips);
                continue;
            };
            for slip in report.known_places().map(|place| slips.start + place).take_while(|slip| *slip < slips.end) {
                all.known.insert(slip);
            }
            all.is_closed |= report.is_closed;
            all.has_holds |= report.held_count > 0;
            all.times.push(report.now);
        }
        all
    }

    /// Whether nothing hints at an end: every part reports that the packet can be grabbed, and is not closed.
    pub fn is_calm(&self, terms: &Terms) -> bool {
        self.silent.is_empty() && !self.is_closed && self.known.len() < terms.count && !self.is_past(terms)
    }

    /// Whether the packet has expired by the hot store's clock.
    pub fn is_past(&self, terms: &Terms) -> bool {
        self.times.iter().any(|now| *now >= terms.expires_at)
    }

    /// The time before which every slip was given out that has a claim, if the parts tell.
    pub fn given_out_before(&self) -> Option<Timestamp> {
        if self.silent.is_empty() && !self.has_holds { self.times.iter().copied().min() } else { None }
    }

    fn is_silent(&self, group: u32) -> bool {
        let (start, end) = (group * SLIPS_PER_KEY, (group + 1) * SLIPS_PER_KEY);
        self.silent.iter().any(|slips| slips.start < end && start < slips.end)
    }

    /// The groups of `slips` to read for a view. While a large packet can be grabbed, these are the groups of parts that do not report,
    /// and for claims those of which a part knows one.
    pub fn groups_to_read(&self, terms: &Terms, slips: &Range<u32>, need: Need) -> Vec<u32> {
        let is_needed = |group: &u32| {
            let here = |bit: &u32| slips.contains(&(group * SLIPS_PER_KEY + bit));
            let has_some = || (0..SLIPS_PER_KEY).filter(here).any(|bit| self.known.group(*group) & 1 << bit != 0);
            let is_known = || need == Need::Claims && has_some();
            terms.count <= SMALL_SLIPS_MAX || need == Need::All || self.is_silent(*group) || is_known()
        };
        (slips.start / SLIPS_PER_KEY..slips.end.div_ceil(SLIPS_PER_KEY)).filter(is_needed).collect()
    }

    /// What the sums of a packet need. If only silent parts could have an open slip, the ledger tells whether one is left.
    pub fn need_of_sums(&self, terms: &Terms, end: &End) -> Need {
        let silent: usize = self.silent.iter().map(ExactSizeIterator::len).sum();
        if end.is_over() || self.known.len() as usize + silent >= terms.count as usize { Need::All } else { Need::Sums }
    }

    /// The rule by which a group that was read before is used. If all of its slips are decided, it is used for ever. If not, it is used
    /// for a second, or longer if it is one of very many (`of`). A view that needs each claim does not use it if a part knows a
    /// decision that it lacks.
    pub fn is_usable(&self, group: &Group, number: u32, terms: &Terms, need: Need, of: usize) -> bool {
        let size = SLIPS_PER_KEY.min(terms.count - number * SLIPS_PER_KEY);
        let life = GROUP_LIFE * u32::try_from(of.div_ceil(GROUPS_A_SECOND)).unwrap_or(u32::MAX);
        let lacks = self.known.group(number) & !group.decided & !group.refuted != 0;
        group.decided.count_ones() == size || group.read_at.elapsed() < life && !(need != Need::Sums && lacks)
    }

    /// The slips that count as claimed though `groups` have no decision of them: a part knows one, and the ledger was not asked since;
    /// or they were promised.
    pub fn beyond(&self, groups: &Groups) -> Vec<u32> {
        let mut beyond = Vec::new();
        for (number, known) in (0..).zip(&self.known.0) {
            let read = groups.get(&number).map_or(0, |group| group.decided | group.refuted);
            let bits = (0..SLIPS_PER_KEY).filter(|bit| known & !read & 1 << bit != 0);
            beyond.extend(bits.map(|bit| number * SLIPS_PER_KEY + bit));
        }
        beyond.extend(self.promises.iter().map(|promise| promise.slip));
        beyond
    }
}

/// What all viewers of a packet see.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// How it has ended.
    pub end: End,
    /// The sums. The best claim is among them once every slip is decided.
    pub summary: Summary,
    /// Whether the ledger has a decision for every slip.
    pub is_decided: bool,
    /// The slips that the sums count, unless every slip is decided.
    counted: SlipSet,
    /// What the parts report, unless every slip is decided.
    pub reported: Reported,
    /// What winners were promised, unless every slip is decided.
    pub promises: Vec<(UserId, Claim)>,
}

impl Look {
    /// What is to see of a packet of which every slip is decided.
    pub fn decided(end: End, summary: Summary) -> Self {
        Self {
            end,
            summary,
            is_decided: true,
            reported: Reported::of(vec![(0..u32::MAX, None)], Vec::new()),
            ..Self::default()
        }
    }

    /// What is to see of a packet with these terms and this end, of which `groups` were read, and the parts reported this. `amount`
    /// tells what is in a slip.
    pub fn of<F>(terms: &Terms, end: End, reported: Reported, groups: &Groups, amount: F) -> Self
    where
        F: Fn(u32) -> Option<Amount>,
    {
        let decisions = || groups.values().flat_map(|group| &group.decisions);
        let (summary, mut counted) = (Summary::of(decisions()), SlipSet::default());
        if summary.decided_count() == terms.count {
            return Self::decided(end, summary);
        }
        for decision in decisions() {
            counted.insert(decision.slip);
        }
        let promise =
            |hold: &Hold| Some((hold.user.clone(), Claim { slip: hold.slip, amount: amount(hold.slip)?, at: hold.at }));
        let promises = reported.promises.iter().filter_map(promise).collect();
        let summary = Summary { best: None, ..summary };
        let mut look = Self { end, summary, is_decided: false, counted, reported, promises };
        for slip in look.reported.beyond(groups) {
            if let Some(amount) = amount(slip).filter(|_| look.counted.insert(slip)) {
                add(&mut look.summary, amount);
            }
        }
        look
    }

    /// What a viewer sees at `now`, whose claim was read after the rest: settle makes claims of promises. Their own claim counts even if
    /// no part knows of it yet.
    pub fn seen_by(
        &self,
        viewer: Option<&UserId>,
        own: Option<Claim>,
        terms: Arc<Terms>,
        now: Timestamp,
    ) -> PacketView {
        let promised = || self.promises.iter().find(|(user, _)| Some(user) == viewer).map(|(_, claim)| claim.clone());
        let (mine, mut summary) = (own.or_else(promised), self.summary.clone());
        if let Some(mine) = mine.as_ref().filter(|mine| !self.is_decided && !self.counted.contains(mine.slip)) {
            add(&mut summary, mine.amount);
        }
        let status = Status::of(&terms, &self.end, summary.claimed_count, now);
        let End { closed_at, is_settled, .. } = self.end;
        PacketView {
            terms,
            status,
            closed_at,
            closing: None,
            summary,
            mine,
            won: None,
            next: None,
            is_decided: self.is_decided,
            is_final: is_settled,
        }
    }
}

fn add(summary: &mut Summary, claimed: Amount) {
    summary.claimed_count += 1;
    summary.claimed_amount = [summary.claimed_amount, claimed].into_iter().sum();
}

#[cfg(test)]
mod tests;
