//! What a process knows of a packet's slips: one dense table in groups of the ledger's size, with an index by user. Pure code.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use foldhash::{HashMap, HashMapExt};
use tokio::time::Instant;

use crate::domain::{Amount, Best, Claim, Decision, Owner, Summary, Timestamp, UserId};
use crate::ledger::keys::SLIPS_PER_KEY;

/// About the bytes that a user's text takes beside its letters: the counts of an `Arc`, and what the allocator rounds up.
const TEXT_BYTES: usize = 24;

/// About the bytes that a place of the index takes: its entry, a byte of its own, and a share of the eighth that stays empty.
const INDEX_BYTES: usize = (size_of::<(UserId, u32)>() + 1) * 8 / 7;

/// What stands behind that which is known of a slip, the weakest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// A hold of a packet whose winners are answered on the hot store's word. Settle will make a claim of it.
    Promise,
    /// A claim that the hot store reports. The ledger was not asked yet.
    Report,
    /// The ledger's decision, which never changes.
    Ledger,
}

/// A place in the order of time: a claim's time in milliseconds, then its slip in the lowest bits. One number takes less of the cache
/// than two.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Moment(u64);

/// The bits of a slip: a packet has at most 100,000.
const SLIP_BITS: u32 = 17;
/// About the bytes that a moment takes in its set, whose nodes are half full or more.
const MOMENT_BYTES: usize = 18;

impl Moment {
    /// Before every claim.
    pub const FIRST: Self = Self(0);

    /// The place of a claim of `slip` at `at`. A time beyond 47 bits, which no clock shows, counts as the last one.
    pub fn of(at: Timestamp, slip: u32) -> Self {
        Self((at.ms().min(u64::MAX >> SLIP_BITS) << SLIP_BITS) | u64::from(slip))
    }

    /// The last place before all claims of `at` and later.
    pub fn before(at: Timestamp) -> Self {
        Self(Self::of(at, 0).0.saturating_sub(1))
    }

    /// The time.
    pub const fn at(self) -> Timestamp {
        Timestamp::from_ms(self.0 >> SLIP_BITS)
    }

    const fn slip(self) -> u32 {
        (self.0 % (1 << SLIP_BITS)) as u32
    }

    /// The place as a number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The place with this number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

#[derive(Clone, Debug)]
struct Known {
    decision: Decision,
    source: Source,
}

/// The slips whose decisions share a key of the ledger.
#[derive(Debug, Default)]
struct Group {
    /// Empty until something is known of one of them.
    slips: Vec<Option<Known>>,
    decided: u32,
    reported: u32,
    /// When the read that was merged last began.
    read_at: Option<Instant>,
}

/// The slips of a packet.
#[derive(Debug)]
pub struct Slips {
    count: u32,
    groups: Vec<Group>,
    by_user: HashMap<UserId, u32>,
    /// The claims in the order of time.
    by_time: BTreeSet<Moment>,
    decided: u32,
    reported: u32,
    /// The sums of all that is shown, without the best claim.
    sums: Summary,
    text_bytes: usize,
}

impl Slips {
    /// The slips of a packet of `count` slips, of which nothing is known.
    pub fn new(count: u32) -> Self {
        let groups = (0..count.div_ceil(SLIPS_PER_KEY)).map(|_| Group::default()).collect();
        Self {
            count,
            groups,
            by_user: HashMap::new(),
            by_time: BTreeSet::new(),
            decided: 0,
            reported: 0,
            sums: Summary::default(),
            text_bytes: 0,
        }
    }

    /// Slips that have a decision in the ledger.
    pub const fn decided(&self) -> u32 {
        self.decided
    }

    /// Claims that the hot store reports and that the ledger was not asked for.
    pub const fn reported(&self) -> u32 {
        self.reported
    }

    /// The sums of all that is shown. The best claim is not among them.
    pub const fn sums(&self) -> &Summary {
        &self.sums
    }

