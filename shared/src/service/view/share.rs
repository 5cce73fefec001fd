//! What one user has of a packet, for the operator's staff.

use std::sync::Arc;

use futures::future::try_join_all;
use serde::Serialize;

use super::ViewPackets;
use crate::domain::{AckMode, Amount, Claim, Hold, PacketId, PartId, Signer, Status, Terms, Timestamp, UserId};
use crate::ports::{HotStore, Table};
use crate::service::{Failure, Stores};

/// What a user has of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Share {
    /// A claim in the ledger. Settle or their own grab committed it, or else `by`: a repair.
    Claimed {
        /// The claim.
        claim: Claim,
        /// Who repaired it.
        by: Option<Signer>,
    },
    /// A slip that is held for them, and undecided: their next grab or settle may make a claim of it. A parked one stays so.
    Held {
        /// The slip.
        slip: u32,
        /// When it was held.
        at: Timestamp,
        /// What was promised to them, if the packet is acknowledged on the hot store's word.
        promised: Option<Amount>,
    },
    /// A slip was held for them, but it went back to the sender before it was claimed. Once the hot store knows that, they have nothing.
    Refunded {
        /// The slip.
        slip: u32,
        /// When it went back.
        at: Timestamp,
    },
    /// Nothing.
    None,
}

/// What keeps a user from winning a slip of a packet, as the ledger knows it now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The packet has recipients, and they are not one of them.
    NotARecipient,
    /// They are suspended, and may not grab.
    Suspended,
    /// They have won what the packet's limit lets one user win.
    LimitReached,
}

/// What a user has of a packet, and what says why that is all.
#[derive(Clone, Debug)]
pub struct ShareView {
    /// The packet's terms.
    pub terms: Arc<Terms>,
    /// Its state.
    pub status: Status,
    /// What they have.
    pub share: Share,
    /// What keeps them from having more, if they have nothing.
    pub obstacles: Vec<Obstacle>,
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// What a user has of a packet. `None`: there is no such packet.
    pub async fn share(&self, id: PacketId, user: &UserId) -> Result<Option<ShareView>, Failure> {
        let Some(terms) = self.reads.stores.packets.terms(id).await? else { return Ok(None) };
        let mut share = self.claimed_by(user, id).await?;
        if share == Share::None {
            let held = self.held_by(user, &terms).await?;
            // The claim is read once more, and last: if the hold has become one meanwhile, its decision and its claim came together.
            share = self.claimed_by(user, id).await?;
            if share == Share::None {
                share = held;
            }
        }
        let obstacles = if share == Share::None { self.obstacles(&terms, user).await? } else { Vec::new() };
        let status = self.view(Arc::clone(&terms), None).await?.status;
        Ok(Some(ShareView { terms, status, share, obstacles }))
    }

    async fn claimed_by(&self, user: &UserId, id: PacketId) -> Result<Share, Failure> {
        let claimed = self.ledger().signed_claim_of(user, id).await?;
        Ok(claimed.map_or(Share::None, |(claim, by)| Share::Claimed { claim, by }))
    }

    /// What becomes of a hold depends on whether the ledger has a decision of its slip.
    async fn held_by(&self, user: &UserId, terms: &Terms) -> Result<Share, Failure> {
        let Stores { ledger, hot, packets, .. } = &self.reads.stores;
        let entries = try_join_all(terms.id.parts().map(|part| hot.outbox(part))).await?;
        let mut holds = entries.into_iter().flatten().map(|entry| entry.hold);
        let Some(Hold { slip, at, .. }) = holds.find(|hold| hold.user == *user) else { return Ok(Share::None) };
        match ledger.decision(terms.id, slip).await? {
            Some(decision) if decision.owner.user().is_none() => Ok(Share::Refunded { slip, at: decision.at }),
            Some(_) => Ok(Share::None),
            None => {
                let promised = match PartId::of_slip(terms.id, terms.count, slip) {
                    Some(part) if terms.ack == AckMode::Redis => packets.amount(part, terms, slip).await?,
                    _ => None,
                };
                Ok(Share::Held { slip, at, promised })
            }
        }
    }

    async fn obstacles(&self, terms: &Terms, user: &UserId) -> Result<Vec<Obstacle>, Failure> {
        let (_, suspension) = self.ledger().account(user).await?;
        let is_limited = match &terms.limit {
            Some(limit) => !limit.allows(self.ledger().won(user, &terms.sender, limit).await?, terms.least_slip()),
            None => false,
        };
        let is_invited = *user == terms.sender || terms.guard.invites(user);
        let known = [
            (!is_invited, Obstacle::NotARecipient),
            (suspension.is_some_and(|suspension| suspension.grabs), Obstacle::Suspended),
            (is_limited, Obstacle::LimitReached),
        ];
        Ok(known.into_iter().filter_map(|(is_there, obstacle)| is_there.then_some(obstacle)).collect())
    }
}
