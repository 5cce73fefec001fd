//! The list of a packet's claims: in slip order, or the newest first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::reads::Reads;
use super::rules::{Groups, Need, SMALL_SLIPS_MAX, Shared};
use super::{ViewError, ViewPackets};
use crate::domain::{Claim, PacketId, PartId, Terms, Timestamp, UserId};
use crate::ledger::Slice;
use crate::ledger::keys::SLIPS_PER_KEY;
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Voucher};

/// A claim in a packet's list.
#[derive(Clone, Debug)]
pub struct ListedClaim {
    /// The winner.
    pub user: UserId,
    /// Their claim.
    pub claim: Claim,
    /// Whether it is the luckiest, once nobody can win any more.
    pub best: bool,
}

/// The order of a list of claims.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// By slip.
    Slip,
    /// The newest first, down to `after`. A large packet that is settled has slip order all the same, and all of its claims are listed.
    Newest {
        /// The `newest` of an earlier list.
        after: Option<u64>,
    },
}

/// The piece of a list of claims that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimsAsked {
    /// The list's order.
    pub order: Order,
    /// Where the last piece ended; `None`: at the beginning of the list. In slip order it is a slip, and else a moment, which is larger
    /// than any slip.
    pub cursor: Option<u64>,
    /// The most claims.
    pub limit: u32,
}

/// A page of a packet's list of claims.
#[derive(Clone, Debug)]
pub struct ClaimsView {
    /// The packet's terms.
    pub terms: Arc<Terms>,
    /// The page.
    pub claims: Slice<ListedClaim, u64>,
    /// The moment from which a later list of the newest claims goes on. `None` in slip order.
    pub newest: Option<u64>,
    /// Whether every slip is decided: nothing of the list changes any more.
    pub is_decided: bool,
}

/// The bits of a slip in a moment: a packet has at most 100,000.
const SLIP_BITS: u32 = 17;
/// A claim that is committed within this time of its hold is in the list of what is newer, also if a later one was listed before. So that
/// list repeats the claims of this time. A client that lacks a later one notices by the count, and starts over.
const COMMITTED_WITHIN: Duration = Duration::from_secs(2);

/// A claim and its winner.
type Row = (UserId, Claim);

/// The moment before all claims of a time: the time as a number, without its lowest bits, which are a claim's slip. A time beyond 47 bits,
/// which no clock shows, counts as the last one.
fn begin_of(at: Timestamp) -> u64 {
    at.ms().min(u64::MAX >> SLIP_BITS) << SLIP_BITS
}

/// The place of a claim in the order of time: moments sort as time and slip do.
fn moment(claim: &Claim) -> u64 {
    begin_of(claim.at) | u64::from(claim.slip)
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// A piece of the list of a packet's claims, for `viewer`; `None`: for the operator.
    pub async fn claims(
        &self,
        id: PacketId,
        viewer: Option<&UserId>,
        voucher: &Voucher,
        asked: &ClaimsAsked,
    ) -> Result<ClaimsView, ViewError> {
        let terms = self.terms_for(id, viewer, voucher).await?;
        let shared = self.reads.shared(&terms).await?;
        let mut late = shared.promises.clone();
        if let Some(viewer) = viewer.filter(|_| !shared.is_decided) {
            let own = self.reads.own_claims.claim_of(viewer, terms.id).await?;
            late.extend(own.map(|claim| (viewer.clone(), claim)));
        }
        let list = List { reads: &self.reads, terms: &terms, shared: &shared, late };
        // One more shows whether there is a next page.
        let limit = asked.limit as usize;
        let (mut rows, newest) = match asked.order {
            Order::Newest { after } if terms.count <= SMALL_SLIPS_MAX || !shared.end.is_settled => {
                let span = after.map_or(0, |after| after.saturating_add(1))..asked.cursor.unwrap_or(u64::MAX);
                let (rows, newest) = list.by_time(span, limit).await?;
                (rows, Some(newest))
            }
            _ => {
                let slip = asked.cursor.and_then(|cursor| u32::try_from(cursor).ok());
                (list.by_slip(slip.map_or(0, |slip| slip.saturating_add(1)), limit).await?, None)
            }
        };
        let more = rows.len() > limit;
        rows.truncate(limit);
        let place = |(_, claim): &Row| if newest.is_some() { moment(claim) } else { claim.slip.into() };
        let next = if more { rows.last().map(place) } else { None };
        let best = shared.summary.best.as_ref().map(|best| best.slip);
        let listed = |(user, claim): Row| ListedClaim { user, best: best == Some(claim.slip), claim };
        let claims = Slice { rows: rows.into_iter().map(listed).collect(), next };
        Ok(ClaimsView { terms, claims, newest, is_decided: shared.is_decided })
    }
}

