//! Viewing packets, claims and histories.
//!
//! The ledger has the amounts, the claims, the seed and how a packet ended. While it is open, the hot store counts: its parts say of which
//! slips they know a decision. `rules` says what follows for a viewer, `reads` reads, `listing` lists claims.
//!
//! The rule: an answer is never older than its request, so requests share a read only if it begins after they came. What is kept:
//!
//! | what | kept |
//! |---|---|
//! | the viewer's own claim | never: it is read from its own item for each view |
//! | the parts' states | never |
//! | that a packet is neither closed nor settled | for a second, and only while each part says so, too |
//! | the end and the sums of a settled packet | for ever |
//! | the sums of a packet whose slips are all decided | for ever; its end is read for each view |
//! | a group of 64 slips that are all decided | for ever |
//! | another group, for sums while the packet is open | for a second for each 64 groups to read, so up to 25 |
//! | another group, for all else | as long, but only until a part knows a decision that it lacks |
//! | the newest packets with a key of a limit, for the next round | for a second |

mod listing;
mod reads;
mod rounds;
mod rules;
mod share;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

pub use self::listing::{ClaimsAsked, ClaimsView, ListedClaim, Order};
pub use self::rounds::NextRound;
pub use self::share::{Obstacle, Share, ShareView};

use self::reads::Reads;
use self::rounds::Rounds;
use self::rules::Shared;
use crate::domain::{
    Claim, ClaimRecord, End, Intervention, PacketId, Reference, Status, Summary, Terms, Timestamp, UserId, Wallet, Won,
};
use crate::ledger::{DueCursor, Ledger, Packet, Slice};
use crate::ports::{HotStore, Table};
use crate::service::admission::{Admission, Voucher, admission_of};
use crate::service::{Failure, Stores};
use crate::tickets::TicketFault;

/// How many pages are read at most to find packets with a status.
const STATUS_PAGES: u32 = 5;
/// Packets of one page that are read together.
const PACKETS_AT_ONCE: usize = 20;

/// Why a user may not view a packet, or can't now.
#[derive(Clone, Debug)]
pub enum ViewError {
    /// The packet has recipients, and the user is not one of them.
    NotForYou,
    /// The packet wants a ticket, and the user has no valid one.
    NoTicket(TicketFault),
    /// There is no such packet.
    NotFound,
    /// A store did not answer.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for ViewError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Which packets of a sender the operator asks for.
#[derive(Clone, Debug)]
pub struct SentAsked {
    /// Who sent them.
    pub sender: UserId,
    /// Not before this time.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub to: Option<Timestamp>,
    /// Only with this status.
    pub status: Option<Status>,
}

/// A packet as one of its viewers sees it, by itself or in a list.
#[derive(Clone, Debug)]
pub struct PacketView {
    /// Its terms. `http` leaves out what is secret in them.
    pub terms: Arc<Terms>,
    /// Its state.
    pub status: Status,
    /// When the operator closed it, if they did.
    pub closed_at: Option<Timestamp>,
    /// Why and by whom it was closed. Only the operator's view of one packet says.
    pub closing: Option<Intervention>,
    /// When it was settled. Only the operator's view of one packet says.
    pub settled_at: Option<Timestamp>,
    /// What its claims and refunds sum to.
    pub summary: Summary,
    /// The viewer's own claim.
    pub mine: Option<Claim>,
    /// What the viewer has won towards the packet's limit, if it has one. Lists don't say.
    pub won: Option<Won>,
    /// The next round in which the viewer may still win, once they have a slip of this one or nobody can grab it. Lists don't say.
    pub next: Option<NextRound>,
    /// Whether the ledger has a decision for every slip. Only then may the seed and the best claim be shown: no clock, and no word of
    /// the hot store, can tell that nothing is left to grab.
    pub is_decided: bool,
    /// Whether the packet is settled by the ledger: nothing of this changes any more.
    pub is_settled: bool,
}

impl PacketView {
    /// A packet with this end and these sums at `now`, without what is of a viewer.
    pub fn new(terms: Arc<Terms>, end: &End, summary: Summary, is_decided: bool, now: Timestamp) -> Self {
        Self {
            status: Status::of(&terms, end, summary.claimed_count, now),
            terms,
            closed_at: end.closed_at,
            closing: None,
            settled_at: None,
            summary,
            mine: None,
            won: None,
            next: None,
            is_decided,
            is_settled: end.is_settled,
        }
    }
}

/// The use case of viewing. While a packet changes, the hot store counts; all else comes from the ledger.
pub struct ViewPackets<T: Table, H> {
    reads: Arc<Reads<T, H>>,
    rounds: Rounds<T>,
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// Shows the packets in these stores.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self { rounds: Rounds::new(Arc::clone(&stores.ledger)), reads: Arc::new(Reads::new(stores)) }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.reads.stores.clock.now()
    }

