//! The list of a packet's claims: in slip order, or the newest first.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::evidence::{Depth, Evidence, Span};
use super::slips::Moment;
use super::{ViewPackets, Viewed};
use crate::domain::{Claim, PacketId, Terms, UserId};
use crate::ledger::Slice;
use crate::lock;
use crate::ports::{HotStore, Table};
use crate::service::Failure;

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

/// A place in a packet's list of claims.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListPlace {
    /// In slip order: the last slip that was listed.
    Slip(u32),
    /// Of the newest first: a time and a slip, as one number.
    Time(u64),
}

impl ListPlace {
    const fn moment(self) -> Option<Moment> {
        match self {
            Self::Slip(_) => None,
            Self::Time(number) => Some(Moment::from_number(number)),
        }
    }

    fn of(moment: Moment) -> Self {
        Self::Time(moment.number())
    }
}

impl fmt::Display for ListPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slip(slip) => write!(f, "{slip}"),
            Self::Time(number) => write!(f, "t{number}"),
        }
    }
}

impl FromStr for ListPlace {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('t') {
            Some(number) => number.parse().map(Self::Time),
            None => text.parse().map(Self::Slip),
        }
    }
}

/// The order of a list of claims.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// By slip.
    Slip,
    /// The newest first, down to `after`. A large packet that is settled has slip order all the same, and all of its claims are listed.
    Newest {
        /// The `newest` of an earlier list.
        after: Option<ListPlace>,
    },
}

/// The piece of a list of claims that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimsAsked {
    /// The list's order.
    pub order: Order,
    /// Where the last piece ended; `None`: at the beginning of the list.
    pub cursor: Option<ListPlace>,
    /// The most claims.
    pub limit: u32,
}

/// A page of a packet's list of claims.
#[derive(Clone, Debug)]
pub struct ClaimsView {
    /// The packet's terms.
    pub terms: Arc<Terms>,
    /// The page.
    pub claims: Slice<ListedClaim, ListPlace>,
    /// The place from which a later list of the newest claims goes on. `None` in slip order.
    pub newest: Option<ListPlace>,
    /// Whether nothing of the list changes any more.
    pub is_final: bool,
}

impl ClaimsAsked {
    fn span(&self, is_by_slip: bool) -> Span {
        match (self.order, self.cursor) {
            (_, Some(ListPlace::Slip(slip))) => Span::From(slip.saturating_add(1)),
            (Order::Newest { after }, cursor) if !is_by_slip => {
                Span::Newest { after: after.and_then(ListPlace::moment), before: cursor.and_then(ListPlace::moment) }
            }
            _ => Span::From(0),
        }
    }
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// A piece of the list of a packet's claims, for `viewer`.
    pub async fn claims(
        &self,
        id: PacketId,
        viewer: &UserId,
        asked: &ClaimsAsked,
    ) -> Result<Viewed<ClaimsView>, Failure> {
        let terms = match self.visible(id, viewer).await? {
            Viewed::Shown(terms) => terms,
            Viewed::NotForYou => return Ok(Viewed::NotForYou),
            Viewed::NotFound => return Ok(Viewed::NotFound),
        };
        let shared = self.live.look(&terms, Depth::Reported).await?;
        if !lock(&shared).is_decided() {
            self.live.claim_of(&terms, &shared, viewer).await?;
        }
        // One more shows whether there is a next page.
        let limit = asked.limit as usize;
        loop {
            let is_by_slip = |evidence: &Evidence| evidence.is_listed_by_slip(self.is_past(&terms, evidence));
            let was_by_slip = is_by_slip(&lock(&shared));
            let span = asked.span(was_by_slip);
            self.live.read_page(&terms, &shared, span, limit + 1).await?;
            let evidence = lock(&shared);
            if is_by_slip(&evidence) != was_by_slip {
                continue;
            }
            let (mut claims, is_final) = (evidence.claims(span, limit + 1), evidence.is_decided());
            let best = evidence.summary().best.filter(|_| is_final).map(|best| best.slip);
            let newest = matches!(span, Span::Newest { .. }).then(|| ListPlace::of(evidence.complete()));
            drop(evidence);
            let more = claims.len() > limit;
            claims.truncate(limit);
            let place = |(_, claim): &(UserId, Claim)| match span {
                Span::From(_) => ListPlace::Slip(claim.slip),
                Span::Newest { .. } => ListPlace::of(Moment::of(claim.at, claim.slip)),
            };
            let next = if more { claims.last().map(place) } else { None };
            let listed = |(user, claim): (UserId, Claim)| ListedClaim { user, best: best == Some(claim.slip), claim };
            let claims = Slice { rows: claims.into_iter().map(listed).collect(), next };
            return Ok(Viewed::Shown(ClaimsView { terms, claims, newest, is_final }));
        }
    }
}
