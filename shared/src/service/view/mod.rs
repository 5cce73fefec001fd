//! Viewing packets, claims and histories.
//!
//! The ledger has the amounts, the claims, the seed and how a packet ended. While it is open, the hot store counts: its parts report of
//! which slips they know a decision. `shown` says what follows for a viewer, `reads` reads, `listing` lists claims.
//!
//! The rule: an answer is never older than its request, so requests share a read only if it begins after they came. What is kept:
//!
//! | what | kept |
//! |---|---|
//! | the viewer's own claim | never: it is read from its own item for each view |
//! | the parts' reports | never |
//! | that a packet is neither closed nor settled | for a second, and only while each part reports that it is loaded and can be grabbed |
//! | the end and the sums of a settled packet | for ever |
//! | the sums of a packet whose slips are all decided | for ever; its end is read for each view |
//! | a group of 64 slips that are all decided | for ever |
//! | the newest packets with a key of a limit, for the next round | for a second |
//! | another group | for a second; in a large packet for up to 25, so that its reads stay few. A list of claims, and the sums of a packet that is over, read it at once if a part knows a decision that it lacks |

mod listing;
mod reads;
mod share;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

pub use self::listing::{ClaimsAsked, ClaimsView, ListPlace, ListedClaim, Order};
pub use self::share::{Obstacle, Share, ShareView};

use self::reads::Reads;
use self::shown::Look;
use crate::domain::{
    Claim, ClaimRecord, DayZone, End, Intervention, Movement, MovementFilter, PacketId, Reference, Status, Summary,
    Terms, Timestamp, UserId, Wallet, WinLimit, Won,
};
use crate::ledger::{Ledger, MovementCursor, Packet, Slice};
use crate::ports::{HotStore, Table};
use crate::service::admission::{Admission, Asker, ticket_of};
use crate::service::{Failure, Reports, Stores};
use crate::tickets::TicketFault;

/// Packets of one page that are looked at together.
const PACKETS_AT_ONCE: usize = 20;

/// An answer about a packet, for users who may view it.
#[derive(Clone, Debug)]
pub enum Viewed<V> {
    /// The user may see this.
    Shown(V),
    /// The packet has recipients, and the user is not one of them.
    NotForYou,
    /// The packet wants a ticket, and the user has no valid one.
    NoTicket(TicketFault),
    /// There is no such packet.
    NotFound,
}

impl<V> Viewed<V> {
    /// What `show` makes of it.
    async fn shown<W>(self, show: impl AsyncFnOnce(V) -> Result<W, Failure>) -> Result<Viewed<W>, Failure> {
        Ok(match self {
            Self::Shown(value) => Viewed::Shown(show(value).await?),
            Self::NotForYou => Viewed::NotForYou,
            Self::NoTicket(fault) => Viewed::NoTicket(fault),
            Self::NotFound => Viewed::NotFound,
        })
    }
}

/// A packet as one of its viewers sees it, by itself or in a list.
#[derive(Clone, Debug)]
pub struct PacketView {
    /// Its terms. The HTTP edge leaves out what is secret in them.
    pub terms: Arc<Terms>,
    /// Its state.
    pub status: Status,
    /// When the operator closed it, if they did.
    pub closed_at: Option<Timestamp>,
    /// Why and by whom it was closed. Only the operator's view of one packet says.
    pub closing: Option<Intervention>,
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
    pub is_final: bool,
}

/// A packet of the same sender, with the same reference and the same key of a limit, that starts later. Packets without a start are no
/// rounds: they may be for different groups, each of which has one link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextRound {
    /// Its id.
    pub id: PacketId,
    /// When its grabs begin or began.
    pub starts_at: Timestamp,
}