    /// The luckiest claim that the ledger has. This looks at every slip.
    pub fn best(&self) -> Option<Best> {
        let all = self.groups.iter().flat_map(|group| group.slips.iter().flatten());
        let claims = all.filter(|known| known.source == Source::Ledger).filter_map(|known| known.decision.claim());
        let best = claims.max_by_key(|(_, claim)| (claim.amount, Reverse((claim.at, claim.slip))));
        best.map(|(user, claim)| Best { slip: claim.slip, user: user.clone(), amount: claim.amount })
    }

    /// The groups in which `slips` lie.
    pub const fn groups_of(slips: &Range<u32>) -> Range<u32> {
        slips.start / SLIPS_PER_KEY..slips.end.div_ceil(SLIPS_PER_KEY)
    }

    /// The group of a slip.
    pub const fn group_of(slip: u32) -> u32 {
        slip / SLIPS_PER_KEY
    }

    /// The slips of a group.
    pub fn of_group(&self, group: u32) -> Range<u32> {
        let start = group * SLIPS_PER_KEY;
        start..start.saturating_add(SLIPS_PER_KEY).min(self.count)
    }

    /// Whether the ledger has decided every slip of a group, and this knows all of them: nothing of it changes any more.
    pub fn is_decided(&self, group: u32) -> bool {
        self.group(group).is_some_and(|known| known.decided as usize == self.of_group(group).len())
    }

    /// How many claims of a group the hot store reports beside the ledger's.
    pub fn reported_in(&self, group: u32) -> u32 {
        self.group(group).map_or(0, |group| group.reported)
    }

    /// Whether anything is known of a group.
    pub fn is_begun(&self, group: u32) -> bool {
        self.group(group).is_some_and(|group| group.decided + group.reported > 0)
    }

    /// When the read of a group that was merged last began.
    pub fn read_at(&self, group: u32) -> Option<Instant> {
        self.group(group)?.read_at
    }

    /// Notes that a group was read, by a read that began at `at`.
    pub fn set_read(&mut self, group: u32, at: Instant) {
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.read_at = group.read_at.max(Some(at));
        }
    }

    fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get(group as usize)
    }

    fn known(&self, slip: u32) -> Option<&Known> {
        self.group(slip / SLIPS_PER_KEY)?.slips.get((slip % SLIPS_PER_KEY) as usize)?.as_ref()
    }

    /// What is known of a slip.
    pub fn get(&self, slip: u32) -> Option<(&Decision, Source)> {
        self.known(slip).map(|known| (&known.decision, known.source))
    }

    /// The ledger's decision about a slip.
    pub fn decision(&self, slip: u32) -> Option<&Decision> {
        self.known(slip).filter(|known| known.source == Source::Ledger).map(|known| &known.decision)
    }

    /// A user's claim, and what stands behind it.
    pub fn claim_of(&self, user: &UserId) -> Option<(Claim, Source)> {
        let known = self.known(*self.by_user.get(user)?)?;
        known.decision.claim().map(|(_, claim)| (claim, known.source))
    }

    /// Up to `limit` claims of `slips`, in slip order.
    pub fn claims(&self, slips: Range<u32>, limit: usize) -> Vec<(UserId, Claim)> {
        let groups = Self::groups_of(&slips).filter_map(|group| self.group(group));
        let all = groups.flat_map(|group| group.slips.iter().flatten());
        let here = all.filter(|known| slips.contains(&known.decision.slip));
        here.filter_map(|known| known.decision.claim()).take(limit).map(|(user, claim)| (user.clone(), claim)).collect()
    }

    /// Up to `limit` claims after `after` and before `before`, the newest first.
    pub fn newest(&self, after: Option<Moment>, before: Option<Moment>, limit: usize) -> Vec<(UserId, Claim)> {
        if after.is_some() && before <= after && before.is_some() {
            return Vec::new();
        }
        let places =
            (after.map_or(Bound::Unbounded, Bound::Excluded), before.map_or(Bound::Unbounded, Bound::Excluded));
        let found = self.by_time.range(places).rev().filter_map(|place| self.known(place.slip())?.decision.claim());
        found.take(limit).map(|(user, claim)| (user.clone(), claim)).collect()
    }

    /// The place of the newest claim.
    pub fn newest_place(&self) -> Option<Moment> {
        self.by_time.last().copied()
    }

    /// Slips of `slips` that are shown because of `source`.
    pub fn shown_by(&self, source: Source, slips: &Range<u32>) -> Vec<u32> {
        let groups = Self::groups_of(slips).filter_map(|group| self.group(group));
        let all = groups.flat_map(|group| group.slips.iter().flatten());
        let theirs = all.filter(|known| known.source == source).map(|known| known.decision.slip);
        theirs.filter(|slip| slips.contains(slip)).collect()
    }

    /// Shows a decision, unless something at least as strong stands against it: another owner of the slip, or another slip of the
    /// user. Weaker entries give way. Returns whether the decision is shown now.
    pub fn show(&mut self, decision: Decision, source: Source) -> bool {
        let slip = decision.slip;
        if slip >= self.count {
            return false;
        }
        if let Some(known) = self.known(slip) {
            let is_same = known.decision == decision;
            if known.source >= source {
                return is_same;
            }
        }
        if let Some(user) = decision.owner.user()
            && let Some(other) = self.by_user.get(user).copied().filter(|other| *other != slip)
        {
            let stands = self.known(other).map(|known| known.source);
            if stands >= Some(source) && source < Source::Ledger {
                return false;
            }
            self.hide(other);
        }
        self.hide(slip);
        self.insert(decision, source);
        true
    }

    fn insert(&mut self, decision: Decision, source: Source) {
        let (slip, group) = (decision.slip, decision.slip / SLIPS_PER_KEY);
        let size = self.of_group(group).len();
        let Some(group) = self.groups.get_mut(group as usize) else { return };
        group.slips.resize(size, None);
        match source {
            Source::Ledger => (group.decided, self.decided) = (group.decided + 1, self.decided + 1),
            Source::Report => (group.reported, self.reported) = (group.reported + 1, self.reported + 1),
            Source::Promise => {}
        }
        let sums = &mut self.sums;
        let (count, amount) = match &decision.owner {
            Owner::User(user) => {
                self.text_bytes += user.as_str().len() + TEXT_BYTES;
                self.by_user.insert(user.clone(), slip);
                self.by_time.insert(Moment::of(decision.at, slip));
                (&mut sums.claimed_count, &mut sums.claimed_amount)
            }
            Owner::Refunded => (&mut sums.refunded_count, &mut sums.refunded_amount),
        };
        *count += 1;
        *amount = [*amount, decision.amount].into_iter().sum();
        if let Some(place) = group.slips.get_mut((slip % SLIPS_PER_KEY) as usize) {
            *place = Some(Known { decision, source });
        }
    }

    /// Forgets a slip, unless the ledger stands behind it.
    pub fn hide(&mut self, slip: u32) {
        let Some(group) = self.groups.get_mut((slip / SLIPS_PER_KEY) as usize) else { return };
        let Some(place) = group.slips.get_mut((slip % SLIPS_PER_KEY) as usize) else { return };
        let Some(Known { decision, source }) = place.take_if(|known| known.source < Source::Ledger) else { return };
        if source == Source::Report {
            (group.reported, self.reported) = (group.reported - 1, self.reported - 1);
        }
        // Only the ledger refunds, so this was a claim.
        if let Owner::User(user) = &decision.owner {
            self.text_bytes -= user.as_str().len() + TEXT_BYTES;
            self.by_user.remove(user);
            self.by_time.remove(&Moment::of(decision.at, slip));
            let sums = &mut self.sums;
            sums.claimed_count -= 1;
            sums.claimed_amount = sums.claimed_amount.checked_sub(decision.amount).unwrap_or(Amount::ZERO);
        }
    }

    /// About the bytes that all of this takes.
    pub fn bytes(&self) -> usize {
        let places: usize = self.groups.iter().map(|group| group.slips.capacity()).sum();
        let (index, times) = (self.by_user.capacity() * INDEX_BYTES, self.by_time.len() * MOMENT_BYTES);
        self.groups.len() * size_of::<Group>() + places * size_of::<Option<Known>>() + index + times + self.text_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Timestamp;

    fn decision(slip: u32, user: Option<u32>) -> Decision {
        let owner = user.map_or(Owner::Refunded, |n| Owner::User(format!("u{n}").parse().unwrap()));
        Decision { slip, owner, amount: Amount::new(u64::from(slip) + 1), at: Timestamp::from_ms(7) }
    }

    /// The sums, the counts and the index, computed anew from the slips.
    fn assert_consistent(slips: &Slips) {
        let all: Vec<&Known> = slips.groups.iter().flat_map(|group| group.slips.iter().flatten()).collect();
        let by = |source| u32::try_from(all.iter().filter(|known| known.source == source).count()).unwrap();
        assert_eq!((slips.decided, slips.reported), (by(Source::Ledger), by(Source::Report)));
        let sums = Summary { best: None, ..Summary::of(all.iter().map(|known| &known.decision)) };
        assert_eq!(slips.sums, sums);
        for group in 0..3 {
            let here = slips.of_group(group);
            assert_eq!(slips.reported_in(group) as usize, slips.shown_by(Source::Report, &here).len());
            assert_eq!(slips.is_decided(group), slips.shown_by(Source::Ledger, &here).len() == here.len());
        }
        let claims = slips.claims(0..130, 1_000);
        assert_eq!(claims.len(), sums.claimed_count as usize);
        for (user, claim) in &claims {
            assert_eq!(slips.claim_of(user).map(|(claim, _)| claim).as_ref(), Some(claim), "{user}");
        }
        assert_eq!(slips.by_user.len(), claims.len());
        let mut newest = claims.clone();
        newest.sort_by_key(|(_, claim)| Reverse((claim.at, claim.slip)));
        assert_eq!(slips.newest(None, None, 1_000), newest);
        let text: usize = claims.iter().map(|(user, _)| user.as_str().len() + TEXT_BYTES).sum();
        assert_eq!(slips.text_bytes, text);
    }

    proptest! {
        /// The ledger gives each user one slip: user n of it has slip 7n, and every slip that no user has is refunded.
        #[test]
        fn sums_and_index_agree_with_the_slips(
            steps in prop::collection::vec((0_u32..3, 0_u32..130, 0_u32..40), 0..300),
        ) {
            let mut slips = Slips::new(130);
            for (what, slip, user) in steps {
                match what {
                    0 => drop(slips.show(decision(slip, slip.is_multiple_of(7).then_some(slip / 7)), Source::Ledger)),
                    1 => drop(slips.show(decision(slip, Some(user)), Source::Report)),
                    _ if user < 20 => drop(slips.show(decision(slip, Some(user)), Source::Promise)),
                    _ => slips.hide(slip),
                }
                assert_consistent(&slips);
            }
        }
    }

    #[test]
    fn a_piece_of_the_newest_claims_lies_between_two_places() {
        let mut slips = Slips::new(10);
        for (slip, at) in [(0, 5), (1, 9), (2, 5), (3, 7), (4, u64::MAX)] {
            slips.show(Decision { at: Timestamp::from_ms(at), ..decision(slip, Some(slip)) }, Source::Report);
        }
        let place = |at, slip| Some(Moment::of(Timestamp::from_ms(at), slip));
        let of = |after, before, limit| {
            slips.newest(after, before, limit).into_iter().map(|(_, claim)| claim.slip).collect::<Vec<_>>()
        };
        assert_eq!(of(None, None, 10), [4, 1, 3, 2, 0]);
        assert_eq!(of(None, place(9, 1), 2), [3, 2]);
        assert_eq!(of(place(5, 0), None, 10), [4, 1, 3, 2], "a tie goes by the slip");
        assert_eq!(of(Some(Moment::before(Timestamp::from_ms(5))), place(7, 3), 10), [2, 0]);
        assert_eq!((of(place(7, 3), place(7, 3), 10), of(place(9, 0), place(5, 0), 10)), (vec![], vec![]));
        assert_eq!(slips.newest_place(), place(u64::MAX, 4));
        assert_eq!(slips.newest_place().map(Moment::at), Some(Timestamp::from_ms(u64::MAX >> SLIP_BITS)));
        slips.hide(4);
        assert_eq!(slips.newest_place().map(Moment::at), Some(Timestamp::from_ms(9)));
    }

    #[test]
    fn they_weigh_what_they_take_in_memory() {
        let mut slips = Slips::new(100_000);
        let empty = slips.bytes();
        assert_eq!(empty, 1_563 * size_of::<Group>());
        for slip in 0..100_000 {
            slips.show(decision(slip, Some(slip)), Source::Ledger);
        }
        // A place of 48 bytes; 32 in the index, which has room for 114,688; 18 in the order of time; 30 for the text of the user.
        let each = (slips.bytes() - empty) / 100_000;
        assert!((126..131).contains(&each), "{each} bytes a claim");
    }

    #[test]
    fn the_stronger_source_wins() {
        let mut slips = Slips::new(10);
        assert!(slips.show(decision(1, Some(1)), Source::Promise));
        assert!(!slips.show(decision(1, Some(2)), Source::Promise), "the slip is promised");
        assert!(!slips.show(decision(2, Some(1)), Source::Promise), "the user has a promise");
        assert!(slips.show(decision(1, Some(2)), Source::Report));
        assert!(!slips.show(decision(1, Some(3)), Source::Report), "two reports contradict each other");
        assert!(slips.show(decision(1, Some(2)), Source::Report), "the same report again");
        assert!(slips.show(decision(4, Some(2)), Source::Ledger), "the ledger knows better");
        assert_eq!((slips.get(1), slips.reported(), slips.decided()), (None, 0, 1));
        assert!(slips.show(decision(5, Some(2)), Source::Ledger), "whatever it knows");
        assert_eq!((slips.decision(4), slips.decided()), (Some(&decision(4, Some(2))), 2));
        assert!(slips.show(decision(6, Some(6)), Source::Promise));
        assert!(slips.show(decision(7, Some(6)), Source::Report), "a claim ends the promise of another slip");
        assert_eq!((slips.get(6), slips.reported()), (None, 1));
        assert!(!slips.show(decision(4, Some(3)), Source::Report));
        slips.hide(4);
        assert_eq!(slips.decision(4), Some(&decision(4, Some(2))), "what the ledger says stays");
        assert!(!slips.show(decision(10, Some(9)), Source::Ledger), "there is no such slip");
    }

    #[test]
    fn the_best_claim_is_the_ledgers_and_the_earliest_of_the_largest() {
        let mut slips = Slips::new(10);
        let sized = |slip, amount, at| Decision {
            amount: Amount::new(amount),
            at: Timestamp::from_ms(at),
            ..decision(slip, Some(slip))
        };
        for (slip, amount, at) in [(1, 5, 3), (2, 9, 8), (3, 9, 7), (4, 9, 7)] {
            slips.show(sized(slip, amount, at), Source::Ledger);
        }
        slips.show(sized(5, 100, 1), Source::Report);
        assert_eq!(slips.best().map(|best| best.slip), Some(3));
    }
}
