//! The evidence about a packet: what its parts reported, and the ledger's decisions that were read. This is pure code: it says what
//! to read, and what to show.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::allowance::Allowance;
use super::slips::{Moment, Slips, Source};
use crate::domain::{AckMode, Amounts, Best, Claim, Decision, Hold, Owner, PartId, Summary, Terms, Timestamp, UserId};
use crate::ports::PartView;

/// How long a process believes the hot store about a group of slips before it reads the group again.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The age from which a hold is read. Until then its grab commits it, and reconciles the part.
const HOLD_AGE: Duration = Duration::from_secs(1);
/// A packet with more slips than this is large: an allowance bounds its reads. It is not read as a whole for a list. If it is
/// settled, its item has the sums.
pub const SMALL_SLIPS_MAX: u32 = 2_000;
/// How often a process looks whether a large packet that has expired is settled.
const SETTLED_INTERVAL: Duration = Duration::from_secs(1);
/// The weight, among groups of weight 1, of a group whose slips are given out now.
const FRONT_WEIGHT: u32 = 64;
/// For how long before the newest claim the list of what is newer repeats claims, at most. A hold that waits for longer, and a part that
/// is silent for longer, may add claims that it lacks.
const REPEATED: Duration = Duration::from_secs(5);
/// About the bytes of a report without holds: its version, and a bit for each of at most 6,250 slips.
const REPORT_BYTES: usize = 1_024;
/// The age of what was never read.
const NEVER: Duration = Duration::from_hours(1);

/// Whether the groups of a large packet that were never read are read now.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Depth {
    /// All of them are read.
    Whole,
    /// Those of parts that report are not: the hot store is believed.
    Reported,
}

/// A piece of a list of claims.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// In slip order, from this slip on.
    From(u32),
    /// The newest first: after the one place and before the other.
    Newest {
        /// The place of an older claim.
        after: Option<Moment>,
        /// The place of a newer claim.
        before: Option<Moment>,
    },
}

/// How much a group needs to be read, the least first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Need {
    /// The hot store was believed for some time. With the time since the last read, which counts more where slips are given out.
    Check(Duration),
    /// Something shows that the hot store lacks or invents a claim. With the same time.
    Soon(Duration),
    /// Without it nothing right can be shown.
    Now,
}

/// When a question began, by a clock of the evidence that counts questions and answers.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tick(u64);

/// The evidence about a packet.
#[derive(Debug)]
pub struct Evidence {
    count: u32,
    ack: AckMode,
    slips: Slips,
    parts: Vec<Part>,
    tick: Tick,
    allowance: Allowance,
    /// Whether claims of a large packet may be missing, because its allowance was used up or a part did not report.
    is_behind: bool,
    /// Whether the packet had expired before a read of it began.
    is_past: bool,
    /// The sums in a large packet's item, once it is settled; and when they were looked for.
    settled: Option<Summary>,
    settled_looked_at: Option<Instant>,
    best: Option<Best>,
}

/// What is known of a part, beside its slips.
#[derive(Debug)]
struct Part {
    slips: Range<u32>,
    /// When the question began that was answered last.
    asked: Tick,
    /// When that answer came.
    heard: Tick,
    /// The hot store's time at the last report, or when nothing had changed since.
    now: Timestamp,
    /// Whether the last answer was a report, or that nothing has changed since the last one.
    is_reported: bool,
    /// The last report.
    report: Option<Report>,
    /// Groups that were read before this must be read again: the part was lost or rolled back, or it contradicts something.
    suspect_since: Option<Instant>,
    /// Claims that are not shown until the ledger confirms them, because the part has reported something that it refutes.
    doubted: Vec<Decision>,
    /// Slips that the ledger has decided.
    decided: u32,
    /// The slip after the last one that is known to be given out.
    front: u32,
}

/// What is kept of a part's report.
#[derive(Debug)]
struct Report {
    version: String,
    is_closed: bool,
    known_count: u32,
    /// The slips of the part that it reports as claimed: one bit for each.
    claimed: Vec<u64>,
    /// The holds by slip, and since when this process knows each. Those that are promises are shown, and not kept here.
    holds: BTreeMap<u32, (Hold, Instant)>,
}