    /// A packet, for `viewer`.
    pub async fn packet(&self, id: PacketId, viewer: &UserId, voucher: &Voucher) -> Result<PacketView, ViewError> {
        let terms = self.terms_for(id, Some(viewer), voucher).await?;
        let mut view = self.view(terms, Some(viewer)).await?;
        let Some(limit) = &view.terms.limit else { return Ok(view) };
        let won = self.ledger().won(viewer, &view.terms.sender, limit).await?;
        if view.mine.is_some() || !matches!(view.status, Status::Scheduled | Status::Open) {
            let next = Box::pin(self.next_round(&view.terms, limit, viewer, voucher, won)).await;
            // It is an offer. Without it the viewer still sees their slip.
            view.next = next.unwrap_or_else(|failure| {
                tracing::warn!(%id, error = crate::error_chain(&failure), "the next round was not read");
                None
            });
        }
        view.won = Some(won);
        Ok(view)
    }

    /// Any packet, for the operator; `None` if there is no such packet.
    pub async fn any_packet(&self, id: PacketId) -> Result<Option<PacketView>, Failure> {
        let Some(terms) = self.reads.stores.packets.terms(id).await? else { return Ok(None) };
        let mut view = self.view(terms, None).await?;
        if (view.closed_at.is_some() || view.is_settled)
            && let Some(packet) = self.ledger().packet(id).await?
        {
            (view.closing, view.settled_at) = (packet.closed, packet.settled_at);
        }
        Ok(Some(view))
    }

    /// A packet as a user sees it; without `viewer`: as the operator does.
    async fn view(&self, terms: Arc<Terms>, viewer: Option<&UserId>) -> Result<PacketView, Failure> {
        let shared = self.reads.shared(&terms).await?;
        self.view_of(&shared, terms, viewer).await
    }

    async fn view_of(
        &self,
        shared: &Shared,
        terms: Arc<Terms>,
        viewer: Option<&UserId>,
    ) -> Result<PacketView, Failure> {
        let own = match viewer {
            None => None,
            Some(viewer) => self.reads.own_claims.claim_of(viewer, terms.id).await?,
        };
        Ok(shared.for_viewer(viewer, own, terms, self.now()))
    }