/// The list of a packet's claims, of which pieces are read.
struct List<'a, T: Table, H> {
    reads: &'a Arc<Reads<T, H>>,
    terms: &'a Terms,
    shared: &'a Shared,
    /// Claims that no group has yet: the viewer's own, which they find at once, and promises.
    late: Vec<Row>,
}

impl<T: Table, H: HotStore> List<'_, T, H> {
    /// The groups of `slips` that have claims, as far as the parts know.
    fn groups(&self, slips: &Range<u32>) -> Vec<u32> {
        self.shared.joint.groups_to_read(self.terms, slips, Need::Each)
    }

    async fn read(&self, groups: Vec<u32>) -> Result<Groups, Failure> {
        self.reads.groups(self.terms, &self.shared.joint, groups, Need::Each).await
    }

    /// The claims of groups that were read, and the late ones; of one slip, what the ledger says.
    fn rows(&self, read: &Groups) -> Vec<Row> {
        let read = read.values().flat_map(|group| group.claims()).map(|(user, claim)| (user.clone(), claim));
        let mut rows: Vec<Row> = read.chain(self.late.iter().cloned()).collect();
        rows.sort_by_key(|(_, claim)| claim.slip);
        rows.dedup_by_key(|(_, claim)| claim.slip);
        rows
    }

    /// More than `limit` claims from slip `start` on, if there are so many. It reads as many groups as the list would fill, and then
    /// twice as many each time.
    async fn by_slip(&self, start: u32, limit: usize) -> Result<Vec<Row>, Failure> {
        let groups = self.groups(&(start..self.terms.count));
        let (mut left, mut many, mut read) = (groups.as_slice(), limit / 64 + 1, Groups::new());
        loop {
            let (next, later) = left.split_at(many.min(left.len()));
            read.extend(self.read(next.to_vec()).await?);
            // What lies behind an unread group waits for it.
            let end = later.first().map_or(self.terms.count, |group| group * SLIPS_PER_KEY);
            let mut rows = self.rows(&read);
            rows.retain(|(_, claim)| (start..end).contains(&claim.slip));
            if later.is_empty() || rows.len() > limit {
                return Ok(rows);
            }
            (left, many) = (later, many * 2);
        }
    }

    /// More than `limit` claims between two places, the newest first, if there are so many; and the place from which a later list goes
    /// on.
    ///
    /// A part gives out its slips in order, apart from those that came back to it. So the newest claims of a large packet are in the last
    /// groups of its parts. It reads as many of them as the list would fill, and twice as many each time, until all others are older.
    async fn by_time(&self, span: Range<u64>, limit: usize) -> Result<(Vec<Row>, u64), Failure> {
        let newest_groups = |part: PartId| {
            let slips = part.slips(self.terms.count);
            let groups = self.groups(&slips).into_iter().rev().collect();
            (slips, groups)
        };
        let parts: Vec<(Range<u32>, Vec<u32>)> = self.terms.id.parts().map(newest_groups).collect();
        let mut depth = if self.terms.count <= SMALL_SLIPS_MAX { usize::MAX } else { limit / 64 / parts.len() + 1 };
        loop {
            let groups: BTreeSet<u32> =
                parts.iter().flat_map(|(_, groups)| groups.iter().copied().take(depth)).collect();
            let read = self.read(groups.into_iter().collect()).await?;
            let mut rows = self.rows(&read);
            let newest = rows.iter().map(|(_, claim)| moment(claim)).max().unwrap_or(0);
            rows.retain(|(_, claim)| span.contains(&moment(claim)));
            rows.sort_by_key(|(_, claim)| Reverse(moment(claim)));
            let end = rows.get(limit).map_or(span.start, |(_, claim)| moment(claim));
            let is_enough = |(slips, groups): &(Range<u32>, Vec<u32>)| {
                let last = depth.checked_sub(1).and_then(|last| groups.get(last)).and_then(|group| read.get(group));
                let claims = last.into_iter().flat_map(|group| group.claims()).map(|(_, claim)| claim);
                let oldest = claims.filter(|claim| slips.contains(&claim.slip)).map(|claim| moment(&claim)).min();
                groups.len() <= depth || oldest.is_some_and(|oldest| oldest < end)
            };
            if parts.iter().all(is_enough) {
                return Ok((rows, self.complete_until(newest)));
            }
            depth *= 2;
        }
    }

    /// The moment up to which a list whose newest claim is at `newest` lacks no claim. It is not after that, so it stays where it is while
    /// nothing happens.
    fn complete_until(&self, newest: u64) -> u64 {
        let until = begin_of(self.shared.joint.as_of.before(COMMITTED_WITHIN)).saturating_sub(1);
        if self.shared.is_decided { newest } else { newest.min(until) }
    }
}