impl Evidence {
    /// The evidence about the packet with these terms, of which nothing is known.
    pub fn new(terms: &Terms) -> Self {
        let part = |part: PartId| {
            let slips = part.slips(terms.count);
            Part {
                front: slips.start,
                slips,
                asked: Tick::default(),
                heard: Tick::default(),
                now: Timestamp::default(),
                is_reported: false,
                report: None,
                suspect_since: None,
                doubted: Vec::new(),
                decided: 0,
            }
        };
        Self {
            count: terms.count,
            ack: terms.ack,
            slips: Slips::new(terms.count),
            parts: terms.id.parts().map(part).collect(),
            tick: Tick::default(),
            allowance: Allowance::default(),
            is_behind: false,
            is_past: false,
            settled: None,
            settled_looked_at: None,
            best: None,
        }
    }

    const fn is_large(&self) -> bool {
        self.count > SMALL_SLIPS_MAX
    }

    /// Whether the ledger has a decision for every slip: then nothing of this changes any more.
    pub fn is_decided(&self) -> bool {
        self.settled.is_some() || self.slips.decided() == self.count
    }

    /// Whether a part reports that the packet is closed, if all of them report, or if every slip is decided.
    pub fn says_closed(&self) -> Option<bool> {
        let says = |part: &Part| part.is_reported && part.report.as_ref().is_some_and(|report| report.is_closed);
        if self.parts.iter().any(says) {
            Some(true)
        } else if self.is_decided() || self.parts.iter().all(|part| part.is_reported) {
            Some(false)
        } else {
            None
        }
    }

    /// Whether the packet had expired before a read of it began.
    pub const fn is_past(&self) -> bool {
        self.is_past
    }

    /// The sums of what is shown. The best claim is among them once every slip is decided.
    pub fn summary(&self) -> Summary {
        self.settled.clone().unwrap_or_else(|| Summary { best: self.best.clone(), ..self.slips.sums().clone() })
    }

    /// A user's claim.
    pub fn claim_of(&self, user: &UserId) -> Option<Claim> {
        self.slips.claim_of(user).map(|(claim, _)| claim)
    }

    /// Up to `limit` claims of a piece of the list.
    pub fn claims(&self, span: Span, limit: usize) -> Vec<(UserId, Claim)> {
        match span {
            Span::From(start) => self.slips.claims(start..self.count, limit),
            Span::Newest { after, before } => self.slips.newest(after, before, limit),
        }
    }

    /// Whether claims are listed in slip order only: a large packet that is settled is not read as a whole.
    pub fn is_listed_by_slip(&self, is_past: bool) -> bool {
        self.settled.is_some() || self.is_large() && self.is_decided() && is_past
    }

    /// The place of the newest claim that is known.
    pub fn newest(&self) -> Option<Moment> {
        self.slips.newest_place()
    }

    /// A place up to which no claim is missing, as far as can be known: claims that become known later are after it. It is not after
    /// the newest claim, so it stays where it is while nothing happens.
    pub fn complete(&self) -> Moment {
        let newest = self.newest().unwrap_or(Moment::FIRST);
        if self.is_decided() {
            return newest;
        }
        // A part has reported what it gave out before its time: claims, and holds that may still become claims.
        let held = self.parts.iter().filter_map(|part| part.report.as_ref()).flat_map(|report| report.holds.values());
        let times = self.parts.iter().map(|part| part.now).chain(held.map(|(hold, _)| hold.at));
        let complete = times.min().map_or(Moment::FIRST, Moment::before);
        complete.max(Moment::before(newest.at().before(REPEATED))).min(newest)
    }

    /// Whether a user may have a claim that is not known here: their slip is held, something could not be read, or only the sums
    /// are known.
    pub fn may_miss(&self, user: &UserId) -> bool {
        if self.is_decided() {
            return self.slips.decided() < self.count;
        }
        let mut holds =
            self.parts.iter().filter_map(|part| part.report.as_ref()).flat_map(|report| report.holds.values());
        self.is_behind || holds.any(|(hold, _)| hold.user == *user)
    }

    /// The groups that a list of `limit` claims shows, and that were never read: `many` at most. In slip order, once only the sums are
    /// known, those are all groups that are not known yet.
    pub fn unread(&self, span: Span, limit: usize, many: usize) -> Vec<u32> {
        let claims = self.claims(span, limit);
        let Span::From(start) = span else {
            let groups: BTreeSet<u32> = claims.iter().map(|(_, claim)| Slips::group_of(claim.slip)).collect();
            return groups.into_iter().filter(|group| self.slips.read_at(*group).is_none()).take(many).collect();
        };
        let is_short = claims.len() < limit;
        let end = claims.last().filter(|_| !is_short).map_or(self.count, |(_, claim)| claim.slip + 1);
        let groups = Slips::groups_of(&(start..end)).filter(|group| match &self.settled {
            Some(_) => !self.slips.is_decided(*group),
            None => self.slips.read_at(*group).is_none() && self.slips.is_begun(*group),
        });
        groups.take(many).collect()
    }

