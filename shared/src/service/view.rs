use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Failure;
use super::environment::Clock;
use crate::domain::{Claim, Fence, PacketId, Terms, UserId};
use crate::dynamo::{ClaimRecord, Ledger, Packet, Slice, Summary, Table, Wallet};

/// Slips whose fences are read at once in search of a page of claims.
const WINDOW: u32 = 1_024;
/// Packets of one page whose fences are read at once.
const PACKETS_AT_ONCE: usize = 8;

/// What a packet is at, as users see it.
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

/// An answer about a packet, for those who may look at it.
#[derive(Clone, Debug)]
pub enum Viewed<V> {
    /// Here it is.
    Shown(V),
    /// It is for others.
    NotForYou,
    /// There is no such packet.
    NotFound,
}

/// A packet as one of its viewers sees it.
#[derive(Clone, Debug)]
pub struct PacketView {
    /// Its terms. What is secret in them the edge leaves out.
    pub terms: Terms,
    /// What it is at.
    pub status: Status,
    /// What its fences sum to.
    pub summary: Summary,
    /// The viewer's own claim.
    pub mine: Option<Claim>,
    /// Whether nobody can win any more: then the luckiest claim and the seed are shown.
    pub over: bool,
}

/// A claim in a packet's list.
#[derive(Clone, Debug)]
pub struct ListedClaim {
    /// Who.
    pub user: UserId,
    /// What.
    pub claim: Claim,
    /// Whether it is the luckiest, once nobody can win any more.
    pub best: bool,
}

/// A packet in its sender's history.
#[derive(Clone, Debug)]
pub struct SentRecord {
    /// Its terms.
    pub terms: Terms,
    /// What it is at.
    pub status: Status,
    /// What its fences sum to.
    pub summary: Summary,
}

/// The use case of looking. It reads the ledger alone, so what it shows is true.
pub struct ViewPackets<T> {
    ledger: Arc<Ledger<T>>,
    clock: Arc<dyn Clock>,
    currency: String,
}

impl<T: Table> ViewPackets<T> {
    /// Over the ledger, whose money is all in `currency`.
    pub const fn new(ledger: Arc<Ledger<T>>, clock: Arc<dyn Clock>, currency: String) -> Self {
        Self { ledger, clock, currency }
    }

    /// The currency of every wallet (ISO 4217).
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// A packet, for `viewer`.
    pub async fn packet(&self, id: PacketId, viewer: &UserId) -> Result<Viewed<PacketView>, Failure> {
        let packet = match self.visible(id, viewer).await? {
            Viewed::Shown(packet) => packet,
            Viewed::NotForYou => return Ok(Viewed::NotForYou),
            Viewed::NotFound => return Ok(Viewed::NotFound),
        };
        let mine = self.ledger.claim_of(viewer, id).await?;
        let summary = self.summary(&packet).await?;
        let terms = packet.terms;
        let (status, over) = (self.status(&terms, &summary), self.is_over(&terms, &summary));
        Ok(Viewed::Shown(PacketView { terms, status, summary, mine, over }))
    }

    /// Up to `limit` claims of a packet in slip order, of slips after `after`, for `viewer`.
    pub async fn claims(
        &self,
        id: PacketId,
        viewer: &UserId,
        after: Option<u32>,
        limit: u32,
    ) -> Result<Viewed<Slice<ListedClaim, u32>>, Failure> {
        let packet = match self.visible(id, viewer).await? {
            Viewed::Shown(packet) => packet,
            Viewed::NotForYou => return Ok(Viewed::NotForYou),
            Viewed::NotFound => return Ok(Viewed::NotFound),
        };
        let count = packet.terms.count;
        let mut claims: Vec<(UserId, Claim)> = Vec::new();
        let mut start = after.map_or(0, |slip| slip.saturating_add(1));
        while start < count && claims.len() <= limit as usize {
            let end = start.saturating_add(WINDOW).min(count);
            let fences = self.ledger.fences(id, start..end).await?;
            claims.extend(fences.iter().filter_map(Fence::claim).map(|(user, claim)| (user.clone(), claim)));
            start = end;
        }
        let more = claims.len() > limit as usize;
        claims.truncate(limit as usize);
        let next = if more { claims.last().map(|(_, claim)| claim.slip) } else { None };

        let best = self.best_slip(&packet).await?;
        let listed = |(user, claim): (UserId, Claim)| ListedClaim { user, best: best == Some(claim.slip), claim };
        Ok(Viewed::Shown(Slice { rows: claims.into_iter().map(listed).collect(), next }))
    }

    /// A user's wallet.
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, Failure> {
        Ok(self.ledger.wallet(user).await?)
    }

    /// Up to `limit` packets that a user sent, the newest first, before `before`; and his wallet, for the totals.
    pub async fn sent(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<(Slice<SentRecord, PacketId>, Wallet), Failure> {
        let (ids, wallet) = futures::try_join!(self.ledger.sent(user, before, limit), self.ledger.wallet(user))?;
        let mut packets = if ids.rows.is_empty() { Vec::new() } else { self.ledger.packets(&ids.rows).await? };
        packets.sort_by_key(|packet| std::cmp::Reverse(packet.terms.id));
        let rows = stream::iter(packets)
            .map(|packet| async move {
                let summary = self.summary(&packet).await?;
                let status = self.status(&packet.terms, &summary);
                Ok::<_, Failure>(SentRecord { terms: packet.terms, status, summary })
            })
            .buffered(PACKETS_AT_ONCE)
            .try_collect()
            .await?;
        Ok((Slice { rows, next: ids.next }, wallet))
    }

    /// Up to `limit` slips that a user claimed, those of the newest packets first, before packet `before`; and his wallet,
    /// for the totals.
    pub async fn claimed(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<(Slice<ClaimRecord, PacketId>, Wallet), Failure> {
        Ok(futures::try_join!(self.ledger.claims(user, before, limit), self.ledger.wallet(user))?)
    }

    async fn visible(&self, id: PacketId, viewer: &UserId) -> Result<Viewed<Packet>, Failure> {
        Ok(match self.ledger.packet(id).await? {
            None => Viewed::NotFound,
            Some(packet) if packet.terms.sender == *viewer || packet.terms.guard.invites(viewer) => {
                Viewed::Shown(packet)
            }
            Some(_) => Viewed::NotForYou,
        })
    }

    async fn summary(&self, packet: &Packet) -> Result<Summary, Failure> {
        match &packet.closed {
            Some(summary) => Ok(summary.clone()),
            None => Ok(Summary::of(&self.ledger.fences(packet.terms.id, 0..packet.terms.count).await?)),
        }
    }

    async fn best_slip(&self, packet: &Packet) -> Result<Option<u32>, Failure> {
        let summary = self.summary(packet).await?;
        let over = self.is_over(&packet.terms, &summary);
        Ok(summary.best.filter(|_| over).map(|best| best.slip))
    }

    fn is_over(&self, terms: &Terms, summary: &Summary) -> bool {
        summary.fenced_count() == terms.count || self.clock.now() >= terms.expires_at
    }

    fn status(&self, terms: &Terms, summary: &Summary) -> Status {
        let past = self.clock.now() >= terms.expires_at;
        if past && summary.fenced_count() == terms.count {
            Status::Settled
        } else if summary.claimed_count == terms.count {
            Status::SoldOut
        } else if past {
            Status::Expired
        } else {
            Status::Open
        }
    }
}
