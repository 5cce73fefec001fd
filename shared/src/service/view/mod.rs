//! Viewing packets, claims and histories.

mod allowance;
mod evidence;
mod listing;
mod live;
mod slips;

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

pub use self::listing::{ClaimsAsked, ClaimsView, ListPlace, ListedClaim, Order};

use self::evidence::{Depth, Evidence};
use self::live::Live;
use crate::domain::{
    Claim, ClaimRecord, Movement, MovementFilter, PacketId, Reference, Summary, Terms, Timestamp, UserId, Wallet,
};
use crate::ledger::{Ledger, MovementCursor, Packet, Slice};
use crate::lock;
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// Packets of one page that are looked at together.
const PACKETS_AT_ONCE: usize = 8;

/// The state of a packet, as users see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// Its start is ahead.
    Scheduled,
    /// It can be grabbed.
    Open,
    /// Every slip is claimed.
    SoldOut,
    /// Its time is over.
    Expired,
    /// The operator has closed it.
    Closed,
    /// It is expired or closed, and every slip is claimed or refunded.
    Settled,
}

impl Status {
    /// The name that answers use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Open => "open",
            Self::SoldOut => "sold_out",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Settled => "settled",
        }
    }
}

/// Whether and how the time of a packet is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Ahead,
    Expired,
    Closed,
}

impl End {
    const fn of(is_past: bool) -> Self {
        if is_past { Self::Expired } else { Self::Ahead }
    }
}

/// An answer about a packet, for users who may view it.
#[derive(Clone, Debug)]
pub enum Viewed<V> {
    /// The user may see this.
    Shown(V),
    /// The packet has recipients, and the user is not one of them.
    NotForYou,
    /// There is no such packet.
    NotFound,
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
    /// What its claims and refunds sum to.
    pub summary: Summary,
    /// The viewer's own claim.
    pub mine: Option<Claim>,
    /// Whether the ledger has a decision for every slip. Only then may the seed and the best claim be shown: no clock, and no word of
    /// the hot store, can tell that nothing is left to grab.
    pub is_decided: bool,
}

/// The use case of viewing. While a packet changes, its state comes from the hot store; all else comes from the ledger.
pub struct ViewPackets<T, H> {
    live: Arc<Live<T, H>>,
    currency: String,
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// Shows the packets and wallets in these stores. All money is in `currency` (ISO 4217).
    pub fn new(stores: Stores<T, H>, currency: String) -> Self {
        Self { live: Arc::new(Live::new(stores)), currency }
    }

    /// The currency of every wallet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// A packet, for `viewer`.
    pub async fn packet(&self, id: PacketId, viewer: &UserId) -> Result<Viewed<PacketView>, Failure> {
        let terms = match self.visible(id, viewer).await? {
            Viewed::Shown(terms) => terms,
            Viewed::NotForYou => return Ok(Viewed::NotForYou),
            Viewed::NotFound => return Ok(Viewed::NotFound),
        };
        Ok(Viewed::Shown(self.look(terms, Some(viewer), Depth::Whole).await?))
    }

    /// Any packet, for the operator; `None` if there is no such packet.
    pub async fn any_packet(&self, id: PacketId) -> Result<Option<PacketView>, Failure> {
        match self.live.stores().packets.terms(id).await? {
            None => Ok(None),
            Some(terms) => self.look(terms, None, Depth::Whole).await.map(Some),
        }
    }

    /// A packet as a user sees it; without `viewer`: as the operator does.
    async fn look(&self, terms: Arc<Terms>, viewer: Option<&UserId>, depth: Depth) -> Result<PacketView, Failure> {
        let shared = self.live.look(&terms, depth).await?;
        let mine = match viewer {
            None => None,
            Some(viewer) => self.live.claim_of(&terms, &shared, viewer).await?,
        };
        let closed_at = self.live.closed_at(&terms, &shared).await?;
        let evidence = lock(&shared);
        let (summary, is_decided) = (evidence.summary(), evidence.is_decided());
        let end = if closed_at.is_some() { End::Closed } else { End::of(self.is_past(&terms, &evidence)) };
        let status = self.status(&terms, &summary, is_decided, end);
        drop(evidence);
        Ok(PacketView { terms, status, closed_at, summary, mine, is_decided })
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
        let mut packets = self.ledger().packets(ids).await?;
        packets.sort_by_key(|packet| std::cmp::Reverse(packet.terms.id));
        // No claim is added to a settled packet, so these are read together.
        let settled = packets.iter().filter(|packet| packet.settled.is_some()).map(|packet| packet.terms.id);
        let mine = match viewer {
            None => HashMap::new(),
            Some(viewer) => self.ledger().claims_of(viewer, settled).await?,
        };
        let mine = &mine;
        stream::iter(packets)
            .map(|packet| async move {
                let Packet { terms, settled, closed } = packet;
                let closed_at = closed.map(|closing| closing.at);
                let Some(summary) = settled else {
                    self.live.stores().packets.note_closed(terms.id, closed_at);
                    return self.look(Arc::new(terms), viewer, Depth::Reported).await;
                };
                let is_past = self.live.stores().clock.now() >= terms.expires_at;
                let end = if closed_at.is_some() { End::Closed } else { End::of(is_past) };
                let (status, mine) = (self.status(&terms, &summary, true, end), mine.get(&terms.id).cloned());
                Ok(PacketView { terms: Arc::new(terms), status, closed_at, summary, mine, is_decided: true })
            })
            .buffered(PACKETS_AT_ONCE)
            .try_collect()
            .await
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
        &self.live.stores().ledger
    }

    async fn visible(&self, id: PacketId, viewer: &UserId) -> Result<Viewed<Arc<Terms>>, Failure> {
        Ok(match self.live.stores().packets.terms(id).await? {
            None => Viewed::NotFound,
            Some(terms) if terms.sender == *viewer || terms.guard.invites(viewer) => Viewed::Shown(terms),
            Some(_) => Viewed::NotForYou,
        })
    }

    /// Whether a packet has expired. For a packet that can still change, the time before the read counts, because the evidence may
    /// lack later events.
    fn is_past(&self, terms: &Terms, evidence: &Evidence) -> bool {
        if evidence.is_decided() { self.live.stores().clock.now() >= terms.expires_at } else { evidence.is_past() }
    }

    fn status(&self, terms: &Terms, summary: &Summary, is_decided: bool, end: End) -> Status {
        // The hot store's clock decides when grabs begin. A claim shows that it has.
        let is_ahead = |starts_at| summary.claimed_count == 0 && self.live.stores().clock.now() < starts_at;
        if end != End::Ahead && is_decided {
            Status::Settled
        } else if end == End::Closed {
            Status::Closed
        } else if summary.claimed_count == terms.count {
            Status::SoldOut
        } else if end == End::Expired {
            Status::Expired
        } else if terms.guard.starts_at.is_some_and(is_ahead) {
            Status::Scheduled
        } else {
            Status::Open
        }
    }
}