    /// Up to `limit` packets that a user sent, the newest first, before `before`; and their wallet, for the totals.
    pub async fn sent(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<(Slice<PacketView, PacketId>, Wallet), Failure> {
        let (ids, wallet) = futures::try_join!(self.ledger().sent(user, before, limit), self.ledger().wallet(user))?;
        Ok((self.listed(ids, Some(user)).await?, wallet))
    }

    /// Up to `limit` packets with a reference, the newest first, before `before`, for the operator.
    pub async fn referenced(
        &self,
        reference: &Reference,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<PacketView, PacketId>, Failure> {
        self.listed(self.ledger().referenced(reference, before, limit).await?, None).await
    }

    /// Up to `limit` packets of a sender for the operator, the newest first, before `before`: those that were sent from `from` on and before
    /// `to`, and have this status now. A page of few with the status may have few rows.
    pub async fn sent_within(
        &self,
        asked: &SentAsked,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<PacketView, PacketId>, Failure> {
        let SentAsked { sender, from, to, status } = asked;
        let mut before = before.into_iter().chain(to.map(PacketId::first_at)).min();
        let mut rows = Vec::new();
        for _ in 0..STATUS_PAGES {
            let left = limit - u32::try_from(rows.len()).unwrap_or(limit);
            let mut ids = self.ledger().sent(sender, before, left).await?;
            if let Some(from) = from {
                let all = ids.rows.len();
                ids.rows.retain(|id| id.created_at() >= *from);
                ids.next = ids.next.filter(|_| ids.rows.len() == all);
            }
            before = ids.next;
            let has_status = |view: &PacketView| status.is_none_or(|status| view.status == status);
            rows.extend(self.listed(ids, None).await?.rows.into_iter().filter(has_status));
            if before.is_none() || rows.len() >= limit as usize {
                break;
            }
        }
        Ok(Slice { rows, next: before })
    }

    /// Up to `limit` packets of all senders that are not settled and have this status now, after `after`, in no order.
    pub async fn unsettled(
        &self,
        status: Status,
        after: Option<DueCursor>,
        limit: u32,
    ) -> Result<Slice<PacketView, DueCursor>, Failure> {
        let (mut after, mut rows) = (after, Vec::new());
        for _ in 0..STATUS_PAGES {
            let left = limit - u32::try_from(rows.len()).unwrap_or(limit);
            let due = self.ledger().all_due(after, left).await?;
            let ids = Slice { rows: due.rows.iter().map(|due| due.id).collect(), next: None };
            rows.extend(self.listed(ids, None).await?.rows.into_iter().filter(|view| view.status == status));
            after = due.next;
            if after.is_none() || rows.len() >= limit as usize {
                break;
            }
        }
        Ok(Slice { rows, next: after })
    }

    /// The packets with these ids, the newest first, as a user sees them; without `viewer`: as the operator does.
    async fn listed(
        &self,
        ids: Slice<PacketId, PacketId>,
        viewer: Option<&UserId>,
    ) -> Result<Slice<PacketView, PacketId>, Failure> {
        let mut packets = if ids.rows.is_empty() { Vec::new() } else { self.ledger().packets(&ids.rows).await? };
        packets.sort_by_key(|packet| std::cmp::Reverse(packet.terms.id));
        let read = |packet: Packet| async move {
            let terms = Arc::new(packet.terms.clone());
            Ok::<_, Failure>((self.reads.read(&terms, Some(packet)).await?, terms))
        };
        let read: Vec<_> = stream::iter(packets).map(read).buffered(PACKETS_AT_ONCE).try_collect().await?;
        let views = read.iter().map(|(shared, terms)| self.view_of(shared, Arc::clone(terms), viewer));
        Ok(Slice { rows: try_join_all(views).await?, next: ids.next })
    }

    /// Up to `limit` slips that a user claimed, those of the newest packets first, before packet `before`; and their wallet,
    /// for the totals.
    pub async fn claimed(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<(Slice<ClaimRecord, PacketId>, Wallet), Failure> {
        Ok(futures::try_join!(self.ledger().claims(user, before, limit), self.ledger().wallet(user))?)
    }

    fn ledger(&self) -> &Ledger<T> {
        &self.reads.stores.ledger
    }

    /// A packet's terms, if `viewer` may view it. Without a viewer the operator does.
    async fn terms_for(
        &self,
        id: PacketId,
        viewer: Option<&UserId>,
        voucher: &Voucher,
    ) -> Result<Arc<Terms>, ViewError> {
        let Stores { packets, ticket_keys, clock, .. } = &self.reads.stores;
        let terms = packets.terms(id).await?.ok_or(ViewError::NotFound)?;
        let Some(viewer) = viewer.filter(|viewer| terms.sender != **viewer) else { return Ok(terms) };
        if !terms.guard.invites(viewer) {
            return Err(ViewError::NotForYou);
        }
        let turned_away = match admission_of(ticket_keys.as_deref(), packets, id, viewer, voucher, clock.now()).await {
            // Who waits for their turn may look.
            Ok(Admission::Admitted | Admission::NotBefore(_)) => return Ok(terms),
            Ok(Admission::Refused(fault)) => ViewError::NoTicket(fault),
            Err(failure) => failure.into(),
        };
        let own = self.reads.own_claims.claim_of(viewer, id).await?;
        own.map(|_| terms).ok_or(turned_away)
    }
}
