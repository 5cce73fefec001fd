//! Viewing packets, claims and histories.

mod evidence;
mod live;

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use self::evidence::PacketSnapshot;
use self::live::Live;
use crate::domain::{Claim, ClaimRecord, Decision, PacketId, Summary, Terms, UserId, Wallet};
use crate::ledger::{Ledger, Packet, Slice};
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// The slips whose decisions are read at once while a page of claims is filled.
const WINDOW: u32 = 1_024;
/// Packets of one page whose decisions are read at once.
const PACKETS_AT_ONCE: usize = 8;

/// The state of a packet, as users see it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// It can be grabbed.
    Open,
    /// Every slip is claimed.
    SoldOut,
    /// Its time is over.
    Expired,
    /// Its time is over and every slip is claimed or refunded.
    Settled,
}

impl Status {
    /// The name that answers use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::SoldOut => "sold_out",
            Self::Expired => "expired",
            Self::Settled => "settled",
        }
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

/// A packet as one of its viewers sees it.
#[derive(Clone, Debug)]
pub struct PacketView {
    /// Its terms. The HTTP edge leaves out what is secret in them.
    pub terms: Arc<Terms>,
    /// Its state.
    pub status: Status,
    /// What its claims and refunds sum to.
    pub summary: Summary,
    /// The viewer's own claim.
    pub mine: Option<Claim>,
    /// Whether the ledger has a decision for every slip. Only then may the seed and the best claim be shown: no clock, and no word of
    /// the hot store, can tell that nothing is left to grab.
    pub is_decided: bool,
}

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

/// A page of a packet's list of claims.
#[derive(Clone, Debug)]
pub struct ClaimsView {
    /// The page.
    pub claims: Slice<ListedClaim, u32>,
    /// Whether nothing of the list changes any more.
    pub is_final: bool,
}

/// A packet in its sender's history.
#[derive(Clone, Debug)]
pub struct SentRecord {
    /// Its terms.
    pub terms: Terms,
    /// Its state.
    pub status: Status,
    /// What its decisions sum to.
    pub summary: Summary,
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
        let snapshot = self.live.snapshot(&terms).await?;
        let mine = match &snapshot.claims {
            Some(claims) => claims.iter().find(|(user, _)| user == viewer).map(|(_, claim)| claim.clone()),
            None => self.ledger().claim_of(viewer, id).await?,
        };
        let (is_decided, past) = (snapshot.is_decided, self.is_past(&terms, &snapshot));
        let status = status(&terms, &snapshot.summary, is_decided, past);
        Ok(Viewed::Shown(PacketView { status, summary: snapshot.summary.clone(), mine, is_decided, terms }))
    }

    /// Up to `limit` claims of a packet in slip order, of slips after `after`, for `viewer`.
    pub async fn claims(
        &self,
        id: PacketId,
        viewer: &UserId,
        after: Option<u32>,
        limit: u32,
    ) -> Result<Viewed<ClaimsView>, Failure> {
        let terms = match self.visible(id, viewer).await? {
            Viewed::Shown(terms) => terms,
            Viewed::NotForYou => return Ok(Viewed::NotForYou),
            Viewed::NotFound => return Ok(Viewed::NotFound),
        };
        let snapshot = self.live.snapshot(&terms).await?;
        let start = after.map_or(0, |slip| slip.saturating_add(1));
        let mut claims = match &snapshot.claims {
            Some(claims) => {
                let after = claims.partition_point(|(_, claim)| claim.slip < start);
                claims.iter().skip(after).take(limit as usize + 1).cloned().collect()
            }
            None => self.claims_of_the_ledger(&terms, start, limit).await?,
        };
        let more = claims.len() > limit as usize;
        claims.truncate(limit as usize);
        let next = if more { claims.last().map(|(_, claim)| claim.slip) } else { None };

        let best = snapshot.summary.best.as_ref().filter(|_| snapshot.is_decided).map(|best| best.slip);
        let listed = |(user, claim): (UserId, Claim)| ListedClaim { user, best: best == Some(claim.slip), claim };
        let claims = Slice { rows: claims.into_iter().map(listed).collect(), next };
        Ok(Viewed::Shown(ClaimsView { claims, is_final: snapshot.is_decided }))
    }

    /// A page of claims and one more, if there are that many.
    async fn claims_of_the_ledger(
        &self,
        terms: &Terms,
        mut start: u32,
        limit: u32,
    ) -> Result<Vec<(UserId, Claim)>, Failure> {
        let mut claims: Vec<(UserId, Claim)> = Vec::new();
        while start < terms.count && claims.len() <= limit as usize {
            let end = start.saturating_add(WINDOW).min(terms.count);
            let decisions = self.ledger().decisions(terms.id, start..end).await?;
            claims.extend(decisions.iter().filter_map(Decision::claim).map(|(user, claim)| (user.clone(), claim)));
            start = end;
        }
        Ok(claims)
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
    ) -> Result<(Slice<SentRecord, PacketId>, Wallet), Failure> {
        let (ids, wallet) = futures::try_join!(self.ledger().sent(user, before, limit), self.ledger().wallet(user))?;
        let mut packets = if ids.rows.is_empty() { Vec::new() } else { self.ledger().packets(&ids.rows).await? };
        packets.sort_by_key(|packet| std::cmp::Reverse(packet.terms.id));
        let rows = stream::iter(packets)
            .map(|packet| async move {
                let summary = self.summary(&packet).await?;
                let past = self.live.stores().clock.now() >= packet.terms.expires_at;
                let status = status(&packet.terms, &summary, summary.decided_count() == packet.terms.count, past);
                Ok::<_, Failure>(SentRecord { terms: packet.terms, status, summary })
            })
            .buffered(PACKETS_AT_ONCE)
            .try_collect()
            .await?;
        Ok((Slice { rows, next: ids.next }, wallet))
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
        &self.live.stores().ledger
    }

    async fn visible(&self, id: PacketId, viewer: &UserId) -> Result<Viewed<Arc<Terms>>, Failure> {
        Ok(match self.live.stores().packets.terms(id).await? {
            None => Viewed::NotFound,
            Some(terms) if terms.sender == *viewer || terms.guard.invites(viewer) => Viewed::Shown(terms),
            Some(_) => Viewed::NotForYou,
        })
    }

    async fn summary(&self, packet: &Packet) -> Result<Summary, Failure> {
        match &packet.settled {
            Some(summary) => Ok(summary.clone()),
            None => Ok(Summary::of(&self.ledger().decisions(packet.terms.id, 0..packet.terms.count).await?)),
        }
    }

    /// Whether a packet has expired. For a packet that can still change, the time before the read counts, because the snapshot may
    /// lack later events.
    fn is_past(&self, terms: &Terms, snapshot: &PacketSnapshot) -> bool {
        if snapshot.is_decided { self.live.stores().clock.now() >= terms.expires_at } else { snapshot.is_past }
    }
}

fn status(terms: &Terms, summary: &Summary, is_decided: bool, past: bool) -> Status {
    if past && is_decided {
        Status::Settled
    } else if summary.claimed_count == terms.count {
        Status::SoldOut
    } else if past {
        Status::Expired
    } else {
        Status::Open
    }
}