/// The use case of viewing. While a packet changes, the hot store counts; all else comes from the ledger.
pub struct ViewPackets<T: Table, H> {
    reads: Arc<Reads<T, H>>,
    reports: Reports<T>,
    currency: String,
    day_zone: DayZone,
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// Shows the packets and wallets in these stores. All money is in `currency` (ISO 4217).
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        let reports = Reports::new(Arc::clone(&stores.ledger), Arc::clone(&stores.clock));
        Self { reads: Arc::new(Reads::new(stores)), reports, currency, day_zone: DayZone::UTC }
    }

    /// The same, whose files for people have times of this zone.
    #[must_use]
    pub fn in_zone(mut self, zone: DayZone) -> Self {
        self.day_zone = zone;
        self
    }

    /// The zone of times in files for people.
    pub const fn day_zone(&self) -> &DayZone {
        &self.day_zone
    }

    /// Reports on all packets of a sender that belong together.
    pub const fn reports(&self) -> &Reports<T> {
        &self.reports
    }

    /// The currency of every wallet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.reads.stores.clock.now()
    }

    /// A packet, for `viewer`.
    pub async fn packet(&self, id: PacketId, viewer: &UserId, asker: &Asker) -> Result<Viewed<PacketView>, Failure> {
        let visible = self.visible(id, Some(viewer), asker).await?;
        visible
            .shown(async |terms| {
                let mut view = self.look(terms, Some(viewer)).await?;
                let Some(limit) = &view.terms.limit else { return Ok(view) };
                let won = self.ledger().won(viewer, &view.terms.sender, limit).await?;
                if view.mine.is_some() || !matches!(view.status, Status::Scheduled | Status::Open) {
                    let next = Box::pin(self.next_round(&view.terms, limit, viewer, asker, won)).await;
                    // It is an offer. Without it the viewer still sees their slip.
                    view.next = next.unwrap_or_else(|failure| {
                        tracing::warn!(%id, error = crate::error_chain(&failure), "the next round was not read");
                        None
                    });
                }
                view.won = Some(won);
                Ok(view)
            })
            .await
    }

    /// The next round after a packet in which `viewer` may still win, who has `won` this so far.
    async fn next_round(
        &self,
        terms: &Terms,
        limit: &WinLimit,
        viewer: &UserId,
        asker: &Asker,
        won: Won,
    ) -> Result<Option<NextRound>, Failure> {
        if terms.labels.reference.is_none() {
            return Ok(None);
        }
        let Stores { packets, ticket_keys, clock, .. } = &self.reads.stores;
        let now = clock.now();
        let this = terms.guard.starts_at.unwrap_or(terms.created_at);
        let newest = self.reads.rounds((terms.sender.clone(), limit.key.clone())).await?;
        let mut rounds: Vec<(NextRound, &Packet)> = newest
            .iter()
            .filter(|Packet { terms: other, settled, closed }| {
                let is_over = settled.is_some() || closed.is_some() || now >= other.expires_at;
                let can_win = other.limit.as_ref().is_none_or(|limit| limit.allows(won, other.least_slip()));
                !is_over && can_win && other.guard.invites(viewer) && other.labels.reference == terms.labels.reference
            })
            .filter_map(|packet| {
                let round = NextRound { id: packet.terms.id, starts_at: packet.terms.guard.starts_at? };
                (round.starts_at > this).then_some((round, packet))
            })
            .collect();
        rounds.sort_by_key(|(round, _)| (round.starts_at, round.id));
        for (round, packet) in rounds {
            if let Admission::Refused(_) =
                ticket_of(ticket_keys.as_deref(), packets, round.id, viewer, asker, now).await?
            {
                continue;
            }
            if now < round.starts_at {
                return Ok(Some(round));
            }
            let seen = self.look(Arc::new(packet.terms.clone()), Some(viewer)).await?;
            if seen.status == Status::Open && seen.mine.is_none() {
                return Ok(Some(round));
            }
        }
        Ok(None)
    }

    /// Any packet, for the operator; `None` if there is no such packet.
    pub async fn any_packet(&self, id: PacketId) -> Result<Option<PacketView>, Failure> {
        let Some(terms) = self.reads.stores.packets.terms(id).await? else { return Ok(None) };
        let mut view = self.look(terms, None).await?;
        if view.closed_at.is_some() {
            view.closing = self.ledger().packet(id).await?.and_then(|packet| packet.closed);
        }
        Ok(Some(view))
    }

    /// A packet as a user sees it; without `viewer`: as the operator does.
    async fn look(&self, terms: Arc<Terms>, viewer: Option<&UserId>) -> Result<PacketView, Failure> {
        let look = self.reads.look(&terms).await?;
        self.seen(viewer, terms, &look).await
    }

    async fn seen(&self, viewer: Option<&UserId>, terms: Arc<Terms>, look: &Look) -> Result<PacketView, Failure> {
        let own = match viewer {
            None => None,
            Some(viewer) => self.reads.own_claims.claim_of(viewer, terms.id).await?,
        };
        Ok(look.seen_by(viewer, own, terms, self.reads.stores.clock.now()))
    }

    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, Failure> {
        Ok(self.ledger().wallet(user).await?)
    }

    /// Up to `limit` packets that a user sent, the newest first, before `before`; and their wallet, for the totals.
    pub async fn sent(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<(Slice<PacketView, PacketId>, Wallet), Failure> {
        let (ids, wallet) = futures::try_join!(self.ledger().sent(user, before, limit), self.ledger().wallet(user))?;
        Ok((Slice { rows: self.listed(&ids.rows, Some(user)).await?, next: ids.next }, wallet))
    }

    /// Up to `limit` packets with a reference, the newest first, before `before`, for the operator.
    pub async fn referenced(
        &self,
        reference: &Reference,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<PacketView, PacketId>, Failure> {
        let ids = self.ledger().referenced(reference, before, limit).await?;
        Ok(Slice { rows: self.listed(&ids.rows, None).await?, next: ids.next })
    }

    /// The packets with these ids, the newest first, as a user sees them; without `viewer`: as the operator does.
    async fn listed(&self, ids: &[PacketId], viewer: Option<&UserId>) -> Result<Vec<PacketView>, Failure> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let asked = Instant::now();
        let mut packets = self.ledger().packets(ids).await?;
        packets.sort_by_key(|packet| std::cmp::Reverse(packet.terms.id));
        let looks = stream::iter(packets).map(|packet| self.look_at(packet, asked)).buffered(PACKETS_AT_ONCE);
        let looks: Vec<_> = looks.try_collect().await?;
        try_join_all(looks.iter().map(|(terms, look)| self.seen(viewer, Arc::clone(terms), look))).await
    }

    /// A packet as it was read at `asked`. A settled one is not read again.
    async fn look_at(&self, packet: Packet, asked: Instant) -> Result<(Arc<Terms>, Arc<Look>), Failure> {
        self.reads.note_open(&packet, asked);
        let end = End::of(&packet, false);
        let terms = Arc::new(packet.terms);
        let look = match packet.settled {
            Some(summary) => Arc::new(Look::decided(end, summary)),
            None => self.reads.look(&terms).await?,
        };
        Ok((terms, look))
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

    /// Up to `limit` movements of a user's wallet, the newest first, after `after`.
    pub async fn movements(
        &self,
        user: &UserId,
        filter: MovementFilter,
        after: Option<MovementCursor>,
        limit: u32,
    ) -> Result<Slice<Movement, MovementCursor>, Failure> {
        Ok(self.ledger().movements(user, filter, after, limit).await?)
    }

    fn ledger(&self) -> &Ledger<T> {
        &self.reads.stores.ledger
    }

    /// A packet's terms, if `viewer` may see them. Without a viewer they are the operator's to see.
    async fn visible(
        &self,
        id: PacketId,
        viewer: Option<&UserId>,
        asker: &Asker,
    ) -> Result<Viewed<Arc<Terms>>, Failure> {
        let Stores { packets, ticket_keys, clock, .. } = &self.reads.stores;
        let Some(terms) = packets.terms(id).await? else { return Ok(Viewed::NotFound) };
        let Some(viewer) = viewer.filter(|viewer| terms.sender != **viewer) else { return Ok(Viewed::Shown(terms)) };
        if !terms.guard.invites(viewer) {
            return Ok(Viewed::NotForYou);
        }
        let turned_away = match ticket_of(ticket_keys.as_deref(), packets, id, viewer, asker, clock.now()).await {
            // Who waits for their turn may look.
            Ok(Admission::Admitted | Admission::NotBefore(_)) => return Ok(Viewed::Shown(terms)),
            Ok(Admission::Refused(fault)) => Ok(Viewed::NoTicket(fault)),
            Err(failure) => Err(failure),
        };
        let own = self.reads.own_claims.claim_of(viewer, id).await?;
        if own.is_some() { Ok(Viewed::Shown(terms)) } else { turned_away }
    }
}