    /// Whether it is time to look whether a packet of which only the sums will be read is settled.
    pub fn looks_for_settled(&mut self, now: Instant) -> bool {
        let is_time =
            self.settled_looked_at.is_none_or(|at| now.duration_since(at) >= SETTLED_INTERVAL) && !self.is_decided();
        if is_time {
            self.settled_looked_at = Some(now);
        }
        is_time
    }

    /// Notes the sums of a settled packet.
    pub fn set_settled(&mut self, sums: Summary) {
        self.settled = Some(sums);
    }

    /// Notes that a question begins, to the ledger or the hot store.
    pub const fn begin(&mut self) -> Tick {
        self.tick.0 += 1;
        self.tick
    }

    /// The version of a part's last report.
    pub fn version(&self, part: PartId) -> Option<String> {
        self.parts.get(part.index as usize)?.report.as_ref().map(|report| report.version.clone())
    }

    /// The part that a question which began at `asked` was for, unless a later question was answered first.
    fn answered(&mut self, part: PartId, asked: Tick) -> Option<&mut Part> {
        let heard = self.begin();
        let part = self.parts.get_mut(part.index as usize).filter(|part| part.asked <= asked)?;
        (part.asked, part.heard) = (asked, heard);
        Some(part)
    }

    /// A part did not answer. Its last report is shown until the ledger was read.
    pub fn is_mute(&mut self, part: PartId, asked: Tick, now: Instant) {
        let Some(part) = self.answered(part, asked) else { return };
        if part.is_reported {
            part.suspect_since = Some(now);
        }
        part.is_reported = false;
    }

    /// A part is not loaded: the hot store has forgotten it.
    pub fn is_lost(&mut self, part: PartId, asked: Tick, now: Instant) {
        let Some(lost) = self.answered(part, asked) else { return };
        if lost.is_reported {
            lost.suspect_since = Some(now);
        }
        (lost.is_reported, lost.report, lost.now) = (false, None, Timestamp::default());
        lost.doubted.clear();
        let slips = lost.slips.clone();
        self.hide(Source::Promise, &slips);
    }

    /// A part has nothing new.
    pub fn is_unchanged(&mut self, part: PartId, asked: Tick, now: Timestamp) {
        if let Some(part) = self.answered(part, asked) {
            (part.is_reported, part.now) = (part.report.is_some(), now);
        }
    }

    /// Whether a part reports something that its recorded amounts must confirm.
    pub fn needs_amounts(&self, part: PartId, view: &PartView) -> bool {
        let slips = part.slips(self.count);
        let is_new = |claim: &Claim| slips.contains(&claim.slip) && self.slips.decision(claim.slip).is_none();
        view.claims.values().any(is_new) || self.ack == AckMode::Redis && !view.holds.is_empty()
    }

    /// A part has reported what it knows. `amounts` are those that the ledger recorded, if [`Self::needs_amounts`] says so. Returns
    /// whether the part is no longer believed, because it contradicts the ledger or itself.
    pub fn report(
        &mut self,
        part: PartId,
        asked: Tick,
        view: PartView,
        amounts: Option<&Amounts>,
        now: Instant,
    ) -> bool {
        let Some(heard) = self.answered(part, asked) else { return false };
        let slips = heard.slips.clone();
        let (before, was_doubted) = (heard.report.take(), !heard.doubted.is_empty());
        heard.doubted.clear();
        if self.ack == AckMode::Redis {
            self.hide(Source::Promise, &slips);
        }
        let amount = |slip: u32| amounts.and_then(|amounts| amounts.get((slip - slips.start) as usize));

        let mut claimed = vec![0_u64; slips.len().div_ceil(64)];
        let (mut news, mut is_consistent, mut front) = (Vec::new(), true, slips.start);
        // A part also has claims of slips of other parts, which report them too.
        for (user, claim) in view.claims.iter().filter(|(_, claim)| slips.contains(&claim.slip)) {
            let place = (claim.slip - slips.start) as usize;
            if let Some(bits) = claimed.get_mut(place / 64) {
                *bits |= 1 << (place % 64);
            }
            front = front.max(claim.slip + 1);
            let is_known = self.slips.decision(claim.slip).is_some_and(|known| {
                known.owner.user() == Some(user) && (known.amount, known.at) == (claim.amount, claim.at)
            });
            if !is_known {
                is_consistent &= self.slips.decision(claim.slip).is_none() && amount(claim.slip) == Some(claim.amount);
                news.push(claim.decision(user));
            }
        }
        let shows = |slips: &mut Slips, claim: &Decision| slips.show(claim.clone(), Source::Report);
        let is_believed = !was_doubted && is_consistent && news.iter().all(|claim| shows(&mut self.slips, claim));
        if !is_believed && !news.is_empty() {
            self.hide(Source::Report, &slips);
        }
        if self.ack == AckMode::Redis {
            // A slip that does not exist gives nobody anything.
            let here = view.holds.iter().filter(|hold| slips.contains(&hold.slip));
            for (hold, amount) in here.filter_map(|hold| Some((hold, amount(hold.slip)?))) {
                let owner = Owner::User(hold.user.clone());
                self.slips.show(Decision { slip: hold.slip, owner, amount, at: hold.at }, Source::Promise);
            }
        }

        let Some(part) = self.parts.get_mut(part.index as usize) else { return false };
        let known_since = |hold: &Hold| {
            let before = before.as_ref().and_then(|before| before.holds.get(&hold.slip));
            before.filter(|(same, _)| same.user == hold.user).map_or(now, |(_, since)| *since)
        };
        let mut holds = BTreeMap::new();
        for hold in view.holds.into_iter().filter(|hold| slips.contains(&hold.slip)) {
            front = front.max(hold.slip + 1);
            if self.ack == AckMode::Ledger {
                let since = known_since(&hold);
                holds.insert(hold.slip, (hold, since));
            }
        }
        part.front = part.front.max(front);
        let has_forgotten = before
            .as_ref()
            .is_some_and(|before| before.claimed.iter().zip(&claimed).any(|(before, now)| before & !now != 0));
        if !is_believed && !news.is_empty() {
            part.doubted = news;
        }
        let is_found_out = !part.doubted.is_empty() && !was_doubted;
        if has_forgotten || is_found_out {
            part.suspect_since = Some(now);
        }
        part.now = view.now;
        let (version, is_closed, known_count) = (view.version, view.is_closed, view.known_count);
        part.report = Some(Report { version, is_closed, known_count, claimed, holds });
        part.is_reported = true;
        is_found_out
    }

    fn hide(&mut self, source: Source, slips: &Range<u32>) {
        for slip in self.slips.shown_by(source, slips) {
            self.slips.hide(slip);
        }
    }

    /// The groups to read now, without those in `read`. A small packet gets all that it needs. A large one keeps to its allowance,
    /// except for what it needs now.
    pub fn plan(&mut self, depth: Depth, is_past: bool, read: &BTreeSet<u32>, now: Instant) -> Vec<u32> {
        if self.settled.is_some() {
            return Vec::new();
        }
        // A group may lie in two parts.
        let mut needs = BTreeMap::new();
        for part in &self.parts {
            for group in Slips::groups_of(&part.slips).filter(|group| !read.contains(group)) {
                let need = self.need(part, group, depth, is_past, now);
                needs.entry(group).and_modify(|most: &mut Option<Need>| *most = need.max(*most)).or_insert(need);
            }
        }
        let mut ranked: Vec<(Need, u32)> = needs.into_iter().filter_map(|(group, need)| Some((need?, group))).collect();
        if self.is_large() {
            ranked.sort_by_key(|(need, group)| (Reverse(*need), *group));
            let needed = ranked.partition_point(|(need, _)| *need == Need::Now);
            let most = needed + self.allowance.take(ranked.len() - needed, now);
            self.is_behind = ranked.get(most).is_some_and(|(need, _)| matches!(need, Need::Soon(_)))
                || self.parts.iter().any(|part| !part.is_reported);
            ranked.truncate(most);
        }
        ranked.into_iter().map(|(_, group)| group).collect()
    }

    /// How much a group needs to be read, of which some slips lie in `part`.
    fn need(&self, part: &Part, group: u32, depth: Depth, is_past: bool, now: Instant) -> Option<Need> {
        if self.slips.is_decided(group) {
            return None;
        }
        let (slips, read_at) = (self.slips.of_group(group), self.slips.read_at(group));
        let is_first = read_at.is_none() && (depth == Depth::Whole || !part.is_reported || !self.is_large());
        // What would end the packet is shown on the ledger's word only.
        let is_complete = self.slips.decided() + self.slips.reported() == self.count;
        if is_first || is_complete {
            return Some(Need::Now);
        }
        let is_front = self.slips.is_begun(group) || slips.contains(&part.front);
        let age = read_at.map_or(NEVER, |at| now.duration_since(at));
        let weighed = if is_front { age * FRONT_WEIGHT } else { age };

        let is_suspect = part.suspect_since.is_some_and(|since| read_at <= Some(since));
        let is_doubted = part.doubted.iter().any(|claim| slips.contains(&claim.slip));
        let report = part.report.as_ref();
        let has_news =
            self.slips.reported_in(group) > 0 || report.is_some_and(|report| report.known_count > part.decided);
        let is_old = |since: Instant| now.duration_since(since) >= HOLD_AGE && read_at < Some(since + HOLD_AGE);
        let mut held = report.into_iter().flat_map(|report| report.holds.range(slips.clone()));
        if is_suspect || is_doubted || is_past && has_news || held.any(|(_, (_, since))| is_old(*since)) {
            return Some(Need::Soon(weighed));
        }
        let is_mute = !part.is_reported && (is_front || is_past);
        (read_at.is_some() && (is_mute || age >= CHECK_INTERVAL)).then_some(Need::Check(weighed))
    }

    /// Adds the decisions of a group, from a read that began at `begun`. Returns whether it refutes a report.
    pub fn add(&mut self, group: u32, decisions: Vec<Decision>, begun: (Tick, Instant)) -> bool {
        for decision in decisions {
            self.add_one(decision);
        }
        self.slips.set_read(group, begun.1);
        let is_refuted = self.judge(group, begun.0);
        for part in &mut self.parts {
            part.doubted.retain(|claim| self.slips.decision(claim.slip) != Some(claim));
        }
        is_refuted
    }

    /// Judges the reports by a group that was read after they came. A part with a claim that the ledger does not have is not
    /// believed until the ledger has all of its claims. Returns whether there is one.
    fn judge(&mut self, group: u32, begun: Tick) -> bool {
        let mut is_refuted = false;
        for slip in self.slips.shown_by(Source::Report, &self.slips.of_group(group)) {
            let place = self.place(slip);
            let Some(part) = self.parts.get_mut(place).filter(|part| part.heard < begun) else { continue };
            is_refuted = true;
            for slip in self.slips.shown_by(Source::Report, &part.slips) {
                part.doubted.extend(self.slips.get(slip).map(|(claim, _)| claim.clone()));
                self.slips.hide(slip);
            }
        }
        is_refuted
    }

    fn place(&self, slip: u32) -> usize {
        self.parts.partition_point(|part| part.slips.end <= slip)
    }

    /// Adds a decision of the ledger.
    pub fn add_one(&mut self, decision: Decision) {
        let (slip, before) = (decision.slip, self.slips.decided());
        self.slips.show(decision, Source::Ledger);
        let place = self.place(slip);
        if let Some(part) = self.parts.get_mut(place) {
            part.decided += self.slips.decided() - before;
            part.front = part.front.max(slip + 1);
        }
        if self.best.is_none() && self.slips.decided() == self.count {
            self.best = self.slips.best();
        }
    }

    /// Ends a read of the packet that began with this knowledge of its expiry.
    pub fn conclude(&mut self, is_past: bool) {
        self.is_past |= is_past;
        if self.slips.decided() == self.count {
            self.parts.iter_mut().for_each(|part| part.report = None);
        }
    }

    /// About the bytes that all of this takes.
    pub fn bytes(&self) -> usize {
        let part = |part: &Part| {
            let doubted =
                part.doubted.iter().map(|claim| claim.owner.user().map_or(0, |user| user.as_str().len()) + 96);
            let report = part.report.as_ref().map_or(0, |report| {
                let holds = report.holds.values().map(|(hold, _)| hold.user.as_str().len() + 112);
                REPORT_BYTES + holds.sum::<usize>()
            });
            size_of::<Part>() + doubted.sum::<usize>() + report
        };
        size_of::<Self>() + self.slips.bytes() + self.parts.iter().map(part).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
